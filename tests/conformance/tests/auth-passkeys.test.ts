import { createClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Authenticator } from "../support/authenticator";
import { memory, unique } from "../support/clients";
import { Server } from "../support/server";

const origin = "https://app.example.org";
const rpId = "app.example.org";
let server: Server;

beforeAll(async () => {
  server = await Server.start({
    BASALT_AUTH_PASSKEY_ENABLED: "true",
    BASALT_AUTH_MFA_WEB_AUTHN_ENROLL_ENABLED: "true",
    BASALT_AUTH_MFA_WEB_AUTHN_VERIFY_ENABLED: "true",
    BASALT_AUTH_SITE_URL: origin,
  });
});

afterAll(async () => {
  await server.stop();
});

function visitor() {
  return createClient(server.url, server.anonKey, { auth: { storage: memory(), autoRefreshToken: false } });
}

async function signedIn() {
  const client = visitor();
  const { data, error } = await client.auth.signUp({
    email: `${unique("passkey")}@example.org`,
    password: "correct horse 7",
  });
  if (error || !data.user) throw error;
  return { client, id: data.user.id };
}

async function registered(client: ReturnType<typeof visitor>) {
  const authenticator = new Authenticator(rpId, origin);
  const begun = await client.auth.passkey.startRegistration();
  if (begun.error) throw begun.error;
  const passkey = await client.auth.passkey.verifyRegistration({
    challengeId: begun.data.challenge_id,
    credential: authenticator.create(begun.data.options as never) as never,
  });
  if (passkey.error) throw passkey.error;
  return { authenticator, id: passkey.data.id };
}

test("passkey: register, sign in, rename, delete", async () => {
  const { client, id: userId } = await signedIn();
  const { authenticator, id } = await registered(client);

  const guest = visitor();
  const begun = await guest.auth.passkey.startAuthentication();
  if (begun.error) throw begun.error;
  const session = await guest.auth.passkey.verifyAuthentication({
    challengeId: begun.data.challenge_id,
    credential: authenticator.get(begun.data.options as never) as never,
  });
  expect(session.error).toBeNull();
  expect(session.data?.user?.id).toBe(userId);
  expect((await guest.auth.getUser()).data.user?.id).toBe(userId);
  const replayed = await guest.auth.passkey.verifyAuthentication({
    challengeId: begun.data.challenge_id,
    credential: authenticator.get(begun.data.options as never) as never,
  });
  expect(replayed.error).toMatchObject({ code: "webauthn_challenge_not_found" });

  const renamed = await client.auth.passkey.update({ passkeyId: id, friendlyName: "Laptop" });
  expect(renamed.data).toMatchObject({ id, friendly_name: "Laptop" });
  expect((await client.auth.passkey.list()).data).toMatchObject([{ id, friendly_name: "Laptop" }]);
  expect((await client.auth.passkey.delete({ passkeyId: id })).error).toBeNull();
  expect((await client.auth.passkey.list()).data).toEqual([]);
});

test("admin.passkey: list and delete", async () => {
  const { client, id: userId } = await signedIn();
  const { id } = await registered(client);
  const service = createClient(server.url, server.serviceKey, { auth: { persistSession: false } });
  const admin = service.auth.admin.passkey;
  expect((await admin.listPasskeys({ userId })).data).toMatchObject([{ id }]);
  expect((await admin.deletePasskey({ userId, passkeyId: id })).error).toBeNull();
  expect((await admin.listPasskeys({ userId })).data).toEqual([]);
});

test("mfa: a WebAuthn factor", async () => {
  const { client } = await signedIn();
  const authenticator = new Authenticator(rpId, origin);
  const factor = await client.auth.mfa.enroll({ factorType: "webauthn", friendlyName: "key" });
  if (factor.error) throw factor.error;
  for (const type of ["create", "request"] as const) {
    const begun = await client.auth.mfa.challenge({ factorId: factor.data.id, webauthn: { rpId } });
    if (begun.error) throw begun.error;
    expect(begun.data).toMatchObject({ type: "webauthn", webauthn: { type } });
    const options = begun.data.webauthn.credential_options.publicKey as never;
    const credential_response = (
      type === "create" ? authenticator.create(options) : authenticator.get(options)
    ) as never;
    const verified = await client.auth.mfa.verify({
      factorId: factor.data.id,
      challengeId: begun.data.id,
      webauthn: { rpId, type, credential_response },
    });
    expect(verified.error).toBeNull();
  }
  const level = await client.auth.mfa.getAuthenticatorAssuranceLevel();
  expect(level.data).toMatchObject({ currentLevel: "aal2", nextLevel: "aal2" });
  expect((await client.auth.mfa.listFactors()).data?.webauthn).toMatchObject([{ status: "verified" }]);
});
