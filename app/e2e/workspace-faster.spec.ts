import type { Page } from "@playwright/test";
import { expect, makePlans, type Person, test } from "./fixtures";
import { addMember, expectToast, makePlan, priorityCard } from "./workspace";

const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
const rowsOf = (page: Page, title: string) => priorityCard(page, title).locator("[data-row]");
const rowOf = (page: Page, title: string) => page.locator("[data-row]").filter({ hasText: title }).last();

async function taskId({ client }: Person, title: string) {
  return (await client.from("tasks").select("id").eq("title", title).single().throwOnError()).data.id;
}

test("a press opens a task, and a line adds several", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", { Hubs: [{ title: "Find a hall", by: ["Tom"] }] });
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await page.getByRole("button", { name: "Find a hall", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Edit Task" });
  await expect(dialog.getByLabel("Focus Area")).toHaveValue("Find a hall");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("button", { name: "Find a hall", exact: true })).toBeFocused();

  const line = page.getByRole("textbox", { name: /^New task in Hubs/ });
  await line.fill("No");
  await line.press("Enter");
  await expect(page.getByRole("alert")).toHaveText("Focus Area must be at least 3 characters");
  for (const title of ["Sign the lease", "Buy chairs"]) {
    await line.fill(title);
    await line.press("Enter");
    await expect(line).toHaveValue("");
    await expect(line).toBeFocused();
  }
  await expect(rowsOf(page, "Hubs")).toContainText(["Buy chairs", "Sign the lease", "Find a hall"]);
});

test("due date and people are changed where they stand", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", { Hubs: [{ title: "Find a hall" }] });
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  const row = rowOf(page, "Find a hall");
  await row.hover();
  await row.getByRole("button", { name: "Add due date to Find a hall" }).click();
  await row.getByLabel("Due date of Find a hall").fill("2031-01-31");
  await page.keyboard.press("Enter");
  await expect(row.getByRole("button", { name: "Change the due date of Find a hall" })).toBeFocused();
  await expect(row).toContainText("Due Jan 31, 2031");
  await row.getByRole("button", { name: "Add person to Find a hall" }).click();
  const people = row.getByLabel("Responsible for Find a hall");
  await people.fill("Maya, Tom");
  // A colleague is faster.
  await maria.client.from("tasks").update({ measure_success: "Two offers" }).eq("plan_id", plan.id).throwOnError();
  await people.press("Enter");
  await expect(row.getByRole("alert")).toContainText("Someone else changed this task");
  await expect(people).toHaveValue("Maya, Tom");
  await expect(row).toContainText("Two offers");
  await people.press("Enter");
  await expect(row).toContainText("Maya, Tom");
  await expect(page.getByRole("dialog")).toHaveCount(0);
});

test("tasks are sorted by due date", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", {
    Hubs: [{ title: "Later", due: inDays(30) }, { title: "Overdue", due: inDays(-3) }, { title: "Undated" }],
  });
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await expect(rowsOf(page, "Hubs")).toContainText(["Undated", "Overdue", "Later"]);
  await page.getByRole("button", { name: "By due date" }).click();
  await expect(page).toHaveURL(/sort=due/);
  await expect(rowsOf(page, "Hubs")).toContainText(["Overdue", "Later", "Undated"]);
  // Its own order is not changed meanwhile.
  await page.getByRole("button", { name: "Actions for Later" }).click();
  await expect(page.getByRole("menuitem", { name: "Edit task" })).toBeVisible();
  await expect(page.getByRole("menuitem", { name: "Move up" })).toHaveCount(0);
});

