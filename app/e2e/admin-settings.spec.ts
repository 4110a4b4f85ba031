import { expect, pixel, test } from "./fixtures";

// The settings are one row each, so tests that write them must not run at the same time.
test.describe.configure({ mode: "serial" });

test("general lists every setting without secrets", async ({ administrator, signedIn }) => {
  const maria = await administrator();
  await maria.client
    .from("app_settings")
    .upsert({ key: "test_setting", value: { colour: "teal", list: [1, 2] } }, { onConflict: "key" })
    .throwOnError();
  const page = await signedIn(maria);
  await page.goto("/admin/settings");
  await expect(page.getByRole("heading", { name: "App Settings" })).toBeVisible();
  await expect(page.getByRole("tab")).toHaveText(["General", "Logo", "Subscription Prompt", "Operator"]);
  const setting = page.getByRole("listitem").filter({ hasText: "test_setting" });
  await expect(setting).toContainText("Last updated:");
  await expect(setting).toContainText('"colour": "teal"');
  await expect(page.getByRole("listitem").filter({ hasText: "invite_email_template" })).toBeVisible();
  await maria.client.from("app_settings").delete().eq("key", "test_setting").throwOnError();
});

test("failed settings request shows an error", async ({ administrator, signedIn }) => {
  const page = await signedIn(await administrator());
  await page.route("**/rest/v1/app_settings*", (route) => route.fulfill({ status: 400, json: { message: "No" } }));
  await page.goto("/admin/settings");
  await expect(page.getByRole("heading", { name: "Failed to load settings." })).toBeVisible();
  await page.unroute("**/rest/v1/app_settings*");
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByText("invite_email_template")).toBeVisible();
});

test("new logo appears everywhere in three sizes", async ({ administrator, signedIn }) => {
  const maria = await administrator();
  const page = await signedIn(maria);
  await page.goto("/admin/settings?tab=logo");
  for (const use of ["Header and footer", "Mobile and compact areas", "Browser tab"]) {
    await expect(page.getByText(use)).toBeVisible();
  }
  const icon = page.locator('link[rel="icon"]');
  const before = await icon.getAttribute("href");

  await page
    .getByLabel("File for the favicon logo")
    .setInputFiles({ name: "new.png", mimeType: "image/png", buffer: pixel });
  for (const ground of ["light", "dark"]) {
    await expect(page.getByAltText(`Favicon logo, not saved yet, on ${ground}`)).toBeVisible();
  }
  expect(await icon.getAttribute("href")).toBe(before);
  await page.getByRole("button", { name: "Save favicon logo" }).click();
  await expect(icon).toHaveAttribute("href", /\/storage\/v1\/object\/public\/public\/logos\/favicon_.+\.png$/);
  const { status } = await page.evaluate(async () => {
    const link = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
    return { status: (await fetch(link?.href ?? "")).status };
  });
  expect(status).toBe(200);
  const after = await icon.getAttribute("href");
  await page.getByRole("button", { name: "Revert the favicon logo" }).click();
  await expect(icon).not.toHaveAttribute("href", after ?? "");

  await maria.client
    .from("brand_assets")
    .update({ asset_url: before ?? "/favicon.svg" })
    .eq("asset_size", "favicon")
    .throwOnError();
});

test("logo rejects non-images and large files", async ({ administrator, signedIn }) => {
  const page = await signedIn(await administrator());
  await page.goto("/admin/settings?tab=logo");
  const png = { name: "a.png", mimeType: "image/png" };
  for (const [file, reason] of [
    [{ ...png, mimeType: "text/plain", buffer: Buffer.from("hello") }, "Please choose an image file."],
    [{ ...png, buffer: Buffer.from("hello") }, "This file is not an image that browsers can display."],
    [{ ...png, buffer: Buffer.alloc(5 * 1024 * 1024 + 1) }, "The image is too large: 5 MB at most."],
  ] as const) {
    await expect(page.getByRole("button", { name: "Upload regular logo" })).toBeEnabled();
    await page.getByLabel("File for the regular logo").setInputFiles(file);
    await expect(page.getByText("Failed to upload regular logo. Please try again.").first()).toBeVisible();
    await expect(page.getByText(reason)).toBeVisible();
  }
});

