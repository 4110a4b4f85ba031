import { describe, expect, test } from "vitest";
import { client, person, service, unique, visitor } from "../support/clients";
import { anonKey } from "../support/environment";
import { call, decode } from "../support/http";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$/;
const newForm = { "x-supabase-api-version": "2024-01-01" };
const address = () => `${unique("auth")}@example.org`;

const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  call(`/auth/v1/${path}`, { method: "POST", body, headers });

describe("sign-up", () => {
  test("returns a session and a complete user", async () => {
    const email = address();
    const { data, error } = await visitor().auth.signUp({
      email: email.toUpperCase(),
      password: "secret123",
      options: { data: { organization_name: "Acme", nested: { a: [1] } } },
    });
    expect(error).toBeNull();
    expect(data.session).toMatchObject({
      access_token: expect.any(String),
      token_type: "bearer",
      expires_in: 3600,
      expires_at: expect.any(Number),
      refresh_token: expect.any(String),
    });
    const id = data.user?.id;
    expect(id).toMatch(uuid);
    expect(data.user).toMatchObject({
      aud: "authenticated",
      role: "authenticated",
      email,
      phone: "",
      email_confirmed_at: expect.stringMatching(time),
      confirmed_at: expect.stringMatching(time),
      last_sign_in_at: expect.stringMatching(time),
      created_at: expect.stringMatching(time),
      updated_at: expect.stringMatching(time),
      app_metadata: { provider: "email", providers: ["email"] },
      user_metadata: {
        sub: id,
        email,
        email_verified: true,
        phone_verified: false,
        organization_name: "Acme",
        nested: { a: [1] },
      },
      is_anonymous: false,
    });
    expect(data.user?.identities).toHaveLength(1);
    expect(data.user?.identities?.[0]).toMatchObject({
      identity_id: expect.stringMatching(uuid),
      id,
      user_id: id,
      provider: "email",
      email,
      identity_data: { sub: id, email, email_verified: false, phone_verified: false, organization_name: "Acme" },
    });
    for (const secret of ["encrypted_password", "confirmation_token", "is_super_admin", "instance_id"]) {
      expect(data.user).not.toHaveProperty(secret);
    }
  });

  test("token has subject and method", async () => {
    const ada = await person({ organization_name: "Acme" });
    const { header, claims } = decode(ada.session.access_token);
    expect(header).toMatchObject({
      typ: "JWT",
      alg: expect.stringMatching(/^(ES256|HS256)$/),
      kid: expect.any(String),
    });
    expect(claims).toMatchObject({
      iss: expect.stringMatching(/\/auth\/v1$/),
      sub: ada.user.id,
      aud: "authenticated",
      email: ada.email,
      phone: "",
      role: "authenticated",
      aal: "aal1",
      session_id: expect.stringMatching(uuid),
      is_anonymous: false,
      app_metadata: { provider: "email", providers: ["email"] },
      user_metadata: { organization_name: "Acme" },
      amr: [{ method: "password", timestamp: expect.any(Number) }],
    });
    expect(claims.exp).toBe((claims.iat as number) + 3600);
    expect(claims.exp).toBe(ada.session.expires_at);
  });

  test("rejects a taken address", async () => {
    const ada = await person();
    const { error } = await visitor().auth.signUp({ email: ada.email, password: "another secret" });
    expect(error).toMatchObject({ status: 422, code: "user_already_exists", message: "User already registered" });
  });

  test("rejects a weak password with reasons", async () => {
    const { error } = await visitor().auth.signUp({ email: address(), password: "short" });
    expect(error).toMatchObject({
      name: "AuthWeakPasswordError",
      status: 422,
      code: "weak_password",
      message: "Password should be at least 6 characters.",
      reasons: ["length"],
    });
  });

  const refusals: [string, Record<string, unknown>, number, string, string][] = [
    ["no password", { email: "a@example.org" }, 400, "validation_failed", "Signup requires a valid password"],
    [
      "a password of 73 bytes",
      { email: "a@example.org", password: "x".repeat(73) },
      400,
      "validation_failed",
      "Password cannot be longer than 72 characters",
    ],
    [
      "no address",
      { email: "nobody", password: "secret123" },
      400,
      "validation_failed",
      "Unable to validate email address: invalid format",
    ],
    [
      "mail and phone at once",
      { email: "a@example.org", phone: "+4912345678", password: "secret123" },
      400,
      "validation_failed",
      "Only an email address or phone number should be provided on signup.",
    ],
    ["nobody at all", { data: {} }, 422, "anonymous_provider_disabled", "Anonymous sign-ins are disabled"],
  ];

  test.each(refusals)("%s", async (_, body, status, code, message) => {
    const response = await post("signup", body, newForm);
    expect([response.status, response.json]).toEqual([status, { code, message }]);
    expect(response.headers.get("x-supabase-api-version")).toBe("2024-01-01");
    expect(response.headers.get("x-sb-error-code")).toBe(code);
    const old = await post("signup", body);
    expect([old.status, old.json]).toEqual([status, { code: status, error_code: code, msg: message }]);
    expect(old.headers.get("x-supabase-api-version")).toBeNull();
  });
});

