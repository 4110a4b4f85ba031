import { expect, test } from "./fixtures";

test("admin area redirects visitors and users", async ({ page, person, signedIn }) => {
  await page.goto("/admin");
  await expect(page).toHaveURL("/login");
  const plain = await signedIn(await person());
  await plain.goto("/admin");
  await expect(plain).toHaveURL("/dashboard");
  await expect(plain.getByRole("heading", { name: "Strategic Plans", exact: true })).toBeVisible();
});

test("overview links to all sections and names the admin", async ({ administrator, signedIn }) => {
  const maria = await administrator();
  const page = await signedIn(maria);
  await page.goto("/admin");
  await expect(page.getByRole("heading", { name: "Admin Overview" })).toBeVisible();
  const main = page.getByRole("main");
  for (const [name, path] of [
    [/^Email Integration Who/, "/admin/integrations/email"],
    [/^Marketing Content The/, "/admin/marketing"],
    [/^App Settings All/, "/admin/settings"],
  ] as const) {
    await expect(main.getByRole("link", { name })).toHaveAttribute("href", path);
  }
  await expect(main.getByText(maria.email)).toBeVisible();
  await expect(main.getByText(maria.id)).toBeVisible();
});

test("sidebar collapses and remembers its state", async ({ administrator, signedIn }) => {
  const page = await signedIn(await administrator());
  await page.goto("/admin");
  const sidebar = page.getByRole("complementary");
  await expect(sidebar).toHaveCSS("width", "256px");
  await expect(page.getByRole("link", { name: "Main Dashboard" })).toHaveAttribute("href", "/dashboard");

  await page.keyboard.press("Control+b");
  await expect(sidebar).toHaveCSS("width", "48px");
  // The links of the collapsed sidebar keep their accessible names.
  await expect(page.getByRole("link", { name: "Webhook Management" })).toBeVisible();
  const [cookie] = (await page.context().cookies()).filter(({ name }) => name === "sidebar_state");
  const days = ((cookie?.expires ?? 0) - Date.now() / 1000) / 86_400;
  expect(days).toBeGreaterThan(6.9);
  expect(days).toBeLessThanOrEqual(7);

  await page.reload();
  await expect(sidebar).toHaveCSS("width", "48px");
  await page.getByRole("button", { name: "Toggle sidebar" }).click();
  await expect(sidebar).toHaveCSS("width", "256px");
  await page.keyboard.press("Meta+b");
  await expect(sidebar).toHaveCSS("width", "48px");
});

test("phone sidebar is a sheet that closes on navigation", async ({ administrator, signedIn }) => {
  const page = await signedIn(await administrator());
  await page.setViewportSize({ width: 375, height: 700 });
  await page.goto("/admin");
  await expect(page.getByRole("complementary")).toHaveCount(0);
  await page.getByRole("button", { name: "Toggle sidebar" }).click();
  const sheet = page.getByRole("dialog", { name: "Administration" });
  await expect(sheet).toHaveCSS("width", "288px");
  await page.keyboard.press("Escape");
  await expect(sheet).toBeHidden();
  await page.keyboard.press("Control+b");
  await sheet.getByRole("link", { name: "Main Dashboard" }).click();
  await expect(page).toHaveURL("/dashboard");
  await expect(sheet).toBeHidden();
});

test("admin who loses the role gets a message and is redirected", async ({ administrator, signedIn }) => {
  const [maria, other] = [await administrator(), await administrator()];
  const page = await signedIn(maria);
  await page.goto("/admin");
  await expect(page.getByRole("heading", { name: "Admin Overview" })).toBeVisible();
  await other.client.from("user_roles").delete().eq("user_id", maria.id).throwOnError();
  // Returning to the tab checks the role again.
  await page.evaluate(() => window.dispatchEvent(new Event("visibilitychange")));
  await expect(page).toHaveURL("/dashboard");
  await expect(page.getByText("You are no longer an administrator")).toBeVisible();
});
