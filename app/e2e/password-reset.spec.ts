import { expect, test } from "./fixtures";
import { Mailbox } from "./mailbox";
import { server } from "./workspace";

const newPassword = "battery staple";

test("reset link replaces the password and works once", async ({ page, person, request }) => {
  const { email, password } = await person();
  await page.goto("/login");
  await page.getByRole("link", { name: "Forgot password?" }).click();
  await expect(page).toHaveURL("/forgot-password");
  await page.getByLabel("Email").fill(email);
  await page.getByRole("button", { name: "Send Reset Link" }).click();
  await expect(page.getByRole("heading", { name: "Check your email" })).toBeFocused();
  await expect(page.getByRole("link", { name: "Back to Login" })).toBeVisible();

  const { subject, link } = await new Mailbox(request).latest(email);
  expect(subject).toBe("Reset your password");
  await page.goto(link);
  await expect(page).toHaveURL(/\/reset-password/);
  await expect(page.getByRole("heading", { name: "Choose a new password" })).toBeVisible();
  // The token is removed from the URL, and so from the history and from copied links.
  await expect(page).not.toHaveURL(/access_token/);

  await page.getByLabel("New Password").fill(password);
  await page.getByLabel("Confirm Password").fill(password);
  await page.getByRole("button", { name: "Reset Password" }).click();
  await expect(page.getByRole("alert")).toHaveText("New password should be different from the old password.");

  await page.getByLabel("New Password").fill(newPassword);
  await page.getByLabel("Confirm Password").fill(newPassword);
  await page.getByRole("button", { name: "Reset Password" }).click();
  await expect(page.getByRole("heading", { name: "Password Reset Successful" })).toBeFocused();
  await expect(page).toHaveURL("/login", { timeout: 6_000 });

  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Log In" }).click();
  await expect(page.getByRole("alert")).toHaveText("Invalid email or password. Please try again.");
  await page.getByLabel("Password").fill(newPassword);
  await page.getByRole("button", { name: "Log In" }).click();
  await expect(page).toHaveURL("/dashboard");
});

test("used link offers a new one", async ({ page, person, request, browser }) => {
  const { email } = await person();
  await page.goto("/forgot-password");
  await page.getByLabel("Email").fill(email);
  await page.getByRole("button", { name: "Send Reset Link" }).click();
  const { link } = await new Mailbox(request).latest(email);
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "Choose a new password" })).toBeVisible();

  const elsewhere = await (await browser.newContext()).newPage();
  await elsewhere.goto(link);
  await expect(elsewhere.getByRole("alert")).toHaveText(
    "Invalid or expired password reset link. Please request a new one.",
  );
  await elsewhere.getByRole("link", { name: "Request a new reset link" }).click();
  await expect(elsewhere).toHaveURL("/forgot-password");
  await elsewhere.context().close();
});

test("unknown address gets the same message and no mail", async ({ page, newAccount, request }) => {
  await page.goto("/forgot-password");
  await page.getByLabel("Email").fill(newAccount.email);
  await page.getByRole("button", { name: "Send Reset Link" }).click();
  await expect(page.getByRole("heading", { name: "Check your email" })).toBeVisible();
  expect(await new Mailbox(request).count(newAccount.email)).toBe(0);
});

test("another user's link keeps the current user's password", async ({ person, signedIn }) => {
  const page = await signedIn(await person());
  await page.goto("/reset-password#access_token=e30.eyJzdWIiOiJub2JvZHkifQ.none&type=recovery");
  await page.getByLabel("New Password").fill(newPassword);
  await page.getByLabel("Confirm Password").fill(newPassword);
  await page.getByRole("button", { name: "Reset Password" }).click();
  await expect(page.getByRole("alert")).toHaveText("Invalid or expired password reset link. Please request a new one.");
});

test("server invitation asks for a password and signs in", async ({ page, newAccount, request }) => {
  const { error } = await server().auth.admin.inviteUserByEmail(newAccount.email);
  expect(error).toBeNull();
  const { link } = await new Mailbox(request).latest(newAccount.email);
  // The screen's script arrives after supabase-js has cleared the fragment, as on a slow connection.
  await page.route(/\/reset-password-[^/]*\.js$/, async (route) => {
    await expect(page).not.toHaveURL(/access_token/);
    await route.continue();
  });
  await page.goto(link);
  await expect(page).toHaveURL("/reset-password");
  await expect(page.getByRole("heading", { name: "Choose a password" })).toBeVisible();
  await page.getByLabel("New Password").fill(newPassword);
  await page.getByLabel("Confirm Password").fill(newPassword);
  await page.getByRole("button", { name: "Reset Password" }).click();
  await expect(page).toHaveURL("/login", { timeout: 6_000 });
  await page.getByLabel("Email").fill(newAccount.email);
  await page.getByLabel("Password").fill(newPassword);
  await page.getByRole("button", { name: "Log In" }).click();
  await expect(page).toHaveURL("/dashboard");
});
