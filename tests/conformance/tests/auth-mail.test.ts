import { describe, expect, test } from "vitest";
import { confirmingService, confirmingVisitor, memory, unique } from "../support/clients";
import { confirming } from "../support/environment";
import { decode } from "../support/http";
import { follow, Mailbox } from "../support/mailbox";

const mailbox = new Mailbox(confirming.url);
const password = "correct horse battery staple";
const address = () => `${unique("mail")}@example.org`;
/** The site URL, the target of links without `redirect_to`. */
const site = confirming.url;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A signed-in user with a confirmed address. */
async function confirmed(auth: Parameters<typeof confirmingVisitor>[0] = {}) {
  const email = address();
  const { data, error } = await confirmingService().auth.admin.createUser({ email, password, email_confirm: true });
  if (error) throw error;
  const client = confirmingVisitor(auth);
  const signedIn = await client.auth.signInWithPassword({ email, password });
  if (signedIn.error) throw signedIn.error;
  return { client, email, id: data.user.id, session: signedIn.data.session };
}

describe("sign-up with confirmation", () => {
  test("link of the mail confirms once; no session before", async () => {
    const visitor = confirmingVisitor();
    const email = address();
    const { data, error } = await visitor.auth.signUp({ email, password, options: { data: { name: "Ada" } } });
    expect(error).toBeNull();
    expect(data.session).toBeNull();
    expect(data.user).toMatchObject({
      email,
      user_metadata: { name: "Ada" },
      confirmation_sent_at: expect.any(String),
    });
    expect(data.user?.email_confirmed_at).toBeUndefined();

    const early = await visitor.auth.signInWithPassword({ email, password });
    expect(early.error).toMatchObject({ status: 400, code: "email_not_confirmed", message: "Email not confirmed" });

    const mail = await mailbox.latest(email);
    expect(mail.subject).toBe("Confirm your email address");
    expect(mail.html).toContain(mail.link.replaceAll("&", "&amp;"));
    const { status, to, fragment } = await follow(mail.link);
    expect(status).toBe(303);
    expect(to.origin).toBe(site);
    expect([...fragment.keys()]).toEqual([
      "access_token",
      "expires_at",
      "expires_in",
      "refresh_token",
      "sb",
      "token_type",
      "type",
    ]);
    expect(Object.fromEntries(fragment)).toMatchObject({ type: "signup", token_type: "bearer", sb: "" });

    const tokens = {
      access_token: fragment.get("access_token") ?? "",
      refresh_token: fragment.get("refresh_token") ?? "",
    };
    const session = await visitor.auth.setSession(tokens);
    expect(session.data.user).toMatchObject({ email, email_confirmed_at: expect.any(String) });
    expect((await visitor.auth.signInWithPassword({ email, password })).error).toBeNull();

    const again = await follow(mail.link);
    expect(again.status).toBe(303);
    expect(again.to.hash).toBe(
      "#error=access_denied&error_code=otp_expired&error_description=Email+link+is+invalid+or+has+expired&sb=",
    );
  });

  test("taken address returns a fake user", async () => {
    const { email, id } = await confirmed();
    const { data, error } = await confirmingVisitor().auth.signUp({ email, password: "another secret" });
    expect(error).toBeNull();
    expect(data.session).toBeNull();
    expect(data.user).toMatchObject({ email, identities: [] });
    expect(data.user?.id).not.toBe(id);
    expect(await mailbox.count(email)).toBe(0);
  });

  test("resend invalidates the older link", async () => {
    const visitor = confirmingVisitor();
    const email = address();
    await visitor.auth.signUp({ email, password });
    const first = await mailbox.latest(email);
    const soon = await visitor.auth.resend({ type: "signup", email });
    expect(soon.error).toMatchObject({ status: 429, code: "over_email_send_rate_limit" });
    expect(soon.error?.message).toMatch(/^For security purposes, you can only request this after \d+ seconds\.$/);
    await pause(1100);
    expect((await visitor.auth.resend({ type: "signup", email })).error).toBeNull();
    const second = await mailbox.latest(email, 2);
    expect(second.tokenHash).not.toBe(first.tokenHash);
    const old = await visitor.auth.verifyOtp({ type: "signup", token_hash: first.tokenHash });
    expect(old.error).toMatchObject({ status: 403, code: "otp_expired" });
    const { data, error } = await visitor.auth.verifyOtp({ type: "signup", token_hash: second.tokenHash });
    expect(error).toBeNull();
    expect(data.session?.user.email).toBe(email);
    expect(decode(data.session?.access_token ?? "").claims.amr).toEqual([
      { method: "otp", timestamp: expect.any(Number) },
    ]);
  });

  test("resend does not reveal unknown addresses", async () => {
    const { data, error } = await confirmingVisitor().auth.resend({ type: "signup", email: address() });
    expect(error).toBeNull();
    expect(data).toMatchObject({ user: null, session: null });
  });
});

