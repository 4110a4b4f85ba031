import { expect, test } from "vitest";
import { hasStoredSession, rememberSession, sessionStorageAdapter } from "./session-storage";

const key = "sb-localhost-auth-token";

test("remembered session is shared by all tabs", () => {
  rememberSession(true);
  sessionStorageAdapter.setItem(key, "session");
  expect(localStorage.getItem(key)).toBe("session");
  expect(sessionStorage.getItem(key)).toBeNull();
  expect(hasStoredSession()).toBe(true);
});

test("unremembered session stays in its tab", () => {
  rememberSession(false);
  sessionStorageAdapter.setItem(key, "session");
  sessionStorageAdapter.setItem(key, "refreshed");
  expect(localStorage.getItem(key)).toBeNull();
  expect(sessionStorageAdapter.getItem(key)).toBe("refreshed");
  expect(hasStoredSession()).toBe(true);
});

test("signing out clears both storages", () => {
  localStorage.setItem(key, "old");
  sessionStorage.setItem(key, "new");
  sessionStorageAdapter.removeItem(key);
  expect(sessionStorageAdapter.getItem(key)).toBeNull();
  expect(hasStoredSession()).toBe(false);
});
