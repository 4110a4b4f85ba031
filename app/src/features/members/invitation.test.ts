import { afterEach, expect, test, vi } from "vitest";
import { forgetPendingInvite, invitePath, isExpired, keepPendingInvite, pendingInvite } from "./invitation";

const key = { token: "5eed0000-0000-4000-8000-000000000001", planId: "5eed1000-0000-4000-8000-000000000001" };

afterEach(() => {
  localStorage.clear();
  vi.useRealTimers();
});

test("link contains token and plan", () =>
  expect(invitePath(key)).toBe(`/invite?token=${key.token}&plan=${key.planId}`));

test("accepted invitation survives sign-in once", () => {
  expect(pendingInvite()).toBeNull();
  keepPendingInvite(key);
  expect(pendingInvite()).toEqual(key);
  forgetPendingInvite();
  expect(pendingInvite()).toBeNull();
});

test("invalid stored data is ignored", () => {
  for (const value of ["", "{", "1", '{"token":1}']) {
    localStorage.setItem("basalt.pending-invite", value);
    expect(pendingInvite()).toBeNull();
  }
});

test("both expire after 14 days", () => {
  vi.useFakeTimers({ now: new Date("2027-01-01T12:00:00Z") });
  keepPendingInvite(key);
  vi.setSystemTime("2027-01-15T11:59:00Z");
  expect(pendingInvite()).toEqual(key);
  expect(isExpired("2027-01-01T12:00:00+00:00")).toBe(false);
  vi.setSystemTime("2027-01-15T12:01:00Z");
  expect(pendingInvite()).toBeNull();
  expect(isExpired("2027-01-01T12:00:00+00:00")).toBe(true);
});
