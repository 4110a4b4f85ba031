import { join } from "node:path";
import type { Page } from "@playwright/test";
import { createClient } from "@supabase/supabase-js";
import { OidcProvider } from "../../tests/conformance/support/oidc";
import { Server } from "../../tests/conformance/support/server";
import { examine } from "./examine";
import { expect, type Person, test } from "./fixtures";
import { expectToast } from "./workspace";

// Passkeys and external providers, against a server that has both: the provider is a real one, as "Google".
// Passkeys work at `localhost` and not at an IP address, so this server is used by that name.

test.describe.configure({ mode: "serial" });
// The pages of this file have their own origin. The provider's pages load a font from the internet.
test.use({ baseURL: undefined, allowedComplaint: /ERR_NAME_NOT_RESOLVED|ERR_INTERNET_DISCONNECTED/ });

let server: Server;
let provider: OidcProvider;
let origin: string;

test.beforeAll(async () => {
  test.setTimeout(180_000);
  provider = await OidcProvider.reserve();
  server = await Server.prepare(join(import.meta.dirname, "../.."), {
    BASALT_AUTH_PASSKEY_ENABLED: "true",
    BASALT_AUTH_SECURITY_MANUAL_LINKING_ENABLED: "true",
    BASALT_AUTH_EXTERNAL_GOOGLE_ENABLED: "true",
    BASALT_AUTH_EXTERNAL_GOOGLE_CLIENT_ID: "app",
    BASALT_AUTH_EXTERNAL_GOOGLE_SECRET: "secret",
    BASALT_AUTH_EXTERNAL_GOOGLE_URL: provider.url,
  });
  origin = `http://localhost:${server.port}`;
  await provider.serve(`${origin}/auth/v1/callback`);
  await server.begin();
});

test.afterAll(async () => {
  await server?.stop();
  await provider?.stop();
});

/** An account of this file's server. */
async function account(name: string): Promise<Pick<Person, "email" | "password">> {
  const email = `${name}@example.org`;
  const client = createClient(origin, server.anonKey, { auth: { persistSession: false } });
  const options = { data: { organization_name: "Riverside" } };
  const { error } = await client.auth.signUp({ email, password: "correct horse", options });
  if (error) throw error;
  return { email, password: "correct horse" };
}

async function logIn(page: Page, { email, password }: Pick<Person, "email" | "password">) {
  await page.goto(`${origin}/login`);
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Log In", exact: true }).click();
  await expect(page).toHaveURL(`${origin}/dashboard`);
}

async function openAccount(page: Page) {
  await page.goto(`${origin}/account`);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Your account");
}

async function signOut(page: Page) {
  await page.getByRole("button", { name: "User menu" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await expect(page.getByRole("button", { name: "User menu" })).toBeHidden();
}

/** A platform authenticator with discoverable credentials and verified users. */
async function virtualAuthenticator(page: Page) {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("WebAuthn.enable");
  const { authenticatorId } = await devtools.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  const set = (isUserVerified: boolean) =>
    devtools.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified });
  const count = async () => {
    const { credentials } = await devtools.send("WebAuthn.getCredentials", { authenticatorId });
    return credentials.length;
  };
  return { set, count };
}

