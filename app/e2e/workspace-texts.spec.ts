import type { Page, Route } from "@playwright/test";
import { expect, type Person, pixel, test } from "./fixtures";
import { addMember, makePlan, server } from "./workspace";
import texts from "./workspace-texts.json" with { type: "json" };

// Every text of the specification (2, without the admin area) is found on its screen. The list is in workspace-texts.json.

type Screen = keyof typeof texts;

interface Context {
  maria: Person;
  signedIn: (person: Person) => Promise<Page>;
  person: () => Promise<Person>;
  /** Sees these texts now; what is left of the screen's list is looked for at the end. */
  see: (page: Page, ...now: string[]) => Promise<void>;
}

/** Brings a screen up, and answers the page that shows it. */
type Arrange = (context: Context) => Promise<Page>;

async function look(page: Page, text: string) {
  const places = page
    .getByText(text)
    .or(page.getByPlaceholder(text))
    .or(page.getByLabel(text))
    .or(page.locator("option", { hasText: text }));
  const visible = places.filter({ visible: true }).or(page.locator("select:visible option", { hasText: text }));
  await expect(visible.first(), text).toBeAttached();
}

const refusal = { status: 400, json: { code: "X", message: "Out of order", details: null, hint: null } };
const isWrite = (route: Route) => route.request().method() !== "GET" && route.request().method() !== "HEAD";

/** Lets every write fail from now on, as an answer of the server that nothing here could provoke. */
async function refuseWrites(page: Page, pattern: string) {
  await page.route(pattern, (route) => (isWrite(route) ? route.fulfill(refusal) : route.continue()));
}

const csv = (content: string) => ({ name: "list.csv", mimeType: "text/csv", buffer: Buffer.from(content) });
const letter = { name: "Letter.txt", mimeType: "text/plain", buffer: Buffer.from("Dear all") };
const actions = async (page: Page, button: string | RegExp, item: string) => {
  await page.getByRole("button", { name: button }).first().click();
  await page.getByRole("menuitem", { name: item }).click();
};
const confirm = async (page: Page, name: string) => {
  await page.getByRole("alertdialog").getByRole("button", { name, exact: true }).click();
};
const submit = (page: Page, name: string) =>
  page.getByRole("dialog").getByRole("button", { name, exact: true }).click();
const close = async (page: Page) => {
  await page.keyboard.press("Escape");
  const discard = page.getByRole("alertdialog").getByRole("button", { name: "Discard" });
  const dialog = page.getByRole("dialog");
  await expect(discard.or(page.locator("body:not(:has([role=dialog]))")).first()).toBeVisible();
  if (await discard.isVisible()) await discard.click();
  await expect(dialog).toHaveCount(0);
};

const filled = {
  Hubs: [
    { title: "Find a hall", due: "2099-01-31", by: ["Maya", "Tom"], measure: "Two offers" },
    { title: "Sign the lease", done: true },
  ],
};

