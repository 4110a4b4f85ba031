import { expect, type Person, test } from "./fixtures";
import { Mailbox } from "./mailbox";
import { expectToast, makePlan, server } from "./workspace";

async function invite(owner: Person, email: string, role = "viewer") {
  const plan = await makePlan(owner, "Warm meals");
  const { data } = await owner.client
    .from("plan_members")
    .insert({ plan_id: plan.id, email, role })
    .select("id, invite_token")
    .single()
    .throwOnError();
  return { planId: plan.id, memberId: data.id, path: `/invite?token=${data.invite_token}&plan=${plan.id}` };
}

/** Confirms the address, as following a link in a mail does. */
async function proveAddress(person: Person) {
  await server().auth.admin.updateUserById(person.id, { email_confirm: true });
}

test("incomplete link shows an error", async ({ page }) => {
  for (const path of ["/invite", "/invite?token=x", "/invite?plan=x"]) {
    await page.goto(path);
    await expect(page.getByRole("heading", { name: "Invitation Error" }), path).toBeVisible();
    await expect(
      page.getByText("Invalid invitation link. The link appears to be missing required information."),
      path,
    ).toBeVisible();
  }
  await page.getByRole("link", { name: "Go to Home" }).click();
  await expect(page).toHaveURL("/");
});

test("invalid invitations are rejected", async ({ page, person }) => {
  const maria = await person();
  const { path, memberId } = await invite(maria, "late@example.org");
  const none = "00000000-0000-4000-8000-000000000000";
  for (const link of ["/invite?token=x&plan=y", `/invite?token=${none}&plan=${none}`]) {
    await page.goto(link);
    await expect(page.getByText("Could not find the specified plan. It may have been deleted.")).toBeVisible();
  }
  await server().from("plan_members").update({ created_at: "2020-01-01" }).eq("id", memberId).throwOnError();
  await page.goto(path);
  await expect(page.getByRole("heading", { name: "Invitation Error" })).toBeVisible();
  await expect(page.getByText("is older than 14 days")).toBeVisible();
});

test("visitor accepts, logs in and becomes a member", async ({ page, person }) => {
  const [maria, tom] = [await person(), await person()];
  const { path, planId } = await invite(maria, tom.email, "manager");
  await proveAddress(tom);
  await page.goto(path);
  await expect(page.getByRole("heading", { name: "Plan Invitation" })).toBeVisible();
  await expect(page.getByText("Warm meals")).toBeVisible();
  await expect(page.getByText(tom.email)).toBeVisible();
  await expect(page.getByText("manager", { exact: true })).toBeVisible();
  await page.getByRole("button", { name: "Accept Invitation" }).click();
  await expect(page).toHaveURL("/login");
  await expect(page.getByLabel("Email")).toHaveValue(tom.email);
  await page.getByLabel("Password", { exact: true }).fill(tom.password);
  await page.getByRole("button", { name: "Log In" }).click();
  await expectToast(page, /Invitation accepted.*You are now a member of this strategic plan\./);
  await expect(page).toHaveURL(`/plan/${planId}`);
  await expect(page.getByText("You: manager")).toBeVisible();

  // The same link a second time.
  await page.goto(path);
  await page.getByRole("link", { name: "Open the plan" }).click();
  await expect(page).toHaveURL(`/plan/${planId}`);
});

test("declined invitation stays pending", async ({ person, signedIn }) => {
  const [maria, tom] = [await person(), await person()];
  const { path } = await invite(maria, tom.email);
  const page = await signedIn(tom);
  await page.goto(path);
  await page.getByRole("button", { name: "Decline" }).click();
  await expect(page).toHaveURL("/");
  await page.goto(path);
  await expect(page.getByRole("button", { name: "Accept Invitation" })).toBeVisible();
});

test("other address sees an error and can sign out", async ({ person, signedIn }) => {
  const [maria, tom] = [await person(), await person()];
  const { path } = await invite(maria, "tom@elsewhere.example");
  const page = await signedIn(tom);
  await page.goto(path);
  await expect(page.getByText("This invitation is for another e-mail address")).toBeVisible();
  await expect(page.getByRole("button", { name: "Accept Invitation" })).toHaveCount(0);
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByRole("button", { name: "Accept Invitation" })).toBeVisible();
});

