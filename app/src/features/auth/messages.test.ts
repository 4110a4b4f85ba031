import { AuthApiError, AuthRetryableFetchError, AuthWeakPasswordError } from "@supabase/supabase-js";
import { expect, test } from "vitest";
import { loginFailure, signUpErrorField } from "./messages";

test.each([
  ["Invalid login credentials", "Invalid email or password. Please try again.", false],
  ["Email not confirmed", "Please check your email to confirm your account before logging in.", false],
  ["User not found", "We couldn't find an account with this email. Would you like to sign up?", true],
  ["Request rate limit reached", "Request rate limit reached", false],
  ["", "An error occurred during login. Please try again.", false],
])("%j is shown as %j", (fromServer, message, offerSignUp) => {
  expect(loginFailure(new AuthApiError(fromServer, 400, undefined))).toEqual({ message, offerSignUp });
});

test("unreachable server has its own message", () => {
  const { message } = loginFailure(new AuthRetryableFetchError("fetch failed somehow", 0));
  expect(message).toBe("The server could not be reached. Check your connection and try again.");
});

test("field errors are assigned to their field", () => {
  expect(signUpErrorField(new AuthApiError("User already registered", 422, "user_already_exists"))).toBe("email");
  expect(signUpErrorField(new AuthWeakPasswordError("Password should be ...", 422, ["length"]))).toBe("password");
  expect(signUpErrorField(new AuthApiError("Signups not allowed", 422, "signup_disabled"))).toBeNull();
});