test("passkey is added, renamed, used and removed", async ({ page }) => {
  test.slow();
  const maria = await account("passkey");
  const authenticator = await virtualAuthenticator(page);
  await logIn(page, maria);
  await openAccount(page);
  const section = page.getByRole("region", { name: "Passkeys" });
  await expect(section).toContainText("You have no passkeys yet.");
  await section.getByRole("button", { name: "Add a passkey" }).click();
  await expectToast(page, "Passkey added");
  await expect(section.getByRole("listitem")).toContainText(/Chrome on \w+Added/);
  expect(await authenticator.count()).toBe(1);

  // The device has one for this account already.
  await section.getByRole("button", { name: "Add a passkey" }).click();
  await expect(page.getByText("This device already has a passkey for your account.")).toBeVisible();

  await section.getByRole("button", { name: /^Rename Chrome on/ }).click();
  const field = section.getByRole("textbox", { name: /^Rename Chrome on/ });
  await field.fill("");
  await field.press("Enter");
  await expect(section.getByRole("alert")).toHaveText("Enter a name");
  await field.fill("Maria's laptop");
  await field.press("Enter");
  await expectToast(page, "Passkey renamed");
  await expect(section.getByRole("listitem")).toContainText("Maria's laptop");
  await examine(page, "account with a passkey");
  await page.setViewportSize({ width: 320, height: 640 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);

  // Signs in without a user name, on a phone.
  await signOut(page);
  await page.goto(`${origin}/login`);
  await expect(page.getByRole("button", { name: "Sign in with a passkey" })).toBeVisible();
  await examine(page, "log-in with a passkey");
  await page.setViewportSize({ width: 320, height: 640 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  await authenticator.set(false);
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await expect(page.getByText("The request was canceled, or timed out.")).toBeVisible();
  await authenticator.set(true);
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await expect(page).toHaveURL(`${origin}/dashboard`);

  await openAccount(page);
  await expect(section.getByRole("listitem")).toContainText("last used");
  await section.getByRole("button", { name: "Remove Maria's laptop" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Remove" }).click();
  await expectToast(page, "Passkey removed");
  await expect(section).toContainText("You have no passkeys yet.");

  // The device still has it, but the server no longer accepts it.
  await signOut(page);
  await page.goto(`${origin}/login`);
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await expect(page.getByText("This passkey does not belong to an account here.")).toBeVisible();
  await expect(page).toHaveURL(`${origin}/login`);
});

test("passkeys are not offered at an IP address", async ({ page }) => {
  await page.goto(`http://127.0.0.1:${server.port}/login`);
  await expect(page.getByRole("button", { name: "Continue with Google" })).toBeVisible();
  await expect(page.getByRole("button", { name: "Sign in with a passkey" })).toBeHidden();
  await page.goto(`${origin}/register`);
  await expect(page.getByRole("button", { name: "Continue with Google" })).toBeVisible();
  await expect(page.getByRole("button", { name: "Sign in with a passkey" })).toBeHidden();
});

/** Signs in at the provider's pages. */
async function signInAtProvider(page: Page, login: string) {
  await expect(page).toHaveURL(new RegExp(`^${provider.url}/interaction/`));
  await page.locator('input[name="login"]').fill(login);
  await page.locator('input[name="password"]').fill("any");
  await page.getByRole("button", { name: "Sign-in" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
}

test("provider signs in, and is linked and unlinked", async ({ page, browser }) => {
  test.slow();
  await page.setViewportSize({ width: 320, height: 640 });
  await page.goto(`${origin}/login`);
  await page.getByRole("button", { name: "Continue with Google" }).click();
  await signInAtProvider(page, "ada");
  // The session comes in the fragment.
  await expect(page.getByRole("button", { name: "User menu" })).toBeVisible();
  await openAccount(page);
  const section = page.getByRole("region", { name: "Connected accounts" });
  await expect(section.getByRole("listitem")).toContainText(/Google.*ada@example.org/);
  // The only sign-in method cannot be removed.
  await expect(section.getByRole("button", { name: "Disconnect Google" })).toBeHidden();

  // Another account connects one of the provider's accounts that has another address.
  const context = await browser.newContext({ viewport: { width: 375, height: 800 } });
  const phone = await context.newPage();
  await logIn(phone, await account("linker"));
  await openAccount(phone);
  const connected = phone.getByRole("region", { name: "Connected accounts" });
  await connected.getByRole("button", { name: "Connect Google" }).click();
  await signInAtProvider(phone, "grace");
  await expect(phone).toHaveURL(new RegExp(`^${origin}/account`));
  await expect(connected.getByRole("listitem").filter({ hasText: "Google" })).toContainText("grace@example.org");
  await examine(phone, "account with a connected provider");
  await connected.getByRole("button", { name: "Disconnect Google" }).click();
  await expectToast(phone, "Account disconnected");
  await expect(connected.getByRole("button", { name: "Connect Google" })).toBeVisible();
  await context.close();
});
