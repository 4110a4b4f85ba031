import { describe, expect, test } from "vitest";
import { confirmingService, confirmingVisitor, unique, visitor } from "../support/clients";
import { confirming } from "../support/environment";
import { call } from "../support/http";
import { follow, Mailbox } from "../support/mailbox";

const mailbox = new Mailbox(confirming.url);
const admin = confirmingService().auth.admin;
const password = "correct horse battery staple";
const address = () => `${unique("admin")}@example.org`;

describe("users", () => {
  test("create, read, update and delete", async () => {
    const email = address();
    const made = await admin.createUser({
      email,
      password,
      email_confirm: true,
      user_metadata: { name: "Ada" },
      app_metadata: { team: "blue" },
    });
    expect(made.error).toBeNull();
    expect(made.data.user).toMatchObject({
      email,
      user_metadata: { name: "Ada" },
      app_metadata: { team: "blue", provider: "email", providers: ["email"] },
    });
    const id = made.data.user?.id ?? "";
    expect((await admin.getUserById(id)).data.user).toMatchObject({ id, email });

    const changed = await admin.updateUserById(id, { user_metadata: { title: "Dr" }, ban_duration: "24h" });
    expect(changed.data.user).toMatchObject({
      user_metadata: { name: "Ada", title: "Dr" },
      banned_until: expect.any(String),
    });
    const banned = await confirmingVisitor().auth.signInWithPassword({ email, password });
    expect(banned.error).toMatchObject({ status: 400, code: "user_banned" });
    await admin.updateUserById(id, { ban_duration: "none" });
    expect((await confirmingVisitor().auth.signInWithPassword({ email, password })).error).toBeNull();

    expect((await admin.deleteUser(id)).error).toBeNull();
    expect((await admin.getUserById(id)).error).toMatchObject({ status: 404, code: "user_not_found" });
  });

  test("soft delete frees the address and keeps the row", async () => {
    const email = address();
    const { data } = await admin.createUser({ email, password, email_confirm: true });
    const id = data.user?.id ?? "";
    expect((await admin.deleteUser(id, true)).error).toBeNull();
    const { data: left } = await admin.getUserById(id);
    expect(left.user).toMatchObject({ id, deleted_at: expect.any(String) });
    expect(left.user?.email).not.toBe(email);
    expect((await confirmingVisitor().auth.signInWithPassword({ email, password })).error?.code).toBe(
      "invalid_credentials",
    );
    expect((await admin.createUser({ email, password })).error).toBeNull();
  });

  test("lists in pages", async () => {
    for (let made = 0; made < 3; made += 1) await admin.createUser({ email: address() });
    const { data, error } = await admin.listUsers({ page: 1, perPage: 2 });
    expect(error).toBeNull();
    expect(data.users).toHaveLength(2);
    expect(data).toMatchObject({ aud: "authenticated", nextPage: 2, total: expect.any(Number) });
    const beyond = await admin.listUsers({ page: 1000, perPage: 50 });
    expect(beyond.data.users).toEqual([]);
  });

  test.each([
    ["taken", 422, "email_exists", "A user with this email address has already been registered"],
    ["nobody", 400, "validation_failed", "Cannot create a user without either an email or phone"],
  ])("not made: %s", async (what, status, code, message) => {
    const email = address();
    if (what === "taken") await admin.createUser({ email });
    const { error } = await admin.createUser(what === "taken" ? { email } : {});
    expect(error).toMatchObject({ status, code, message });
  });

  test("requires an admin key", async () => {
    const plain = await visitor().auth.admin.listUsers();
    expect(plain.error).toMatchObject({ status: 403, code: "not_admin" });
    const person = confirmingVisitor();
    const email = address();
    await admin.createUser({ email, password, email_confirm: true });
    const { data } = await person.auth.signInWithPassword({ email, password });
    const response = await call("/auth/v1/admin/users", {
      origin: confirming.url,
      key: confirming.anonKey,
      token: data.session?.access_token ?? "",
      headers: { "x-supabase-api-version": "2024-01-01" },
    });
    expect([response.status, response.json]).toEqual([403, { code: "not_admin", message: "User not allowed" }]);
  });
});

