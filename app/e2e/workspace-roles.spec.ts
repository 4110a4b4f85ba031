import type { Page } from "@playwright/test";
import { expect, type Person, test } from "./fixtures";
import { addMember, makePlan, server } from "./workspace";

// The controls that each role sees in each part of a plan. The policies that enforce the rights are tested in policies/tests.

type Role = "owner" | "manager" | "viewer";

const roles: Role[] = ["owner", "manager", "viewer"];

async function planOfAll(person: () => Promise<Person>) {
  const people = { owner: await person(), manager: await person(), viewer: await person() };
  const plan = await makePlan(people.owner, "Warm meals", { Hubs: [{ title: "Find a hall", due: "2020-02-29" }] });
  await addMember(plan.id, people.manager, "manager");
  await addMember(plan.id, people.viewer, "viewer");
  const { client } = people.owner;
  await client.from("organizations").insert({ plan_id: plan.id, name: "Riverside Trust" }).throwOnError();
  await client
    .from("plan_members")
    .insert({ plan_id: plan.id, email: "pending@example.org", role: "viewer" })
    .throwOnError();
  const path = `${plan.id}/letter_1.txt`;
  await client.storage.from("plan_files").upload(path, Buffer.from("Dear all"), { contentType: "text/plain" });
  await client.from("plan_attachments").insert({ plan_id: plan.id, title: "Letter", file_url: path }).throwOnError();
  return { people, planId: plan.id };
}

const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name });

async function expectButtons(page: Page, there: boolean, names: (string | RegExp)[]) {
  for (const name of names) {
    if (there) await expect(button(page, name).first()).toBeVisible();
    else await expect(button(page, name)).toHaveCount(0);
  }
}

test("each role sees the right controls", async ({ person, signedIn }) => {
  test.slow();
  const { people, planId } = await planOfAll(person);
  for (const role of roles)
    await test.step(role, async () => {
      const page = await signedIn(people[role]);
      const edits = role !== "viewer";
      await page.goto(`/plan/${planId}`);
      await expect(page.getByText(`You: ${role}`)).toBeVisible();

      // Header, organization, priorities, tasks.
      await expectButtons(page, edits, [
        "Edit plan",
        "Rename the plan",
        "Edit Org",
        "Add Priority",
        "Import CSV",
        "Rename priority Hubs",
        "Actions for priority Hubs",
        "Add Task to Hubs",
        "Rename Find a hall",
        "Actions for Find a hall",
      ]);
      const check = page.getByRole("checkbox", { name: "Find a hall" });
      await expect(check).toBeEnabled({ enabled: edits });
      // What cannot be pressed looks so.
      await expect(check).toHaveCSS("opacity", edits ? "1" : "0.55");
      await expect(page.getByRole("region", { name: "Organization" })).toContainText("Riverside Trust");
      await button(page, "More actions for this plan").click();
      const everyone = ["Print view", "Report…", "Export to CSV", "Activity"];
      const items = {
        owner: [...everyone, "Deleted items", "Delete plan"],
        manager: [...everyone, "Deleted items"],
        viewer: everyone,
      };
      await expect(page.getByRole("menuitem")).toHaveText(items[role]);
      await page.keyboard.press("Escape");

      await page.getByRole("button", { name: "Timeline" }).click();
      await expect(page.getByRole("region", { name: "Timeline" })).toContainText("1 overdue");

      await page.getByRole("tab", { name: "Team" }).click();
      await expectButtons(page, edits, ["Invite Member"]);
      await expect(page.getByRole("columnheader")).toHaveText(
        role === "owner" ? ["Email", "Role", "Status", "Actions"] : ["Email", "Role", "Status"],
      );
      await expect(page.getByRole("row").filter({ hasText: "pending@example.org" })).toHaveCount(edits ? 1 : 0);
      await expect(page.getByRole("rowheader")).toHaveCount(edits ? 4 : 3);

      await page.getByRole("tab", { name: "Resources" }).click();
      await expect(button(page, "Download Letter")).toBeVisible();
      await expectButtons(page, edits, ["Choose files", /^Upload$/, "Delete Letter"]);

      await page.goto(`/plan/${planId}/print`);
      await expect(page.getByRole("heading", { level: 1 })).toHaveText("Warm meals");
    });
});

test("non-member has no access by URL or API", async ({ person, signedIn }) => {
  const { planId } = await planOfAll(person);
  const stranger = await person();
  const page = await signedIn(stranger);
  for (const path of ["", "?tab=team", "?tab=resources", "?view=timeline", "/print"]) {
    await page.goto(`/plan/${planId}${path}`);
    await expect(page.getByRole("heading", { level: 1, name: "Plan not found" })).toBeVisible();
    await expect(page.getByText(/Warm meals|Riverside|Letter|Find a hall/)).toHaveCount(0);
  }
  await page.goto("/plan/none");
  await expect(page.getByRole("heading", { level: 1, name: "Plan not found" })).toBeVisible();
  await page.getByRole("link", { name: "Back to your plans" }).click();
  await expect(page).toHaveURL("/dashboard");
  for (const table of ["priorities", "tasks", "organizations", "plan_attachments", "plan_members"] as const) {
    expect((await stranger.client.from(table).select("id").eq("plan_id", planId).throwOnError()).data).toEqual([]);
  }
});

test("server rejects a viewer's writes", async ({ person, signedIn }) => {
  test.slow();
  const { people, planId } = await planOfAll(person);
  const page = await signedIn(people.viewer);
  // Changes the role in the response, so that the page shows an owner's controls.
  await page.route("**/rest/v1/plan_members?*", async (route) => {
    if (route.request().method() !== "GET" || !route.request().url().includes("select=role")) return route.continue();
    await route.fulfill({ json: { role: "owner" } });
  });
  await page.goto(`/plan/${planId}`);
  await expect(page.getByText("You: owner")).toBeVisible();
  const toast = (text: string | RegExp) =>
    expect(page.locator("[data-sonner-toast]").filter({ hasText: text }).first()).toBeVisible();

  await page.getByRole("checkbox", { name: "Find a hall" }).click();
  await toast(/Error updating task status.*This task no longer exists, or you may not change it\./);
  await button(page, "Add Priority").click();
  await page.getByRole("dialog").getByLabel("Title").fill("Mine");
  await page.getByRole("dialog").getByRole("button", { name: "Create Priority" }).click();
  await toast(/Error creating priority.*row-level security/);
  await expect(page.getByRole("dialog").getByLabel("Title")).toHaveValue("Mine");
  await page.keyboard.press("Escape");
  await button(page, "Discard").click();
  await button(page, "More actions for this plan").click();
  await page.getByRole("menuitem", { name: "Delete plan" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Delete Plan" }).click();
  await toast(/Error deleting plan.*This plan no longer exists, or you may not delete it\./);
  expect((await server().from("tasks").select("is_completed").eq("plan_id", planId)).data).toEqual([
    { is_completed: false },
  ]);
});
