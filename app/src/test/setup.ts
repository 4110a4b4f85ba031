import "@testing-library/jest-dom/vitest";
import { cleanup } from "@testing-library/react";
import { afterEach, beforeEach, expect, vi } from "vitest";
import { TestIntersectionObserver } from "./intersections";

// What jsdom lacks, and Radix or the app asks for.
window.matchMedia ??= (media) => {
  const nothing = () => {};
  const list = new EventTarget() as MediaQueryList;
  return Object.assign(list, { matches: false, media, onchange: null, addListener: nothing, removeListener: nothing });
};
globalThis.ResizeObserver ??= class {
  observe() {}
  unobserve() {}
  disconnect() {}
};
globalThis.IntersectionObserver ??= TestIntersectionObserver as unknown as typeof IntersectionObserver;
Element.prototype.scrollIntoView ??= () => {};
Element.prototype.hasPointerCapture ??= () => false;

// lib/basalt.ts asks for the configuration when a test file first imports it.
vi.stubGlobal("fetch", async () => Response.json({ url: window.location.origin, anonKey: "sb_publishable_test" }));

// A warning in a test is a fault that has not been looked at. A test that means to cause one spies on the console itself.
beforeEach(() => {
  vi.stubGlobal("fetch", async (input: RequestInfo | URL) => {
    throw new Error(`A test called ${String(input)} without saying what answers.`);
  });
  for (const level of ["error", "warn"] as const) {
    vi.spyOn(console, level).mockImplementation((...args) => {
      unexpected.push(`console.${level}: ${args.map(String).join(" ")}`);
    });
  }
});

const unexpected: string[] = [];

afterEach(() => {
  cleanup();
  localStorage.clear();
  sessionStorage.clear();
  expect(unexpected.splice(0)).toEqual([]);
});
