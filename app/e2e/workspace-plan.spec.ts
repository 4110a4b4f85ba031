import { expect, test } from "./fixtures";
import { addMember, expectToast, makePlan, priorityCard } from "./workspace";

const priorities = {
  "Open four hubs": [
    { title: "Sign the lease", done: true, due: "2020-01-31" },
    { title: "Find a hall", due: "2020-02-29", by: ["Maya", "Tom"], measure: "Two offers" },
  ],
  "Fresh produce": [{ title: "Agreement with a farm", description: "<p>Too large for <strong>shops</strong></p>" }],
};

test("owner sees and can edit the whole plan", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", priorities);
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);

  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Warm meals");
  await expect(page).toHaveTitle("Warm meals · Basalt");
  await expect(page.getByText("You: owner")).toBeVisible();
  await expect(page.getByText("Start")).toBeVisible();
  await expect(page.getByText("Not set")).toHaveCount(2);
  const progress = page.getByRole("region", { name: "Progress" });
  await expect(progress).toContainText("33%");
  await expect(progress).toContainText("Priorities2");
  await expect(progress).toContainText("Tasks1/3");
  await expect(progress.getByRole("img")).toHaveAccessibleName(
    "Progress by priority: Open four hubs 50%, Fresh produce 0%",
  );

  // Newest first.
  await expect(page.getByRole("article").getByRole("heading")).toHaveText(["Fresh produce", "Open four hubs"]);
  const card = priorityCard(page, "Open four hubs");
  await expect(card).toContainText("Created less than a minute ago");
  await expect(card).toContainText("No description provided.");
  await expect(card).toContainText("Tasks 1/2");
  await expect(card.getByRole("button", { name: "View Tasks (2)" })).toBeVisible();
  await expect(card.getByRole("row", { name: "To Do (1)" })).toBeVisible();
  await expect(card.getByRole("row", { name: "Completed (1)" })).toBeVisible();
  const hall = card.getByRole("row").filter({ hasText: "Find a hall" });
  await expect(hall).toContainText("Due Feb 29, 2020 (overdue)");
  await expect(hall).toContainText("Maya, Tom");
  await expect(hall).toContainText("Two offers");
  await expect(card.getByRole("row").filter({ hasText: "Sign the lease" })).not.toContainText("overdue");
  await expect(priorityCard(page, "Fresh produce").locator("strong")).toHaveText("shops");
});

test("check-off is immediate and can be undone", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", priorities);
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  const check = page.getByRole("checkbox", { name: "Find a hall" });

  let respond = () => {};
  const held = new Promise<void>((resolve) => {
    respond = resolve;
  });
  await page.route("**/rest/v1/tasks?*", async (route) => {
    if (route.request().method() === "PATCH") await held;
    await route.continue();
  });
  await check.click();
  // Before the server's response.
  await expect(check).toBeChecked();
  await expect(page.getByRole("region", { name: "Progress" })).toContainText("67%");
  // A list that is fetched meanwhile does not take it back.
  const lease = { measure_success: "Signed by both" };
  await maria.client.from("tasks").update(lease).eq("title", "Sign the lease").throwOnError();
  await expect(priorityCard(page, "Open four hubs").getByText("Signed by both")).toBeVisible();
  await expect(check).toBeChecked();
  respond();
  await expectToast(page, "Task completed");
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(check).not.toBeChecked();
  await expectToast(page, "Task reopened");
  await page.reload();
  await expect(check).not.toBeChecked();
});

test("rejected check-off is reverted", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", priorities);
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await page.route("**/rest/v1/tasks?*", async (route) => {
    const body = { code: "42501", message: "permission denied for table tasks", details: null, hint: null };
    if (route.request().method() === "PATCH") await route.fulfill({ status: 403, json: body });
    else await route.continue();
  });
  await page.getByRole("checkbox", { name: "Find a hall" }).click();
  await expectToast(page, "Error updating task status");
  await expect(page.getByRole("checkbox", { name: "Find a hall" })).not.toBeChecked();
});

