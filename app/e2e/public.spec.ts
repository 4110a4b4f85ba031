import type { Page } from "@playwright/test";
import { expect, test } from "./fixtures";
import { type SubscriptionRow, subscribe } from "./workspace";

// Other tests read the same rows, so these tests change the response instead of the row.
type Row = Record<string, unknown>;

async function changeResponse(page: Page, table: string, change: (rows: Row[]) => Row[]) {
  await page.route(`**/rest/v1/${table}?*`, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: change(await response.json()) });
  });
}

const inSection = (section: string, change: Row) => (rows: Row[]) =>
  rows.map((row) => (row.section === section ? { ...row, ...change } : row));

test.describe("marketing texts", () => {
  test("appear on the page as text", async ({ page }) => {
    await changeResponse(
      page,
      "marketing_content",
      inSection("hero", {
        title: "<script>alert(1)</script>Plans that hold",
        description: "One <b>calm</b> place",
        primarybuttontext: "Go",
      }),
    );
    await page.goto("/");
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("<script>alert(1)</script>Plans that hold");
    await expect(page.getByText("One <b>calm</b> place")).toBeVisible();
    await expect(page.getByRole("link", { name: "Go" })).toHaveAttribute("href", "/register");
  });

  test("can hide a section", async ({ page }) => {
    let hidden = "";
    await changeResponse(page, "marketing_content", (rows) => inSection(hidden, { visible: false })(rows));
    for (const [section, heading] of [
      ["hero", "Strategic Planning Made Simple"],
      ["features", "Powerful Features for Strategic Planning"],
      ["nonprofits", "Built for Non-Profit Organizations"],
      ["pricing", "Choose Your Plan"],
    ] as const) {
      await test.step(section, async () => {
        hidden = section;
        await page.goto("/");
        await expect(page.getByRole("navigation", { name: "Legal" })).toBeVisible();
        await expect.soft(page.getByRole("heading", { name: heading }), section).toHaveCount(0);
        // The prices are loaded on scrolling.
        await expect.soft(page.locator("#pricing"), section).toHaveCount(section === "pricing" ? 0 : 1);
      });
    }
  });

  test("hidden footer still shows the copyright", async ({ page }) => {
    await changeResponse(page, "marketing_content", inSection("footer", { visible: false }));
    await page.goto("/");
    await expect(page.locator("footer")).toHaveText(/^© \d{4} Basalt\. All rights reserved\.$/);
  });

  test.describe("in HTML", () => {
    // Chromium reports inline handlers in the inert document where the sanitiser removes them.
    test.use({ allowedComplaint: /inline event handler violates/ });
    test("is laid out without running scripts", async ({ page }) => {
      await changeResponse(
        page,
        "marketing_content",
        inSection("pricing", {
          htmlcontent:
            '<h3>Fair prices</h3><p>For {{userEmail}}!</p>{{pricingCards}}<img src=x onerror="document.title=1"><script>document.title=2</script>',
        }),
      );
      await changeResponse(page, "subscription_plans", () => [plan("Starter", 19)]);
      await page.goto("/pricing");
      await expect(page.getByRole("heading", { name: "Fair prices" })).toBeVisible();
      await expect(page.getByText("For !")).toBeVisible();
      await expect(page.getByRole("button", { name: "Sign Up & Subscribe" })).toBeVisible();
      await expect(page).toHaveTitle("Pricing · Basalt");
    });
  });

  test("unreachable server shows the default texts", async ({ page }) => {
    await page.route("**/rest/v1/marketing_content?*", (route) => route.fulfill({ status: 404, json: {} }));
    await page.goto("/");
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Strategic Planning Made Simple");
  });
});

const plan = (name: string, price: number, more: Row = {}) => ({
  id: name,
  name,
  price,
  description: null,
  interval: "month",
  features: ["One"],
  stripe_price_id: `price_${name}`,
  active: true,
  ...more,
});

