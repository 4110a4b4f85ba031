import { expect, test } from "vitest";
import { readMailLink } from "./mail-link";

const nothing = { accessToken: null, userId: null, type: null, error: null };

test("accepted link has a token and its type", () => {
  const claims = btoa(JSON.stringify({ sub: "8f1f2a52-54a8-4a0f-8b9d-3f1f5ad1cf0e" })).replaceAll("=", "");
  const token = `e30.${claims}.c2ln`;
  expect(readMailLink(`#access_token=${token}&expires_in=3600&refresh_token=x&sb=&type=recovery`)).toEqual({
    accessToken: token,
    userId: "8f1f2a52-54a8-4a0f-8b9d-3f1f5ad1cf0e",
    type: "recovery",
    error: null,
  });
});

test("rejected link has the reason", () => {
  const fragment =
    "#error=access_denied&error_code=otp_expired&error_description=Email+link+is+invalid+or+has+expired&sb=";
  expect(readMailLink(fragment)).toEqual({ ...nothing, error: "Email link is invalid or has expired" });
});

test.each(["not-a-token", "a.b.c", `a.${btoa("7")}.c`, `a.${btoa('{"sub":7}')}.c`])(
  "a token that is none names nobody: %s",
  (token) => {
    expect(readMailLink(`#access_token=${token}`)).toEqual({ ...nothing, accessToken: token });
  },
);

test.each(["", "#", "#features", "#access_token="])("ignores other addresses: %j", (hash) => {
  expect(readMailLink(hash)).toEqual(nothing);
});
