import { expect, test } from "./fixtures";
import { Mailbox } from "./mailbox";

// The settings are one row each, so tests that write them must not run at the same time.
test.describe.configure({ mode: "serial" });

test("settings mask the key and keep or replace it", async ({ administrator, signedIn }) => {
  const maria = await administrator();
  await maria.client.from("app_settings").delete().eq("key", "email_resend").throwOnError();
  const page = await signedIn(maria);
  // Resend's part: a wrong key is rejected before it is saved.
  await page.route("**/functions/v1/test-mail-key", (route) =>
    /wrong/.test(route.request().postData() ?? "")
      ? route.fulfill({ status: 400, json: { error: "Resend rejects this key: API key is invalid", code: "api_key" } })
      : route.fulfill({ json: { success: true } }),
  );
  await page.goto("/admin/integrations/email");
  await expect(page.getByRole("heading", { name: "Email Integration", exact: true })).toBeVisible();
  await expect(page.getByRole("tab")).toHaveText(["Settings", "Email Templates", "Test Email"]);
  await expect(page.getByRole("tab", { name: "Test Email" })).toBeDisabled();

  const save = page.getByRole("button", { name: "Save Settings" });
  await save.click();
  for (const message of ["API key is required", "Must be a valid email address", "Sender name is required"]) {
    await expect(page.getByText(message)).toBeVisible();
  }
  await page.getByLabel("Resend API Key").fill("re_wrong");
  await page.getByLabel("From Email").fill("plans@example.org");
  await page.getByLabel("From Name").fill("Riverside");
  await save.click();
  await expect(page.getByLabel("Resend API Key")).toHaveAccessibleDescription(
    "Resend rejects this key: API key is invalid",
  );
  await page.getByLabel("Resend API Key").fill("re_1234567890abcdefghij_WXYZ");
  await save.click();
  await expect(page.getByText("Settings saved")).toBeVisible();
  await expect(page.getByLabel("Resend API Key")).toHaveValue("••••••••WXYZ");
  await expect(page.getByRole("tab", { name: "Test Email" })).toBeEnabled();

  // Saving another field keeps the key.
  await page.getByLabel("From Name").fill("Riverside Trust");
  const again = page.waitForResponse((response) => response.request().method() === "PATCH");
  await save.click();
  expect((await again).ok()).toBe(true);
  await page.reload();
  await expect(page.getByLabel("From Name")).toHaveValue("Riverside Trust");
  await expect(page.getByLabel("Resend API Key")).toHaveValue("••••••••WXYZ");

  await page.getByRole("button", { name: "Replace key" }).click();
  await expect(page.getByLabel("Resend API Key")).toHaveValue("");
  await page.getByRole("button", { name: "Keep the saved key" }).click();
  await expect(page.getByLabel("Resend API Key")).toHaveValue("••••••••WXYZ");
  expect(await page.content()).not.toContain("re_1234567890");

  await page.getByRole("button", { name: "Remove key" }).click();
  await page.getByRole("alertdialog", { name: "Remove Key" }).getByRole("button", { name: "Remove Key" }).click();
  await expect(page.getByLabel("Resend API Key")).toHaveValue("");
  await expect(page.getByLabel("From Name")).toHaveValue("Riverside Trust");
  await expect(page.getByRole("tab", { name: "Test Email" })).toBeDisabled();
});

test("template is validated, previewed and saved", async ({ administrator, signedIn }) => {
  const maria = await administrator();
  const { data: before } = await maria.client
    .from("app_settings")
    .select("value")
    .eq("key", "invite_email_template")
    .single()
    .throwOnError();
  const page = await signedIn(maria);
  await page.goto("/admin/integrations/email?tab=templates");
  const [subject, body] = [page.getByLabel("Subject Template"), page.getByLabel("Email Body Template")];
  const preview = page.getByRole("figure", { name: "Preview" });
  await subject.fill("");
  await body.fill("");
  await page.getByRole("button", { name: "Save Template" }).click();
  await expect(page.getByText("Subject template is required")).toBeVisible();
  await expect(page.getByText("Email body template is required")).toBeVisible();

  await subject.fill("Join {{planTitle}} {{role}}");
  await expect(page.getByText("{{role}} is no variable here and will be sent as written.")).toBeVisible();
  await subject.fill("Join {{planTitle}}");
  await body.fill(
    '<p>{{inviterEmail}} asks you as <b>{{role}}</b>: <a href="{{inviteUrl}}">come</a></p><script>window.harmed = 1</script>',
  );
  await expect(preview).toContainText("Join Five-year outreach plan");
  await expect(preview).toContainText("maria@example.org asks you as manager: come");
  expect(await page.evaluate(() => "harmed" in window)).toBe(false);
  await page.getByRole("button", { name: "Save Template" }).click();
  await expect(page.getByText("Template saved")).toBeVisible();

  await maria.client
    .from("app_settings")
    .update({ value: before.value })
    .eq("key", "invite_email_template")
    .throwOnError();
});