test.describe("prices", () => {
  test("are in whole dollars per interval", async ({ page }) => {
    await changeResponse(page, "subscription_plans", () => [
      plan("Small", 19),
      plan("Large", 1490, { interval: "year" }),
    ]);
    await page.goto("/pricing");
    await expect(page.getByRole("listitem", { name: "Small" })).toContainText("$19/month");
    await expect(page.getByRole("listitem", { name: "Large" })).toContainText("$1,490/year");
  });

  test("none for sale", async ({ page }) => {
    await changeResponse(page, "subscription_plans", () => []);
    await page.goto("/pricing");
    await expect(page.getByText("No subscription plans available at the moment.")).toBeVisible();
    await page.getByRole("main").getByRole("link", { name: "Get Started" }).click();
    await expect(page).toHaveURL("/register");
  });

  test("fifty plans with long and RTL names fit a phone", async ({ page }) => {
    await page.setViewportSize({ width: 320, height: 640 });
    const many = Array.from({ length: 48 }, (_, index) => plan(`Plan ${index}`, index));
    await changeResponse(page, "subscription_plans", () => [
      plan("x".repeat(500), 1),
      plan("خطة للجمعيات الخيرية", 2),
      ...many,
    ]);
    await page.goto("/pricing");
    await expect(page.getByRole("button", { name: "Sign Up & Subscribe" })).toHaveCount(50);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  });

  test("sign-up continues to checkout or the dashboard", async ({ page, newAccount }) => {
    await page.route("**/functions/v1/create-checkout-session", (route) =>
      route.fulfill({ status: 400, json: { error: "Unknown or inactive plan" } }),
    );
    await page.goto("/register");
    await page.evaluate(() => sessionStorage.setItem("selectedPlanId", "price_gone"));
    await page.reload();
    await page.getByLabel("Organization Name").fill(newAccount.organization);
    await page.getByLabel("Email").fill(newAccount.email);
    await page.getByLabel("Password").fill(newAccount.password);
    await page.getByLabel("I agree to the terms and privacy policy").check();
    await page.getByRole("button", { name: "Sign Up" }).click();
    await expect(page.getByText("Checkout Error")).toBeVisible();
    await expect(page.getByText("Unknown or inactive plan")).toBeVisible();
    await expect(page).toHaveURL("/dashboard");
    expect(await page.evaluate(() => sessionStorage.getItem("selectedPlanId"))).toBeNull();
  });

  test("failed checkout shows an alert", async ({ person, signedIn }) => {
    const page = await signedIn(await person());
    await page.route("**/functions/v1/create-checkout-session", (route) =>
      route.fulfill({ status: 400, json: { error: "Unknown or inactive plan" } }),
    );
    await page.goto("/dashboard/subscription");
    await page.getByRole("button", { name: "View Plans" }).click();
    const subscribe = page.getByRole("dialog").getByRole("button", { name: "Subscribe" }).first();
    const shown = page.waitForEvent("dialog");
    const pressed = subscribe.click();
    const alert = await shown;
    expect([alert.type(), alert.message()]).toEqual(["alert", "Unknown or inactive plan"]);
    await alert.accept();
    await pressed;
    await expect(subscribe).toBeEnabled();
  });

  test("return from checkout without payment", async ({ page }) => {
    for (const path of ["/", "/pricing"]) {
      await page.goto(`${path}?subscription=canceled`);
      await expect(page.getByText("You canceled the subscription process."), path).toBeVisible();
      await expect(page).toHaveURL(path);
    }
  });
});

