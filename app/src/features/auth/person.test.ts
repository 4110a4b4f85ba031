import { expect, test } from "vitest";
import { avatarOf, displayName, initialOf } from "./person";

test.each([
  [{ email: "maria@river.org", user_metadata: { name: "Maria Lund" } }, "Maria Lund"],
  [{ email: "maria@river.org", user_metadata: { name: "  " } }, "Maria"],
  [{ email: "maria@river.org", user_metadata: {} }, "Maria"],
  [{ email: "", user_metadata: {} }, "User"],
])("display name %#", (person, name) => {
  expect(displayName(person)).toBe(name);
});

test("ignores metadata that is not text", () => {
  const person = { email: "x@y.org", user_metadata: { name: { first: "X" }, avatar_url: 7 } };
  expect(displayName(person)).toBe("X");
  expect(avatarOf(person)).toBeUndefined();
  expect(initialOf(person)).toBe("X");
});
