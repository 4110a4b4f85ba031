import { expect, type Person, test } from "./fixtures";
import { addMember, expectToast, makePlan, priorityCard } from "./workspace";

// The browser's message for a connection that the test cuts.
test.use({ allowedComplaint: /WebSocket connection to .* failed/ });

const priorities = { "Open four hubs": [{ title: "Find a hall" }, { title: "Sign the lease" }] };

async function team(person: () => Promise<Person>) {
  const [maria, tom, vera] = [await person(), await person(), await person()];
  const plan = await makePlan(maria, "Warm meals", priorities);
  await addMember(plan.id, tom, "manager");
  await addMember(plan.id, vera, "viewer");
  return { maria, tom, vera, plan, path: `/plan/${plan.id}` };
}

const hereNow = (page: import("@playwright/test").Page) => page.getByRole("list", { name: "Here now" }).first();

test("check-off and presence are shared live", async ({ person, signedIn }) => {
  test.slow();
  const { maria, tom, vera, path } = await team(person);
  const [hers, his, viewers] = [await signedIn(maria), await signedIn(tom), await signedIn(vera)];
  // A private channel: policies, which apply only to private channels, admit members only.
  const joined = hers.waitForEvent("websocket").then((socket) =>
    socket.waitForEvent("framesent", {
      predicate: ({ payload }) => /realtime:plan:.*phx_join.*"private":true/.test(String(payload)),
    }),
  );
  for (const page of [hers, his, viewers]) await page.goto(path);
  await joined;
  for (const [page, others] of [
    [hers, [tom, vera]],
    [his, [maria, vera]],
    [viewers, [maria, tom]],
  ] as const) {
    await expect(hereNow(page).getByRole("listitem")).toHaveCount(2);
    for (const { email } of others) await expect(hereNow(page)).toContainText(email);
  }

  const check = "Find a hall";
  const started = Date.now();
  await hers.getByRole("checkbox", { name: check }).click();
  const seen = await Promise.all(
    [his, viewers].map(async (page) => {
      await expect(page.getByRole("checkbox", { name: check })).toBeChecked();
      await expect(page.getByRole("region", { name: "Progress" })).toContainText("50%");
      return Date.now() - started;
    }),
  );
  test.info().annotations.push({ type: "check-off seen by two others, ms", description: seen.join(", ") });

  // One user closes the page.
  await viewers.close();
  await expect(hereNow(hers)).not.toContainText(vera.email);
  await expect(hereNow(hers)).toContainText(tom.email);
});

test("one channel per plan, one fetch per check-off", async ({ person, signedIn }) => {
  test.slow();
  const { maria, tom, plan, path } = await team(person);
  const page = await signedIn(maria);
  const topics = new Set<string>();
  const updates: string[] = [];
  page.on("websocket", (socket) => {
    socket.on("framesent", ({ payload }) => {
      const join = /"(realtime:[^"]+)".*phx_join.*"table":"(plans|priorities|tasks|organizations)"/.exec(
        String(payload),
      );
      if (join?.[1]) topics.add(join[1]);
    });
    socket.on("framereceived", ({ payload }) => {
      if (/"type":"UPDATE"/.test(String(payload))) updates.push(String(payload));
    });
  });
  await page.goto(path);
  await (await signedIn(tom)).goto(path);
  await expect(hereNow(page)).toContainText(tom.email);
  expect([...topics]).toEqual([`realtime:plan:${plan.id}`]);

  const requests: string[] = [];
  page.on("request", (request) => {
    if (request.url().includes("/rest/v1/tasks")) requests.push(`${request.method()} ${request.postData() ?? ""}`);
  });
  await page.getByRole("checkbox", { name: "Find a hall" }).click();
  await expect(page.getByText("Task completed")).toBeVisible();
  await expect.poll(() => updates.length).toBe(1);
  // A colleague's change, which is fetched too, shows that the event of the page's own one has been handled.
  await tom.client.from("tasks").update({ is_completed: true }).eq("title", "Sign the lease").throwOnError();
  await expect(page.getByRole("checkbox", { name: "Sign the lease" })).toBeChecked();
  expect(requests).toEqual(['PATCH {"is_completed":true}', "GET ", "GET "]);
});