test("second admin to save the template sees a conflict", async ({ administrator, signedIn }) => {
  const maria = await administrator();
  const { data: before } = await maria.client
    .from("app_settings")
    .select("value")
    .eq("key", "invite_email_template")
    .single()
    .throwOnError();
  const page = await signedIn(maria);
  await page.goto("/admin/integrations/email?tab=templates");
  await page.getByLabel("Subject Template").fill("Mine");
  const theirs = { subject: "Theirs", body: "<p>Theirs</p>" };
  await maria.client.from("app_settings").update({ value: theirs }).eq("key", "invite_email_template").throwOnError();
  await page.getByRole("button", { name: "Save Template" }).click();
  await expect(page.getByText("Failed to save template.")).toBeVisible();
  await expect(page.getByLabel("Subject Template")).toHaveValue("Mine");
  await page.getByRole("button", { name: "Load their version" }).click();
  await expect(page.getByLabel("Subject Template")).toHaveValue("Theirs");
  await maria.client
    .from("app_settings")
    .update({ value: before.value })
    .eq("key", "invite_email_template")
    .throwOnError();
});

test.describe("test e-mail", () => {
  // The error of the mail service, as the browser reports it.
  test.use({ allowedComplaint: /the server responded with a status of 502/ });

  test("is validated, shows provider errors, and arrives", async ({ administrator, signedIn, request }) => {
    const maria = await administrator();
    const value = { apiKey: "re_no_such_key_at_resend_0000", fromEmail: "plans@example.org", fromName: "Riverside" };
    await maria.client
      .from("app_settings")
      .upsert({ key: "email_resend", value }, { onConflict: "key" })
      .throwOnError();
    const page = await signedIn(maria);
    await page.goto("/admin/integrations/email");
    await page.getByRole("tab", { name: "Test Email" }).click();
    await expect(page.getByLabel("To", { exact: true })).toHaveValue(maria.email);
    await page.getByLabel("To", { exact: true }).fill("nowhere");
    await page.getByLabel("Subject", { exact: true }).fill("");
    await page.getByLabel("Message", { exact: true }).fill("");
    await page.getByRole("button", { name: "Send Test Email" }).click();
    for (const message of ["Must be a valid email address", "Subject is required", "Message is required"]) {
      await expect(page.getByText(message)).toBeVisible();
    }
    await page.getByLabel("To", { exact: true }).fill(maria.email);
    await page.getByLabel("Subject", { exact: true }).fill("Hello from the admin area");
    await page.getByLabel("Message").fill("Come and see: https://example.org/plans");
    await page.getByRole("button", { name: "Send Test Email" }).click();
    // Resend rejects the key or is not reachable.
    await expect(page.getByText("Failed to send test email.")).toBeVisible({ timeout: 30_000 });
    await expect(page.getByLabel("Message")).toHaveValue("Come and see: https://example.org/plans");

    // Without a key the server's own mail settings apply: here, the development mailbox.
    await maria.client.from("app_settings").delete().eq("key", "email_resend").throwOnError();
    await page.getByRole("button", { name: "Send Test Email" }).click();
    await expect(page.getByText("Test email sent")).toBeVisible();
    const { subject, link } = await new Mailbox(request).latest(maria.email);
    expect(subject).toBe("Hello from the admin area");
    expect(link).toBe("https://example.org/plans");
  });
});
