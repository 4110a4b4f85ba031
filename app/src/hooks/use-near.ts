import { useCallback, useState } from "react";

/** Whether the place has come within half a screen of being seen: what lies far below the first screen is not fetched before. */
export function useNear() {
  const [near, setNear] = useState(false);
  const place = useCallback((element: Element | null) => {
    if (!element) return;
    const observer = new IntersectionObserver(
      (entries) => {
        // One call can report several changes: while the page is busy, "far" and "near" arrive together, oldest first.
        if (entries.some(({ isIntersecting }) => isIntersecting)) setNear(true);
      },
      { rootMargin: "50% 0%" },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return { place, near };
}