describe("password recovery", () => {
  test("token hash emits PASSWORD_RECOVERY and allows a new password", async () => {
    const { email, client: other } = await confirmed();
    const visitor = confirmingVisitor();
    const events: string[] = [];
    visitor.auth.onAuthStateChange((event) => void events.push(event));
    const response = await visitor.auth.resetPasswordForEmail(email, { redirectTo: `${site}/reset-password?a=b` });
    expect(response).toEqual({ data: {}, error: null });
    const mail = await mailbox.latest(email);
    expect(mail.subject).toBe("Reset your password");
    expect(new URL(mail.link).searchParams.get("redirect_to")).toBe(`${site}/reset-password?a=b`);

    const { data, error } = await visitor.auth.verifyOtp({ type: "recovery", token_hash: mail.tokenHash });
    expect(error).toBeNull();
    expect(data.user?.email).toBe(email);
    expect((await visitor.auth.updateUser({ password: "battery staple" })).error).toBeNull();
    // The other sessions are gone, this one stays.
    expect((await visitor.auth.getUser()).error).toBeNull();
    expect((await other.auth.getUser()).error).toMatchObject({ name: "AuthSessionMissingError" });
    expect((await other.auth.signInWithPassword({ email, password })).error?.code).toBe("invalid_credentials");
    expect((await other.auth.signInWithPassword({ email, password: "battery staple" })).error).toBeNull();
    expect(events).toEqual(["INITIAL_SESSION", "PASSWORD_RECOVERY", "USER_UPDATED"]);
  });

  test("link redirects with the session in the fragment", async () => {
    const { email } = await confirmed();
    await confirmingVisitor().auth.resetPasswordForEmail(email, { redirectTo: `${site}/reset-password?a=b` });
    const { to, fragment } = await follow((await mailbox.latest(email)).link);
    expect(to.origin + to.pathname + to.search).toBe(`${site}/reset-password?a=b`);
    expect(fragment.get("type")).toBe("recovery");
  });

  test("link does not redirect to a foreign site", async () => {
    const { email } = await confirmed();
    await confirmingVisitor().auth.resetPasswordForEmail(email, { redirectTo: "https://evil.example/reset" });
    expect((await follow((await mailbox.latest(email)).link)).to.origin).toBe(site);
  });

  test("unknown address gets the same response", async () => {
    const email = address();
    expect(await confirmingVisitor().auth.resetPasswordForEmail(email)).toEqual({ data: {}, error: null });
    expect(await mailbox.count(email)).toBe(0);
  });
});

