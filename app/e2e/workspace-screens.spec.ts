import type { Page } from "@playwright/test";
import { examine } from "./examine";
import { expect, type Person, pixel, test } from "./fixtures";
import { addMember, makePlan } from "./workspace";

// Each screen and dialog of the workspace, in both themes and in phone and desktop sizes, has no axe violations and no
// horizontal overflow. SCREENSHOTS=folder also saves a screenshot of each.

const folder = process.env.SCREENSHOTS;

interface Screen {
  name: string;
  /** The path below the plan's URL. */
  path?: string;
  arrange?: (page: Page) => Promise<unknown>;
}

const click = (page: Page, name: string | RegExp) => page.getByRole("button", { name }).first().click();
const choose = (page: Page, name: string) => page.getByRole("menuitem", { name }).click();
const dialog = (page: Page) => expect(page.getByRole("dialog")).toBeVisible();
const editor = async (page: Page) => {
  await dialog(page);
  await expect(page.getByRole("dialog").locator("[contenteditable]")).toBeVisible();
};
const csv = (content: string) => ({ name: "list.csv", mimeType: "text/csv", buffer: Buffer.from(content) });

/** Screens of one plan, shown one after the other. */
const visits: Record<string, Screen[]> = {
  "the plan": [
    { name: "plan" },
    { name: "plan, its menu", arrange: (page) => click(page, "More actions for this plan") },
    {
      name: "plan, scrolled",
      arrange: async (page) => {
        await page.evaluate(() => window.scrollTo(0, 700));
        await expect(page.getByText("Riverside: warm meals within a walk").nth(1)).toBeVisible();
      },
    },
    {
      name: "plan, editing",
      arrange: async (page) => {
        await click(page, "Edit plan");
        await editor(page);
      },
    },
    {
      name: "plan, deleting",
      arrange: async (page) => {
        await click(page, "More actions for this plan");
        await choose(page, "Delete plan");
        await expect(page.getByRole("alertdialog")).toBeVisible();
      },
    },
    {
      name: "plan, renaming",
      arrange: async (page) => {
        await click(page, "Rename Find a hall");
        await page.keyboard.type("ab");
        await page.keyboard.press("Enter");
        await expect(page.getByText("Focus Area must be at least 3 characters")).toBeVisible();
      },
    },
    {
      name: "organization, editing",
      arrange: async (page) => {
        await click(page, "Edit Org");
        await expect(page.getByLabel("Mission")).toBeVisible();
      },
    },
  ],
  "priorities and tasks": [
    {
      name: "priority, making",
      arrange: async (page) => {
        await click(page, "Add Priority");
        await editor(page);
        await page.getByRole("dialog").getByRole("button", { name: "Create Priority" }).click();
        await expect(page.getByText("Title must be at least 3 characters")).toBeVisible();
      },
    },
    { name: "task, its menu", arrange: (page) => click(page, "Actions for Train the first volunteers") },
    {
      name: "task, editing",
      arrange: async (page) => {
        await click(page, "Actions for Find a hall");
        await choose(page, "Edit task");
        await editor(page);
      },
    },
    {
      name: "import, wrong",
      arrange: async (page) => {
        await click(page, "Import CSV");
        await page.getByLabel("CSV file").setInputFiles(csv("title,description\nHubs,Why\nalone\n,none\n"));
        await expect(page.getByRole("dialog").getByRole("alert")).toBeVisible();
      },
    },
    {
      name: "import, preview",
      arrange: async (page) => {
        await click(page, "Import CSV");
        await page
          .getByLabel("CSV file")
          .setInputFiles(csv(`title,description\n${"Open a hub,Near and warm\n".repeat(9)}`));
        await expect(page.getByRole("region", { name: "Preview" })).toBeVisible();
      },
    },
    { name: "timeline", path: "?view=timeline" },
    { name: "print view", path: "/print" },
  ],
  "team and resources": [
    { name: "team", path: "?tab=team" },
    { name: "team, a role", path: "?tab=team", arrange: (page) => click(page, /^Actions for (?!the)/) },
    {
      name: "team, inviting",
      path: "?tab=team",
      arrange: async (page) => {
        await click(page, "Invite Member");
        await page.getByRole("dialog").getByRole("button", { name: "Send Invitation" }).click();
        await expect(page.getByText("Please enter a valid email address")).toBeVisible();
      },
    },
    { name: "resources", path: "?tab=resources" },
    {
      name: "resources, uploading",
      path: "?tab=resources",
      arrange: async (page) => {
        await page
          .locator("input[type=file]")
          .setInputFiles([{ name: "page.html", mimeType: "text/html", buffer: Buffer.from("x") }, csv("a")]);
        await page.getByLabel("Title of list.csv").fill(" ");
        await page.getByRole("button", { name: "Upload", exact: true }).click();
      },
    },
    {
      name: "resources, a picture",
      path: "?tab=resources",
      arrange: async (page) => {
        await click(page, "Preview Hall");
        await expect(page.getByRole("dialog").getByRole("img")).toBeVisible();
      },
    },
  ],
};

const texts = {
  title: "Riverside: warm meals within a walk",
  description: "<p>A hot meal, every evening, <strong>within fifteen minutes</strong> of every door.</p>",
  start_date: "2026-01-05",
  estimated_end_date: "2028-12-31",
};