test.describe("subscription page", () => {
  const states: { name: string; row: SubscriptionRow; sees: string[]; lacks: string[] }[] = [
    {
      name: "active",
      row: {},
      sees: ["Active", "Next billing date: April 30, 2027"],
      lacks: ["Cancels at period end"],
    },
    { name: "trialing", row: { status: "trialing" }, sees: ["Trial", "Next billing date:"], lacks: [] },
    {
      name: "ending",
      row: { cancel_at_period_end: true },
      sees: ["Cancels at period end", "Your subscription will end on April 30, 2027"],
      lacks: ["Next billing date"],
    },
    { name: "past due", row: { status: "past_due" }, sees: ["Past due", "Your last payment failed"], lacks: [] },
    { name: "incomplete", row: { status: "incomplete" }, sees: ["Your payment is not complete"], lacks: [] },
    { name: "canceled", row: { status: "canceled" }, sees: ["This subscription has ended."], lacks: ["Next billing"] },
  ];

  test("shows each state", async ({ person, signedIn }) => {
    test.slow();
    const maria = await person();
    const page = await signedIn(maria);
    const main = page.getByRole("main");
    const billing = main.getByRole("button", { name: "Billing Settings" });
    const cancel = main.getByRole("button", { name: "Cancel Subscription" });
    const reactivate = main.getByRole("button", { name: "Reactivate Subscription" });
    for (const { name, row, sees, lacks } of states) {
      await test.step(name, async () => {
        await subscribe(maria, row);
        await page.goto("/dashboard/subscription");
        await expect(main).toContainText("Standard Plan");
        for (const text of sees) await expect.soft(main, name).toContainText(text);
        for (const text of lacks) await expect.soft(main, name).not.toContainText(text);
        if (name === "incomplete") {
          await expect(billing).toBeDisabled();
          await expect(cancel).toHaveCount(0);
          await expect(reactivate).toHaveCount(0);
        } else if (name === "ending") {
          await expect(cancel).toHaveCount(0);
          await expect(reactivate).toBeEnabled();
        } else if (name === "canceled") await expect(cancel).toBeDisabled();
        else await expect(cancel).toBeEnabled();
        await main.getByRole("button", { name: "Refresh Data" }).click();
        await expect(page.getByText("Subscription Refreshed")).toBeVisible();
      });
    }
    await main.getByRole("link", { name: "Back to plans" }).click();
    await expect(page).toHaveURL("/dashboard");
  });

  test("rejected cancellation shows the reason", async ({ person, signedIn }) => {
    const maria = await person();
    await subscribe(maria);
    const page = await signedIn(maria);
    await page.route("**/functions/v1/cancel-subscription", (route) =>
      route.fulfill({ status: 409, json: { error: "This subscription has already ended." } }),
    );
    await page.goto("/dashboard/subscription");
    await page.getByRole("button", { name: "Cancel Subscription" }).click();
    const question = page.getByRole("alertdialog", { name: "Cancel Subscription" });
    await expect(question).toContainText("You keep access until April 30, 2027.");
    await question.getByRole("button", { name: "Cancel Subscription" }).click();
    await expect(page.getByText("Failed to cancel subscription")).toBeVisible();
    await expect(page.getByText("This subscription has already ended.")).toBeVisible();
    await expect(question).toBeVisible();
  });
});

test.describe("subscription prompt", () => {
  test.use({ upgradePrompt: true });

  test("appears once after its delay, not on excluded pages", async ({ person, signedIn }) => {
    const page = await signedIn(await person());
    await changeResponse(page, "subscription_prompt", (rows) => rows.map((row) => ({ ...row, delay_seconds: 1 })));
    await page.goto("/dashboard/subscription");
    await expect(page.getByRole("heading", { name: "No subscription yet" })).toBeVisible();
    await page.goto("/dashboard");
    const prompt = page.getByRole("dialog", { name: "Upgrade Your Plan" });
    await expect(prompt).toBeVisible();
    await expect(prompt).toContainText("Unlimited strategic plans");
    await prompt.getByRole("button", { name: "Maybe Later" }).click();
    await expect(prompt).toBeHidden();
  });

  test("administrators see no subscription prompt", async ({ administrator, signedIn }) => {
    const page = await signedIn(await administrator());
    await changeResponse(page, "subscription_prompt", (rows) => rows.map((row) => ({ ...row, delay_seconds: 1 })));
    await page.goto("/dashboard");
    await expect(page.getByRole("heading", { name: "No Strategic Plans Yet" })).toBeVisible();
    await page.getByRole("button", { name: "User menu" }).click();
    await expect(page.getByRole("menuitem", { name: "Admin" })).toBeVisible();
    await expect(page.getByRole("dialog")).toHaveCount(0);
  });
});

