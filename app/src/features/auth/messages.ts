import { codeOf, messageOf } from "@/lib/errors";

export interface LoginFailure {
  message: string;
  /** The address is unknown: signing up may be what the person wants. */
  offerSignUp: boolean;
}

/** A sign-in error of the server, in the app's words. */
export function loginFailure(error: unknown): LoginFailure {
  const message = messageOf(error, "An error occurred during login. Please try again.");
  switch (message) {
    case "Invalid login credentials":
      return { message: "Invalid email or password. Please try again.", offerSignUp: false };
    case "Email not confirmed":
      return { message: "Please check your email to confirm your account before logging in.", offerSignUp: false };
    case "User not found":
      return {
        message: "We couldn't find an account with this email. Would you like to sign up?",
        offerSignUp: true,
      };
    default:
      return { message, offerSignUp: false };
  }
}

/** For what is no answer of the server at all. */
export const unexpectedFailure: LoginFailure = {
  message: "An unexpected error occurred. Please try again later.",
  offerSignUp: false,
};

/** The field of the sign-up form that an error of the server is about, if it is about one. */
export function signUpErrorField(error: unknown): "email" | "password" | null {
  switch (codeOf(error)) {
    case "user_already_exists":
    case "email_exists":
    case "email_address_invalid":
    case "email_address_not_authorized":
      return "email";
    case "weak_password":
      return "password";
    default:
      return null;
  }
}

/** Someone has an account with this address, the same person most likely. */
export function isKnownAddress(error: unknown) {
  const code = codeOf(error);
  return code === "user_already_exists" || code === "email_exists";
}

/** For /reset-password without a link's token, or with one that opened no session. */
export const invalidResetLink = "Invalid or expired password reset link. Please request a new one.";
