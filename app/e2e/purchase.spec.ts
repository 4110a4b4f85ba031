import type { Page } from "@playwright/test";
import { faultsOf } from "./examine";
import { type Account, expect, looks, type Person, test } from "./fixtures";

// The purchase of a subscription, with basalt-stripe-double as payment provider. It has one clock: a test that advances
// the clock must not run while another has an open checkout.
test.describe.configure({ mode: "default" });

const double = process.env.BASALT_STRIPE_DOUBLE_URL ?? "http://127.0.0.1:12111";

const plan = (page: Page, name: string) => page.getByRole("listitem", { name, exact: true });

/** Enters a card and pays. */
async function pay(page: Page, number = "4242 4242 4242 4242") {
  await page.getByLabel("Card number").fill(number);
  await page.getByLabel(/^Expiry/).fill("12 / 40");
  await page.getByLabel("Security code").fill("123");
  await page.getByLabel("Name on card").fill("Maria Sanchez");
  await page.getByRole("button", { name: "Pay $19.00" }).click();
}

/** Buys Starter from the subscription page and returns there. */
async function buy(page: Page, number?: string) {
  await page.goto("/dashboard/subscription");
  await page.getByRole("button", { name: "View Plans" }).first().click();
  await plan(page, "Starter").getByRole("button", { name: "Subscribe" }).click();
  await pay(page, number);
  await expect(page).toHaveURL("/dashboard");
  await page.goto("/dashboard/subscription");
  await expect(page.getByText("Active", { exact: true })).toBeVisible();
}

/** The user's subscription on the server. */
async function subscriptionOf({ client, id }: Person) {
  const { data } = await client.rpc("get_user_subscription", { user_id: id }).throwOnError();
  const first = data[0];
  if (!first) throw new Error("There is no subscription.");
  return first;
}

/** Requests the status of an account's subscription without a browser. */
async function subscriptionStatus({ request }: Page, { email, password }: Account) {
  const { anonKey } = (await (await request.get("/app-config.json")).json()) as { anonKey: string };
  const signIn = { headers: { apikey: anonKey }, data: { email, password } };
  const response = await request.post("/auth/v1/token?grant_type=password", signIn);
  const session = (await response.json()) as { access_token: string; user: { id: string } };
  const headers = { apikey: anonKey, Authorization: `Bearer ${session.access_token}` };
  return async () => {
    const rows = await request.post("/rest/v1/rpc/get_user_subscription", {
      headers,
      data: { user_id: session.user.id },
    });
    return ((await rows.json()) as { status: string }[])[0]?.status;
  };
}

/** Advances the double's clock to the end of the paid period. */
async function endPeriod(page: Page, person: Person) {
  const { subscription_id } = await subscriptionOf(person);
  const response = await page.request.post(`${double}/_control/clock`, { data: { to_period_end_of: subscription_id } });
  expect(response.ok(), await response.text()).toBe(true);
}

/** Presses Refresh Data until the page shows `text`. */
async function refreshUntil(page: Page, text: string) {
  await expect(async () => {
    await page.getByRole("button", { name: "Refresh Data" }).click();
    await expect(page.getByText(text, { exact: true })).toBeVisible({ timeout: 1_000 });
  }).toPass();
}

test("visitor signs up, is declined, pays and gets the plan", async ({ page, newAccount }) => {
  await page.goto("/pricing");
  await plan(page, "Starter").getByRole("button", { name: "Sign Up & Subscribe" }).click();
  await expect(page).toHaveURL("/register");
  await expect(page.getByText("Complete registration to continue with your selected plan")).toBeVisible();
  await page.getByLabel("Organization Name").fill(newAccount.organization);
  await page.getByLabel("Email").fill(newAccount.email);
  await page.getByLabel("Password").fill(newAccount.password);
  await page.getByLabel("I agree to the terms and privacy policy").check();
  await page.getByRole("button", { name: "Sign Up" }).click();

  await expect(page.getByRole("heading", { name: "Subscribe to Starter" })).toBeVisible();
  await expect(page.getByText(newAccount.email)).toBeVisible();
  await pay(page, "4000 0000 0000 0002");
  await expect(page.getByRole("alert")).toHaveText("Your card was declined.");
  await expect(page.getByLabel("Name on card")).toHaveValue("Maria Sanchez");

  const known = await subscriptionStatus(page, newAccount);
  expect(await known(), "before the payment").toBeUndefined();
  await pay(page);
  await page.waitForURL("/dashboard**");
  // Measures the server's time only; performance.spec.ts covers rendering.
  await expect.poll(known, { timeout: 2_000, intervals: [50] }).toBe("active");
  await page.getByRole("button", { name: "User menu" }).click();
  await page.getByRole("menuitem", { name: "Subscription" }).click();
  await expect(page.getByText("Active", { exact: true })).toBeVisible();
  await expect(page.getByText("Starter", { exact: true })).toBeVisible();

  await page.goto("/pricing");
  await expect(plan(page, "Starter").getByRole("button", { name: "Current Plan" })).toBeDisabled();
});

test("cancelled checkout returns to the prices", async ({ person, signedIn }) => {
  const page = await signedIn(await person());
  await page.goto("/pricing");
  await plan(page, "Starter").getByRole("button", { name: "Subscribe" }).click();
  await page.getByRole("link", { name: "Back" }).click();
  await expect(page.getByText("You canceled the subscription process.")).toBeVisible();
  await expect(page).toHaveURL("/pricing");
});