describe("sign-in", () => {
  test("address is case-insensitive", async () => {
    const ada = await person();
    const basalt = visitor();
    const { data, error } = await basalt.auth.signInWithPassword({
      email: ada.email.toUpperCase(),
      password: ada.password,
    });
    expect(error).toBeNull();
    expect(data.user?.id).toBe(ada.user.id);
    expect(data.session?.access_token).not.toBe(ada.session.access_token);
    expect((await basalt.auth.getUser()).data.user?.id).toBe(ada.user.id);
  });

  test("wrong password and unknown address return one error", async () => {
    const ada = await person();
    const expected = { status: 400, code: "invalid_credentials", message: "Invalid login credentials" };
    const wrong = await visitor().auth.signInWithPassword({ email: ada.email, password: "not this one" });
    expect(wrong.error).toMatchObject(expected);
    const unknown = await visitor().auth.signInWithPassword({ email: address(), password: "not this one" });
    expect(unknown.error).toMatchObject(expected);
  });

  test("token response has weak_password and no-store", async () => {
    const ada = await person();
    const response = await post("token?grant_type=password", { email: ada.email, password: ada.password });
    expect(response.status).toBe(200);
    expect(response.json).toMatchObject({ weak_password: null, token_type: "bearer" });
    expect(response.headers.get("cache-control")).toContain("no-store");
  });

  test("rejects unknown grants and invalid bodies", async () => {
    const grant = await post("token?grant_type=teapot", {}, newForm);
    expect([grant.status, grant.json]).toEqual([
      400,
      { code: "invalid_credentials", message: "unsupported_grant_type" },
    ]);
    const nobody = await post("token?grant_type=password", { password: "x" }, newForm);
    expect([nobody.status, nobody.json]).toEqual([
      400,
      { code: "validation_failed", message: "missing email or phone" },
    ]);
    for (const body of ["{", ""]) {
      const broken = await post("token?grant_type=password", body, newForm);
      expect([broken.status, (broken.json as { code: string }).code]).toEqual([400, "bad_json"]);
    }
  });

  test("rejects a body over 1 MB", async () => {
    const response = await post("token?grant_type=password", { email: "x".repeat(1_100_000), password: "x" }, newForm);
    expect([response.status, response.json]).toEqual([
      413,
      { code: "request_entity_too_large", message: "Request body too large (max 1048576 bytes)" },
    ]);
  });
});

describe("refresh", () => {
  test("rotates both tokens within the session", async () => {
    const ada = await person();
    const { data, error } = await ada.client.auth.refreshSession();
    expect(error).toBeNull();
    expect(data.session?.refresh_token).not.toBe(ada.session.refresh_token);
    const before = decode(ada.session.access_token).claims;
    const after = decode(data.session?.access_token ?? "").claims;
    expect(after.session_id).toBe(before.session_id);
    expect(after.amr).toEqual(before.amr);
    expect((await ada.client.auth.getUser()).error).toBeNull();
  });

  test("previous token returns the current one", async () => {
    const ada = await person();
    const first = await visitor().auth.refreshSession({ refresh_token: ada.session.refresh_token });
    const again = await visitor().auth.refreshSession({ refresh_token: ada.session.refresh_token });
    expect(again.error).toBeNull();
    expect(again.data.session?.refresh_token).toBe(first.data.session?.refresh_token);
  });

  test("concurrent tabs keep their session", async () => {
    const ada = await person();
    const both = await Promise.all(
      [1, 2].map(() => visitor().auth.refreshSession({ refresh_token: ada.session.refresh_token })),
    );
    expect(both.map(({ error }) => error)).toEqual([null, null]);
  });

  test("rejects invalid tokens", async () => {
    const refresh = (refresh_token: string) => visitor().auth.refreshSession({ refresh_token });
    expect((await refresh("nonsense!")).error).toMatchObject({
      status: 400,
      code: "validation_failed",
      message: "Refresh token is not valid",
    });
    // A well-formed token of twelve characters that belongs to no session.
    expect((await refresh("abcdefghijkl")).error).toMatchObject({
      status: 400,
      code: "refresh_token_not_found",
      message: "Invalid Refresh Token: Refresh Token Not Found",
    });
  });

  test("rejects a token of an ended session", async () => {
    const ada = await person();
    await ada.client.auth.signOut();
    const { error } = await visitor().auth.refreshSession({ refresh_token: ada.session.refresh_token });
    expect(error?.status).toBe(400);
    expect(["session_not_found", "refresh_token_not_found"]).toContain(error?.code);
  });

  test("setSession accepts a token pair", async () => {
    const ada = await person();
    const other = visitor();
    const { error } = await other.auth.setSession(ada.session);
    expect(error).toBeNull();
    expect((await other.rpc("who_am_i")).data).toMatchObject({ uid: ada.user.id });
  });
});

