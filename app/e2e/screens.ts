import { createHmac, randomUUID } from "node:crypto";
import type { Page } from "@playwright/test";
import { expect, makePlans, type Person } from "./fixtures";
import { makePlan, type SubscriptionRow, subscribe } from "./workspace";

/** A screen in one of its states. */
export interface Screen {
  name: string;
  /** The path; `prepare` may return it instead. */
  path: string;
  /** This state exists only on narrow screens. */
  phone?: true;
  /** The signed-in user; default: none. */
  as?: "person" | "administrator";
  /** Creates the data that the screen shows, once per visit; returns the path if it depends on the data. */
  prepare?: (person: Person) => Promise<string | undefined>;
  /** Brings the screen into its state and waits for it. */
  arrange: (page: Page) => Promise<void>;
}

const heading = (name: string) => (page: Page) =>
  expect(page.getByRole("heading", { name, exact: true }).first()).toBeVisible();

const press = async (page: Page, name: string | RegExp) => page.getByRole("button", { name }).first().click();

const plan = {
  title: "Warm meals",
  description:
    "<p>For <strong>every</strong> district, and averyveryverylongwordthatnobodycanbreakwithoutbeingtoldto</p>",
};

const onePlan = async (person: Person) => {
  await makePlans(person, plan);
  return undefined;
};

/** A plan with data, on the dashboard or on its own page. */
async function fullPlan(person: Person) {
  const { id } = await makePlan(person, "Food security for 500 families", {
    "Open four neighborhood hubs": [
      { title: "Sign the lease for St Mark's hall", done: true, due: "2026-03-02", by: ["Dana Demo"] },
      { title: "Fridge and shelving", done: true, measure: "Passed the food hygiene visit" },
      {
        title: "Find a hall in Eastfield",
        due: "2020-02-29",
        by: ["Maya", "Tom"],
        description: "<p>Ask the school.</p>",
      },
    ],
    "Fresh produce in every parcel": [{ title: "Agreement with Hill Farm", done: true }, { title: "A van of our own" }],
    "Courses that people ask for": [{ title: "Ask 100 families" }],
  });
  return id;
}

const fullDashboard = async (person: Person) => {
  await fullPlan(person);
  await makePlans(person, { title: "Reading mentors in every school" });
  return undefined;
};

const planPath = async (person: Person) => `/plan/${await fullPlan(person)}`;

const unfold = async (page: Page) => {
  await page.getByRole("button", { name: "Priorities of Food security for 500 families" }).click();
  await press(page, "View Tasks (3)");
  await expect(page.getByRole("checkbox", { name: "Find a hall in Eastfield" })).toBeVisible();
};

const planMenu = async (page: Page, item?: string) => {
  await page.getByRole("button", { name: "Actions for Warm meals" }).click();
  await expect(page.getByRole("menu")).toBeVisible();
  if (item) await page.getByRole("menuitem", { name: item }).click();
};

const operator = {
  name: "Riverside Community Trust",
  address: "12 Mill Lane\nEastfield EF1 2AB",
  email: "hello@riverside.example.org",
};

/** A page that names the operator, with this answer. */
const withOperator = (rows: object[]) => async (page: Page) => {
  await page.route("**/rest/v1/rpc/get_site_operator*", (route) => route.fulfill({ json: rows }));
  await page.reload();
  await expect(page.getByText(rows.length > 0 ? operator.email : "has not published a name")).toBeVisible();
};

/** A subscription in this state. */
const subscribed =
  (row: SubscriptionRow = {}) =>
  async (person: Person) => {
    await subscribe(person, row);
    return undefined;
  };

const firstRow = (page: Page, name: string) => page.getByRole("row", { name }).first();

const webhookSecret = "whsec_basaltbrowsertests0123456789";