test("subscription is canceled, reactivated and ends", async ({ person, signedIn }) => {
  test.slow();
  const maria = await person();
  const page = await signedIn(maria);
  await buy(page);
  await expect(page.getByText("Next billing date:")).toBeVisible();

  await page.getByRole("button", { name: "Cancel Subscription" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Cancel Subscription" }).click();
  await expect(page.getByText("Cancels at period end")).toBeVisible();
  await expect(page.getByText("Your subscription will end on")).toBeVisible();
  await page.getByRole("button", { name: "Reactivate Subscription" }).click();
  await expect(page.getByText("Next billing date:")).toBeVisible();
  expect((await subscriptionOf(maria)).cancel_at_period_end).toBe(false);

  // Stripe's own pages set a date instead of the flag; the app must show the same.
  await page.getByRole("button", { name: "Billing Settings" }).click();
  await page.getByRole("link", { name: "Cancel plan" }).click();
  await page.getByRole("button", { name: "Cancel plan" }).click();
  await expect(page.getByText("It will not renew.")).toBeVisible();
  await page.getByRole("link", { name: "Return to the site" }).click();
  await refreshUntil(page, "Cancels at period end");
  await page.getByRole("button", { name: "Reactivate Subscription" }).click();
  await expect(page.getByText("Next billing date:")).toBeVisible();

  await page.getByRole("button", { name: "Cancel Subscription" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Cancel Subscription" }).click();
  await expect(page.getByText("Cancels at period end")).toBeVisible();
  await endPeriod(page, maria);
  await refreshUntil(page, "Canceled");
  await expect(page.getByRole("button", { name: "Cancel Subscription" })).toBeDisabled();
  await page.goto("/pricing");
  await expect(plan(page, "Starter").getByRole("button", { name: "Subscribe" })).toBeEnabled();
});

test("failed renewal is past due until the card changes", async ({ person, signedIn }) => {
  test.slow();
  const maria = await person();
  const page = await signedIn(maria);
  await buy(page, "4000 0000 0000 0341");
  await endPeriod(page, maria);
  await refreshUntil(page, "Past due");
  await page.getByRole("button", { name: "Billing Settings" }).click();
  await page.getByRole("link", { name: "Change card" }).click();
  await page.getByLabel("Card number").fill("4242 4242 4242 4242");
  await page.getByLabel(/^Expiry/).fill("12 / 40");
  await page.getByLabel("Security code").fill("123");
  await page.getByRole("button", { name: "Save card" }).click();
  await expect(page.getByText("Visa ending in 4242")).toBeVisible();
  await page.getByRole("link", { name: "Return to the site" }).click();
  await refreshUntil(page, "Active");
});

test("plan change keeps one subscription", async ({ person, signedIn }) => {
  const maria = await person();
  const page = await signedIn(maria);
  await buy(page);
  const before = await subscriptionOf(maria);
  await page.getByRole("button", { name: "View Plans" }).click();
  await expect(plan(page, "Starter").getByRole("button", { name: "Current Plan" })).toBeDisabled();
  await plan(page, "Growth").getByRole("button", { name: "Subscribe" }).click();
  await expect(page.getByRole("heading", { name: "Confirm your new plan" })).toBeVisible();
  await page.getByRole("button", { name: "Confirm" }).click();
  await page.waitForURL("/dashboard**");
  await page.goto("/dashboard/subscription");
  await refreshUntil(page, "Growth");
  expect((await subscriptionOf(maria)).subscription_id).toBe(before.subscription_id);
});

test("payment pages pass axe and fit a phone", async ({ person, signedIn }) => {
  test.slow();
  const page = await signedIn(await person());
  await page.emulateMedia({ reducedMotion: "reduce" });
  const examine = async (what: string) => {
    for (const look of looks) {
      const { colorScheme, width } = { ...look, width: look.width < 1280 ? 360 : look.width };
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      expect.soft(await faultsOf(page), `${what}, ${colorScheme}, ${width} px`).toEqual([]);
      const excess = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      expect.soft(excess, `${what}, ${width} px: pixels beyond the edge`).toBeLessThanOrEqual(0);
    }
  };
  await page.goto("/pricing");
  await plan(page, "Starter").getByRole("button", { name: "Subscribe" }).click();
  await expect(page.getByRole("heading", { name: "Subscribe to Starter" })).toBeVisible();
  await page.getByText("Test cards").click();
  await examine("checkout");
  await pay(page, "4000 0000 0000 0002");
  await expect(page.getByRole("alert")).toBeVisible();
  await examine("checkout, declined");
  await pay(page, "4000 0027 6000 3184");
  await expect(page.getByRole("heading", { name: "Confirm this payment" })).toBeVisible();
  await examine("confirmation");
  await page.getByRole("button", { name: "Confirm payment" }).click();
  await page.waitForURL("/dashboard**");
  await page.goto("/dashboard/subscription");
  await page.getByRole("button", { name: "Billing Settings" }).click();
  await expect(page.getByRole("link", { name: "Change card" })).toBeVisible();
  await examine("portal");
  await page.getByRole("link", { name: "Change card" }).click();
  await page.waitForURL(/\/card$/);
  await examine("portal, card");
});
