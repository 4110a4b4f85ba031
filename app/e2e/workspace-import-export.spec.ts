import { readFile } from "node:fs/promises";
import { expect, test } from "./fixtures";
import { addMember, expectToast, makePlan, priorityCard } from "./workspace";

const csv = (content: string | Buffer) => ({
  name: "priorities.csv",
  mimeType: "text/csv",
  buffer: Buffer.from(content),
});

test("CSV import adds all priorities or none", async ({ person, signedIn }) => {
  test.slow();
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals");
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  // An empty plan reserves no space for the chart.
  const progress = page.getByRole("region", { name: "Progress" });
  await expect.poll(async () => (await progress.boundingBox())?.height).toBeLessThan(144);
  await page.getByRole("button", { name: "Import CSV" }).click();
  const dialog = page.getByRole("dialog", { name: "Import Priorities" });
  await dialog.getByRole("button", { name: "Import", exact: true }).click();
  await expectToast(page, "No file selected");

  const started = page.waitForEvent("download");
  await dialog.getByRole("button", { name: "Download template" }).click();
  const download = await started;
  expect(download.suggestedFilename()).toBe("priorities_template.csv");
  expect(await readFile(await download.path(), "utf8")).toMatch(/^\ufefftitle,description\r\n/);

  const file = dialog.getByLabel("CSV file");
  await file.setInputFiles(csv("title,description\nHubs,Why\nalone\n,none\n"));
  await expect(dialog.getByRole("alert").getByRole("listitem")).toHaveText([
    "Line 3: Not enough values",
    "Line 4: Title is required",
  ]);
  await dialog.getByRole("button", { name: "Import", exact: true }).click();
  await expectToast(page, "No valid priorities found");

  await file.setInputFiles(
    csv(Buffer.from("\ufeffTitle;Description\r\nHubs;Für alle\r\nFresh food;Near, and good\r\n", "utf16le")),
  );
  await expect(dialog.getByRole("progressbar")).toHaveAttribute("aria-valuenow", "50");
  await expect(dialog.getByRole("region", { name: "Preview" })).toContainText("2 priorities");
  await dialog.getByRole("button", { name: "Import 2 priorities" }).click();
  await expectToast(page, /Priorities imported.*2 priorities/);
  await expect(priorityCard(page, "Hubs")).toContainText("Für alle");
  await expect(priorityCard(page, "Fresh food")).toContainText("Near, and good");
});

test("viewer can export but not import", async ({ person, signedIn }) => {
  const [maria, vera] = [await person(), await person()];
  const plan = await makePlan(maria, "Warm meals: 2027", {
    Hubs: [{ title: "Find a hall, quickly", done: true, due: "2027-01-31", by: ["Maya", "Tom"] }],
    Empty: [],
  });
  await addMember(plan.id, vera, "viewer");
  const page = await signedIn(vera);
  await page.goto(`/plan/${plan.id}`);
  await expect(page.getByText("You: viewer")).toBeVisible();
  await expect(page.getByRole("button", { name: "Import CSV" })).toHaveCount(0);
  await expect(priorityCard(page, "Hubs")).toBeVisible();
  const started = page.waitForEvent("download");
  await page.getByRole("button", { name: "More actions for this plan" }).click();
  await page.getByRole("menuitem", { name: "Export to CSV" }).click();
  const download = await started;
  expect(download.suggestedFilename()).toBe("Warm-meals-2027.csv");
  const lines = (await readFile(await download.path(), "utf8")).split("\r\n");
  expect(lines[1]).toBe("Empty,,,,,,,");
  expect(lines[2]).toBe('Hubs,,"Find a hall, quickly",,,2027-01-31,"Maya, Tom",Completed');
});

test("print view has the whole plan without buttons", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", { Hubs: [{ title: "Find a hall" }] });
  await maria.client
    .from("organizations")
    .insert({ plan_id: plan.id, name: "Riverside Trust", mission: "Food" })
    .throwOnError();
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await page.getByRole("button", { name: "More actions for this plan" }).click();
  await page.getByRole("menuitem", { name: "Print view" }).click();
  await expect(page).toHaveURL(`/plan/${plan.id}/print`);
  for (const text of ["Riverside Trust", "Food", "Warm meals", "Hubs", "Find a hall", "0 of 1 tasks completed"]) {
    await expect(page.getByRole("main").getByText(text).first()).toBeVisible();
  }
  await page.emulateMedia({ media: "print" });
  await expect(page.getByRole("button")).toHaveCount(0);
});

test("timeline groups tasks by due date and marks overdue", async ({ person, signedIn }) => {
  const maria = await person();
  const now = new Date();
  const month = `${now.getFullYear()}-${String(now.getMonth() + 1).padStart(2, "0")}`;
  const plan = await makePlan(maria, "Warm meals", {
    Hubs: [
      { title: "This month", due: `${month}-28`, done: true },
      ...["A", "B", "C"].map((name) => ({ title: `Also then: ${name}`, due: `${month}-28`, done: true })),
      { title: "Long ago", due: "2020-02-29" },
      { title: "Some day" },
    ],
  });
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await page.getByRole("button", { name: "Timeline" }).click();
  await expect(page).toHaveURL(`/plan/${plan.id}?view=timeline`);
  const timeline = page.getByRole("region", { name: "Timeline" });
  await expect(timeline).toContainText("1 overdue");
  await expect(timeline).toContainText("1 without a due date");
  // Three of a day, and a way to the fourth.
  const day = timeline.getByRole("cell").filter({ hasText: "Also then" });
  await expect(day.getByRole("listitem")).toHaveCount(3);
  await day.getByRole("button", { name: "+1 more" }).click();
  await expect(day.getByRole("listitem")).toHaveCount(4);
  await expect(timeline.getByRole("cell").filter({ hasText: "This month" })).toContainText("Completed:");
  await expect(timeline.getByText("Long ago")).toHaveCount(0);
  await timeline.getByRole("button", { name: "1 overdue" }).click();
  await expect(timeline.getByRole("heading", { name: "February 2020" })).toBeVisible();
  await expect(timeline.getByRole("cell").filter({ hasText: "Long ago" })).toContainText("Overdue:");
  await timeline.getByRole("button", { name: "Today" }).click();
  await expect(day).toBeVisible();
  await page.setViewportSize({ width: 375, height: 800 });
  // The list begins today; the overdue task is a press away.
  await page.reload();
  await expect(timeline.getByRole("button", { name: /^Show \d earlier$/ })).toBeVisible();
  await expect(timeline.getByText("Overdue: Long ago")).toHaveCount(0);
  await timeline.getByRole("button", { name: "1 overdue" }).click();
  await expect(timeline.getByText("Overdue: Long ago")).toBeInViewport();
});
