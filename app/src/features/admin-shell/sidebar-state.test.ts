import { act, renderHook } from "@testing-library/react";
import { expect, test } from "vitest";
import { readSidebarCookie, useSidebar } from "./sidebar-state";

test.each([
  ["", true],
  ["theme=dark", true],
  ["a=1; sidebar_state=collapsed; b=2", false],
  ["sidebar_state=expanded", true],
  ["other_sidebar_state=collapsed", true],
])("the cookie %j means open: %s", (cookies, open) => {
  expect(readSidebarCookie(cookies)).toBe(open);
});

function press(init: KeyboardEventInit, target: EventTarget = window) {
  const event = new KeyboardEvent("keydown", { key: "b", bubbles: true, cancelable: true, ...init });
  act(() => void target.dispatchEvent(event));
  return event;
}

test("Ctrl/Cmd+B toggles the sidebar and sets the cookie", () => {
  const { result } = renderHook(() => useSidebar("/admin"));
  expect(result.current.open).toBe(true);
  expect(press({ ctrlKey: true }).defaultPrevented).toBe(true);
  expect(result.current.open).toBe(false);
  expect(document.cookie).toContain("sidebar_state=collapsed");
  press({ metaKey: true });
  expect(result.current.open).toBe(true);
  expect(document.cookie).toContain("sidebar_state=expanded");
});

test("other keys do not toggle the sidebar", () => {
  const { result } = renderHook(() => useSidebar("/admin"));
  press({});
  press({ ctrlKey: true, shiftKey: true });
  press({ ctrlKey: true, key: "i" });
  expect(result.current.open).toBe(true);
});
