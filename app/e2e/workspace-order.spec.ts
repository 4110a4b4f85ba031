import type { Locator, Page } from "@playwright/test";
import { expect, test } from "./fixtures";
import { addMember, expectToast, makePlan, priorityCard } from "./workspace";

const titles = (page: Page) => page.getByRole("region", { name: "Priorities" }).getByRole("heading", { level: 3 });
const tasksOf = (page: Page, title: string) => priorityCard(page, title).locator("[data-row]");

async function act(page: Page, menu: string, action: "Move up" | "Move down") {
  await page.getByRole("button", { name: menu }).click();
  await page.getByRole("menuitem", { name: action }).click();
}

/** Drags a card or a row by its handle to the upper edge of another one. */
async function drag(page: Page, dragged: Locator, target: Locator) {
  const handle = dragged.locator("[data-handle]").first();
  await handle.hover();
  await page.mouse.down();
  const from = await handle.boundingBox();
  const to = await target.boundingBox();
  if (!from || !to) throw new Error("not in view");
  // A drag begins with a small move.
  await page.mouse.move(from.x + 8, from.y + 2, { steps: 3 });
  await page.mouse.move(to.x + 100, to.y + 10, { steps: 5 });
  await page.mouse.up();
}

test("import keeps the file's order and states its limits", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", { Older: [] });
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await page.getByRole("button", { name: "Import CSV" }).click();
  const dialog = page.getByRole("dialog", { name: "Import Priorities" });
  await expect(dialog).toContainText("At most 200 priorities per file. A plan holds up to 500; this one has 1.");
  const choose = (names: string[]) =>
    dialog.getByLabel("CSV file").setInputFiles({
      name: "priorities.csv",
      mimeType: "text/csv",
      buffer: Buffer.from(`title,description\n${names.map((name) => `${name},Why\n`).join("")}`),
    });
  await choose(Array.from({ length: 5000 }, (_, index) => `Row ${index}`));
  await expect(dialog.getByRole("alert")).toContainText("The file has 5,000 priorities; at most 200");
  const names = Array.from({ length: 30 }, (_, index) => `Step ${index + 1}`);
  await choose(names);
  await dialog.getByRole("button", { name: "Import 30 priorities" }).click();
  await expectToast(page, /Priorities imported/);
  await expect(titles(page)).toHaveText([...names, "Older"]);

  // Past the app, the database keeps the limit of the plan, and says which.
  const more = Array.from({ length: 470 }, (_, index) => ({ plan_id: plan.id, title: `More ${index}` }));
  const { error } = await maria.client.from("priorities").insert(more);
  expect(error?.message).toBe("A plan can have at most 500 priorities.");
});

test("priorities and tasks are moved by menu, key and pointer", async ({ person, signedIn }) => {
  const [maria, vera] = [await person(), await person()];
  const plan = await makePlan(maria, "Warm meals", {
    Third: [],
    Second: [],
    First: [{ title: "Task C" }, { title: "Task B" }, { title: "Done", done: true }, { title: "Task A" }],
  });
  await addMember(plan.id, vera, "viewer");
  const page = await signedIn(maria);
  // All cards are in view while one is dragged.
  await page.setViewportSize({ width: 1280, height: 1800 });
  await page.goto(`/plan/${plan.id}`);
  await expect(titles(page)).toHaveText(["First", "Second", "Third"]);

  await act(page, "Actions for priority Third", "Move up");
  await expect(titles(page)).toHaveText(["First", "Third", "Second"]);
  await expect(page.getByRole("button", { name: "Actions for priority Third" })).toBeFocused();
  await expect(page.getByText("“Third” was moved before “Second”.")).toBeAttached();
  await page.getByRole("button", { name: "Actions for priority Second" }).click();
  await expect(page.getByRole("menuitem", { name: "Move down" })).toBeDisabled();
  await page.keyboard.press("Escape");

  await drag(page, priorityCard(page, "Second"), priorityCard(page, "First"));
  await expect(titles(page)).toHaveText(["Second", "First", "Third"]);

  await expect(tasksOf(page, "First")).toContainText(["Task A", "Task B", "Task C", "Done"]);
  const check = page.getByRole("checkbox", { name: "Task B" });
  await check.focus();
  await page.keyboard.press("Alt+ArrowDown");
  await expect(tasksOf(page, "First")).toContainText(["Task A", "Task C", "Task B", "Done"]);
  await expect(check).toBeFocused();
  await act(page, "Actions for Task C", "Move up");
  await expect(tasksOf(page, "First")).toContainText(["Task C", "Task A", "Task B", "Done"]);
  await drag(page, tasksOf(page, "First").nth(2), tasksOf(page, "First").nth(0));
  await expect(tasksOf(page, "First")).toContainText(["Task B", "Task C", "Task A", "Done"]);

  // Saved for everyone; a viewer moves nothing.
  const hers = await signedIn(vera);
  await hers.goto(`/plan/${plan.id}`);
  await expect(titles(hers)).toHaveText(["Second", "First", "Third"]);
  await expect(tasksOf(hers, "First")).toContainText(["Task B", "Task C", "Task A", "Done"]);
  await expect(hers.locator("[data-handle]")).toHaveCount(0);
  const moved = await vera.client.rpc("move_priority", { priority_id: plan.priorities.Third ?? "" });
  expect(moved.data).toEqual([]);
});

test("two tabs that reorder at once agree", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", { Five: [], Four: [], Three: [], Two: [], One: [] });
  const [here, there] = [await signedIn(maria), await signedIn(maria)];
  for (const page of [here, there]) {
    // A card that the other tab moves takes its open menu along, and nothing scrolls to it.
    await page.setViewportSize({ width: 1280, height: 2400 });
    await page.goto(`/plan/${plan.id}`);
    await expect(titles(page)).toHaveCount(5);
  }
  await Promise.all([
    act(here, "Actions for priority Five", "Move up").then(() => act(here, "Actions for priority Five", "Move up")),
    act(there, "Actions for priority Four", "Move up").then(() => act(there, "Actions for priority Four", "Move up")),
  ]);
  await expect(async () => {
    const [one, other] = [await titles(here).allTextContents(), await titles(there).allTextContents()];
    expect(one).toEqual(other);
    const { data } = await maria.client.from("priorities").select("title").eq("plan_id", plan.id).order("position");
    expect(one).toEqual(data?.map(({ title }) => title));
  }).toPass();
});