test("calendar entries are opened, and dragged to another day", async ({ person, signedIn }) => {
  const [maria, vera] = [await person(), await person()];
  const month = inDays(0).slice(0, 7);
  const plan = await makePlan(maria, "Warm meals", { Hubs: [{ title: "Find a hall", due: `${month}-10` }] });
  await addMember(plan.id, vera, "viewer");
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}?view=timeline`);
  const entry = page.getByRole("button", { name: /Find a hall/ });
  const day = (number: string) =>
    page.locator("td").filter({ has: page.locator(`time[datetime="${month}-${number}"]`) });
  await entry.dragTo(day("12"));
  await expect(day("12")).toContainText("Find a hall");
  const { data } = await maria.client.from("tasks").select("due_date").eq("plan_id", plan.id).single().throwOnError();
  expect(data.due_date).toBe(`${month}-12`);
  await entry.click();
  await expect(page.getByRole("dialog", { name: "Edit Task" }).getByLabel("Focus Area")).toHaveValue("Find a hall");
  await page.keyboard.press("Escape");
  await expect(page).not.toHaveURL(/task=/);

  const hers = await signedIn(vera);
  await hers.goto(`/plan/${plan.id}?view=timeline`);
  await expect(hers.getByText("Find a hall")).toBeVisible();
  await expect(hers.getByRole("button", { name: /Find a hall/ })).toHaveCount(0);
});

test("a new plan begins with a template and opens by itself", async ({ person, signedIn }) => {
  const page = await signedIn(await person());
  await page.goto("/dashboard");
  await page.getByRole("button", { name: "Create Plan" }).click();
  const dialog = page.getByRole("dialog", { name: "Create Plan" });
  await dialog.getByLabel("Title").fill("Four hubs");
  await expect(dialog.getByRole("radio")).toHaveCount(5);
  await dialog.getByRole("radio", { name: /A finished example/ }).check();
  await dialog.getByRole("button", { name: "Create Plan" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Four hubs" })).toBeVisible();
  await expect(page.getByRole("region", { name: "Progress" })).toContainText("4/10");
  await expect(page.getByRole("region", { name: "Priorities" }).getByRole("heading", { level: 3 })).toHaveText([
    "Open four food hubs",
    "Recruit sixty volunteers",
    "Secure the funding for two years",
  ]);
  await expect(page.getByText("(overdue)")).toHaveCount(1);
});

test("from eight plans on they are searched and sorted; plans are archived and duplicated", async ({
  person,
  signedIn,
}) => {
  const maria = await person();
  const plan = await makePlan(maria, "Annual plan", {
    Second: [{ title: "Task B" }, { title: "Task A", done: true, due: "2030-05-01", by: ["Tom"] }],
    First: [],
  });
  const page = await signedIn(maria);
  await page.goto("/dashboard");
  await expect(page.getByRole("article")).toHaveCount(1);
  await expect(page.getByRole("searchbox", { name: "Search plans" })).toHaveCount(0);
  await makePlans(
    maria,
    ...["Budget", "Choir", "Donors", "Events", "Food", "Garden", "Hubs"].map((title) => ({ title })),
  );
  await page.reload();
  const titles = page.getByRole("list", { name: "Plans" }).getByRole("heading", { level: 2 });
  await expect(titles).toHaveCount(8);
  await page.getByLabel("Order of plans").selectOption("Title");
  await expect(titles.first()).toHaveText("Annual plan");
  await page.getByRole("searchbox", { name: "Search plans" }).fill("hub");
  await expect(titles).toHaveText(["Hubs"]);

  await page.getByRole("button", { name: "Actions for Hubs" }).click();
  await page.getByRole("menuitem", { name: "Archive plan" }).click();
  await expectToast(page, "Plan archived");
  await expect(page.getByText("No plan has this in its title.")).toBeVisible();
  await page.getByRole("button", { name: "Archived (1)" }).click();
  await page.getByRole("button", { name: "Actions for Hubs" }).click();
  await page.getByRole("menuitem", { name: "Take out of the archive" }).click();
  await expect(page.getByRole("button", { name: /^Archived/ })).toHaveCount(0);
  await expect(titles).toHaveText(["Hubs"]);

  await page.getByRole("searchbox", { name: "Search plans" }).fill("");
  await page.getByRole("button", { name: "Actions for Annual plan" }).click();
  await page.getByRole("menuitem", { name: "Duplicate plan" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Copy of Annual plan" })).toBeVisible();
  await expect(page).not.toHaveURL(new RegExp(plan.id));
  await expect(page.getByRole("region", { name: "Priorities" }).getByRole("heading", { level: 3 })).toHaveText([
    "First",
    "Second",
  ]);
  // As open tasks, in their order.
  await expect(rowsOf(page, "Second")).toContainText(["Task A", "Task B"]);
  await expect(rowOf(page, "Task A")).toContainText("May 1, 2030");
  await expect(page.getByRole("region", { name: "Progress" })).toContainText("0/2");
});

test("Ctrl+K leads to plans, priorities, tasks, people and pages", async ({ person, signedIn }) => {
  const [maria, vera] = [await person(), await person()];
  const plan = await makePlan(maria, "Warm meals", { "Open hubs": [{ title: "Find a hall" }] });
  await addMember(plan.id, vera, "viewer");
  const page = await signedIn(maria);
  const goTo = async (text: string, name: RegExp) => {
    const dialog = page.getByRole("dialog", { name: "Find" });
    // The keys are heard a second after the page has loaded.
    await expect(async () => {
      await page.keyboard.press("ControlOrMeta+k");
      await expect(dialog).toBeVisible({ timeout: 1000 });
    }).toPass();
    await dialog.getByRole("combobox").fill(text);
    await expect(dialog.getByRole("option", { name })).toBeVisible();
    await expect(dialog.getByRole("option", { selected: true })).toHaveAccessibleName(name);
    await page.keyboard.press("Enter");
    await expect(dialog).toHaveCount(0);
  };
  await page.goto("/dashboard");
  await expect(page.getByRole("heading", { name: "Strategic Plans" })).toBeVisible();
  await goTo("warm", /Warm meals.*Plan/);
  await expect(page).toHaveURL(`/plan/${plan.id}`);
  await expect(page.getByRole("heading", { level: 1, name: "Warm meals" })).toBeVisible();
  await goTo("open hub", /Open hubs.*Priority in Warm meals/);
  await expect(page.locator("[data-row=priority]").filter({ hasText: "Open hubs" })).toBeFocused();
  await goTo("a hall", /Find a hall.*Task in Warm meals/);
  await expect(page.getByRole("dialog", { name: "Edit Task" }).getByLabel("Focus Area")).toHaveValue("Find a hall");
  // Not over a dialog, which may hold text.
  await page.keyboard.press("ControlOrMeta+k");
  await expect(page.getByRole("dialog", { name: "Find" })).toHaveCount(0);
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await goTo(vera.email, /Member in Warm meals/);
  await expect(page.getByRole("region", { name: "Team" })).toContainText(vera.email);
  await goTo("subscr", /Subscription.*Page/);
  await expect(page).toHaveURL("/dashboard/subscription");
  await page.goto("/dashboard");
  await expect(async () => {
    await page.getByRole("button", { name: /^Find/ }).click();
    await expect(page.getByRole("combobox")).toBeVisible({ timeout: 1000 });
  }).toPass();
  await page.getByRole("combobox").fill("there is no such thing");
  await expect(page.getByText("Nothing has this in its name.")).toBeVisible();

  // A viewer has no dialog: the task is shown in its place.
  const hers = await signedIn(vera);
  await hers.goto(`/plan/${plan.id}?task=${await taskId(maria, "Find a hall")}`);
  await expect(rowOf(hers, "Find a hall")).toBeFocused();
});

test("on a phone the first task is on the first screen, and the tabs stay in view", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals for 500 families along the river", {
    Later: [{ title: "Sign the lease" }],
    Hubs: [{ title: "Find a hall", due: inDays(9), by: ["Maya", "Tom"] }],
  });
  await maria.client
    .from("organizations")
    .insert({ plan_id: plan.id, name: "Riverside Food Bank", mission: "Food for everyone" })
    .throwOnError();
  const page = await signedIn(maria);
  for (const [width, height] of [
    [375, 667],
    [320, 700],
  ] as const) {
    await page.setViewportSize({ width, height });
    await page.goto(`/plan/${plan.id}`);
    await expect(page.getByRole("checkbox", { name: "Find a hall" })).toBeInViewport({ ratio: 1 });
    await expect(page.getByText("Food for everyone")).toBeHidden();
  }
  await page.getByRole("button", { name: "Riverside Food Bank" }).click();
  await expect(page.getByText("Food for everyone")).toBeVisible();
  await page.getByRole("button", { name: "Details" }).click();
  await expect(page.getByText("Not set").first()).toBeVisible();
  await page.getByRole("checkbox", { name: "Sign the lease" }).scrollIntoViewIfNeeded();
  await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
  // Its lower border lies on that of the list.
  await expect(page.getByRole("tab", { name: "Team" })).toBeInViewport({ ratio: 0.9 });
});
