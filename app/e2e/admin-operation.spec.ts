import { expect, test } from "./fixtures";

test("users can be found, promoted, demoted and disabled", async ({ administrator, person, signedIn, page: other }) => {
  const [maria, tom] = [await administrator(), await person()];
  const page = await signedIn(maria);
  await page.goto("/admin/users");
  await page.getByLabel("Search").fill(tom.email);
  const row = page.getByRole("row", { name: tom.email });
  await expect(page.getByText("Showing 1 of 1 users")).toBeVisible();
  await expect(row).toContainText("Riverside Food Bank");
  const act = async (item: string, confirm: string) => {
    await row.getByRole("button", { name: /^Actions for/ }).click();
    await page.getByRole("menuitem", { name: item }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: confirm }).click();
  };

  await act("Appoint administrator", "Appoint");
  await expect(page.getByText("Administrator appointed")).toBeVisible();
  await expect(row.getByText("Admin", { exact: true })).toBeVisible();
  await act("Dismiss as administrator", "Dismiss");
  await expect(page.getByText("Administrator dismissed")).toBeVisible();

  await act("Disable account", "Disable");
  await expect(page.getByText("Account disabled")).toBeVisible();
  await expect(row.getByText("Disabled")).toBeVisible();
  await other.goto("/login");
  await other.getByLabel("Email").fill(tom.email);
  await other.getByLabel("Password", { exact: true }).fill(tom.password);
  await other.getByRole("button", { name: "Log In" }).click();
  await expect(other.getByRole("alert")).toBeVisible();
  await expect(other).toHaveURL("/login");
  const { error } = await tom.client.auth.refreshSession();
  expect(error).not.toBeNull();

  await act("Enable account", "Enable");
  await expect(page.getByText("Account enabled")).toBeVisible();
  await other.getByRole("button", { name: "Log In" }).click();
  await expect(other).toHaveURL("/dashboard");

  await page.getByLabel("Search").fill(maria.email);
  await page.getByRole("button", { name: `Actions for ${maria.email}` }).click();
  await expect(page.getByRole("menuitem", { name: "Disable account" })).toBeDisabled();
  await page.keyboard.press("Escape");
  await page.getByLabel("Search").fill("nobody at all");
  await expect(page.getByText("No matching users found")).toBeVisible();

  // Each was logged.
  await page.goto("/admin/audit-log");
  await page.getByLabel("Search").fill(tom.id);
  await expect(page.getByText("Showing 4 of 4 lines")).toBeVisible();
  for (const word of ["Added", "Deleted", "Disabled", "Enabled"]) {
    await expect(page.getByRole("row", { name: maria.email }).filter({ hasText: word })).toBeVisible();
  }
});

test("audit log shows changes without secrets", async ({ administrator, signedIn }) => {
  const maria = await administrator();
  const value = { apiKey: "re_audit_secret_0123456789", fromEmail: "a@example.org", fromName: "A" };
  await maria.client.from("app_settings").insert({ key: "test_audit", value }).throwOnError();
  await maria.client.from("app_settings").delete().eq("key", "test_audit").throwOnError();
  const page = await signedIn(maria);
  await page.goto("/admin/audit-log");
  await page.getByLabel("Search").fill("test_audit");
  const line = page.getByRole("row", { name: maria.email }).filter({ hasText: "Added" });
  await line.getByRole("button", { name: /^Details/ }).click();
  await expect(line.locator("pre")).toContainText('"value"');
  expect(await page.content()).not.toContain("re_audit_secret");
});

test("audit log shows names with addresses", async ({ administrator, signedIn }) => {
  const [maria, tom] = [await administrator(), await administrator()];
  const name = `Maria ${maria.id.slice(0, 8)}`;
  const { error } = await maria.client.auth.updateUser({ data: { name: `  ${name}\n` } });
  if (error) throw error;
  for (const { client, id } of [maria, tom]) {
    const key = `test_name_${id}`;
    await client.from("app_settings").insert({ key, value: 1 }).throwOnError();
    await client.from("app_settings").delete().eq("key", key).throwOnError();
  }
  const page = await signedIn(maria);
  await page.goto("/admin/audit-log");
  await page.getByLabel("Search").fill(name.toLowerCase());
  await expect(page.getByText("Showing 2 of 2 lines")).toBeVisible();
  await expect(page.getByRole("rowheader").first()).toHaveText(`${name}${maria.email}`);
  // An account without a name is shown by its address.
  await page.getByLabel("Search").fill(tom.email);
  await expect(page.getByRole("rowheader").first()).toHaveText(tom.email);
});

test("health and growth show figures", async ({ administrator, signedIn }) => {
  const page = await signedIn(await administrator());
  // Two mails were given up: as the server reports it, until they are retried.
  let retried = false;
  await page.route("**/rpc/admin_health", async (route) => {
    const response = await route.fetch();
    const mail = { waiting: 1, oldest_waiting: null, abandoned: 2, last_error: "API key is invalid" };
    await route.fulfill({ json: { ...(await response.json()), ...(!retried && { mail }) } });
  });
  await page.route("**/functions/v1/retry-mails", (route) => {
    retried = true;
    return route.fulfill({ json: { retried: 2 } });
  });
  await page.goto("/admin/health");
  for (const panel of ["Webhook inbox", "E-mail", "Backups", "Storage", "Accounts", "Database and versions"]) {
    await expect(page.getByRole("heading", { name: panel })).toBeVisible();
  }
  await expect(page.getByText("plan_files")).toBeVisible();
  await expect(page.getByText("2 not delivered")).toBeVisible();
  await expect(page.getByText("API key is invalid")).toBeVisible();
  await page.getByRole("button", { name: "Retry" }).click();
  await expect(page.getByText("2 not delivered")).toHaveCount(0);
  await page.goto("/admin");
  await expect(page.getByRole("img", { name: /^Sign-ups, the last 90 days: [\d,]+\. Highest/ })).toBeVisible();
  await expect(page.getByRole("img", { name: /^Active subscriptions, the last 90 days: / })).toBeVisible();
  await expect(page.getByRole("img", { name: /^Monthly revenue, the last 90 days: \$/ })).toBeVisible();
});

test("server rejects all admin calls of a plain user", async ({ person }) => {
  const { client, id } = await person();
  const calls = await Promise.all([
    client.rpc("admin_list_users"),
    client.rpc("admin_list_audit_log"),
    client.rpc("admin_health"),
    client.rpc("admin_growth"),
    client.rpc("get_webhook_events"),
    client.rpc("admin_set_user_disabled", { user_id: id, disabled: true }),
    client.from("user_roles").insert({ user_id: id, role: "admin" }),
    client.from("subscription_plans").insert({ name: "Free", price: 0, stripe_price_id: "price_free", features: [] }),
    client.from("marketing_content").upsert({ section: "hero", title: "Mine" }, { onConflict: "section" }),
    client.from("app_settings").insert({ key: "mine", value: 1 }),
  ]);
  expect(calls.map(({ error }) => error?.code)).toEqual(calls.map(() => "42501"));
  const { data } = await client.from("app_settings").select("key").throwOnError();
  expect(data).toEqual([]);
});
