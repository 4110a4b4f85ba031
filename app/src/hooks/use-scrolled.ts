import { useSyncExternalStore } from "react";

function watchScroll(changed: () => void) {
  window.addEventListener("scroll", changed, { passive: true });
  return () => window.removeEventListener("scroll", changed);
}

/** Whether the page is scrolled further than this. */
export function useScrolled(thresholdPx: number) {
  return useSyncExternalStore(watchScroll, () => window.scrollY > thresholdPx);
}