/** Events of every status; the failed one has no user. */
async function events({ client }: Person) {
  await client.functions.invoke("set-webhook-secret", { body: { secret: webhookSecret } });
  const { BASALT_URL: url = "http://127.0.0.1:8000" } = process.env;
  const deliveries: [string, object][] = [
    ["product.created", { id: "prod_1", object: "product" }],
    [
      "customer.subscription.updated",
      {
        id: `sub_${randomUUID().slice(0, 8)}`,
        object: "subscription",
        customer: `cus_${randomUUID().slice(0, 8)}`,
        status: "active",
        items: { data: [{ id: "si_1", price: { id: "price_none" } }] },
      },
    ],
  ];
  for (const [type, object] of deliveries) {
    const created = Math.floor(Date.now() / 1000);
    const id = `evt_${randomUUID().replaceAll("-", "")}`;
    const body = JSON.stringify({ id, object: "event", type, created, livemode: false, data: { object } });
    const signature = createHmac("sha256", webhookSecret).update(`${created}.${body}`).digest("hex");
    await fetch(`${url}/functions/v1/stripe-webhook`, {
      method: "POST",
      body,
      headers: { "content-type": "application/json", "stripe-signature": `t=${created},v1=${signature}` },
    });
  }
  return undefined;
}

export const screens: Screen[] = [
  { name: "landing page", path: "/", arrange: heading("Strategic Planning Made Simple") },
  {
    name: "landing page, menu",
    path: "/",
    phone: true,
    arrange: async (page) => {
      await press(page, "Open menu");
      await expect(page.getByRole("button", { name: "Close menu" })).toBeVisible();
    },
  },
  {
    name: "landing page, canceled",
    path: "/?subscription=canceled",
    arrange: (page) => expect(page.getByText("You canceled the subscription process.")).toBeVisible(),
  },
  { name: "landing page, signed in", path: "/", as: "person", arrange: (page) => visible(page, "User menu") },
  { name: "pricing", path: "/pricing", arrange: (page) => visible(page, /^(Sign Up & )?Subscribe$/) },
  {
    name: "pricing, nothing for sale",
    path: "/pricing",
    arrange: async (page) => {
      await page.route("**/rest/v1/subscription_plans?*", (route) => route.fulfill({ json: [] }));
      await page.reload();
      await expect(page.getByText("No subscription plans available at the moment.")).toBeVisible();
    },
  },
  { name: "terms", path: "/terms", arrange: withOperator([operator]) },
  { name: "terms, operator not set", path: "/terms", arrange: withOperator([]) },
  { name: "privacy", path: "/privacy", arrange: withOperator([operator]) },
  {
    name: "privacy, operator not loaded",
    path: "/privacy",
    arrange: async (page) => {
      await page.route("**/rest/v1/rpc/get_site_operator*", (route) =>
        route.fulfill({ status: 400, json: { message: "No" } }),
      );
      await page.reload();
      await expect(page.getByText("could not be loaded")).toBeVisible();
    },
  },
  { name: "log in", path: "/login", arrange: heading("Welcome back") },
  {
    name: "log in, refused",
    path: "/login",
    arrange: async (page) => {
      await page.getByLabel("Email").fill("nobody@example.org");
      await page.getByLabel("Password").fill("wrong password");
      await press(page, "Log In");
      await expect(page.getByRole("alert")).toBeVisible();
    },
  },
  {
    name: "sign up, with its errors",
    path: "/register",
    arrange: async (page) => {
      await page.getByRole("button", { name: "Sign Up" }).click();
      await expect(page.getByText("You must agree to the terms and privacy policy")).toBeVisible();
    },
  },
  {
    name: "sign up, a plan waiting",
    path: "/pricing",
    arrange: async (page) => {
      await press(page, "Sign Up & Subscribe");
      await expect(page.getByText("Complete registration to continue with your selected plan")).toBeVisible();
    },
  },
  { name: "forgot password", path: "/forgot-password", arrange: heading("Forgot your password?") },
  {
    name: "forgot password, sent",
    path: "/forgot-password",
    arrange: async (page) => {
      await page.getByLabel("Email").fill("nobody@example.org");
      await page.getByRole("button", { name: "Send Reset Link" }).click();
      await expect(page.getByRole("heading", { name: "Check your email" })).toBeFocused();
    },
  },
  { name: "reset password, without a link", path: "/reset-password", arrange: heading("Reset your password") },
  // Needed between URLs that differ only in the fragment: the browser would not reload.
  { name: "not found", path: "/no/such/page", arrange: heading("404") },
  {
    name: "reset password, with its errors",
    path: "/reset-password#access_token=none&type=recovery",
    arrange: async (page) => {
      await page.getByRole("button", { name: "Reset Password" }).click();
      await expect(page.getByText("Password must be at least 6 characters").first()).toBeVisible();
    },
  },

  { name: "dashboard, empty", path: "/dashboard", as: "person", arrange: heading("No Strategic Plans Yet") },
  { name: "dashboard", path: "/dashboard", as: "person", prepare: onePlan, arrange: heading("Warm meals") },
  {
    name: "dashboard, in full swing",
    path: "/dashboard",
    as: "person",
    prepare: fullDashboard,
    arrange: unfold,
  },
  {
    name: "dashboard, loading",
    path: "/dashboard",
    as: "person",
    arrange: async (page) => {
      await page.route("**/rest/v1/plans?*", () => undefined);
      await page.reload();
      await expect(page.getByText("Loading plans...")).toBeAttached();
    },
  },
  {
    name: "dashboard, failed",
    path: "/dashboard",
    as: "person",
    arrange: async (page) => {
      await page.route("**/rest/v1/plans?*", (route) => route.fulfill({ status: 400, json: { message: "No" } }));
      await page.reload();
      await heading("Your plans could not be loaded")(page);
    },
  },
  {
    name: "dashboard, creating",
    path: "/dashboard",
    as: "person",
    arrange: async (page) => {
      await press(page, "Create Plan");
      await expect(page.getByRole("textbox", { name: "Description" })).toBeVisible();
      await page.getByRole("dialog").getByRole("button", { name: "Create Plan" }).click();
      await expect(page.getByText("Title must be at least 3 characters")).toBeVisible();
    },
  },
  {
    name: "dashboard, editing",
    path: "/dashboard",
    as: "person",
    prepare: onePlan,
    arrange: async (page) => {
      await planMenu(page, "Edit plan");
      await expect(page.getByRole("dialog", { name: "Edit Plan" })).toBeVisible();
      await expect(page.getByRole("textbox", { name: "Description" })).toBeVisible();
    },
  },
  {
    name: "dashboard, a plan's menu",
    path: "/dashboard",
    as: "person",
    prepare: onePlan,
    arrange: (page) => planMenu(page),
  },
  {
    name: "dashboard, deleting",
    path: "/dashboard",
    as: "person",
    prepare: onePlan,
    arrange: async (page) => {
      await planMenu(page, "Delete plan");
      await expect(page.getByRole("alertdialog", { name: "Delete Plan" })).toBeVisible();
    },
  },
  {
    name: "dashboard, discarding",
    path: "/dashboard",
    as: "person",
    arrange: async (page) => {
      await press(page, "Create Plan");
      await page.getByLabel("Title").fill("Half a thought");
      await page.keyboard.press("Escape");
      await expect(page.getByRole("alertdialog")).toBeVisible();
    },
  },
  {
    name: "dashboard, user menu",
    path: "/dashboard",
    as: "person",
    prepare: onePlan,
    arrange: async (page) => {
      await page.getByRole("button", { name: "User menu" }).click();
      await expect(page.getByRole("menu")).toBeVisible();
    },
  },
  {
    name: "dashboard, offline",
    path: "/dashboard",
    as: "person",
    prepare: onePlan,
    arrange: async (page) => {
      await heading("Warm meals")(page);
      await page.evaluate(() => {
        Object.defineProperty(navigator, "onLine", { value: false });
        window.dispatchEvent(new Event("offline"));
      });
      await expect(page.getByText("You are offline. Changes cannot be saved.")).toBeVisible();
    },
  },
  {
    name: "upgrade prompt",
    path: "/dashboard",
    as: "person",
    arrange: async (page) => {
      await page.addInitScript(() => sessionStorage.removeItem("basalt.prompt-dismissed"));
      await page.route("**/rest/v1/subscription_prompt?*", async (route) => {
        const response = await route.fetch();
        const rows = (await response.json()) as object[];
        await route.fulfill({ response, json: rows.map((row) => ({ ...row, delay_seconds: 1 })) });
      });
      await page.reload();
      await expect(page.getByRole("dialog", { name: "Upgrade Your Plan" })).toBeVisible();
    },
  },
  { name: "plan", path: "/plan", as: "person", prepare: planPath, arrange: heading("Food security for 500 families") },
  {
    name: "plan, team",
    path: "/plan",
    as: "person",
    prepare: async (person) => `/plan/${await fullPlan(person)}?tab=team`,
    arrange: heading("Food security for 500 families"),
  },
  {
    name: "plan, resources",
    path: "/plan",
    as: "person",
    prepare: async (person) => `/plan/${await fullPlan(person)}?tab=resources`,
    arrange: heading("Food security for 500 families"),
  },

  {
    name: "subscription, none",
    path: "/dashboard/subscription",
    as: "person",
    arrange: heading("No subscription yet"),
  },
  {
    name: "choose your plan",
    path: "/dashboard/subscription",
    as: "person",
    arrange: async (page) => {
      await press(page, "View Plans");
      await expect(page.getByRole("dialog").getByRole("button", { name: "Subscribe" }).first()).toBeVisible();
    },
  },
  ...(
    [
      ["active", {}, "Next billing date"],
      ["trialing", { status: "trialing" }, "Next billing date"],
      ["ending", { cancel_at_period_end: true }, "Cancels at period end"],
      ["past due", { status: "past_due" }, "Your last payment failed"],
      ["incomplete", { status: "incomplete" }, "Your payment is not complete"],
      ["canceled", { status: "canceled" }, "This subscription has ended."],
    ] as const
  ).map(([state, row, text]) => ({
    name: `subscription, ${state}`,
    path: "/dashboard/subscription",
    as: "person" as const,
    prepare: subscribed(row),
    arrange: (page: Page) => expect(page.getByRole("main")).toContainText(text),
  })),
  {
    name: "subscription, canceling",
    path: "/dashboard/subscription",
    as: "person",
    prepare: subscribed(),
    arrange: async (page) => {
      await press(page, "Cancel Subscription");
      await expect(page.getByRole("alertdialog")).toBeVisible();
    },
  },

  {
    name: "admin overview",
    path: "/admin",
    as: "administrator",
    arrange: (page) => expect(page.getByRole("img", { name: /^Monthly revenue/ })).toBeVisible(),
  },
  {
    name: "admin health",
    path: "/admin/health",
    as: "administrator",
    arrange: (page) => expect(page.getByText("plan_files")).toBeVisible(),
  },
  {
    name: "admin health, sidebar",
    path: "/admin/health",
    as: "administrator",
    arrange: async (page) => {
      await expect(page.getByText("plan_files")).toBeVisible();
      await page.getByRole("button", { name: "Toggle sidebar" }).click();
    },
  },
  {
    name: "e-mail integration, with its errors",
    path: "/admin/integrations/email",
    as: "administrator",
    arrange: async (page) => {
      await page.getByLabel("From Email").fill("nowhere");
      await page.getByRole("button", { name: "Save Settings" }).click();
      await expect(page.getByText("Must be a valid email address")).toBeVisible();
    },
  },
  {
    name: "e-mail templates",
    path: "/admin/integrations/email?tab=templates",
    as: "administrator",
    arrange: (page) => expect(page.getByLabel("Email Body Template")).toHaveValue(/inviteUrl/),
  },
  {
    name: "app settings",
    path: "/admin/settings",
    as: "administrator",
    arrange: (page) => expect(page.getByText("invite_email_template")).toBeVisible(),
  },
  {
    name: "logos",
    path: "/admin/settings?tab=logo",
    as: "administrator",
    arrange: (page) => expect(page.getByRole("button", { name: "Upload favicon logo" })).toBeEnabled(),
  },
  {
    name: "subscription prompt settings",
    path: "/admin/settings?tab=subscription-prompt",
    as: "administrator",
    arrange: (page) => expect(page.getByLabel("Delay (seconds)")).toBeVisible(),
  },
  {
    name: "operator settings",
    path: "/admin/settings?tab=operator",
    as: "administrator",
    arrange: (page) => expect(page.getByLabel("Postal Address")).toBeVisible(),
  },
  {
    name: "marketing content",
    path: "/admin/marketing",
    as: "administrator",
    arrange: (page) => expect(page.getByRole("figure", { name: "Preview" }).first()).toBeVisible(),
  },
  {
    name: "marketing content, of pricing",
    path: "/admin/marketing",
    as: "administrator",
    arrange: async (page) => {
      await page.getByLabel("Section").selectOption("Pricing");
      await expect(page.getByLabel("HTML Content")).toBeVisible();
    },
  },
  {
    name: "subscription plans",
    path: "/admin/subscription-plans",
    as: "administrator",
    arrange: (page) => expect(firstRow(page, "Starter")).toBeVisible(),
  },
  {
    name: "subscription plans, adding",
    path: "/admin/subscription-plans",
    as: "administrator",
    arrange: async (page) => {
      await press(page, "Add Plan");
      await page.getByRole("button", { name: "Save Plan" }).click();
      await expect(page.getByText("Name is required")).toBeVisible();
    },
  },
  {
    name: "subscription plans, deleting",
    path: "/admin/subscription-plans",
    as: "administrator",
    arrange: async (page) => {
      await firstRow(page, "Starter").getByRole("button", { name: "Delete" }).click();
      await expect(page.getByRole("alertdialog", { name: "Delete Subscription Plan" })).toBeVisible();
    },
  },
  {
    name: "webhooks",
    path: "/admin/webhooks",
    as: "administrator",
    prepare: events,
    arrange: (page) => expect(firstRow(page, "customer.subscription.updated")).toBeVisible(),
  },
  {
    name: "webhooks, details",
    path: "/admin/webhooks",
    as: "administrator",
    prepare: events,
    arrange: async (page) => {
      await firstRow(page, "customer.subscription.updated")
        .getByRole("button", { name: /^Details/ })
        .click();
      await expect(page.getByRole("dialog", { name: "Webhook Event Details" })).toBeVisible();
    },
  },
  {
    name: "webhooks, replaying",
    path: "/admin/webhooks",
    as: "administrator",
    prepare: events,
    arrange: async (page) => {
      await firstRow(page, "customer.subscription.updated")
        .getByRole("button", { name: /^Replay/ })
        .click();
      await expect(page.getByRole("alertdialog", { name: "Replay Webhook Event" })).toBeVisible();
    },
  },
  {
    name: "webhooks, instructions",
    path: "/admin/webhooks",
    as: "administrator",
    arrange: async (page) => {
      await press(page, "View Manual Setup Instructions");
      await expect(page.getByRole("dialog", { name: "Manual Setup Instructions" })).toBeVisible();
    },
  },
  {
    name: "users",
    path: "/admin/users",
    as: "administrator",
    arrange: (page) => expect(page.getByText(/^Showing \d+ of \d+ users$/)).toBeVisible(),
  },
  {
    name: "users, an account's menu",
    path: "/admin/users",
    as: "administrator",
    arrange: async (page) => {
      await page.getByLabel("Search").fill("maya@basalt.local");
      await page.getByRole("button", { name: "Actions for maya@basalt.local" }).click();
      await expect(page.getByRole("menu")).toBeVisible();
    },
  },
  {
    name: "users, disabling",
    path: "/admin/users",
    as: "administrator",
    arrange: async (page) => {
      await page.getByLabel("Search").fill("maya@basalt.local");
      await page.getByRole("button", { name: "Actions for maya@basalt.local" }).click();
      await page.getByRole("menuitem", { name: "Disable account" }).click();
      await expect(page.getByRole("alertdialog", { name: "Disable account" })).toBeVisible();
    },
  },
  {
    name: "audit log",
    path: "/admin/audit-log",
    as: "administrator",
    arrange: async (page) => {
      await expect(page.getByText(/^Showing \d+ of \d+ lines$/)).toBeVisible();
      await page
        .getByRole("button", { name: /^Details of line/ })
        .first()
        .click();
      await expect(page.locator("pre").first()).toBeVisible();
    },
  },
];

function visible(page: Page, name: string | RegExp) {
  return expect(page.getByRole("link", { name }).or(page.getByRole("button", { name })).first()).toBeVisible();
}

/** Screens grouped by user and place; one visit shows the screens of a group one after the other. */
export const visits = Map.groupBy(screens, ({ as, path }) => (as ? `${as}, ${path.replace(/[?#].*/, "")}` : "visitor"));
