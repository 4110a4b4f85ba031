import { expect, test } from "vitest";
import { invitedHeading, invitedIn, invitedState } from "./invited";

const invited = {
  planTitle: "Warm meals",
  inviter: "Maria",
  email: "ana@river.org",
  proof: "5eed0000-0000-4000-8000-000000000001",
  path: "/invite?token=1&plan=2",
};

test("history state carries the invitation", () => {
  expect(invitedIn(invitedState(invited))).toEqual(invited);
  expect(invitedState(invited).returnTo).toBe(invited.path);
  for (const state of [null, 1, {}, { invited: null }, { invited: { planTitle: "x" } }]) {
    expect(invitedIn(state)).toBeNull();
  }
});

test("heading names the plan and who invites", () => {
  expect(invitedHeading(invited)).toBe("You are invited to Warm meals by Maria");
  expect(invitedHeading({ ...invited, inviter: null })).toBe("You are invited to Warm meals");
});