test("all lists update live", async ({ person, signedIn }) => {
  test.slow();
  const { maria, tom, plan, path } = await team(person);
  const page = await signedIn(tom);
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Warm meals");
  await expect(page.getByRole("checkbox", { name: "Find a hall" })).toBeVisible();

  const { client } = maria;
  await client.from("plans").update({ title: "Warm meals for all" }).eq("id", plan.id).throwOnError();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Warm meals for all");
  const made = await client
    .from("priorities")
    .insert({ plan_id: plan.id, title: "Fresh produce" })
    .select("id")
    .single()
    .throwOnError();
  await expect(priorityCard(page, "Fresh produce")).toBeVisible();
  await client.from("tasks").insert({ priority_id: made.data.id, title: "Agreement with a farm" }).throwOnError();
  await expect(priorityCard(page, "Fresh produce").getByText("Agreement with a farm", { exact: true })).toBeVisible();
  await client.from("tasks").delete().eq("title", "Agreement with a farm").throwOnError();
  await expect(priorityCard(page, "Fresh produce").getByText("No tasks available")).toBeVisible();
  await client.from("priorities").delete().eq("id", made.data.id).throwOnError();
  await expect(priorityCard(page, "Fresh produce")).toHaveCount(0);
  await client.from("organizations").insert({ plan_id: plan.id, name: "Riverside Trust" }).throwOnError();
  await expect(page.getByRole("region", { name: "Organization" })).toContainText("Riverside Trust");

  await page.getByRole("tab", { name: "Resources" }).click();
  await expect(page.getByRole("heading", { name: "No files yet" })).toBeVisible();
  await client
    .from("plan_attachments")
    .insert({ plan_id: plan.id, title: "Letter", file_url: `${plan.id}/a_1.txt` })
    .throwOnError();
  await expect(page.getByRole("list", { name: "Files" })).toContainText("Letter");
});

test("removed member gets a message and loses access", async ({ person, signedIn }) => {
  test.slow();
  const { maria, tom, vera, path } = await team(person);
  const [hers, theirs, his] = [await signedIn(maria), await signedIn(vera), await signedIn(tom)];
  await theirs.goto(path);
  await his.goto(`${path}?tab=team`);
  await hers.goto(`${path}?tab=team`);
  await expect(hereNow(hers)).toContainText(vera.email);
  await expect(his.getByRole("row").filter({ hasText: vera.email })).toBeVisible();

  await hers.getByRole("row").filter({ hasText: vera.email }).getByRole("button").click();
  await hers.getByRole("menuitem", { name: "Remove" }).click();
  await hers.getByRole("alertdialog").getByRole("button", { name: "Remove" }).click();
  await expectToast(hers, "Member removed");
  await expect(
    theirs.getByRole("heading", { level: 1, name: "You are no longer a member of this plan" }),
  ).toBeVisible();
  await expect(theirs.getByText("An owner removed you from its team.")).toBeVisible();
  await expect(theirs.getByText("Find a hall")).toHaveCount(0);
  // The third user's list is updated.
  await expect(his.getByRole("row").filter({ hasText: vera.email })).toHaveCount(0);
  await expect(hereNow(hers)).not.toContainText(vera.email);

  // So is a changed role.
  await hers.getByRole("row").filter({ hasText: tom.email }).getByRole("button").click();
  await hers.getByRole("menuitem", { name: "Viewer" }).click();
  await expect(his.getByText("You: viewer")).toBeVisible();
  await expect(his.getByRole("button", { name: "Invite Member" })).toHaveCount(0);
});

test("concurrent plan edit is not overwritten silently", async ({ person, signedIn }) => {
  const { maria, tom, plan, path } = await team(person);
  const page = await signedIn(tom);
  await page.goto(path);
  await page.getByRole("button", { name: "Edit plan" }).click();
  const dialog = page.getByRole("dialog", { name: "Edit Plan" });
  const change = (title: string) => maria.client.from("plans").update({ title }).eq("id", plan.id).throwOnError();

  // Without local input, the other user's text is applied.
  await change("Warm meals, theirs");
  await expect(dialog.getByLabel("Title")).toHaveValue("Warm meals, theirs");
  await expect(dialog.getByRole("alert")).toHaveCount(0);

  await dialog.getByLabel("Title").fill("Warm meals, mine");
  await change("Warm meals, theirs again");
  const note = dialog.getByRole("alert");
  await expect(note).toContainText("Someone else changed this plan while you were editing");
  await expect(note).toContainText("Warm meals, theirs again");
  await expect(dialog.getByLabel("Title")).toHaveValue("Warm meals, mine");
  // The server also rejects a save of the outdated version.
  await dialog.getByRole("button", { name: "Update Plan" }).click();
  await expect(note).toBeVisible();
  expect((await maria.client.from("plans").select("title").eq("id", plan.id).single()).data?.title).toBe(
    "Warm meals, theirs again",
  );
  await dialog.getByRole("button", { name: "Keep my version" }).click();
  await dialog.getByRole("button", { name: "Update Plan" }).click();
  await expectToast(page, "Plan updated");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Warm meals, mine");
});

