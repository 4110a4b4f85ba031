import type { Page, Route } from "@playwright/test";
import { expect, type Person, pixel, test } from "./fixtures";
import { addMember, makePlan, server } from "./workspace";
import texts from "./workspace-texts.json" with { type: "json" };

// Finds every text of the specification (2, without the admin area) on its screen. The list is in workspace-texts.json.
// Screens share a visit: an account, a page, a plan. Success messages are asserted by the tests of each action: in
// plans.spec.ts and in workspace-plan, -team, -resources, -organization and -import-export.

type Screen = keyof typeof texts;

interface Context {
  maria: Person;
  page: Page;
  person: () => Promise<Person>;
  /** The plan of this visit, created on first use. */
  plan: () => Promise<{ id: string }>;
  /** Finds these texts now; the rest of the screen's list is searched for at the end. */
  see: (...now: string[]) => Promise<void>;
}

/** Opens a screen on the page as the previous one left it. */
type Arrange = (context: Context) => Promise<unknown>;

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

/** Fails every write from now on with an error response that no test can provoke. */
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

async function openPlan({ page, plan }: Context, search = "") {
  await page.goto(`/plan/${(await plan()).id}${search}`);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Warm meals");
}

/** Invites this user from another account; returns the path of the invitation. */
async function invitation({ maria, person }: Context) {
  const owner = await person();
  const plan = await makePlan(owner, "Warm meals");
  await server().auth.admin.updateUserById(maria.id, { email_confirm: true });
  const { data } = await owner.client
    .from("plan_members")
    .insert({ plan_id: plan.id, email: maria.email, role: "viewer" })
    .select("invite_token")
    .single()
    .throwOnError();
  return `/invite?token=${data.invite_token}&plan=${plan.id}`;
}

const unfold = (page: Page) => page.getByRole("button", { name: "Priorities of Cold meals" }).click();

