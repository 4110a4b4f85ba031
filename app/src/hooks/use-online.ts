import { useSyncExternalStore } from "react";

function watch(changed: () => void) {
  window.addEventListener("online", changed);
  window.addEventListener("offline", changed);
  return () => {
    window.removeEventListener("online", changed);
    window.removeEventListener("offline", changed);
  };
}

/** What the browser knows: false is certain, true only means that there is some network. */
export function useOnline() {
  return useSyncExternalStore(watch, () => navigator.onLine);
}
