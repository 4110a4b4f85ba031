import type { Factor, User } from "@supabase/supabase-js";
import { expect, test } from "vitest";
import { lacksSecondFactor } from "./second-factor";

const tokenOf = (claims: object) => `header.${btoa(JSON.stringify(claims)).replaceAll("=", "")}.signature`;
const userWith = (...statuses: Factor["status"][]) => ({ factors: statuses.map((status) => ({ status })) }) as User;

test.each([
  ["no factor", userWith(), "aal1", false],
  ["a factor that was never verified", userWith("unverified"), "aal1", false],
  ["a verified factor, not used", userWith("unverified", "verified"), "aal1", true],
  ["a verified factor, used", userWith("verified"), "aal2", false],
])("%s", (_name, user, aal, lacks) => {
  expect(lacksSecondFactor({ access_token: tokenOf({ aal }), user })).toBe(lacks);
});

test("an unreadable token does not count as a used factor", () => {
  expect(lacksSecondFactor({ access_token: "nonsense", user: userWith("verified") })).toBe(true);
});