describe("sign-out", () => {
  /** One person with three sessions. */
  const threeSessions = async () => {
    const ada = await person();
    const others = await Promise.all(
      [1, 2].map(async () => {
        const basalt = visitor();
        await basalt.auth.signInWithPassword({ email: ada.email, password: ada.password });
        return basalt;
      }),
    );
    return [ada.client, ...others];
  };
  const alive = (clients: ReturnType<typeof visitor>[], tokens: (string | undefined)[]) =>
    Promise.all(clients.map(async (_, index) => (await visitor().auth.getUser(tokens[index])).error === null));
  const tokensOf = (clients: ReturnType<typeof visitor>[]) =>
    Promise.all(clients.map(async (basalt) => (await basalt.auth.getSession()).data.session?.access_token));

  test.each([
    ["local", [false, true, true]],
    ["others", [true, false, false]],
    ["global", [false, false, false]],
  ] as const)("scope %s", async (scope, expected) => {
    const clients = await threeSessions();
    const tokens = await tokensOf(clients);
    expect((await clients[0]?.auth.signOut({ scope }))?.error).toBeNull();
    expect(await alive(clients, tokens)).toEqual(expected);
  });

  test("returns 204 and ends the session", async () => {
    const ada = await person();
    const response = await call("/auth/v1/logout", { method: "POST", token: ada.session.access_token });
    expect([response.status, response.text]).toEqual([204, ""]);
    const user = await call("/auth/v1/user", { token: ada.session.access_token, headers: newForm });
    expect([user.status, user.json]).toEqual([
      403,
      { code: "session_not_found", message: "Session from session_id claim in JWT does not exist" },
    ]);
    const { error } = await visitor().auth.getUser(ada.session.access_token);
    expect(error).toMatchObject({ name: "AuthSessionMissingError", message: "Auth session missing!" });
  });

  test("rejects an unknown scope", async () => {
    const ada = await person();
    const response = await call("/auth/v1/logout?scope=galaxy", {
      method: "POST",
      token: ada.session.access_token,
      headers: newForm,
    });
    expect([response.status, response.json]).toEqual([
      400,
      { code: "validation_failed", message: 'Unsupported logout scope "galaxy"' },
    ]);
  });
});