describe("invitations", () => {
  test("invitation link signs in and lets the user set a password", async () => {
    const email = address();
    const { data, error } = await admin.inviteUserByEmail(email, { data: { role: "editor" } });
    expect(error).toBeNull();
    expect(data.user).toMatchObject({
      email,
      invited_at: expect.any(String),
      confirmation_sent_at: expect.any(String),
      user_metadata: { role: "editor" },
    });
    const mail = await mailbox.latest(email);
    expect(mail.subject).toBe("You've been invited");
    const { fragment } = await follow(mail.link);
    expect(fragment.get("type")).toBe("invite");
    const client = confirmingVisitor();
    await client.auth.setSession({
      access_token: fragment.get("access_token") ?? "",
      refresh_token: fragment.get("refresh_token") ?? "",
    });
    expect((await client.auth.updateUser({ password })).error).toBeNull();
    expect((await confirmingVisitor().auth.signInWithPassword({ email, password })).error).toBeNull();
    const again = await admin.inviteUserByEmail(email);
    expect(again.error).toMatchObject({ status: 422, code: "email_exists" });
  });
});

describe("generateLink", () => {
  const cases = [
    ["signup", { type: "signup", email: "", password }, "signup"],
    ["invite", { type: "invite", email: "" }, "invite"],
    ["magiclink", { type: "magiclink", email: "" }, "magiclink"],
    ["recovery", { type: "recovery", email: "" }, "recovery"],
  ] as const;

  test.each(cases)("%s", async (_name, parameters, type) => {
    const email = address();
    const known = type === "magiclink" || type === "recovery";
    if (known) await admin.createUser({ email, password, email_confirm: true });
    const { data, error } = await admin.generateLink({ ...parameters, email });
    expect(error).toBeNull();
    const { properties, user } = data;
    expect(user).toMatchObject({ email });
    for (const property of ["action_link", "email_otp", "hashed_token"]) expect(user).not.toHaveProperty(property);
    expect(properties).toMatchObject({ verification_type: type, email_otp: expect.stringMatching(/^\d{6}$/) });
    const link = new URL(properties?.action_link ?? "");
    expect(link.pathname).toBe("/auth/v1/verify");
    expect(link.searchParams.get("token")).toBe(properties?.hashed_token);
    expect(await mailbox.count(email)).toBe(0);
    const { fragment } = await follow(link.href);
    expect(fragment.get("type")).toBe(type);
    expect(fragment.get("access_token")).toBeTruthy();
  });

  test("both halves of an address change", async () => {
    const [email, newEmail] = [address(), address()];
    const { data: made } = await admin.createUser({ email, password, email_confirm: true });
    const client = confirmingVisitor();
    for (const type of ["email_change_current", "email_change_new"] as const) {
      const { data, error } = await admin.generateLink({ type, email, newEmail });
      expect(error).toBeNull();
      expect(new URL(data.properties?.action_link ?? "").searchParams.get("type")).toBe("email_change");
      const tokenHash = data.properties?.hashed_token ?? "";
      expect((await client.auth.verifyOtp({ type: "email_change", token_hash: tokenHash })).error).toBeNull();
    }
    expect((await admin.getUserById(made.user?.id ?? "")).data.user?.email).toBe(newEmail);
  });

  test("unknown user", async () => {
    const { error } = await admin.generateLink({ type: "recovery", email: address() });
    expect(error).toMatchObject({ status: 404, code: "user_not_found", message: "User with this email not found" });
  });
});

describe("sessions of another user", () => {
  test("signOut ends them by token", async () => {
    const email = address();
    await admin.createUser({ email, password, email_confirm: true });
    const [one, two] = [confirmingVisitor(), confirmingVisitor()];
    const { data } = await one.auth.signInWithPassword({ email, password });
    await two.auth.signInWithPassword({ email, password });
    const { error } = await admin.signOut(data.session?.access_token ?? "", "others");
    expect(error).toBeNull();
    expect((await one.auth.getUser()).error).toBeNull();
    expect((await two.auth.getUser()).error).toMatchObject({ name: "AuthSessionMissingError" });
  });
});
