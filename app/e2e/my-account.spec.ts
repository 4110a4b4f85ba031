import { createHmac } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Page } from "@playwright/test";
import { examine } from "./examine";
import { expect, type Person, pixel, test } from "./fixtures";
import { addMember, expectToast, makePlan } from "./workspace";

const open = async (page: Page) => {
  await page.goto("/account");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Your account");
};

/** The code that an authenticator app shows; `ahead` steps of 30 s later. A code works once. */
function totp(secret: string, ahead = 0) {
  const bits = [...secret.replace(/=+$/, "")]
    .map((letter) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(letter).toString(2).padStart(5, "0"))
    .join("");
  const key = Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + ahead));
  const digest = createHmac("sha1", key).update(counter).digest();
  const number = digest.readUInt32BE((digest.at(-1) ?? 0) & 15) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, "0");
}

async function logIn(page: Page, { email, password }: Pick<Person, "email" | "password">) {
  await page.goto("/login");
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Log In", exact: true }).click();
}

test("account page passes axe and fits the narrowest phone", async ({ person, signedIn }) => {
  test.slow();
  const page = await signedIn(await person());
  await page.route("**/auth/v1/settings", (route) =>
    route.fulfill({ json: { external: { google: true, email: true, github: false } } }),
  );
  await open(page);
  await expect(page.getByText("This device")).toBeVisible();
  await expect(page.getByRole("button", { name: "Connect Google" })).toBeVisible();
  await examine(page, "account");
  await page.setViewportSize({ width: 320, height: 640 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.getByRole("button", { name: "Add an authenticator app" }).click();
  await expect(page.getByRole("img", { name: "QR code for the authenticator app" })).toBeVisible();
  await examine(page, "authenticator app");
});

test("name, organization and picture are saved and shown", async ({ person, signedIn }) => {
  const page = await signedIn(await person());
  await open(page);
  await page.getByLabel("Name", { exact: true }).fill("Maya Fischer");
  await page.getByLabel("Organization Name").fill("R");
  await page.getByRole("button", { name: "Save profile" }).click();
  await expect(page.getByText("Organization name is required")).toBeVisible();
  await page.getByLabel("Organization Name").fill("Riverside");
  await page.getByRole("button", { name: "Save profile" }).click();
  await expectToast(page, "Profile saved");

  await page
    .getByLabel("Picture file")
    .setInputFiles({ name: "bomb.png", mimeType: "image/png", buffer: Buffer.from("no image") });
  await expect(page.getByRole("alert")).toHaveText(/could not be read/);
  await page.getByLabel("Picture file").setInputFiles({ name: "me.png", mimeType: "image/png", buffer: pixel });
  await expectToast(page, "Picture saved");
  await page.reload();
  await expect(page.getByLabel("Name", { exact: true })).toHaveValue("Maya Fischer");
  const picture = page.getByRole("banner").locator("img[src*='/avatars/']");
  await expect(picture).toBeVisible();
  const response = await page.request.get((await picture.getAttribute("src")) ?? "");
  expect(response.headers()["content-type"]).toBe("image/png");
  await page.getByRole("button", { name: "User menu" }).click();
  await expect(page.getByRole("menu")).toContainText("Maya Fischer");
  await page.keyboard.press("Escape");

  await page.getByRole("button", { name: "Remove picture" }).click();
  await expectToast(page, "Picture removed");
  await expect(picture).toBeHidden();
});

test("second factor is set up, required at log-in, and enforced by policies", async ({
  page,
  person,
  signedIn,
  browser,
}) => {
  test.slow();
  const lost = await (await browser.newContext()).newPage();
  const maria = await person();
  await makePlan(maria, "Guarded plan");
  const first = await signedIn(maria);
  await open(first);
  await first.getByRole("button", { name: "Add an authenticator app" }).click();
  const dialog = first.getByRole("dialog");
  const secret =
    (await dialog
      .locator("code")
      .filter({ hasText: /^[A-Z2-7]{16,}$/ })
      .textContent()) ?? "";
  await dialog.getByLabel("Code", { exact: true }).fill("000000");
  await dialog.getByRole("button", { name: "Verify" }).click();
  await expect(dialog.getByText(/wrong or has expired/)).toBeVisible();
  await dialog.getByLabel("Code", { exact: true }).fill(totp(secret));
  await dialog.getByRole("button", { name: "Verify" }).click();
  await expectToast(first, "Authenticator app added");
  await expect(first.getByText("Logging in takes your password and a code.")).toBeVisible();

  // The password alone: the app asks for the code, and the API returns nothing.
  await logIn(page, maria);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Enter your code");
  await page.goto("/dashboard");
  await expect(page).toHaveURL("/login");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Enter your code");
  await maria.client.auth.signInWithPassword(maria);
  const plans = await maria.client.from("plans").select("id").throwOnError();
  expect(plans.data).toEqual([]);
  const deletion = await maria.client.rpc("delete_my_account");
  expect(deletion.error?.message).toBe("Enter the code of your authenticator app first");

  await page.getByLabel("Code", { exact: true }).fill("000000");
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page.getByRole("alert")).toHaveText(/wrong or has expired/);
  await page.getByLabel("Code", { exact: true }).fill(totp(secret, 1));
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page).toHaveURL("/dashboard");
  await expect(page.getByRole("link", { name: "Guarded plan", exact: true })).toBeVisible();

  // A recovery code replaces the app once.
  await open(page);
  await page.getByRole("button", { name: "Create recovery codes" }).click();
  const codesDialog = page.getByRole("dialog");
  await expect(codesDialog.getByRole("listitem")).toHaveCount(10);
  const recoveryCode = (await codesDialog.getByRole("listitem").first().textContent()) ?? "";
  await examine(page, "recovery codes");
  await codesDialog.getByRole("button", { name: "I have saved my codes" }).click();
  await expect(page.getByText("10 of 10 codes are unused.")).toBeVisible();
  await logIn(lost, maria);
  await lost.getByRole("button", { name: "Use a recovery code" }).click();
  await lost.getByRole("textbox", { name: "Recovery code" }).fill("0000-0000-0000-0000");
  await lost.getByRole("button", { name: "Continue" }).click();
  await expect(lost.getByRole("alert")).toHaveText(/wrong or was used before/);
  await examine(lost, "recovery code");
  await lost.getByRole("textbox", { name: "Recovery code" }).fill(recoveryCode.toUpperCase());
  await lost.getByRole("button", { name: "Continue" }).click();
  await expect(lost).toHaveURL("/dashboard");
  await expect(lost.getByRole("link", { name: "Guarded plan", exact: true })).toBeVisible();
  await open(page);
  await expect(page.getByText("9 of 10 codes are unused.")).toBeVisible();

  // After its removal the password is enough again.
  await open(page);
  await page.getByRole("button", { name: "Remove Authenticator app" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Remove" }).click();
  await expect(page.getByText("Logging in takes only your password.")).toBeVisible();
  await page.reload();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Your account");
});

test("signing out elsewhere ends the other sessions only", async ({ person, signedIn }) => {
  const maria = await person();
  const page = await signedIn(maria);
  await maria.client.auth.signInWithPassword(maria);
  await open(page);
  await expect(page.getByText("This device")).toHaveCount(1);
  await page.getByRole("button", { name: "Sign out elsewhere" }).click();
  await expectToast(page, "Signed out everywhere else");
  await expect(page.getByRole("button", { name: "Sign out elsewhere" })).toBeHidden();
  expect((await maria.client.auth.getUser()).error?.name).toBe("AuthSessionMissingError");
  await page.reload();
  await expect(page.getByText("This device")).toBeVisible();
});

test("email and password are changed", async ({ page: visitor, person, signedIn }) => {
  const maria = await person();
  const other = await person();
  const page = await signedIn(maria);
  await open(page);
  const email = page.getByRole("form", { name: "Email address" });
  await email.getByLabel("Email").fill(other.email);
  await email.getByRole("button").click();
  await expect(email.getByText("There is already an account with this email.")).toBeVisible();
  const address = `new-${maria.email}`;
  await email.getByLabel("Email").fill(address);
  await email.getByRole("button").click();
  await expect(email.getByText("Check your email")).toBeVisible();
  await expect(email).toContainText(address);

  const password = page.getByRole("form", { name: "Password" });
  await password.getByLabel("New password").fill("battery staple");
  await password.getByLabel("Confirm password").fill("battery");
  await password.getByRole("button", { name: "Change password" }).click();
  await expect(password.getByText("Passwords do not match")).toBeVisible();
  await password.getByLabel("Confirm password").fill("battery staple");
  await password.getByRole("button", { name: "Change password" }).click();
  await expectToast(page, "Password changed");
  await logIn(visitor, { email: maria.email, password: "battery staple" });
  await expect(visitor).toHaveURL("/dashboard");
});

test("my data holds my plans and no invitation token", async ({ person, signedIn }) => {
  const maria = await person();
  const { id } = await makePlan(maria, "Exported plan", { Hubs: [{ title: "Find a hall" }] });
  await maria.client
    .from("plan_members")
    .insert({ plan_id: id, email: "guest@example.org", role: "viewer", invite_accepted: false })
    .throwOnError();
  const page = await signedIn(maria);
  await open(page);
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download my data (JSON)" }).click();
  const text = await readFile(await (await download).path(), "utf8");
  const data = JSON.parse(text);
  expect(data.account.email).toBe(maria.email);
  expect(data.plans[0].title).toBe("Exported plan");
  expect(data.plans[0].priorities[0].tasks[0].title).toBe("Find a hall");
  expect(data.plans[0].team).toHaveLength(2);
  expect(text).not.toContain("invite_token");
});

test("account is deleted with the plans that no one else owns", async ({ person, signedIn }) => {
  const [maria, tom] = [await person(), await person()];
  const alone = await makePlan(maria, "Mine alone");
  const shared = await makePlan(maria, "Shared plan");
  await addMember(shared.id, tom, "owner");
  const page = await signedIn(maria);
  await open(page);
  await page.getByRole("button", { name: "Delete my account" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("1 plan will be deleted: you are the only owner");
  await expect(dialog).toContainText("1 plan will stay with the other owners");
  await examine(page, "delete account");
  await expect(dialog.getByRole("button", { name: "Delete my account" })).toBeDisabled();
  await dialog.getByLabel(/Type .* to confirm/).fill(maria.email);
  await dialog.getByRole("button", { name: "Delete my account" }).click();
  await expect(page).toHaveURL("/");
  await expectToast(page, "Your account was deleted");
  expect((await maria.client.auth.signInWithPassword(maria)).error?.code).toBe("invalid_credentials");
  const left = await tom.client.from("plans").select("id, user_id").in("id", [alone.id, shared.id]).throwOnError();
  expect(left.data).toEqual([{ id: shared.id, user_id: tom.id }]);
});

test("sign-in page offers the providers that the server has configured", async ({ page }) => {
  await page.route("**/auth/v1/settings", (route) =>
    route.fulfill({ json: { external: { google: true, email: true, github: false } } }),
  );
  await page.route("**/auth/v1/authorize**", (route) => route.fulfill({ body: "the provider" }));
  await page.goto("/login");
  await expect(page.getByRole("button", { name: "Continue with GitHub" })).toBeHidden();
  await page.getByRole("button", { name: "Continue with Google" }).click();
  await expect(page).toHaveURL(/\/auth\/v1\/authorize\?provider=google&redirect_to=.*dashboard/);
});
