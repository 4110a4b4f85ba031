import type { Page } from "@playwright/test";
import { examine } from "./examine";
import { expect, type Person, test } from "./fixtures";
import { addMember, expectToast, makePlan, server } from "./workspace";

const shown = {
  "Open four hubs": [
    { title: "Sign the lease", done: true },
    { title: "Find a hall", due: "2020-02-29", by: ["maya@example.org"] },
    { title: "Hire a cook" },
  ],
  "Fresh produce": [{ title: "Agreement with a farm" }],
};

/** A plan with an organization. */
async function planOf(owner: Person) {
  const plan = await makePlan(owner, "Warm meals", shown);
  await owner.client.from("organizations").insert({ plan_id: plan.id, name: "Riverside Food Bank" }).throwOnError();
  return plan;
}

async function addLink(owner: Person, planId: string, columns: { expires_at?: string } = {}) {
  const period = { first_day: "2026-01-01", last_day: "2026-12-31" };
  await owner.client.from("plan_reports").upsert({ plan_id: planId, ...period }, { ignoreDuplicates: true });
  const added = await owner.client
    .from("plan_report_links")
    .insert({ plan_id: planId, valid_days: 30 })
    .select("id, token")
    .single()
    .throwOnError();
  // The server alone can change it.
  if (columns.expires_at)
    await server().from("plan_report_links").update(columns).eq("id", added.data.id).throwOnError();
  return `/report/${added.data.token}`;
}

const report = (page: Page) => page.getByRole("article");
const links = (page: Page) => page.getByRole("list", { name: "Links" }).getByRole("listitem");

test("owner writes a report and shares it with a visitor until it is revoked", async ({ person, signedIn, page }) => {
  const maria = await person();
  const plan = await planOf(maria);
  const own = await signedIn(maria);
  await own.goto(`/plan/${plan.id}`);
  await own.getByRole("button", { name: "More actions for this plan" }).click();
  await own.getByRole("menuitem", { name: "Report…" }).click();

  await expect(own.getByRole("heading", { level: 1 })).toHaveText("Warm meals");
  await expect(own).toHaveTitle("Warm meals report · Basalt");
  await expect(report(own)).toContainText("Riverside Food Bank");
  await expect(report(own).getByRole("heading", { level: 2 })).toHaveText([
    "Progress by priority",
    "Tasks completed per month",
    "Done in this period (1)",
    "Late (1)",
    "What comes next (0)",
  ]);
  await expect(report(own)).toContainText("2 tasks have no date.");
  await expect(report(own).getByRole("row").filter({ hasText: "Find a hall" })).toContainText("Feb 29, 2020");
  await expect(report(own)).not.toContainText("maya@example.org");
  await expect(report(own).getByRole("img", { name: /^Progress by priority/ })).toHaveAccessibleName(
    "Progress by priority: Fresh produce 0%, Open four hubs 33%",
  );

  // Typed settings show at once.
  await own.getByRole("checkbox", { name: "Fresh produce" }).click();
  await expect(report(own).getByRole("rowheader")).toHaveText(["Open four hubs"]);
  await own.getByRole("button", { name: "Add a comment" }).click();
  await own.getByLabel("Comment", { exact: true }).fill("We found a farm.");
  await expect(report(own)).toContainText("We found a farm.");
  await expect(own.getByText("Your latest changes are not saved.")).toBeVisible();
  await own.getByRole("button", { name: "Save report" }).click();
  await expectToast(own, "Report saved");
  await expect(own.getByRole("button", { name: "Save report" })).toBeDisabled();

  await own.getByLabel("The link works for").selectOption("1 year");
  await own.getByRole("button", { name: "Create link" }).click();
  await expect(links(own)).toHaveCount(1);
  await expect(links(own)).toContainText("not opened yet");
  const address = await links(own).getByRole("textbox").inputValue();

  const answer = page.waitForResponse(/rpc\/get_shared_report/);
  await page.goto(address);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Warm meals");
  await expect(report(page)).toContainText("We found a farm.");
  await expect(report(page).getByRole("rowheader")).toHaveText(["Open four hubs"]);
  await expect(page.locator('meta[name="robots"]')).toHaveAttribute("content", /noindex/);
  const body = await (await answer).text();
  for (const secret of ["example.org", "Agreement with a farm", plan.id, maria.id]) expect(body).not.toContain(secret);

  await own.reload();
  await expect(links(own)).toContainText("last opened");
  await links(own).getByRole("button", { name: "Revoke" }).click();
  await own.getByRole("alertdialog").getByRole("button", { name: "Revoke link" }).click();
  await expectToast(own, "Link revoked");
  await expect(links(own)).toHaveCount(0);
  await page.reload();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("This report is not available");
});