const visits: Record<string, Partial<Record<Screen, Arrange>>> = {
  "the list of plans": {
    "plans, none": ({ page }) => page.goto("/dashboard"),
    "plans, on their way": async ({ page, maria }) => {
      await makePlan(maria, "Cold meals");
      await page.route("**/rest/v1/priorities?select=*&*", () => undefined);
      await page.goto("/dashboard");
      await unfold(page);
    },
    "plans, unfolded": async ({ page }) => {
      await page.goto("/dashboard");
      await unfold(page);
    },
    "a priority without tasks": async ({ page, maria }) => {
      const { data } = await maria.client.from("plans").select("id").single().throwOnError();
      await maria.client.from("priorities").insert({ plan_id: data.id, title: "Hubs" }).throwOnError();
      await page.goto("/dashboard");
      await unfold(page);
      await page.getByRole("button", { name: "View Tasks (0)" }).click();
    },
    "plan, missing": ({ page }) => page.goto("/plan/00000000-0000-4000-8000-000000000000"),
  },
  "a plan": {
    "plan, without tasks": async ({ page, maria }) => {
      const { id } = await makePlan(maria, "Cold meals", { Hubs: [] });
      await page.goto(`/plan/${id}`);
    },
    "tasks on their way": async (context) => {
      await context.page.route("**/rest/v1/tasks?select=*&*", () => undefined);
      await openPlan(context);
    },
    plan: async (context) => {
      await openPlan(context);
      const change = { description: "<p>For all</p>" };
      await context.maria.client.from("plans").update(change).eq("title", "Warm meals").throwOnError();
    },
    "plan forms": async ({ page, see }) => {
      await page.getByRole("button", { name: "Add Priority" }).click();
      await submit(page, "Create Priority");
      await see("Title must be at least 3 characters");
      await close(page);
      await page.getByRole("button", { name: "Add Task to Hubs" }).click();
      await submit(page, "Create Task");
    },
    import: async ({ page, see }) => {
      await close(page);
      await page.getByRole("button", { name: "Import CSV" }).click();
      await submit(page, "Import");
      await see("No file selected", "title", "description");
      const file = page.getByRole("dialog").getByLabel("CSV file");
      await file.setInputFiles(csv("title,description\n"));
      await see("CSV file is empty or only contains headers");
      await file.setInputFiles(csv("name,description\na,b"));
      await see("Missing required header: title");
      await file.setInputFiles(csv("title,description\nHubs,Why\nalone\n,none\n"));
      await submit(page, "Import");
    },
    organization: async ({ page, see }) => {
      await close(page);
      await see("Edit Org");
      await page.getByRole("button", { name: "Edit Org" }).click();
    },
  },
  "a plan's team and files": {
    team: async (context) => {
      const { page, plan, maria, see } = context;
      const { id } = await plan();
      await maria.client.from("plan_members").insert({ plan_id: id, email: "pending@example.org" }).throwOnError();
      await openPlan(context, "?tab=team");
      await see("Email", "Role", "Status", "Actions", "Pending", "Pending Acceptance", "Active");
      await see("Invite Member");
      await page.getByRole("button", { name: `Actions for ${maria.email}` }).click();
    },
    invite: async ({ page, maria, see }) => {
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Invite Member" }).click();
      await submit(page, "Send Invitation");
      await see("Please enter a valid email address");
      await page.getByRole("dialog").getByLabel("Email").fill(maria.email);
      await submit(page, "Send Invitation");
    },
    resources: async (context) => {
      const { page, see } = context;
      await openPlan(context, "?tab=resources");
      await page.getByRole("button", { name: "Upload", exact: true }).click();
      await see("Please select a file to upload");
      await page.locator("input[type=file]").setInputFiles(letter);
      await page.getByLabel("Title of Letter.txt").fill(" ");
      await page.getByRole("button", { name: "Upload", exact: true }).click();
    },
    "team, none": async (context) => {
      // A plan always has an owner, so the empty list is stubbed.
      await context.page.route("**/rest/v1/plan_members?select=*&*", (route) => route.fulfill({ json: [] }));
      await openPlan(context, "?tab=team");
    },
  },
  "an invitation": {
    "invitation, verifying": async (context) => {
      await context.page.route("**/rest/v1/rpc/get_invitation*", () => undefined);
      await context.page.goto(await invitation(context));
    },
    invitation: ({ page }) => page.reload(),
    "invitation, taken": ({ page }) => page.getByRole("button", { name: "Accept Invitation" }).click(),
    "invitation, without its parts": ({ page }) => page.goto("/invite?token=x"),
    "invitation, unknown": ({ page }) => page.goto("/invite?token=x&plan=y"),
  },
  "whatever fails": {
    failed: async (context) => {
      const { page, person, see } = context;
      const plan = await context.plan();
      const vera = await person();
      await addMember(plan.id, vera, "viewer");
      await server()
        .from("plan_attachments")
        .insert({ plan_id: plan.id, title: "Letter", file_url: `${plan.id}/gone_1.txt` })
        .throwOnError();
      await openPlan(context);
      await expect(page.getByRole("checkbox", { name: "Find a hall" })).toBeVisible();
      await refuseWrites(page, "**/rest/v1/**");
      await refuseWrites(page, "**/storage/v1/upload/**");
      await refuseWrites(page, "**/storage/v1/object/org_logos/**");
      const dialog = page.getByRole("dialog");

      await page.getByRole("checkbox", { name: "Find a hall" }).click();
      await see("Error updating task status", "Out of order");
      await page.getByRole("button", { name: "Add Task to Hubs" }).click();
      await dialog.getByLabel("Focus Area").fill("Ask the school");
      await submit(page, "Create Task");
      await see("Error creating task");
      await close(page);
      await actions(page, "Actions for Find a hall", "Edit task");
      await dialog.getByLabel("Focus Area").fill("Find two halls");
      await submit(page, "Update Task");
      await see("Error updating task");
      await close(page);
      await actions(page, "Actions for Find a hall", "Delete task");
      await confirm(page, "Delete Task");
      await see("Error deleting task");
      await confirm(page, "Cancel");

      await page.getByRole("button", { name: "Add Priority" }).click();
      await dialog.getByLabel("Title").fill("Fresh produce");
      await submit(page, "Create Priority");
      await see("Error creating priority");
      await close(page);
      await actions(page, "Actions for priority Hubs", "Edit priority");
      await dialog.getByLabel("Title").fill("Fresher produce");
      await submit(page, "Update Priority");
      await see("Error updating priority");
      await close(page);
      await actions(page, "Actions for priority Hubs", "Delete priority");
      await confirm(page, "Delete Priority");
      await see("Error deleting priority");
      await confirm(page, "Cancel");
      await page.getByRole("button", { name: "Import CSV" }).click();
      await dialog.getByLabel("CSV file").setInputFiles({ ...letter, name: "list.txt" });
      await see("Error processing file");
      await dialog.getByLabel("CSV file").setInputFiles(csv("title,description\nImported,Why"));
      await submit(page, "Import 1 priority");
      await see("Failed to import priorities");
      await close(page);

      await page.getByRole("button", { name: "Edit Org" }).click();
      await page.getByLabel("Mission").fill("Food");
      await page.getByRole("button", { name: "Save" }).click();
      await see("Error saving data");
      await page.getByLabel("Logo file").setInputFiles({ name: "logo.png", mimeType: "image/png", buffer: pixel });
      await page.getByRole("button", { name: "Save" }).click();
      await see("Error uploading logo");
      await page.getByRole("button", { name: "Cancel" }).click();
      await confirm(page, "Discard");

      await page.getByRole("tab", { name: "Team" }).click();
      await page.getByRole("button", { name: "Invite Member" }).click();
      await dialog.getByLabel("Email").fill("new@example.org");
      await submit(page, "Send Invitation");
      await see("Error inviting member");
      await close(page);
      await actions(page, `Actions for ${vera.email}`, "Manager");
      await see("Error updating role");
      await actions(page, `Actions for ${vera.email}`, "Remove");
      await confirm(page, "Remove");
      await see("Error removing member");
      await confirm(page, "Cancel");

      await page.getByRole("tab", { name: "Resources" }).click();
      await page.locator("input[type=file]").setInputFiles(letter);
      await page.getByRole("button", { name: "Upload", exact: true }).click();
      await see("Failed to upload file");
      await page.getByRole("button", { name: "Remove Letter.txt" }).click();
      await page.getByRole("button", { name: "Delete Letter" }).click();
      await confirm(page, "Delete File");
      await see("Failed to delete file");
      await confirm(page, "Cancel");
      await page.getByRole("button", { name: "Download Letter" }).click();
      await see("File not found");

      await page.getByRole("button", { name: "Edit plan" }).click();
      await dialog.getByLabel("Title").fill("Warmer meals");
      await submit(page, "Update Plan");
      await see("Error updating plan");
      await close(page);
      await actions(page, "More actions for this plan", "Delete plan");
      await confirm(page, "Delete Plan");
      await see("Error deleting plan");
      await confirm(page, "Cancel");
      await page.goto("/dashboard");
      await page.getByRole("button", { name: "Create Plan" }).click();
      await dialog.getByLabel("Title").fill("Another");
      await submit(page, "Create Plan");
      await see("Error creating plan");

      const refused = ["plan_members?select=*", "plan_attachments?select=*", "organizations"];
      for (const what of refused) await page.route(`**/rest/v1/${what}*`, (route) => route.fulfill(refusal));
      await page.goto(`/plan/${plan.id}?tab=team`);
      await see("Error fetching members", "Error fetching organization data");
      await page.getByRole("tab", { name: "Resources" }).click();
      await see("Failed to load files");
      await page.route("**/rest/v1/plans?*", (route) => route.fulfill(refusal));
      await page.goto(`/plan/${plan.id}`);
      await see("Error fetching plan", "Error fetching plans");
    },
  },
};

for (const [name, screens] of Object.entries(visits)) {
  test(`specified texts: ${name}`, async ({ person, signedIn }) => {
    test.slow();
    const maria = await person();
    const page = await signedIn(maria);
    let made: { id: string } | undefined;
    const plan = async () => {
      made ??= await makePlan(maria, "Warm meals", filled);
      return made;
    };
    for (const [screen, arrange] of Object.entries(screens) as [Screen, Arrange][]) {
      await test.step(screen, async () => {
        const left = new Set<string>(texts[screen]);
        const see = async (...now: string[]) => {
          // Immediately, because toasts disappear.
          await Promise.all(now.map((text) => look(page, text)));
          for (const text of now) {
            expect(texts[screen]).toContain(text);
            left.delete(text);
          }
        };
        await page.unrouteAll({ behavior: "ignoreErrors" });
        await arrange({ maria, page, person, plan, see });
        await see(...left);
      });
    }
  });
}

test("every screen is visited", () => {
  const shown = Object.values(visits).flatMap((screens) => Object.keys(screens));
  expect(shown.toSorted()).toEqual(Object.keys(texts).toSorted());
});
