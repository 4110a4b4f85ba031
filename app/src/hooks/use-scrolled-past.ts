import { type RefObject, useEffect, useState } from "react";

/** Whether an element has left the window over its upper edge, or under what covers the first pixels there. */
export function useScrolledPast(element: RefObject<Element | null>, coveredPx: number) {
  const [past, setPast] = useState(false);
  useEffect(() => {
    if (!element.current) return;
    const observer = new IntersectionObserver(
      (entries) => {
        // Oldest first: the last one is how it is now.
        const now = entries.at(-1);
        setPast(now !== undefined && !now.isIntersecting && now.boundingClientRect.top < coveredPx);
      },
      { rootMargin: `-${coveredPx}px 0px 0px` },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [element, coveredPx]);
  return past;
}
