import { examine, faultsOf, settled } from "./examine";
import { expect, looks, type Person, pixel, test } from "./fixtures";
import { addMember, makePlan } from "./workspace";

/** Gives a person a name, and perhaps a picture of this server. */
async function introduce(person: Person, name: string, withPicture = false) {
  const data: { name: string; avatar_url?: string } = { name };
  if (withPicture) {
    const avatars = person.client.storage.from("avatars");
    const path = `${person.id}/face.png`;
    await avatars.upload(path, pixel, { contentType: "image/png" });
    data.avatar_url = avatars.getPublicUrl(path).data.publicUrl;
  }
  const { error } = await person.client.auth.updateUser({ data });
  if (error) throw error;
}

test("team shows names and pictures of this server only", async ({ person, signedIn }) => {
  const [maria, tom, eve] = [await person(), await person(), await person()];
  await introduce(maria, "Maria Lopez", true);
  await introduce(tom, "Tom\u0007 Okafor");
  await eve.client.auth.updateUser({ data: { name: "Eve", avatar_url: "https://tracker.example/eve.png" } });
  const plan = await makePlan(maria, "Warm meals");
  await addMember(plan.id, tom, "manager");
  await addMember(plan.id, eve, "viewer");
  const page = await signedIn(maria);
  const foreign: string[] = [];
  page.on("request", (request) => request.url().includes("tracker.example") && foreign.push(request.url()));
  await page.goto(`/plan/${plan.id}?tab=team`);
  const table = page.getByRole("table", { name: "Team members" });
  await expect(table.getByRole("row", { name: /Maria Lopez/ })).toContainText(maria.email);
  await expect(table.getByRole("row", { name: /Tom Okafor/ })).toContainText(tom.email);
  await expect(table.getByRole("row", { name: /Eve/ })).toContainText(eve.email);
  await expect(table.locator("img")).toHaveCount(1);
  await examine(page, "team with names");
  expect(foreign).toEqual([]);
});

test("members are suggested as responsible, stored as ids, and find their tasks", async ({ person, signedIn }) => {
  const [maria, tom] = [await person(), await person()];
  await introduce(tom, "Tom Okafor");
  const plan = await makePlan(maria, "Warm meals", { Hubs: [{ title: "Find a hall", due: "2020-01-31" }] });
  await addMember(plan.id, tom, "viewer");
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  await page.getByRole("button", { name: "Actions for Find a hall" }).click();
  await page.getByRole("menuitem", { name: "Edit task" }).click();
  const dialog = page.getByRole("dialog", { name: "Edit Task" });
  const field = dialog.getByLabel("Responsible Party");
  await field.pressSequentially("The board, ok");
  await expect(dialog.getByRole("option", { name: "Tom Okafor" })).toBeVisible();
  expect(await faultsOf(page)).toEqual([]);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect(field).toHaveValue("The board, Tom Okafor, ");
  await dialog.getByRole("button", { name: "Update Task" }).click();
  await expect(page.getByText("The board, Tom Okafor")).toBeVisible();
  const { data } = await maria.client
    .from("tasks")
    .select("responsible_party, responsible_ids")
    .single()
    .throwOnError();
  expect(data).toEqual({ responsible_party: ["The board", "Tom Okafor"], responsible_ids: [tom.id] });

  const his = await signedIn(tom);
  await his.goto("/dashboard");
  await his.getByRole("link", { name: /^My tasks 1/ }).click();
  await expect(his).toHaveURL("/dashboard?tasks=mine");
  await expect(his.getByRole("list", { name: "My tasks" })).toContainText("Due Jan 31, 2020 (overdue)");
  await his.getByRole("link", { name: "Due this week" }).click();
  await expect(his.getByText("Nothing is due in the next seven days.")).toBeVisible();
  await his.getByRole("link", { name: "Overdue" }).click();
  await his.getByRole("link", { name: /Find a hall/ }).click();
  await expect(his.getByRole("dialog", { name: "Find a hall" })).toBeVisible();

  // A member who leaves the team loses the task's id, not the name.
  await maria.client.from("plan_members").delete().eq("user_id", tom.id).throwOnError();
  const left = await maria.client.from("tasks").select("responsible_party, responsible_ids").single().throwOnError();
  expect(left.data).toEqual({ responsible_party: ["The board", "Tom Okafor"], responsible_ids: [] });
});

for (const { colorScheme, width } of [...looks, { colorScheme: "light", width: 320 } as const]) {
  test(`people look right at ${width} px, ${colorScheme}`, async ({ person, signedIn }) => {
    const [maria, tom] = [await person(), await person()];
    await introduce(maria, "Maria Lopez");
    await introduce(tom, "Tom Okafor of the Riverside Community Trust");
    const plan = await makePlan(maria, "Warm meals", {
      Hubs: [{ title: "Find a hall in Eastfield", due: "2020-01-31" }, { title: "Sign the lease" }],
    });
    await addMember(plan.id, tom, "manager");
    await maria.client
      .from("tasks")
      .update({ responsible_ids: [maria.id] })
      .eq("plan_id", plan.id)
      .throwOnError();
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
    await page.goto("/dashboard");
    await expect(page.getByRole("link", { name: /^My tasks 2/ })).toBeVisible();
    await shoot("dashboard");
    await page.goto("/dashboard?tasks=mine");
    await expect(page.getByRole("link", { name: /Sign the lease/ })).toBeVisible();
    await shoot("my-tasks");
    await page.goto(`/plan/${plan.id}?tab=team`);
    await expect(page.getByText("Tom Okafor of the Riverside")).toBeVisible();
    await shoot("team");
  });
}