test("guessed, expired and deleted links show the same page", async ({ person, page }) => {
  const maria = await person();
  const plan = await planOf(maria);
  const deleted = await makePlan(maria, "Deleted");
  const addresses = [
    "/report/guessed",
    `/report/${"%F0%9F%98%80".repeat(100)}`,
    await addLink(maria, plan.id, { expires_at: "2026-01-01T00:00:00Z" }),
    await addLink(maria, deleted.id),
  ];
  await maria.client.rpc("move_plan_to_bin", { plan: deleted.id }).throwOnError();
  const texts: string[] = [];
  for (const address of addresses) {
    await page.goto(address);
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("This report is not available");
    texts.push((await page.getByRole("main").textContent()) ?? "");
  }
  expect(new Set(texts).size).toBe(1);
  await examine(page, "a report that is not available");
});

test("viewer reads and prints, and makes no links", async ({ person, signedIn }) => {
  const [maria, tom] = [await person(), await person()];
  const plan = await planOf(maria);
  await addMember(plan.id, tom, "viewer");
  await addLink(maria, plan.id);
  const page = await signedIn(tom);
  await page.goto(`/plan/${plan.id}/report`);
  await expect(report(page)).toContainText("Jan 1 – Dec 31, 2026");
  await expect(page.getByRole("button", { name: "Print or save as PDF" })).toBeVisible();
  await expect(page.getByRole("button", { name: "Create link" })).toHaveCount(0);
  await expect(page.getByRole("form", { name: "Report settings" })).toHaveCount(0);
  expect((await tom.client.from("plan_report_links").select("token")).data).toEqual([]);
  const refused = await tom.client.from("plan_report_links").insert({ plan_id: plan.id });
  expect(refused.error?.code).toBe("42501");
  await examine(page, "a viewer's report");
});

test("keyboard chooses custom dates, and a wrong period is explained", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await planOf(maria);
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}/report`);
  const period = page.getByLabel("Period");
  await expect(report(page)).toBeVisible();
  await period.focus();
  await page.keyboard.press("End");
  await expect(period).toHaveValue("custom");
  await page.getByLabel("First day").fill("2026-03-01");
  await page.getByLabel("Last day").fill("2026-02-01");
  await page.getByRole("button", { name: "Save report" }).press("Enter");
  await expect(page.getByText("The last day must not be before the first day")).toBeVisible();
  await page.getByLabel("Last day").fill("2029-04-01");
  await expect(page.getByText("A report covers at most three years")).toBeVisible();
  await page.getByLabel("Last day").fill("2027-01-31");
  await expect(report(page)).toContainText("Mar 1, 2026 – Jan 31, 2027");
  await page.getByRole("button", { name: "Save report" }).press("Enter");
  await expectToast(page, "Report saved");
  await page.reload();
  await expect(period).toHaveValue("custom");
  await expect(page.getByLabel("Last day")).toHaveValue("2027-01-31");
});

test("the twenty-first link is refused", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await planOf(maria);
  await addLink(maria, plan.id);
  await maria.client
    .from("plan_report_links")
    .insert(Array.from({ length: 18 }, () => ({ plan_id: plan.id })))
    .throwOnError();
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}/report`);
  await expect(links(page)).toHaveCount(19);
  // Another tab makes two meanwhile.
  await maria.client.from("plan_report_links").insert({ plan_id: plan.id }).throwOnError();
  await page.getByRole("button", { name: "Create link" }).click();
  await expectToast(page, "A plan has at most 20 report links.");
  await expect(page.getByRole("button", { name: "Create link" })).toBeDisabled();
});

test("two people change the report, and neither loses a comment", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await planOf(maria);
  await addLink(maria, plan.id);
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}/report`);
  await page.getByRole("button", { name: "Add a comment" }).click();
  await page.getByLabel("Comment", { exact: true }).fill("Mine");
  await maria.client.from("plan_reports").update({ comment: "Theirs" }).eq("plan_id", plan.id).throwOnError();
  await page.getByRole("button", { name: "Save report" }).click();
  const note = page.getByText("Someone else changed this report while you were editing");
  await expect(note).toBeVisible();
  await page.getByRole("button", { name: "Keep my version" }).click();
  await expect(note).toHaveCount(0);
  await page.getByRole("button", { name: "Save report" }).click();
  await expectToast(page, "Report saved");
  await expect(report(page)).toContainText("Mine");
});

test("editor's screen has no faults in any look", async ({ person, signedIn, page: visitor }) => {
  const maria = await person();
  const plan = await planOf(maria);
  const address = await addLink(maria, plan.id);
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}/report`);
  await expect(links(page)).toHaveCount(1);
  await expect(report(page)).toBeVisible();
  await page.getByRole("button", { name: "Add a comment" }).click();
  await expect(page.getByLabel("Comment", { exact: true })).toBeVisible();
  await examine(page, "the report's screen");
  await page.setViewportSize({ width: 320, height: 640 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  await visitor.goto(address);
  await expect(report(visitor)).toBeVisible();
  await examine(visitor, "a shared report");
});
