import { act } from "@testing-library/react";

type Report = { isIntersecting: boolean; top?: number };

const observed = new Map<Element, IntersectionObserverCallback>();

/** For jsdom, which has none: reports nothing by itself. */
export class TestIntersectionObserver {
  readonly #callback: IntersectionObserverCallback;
  constructor(callback: IntersectionObserverCallback) {
    this.#callback = callback;
  }
  observe(element: Element) {
    observed.set(element, this.#callback);
  }
  unobserve(element: Element) {
    observed.delete(element);
  }
  disconnect() {
    observed.clear();
  }
}

/** Delivers several reports about an element in one call, oldest first, as a busy browser does. */
export function reportIntersections(element: Element, ...reports: Report[]) {
  const entries = reports.map(
    ({ isIntersecting, top = 0 }) =>
      ({ target: element, isIntersecting, boundingClientRect: { top } }) as unknown as IntersectionObserverEntry,
  );
  act(() => observed.get(element)?.(entries, {} as IntersectionObserver));
}
