import { expect, test } from "vitest";
import { operatorSchema } from "./schema";

const empty = { name: "", address: "", email: "" };

test("operator may be left empty", () => {
  expect(operatorSchema.parse({ ...empty, name: " ", email: " " })).toEqual(empty);
});

test.each([
  [{ email: "nowhere" }, "Must be a valid email address"],
  [{ email: `${"a".repeat(250)}@example.org` }, "Must be a valid email address"],
  [{ name: "x".repeat(201) }, "Name must be at most 200 characters"],
  [{ address: "x".repeat(501) }, "Address must be at most 500 characters"],
])("operator is refused with a reason", (wrong, message) => {
  expect(operatorSchema.safeParse({ ...empty, ...wrong }).error?.issues[0]?.message).toBe(message);
});
