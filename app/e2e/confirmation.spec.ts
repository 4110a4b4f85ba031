import { expect, test } from "./fixtures";
import { Mailbox } from "./mailbox";

// Uses a second server that requires confirmed addresses.
const server = process.env.BASALT_CONFIRMING_URL;
test.use({ baseURL: server });
test.skip(!server, "BASALT_CONFIRMING_URL names no server that wants addresses confirmed");

test("sign-up link in the mail signs in", async ({ page, newAccount, request }) => {
  const { email, password, organization } = newAccount;
  const refused = "Please check your email to confirm your account before logging in.";
  await page.goto("/register");
  await page.getByLabel("Organization Name").fill(organization);
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByLabel("I agree to the terms and privacy policy").check();
  await page.getByRole("button", { name: "Sign Up" }).click();
  await expect(page.getByText(refused)).toBeVisible();
  await expect(page).toHaveURL("/login");

  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Log In" }).click();
  await expect(page.getByRole("alert")).toHaveText(refused);

  const { subject, link } = await new Mailbox(request).latest(email);
  expect(subject).toBe("Confirm your email address");
  await page.goto(link);
  // supabase-js empties the fragment but leaves the "#".
  await expect(page).toHaveURL(/\/dashboard#?$/);
  await expect(page.getByRole("heading", { name: "No Strategic Plans Yet" })).toBeVisible();
  await page.getByRole("button", { name: "User menu" }).click();
  await expect(page.getByRole("menu")).toContainText(email);

  // A link works once; opened again elsewhere, it shows an error.
  await page.context().clearCookies();
  await page.evaluate(() => localStorage.clear());
  await page.goto(link);
  await expect(page.getByText("Email link is invalid or has expired")).toBeVisible();
});
