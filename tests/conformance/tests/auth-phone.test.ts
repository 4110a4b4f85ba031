import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { memory } from "../support/clients";
import { Mailbox } from "../support/mailbox";
import { Server } from "../support/server";

let server: Server;

beforeAll(async () => {
  server = await Server.start({
    BASALT_AUTH_EXTERNAL_PHONE_ENABLED: "true",
    BASALT_AUTH_SMS_MAX_FREQUENCY: "0",
    BASALT_AUTH_SMS_TEST_OTP: "4915100=123456",
    BASALT_AUTH_MFA_PHONE_ENROLL_ENABLED: "true",
    BASALT_AUTH_MFA_PHONE_VERIFY_ENABLED: "true",
    BASALT_AUTH_MFA_PHONE_MAX_FREQUENCY: "0",
  });
});

afterAll(async () => {
  await server.stop();
});

function client(): SupabaseClient {
  return createClient(server.url, server.anonKey, {
    auth: { storage: memory(), autoRefreshToken: false, detectSessionInUrl: false },
  });
}

async function code(phone: string, count = 1): Promise<string> {
  const { text } = await new Mailbox(server.url).latest(phone, count);
  return /\d{6}/.exec(text)?.[0] ?? "";
}

test("signUp with a phone number, verifyOtp, signInWithPassword", async () => {
  const supabase = client();
  const phone = "+4915111";
  const password = "correct horse 7";
  const { data, error } = await supabase.auth.signUp({ phone, password });
  expect(error).toBeNull();
  expect(data).toMatchObject({ session: null, user: { phone: "4915111", app_metadata: { provider: "phone" } } });
  const early = await supabase.auth.signInWithPassword({ phone, password });
  expect(early.error).toMatchObject({ code: "phone_not_confirmed", status: 400 });
  const wrong = await supabase.auth.verifyOtp({ phone, token: "000000x", type: "sms" });
  expect(wrong.error).toMatchObject({ code: "otp_expired", status: 403 });
  const verified = await supabase.auth.verifyOtp({ phone, token: await code(phone), type: "sms" });
  expect(verified.error).toBeNull();
  expect(verified.data.session?.access_token).toBeTruthy();
  expect((await client().auth.signInWithPassword({ phone, password })).error).toBeNull();
});

test("signInWithOtp by phone, resend and a change of number", async () => {
  const supabase = client();
  const phone = "+4915122";
  expect((await supabase.auth.signInWithOtp({ phone })).error).toBeNull();
  expect((await supabase.auth.resend({ type: "sms", phone })).error).toBeNull();
  const token = await code(phone, 2);
  expect((await supabase.auth.verifyOtp({ phone, token, type: "sms" })).error).toBeNull();
  const next = "+4915133";
  const changing = await supabase.auth.updateUser({ phone: next });
  expect(changing.data.user).toMatchObject({ phone: "4915122", new_phone: "4915133" });
  const changed = await supabase.auth.verifyOtp({ phone: next, token: await code(next), type: "phone_change" });
  expect(changed.error).toBeNull();
  expect(changed.data.user?.phone).toBe("4915133");
});

test("test numbers have a fixed code", async () => {
  const supabase = client();
  const { data, error } = await supabase.auth.signInWithOtp({ phone: "4915100" });
  expect(error).toBeNull();
  expect(data.messageId).toBe("test-otp");
  const verified = await supabase.auth.verifyOtp({ phone: "4915100", token: "123456", type: "sms" });
  expect(verified.error).toBeNull();
});

test("mfa: a phone as second factor", async () => {
  const supabase = client();
  const signedUp = await supabase.auth.signUp({ email: "ada@example.org", password: "correct horse 7" });
  expect(signedUp.data.session).toBeTruthy();
  const phone = "+4915144";
  const enrolled = await supabase.auth.mfa.enroll({ factorType: "phone", phone, friendlyName: "mobile" });
  expect(enrolled.error).toBeNull();
  const factorId = enrolled.data?.id ?? "";
  const challenge = await supabase.auth.mfa.challenge({ factorId, channel: "sms" });
  expect(challenge.error).toBeNull();
  const challengeId = challenge.data?.id ?? "";
  const wrong = await supabase.auth.mfa.verify({ factorId, challengeId, code: "000000x" });
  expect(wrong.error).toMatchObject({ code: "mfa_verification_failed", status: 422 });
  const verified = await supabase.auth.mfa.verify({ factorId, challengeId, code: await code(phone) });
  expect(verified.error).toBeNull();
  const level = await supabase.auth.mfa.getAuthenticatorAssuranceLevel();
  expect(level.data).toMatchObject({ currentLevel: "aal2", nextLevel: "aal2" });
  expect((await supabase.auth.mfa.listFactors()).data?.phone).toMatchObject([{ id: factorId, status: "verified" }]);
  expect((await supabase.auth.mfa.unenroll({ factorId })).error).toBeNull();
});