test("subscription prompt has texts, preview and limits", async ({ administrator, signedIn }) => {
  const maria = await administrator();
  const { data: before } = await maria.client.from("subscription_prompt").select("*").single().throwOnError();
  const page = await signedIn(maria);
  await page.goto("/admin/settings?tab=subscription-prompt");
  const preview = page.getByRole("figure", { name: "Preview" });
  await page.getByLabel("Title", { exact: true }).fill("Grow with us");
  await page.getByLabel("Features").fill("First\n\n  Second  \n");
  await expect(preview).toContainText("Grow with us");
  await expect(preview.locator("li")).toHaveText(["First", "Second"]);
  await page.getByLabel("Delay (seconds)").fill("301");
  await page.getByRole("button", { name: "Save Prompt" }).click();
  await expect(page.getByText("Delay must be from 0 to 300 seconds")).toBeVisible();

  // Leaving asks for confirmation; switching tabs keeps the input.
  await page.getByRole("link", { name: "Main Dashboard" }).click();
  await page.getByRole("button", { name: "Keep editing" }).click();
  await page.getByRole("tab", { name: "General" }).click();
  await page.getByRole("tab", { name: "Subscription Prompt" }).click();
  await expect(page.getByLabel("Title", { exact: true })).toHaveValue("Grow with us");

  await page.getByLabel("Delay (seconds)").fill("20");
  await page.getByRole("button", { name: "Save Prompt" }).click();
  await expect(page.getByText("Subscription prompt saved")).toBeVisible();
  const { data: saved } = await maria.client.from("subscription_prompt").select("*").single().throwOnError();
  expect(saved).toMatchObject({ title: "Grow with us", features: ["First", "Second"], delay_seconds: 20 });
  await page.getByRole("link", { name: "Main Dashboard" }).click();
  await expect(page).toHaveURL("/dashboard");

  const { title, features, delay_seconds } = before;
  await maria.client
    .from("subscription_prompt")
    .update({ title, features, delay_seconds })
    .eq("id", before.id)
    .throwOnError();
});

test("operator is shown to visitors", async ({ administrator, signedIn, page: visitor }) => {
  const maria = await administrator();
  await maria.client.from("app_settings").delete().eq("key", "site_operator").throwOnError();
  const page = await signedIn(maria);
  await page.goto("/admin/settings?tab=operator");
  await page.getByLabel("Name", { exact: true }).fill("River Trust");
  await page.getByLabel("Postal Address").fill("1 High Street\nEastfield");
  await page.getByLabel("Contact Email").fill("nowhere");
  await page.getByRole("button", { name: "Save Operator" }).click();
  await expect(page.getByText("Must be a valid email address")).toBeVisible();
  await page.getByLabel("Contact Email").fill("hello@example.org");
  await page.getByRole("button", { name: "Save Operator" }).click();
  await expect(page.getByText("Operator saved")).toBeVisible();
  for (const path of ["/terms", "/privacy"]) {
    await visitor.goto(path);
    await expect(visitor.getByText("This site is run by River Trust.")).toBeVisible();
    await expect(visitor.getByText("1 High Street")).toBeVisible();
    await expect(visitor.getByRole("link", { name: "hello@example.org" })).toBeVisible();
  }

  for (const label of ["Name", "Postal Address", "Contact Email"]) {
    await page.getByLabel(label, { exact: true }).fill("");
  }
  await page.getByRole("button", { name: "Save Operator" }).click();
  await expect(page.getByRole("button", { name: "Save Operator" })).toBeEnabled();
  await expect.poll(async () => (await maria.client.rpc("get_site_operator").throwOnError()).data).toEqual([]);
  await visitor.reload();
  await expect(visitor.getByText("has not published a name or an address here yet")).toBeVisible();
  await maria.client.from("app_settings").delete().eq("key", "site_operator").throwOnError();
});