test("sign-up for an invitation requires confirming the mail", async ({ page, request, newAccount, person }) => {
  test.slow();
  const maria = await person();
  const { path, planId } = await invite(maria, newAccount.email);
  await page.goto(path);
  await page.getByRole("button", { name: "Accept Invitation" }).click();
  await page.getByRole("tab", { name: "Sign Up" }).click();
  await page.getByLabel("Organization Name").fill(newAccount.organization);
  await expect(page.getByLabel("Email")).toHaveValue(newAccount.email);
  await page.getByLabel("Password", { exact: true }).fill(newAccount.password);
  await page.getByLabel("I agree to the terms and privacy policy").check();
  await page.getByRole("button", { name: "Sign Up" }).click();
  await expect(page.getByText("Confirm your e-mail address first")).toBeVisible();
  await page.getByRole("button", { name: "Send me the link" }).click();
  await expect(page.getByText("Check your email")).toBeVisible();
  const { link } = await new Mailbox(request).latest(newAccount.email);
  await page.goto(link);
  await expectToast(page, "Invitation accepted");
  await expect(page).toHaveURL(`/plan/${planId}`);
});

test("new person on a phone: three presses and two fields from the mail to the plan", async ({
  page,
  request,
  newAccount,
  person,
}) => {
  test.slow();
  const maria = await person();
  const { planId, path } = await invite(maria, newAccount.email, "manager");
  const body = { email: newAccount.email, planId, inviteUrl: new URL(path, process.env.BASALT_URL).href };
  const mailed = await maria.client.functions.invoke("invite-member", { body });
  expect(mailed.error).toBeNull();
  const { text, link } = await new Mailbox(request).latest(newAccount.email);
  expect(text).toContain(`${maria.organization} invited you.`);
  expect(text).toContain("expires in 14 days");
  // Another token than the one of "Copy link".
  expect(link).toContain("/invite?token=");
  expect(link).not.toContain(path);

  await page.setViewportSize({ width: 375, height: 740 });
  await page.goto(link);
  let presses = 0;
  const press = async (role: "button" | "checkbox", name: string | RegExp) => {
    presses += 1;
    await page.getByRole(role, { name }).click();
  };
  await expect(page.getByText("in 14 days")).toBeVisible();
  await press("button", "Accept Invitation");
  await expect(page).toHaveURL("/register");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(
    `You are invited to Warm meals by ${maria.organization}`,
  );
  await expect(page.getByLabel("Email")).toHaveValue(newAccount.email);
  let fields = 0;
  for (const [label, value] of [
    ["Organization Name", newAccount.organization],
    ["Password", newAccount.password],
  ] as const) {
    fields += 1;
    await page.getByLabel(label, { exact: true }).fill(value);
  }
  await press("checkbox", /I agree to the terms/);
  await press("button", "Sign Up");
  await expectToast(page, "Invitation accepted");
  await expect(page).toHaveURL(`/plan/${planId}`);
  await expect(page.getByText("You: manager")).toBeVisible();
  expect({ presses, fields }).toEqual({ presses: 3, fields: 2 });

  // Used: the link opens the plan for its owner, and nothing for others.
  await page.goto(link);
  await expect(page.getByRole("link", { name: "Open the plan" })).toBeVisible();
});

test("expired invitation is sent again", async ({ request, person, signedIn, page: visitors }) => {
  const maria = await person();
  await proveAddress(maria);
  const address = `late-${maria.email}`;
  const { planId, memberId, path } = await invite(maria, address);
  await server().from("plan_members").update({ created_at: "2026-01-01" }).eq("id", memberId).throwOnError();
  const page = await signedIn(maria);
  await page.goto(`/plan/${planId}?tab=team`);
  const row = page.getByRole("row").filter({ hasText: address });
  await expect(row).toContainText("Expired");
  await expect(row.getByRole("button", { name: /^Copy link/ })).toHaveCount(0);
  await row.getByRole("button", { name: /^Send again/ }).click();
  await expectToast(page, /Invitation sent/);
  await expect(row).toContainText("Pending Acceptance");
  await expect(row.getByRole("button", { name: /^Copy link/ })).toBeVisible();
  const { link } = await new Mailbox(request).latest(address);
  await visitors.goto(link);
  await expect(visitors.getByText("Warm meals")).toBeVisible();
  // The link from before the renewal stays dead.
  await visitors.goto(path);
  await expect(visitors.getByRole("heading", { name: "Invitation Error" })).toBeVisible();
});
