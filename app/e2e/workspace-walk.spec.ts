import { writeFile } from "node:fs/promises";
import { devices } from "@playwright/test";
import { expect, test } from "./fixtures";
import { Mailbox } from "./mailbox";
import { expectToast } from "./workspace";

test("create, invite, accept on a phone, complete and print", async ({
  baseURL,
  browser,
  newAccount,
  person,
  request,
  signedIn,
}) => {
  test.slow();
  const started = Date.now();
  const steps: string[] = [];
  const step = (name: string) => steps.push(`${name} ${((Date.now() - started) / 1000).toFixed(1)} s`);
  const maria = await person();
  const desk = await signedIn(maria);
  await desk.goto("/dashboard");
  await desk.getByRole("button", { name: "Create Plan" }).click();
  const dialog = desk.getByRole("dialog");
  await dialog.getByLabel("Title").fill("Warm meals");
  await dialog.getByRole("button", { name: "Create Plan" }).click();
  await desk.getByRole("button", { name: "Add Priority" }).click();
  await dialog.getByLabel("Title").fill("Open four hubs");
  await dialog.getByRole("button", { name: "Create Priority" }).click();
  await desk.getByRole("button", { name: "Add Task to Open four hubs" }).click();
  await dialog.getByLabel("Focus Area").fill("Find a hall");
  await dialog.getByRole("button", { name: "Create Task" }).click();
  await expect(desk.getByRole("checkbox", { name: "Find a hall" })).toBeVisible();
  step("plan with a task");
  await desk.getByRole("tab", { name: "Team" }).click();
  await desk.getByRole("button", { name: "Invite Member" }).click();
  await dialog.getByLabel("Email").fill(newAccount.email);
  await dialog.getByLabel("Role").selectOption("manager");
  await dialog.getByRole("button", { name: "Send Invitation" }).click();
  await expectToast(desk, "Invitation sent");
  step("invited");

  const { link } = await new Mailbox(request).latest(newAccount.email);
  const { defaultBrowserType: _, ...pixel } = devices["Pixel 7"];
  const context = await browser.newContext({ ...pixel, ...(baseURL && { baseURL }) });
  await context.addInitScript(() => sessionStorage.setItem("basalt.prompt-dismissed", "1"));
  const phone = await context.newPage();
  await phone.goto(link);
  await phone.getByRole("button", { name: "Accept Invitation" }).tap();
  await phone.getByRole("tab", { name: "Sign Up" }).tap();
  await phone.getByLabel("Organization Name").fill(newAccount.organization);
  await phone.getByLabel("Password", { exact: true }).fill(newAccount.password);
  await phone.getByLabel("I agree to the terms and privacy policy").tap();
  await phone.getByRole("button", { name: "Sign Up" }).tap();
  step("signed up on the phone");
  // The mail's link proves her address, so she is on the plan at once.
  await expect(phone.getByText("You: manager").first()).toBeVisible();
  step("on the plan");
  // The owner's list is updated through her presence, without an event about members.
  await expect(desk.getByRole("row").filter({ hasText: newAccount.email })).toContainText("Active");
  await desk.getByRole("tab", { name: "Priorities" }).click();
  await phone.getByRole("checkbox", { name: "Find a hall" }).tap();
  await expect(desk.getByRole("checkbox", { name: "Find a hall" })).toBeChecked();
  await expect(desk.getByRole("region", { name: "Progress" })).toContainText("100%");
  step("task completed, seen at the desk");
  await context.close();

  await desk.getByRole("button", { name: "More actions for this plan" }).click();
  await desk.getByRole("menuitem", { name: "Print view" }).click();
  await expect(desk.getByText("1 of 1 tasks completed")).toBeVisible();
  const pdf = await desk.pdf({ format: "A4", printBackground: true });
  expect(pdf.subarray(0, 5).toString()).toBe("%PDF-");
  expect(pdf.toString("latin1").match(/\/Type\s*\/Page\b/g)).toHaveLength(1);
  if (process.env.SCREENSHOTS) await writeFile(`${process.env.SCREENSHOTS}/plan.pdf`, pdf);
  step("printed");
  test.info().annotations.push({ type: "walk", description: steps.join("; ") });
});