test("inline title edits detect conflicts", async ({ person, signedIn }) => {
  test.slow();
  const { maria, tom, plan, path } = await team(person);
  const page = await signedIn(tom);
  await page.goto(path);
  const rename = async (label: string, text: string, key = "Enter") => {
    await page.getByRole("button", { name: label, exact: true }).click();
    await page.getByRole("textbox", { name: label, exact: true }).fill(text);
    await page.keyboard.press(key);
  };

  await rename("Rename Find a hall", "Never mind", "Escape");
  await expect(page.getByRole("button", { name: "Rename Find a hall", exact: true })).toBeFocused();
  await rename("Rename Find a hall", "ab");
  await expect(page.getByText("Focus Area must be at least 3 characters")).toBeVisible();
  await page.keyboard.press("Escape");
  await rename("Rename Find a hall", "Find two halls");
  await expectToast(page, "Task updated");
  await expect(page.getByRole("checkbox", { name: "Find two halls" })).toBeVisible();
  await rename("Rename priority Open four hubs", "Open six hubs");
  await expectToast(page, "Priority updated");
  await expect(priorityCard(page, "Open six hubs")).toBeVisible();
  await rename("Rename the plan", "Warmer meals");
  await expectToast(page, "Plan updated");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Warmer meals");

  await page.getByRole("button", { name: "Rename the plan" }).click();
  const field = page.getByRole("textbox", { name: "Rename the plan" });
  await field.fill("Mine");
  await maria.client.from("plans").update({ title: "Theirs" }).eq("id", plan.id).throwOnError();
  await expect(page.getByRole("alert")).toContainText("Someone else changed this to “Theirs”.");
  await expect(field).toHaveValue("Mine");
  await field.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Mine");
  expect((await maria.client.from("plans").select("title").eq("id", plan.id).single()).data?.title).toBe("Mine");
});

test("lost live connection is shown, polled and restored", async ({ person, signedIn }) => {
  test.slow();
  const { maria, tom, path } = await team(person);
  const page = await signedIn(tom);
  let broken = false;
  const sockets = new Set<import("@playwright/test").WebSocketRoute>();
  await page.routeWebSocket(/\/realtime\/v1\/websocket/, (socket) => {
    if (broken) return void socket.close();
    sockets.add(socket);
    socket.connectToServer();
  });
  await page.goto(path);
  const hall = page.getByRole("checkbox", { name: "Find a hall" });
  await expect(hall).not.toBeChecked();
  const other = await signedIn(maria);
  await other.goto(path);
  await expect(hereNow(page)).toContainText(maria.email);

  broken = true;
  for (const socket of sockets) await socket.close();
  const note = page.getByText("Live updates are interrupted. Looking for changes every 10 seconds.");
  await expect(note).toBeVisible();
  // The list of users present is unknown now.
  await expect(page.getByRole("list", { name: "Here now" })).toHaveCount(0);
  await maria.client.from("tasks").update({ is_completed: true }).eq("title", "Find a hall").throwOnError();
  await expect(hall).toBeChecked();
  await expect(note).toBeVisible();

  broken = false;
  await expect(note).toBeHidden({ timeout: 30_000 });
  await expect(hereNow(page)).toContainText(maria.email);
  await maria.client.from("tasks").update({ is_completed: false }).eq("title", "Find a hall").throwOnError();
  await expect(hall).not.toBeChecked();
});

test("non-member cannot join or broadcast to the channel", async ({ person, signedIn }) => {
  const { maria, tom, plan, path } = await team(person);
  const stranger = await person();
  const page = await signedIn(maria);
  await page.goto(path);
  await (await signedIn(tom)).goto(path);
  await expect(hereNow(page)).toContainText(tom.email);

  const join = async (isPrivate: boolean) => {
    const room = stranger.client.channel(`plan:${plan.id}`, {
      config: { private: isPrivate, presence: { key: stranger.id, enabled: true } },
    });
    room.on("presence", { event: "sync" }, () => undefined);
    const status = await new Promise<string>((resolve) =>
      room.subscribe((status, error) => resolve(`${status} ${error?.message ?? ""}`)),
    );
    return { room, status };
  };
  const refused = await join(true);
  expect(refused.status).toMatch(/^CHANNEL_ERROR .*Unauthorized/);
  await stranger.client.removeAllChannels();
  // A public channel of the same name, without members.
  const { room, status } = await join(false);
  expect(status).toMatch(/^SUBSCRIBED/);
  await room.track({});
  await expect.poll(() => Object.keys(room.presenceState())).toEqual([stranger.id]);
  await expect(hereNow(page).getByRole("listitem")).toHaveCount(1);
  await stranger.client.removeAllChannels();
});

