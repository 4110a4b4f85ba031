import { useSyncExternalStore } from "react";

// The specification's breakpoint; Tailwind's `md` is the same.
const query = "(max-width: 767px)";

function watchWidth(changed: () => void) {
  const list = window.matchMedia(query);
  list.addEventListener("change", changed);
  return () => list.removeEventListener("change", changed);
}

export function useIsMobile() {
  return useSyncExternalStore(watchWidth, () => window.matchMedia(query).matches);
}