async function fullPlan(maria: Person, tom: Person) {
  const month = new Date().toISOString().slice(0, 7);
  const plan = await makePlan(maria, texts.title, {
    "Open four neighborhood hubs": [
      { title: "Sign the lease for Northgate", done: true, due: "2026-03-31", by: ["Maya Fischer"] },
      {
        title: "Find a hall",
        due: `${month}-15`,
        by: ["Maya Fischer", "Tom Okafor"],
        measure: "Two offers in writing",
        description: "<p>Ask the school, the parish and the council.</p><ol><li>Visit</li><li>Compare</li></ol>",
      },
      { title: "Train the first volunteers", due: "2020-02-29" },
    ],
    "Fresh produce, all year": [
      { title: "Agreement with a farm", due: `${month}-20`, done: true },
      { title: "Cold store", due: `${month}-20` },
    ],
    "A budget that holds": [],
  });
  await addMember(plan.id, tom, "manager");
  const { client } = maria;
  await client.from("plans").update(texts).eq("id", plan.id).throwOnError();
  const about = { description: "<p>Halls that are warm, near and open to everyone.</p>" };
  await client.from("priorities").update(about).eq("title", "Open four neighborhood hubs").throwOnError();
  await client
    .from("organizations")
    .insert({
      plan_id: plan.id,
      name: "Riverside Food Bank",
      ein: "12-3456789",
      mission: "No one in Riverside goes to bed hungry.",
      vision: "Good food is a walk away, for everyone.",
      values: "Dignity first. Waste nothing. Ask before helping.",
    })
    .throwOnError();
  await client
    .from("plan_members")
    .insert({ plan_id: plan.id, email: "board@riverside.example", role: "viewer" })
    .throwOnError();
  for (const [title, name, type] of [
    ["Hall", "hall_1.png", "image/png"],
    ["Budget 2027", "budget_1.txt", "text/plain"],
  ] as const) {
    const path = `${plan.id}/${name}`;
    await client.storage.from("plan_files").upload(path, pixel, { contentType: type });
    await client.from("plan_attachments").insert({ plan_id: plan.id, title, file_url: path }).throwOnError();
  }
  return plan.id;
}

async function examinePlan(page: Page, name: string) {
  // Content skipped by `content-visibility` keeps the previous theme's colours until it comes near the viewport.
  await page.addStyleTag({ content: "* { content-visibility: visible !important }" });
  await examine(page, name, {
    inLook: async ({ colorScheme, width }) => {
      if (!folder) return;
      await page.screenshot({
        path: `${folder}/${name.replace(/\W+/g, "-")}-${width}-${colorScheme}.png`,
        fullPage: !/ing|menu|scrolled|picture|wrong|role/.test(name),
      });
    },
  });
}

// Without animations, axe does not measure colours in transition.
test.use({ contextOptions: { reducedMotion: "reduce" } });

for (const [visit, screens] of Object.entries(visits)) {
  test(`${visit}: passes axe and fits the window`, async ({ person, signedIn }) => {
    // axe checks whole pages.
    test.setTimeout(300_000);
    const [maria, tom] = [await person(), await person()];
    const planId = await fullPlan(maria, tom);
    const page = await signedIn(maria);
    for (const { name, path = "", arrange } of screens) {
      await test.step(name, async () => {
        await page.setViewportSize({ width: 1280, height: 800 });
        await page.goto(`/plan/${planId}${path}`);
        await expect(page.getByRole("heading", { level: 1 })).toHaveText(texts.title);
        await expect(page.getByText("Riverside Food Bank").first()).toBeVisible();
        await arrange?.(page);
        await examinePlan(page, name);
      });
    }
  });
}

test("invitation and invalid link pass axe", async ({ person, signedIn }) => {
  test.slow();
  const [maria, tom] = [await person(), await person()];
  const plan = await makePlan(maria, texts.title);
  const { data } = await maria.client
    .from("plan_members")
    .insert({ plan_id: plan.id, email: tom.email, role: "manager" })
    .select("invite_token")
    .single()
    .throwOnError();
  const page = await signedIn(tom);
  await page.goto(`/invite?token=${data.invite_token}&plan=${plan.id}`);
  await expect(page.getByRole("heading", { name: "Plan Invitation" })).toBeVisible();
  await examinePlan(page, "invitation");
  await page.goto("/invite");
  await expect(page.getByRole("heading", { name: "Invitation Error" })).toBeVisible();
  await examinePlan(page, "invitation error");
});

test("presence, conflict and disconnect states pass axe", async ({ person, signedIn }) => {
  test.slow();
  const [maria, tom] = [await person(), await person()];
  const planId = await fullPlan(maria, tom);
  const page = await signedIn(maria);
  const sockets = new Set<import("@playwright/test").WebSocketRoute>();
  let broken = false;
  await page.routeWebSocket(/\/realtime\/v1\/websocket/, (socket) => {
    if (broken) return void socket.close();
    sockets.add(socket);
    socket.connectToServer();
  });
  await page.goto(`/plan/${planId}`);
  await (await signedIn(tom)).goto(`/plan/${planId}`);
  await expect(page.getByRole("list", { name: "Here now" }).first()).toContainText(tom.email);
  await examinePlan(page, "presence");
  await click(page, "Edit plan");
  await editor(page);
  await page.getByRole("dialog").getByLabel("Title").fill("Mine");
  await tom.client.from("plans").update({ title: "Theirs" }).eq("id", planId).throwOnError();
  await expect(page.getByRole("dialog").getByRole("alert")).toBeVisible();
  await examinePlan(page, "conflict, editing");
  await page.getByRole("button", { name: "Use their version" }).click();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  broken = true;
  for (const socket of sockets) await socket.close();
  await expect(page.getByText("Live updates are interrupted.")).toBeVisible();
  await examinePlan(page, "lost connection");
});