test("priorities and tasks are added, edited and deleted", async ({ person, signedIn }) => {
  test.slow();
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals");
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await expect(page.getByRole("heading", { name: "No priorities yet." })).toBeVisible();
  await expect(page.getByText("Create your first priority to get started.")).toBeVisible();

  await page.getByRole("button", { name: "Add Priority" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Create Priority" }).click();
  await expect(dialog.getByText("Title must be at least 3 characters")).toBeVisible();
  await dialog.getByLabel("Title").fill("Hubs");
  await dialog.getByRole("button", { name: "Create Priority" }).click();
  await expectToast(page, "Priority created");
  const card = priorityCard(page, "Hubs");
  await expect(card.getByText("No tasks available")).toBeVisible();

  await card.getByRole("button", { name: "Add Task" }).click();
  await dialog.getByLabel("Focus Area").fill("ab");
  await dialog.getByRole("button", { name: "Create Task" }).click();
  await expect(dialog.getByText("Focus Area must be at least 3 characters")).toBeVisible();
  await dialog.getByLabel("Focus Area").fill("Find a hall");
  await dialog.getByLabel("Tactical Steps").fill("Ask the school");
  await dialog.getByLabel("Measure of Success").fill("Two offers");
  await dialog.getByLabel("Due Date").fill("2099-12-31");
  await dialog.getByLabel("Responsible Party").fill(" Maya ,, Tom ");
  await dialog.getByRole("button", { name: "Create Task" }).click();
  await expectToast(page, "Task created");
  const row = card.getByRole("row").filter({ hasText: "Find a hall" });
  await expect(row).toContainText("Maya, Tom");
  await expect(row).toContainText("Due Dec 31, 2099");
  await expect(row).toContainText("Ask the school");

  await row.getByRole("button", { name: "Actions for Find a hall" }).click();
  await page.getByRole("menuitem", { name: "Edit task" }).click();
  await expect(dialog.getByLabel("Responsible Party")).toHaveValue("Maya, Tom");
  await dialog.getByLabel("Focus Area").fill("Find two halls");
  await dialog.getByRole("button", { name: "Update Task" }).click();
  await expectToast(page, "Task updated");
  await expect(card.getByText("Find two halls", { exact: true })).toBeVisible();

  await card.getByRole("button", { name: "Actions for Find two halls" }).click();
  await page.getByRole("menuitem", { name: "Delete task" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Delete Task" }).click();
  await expectToast(page, "Task deleted");
  await expect(card.getByText("No tasks available")).toBeVisible();

  await card.getByRole("button", { name: "Actions for priority Hubs" }).click();
  await page.getByRole("menuitem", { name: "Edit priority" }).click();
  await dialog.getByLabel("Title").fill("Four hubs");
  await dialog.getByRole("button", { name: "Update Priority" }).click();
  await expectToast(page, "Priority updated");

  await page.getByRole("button", { name: "Actions for priority Four hubs" }).click();
  await page.getByRole("menuitem", { name: "Delete priority" }).click();
  const question = page.getByRole("alertdialog");
  await expect(question).toContainText("All its tasks will also be deleted.");
  await question.getByRole("button", { name: "Delete Priority" }).click();
  await expectToast(page, "Priority deleted");
  await expect(page.getByRole("heading", { name: "No priorities yet." })).toBeVisible();
});

test("plan is edited and deleted", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals");
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await page.getByRole("button", { name: "Edit plan" }).click();
  const dialog = page.getByRole("dialog", { name: "Edit Plan" });
  await dialog.getByLabel("Title").fill("Warm meals for all");
  await dialog.getByLabel("Start Date").fill("2027-01-05");
  await dialog.getByRole("button", { name: "Update Plan" }).click();
  await expectToast(page, "Plan updated");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Warm meals for all");
  await expect(page.getByText("Jan 5, 2027")).toBeVisible();

  await page.getByRole("button", { name: "More actions for this plan" }).click();
  await page.getByRole("menuitem", { name: "Delete plan" }).click();
  const question = page.getByRole("alertdialog", { name: "Delete Plan" });
  await expect(question).toContainText("All its priorities and tasks will also be deleted.");
  await question.getByRole("button", { name: "Delete Plan" }).click();
  await expectToast(page, "Plan deleted");
  await expect(page).toHaveURL("/dashboard");
  await page.goto(`/plan/${plan.id}`);
  await expect(page.getByRole("heading", { name: "Plan not found" })).toBeVisible();
});

test("keyboard shortcuts work", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", priorities);
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  const [farm, hall] = [
    page.getByRole("checkbox", { name: "Agreement with a farm" }),
    page.getByRole("checkbox", { name: "Find a hall" }),
  ];
  await farm.focus();
  await page.keyboard.press("ArrowDown");
  // The tasks of the next priority.
  await expect(hall).toBeFocused();
  await page.keyboard.press("ArrowUp");
  await expect(farm).toBeFocused();
  await page.keyboard.press("Space");
  await expectToast(page, "Task completed");
  await expect(farm).toBeChecked();
  // The task moved to the other group and kept the focus.
  await expect(farm).toBeFocused();
  await page.keyboard.press("e");
  await expect(page.getByRole("dialog", { name: "Edit Task" })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(farm).toBeFocused();
  await page.keyboard.press("n");
  await expect(page.getByRole("dialog", { name: "Add Task" })).toBeVisible();
});

test("demoted manager sees the server's rejections", async ({ person, signedIn }) => {
  const [maria, tom] = [await person(), await person()];
  const plan = await makePlan(maria, "Warm meals", priorities);
  await addMember(plan.id, tom, "manager");
  const page = await signedIn(tom);
  await page.goto(`/plan/${plan.id}`);
  await expect(page.getByText("You: manager")).toBeVisible();
  // The page does not receive the change yet.
  await page.route("**/rest/v1/plan_members?select=role&*", (route) => route.fulfill({ json: { role: "manager" } }));
  await maria.client.from("plan_members").update({ role: "viewer" }).eq("user_id", tom.id).throwOnError();
  await page.getByRole("checkbox", { name: "Find a hall" }).click();
  await expectToast(page, "This task no longer exists, or you may not change it.");
  await expect(page.getByRole("checkbox", { name: "Find a hall" })).not.toBeChecked();
});

test("visitor returns to the plan after login", async ({ page, person }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals");
  await page.goto(`/plan/${plan.id}?tab=team`);
  await expect(page).toHaveURL("/login");
  await page.getByLabel("Email").fill(maria.email);
  await page.getByLabel("Password", { exact: true }).fill(maria.password);
  await page.getByRole("button", { name: "Log In" }).click();
  await expect(page).toHaveURL(`/plan/${plan.id}?tab=team`);
});

test("failed plan request leads back with the reason", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals");
  const page = await signedIn(maria);
  await page.route(`**/rest/v1/plans?*id=eq.*`, (route) =>
    route.fulfill({ status: 400, json: { code: "X", message: "Out of order", details: null, hint: null } }),
  );
  await page.goto(`/plan/${plan.id}`);
  await expect(page).toHaveURL("/dashboard");
  await expectToast(page, /Error fetching plan.*Out of order/);
});

test("concurrent edit is not overwritten silently", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", priorities);
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  const dialog = page.getByRole("dialog", { name: "Edit Task" });
  const edit = async () => {
    await page.getByRole("button", { name: /Actions for Find/ }).click();
    await page.getByRole("menuitem", { name: "Edit task" }).click();
  };
  await edit();
  await dialog.getByLabel("Focus Area").fill("Find mine");
  const change = (title: string) => maria.client.from("tasks").update({ title }).like("title", "Find%").throwOnError();
  await change("Find theirs");
  await dialog.getByRole("button", { name: "Update Task" }).click();
  await expect(dialog.getByRole("alert")).toContainText("Someone else changed this task while you were editing");
  await expect(dialog.getByRole("alert")).toContainText("Find theirs");
  await expect(dialog.getByLabel("Focus Area")).toHaveValue("Find mine");
  await dialog.getByRole("button", { name: "Keep my version" }).click();
  await dialog.getByRole("button", { name: "Update Task" }).click();
  await expectToast(page, "Task updated");
  await expect(page.getByText("Find mine", { exact: true })).toBeVisible();

  await edit();
  await dialog.getByLabel("Focus Area").fill("Find mine again");
  await change("Find theirs again");
  await dialog.getByRole("button", { name: "Update Task" }).click();
  await dialog.getByRole("button", { name: "Use their version" }).click();
  await expect(dialog.getByLabel("Focus Area")).toHaveValue("Find theirs again");
});
