import { startTransition, useCallback, useState } from "react";

// One observer for all: a long list has hundreds of places.
const places = new WeakMap<Element, () => void>();
let observer: IntersectionObserver | undefined;

/** Calls `reached` once the element has come within half a screen of being seen. */
function watch(element: Element, reached: () => void) {
  observer ??= new IntersectionObserver(
    (entries) => {
      // One call can report several changes of a place: while the page is busy, "far" and "near" arrive together.
      for (const { target, isIntersecting } of entries) if (isIntersecting) places.get(target)?.();
    },
    { rootMargin: "50% 0%" },
  );
  places.set(element, reached);
  observer.observe(element);
  return () => {
    places.delete(element);
    observer?.unobserve(element);
  };
}

/** Whether the place has come within half a screen of being seen: what lies far below the first screen is not fetched or rendered before. */
export function useNear(nearAtFirst = false) {
  const [near, setNear] = useState(nearAtFirst);
  const place = useCallback(
    (element: Element | null) => {
      // Interruptible: cards rendered on the way must not hold up the scrolling itself.
      if (element && !near) return watch(element, () => startTransition(() => setNear(true)));
    },
    [near],
  );
  return { place, near };
}