test.describe("operator of the site", () => {
  const answer = (page: Page, rows: Row[]) =>
    page.route("**/rest/v1/rpc/get_site_operator*", (route) => route.fulfill({ json: rows }));

  const operatorOf = (page: Page) =>
    page.locator("section").filter({ has: page.getByRole("heading", { name: "Who runs this site" }) });

  test("is named on the terms and privacy pages", async ({ page }) => {
    const name = `The ${"averyverylongname".repeat(6)} Trust`;
    await answer(page, [{ name, address: "1 High Street\nEastfield", email: "hello@example.org" }]);
    await page.setViewportSize({ width: 320, height: 640 });
    for (const path of ["/terms", "/privacy"]) {
      await page.goto(path);
      const section = operatorOf(page);
      await expect(section).toContainText(`This site is run by ${name}.`);
      await expect(section).toContainText("1 High Street\nEastfield");
      await expect(section.getByRole("link")).toHaveAttribute("href", "mailto:hello@example.org");
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
    }
  });

  test("is not invented where it is not set", async ({ page }) => {
    await answer(page, []);
    for (const path of ["/terms", "/privacy"]) {
      await page.goto(path);
      const section = operatorOf(page);
      await expect(section).toContainText("has not published a name or an address here yet");
      await expect(section.getByRole("link")).toHaveCount(0);
    }
  });

  test("shows the parts that are set", async ({ page }) => {
    await answer(page, [{ name: "River Trust", address: null, email: null }]);
    await page.goto("/terms");
    const section = operatorOf(page);
    await expect(section).toContainText("This site is run by River Trust.");
    await expect(section).toContainText("An address has not been published here yet.");
    await page.unrouteAll();
    await answer(page, [{ name: null, address: null, email: "hello@example.org" }]);
    await page.reload();
    await expect(section).toContainText("has not published a name. You can reach the operator here:");
    await expect(section.getByRole("link", { name: "hello@example.org" })).toBeVisible();
  });

  test("can be loaded again after a failure", async ({ page }) => {
    await page.route("**/rest/v1/rpc/get_site_operator*", (route) =>
      route.fulfill({ status: 400, json: { message: "No" } }),
    );
    await page.goto("/privacy");
    await expect(page.getByRole("alert")).toContainText("could not be loaded");
    await expect(page.getByRole("heading", { name: "What we store" })).toBeVisible();
    await page.unrouteAll();
    await answer(page, [{ name: "River Trust", address: null, email: null }]);
    await page.getByRole("button", { name: "Try again" }).click();
    await expect(page.getByText("This site is run by River Trust.")).toBeVisible();
  });
});

test("each page has its own title and description", async ({ page }) => {
  for (const [path, title] of [
    ["/", "Basalt · Strategic Planning Made Simple"],
    ["/pricing", "Pricing · Basalt"],
    ["/terms", "Terms of service · Basalt"],
    ["/privacy", "Privacy policy · Basalt"],
    ["/login", "Welcome back · Basalt"],
    ["/forgot-password", "Forgot your password? · Basalt"],
    ["/no/such/page", "Page not found · Basalt"],
  ] as const) {
    await page.goto(path);
    await expect.soft(page, path).toHaveTitle(title);
    await expect.soft(page.locator('meta[name="description"]'), path).toHaveAttribute("content", /\w{3,}/);
  }
});

test("slow first load shows header and skeleton", async ({ page }) => {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route(/\/assets\/.*\.js$/, async (route) => {
    await held;
    await route.continue();
  });
  const logo = page.waitForRequest(/\/rest\/v1\/brand_assets\?/);
  await page.goto("/", { waitUntil: "commit" });
  await expect(page.locator("[data-first-paint]")).toBeVisible();
  await expect(page.getByRole("status")).toHaveText("Loading...");
  release();
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await expect(page.locator("[data-first-paint]")).toHaveCount(0);
  const query = Object.fromEntries(new URL((await logo).url()).searchParams);
  expect(query).toMatchObject({
    asset_type: "eq.logo",
    asset_size: expect.stringMatching(/^eq\.(regular|small|favicon)$/),
  });
});
