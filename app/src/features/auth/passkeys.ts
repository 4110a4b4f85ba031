import { codeOf, messageOf } from "@/lib/errors";

/** The message for a failed passkey request of the browser or the server. */
export function passkeyFailure(error: unknown) {
  const name = error instanceof Error ? error.name : "";
  if (name === "NotAllowedError" || name === "AbortError") return "The request was canceled, or timed out.";
  switch (codeOf(error)) {
    case "ERROR_CEREMONY_ABORTED":
      return "The request was canceled, or timed out.";
    case "ERROR_AUTHENTICATOR_PREVIOUSLY_REGISTERED":
      return "This device already has a passkey for your account.";
    case "webauthn_credential_not_found":
      return "This passkey does not belong to an account here. It may have been removed.";
    case "webauthn_challenge_expired":
    case "webauthn_challenge_not_found":
      return "The request took too long. Try again.";
    case "webauthn_verification_failed":
      return "The server did not accept the passkey. Try again.";
    case "too_many_passkeys":
      return "You have as many passkeys as this server allows. Remove one first.";
    case "insufficient_aal":
      return "Log in with the code of your authenticator app first.";
    default:
      return messageOf(error);
  }
}