describe("sign-in by mail", () => {
  test("link for an existing user", async () => {
    const { email, id } = await confirmed();
    const visitor = confirmingVisitor();
    const response = await visitor.auth.signInWithOtp({ email });
    expect(response.error).toBeNull();
    expect(response.data).toMatchObject({ user: null, session: null });
    const mail = await mailbox.latest(email);
    expect(mail.subject).toBe("Your sign-in link");
    const { data, error } = await visitor.auth.verifyOtp({ type: "email", token_hash: mail.tokenHash });
    expect(error).toBeNull();
    expect(data.user?.id).toBe(id);
  });

  test("creates an account if shouldCreateUser is set", async () => {
    const visitor = confirmingVisitor();
    const email = address();
    const refused = await visitor.auth.signInWithOtp({ email, options: { shouldCreateUser: false } });
    expect(refused.error).toMatchObject({ status: 422, code: "otp_disabled", message: "Signups not allowed for otp" });
    expect((await visitor.auth.signInWithOtp({ email, options: { data: { plan: "gold" } } })).error).toBeNull();
    const mail = await mailbox.latest(email);
    expect(mail.subject).toBe("Confirm your email address");
    const { data, error } = await visitor.auth.verifyOtp({ type: "email", token_hash: mail.tokenHash });
    expect(error).toBeNull();
    expect(data.user).toMatchObject({ email, user_metadata: { plan: "gold" } });
  });

  test("wrong and reused codes return the same error", async () => {
    const { email } = await confirmed();
    const { data } = await confirmingService().auth.admin.generateLink({ type: "magiclink", email });
    const code = data.properties?.email_otp ?? "";
    expect(code).toMatch(/^\d{6}$/);
    const visitor = confirmingVisitor();
    const wrong = code === "000000" ? "111111" : "000000";
    const refused = await visitor.auth.verifyOtp({ type: "email", email, token: wrong });
    expect(refused.error).toMatchObject({
      status: 403,
      code: "otp_expired",
      message: "Token has expired or is invalid",
    });
    const { data: found, error } = await visitor.auth.verifyOtp({ type: "email", email, token: code });
    expect(error).toBeNull();
    expect(found.session?.user.email).toBe(email);
    expect((await visitor.auth.verifyOtp({ type: "email", email, token: code })).error?.code).toBe("otp_expired");
  });

  test("five wrong codes invalidate the right one", async () => {
    const { email } = await confirmed();
    const { data } = await confirmingService().auth.admin.generateLink({ type: "magiclink", email });
    const code = data.properties?.email_otp ?? "";
    const visitor = confirmingVisitor();
    const wrong = code === "000000" ? "111111" : "000000";
    for (let round = 0; round < 5; round += 1) await visitor.auth.verifyOtp({ type: "email", email, token: wrong });
    expect((await visitor.auth.verifyOtp({ type: "email", email, token: code })).error?.code).toBe("otp_expired");
  });
});

describe("PKCE", () => {
  test("link has a code for one exchange by the same browser", async () => {
    const { email, id } = await confirmed();
    const visitor = confirmingVisitor({ flowType: "pkce" });
    await visitor.auth.signInWithOtp({ email, options: { emailRedirectTo: `${site}/welcome?from=mail` } });
    const mail = await mailbox.latest(email);
    expect(mail.tokenHash).toMatch(/^pkce_/);
    const { status, to } = await follow(mail.link);
    expect(status).toBe(303);
    expect(to.origin + to.pathname).toBe(`${site}/welcome`);
    expect(to.searchParams.get("from")).toBe("mail");
    const code = to.searchParams.get("code") ?? "";

    // Another browser has no verifier, or the wrong one.
    const stolen = await fetch(`${site}/auth/v1/token?grant_type=pkce`, {
      method: "POST",
      headers: { apikey: confirming.anonKey, "content-type": "application/json" },
      body: JSON.stringify({ auth_code: code, code_verifier: "x".repeat(56) }),
    });
    expect([stolen.status, await stolen.json()]).toEqual([
      400,
      expect.objectContaining({ error_code: "bad_code_verifier" }),
    ]);

    const { data, error } = await visitor.auth.exchangeCodeForSession(code);
    expect(error).toBeNull();
    expect(data.session?.user.id).toBe(id);
    expect(decode(data.session?.access_token ?? "").claims.amr).toEqual([
      { method: "magiclink", timestamp: expect.any(Number) },
    ]);
  });

  test("recovery emits PASSWORD_RECOVERY and uses the code up", async () => {
    const { email } = await confirmed();
    const storage = memory();
    const visitor = confirmingVisitor({ flowType: "pkce", storage });
    const events: string[] = [];
    visitor.auth.onAuthStateChange((event) => void events.push(event));
    await visitor.auth.resetPasswordForEmail(email);
    const { to } = await follow((await mailbox.latest(email)).link);
    const code = to.searchParams.get("code") ?? "";
    expect((await visitor.auth.exchangeCodeForSession(code)).error).toBeNull();
    expect(events).toContain("PASSWORD_RECOVERY");
    const spent = await fetch(`${site}/auth/v1/token?grant_type=pkce`, {
      method: "POST",
      headers: { apikey: confirming.anonKey, "content-type": "application/json" },
      body: JSON.stringify({ auth_code: code, code_verifier: "x".repeat(56) }),
    });
    expect([spent.status, await spent.json()]).toEqual([
      404,
      expect.objectContaining({ error_code: "flow_state_not_found" }),
    ]);
  });
});

