import { examine, faultsOf, settled } from "./examine";
import { expect, looks, test } from "./fixtures";
import { addMember, expectToast, makePlan, priorityCard, server } from "./workspace";

test("deleted plan is restored from the bin", async ({ person, signedIn }) => {
  const [maria, tom] = [await person(), await person()];
  const plan = await makePlan(maria, "Warm meals", { Hubs: [{ title: "Find a hall" }] });
  await addMember(plan.id, tom, "viewer");
  const his = await signedIn(tom);
  await his.goto(`/plan/${plan.id}`);
  await expect(his.getByRole("heading", { name: "Warm meals", level: 1 })).toBeVisible();

  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await page.getByRole("button", { name: "More actions for this plan" }).click();
  await page.getByRole("menuitem", { name: "Delete plan" }).click();
  const asked = page.getByRole("alertdialog", { name: "Delete Plan" });
  await expect(asked).toContainText(
    "All its priorities and tasks will also be deleted. You can restore it for 30 days.",
  );
  await asked.getByRole("button", { name: "Delete Plan" }).click();
  await expect(page).toHaveURL("/dashboard");
  await expectToast(page, "Plan deleted");
  // The colleague's page says so without a reload, and the API shows nothing of it.
  await expect(his.getByRole("heading", { name: "This plan was deleted" })).toBeVisible();
  for (const table of ["plans", "priorities", "tasks", "plan_members"] as const) {
    expect((await tom.client.from(table).select("id").throwOnError()).data, table).toEqual([]);
  }

  await page.reload();
  await page.getByRole("button", { name: "Recently deleted (1)" }).click();
  const bin = page.getByRole("region", { name: "Recently deleted plans" });
  await expect(bin).toContainText("Warm meals");
  await examine(page, "bin");
  await bin.getByRole("button", { name: "Restore Warm meals" }).click();
  await expectToast(page, "Plan restored");
  await expect(page.getByRole("article", { name: "Warm meals" })).toBeVisible();
  await expect(bin).toBeHidden();
  await his.goto(`/plan/${plan.id}`);
  await expect(his.getByText("Find a hall")).toBeVisible();
});

