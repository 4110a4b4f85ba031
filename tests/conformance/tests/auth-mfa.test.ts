import { createHmac } from "node:crypto";
import { createClient } from "@supabase/supabase-js";
import { expect, test } from "vitest";
import { memory, person, service } from "../support/clients";
import { anonKey, url } from "../support/environment";

/** A signed-in client, which keeps its session. */
async function signedIn() {
  const { email, password } = await person();
  const client = createClient(url, anonKey, { auth: { storage: memory(), autoRefreshToken: false } });
  const { data, error } = await client.auth.signInWithPassword({ email, password });
  if (error) throw error;
  return { client, email, password, id: data.user.id };
}

/** The code that an authenticator app shows (RFC 6238). */
function code(secret: string, later = 0): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  const bits = [...secret].map((character) => alphabet.indexOf(character).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g)?.map((byte) => Number.parseInt(byte, 2)) ?? []);
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + later));
  const mac = createHmac("sha1", key).update(counter).digest();
  const offset = (mac[19] ?? 0) & 15;
  return String((mac.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}

async function enroll(client: Awaited<ReturnType<typeof signedIn>>["client"]) {
  const { data, error } = await client.auth.mfa.enroll({ factorType: "totp", friendlyName: "phone" });
  if (error) throw error;
  return data;
}

test("mfa: enroll, challenge, verify, list, unenroll", async () => {
  const { client, email } = await signedIn();
  const factor = await enroll(client);
  expect(factor.totp.qr_code).toMatch(/^data:image\/svg\+xml;utf-8,<\?xml/);
  expect(factor.totp.uri).toContain(`:${email}?algorithm=SHA1&digits=6`);
  const challenge = await client.auth.mfa.challenge({ factorId: factor.id });
  expect(challenge.data?.expires_at).toBeGreaterThan(Date.now() / 1000 + 200);
  const wrong = await client.auth.mfa.verify({
    factorId: factor.id,
    challengeId: challenge.data?.id ?? "",
    code: "000000",
  });
  expect(wrong.error).toMatchObject({ code: "mfa_verification_failed", status: 422 });
  const before = await client.auth.mfa.getAuthenticatorAssuranceLevel();
  expect(before.data).toMatchObject({ currentLevel: "aal1", nextLevel: "aal1" });

  const verified = await client.auth.mfa.challengeAndVerify({ factorId: factor.id, code: code(factor.totp.secret) });
  expect(verified.error).toBeNull();
  const after = await client.auth.mfa.getAuthenticatorAssuranceLevel();
  expect(after.data).toMatchObject({ currentLevel: "aal2", nextLevel: "aal2" });
  const listed = await client.auth.mfa.listFactors();
  expect(listed.data?.totp).toMatchObject([{ id: factor.id, friendly_name: "phone", status: "verified" }]);
  expect((await client.auth.refreshSession()).error).toBeNull();

  expect((await client.auth.mfa.unenroll({ factorId: factor.id })).error).toBeNull();
  const { data } = await client.auth.refreshSession();
  expect(data.user?.factors ?? []).toEqual([]);
  expect((await client.auth.mfa.getAuthenticatorAssuranceLevel()).data?.currentLevel).toBe("aal1");
});

test("mfa: a new session is aal1 and is told that aal2 is next", async () => {
  const { client, email, password } = await signedIn();
  const factor = await enroll(client);
  await client.auth.mfa.challengeAndVerify({ factorId: factor.id, code: code(factor.totp.secret) });
  await client.auth.signOut();
  await client.auth.signInWithPassword({ email, password });
  const level = await client.auth.mfa.getAuthenticatorAssuranceLevel();
  expect(level.data).toMatchObject({ currentLevel: "aal1", nextLevel: "aal2" });
  const refused = await client.auth.mfa.unenroll({ factorId: factor.id });
  expect(refused.error).toMatchObject({ code: "insufficient_aal" });
  const raised = await client.auth.mfa.challengeAndVerify({ factorId: factor.id, code: code(factor.totp.secret, 1) });
  expect(raised.error).toBeNull();
});

test("mfa.recoveryCodes: generate, status, verify, regenerate, unenroll", async () => {
  const { email, password } = await person();
  const auth = { storage: memory(), autoRefreshToken: false, experimental: { recoveryCodes: true } };
  const client = createClient(url, anonKey, { auth });
  const codes = client.auth.mfa.recoveryCodes;
  await client.auth.signInWithPassword({ email, password });
  expect((await codes.getStatus()).error).toMatchObject({ code: "mfa_factor_not_found" });
  expect((await codes.generate()).error).toMatchObject({ code: "mfa_recovery_codes_sole_factor" });
  const factor = await enroll(client);
  await client.auth.mfa.challengeAndVerify({ factorId: factor.id, code: code(factor.totp.secret) });

  const { data: first, error } = await codes.generate({ friendlyName: "in the safe" });
  expect(error).toBeNull();
  expect(first).toMatchObject({ type: "recovery_code", friendly_name: "in the safe", total: 10 });
  expect(new Set(first?.codes).size).toBe(10);
  expect((await codes.generate()).error).toMatchObject({ code: "mfa_verified_factor_exists" });
  expect((await codes.getStatus()).data).toEqual({ id: first?.id, type: "recovery_code", total: 10, remaining: 10 });

  await client.auth.signOut();
  await client.auth.signInWithPassword({ email, password });
  const events: string[] = [];
  client.auth.onAuthStateChange((event) => events.push(event));
  expect((await codes.regenerate()).error).toMatchObject({ code: "insufficient_aal" });
  expect((await codes.verify({ code: "0000-0000-0000-0000" })).error).toMatchObject({
    code: "mfa_verification_failed",
  });
  const used = first?.codes[0] ?? "";
  const verified = await codes.verify({ code: used.toUpperCase().replace(/(.{4})(?=.)/g, "$1-") });
  expect(verified.error).toBeNull();
  expect(verified.data?.user.id).toBeTruthy();
  expect(events).toContain("MFA_CHALLENGE_VERIFIED");
  const level = await client.auth.mfa.getAuthenticatorAssuranceLevel();
  expect(level.data).toMatchObject({ currentLevel: "aal2", nextLevel: "aal2" });
  expect(level.data?.currentAuthenticationMethods[0]).toMatchObject({ method: "mfa/recovery_code" });
  expect((await codes.getStatus()).data?.remaining).toBe(9);
  expect((await codes.verify({ code: used })).error).toMatchObject({ code: "mfa_verification_failed" });

  const { data: second } = await codes.regenerate();
  expect(second?.codes.filter((one) => first?.codes.includes(one))).toEqual([]);
  expect((await codes.verify({ code: first?.codes[1] ?? "" })).error).toMatchObject({
    code: "mfa_verification_failed",
  });
  expect((await codes.getStatus()).data).toMatchObject({ total: 10, remaining: 10 });
  expect((await codes.unenroll()).error).toBeNull();
  expect((await codes.getStatus()).error).toMatchObject({ code: "mfa_factor_not_found" });
});

test("admin.mfa: list and delete factors", async () => {
  const { client, id } = await signedIn();
  const factor = await enroll(client);
  const admin = service().auth.admin.mfa;
  expect((await admin.listFactors({ userId: id })).data?.factors).toMatchObject([{ id: factor.id }]);
  expect((await admin.deleteFactor({ userId: id, id: factor.id })).error).toBeNull();
  expect((await admin.listFactors({ userId: id })).data?.factors).toEqual([]);
});
