import { writeFile } from "node:fs/promises";
import { type BrowserContext, devices } from "@playwright/test";
import { expect, test } from "./fixtures";
import { Mailbox } from "./mailbox";
import { expectToast } from "./workspace";

/** Counts what people do in these contexts, from the browser's own events: presses, and the fields they type into. */
async function countWork(...contexts: BrowserContext[]) {
  const presses: string[] = [];
  const fields = new Set<string>();
  for (const context of contexts) {
    await context.exposeFunction("countPress", (name: string) => presses.push(name));
    await context.exposeFunction("countField", (name: string) => fields.add(`${contexts.indexOf(context)} ${name}`));
    await context.addInitScript(() => {
      const count = window as unknown as Record<"countPress" | "countField", (name: string) => void>;
      const textField = "input:not([type=checkbox], [type=radio]), textarea, [contenteditable]";
      // Moving the focus to a field belongs to filling it.
      const isTextField = (target: EventTarget | null) => target instanceof Element && target.closest(textField);
      const nameOf = (target: EventTarget | null) => {
        const control = target instanceof Element && (target.closest("a, button, label, [role]") ?? target);
        if (!control) return "";
        const label = "labels" in control && (control as HTMLInputElement).labels?.[0];
        return control.getAttribute("aria-label") || (label || control).textContent.slice(0, 40);
      };
      addEventListener(
        "pointerdown",
        (event) => isTextField(event.target) || count.countPress(nameOf(event.target)),
        true,
      );
      addEventListener("keydown", (event) => isTextField(event.target) || count.countPress(event.key), true);
      addEventListener(
        "input",
        ({ target }) => {
          if (isTextField(target) && target instanceof HTMLInputElement)
            count.countField(`${location.pathname} ${target.labels?.[0]?.textContent ?? target.name}`);
        },
        true,
      );
    });
  }
  return { presses, fields };
}

test("sign up, create, invite, accept on a phone, complete and print", async ({
  baseURL,
  browser,
  newAccount,
  page: desk,
  request,
}) => {
  test.slow();
  const started = Date.now();
  const steps: string[] = [];
  const step = (name: string) => steps.push(`${name} ${((Date.now() - started) / 1000).toFixed(1)} s`);
  const { defaultBrowserType: _, ...pixel } = devices["Pixel 7"];
  const context = await browser.newContext({ ...pixel, ...(baseURL && { baseURL }) });
  await context.addInitScript(() => sessionStorage.setItem("basalt.prompt-dismissed", "1"));
  const invited = `second-${newAccount.email}`;
  const { presses, fields } = await countWork(desk.context(), context);

  await desk.goto("/");
  await desk.getByRole("link", { name: "Start Planning Free" }).first().click();
  await desk.getByLabel("Organization Name").pressSequentially(newAccount.organization);
  await desk.getByLabel("Email").pressSequentially(newAccount.email);
  await desk.getByLabel("Password", { exact: true }).pressSequentially(newAccount.password);
  await desk.getByLabel("I agree to the terms and privacy policy").click();
  await desk.getByRole("button", { name: "Sign Up" }).click();
  step("signed up at the desk");
  await desk.getByRole("button", { name: "Create Plan" }).click();
  const dialog = desk.getByRole("dialog");
  await dialog.getByLabel("Title").pressSequentially("Warm meals");
  await dialog.getByLabel("A new program").click();
  await dialog.getByRole("button", { name: "Create Plan" }).click();
  const task = "Visit two organizations that do something similar";
  await expect(desk.getByRole("checkbox", { name: task })).toBeVisible();
  step("plan with tasks");
  await desk.getByRole("tab", { name: "Team" }).click();
  await desk.getByRole("button", { name: "Invite Member" }).click();
  await dialog.getByLabel("Email").pressSequentially(invited);
  // By keyboard: the browser's own list of options is outside of the page.
  await dialog.getByLabel("Role").press("m");
  await expect(dialog.getByLabel("Role")).toHaveValue("manager");
  await dialog.getByRole("button", { name: "Send Invitation" }).click();
  await expectToast(desk, "Invitation sent");
  step("invited");

  const { link } = await new Mailbox(request).latest(invited);
  const phone = await context.newPage();
  presses.push("the mail's link");
  await phone.goto(link);
  await phone.getByRole("button", { name: "Accept Invitation" }).tap();
  await phone.getByLabel("Organization Name").pressSequentially(newAccount.organization);
  await phone.getByLabel("Password", { exact: true }).pressSequentially(newAccount.password);
  await phone.getByLabel("I agree to the terms and privacy policy").tap();
  await phone.getByRole("button", { name: "Sign Up" }).tap();
  step("signed up on the phone");
  // The mail's link proves her address, so she is on the plan at once.
  await expect(phone.getByText("You: manager").first()).toBeVisible();
  step("on the plan");
  // The owner's list is updated through her presence, without an event about members.
  await expect(desk.getByRole("row").filter({ hasText: invited })).toContainText("Active");
  await desk.getByRole("tab", { name: "Priorities" }).click();
  await phone.getByRole("checkbox", { name: task }).tap();
  await expect(desk.getByRole("checkbox", { name: task })).toBeChecked();
  await expect(desk.getByRole("region", { name: "Progress" })).toContainText("14%");
  step("task completed, seen at the desk");
  const counted = `${presses.length} presses (${presses.join("; ")}), ${fields.size} fields (${[...fields].join("; ")})`;
  test.info().annotations.push({ type: "counted", description: counted });
  // The aim of both: at most 16 presses and 7 fields.
  expect({ presses: presses.length, fields: fields.size }, counted).toEqual({ presses: 16, fields: 7 });
  await context.close();

  await desk.getByRole("button", { name: "More actions for this plan" }).click();
  await desk.getByRole("menuitem", { name: "Print view" }).click();
  await expect(desk.getByText("1 of 7 tasks completed")).toBeVisible();
  const pdf = await desk.pdf({ format: "A4", printBackground: true });
  expect(pdf.subarray(0, 5).toString()).toBe("%PDF-");
  expect(pdf.toString("latin1").match(/\/Type\s*\/Page\b/g)).toHaveLength(1);
  if (process.env.SCREENSHOTS) await writeFile(`${process.env.SCREENSHOTS}/plan.pdf`, pdf);
  step("printed");
  test.info().annotations.push({ type: "walk", description: steps.join("; ") });
});