async function planPage(
  { maria, signedIn }: Context,
  search = "",
  priorities: Parameters<typeof makePlan>[2] = filled,
) {
  const plan = await makePlan(maria, "Warm meals", priorities);
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}${search}`);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Warm meals");
  return { page, plan };
}

async function invitation({ maria, person, signedIn }: Context) {
  const plan = await makePlan(maria, "Warm meals");
  const tom = await person();
  await server().auth.admin.updateUserById(tom.id, { email_confirm: true });
  const { data } = await maria.client
    .from("plan_members")
    .insert({ plan_id: plan.id, email: tom.email, role: "viewer" })
    .select("invite_token")
    .single()
    .throwOnError();
  const page = await signedIn(tom);
  return { page, path: `/invite?token=${data.invite_token}&plan=${plan.id}` };
}

const screens: Record<Screen, Arrange> = {
  "plans, none": async ({ maria, signedIn }) => {
    const page = await signedIn(maria);
    await page.goto("/dashboard");
    return page;
  },
  "plans, unfolded": async ({ maria, signedIn }) => {
    await makePlan(maria, "Warm meals");
    const page = await signedIn(maria);
    await page.goto("/dashboard");
    await page.getByRole("button", { name: "Priorities of Warm meals" }).click();
    return page;
  },
  "plans, on their way": async ({ maria, signedIn }) => {
    await makePlan(maria, "Warm meals");
    const page = await signedIn(maria);
    await page.route("**/rest/v1/priorities?select=*&*", () => undefined);
    await page.goto("/dashboard");
    await page.getByRole("button", { name: "Priorities of Warm meals" }).click();
    return page;
  },
  "a priority without tasks": async ({ maria, signedIn }) => {
    await makePlan(maria, "Warm meals", { Hubs: [] });
    const page = await signedIn(maria);
    await page.goto("/dashboard");
    await page.getByRole("button", { name: "Priorities of Warm meals" }).click();
    await page.getByRole("button", { name: "View Tasks (0)" }).click();
    return page;
  },
  "tasks on their way": async ({ maria, signedIn }) => {
    const plan = await makePlan(maria, "Warm meals", { Hubs: [] });
    const page = await signedIn(maria);
    await page.route("**/rest/v1/tasks?select=*&*", () => undefined);
    await page.goto(`/plan/${plan.id}`);
    return page;
  },
  plan: async (context) => {
    const { page, plan } = await planPage(context);
    await context.maria.client.from("plans").update({ description: "<p>For all</p>" }).eq("id", plan.id).throwOnError();
    return page;
  },
  "plan, without tasks": async (context) => (await planPage(context, "", { Hubs: [] })).page,
  "plan, missing": async ({ maria, signedIn }) => {
    const page = await signedIn(maria);
    await page.goto("/plan/00000000-0000-4000-8000-000000000000");
    return page;
  },
  "plan forms": async (context) => {
    const { page } = await planPage(context);
    await page.getByRole("button", { name: "Add Priority" }).click();
    await submit(page, "Create Priority");
    await context.see(page, "Title must be at least 3 characters");
    await close(page);
    await page.getByRole("button", { name: "Add Task to Hubs" }).click();
    await submit(page, "Create Task");
    return page;
  },
  team: async (context) => {
    const { page, plan } = await planPage(context, "?tab=team");
    await context.maria.client
      .from("plan_members")
      .insert({ plan_id: plan.id, email: "pending@example.org" })
      .throwOnError();
    await page.reload();
    await context.see(page, "Email", "Role", "Status", "Actions", "Pending", "Pending Acceptance", "Active");
    await context.see(page, "Invite Member");
    await page.getByRole("button", { name: `Actions for ${context.maria.email}` }).click();
    return page;
  },
  "team, none": async (context) => {
    const { page, plan } = await planPage(context);
    // Cannot be: a plan always has an owner. An answer without rows all the same.
    await page.route(`**/rest/v1/plan_members?select=*&plan_id=eq.${plan.id}*`, (route) => route.fulfill({ json: [] }));
    await page.getByRole("tab", { name: "Team" }).click();
    return page;
  },
  invite: async (context) => {
    const { page } = await planPage(context, "?tab=team");
    await page.getByRole("button", { name: "Invite Member" }).click();
    await submit(page, "Send Invitation");
    await context.see(page, "Please enter a valid email address");
    await page.getByRole("dialog").getByLabel("Email").fill(context.maria.email);
    await submit(page, "Send Invitation");
    return page;
  },
  "invitation, verifying": async (context) => {
    const { page, path } = await invitation(context);
    await page.route("**/rest/v1/rpc/get_invitation*", () => undefined);
    await page.goto(path);
    return page;
  },
  invitation: async (context) => {
    const { page, path } = await invitation(context);
    await page.goto(path);
    return page;
  },
  "invitation, without its parts": async ({ maria, signedIn }) => {
    const page = await signedIn(maria);
    await page.goto("/invite?token=x");
    return page;
  },
  "invitation, unknown": async ({ maria, signedIn }) => {
    const page = await signedIn(maria);
    await page.goto("/invite?token=x&plan=y");
    return page;
  },
  "invitation, taken": async (context) => {
    const { page, path } = await invitation(context);
    await page.goto(path);
    await page.getByRole("button", { name: "Accept Invitation" }).click();
    return page;
  },
  resources: async (context) => {
    const { page } = await planPage(context, "?tab=resources");
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    await context.see(page, "Please select a file to upload");
    await page.locator("input[type=file]").setInputFiles(letter);
    await page.getByLabel("Title of Letter.txt").fill(" ");
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    return page;
  },
  organization: async (context) => {
    const { page } = await planPage(context);
    await context.see(page, "Edit Org");
    await page.getByRole("button", { name: "Edit Org" }).click();
    return page;
  },
  import: async (context) => {
    const { page } = await planPage(context);
    await page.getByRole("button", { name: "Import CSV" }).click();
    await submit(page, "Import");
    await context.see(page, "No file selected", "title", "description");
    const file = page.getByRole("dialog").getByLabel("CSV file");
    await file.setInputFiles(csv("title,description\n"));
    await context.see(page, "CSV file is empty or only contains headers");
    await file.setInputFiles(csv("name,description\na,b"));
    await context.see(page, "Missing required header: title");
    await file.setInputFiles(csv("title,description\nHubs,Why\nalone\n,none\n"));
    await submit(page, "Import");
    return page;
  },
  done: async (context) => {
    const { maria, person, see } = context;
    const { page, plan } = await planPage(context);
    const vera = await person();
    await addMember(plan.id, vera, "viewer");
    const dialog = page.getByRole("dialog");

    await page.getByRole("checkbox", { name: "Find a hall" }).click();
    await see(page, "Task completed");
    await page.getByRole("checkbox", { name: "Find a hall" }).click();
    await see(page, "Task reopened");
    await page.getByRole("button", { name: "Add Task to Hubs" }).click();
    await dialog.getByLabel("Focus Area").fill("Ask the school");
    await submit(page, "Create Task");
    await see(page, "Task created");
    await actions(page, "Actions for Ask the school", "Edit task");
    await dialog.getByLabel("Measure of Success").fill("Asked");
    await submit(page, "Update Task");
    await see(page, "Task updated");
    await actions(page, "Actions for Ask the school", "Delete task");
    await confirm(page, "Delete Task");
    await see(page, "Task deleted");

    await page.getByRole("button", { name: "Add Priority" }).click();
    await dialog.getByLabel("Title").fill("Fresh produce");
    await submit(page, "Create Priority");
    await see(page, "Priority created");
    await actions(page, "Actions for priority Fresh produce", "Edit priority");
    await dialog.getByLabel("Title").fill("Fresher produce");
    await submit(page, "Update Priority");
    await see(page, "Priority updated");
    await actions(page, "Actions for priority Fresher produce", "Delete priority");
    await confirm(page, "Delete Priority");
    await see(page, "Priority deleted");
    await page.getByRole("button", { name: "Import CSV" }).click();
    await dialog.getByLabel("CSV file").setInputFiles(csv("title,description\nImported,Why"));
    await submit(page, "Import 1 priority");
    await see(page, "Priorities imported");

    await page.getByRole("button", { name: "Edit Org" }).click();
    await page.getByLabel("Mission").fill("Food");
    await page.getByRole("button", { name: "Save" }).click();
    await see(page, "Organization data saved");

    await page.getByRole("tab", { name: "Team" }).click();
    await page.getByRole("button", { name: "Invite Member" }).click();
    await dialog.getByLabel("Email").fill("new@example.org");
    await submit(page, "Send Invitation");
    await see(page, "Invitation sent", "has been invited to collaborate on this plan.");
    await actions(page, `Actions for ${vera.email}`, "Manager");
    await see(page, "Member role updated");
    await actions(page, `Actions for ${vera.email}`, "Remove");
    await confirm(page, "Remove");
    await see(page, "Member removed");

    await page.getByRole("tab", { name: "Resources" }).click();
    await page.locator("input[type=file]").setInputFiles(letter);
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    await see(page, "File uploaded successfully");
    await page.getByRole("button", { name: "Delete Letter" }).click();
    await confirm(page, "Delete File");
    await see(page, "File deleted successfully");

    await page.getByRole("button", { name: "Edit plan" }).click();
    await dialog.getByLabel("Title").fill("Warmer meals");
    await submit(page, "Update Plan");
    await see(page, "Plan updated");
    await actions(page, "More actions for this plan", "Delete plan");
    await confirm(page, "Delete Plan");
    await see(page, "Plan deleted");
    await page.getByRole("button", { name: "Create Plan" }).click();
    await dialog.getByLabel("Title").fill(maria.organization);
    await submit(page, "Create Plan");
    await see(page, "Plan created");
    return page;
  },
  failed: async (context) => {
    const { person, see } = context;
    const { page, plan } = await planPage(context);
    const vera = await person();
    await addMember(plan.id, vera, "viewer");
    await server()
      .from("plan_attachments")
      .insert({ plan_id: plan.id, title: "Letter", file_url: `${plan.id}/gone_1.txt` })
      .throwOnError();
    await page.reload();
    await expect(page.getByRole("checkbox", { name: "Find a hall" })).toBeVisible();
    await refuseWrites(page, "**/rest/v1/**");
    await refuseWrites(page, "**/storage/v1/upload/**");
    await refuseWrites(page, "**/storage/v1/object/org_logos/**");
    const dialog = page.getByRole("dialog");

    await page.getByRole("checkbox", { name: "Find a hall" }).click();
    await see(page, "Error updating task status", "Out of order");
    await page.getByRole("button", { name: "Add Task to Hubs" }).click();
    await dialog.getByLabel("Focus Area").fill("Ask the school");
    await submit(page, "Create Task");
    await see(page, "Error creating task");
    await close(page);
    await actions(page, "Actions for Find a hall", "Edit task");
    await dialog.getByLabel("Focus Area").fill("Find two halls");
    await submit(page, "Update Task");
    await see(page, "Error updating task");
    await close(page);
    await actions(page, "Actions for Find a hall", "Delete task");
    await confirm(page, "Delete Task");
    await see(page, "Error deleting task");
    await confirm(page, "Cancel");

    await page.getByRole("button", { name: "Add Priority" }).click();
    await dialog.getByLabel("Title").fill("Fresh produce");
    await submit(page, "Create Priority");
    await see(page, "Error creating priority");
    await close(page);
    await actions(page, "Actions for priority Hubs", "Edit priority");
    await dialog.getByLabel("Title").fill("Fresher produce");
    await submit(page, "Update Priority");
    await see(page, "Error updating priority");
    await close(page);
    await actions(page, "Actions for priority Hubs", "Delete priority");
    await confirm(page, "Delete Priority");
    await see(page, "Error deleting priority");
    await confirm(page, "Cancel");
    await page.getByRole("button", { name: "Import CSV" }).click();
    await dialog.getByLabel("CSV file").setInputFiles({ ...letter, name: "list.txt" });
    await see(page, "Error processing file");
    await dialog.getByLabel("CSV file").setInputFiles(csv("title,description\nImported,Why"));
    await submit(page, "Import 1 priority");
    await see(page, "Failed to import priorities");
    await close(page);

    await page.getByRole("button", { name: "Edit Org" }).click();
    await page.getByLabel("Mission").fill("Food");
    await page.getByRole("button", { name: "Save" }).click();
    await see(page, "Error saving data");
    await page.getByLabel("Logo file").setInputFiles({ name: "logo.png", mimeType: "image/png", buffer: pixel });
    await page.getByRole("button", { name: "Save" }).click();
    await see(page, "Error uploading logo");
    await page.getByRole("button", { name: "Cancel" }).click();
    await confirm(page, "Discard");

    await page.getByRole("tab", { name: "Team" }).click();
    await page.getByRole("button", { name: "Invite Member" }).click();
    await dialog.getByLabel("Email").fill("new@example.org");
    await submit(page, "Send Invitation");
    await see(page, "Error inviting member");
    await close(page);
    await actions(page, `Actions for ${vera.email}`, "Manager");
    await see(page, "Error updating role");
    await actions(page, `Actions for ${vera.email}`, "Remove");
    await confirm(page, "Remove");
    await see(page, "Error removing member");
    await confirm(page, "Cancel");

    await page.getByRole("tab", { name: "Resources" }).click();
    await page.locator("input[type=file]").setInputFiles(letter);
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    await see(page, "Failed to upload file");
    await page.getByRole("button", { name: "Remove Letter.txt" }).click();
    await page.getByRole("button", { name: "Delete Letter" }).click();
    await confirm(page, "Delete File");
    await see(page, "Failed to delete file");
    await confirm(page, "Cancel");
    await page.getByRole("button", { name: "Download Letter" }).click();
    await see(page, "File not found");

    await page.getByRole("button", { name: "Edit plan" }).click();
    await dialog.getByLabel("Title").fill("Warmer meals");
    await submit(page, "Update Plan");
    await see(page, "Error updating plan");
    await close(page);
    await actions(page, "More actions for this plan", "Delete plan");
    await confirm(page, "Delete Plan");
    await see(page, "Error deleting plan");
    await confirm(page, "Cancel");
    await page.goto("/dashboard");
    await page.getByRole("button", { name: "Create Plan" }).click();
    await dialog.getByLabel("Title").fill("Another");
    await submit(page, "Create Plan");
    await see(page, "Error creating plan");

    const refused = ["plan_members?select=*", "plan_attachments?select=*", "organizations"];
    for (const what of refused) await page.route(`**/rest/v1/${what}*`, (route) => route.fulfill(refusal));
    await page.goto(`/plan/${plan.id}?tab=team`);
    await see(page, "Error fetching members", "Error fetching organization data");
    await page.getByRole("tab", { name: "Resources" }).click();
    await see(page, "Failed to load files");
    await page.route("**/rest/v1/plans?*", (route) => route.fulfill(refusal));
    await page.goto(`/plan/${plan.id}`);
    await see(page, "Error fetching plan", "Error fetching plans");
    return page;
  },
};

for (const [name, arrange] of Object.entries(screens)) {
  test(`the specification's texts: ${name}`, async ({ person, signedIn }) => {
    test.slow();
    const left = new Set<string>(texts[name as Screen]);
    const see = async (page: Page, ...now: string[]) => {
      // At once: toasts go as they came.
      await Promise.all(now.map((text) => look(page, text)));
      for (const text of now) {
        expect(texts[name as Screen]).toContain(text);
        left.delete(text);
      }
    };
    const page = await arrange({ maria: await person(), person, signedIn, see });
    await see(page, ...left);
    expect([...left]).toEqual([]);
  });
}
