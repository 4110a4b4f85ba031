import { expect, test } from "vitest";
import { hasStoredSession, rememberSession, sessionStorageAdapter } from "./session-storage";

const key = "sb-localhost-auth-token";

test("a remembered session is for every tab", () => {
  rememberSession(true);
  sessionStorageAdapter.setItem(key, "session");
  expect(localStorage.getItem(key)).toBe("session");
  expect(sessionStorage.getItem(key)).toBeNull();
  expect(hasStoredSession()).toBe(true);
});

test("another is for this tab, refreshed tokens too", () => {
  rememberSession(false);
  sessionStorageAdapter.setItem(key, "session");
  sessionStorageAdapter.setItem(key, "refreshed");
  expect(localStorage.getItem(key)).toBeNull();
  expect(sessionStorageAdapter.getItem(key)).toBe("refreshed");
  expect(hasStoredSession()).toBe(true);
});

test("signing out leaves no session behind, wherever it was", () => {
  localStorage.setItem(key, "old");
  sessionStorage.setItem(key, "new");
  sessionStorageAdapter.removeItem(key);
  expect(sessionStorageAdapter.getItem(key)).toBeNull();
  expect(hasStoredSession()).toBe(false);
});
