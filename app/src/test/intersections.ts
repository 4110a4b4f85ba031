import { act } from "@testing-library/react";
import { vi } from "vitest";

/** Replaces the observer, which jsdom lacks. `report` delivers entries, oldest first, in one call, as a busy browser does. */
export function stubIntersections() {
  const callbacks = new Set<IntersectionObserverCallback>();
  vi.stubGlobal(
    "IntersectionObserver",
    class {
      callback: IntersectionObserverCallback;
      constructor(callback: IntersectionObserverCallback) {
        this.callback = callback;
      }
      observe() {
        callbacks.add(this.callback);
      }
      disconnect() {
        callbacks.delete(this.callback);
      }
    },
  );
  const report = (...entries: { isIntersecting: boolean; top?: number }[]) =>
    act(() => {
      const list = entries.map(
        ({ isIntersecting, top = 0 }) => ({ isIntersecting, boundingClientRect: { top } }) as IntersectionObserverEntry,
      );
      for (const callback of callbacks) callback(list, {} as IntersectionObserver);
    });
  return { report };
}
