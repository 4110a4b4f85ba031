import { describe, expect, test } from "vitest";
import type * as z from "zod/mini";
import { forgotPasswordSchema, loginSchema, resetPasswordSchema, signUpSchema } from "./schema";

const signUp = { organization: "Food Bank", email: "a@b.org", password: "secret", terms: true };

function messages(schema: z.ZodMiniType, values: unknown) {
  const issues = schema.safeParse(values).error?.issues ?? [];
  return Object.fromEntries(issues.map((issue) => [issue.path.join("."), issue.message]));
}

describe("sign-up", () => {
  test("accepts the minimum allowed values", () => {
    expect(messages(signUpSchema, { ...signUp, organization: "AB", password: "123456" })).toEqual({});
  });

  test("shows the specified messages", () => {
    expect(messages(signUpSchema, { organization: " A ", email: "a@b", password: "12345", terms: false })).toEqual({
      organization: "Organization name is required",
      email: "Please enter a valid email address",
      password: "Password must be at least 6 characters",
      terms: "You must agree to the terms and privacy policy",
    });
  });
});

test("login requires an address and six characters", () => {
  expect(messages(loginSchema, { email: "", password: "", rememberMe: false })).toEqual({
    email: "Please enter a valid email address",
    password: "Password must be at least 6 characters",
  });
});

test("reset requires an address", () => {
  expect(messages(forgotPasswordSchema, { email: "maria" })).toEqual({ email: "Please enter a valid email address" });
});

test.each([
  ["secret", "secret", {}],
  ["secret", "secrets", { confirmPassword: "Passwords do not match" }],
  [
    "five5",
    "five5",
    {
      password: "Password must be at least 6 characters",
      confirmPassword: "Password must be at least 6 characters",
    },
  ],
])("a new password, twice the same: %j and %j", (password, confirmPassword, expected) => {
  expect(messages(resetPasswordSchema, { password, confirmPassword })).toEqual(expected);
});