test("deletion is undone from its toast, or made final in the bin", async ({ person, signedIn }) => {
  const maria = await person();
  await makePlan(maria, "Warm meals");
  const page = await signedIn(maria);
  await page.goto("/dashboard");
  const remove = async () => {
    await page.getByRole("button", { name: "Actions for Warm meals" }).click();
    await page.getByRole("menuitem", { name: "Delete plan" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Delete Plan" }).click();
  };
  await remove();
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(page.getByRole("article", { name: "Warm meals" })).toBeVisible();

  await remove();
  await page.getByRole("button", { name: "Recently deleted (1)" }).click();
  await page.getByRole("button", { name: "Delete for good: Warm meals" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Delete for Good" }).click();
  await expectToast(page, "Plan deleted for good");
  await expect(page.getByRole("region", { name: "Recently deleted plans" })).toBeHidden();
  const left = await server().from("plans").select("id").eq("user_id", maria.id).throwOnError();
  expect(left.data).toEqual([]);
});

test("deleted task is restored from its toast, for colleagues as well", async ({ person, signedIn }) => {
  test.slow();
  const [maria, tom] = [await person(), await person()];
  const plan = await makePlan(maria, "Warm meals", { Hubs: [{ title: "Find a hall", done: true }] });
  await addMember(plan.id, tom, "viewer");
  const { data: task } = await maria.client.from("tasks").select("id").single().throwOnError();
  await maria.client.from("task_comments").insert({ task_id: task.id, body: "It is too small." }).throwOnError();
  const his = await signedIn(tom);
  await his.goto(`/plan/${plan.id}`);
  await expect(his.getByRole("button", { name: "1 comment on Find a hall" })).toBeVisible();

  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await page.getByRole("button", { name: "Actions for Find a hall" }).click();
  await page.getByRole("menuitem", { name: "Delete task" }).click();
  const asked = page.getByRole("alertdialog", { name: "Delete Task" });
  await expect(asked).toContainText("You can restore it for 30 days.");
  await asked.getByRole("button", { name: "Delete Task" }).click();
  await expectToast(page, "Task deleted");
  await expect(priorityCard(his, "Hubs").getByText("No tasks available")).toBeVisible();
  await page.getByRole("button", { name: "Undo" }).click();
  await expectToast(page, "Task restored");
  await expect(his.getByRole("checkbox", { name: "Find a hall" })).toBeChecked();
  await expect(his.getByRole("button", { name: "1 comment on Find a hall" })).toBeVisible();
});

test("deleted priority is restored from the list by keyboard", async ({ person, signedIn }) => {
  test.slow();
  const maria = await person();
  await maria.client.auth.updateUser({ data: { name: "Maria Lopez" } });
  const plan = await makePlan(maria, "Warm meals", { Hubs: [{ title: "Find a hall" }, { title: "Buy chairs" }] });
  await maria.client.from("tasks").delete().eq("title", "Find a hall").throwOnError();
  // A second tab.
  const [page, other] = [await signedIn(maria), await signedIn(maria)];
  for (const tab of [page, other]) await tab.goto(`/plan/${plan.id}`);
  await page.getByRole("button", { name: "Actions for priority Hubs" }).click();
  await page.getByRole("menuitem", { name: "Delete priority" }).click();
  const asked = page.getByRole("alertdialog", { name: "Delete Priority" });
  await expect(asked).toContainText("All its tasks will also be deleted. You can restore it for 30 days.");
  await asked.getByRole("button", { name: "Delete Priority" }).click();
  await expectToast(page, "Priority deleted");
  await expect(other.getByRole("heading", { name: "No priorities yet." })).toBeVisible();

  await page.getByRole("button", { name: "More actions for this plan" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("menuitem", { name: "Deleted items" }).focus();
  await page.keyboard.press("Enter");
  const bin = page.getByRole("dialog", { name: "Deleted items" });
  await expect(bin.getByRole("listitem")).toContainText([
    /Hubs.*Priority with 1 task\. Deleted .* by Maria Lopez\. Kept until/,
    /Find a hall.*Its priority was deleted, too\. Restore that first\./,
  ]);
  await expect(bin.getByRole("button", { name: "Restore Find a hall" })).toBeHidden();
  await bin.getByRole("button", { name: "Restore Hubs" }).focus();
  await page.keyboard.press("Enter");
  await expectToast(page, "Priority restored");
  await expect(other.getByRole("checkbox", { name: "Buy chairs" })).toBeVisible();
  await bin.getByRole("button", { name: "Restore Find a hall" }).click();
  await expectToast(page, "Task restored");
  await expect(bin.getByText("Nothing was deleted in the last 30 days.")).toBeVisible();
  await expect(other.getByRole("checkbox", { name: "Find a hall" })).toBeVisible();
});

test("open list of deleted items follows colleagues", async ({ person, signedIn }) => {
  test.slow();
  const [maria, tom] = [await person(), await person()];
  const plan = await makePlan(maria, "Warm meals", { Hubs: [] });
  await addMember(plan.id, tom, "manager");
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await expect(priorityCard(page, "Hubs")).toBeVisible();
  await page.getByRole("button", { name: "More actions for this plan" }).click();
  await page.getByRole("menuitem", { name: "Deleted items" }).click();
  const bin = page.getByRole("dialog", { name: "Deleted items" });
  await expect(bin.getByText("Nothing was deleted in the last 30 days.")).toBeVisible();
  await tom.client.from("priorities").delete().eq("plan_id", plan.id).throwOnError();
  await expect(bin.getByText("Hubs")).toBeVisible();
  // What he restored, while her list is out of date, is not restored twice.
  const { data: before } = await tom.client.rpc("get_deleted_plan_items", { plan: plan.id }).throwOnError();
  await page.route("**/rpc/get_deleted_plan_items", (route) => route.fulfill({ json: before }));
  await tom.client.rpc("restore_plan_item", { item: plan.priorities.Hubs ?? "" }).throwOnError();
  await bin.getByRole("button", { name: "Restore Hubs" }).click();
  await expectToast(page, "This priority is no longer in the bin.");
  await page.unroute("**/rpc/get_deleted_plan_items");
  const { data: restored } = await maria.client.from("priorities").select("title").throwOnError();
  expect(restored).toEqual([{ title: "Hubs" }]);
});

test("deleted items are removed for good, or could not be loaded", async ({ person, signedIn }) => {
  test.slow();
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", { Hubs: [] });
  await maria.client.from("priorities").delete().eq("plan_id", plan.id).throwOnError();
  const page = await signedIn(maria);
  await page.route("**/rpc/get_deleted_plan_items", (route) =>
    route.fulfill({ status: 400, json: { message: "Failed" } }),
  );
  await page.goto(`/plan/${plan.id}`);
  await page.getByRole("button", { name: "More actions for this plan" }).click();
  await page.getByRole("menuitem", { name: "Deleted items" }).click();
  const bin = page.getByRole("dialog", { name: "Deleted items" });
  await expect(bin.getByRole("heading", { name: "The deleted items could not be loaded" })).toBeVisible();
  await page.unroute("**/rpc/get_deleted_plan_items");
  await bin.getByRole("button", { name: "Try again" }).click();
  await bin.getByRole("button", { name: "Delete for good: Hubs" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Delete for Good" }).click();
  await expectToast(page, "Priority deleted for good");
  await expect(bin.getByText("Nothing was deleted in the last 30 days.")).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("button", { name: "More actions for this plan" })).toBeFocused();
});

test("comment with a mention reaches a colleague", async ({ person, signedIn }) => {
  const [maria, tom] = [await person(), await person()];
  await tom.client.auth.updateUser({ data: { name: "Tom Okafor" } });
  await maria.client.auth.updateUser({ data: { name: "Maria Lopez" } });
  const plan = await makePlan(maria, "Warm meals", { Hubs: [{ title: "Find a hall" }] });
  await addMember(plan.id, tom, "viewer");
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await page.getByRole("button", { name: "Comment on Find a hall" }).click();
  const dialog = page.getByRole("dialog", { name: "Find a hall" });
  await expect(dialog.getByText("No comments yet.")).toBeVisible();
  await dialog.getByLabel("Add a comment").pressSequentially("Have a look, @to");
  await expect(dialog.getByRole("option", { name: "Tom Okafor" })).toBeVisible();
  await page.keyboard.press("Enter");
  await page.keyboard.type("please");
  await expect(dialog.getByLabel("Add a comment")).toHaveValue("Have a look, @Tom Okafor please");
  await expect(dialog.getByText("1 person gets a mail")).toBeVisible();
  // Typed text is not lost by a slip.
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Keep editing" }).click();
  await dialog.getByRole("button", { name: "Comment", exact: true }).click();
  // Until the comment is saved, the field holds the same text.
  const comments = dialog.getByRole("list", { name: "Comments" });
  await expect(comments.getByText("Have a look, @Tom Okafor please")).toBeVisible();
  await expect(dialog.getByText("Maria Lopez")).toBeVisible();

  // The colleague follows the link of the mail, reads, and may not write.
  const his = await signedIn(tom);
  const rows = await tom.client.from("tasks").select("id").single().throwOnError();
  await his.goto(`/plan/${plan.id}?comments=${rows.data.id}`);
  const read = his.getByRole("dialog", { name: "Find a hall" });
  await expect(read.getByText("Have a look, @Tom Okafor please")).toBeVisible();
  await expect(read.getByLabel("Add a comment")).toBeHidden();
  // What is written meanwhile appears.
  await dialog.getByLabel("Add a comment").fill("Thanks");
  await dialog.getByRole("button", { name: "Comment", exact: true }).click();
  await expect(read.getByText("Thanks")).toBeVisible();
  await his.keyboard.press("Escape");
  await expect(his).toHaveURL(`/plan/${plan.id}`);
  await expect(his.getByRole("button", { name: "2 comments on Find a hall" })).toBeVisible();

  await dialog.getByRole("button", { name: "Delete the comment of Maria Lopez" }).last().click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Delete Comment" }).click();
  await expect(dialog.getByText("Thanks")).toBeHidden();
});

test("ten thousand comments come in pages", async ({ person, signedIn }) => {
  test.slow();
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", { Hubs: [{ title: "Find a hall" }] });
  const { data: task } = await maria.client.from("tasks").select("id").single().throwOnError();
  for (let start = 0; start < 10_000; start += 250) {
    const rows = Array.from({ length: 250 }, (_, index) => ({ task_id: task.id, body: `Comment ${start + index}` }));
    await maria.client.from("task_comments").insert(rows).throwOnError();
  }
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}?comments=${task.id}`);
  const items = page.getByRole("list", { name: "Comments" }).getByRole("listitem");
  await expect(items).toHaveCount(50);
  // Announcements of ten thousand rows still arrive, and each fetches the list again.
  await expect(async () => {
    await page.getByRole("button", { name: "Show older comments" }).click();
    await expect(items).toHaveCount(100, { timeout: 5_000 });
  }).toPass();
  expect(new Set(await items.allInnerTexts()).size).toBe(100);
  await page.keyboard.press("Escape");
  await expect(page.getByRole("button", { name: "10000 comments on Find a hall" })).toBeVisible();
});

test("activity shows who did what", async ({ person, signedIn }) => {
  const maria = await person();
  await maria.client.auth.updateUser({ data: { name: "Maria Lopez" } });
  const plan = await makePlan(maria, "Warm meals", { Hubs: [{ title: "Find a hall" }] });
  await maria.client.from("tasks").update({ is_completed: true }).eq("plan_id", plan.id).throwOnError();
  await maria.client
    .from("priorities")
    .insert(["One", "Two", "Three"].map((title) => ({ title: `Priority ${title}`, plan_id: plan.id })))
    .throwOnError();
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await page.getByRole("button", { name: "More actions for this plan" }).click();
  await page.getByRole("menuitem", { name: "Activity" }).click();
  const dialog = page.getByRole("dialog", { name: "Activity" });
  await expect(dialog.getByRole("listitem")).toContainText([
    "Maria Lopez added 3 priorities",
    "Maria Lopez completed the task “Find a hall”",
    "Maria Lopez added the task “Find a hall”",
    "Maria Lopez added the priority “Hubs”",
    "Maria Lopez created the plan",
  ]);
});

test("mails are stopped and started on the account page", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals");
  const page = await signedIn(maria);
  await page.goto("/account#mails");
  const section = page.getByRole("region", { name: "Mails about plans" });
  const digest = section.getByRole("group", { name: "Warm meals" }).getByRole("switch", { name: "Monday digest" });
  await expect(digest).toBeChecked();
  await digest.click();
  await expect(digest).not.toBeChecked();
  await section.getByLabel("Time zone").selectOption("Pacific/Kiritimati");
  await expectToast(page, "Time zone saved");
  await page.reload();
  await expect(digest).not.toBeChecked();
  await expect(section.getByLabel("Time zone")).toHaveValue("Pacific/Kiritimati");
  const { data } = await maria.client
    .from("plan_mail_settings")
    .select("*")
    .eq("plan_id", plan.id)
    .single()
    .throwOnError();
  expect(data).toMatchObject({ digest: false, reminders: true, mentions: true });
});

for (const { colorScheme, width } of [...looks, { colorScheme: "light", width: 320 } as const]) {
  test(`new parts look right at ${width} px, ${colorScheme}`, async ({ person, signedIn }) => {
    test.slow();
    const [maria, tom] = [await person(), await person()];
    await tom.client.auth.updateUser({ data: { name: "Tom Okafor" } });
    const plan = await makePlan(maria, "Warm meals", {
      Hubs: [{ title: "Find a hall in Eastfield", due: "2027-01-31" }],
    });
    await makePlan(maria, "Another plan with a rather long title that has to wrap");
    await addMember(plan.id, tom, "manager");
    const { data: task } = await maria.client.from("tasks").select("id").single().throwOnError();
    await maria.client
      .from("task_comments")
      .insert({
        task_id: task.id,
        body: "Have a look, @Tom Okafor: https://example.org/a-long-address-without-any-break-in-it",
        mentions: [tom.id],
      })
      .throwOnError();
    await tom.client.from("task_comments").insert({ task_id: task.id, body: "It is too small." }).throwOnError();
    await maria.client.rpc("move_plan_to_bin", { plan: (await makePlan(maria, "Old plan")).id }).throwOnError();
    const page = await signedIn(maria);
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 800 });
    const shoot = async (name: string) => {
      await settled(page);
      expect.soft(await faultsOf(page), name).toEqual([]);
      const excess = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      expect.soft(excess, `${name}: pixels beyond the edge`).toBeLessThanOrEqual(0);
      if (process.env.SCREENSHOTS) {
        await page.screenshot({ path: `${process.env.SCREENSHOTS}/${name}-${width}-${colorScheme}.png` });
      }
    };
    await page.goto(`/plan/${plan.id}?comments=${task.id}`);
    const dialog = page.getByRole("dialog");
    await expect(dialog.getByText("It is too small.")).toBeVisible();
    await dialog.getByLabel("Add a comment").pressSequentially("@");
    await expect(dialog.getByRole("option")).toHaveCount(1);
    await shoot("comments");
    await dialog.getByLabel("Add a comment").fill("");
    await page.keyboard.press("Escape");
    await expect(page.getByRole("button", { name: "2 comments on Find a hall in Eastfield" })).toBeVisible();
    await shoot("plan");
    await page.getByRole("button", { name: "More actions for this plan" }).click();
    await page.getByRole("menuitem", { name: "Activity" }).click();
    await expect(page.getByRole("dialog").getByRole("listitem").first()).toBeVisible();
    await shoot("activity");
    await page.keyboard.press("Escape");
    for (const table of ["tasks", "priorities"] as const) {
      await tom.client.from(table).delete().eq("plan_id", plan.id).throwOnError();
    }
    await page.getByRole("button", { name: "More actions for this plan" }).click();
    await page.getByRole("menuitem", { name: "Deleted items" }).click();
    await expect(page.getByRole("dialog").getByRole("listitem")).toHaveCount(2);
    await shoot("deleted-items");
    await page.goto("/account#mails");
    await expect(page.getByRole("switch").first()).toBeVisible();
    await page.getByRole("region", { name: "Mails about plans" }).scrollIntoViewIfNeeded();
    await shoot("mail-settings");
    await page.goto("/dashboard");
    await page.getByRole("button", { name: "Recently deleted (1)" }).click();
    await page.getByRole("button", { name: "Restore Old plan" }).scrollIntoViewIfNeeded();
    await shoot("bin");
    await page.goto("/mails/stop?token=00");
    await expect(page.getByRole("heading", { name: "Nothing was changed" })).toBeVisible();
    await shoot("stop-invalid");
  });
}