for (const fate of ["deleted", "removed"] as const) {
  test(`text in open dialogs stays when the plan is ${fate}`, async ({ person, signedIn }) => {
    test.slow();
    const { maria, tom, plan, path } = await team(person);
    const pages = await Promise.all([signedIn(tom), signedIn(tom)]);
    const [plans, tasks] = pages;
    for (const page of pages) await page.goto(path);
    await plans.getByRole("button", { name: "Edit plan" }).click();
    await plans.getByLabel("Title").fill("Warm meals for everyone");
    await tasks.getByRole("button", { name: "Actions for Find a hall" }).click();
    await tasks.getByRole("menuitem", { name: "Edit task" }).click();
    await tasks.getByLabel("Focus Area").fill("Find two halls");

    const client = maria.client;
    if (fate === "deleted") await client.from("plans").delete().eq("id", plan.id).throwOnError();
    else {
      // By the screen, which announces it on the plan's channel.
      const hers = await signedIn(maria);
      await hers.goto(`${path}?tab=team`);
      await hers.getByRole("button", { name: `Actions for ${tom.email}` }).click();
      await hers.getByRole("menuitem", { name: "Remove" }).click();
      await hers.getByRole("alertdialog").getByRole("button", { name: "Remove" }).click();
      await expectToast(hers, "Member removed");
    }

    const title = fate === "deleted" ? "This plan was deleted" : "You are no longer a member of this plan";
    for (const [page, label, text] of [
      [plans, "Title", "Warm meals for everyone"],
      [tasks, "Focus Area", "Find two halls"],
    ] as const) {
      await expect(page.getByRole("dialog").getByRole("alert")).toContainText(title);
      await expect(page.getByLabel(label)).toHaveValue(text);
    }
    await tasks.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await tasks.getByRole("button", { name: "Discard" }).click();
    await expect(tasks.getByRole("heading", { name: title })).toBeVisible();
    await tasks.getByRole("link", { name: "Back to your plans" }).click();
    await expect(tasks).toHaveURL("/dashboard");
  });
}

test("five people who type keep their text when the plan is deleted", async ({ person, signedIn }) => {
  test.slow();
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals", priorities);
  const colleagues = await Promise.all(Array.from({ length: 5 }, () => person()));
  for (const colleague of colleagues) await addMember(plan.id, colleague, "manager");
  const typing: ((page: import("@playwright/test").Page) => Promise<[label: string, text: string]>)[] = [
    async (page) => {
      await page.getByRole("button", { name: "Edit plan" }).click();
      return ["Title", "Warm meals for everyone"];
    },
    async (page) => {
      await page.getByRole("button", { name: "Add Priority" }).click();
      return ["Title", "Cook on Sundays"];
    },
    async (page) => {
      await page.getByRole("button", { name: "Actions for priority Open four hubs" }).click();
      await page.getByRole("menuitem", { name: "Edit priority" }).click();
      return ["Title", "Open five hubs"];
    },
    async (page) => {
      await page.getByRole("button", { name: "Add Task to Open four hubs" }).click();
      return ["Focus Area", "Ask the parish"];
    },
    async (page) => {
      await page.getByRole("button", { name: "Actions for Find a hall" }).click();
      await page.getByRole("menuitem", { name: "Edit task" }).click();
      return ["Measure of Success", "Two offers in writing"];
    },
  ];
  const typed = [];
  for (const [index, open] of typing.entries()) {
    const colleague = colleagues[index];
    if (!colleague) throw new Error("one colleague for each dialog");
    const page = await signedIn(colleague);
    await page.goto(`/plan/${plan.id}`);
    const [label, text] = await open(page);
    const field = page.getByRole("dialog").getByLabel(label, { exact: true });
    await field.fill(text);
    typed.push({ page, field, text });
  }
  await maria.client.from("plans").delete().eq("id", plan.id).throwOnError();
  for (const { page, field, text } of typed) {
    await expect(page.getByRole("dialog").getByRole("alert")).toContainText("This plan was deleted");
    await expect(field).toHaveValue(text);
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Discard" }).click();
    await expect(page.getByRole("heading", { level: 1, name: "This plan was deleted" })).toBeVisible();
  }
});