describe("address change", () => {
  test("requires both addresses, in any order", async () => {
    const { client, email, id } = await confirmed();
    const next = address();
    const { data, error } = await client.auth.updateUser({ email: next });
    expect(error).toBeNull();
    expect(data.user).toMatchObject({ email, new_email: next });
    const [toOld, toNew] = await Promise.all([mailbox.latest(email), mailbox.latest(next)]);
    expect(toNew.subject).toBe("Confirm your new email address");

    const half = await follow(toNew.link);
    expect(half.fragment.get("message")).toBe(
      "Confirmation link accepted. Please proceed to confirm link sent to the other email",
    );
    expect((await client.auth.getUser()).data.user?.email).toBe(email);

    const whole = await follow(toOld.link);
    expect(whole.fragment.get("type")).toBe("email_change");
    const { data: after } = await client.auth.getUser();
    expect(after.user).toMatchObject({ id, email: next });
    expect(after.user?.new_email).toBeUndefined();
    expect(after.user?.identities?.[0]?.identity_data).toMatchObject({ email: next, email_verified: true });
    expect((await confirmingVisitor().auth.signInWithPassword({ email: next, password })).error).toBeNull();
  });

  test("rejects a taken address", async () => {
    const [ada, eve] = [await confirmed(), await confirmed()];
    const { error } = await eve.client.auth.updateUser({ email: ada.email });
    expect(error).toMatchObject({
      status: 422,
      code: "email_exists",
      message: "A user with this email address has already been registered",
    });
  });
});

describe("reauthentication", () => {
  test("nonce by mail", async () => {
    const { client, email } = await confirmed();
    const { error } = await client.auth.reauthenticate();
    expect(error).toBeNull();
    expect((await mailbox.latest(email)).subject).toMatch(/^\d{6} is your verification code$/);
  });
});

describe("anonymous users", () => {
  test("can sign in and become permanent", async () => {
    const client = confirmingVisitor();
    const { data, error } = await client.auth.signInAnonymously({ options: { data: { theme: "dark" } } });
    expect(error).toBeNull();
    expect(data.user).toMatchObject({ email: "", is_anonymous: true, user_metadata: { theme: "dark" } });
    expect(decode(data.session?.access_token ?? "").claims).toMatchObject({
      is_anonymous: true,
      amr: [{ method: "anonymous", timestamp: expect.any(Number) }],
    });
    const refused = await client.auth.updateUser({ password });
    expect(refused.error).toMatchObject({ status: 422, code: "validation_failed" });

    const email = address();
    expect((await client.auth.updateUser({ email })).error).toBeNull();
    await follow((await mailbox.latest(email)).link);
    expect((await client.auth.updateUser({ password })).error).toBeNull();
    const { data: refreshed } = await client.auth.refreshSession();
    expect(refreshed.user).toMatchObject({ id: data.user?.id, email, is_anonymous: false });
    expect(decode(refreshed.session?.access_token ?? "").claims.is_anonymous).toBe(false);
    expect((await confirmingVisitor().auth.signInWithPassword({ email, password })).error).toBeNull();
  });
});
