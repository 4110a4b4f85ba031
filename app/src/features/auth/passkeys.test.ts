import { describe, expect, it } from "vitest";
import { passkeyFailure } from "./passkeys";

const coded = (code: string, message = "") => Object.assign(new Error(message), { code });

describe("passkeyFailure", () => {
  it("treats a dismissed prompt and a timeout alike, as browsers do", () => {
    const dismissed = new DOMException("The operation either timed out or was not allowed.", "NotAllowedError");
    expect(passkeyFailure(Object.assign(new Error("x"), { name: "NotAllowedError" }))).toMatch(
      /canceled, or timed out/,
    );
    expect(passkeyFailure(dismissed)).toMatch(/canceled, or timed out/);
    expect(passkeyFailure(coded("ERROR_CEREMONY_ABORTED"))).toMatch(/canceled, or timed out/);
  });

  it("explains the server's codes and keeps other messages", () => {
    expect(passkeyFailure(coded("webauthn_credential_not_found"))).toMatch(/may have been removed/);
    expect(passkeyFailure(coded("too_many_passkeys"))).toMatch(/Remove one first/);
    expect(passkeyFailure(coded("user_banned", "User is banned"))).toBe("User is banned");
  });
});