describe("user", () => {
  test("getUser requires a user token", async () => {
    expect((await visitor().auth.getUser()).error).toMatchObject({ name: "AuthSessionMissingError" });
    const withKey = await call("/auth/v1/user", { token: anonKey, headers: newForm });
    expect([withKey.status, withKey.json]).toEqual([
      403,
      { code: "bad_jwt", message: "invalid claim: missing sub claim" },
    ]);
    const ada = await person();
    expect((await ada.client.auth.getUser()).data.user).toMatchObject({ id: ada.user.id, email: ada.email });
  });

  test("metadata merges and null removes a key", async () => {
    const ada = await person({ keep: 1, drop: 2 });
    const { data, error } = await ada.client.auth.updateUser({ data: { drop: null, add: { deep: true } } });
    expect(error).toBeNull();
    expect(data.user?.user_metadata).toMatchObject({ keep: 1, add: { deep: true } });
    expect(data.user?.user_metadata).not.toHaveProperty("drop");
    expect((await ada.client.auth.getUser()).data.user?.user_metadata).toEqual(data.user?.user_metadata);
    const refreshed = await ada.client.auth.refreshSession();
    expect(decode(refreshed.data.session?.access_token ?? "").claims.user_metadata).toEqual(data.user?.user_metadata);
  });

  test("new password ends other sessions", async () => {
    const ada = await person();
    const other = visitor();
    const signedIn = await other.auth.signInWithPassword({ email: ada.email, password: ada.password });
    const { error } = await ada.client.auth.updateUser({ password: "a new password" });
    expect(error).toBeNull();
    expect((await ada.client.auth.getUser()).error).toBeNull();
    expect((await visitor().auth.getUser(signedIn.data.session?.access_token)).error).not.toBeNull();
    expect((await visitor().auth.signInWithPassword({ email: ada.email, password: ada.password })).error?.code).toBe(
      "invalid_credentials",
    );
    expect(
      (await visitor().auth.signInWithPassword({ email: ada.email, password: "a new password" })).error,
    ).toBeNull();
  });

  test("rejects invalid passwords", async () => {
    const ada = await person();
    expect((await ada.client.auth.updateUser({ password: "short" })).error).toMatchObject({
      status: 422,
      code: "weak_password",
    });
    expect((await ada.client.auth.updateUser({ password: ada.password })).error).toMatchObject({
      status: 422,
      code: "same_password",
      message: "New password should be different from the old password.",
    });
  });

  test("users cannot make themselves admins", async () => {
    const ada = await person();
    const response = await call("/auth/v1/user", {
      method: "PUT",
      token: ada.session.access_token,
      body: { app_metadata: { role: "admin" } },
      headers: newForm,
    });
    expect([response.status, response.json]).toEqual([
      403,
      { code: "not_admin", message: "Updating app_metadata requires admin privileges" },
    ]);
    expect((await ada.client.auth.updateUser({})).data.user?.app_metadata).toEqual({
      provider: "email",
      providers: ["email"],
    });
  });

  test("rejects missing and invalid tokens", async () => {
    // The client then sends the legacy key as bearer token, which belongs to no user.
    expect((await call("/auth/v1/user", { headers: newForm })).status).toBe(403);
    const basic = await call("/auth/v1/user", { headers: { ...newForm, authorization: "Basic x" } });
    expect([basic.status, basic.json]).toEqual([
      401,
      { code: "no_authorization", message: "This endpoint requires a valid Bearer token" },
    ]);
    const nonsense = await call("/auth/v1/user", { token: "a.b.c", headers: newForm });
    expect([nonsense.status, (nonsense.json as { code: string }).code]).toEqual([403, "bad_jwt"]);
  });
});

describe("claims and keys", () => {
  test("getClaims verifies the token", async () => {
    const ada = await person();
    const { data, error } = await ada.client.auth.getClaims();
    expect(error).toBeNull();
    expect(data?.claims).toMatchObject({ sub: ada.user.id, role: "authenticated", email: ada.email });
    const forged = `${ada.session.access_token.slice(0, -6)}AAAAAA`;
    expect((await ada.client.auth.getClaims(forged)).error).not.toBeNull();
  });

  test("public keys are cacheable and contain no secrets", async () => {
    const response = await call("/auth/v1/.well-known/jwks.json", { key: null });
    expect(response.headers.get("cache-control")).toBe("public, max-age=600");
    const { keys } = response.json as { keys: Record<string, unknown>[] };
    const ada = await person();
    const { header } = decode(ada.session.access_token);
    if (header.alg === "ES256") expect(keys.map((key) => key.kid)).toContain(header.kid);
    for (const key of keys) {
      expect(key).toMatchObject({ use: "sig", key_ops: ["verify"], kid: expect.any(String), alg: expect.any(String) });
      expect(key.kty).not.toBe("oct");
      expect(key).not.toHaveProperty("d");
    }
  });

  test("settings and health", async () => {
    const settings = (await call("/auth/v1/settings")).json;
    expect(settings).toMatchObject({
      external: { email: true, phone: false, anonymous_users: false, google: false },
      disable_signup: false,
      mailer_autoconfirm: true,
      phone_autoconfirm: false,
      saml_enabled: false,
    });
    expect((await call("/auth/v1/health")).json).toMatchObject({ name: "GoTrue", version: expect.any(String) });
  });

  test("rejects unknown paths and methods", async () => {
    const unknown = await call("/auth/v1/nowhere");
    expect([unknown.status, unknown.text.trim()]).toEqual([404, "404 page not found"]);
    expect((await call("/auth/v1/signup", { method: "PATCH" })).status).toBe(405);
  });
});

describe("keys as bearer tokens", () => {
  test("service key is not a user", async () => {
    const { error } = await service().auth.getUser();
    expect(error).toMatchObject({ name: "AuthSessionMissingError" });
  });

  test("wrong key is rejected first", async () => {
    const { error } = await client("nonsense").auth.signInWithPassword({ email: address(), password: "secret123" });
    expect(error?.status).toBe(401);
  });
});
