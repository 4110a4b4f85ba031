import { randomUUID } from "node:crypto";
import type { Page, Route } from "@playwright/test";
import { type Account, expect, type Person, test } from "./fixtures";
import texts from "./texts.json" with { type: "json" };
import { server } from "./workspace";

// `texts.json` lists what the specification wants to be read, scene by scene; here each scene is brought about and its
// texts are looked for. Left out is "An error occurred during checkout.": it stands in for a failure without any words,
// and each failure there has some.

// What the scenes' refused requests make the browser say.
test.use({ allowedComplaint: /the server responded with a status of 5\d\d/ });

type Scene = keyof typeof texts;

interface Given {
  /** A visitor's page. */
  visitor: Page;
  person: () => Promise<Person>;
  administrator: () => Promise<Person>;
  signedIn: (person: Person) => Promise<Page>;
  newAccount: Account;
}

/** Brings the scene about, and gives the page that shows it. */
type Act = (given: Given) => Promise<Page>;

const refuse =
  (status = 400, json: object = { message: "No" }) =>
  (route: Route) =>
    route.fulfill({ status, json });
/** Nothing comes back while the test looks. */
const silence = () => undefined;
const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name }).first();

const visit =
  (path: string, then: (page: Page) => Promise<unknown> = async () => undefined): Act =>
  async ({ visitor }) => {
    await visitor.goto(path);
    await then(visitor);
    return visitor;
  };

/** Scrolls to the landing page's prices, which are fetched by then only. */
const toPrices = (page: Page) => page.locator("#pricing").scrollIntoViewIfNeeded();

/** Logs in while the server answers like this. */
const logIn = (answer?: (route: Route) => unknown) =>
  visit("/login", async (page) => {
    if (answer) await page.route("**/auth/v1/token?*", answer);
    await page.getByLabel("Email").fill("maria@example.org");
    await page.getByLabel("Password").fill("correct horse");
    await button(page, "Log In").click();
  });

async function fillSignUp(page: Page, { organization, email, password }: Account) {
  await page.getByLabel("Organization Name").fill(organization);
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByLabel("I agree to the terms and privacy policy").check();
  await button(page, "Sign Up").click();
}

const signUp =
  (prepare: (page: Page, given: Given) => Promise<unknown> = async () => undefined): Act =>
  async (given) => {
    const { visitor, newAccount } = given;
    await visitor.goto("/register");
    await prepare(visitor, given);
    await fillSignUp(visitor, newAccount);
    return visitor;
  };

const withPlan = (answer: (route: Route) => unknown) =>
  signUp(async (page) => {
    await page.route("**/functions/v1/create-checkout-session", answer);
    await page.evaluate(() => sessionStorage.setItem("selectedPlanId", "price_basalt_starter_monthly"));
    await page.reload();
  });

/** The subscription page, of a person with a subscription. */
const subscription =
  (row: object, then: (page: Page) => Promise<unknown> = async () => undefined): Act =>
  async ({ person, signedIn }) => {
    const maria = await person();
    const word = maria.id.replaceAll("-", "");
    await server()
      .from("user_subscriptions")
      .insert({
        user_id: maria.id,
        stripe_subscription_id: `sub_${word}`,
        stripe_customer_id: `cus_${word}`,
        stripe_price_id: "price_basalt_starter_monthly",
        status: "active",
        current_period_end: "2027-04-30T12:00:00Z",
        state_as_of: new Date().toISOString(),
        ...row,
      })
      .throwOnError();
    const page = await signedIn(maria);
    await page.goto("/dashboard/subscription");
    await expect(button(page, "Refresh Data")).toBeEnabled();
    await then(page);
    return page;
  };

const cancel = async (page: Page) => {
  await button(page, "Cancel Subscription").click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Cancel Subscription" }).click();
};

/** A page of the admin area. `before` sets up answers. */
const admin =
  (
    path: string,
    then: (page: Page) => Promise<unknown> = async () => undefined,
    before: (page: Page, maria: Person) => Promise<unknown> = async () => undefined,
  ): Act =>
  async ({ administrator, signedIn }) => {
    const maria = await administrator();
    const page = await signedIn(maria);
    await before(page, maria);
    await page.goto(path);
    await then(page);
    return page;
  };

const answer = (pattern: string, reply: (route: Route) => unknown) => (page: Page) => page.route(pattern, reply);

/** The settings' own answers, so that no other test's settings are in the way. */
const setting = (value: object | null, save: (route: Route) => unknown) => (page: Page) =>
  page.route("**/rest/v1/app_settings*", (route) =>
    route.request().method() === "GET"
      ? route.fulfill({ json: value ? [{ value, updated_at: "2026-11-22T10:00:00Z" }] : [] })
      : save(route),
  );
const mailKey = { apiKey: "••••••••WXYZ", fromEmail: "plans@example.org", fromName: "Riverside" };
const words = { subject: "Join {{planTitle}}", body: "<p>{{inviteUrl}}</p>" };
const saved = (route: Route) => route.fulfill({ json: { key: "saved" } });

const saveMail = async (page: Page) => {
  await page.getByLabel("From Name").fill("Riverside Trust");
  await button(page, "Save Settings").click();
};
const saveTemplate = async (page: Page) => {
  await page.getByLabel("Subject Template").fill("Come to {{planTitle}}");
  await button(page, "Save Template").click();
};
const sendTest = async (page: Page) => {
  await page.getByLabel("Message").fill("A test");
  await button(page, "Send Test Email").click();
};

const event = (id: string, status: string) => ({
  id,
  source: "stripe",
  event_type: "invoice.paid",
  status,
  payload: { id, type: "invoice.paid", data: { object: { object: "invoice", subscription: "sub_1" } } },
  error_message: status === "failed" ? "No user found" : null,
  created_at: "2026-11-22T10:00:00Z",
  processed_at: status === "processed" ? "2026-11-22T10:00:01Z" : null,
});
const threeEvents = answer("**/rest/v1/rpc/get_webhook_events", (route) =>
  route.fulfill({ json: [event("evt_1", "failed"), event("evt_2", "processed"), event("evt_3", "pending")] }),
);
/** Replays the failed event while the server answers like this. */
const replay = (reply: (route: Route) => unknown) =>
  admin(
    "/admin/webhooks",
    async (page) => {
      await button(page, "Replay evt_1").click();
      await button(page, "Replay Event").click();
    },
    async (page) => {
      await threeEvents(page);
      await page.route("**/functions/v1/stripe-webhook", (route) =>
        route.request().method() === "OPTIONS" ? route.fallback() : reply(route),
      );
    },
  );
const secret = (text: string, reply?: (route: Route) => unknown) =>
  admin("/admin/webhooks", async (page) => {
    if (reply) await page.route("**/functions/v1/set-webhook-secret", reply);
    await page.getByPlaceholder("Enter your Stripe webhook secret").fill(text);
    await button(page, "Save Webhook Secret Temporarily").click();
  });

const plansPath = "/admin/subscription-plans";
const onePlan = {
  id: randomUUID(),
  name: "Starter",
  description: null,
  price: 19,
  interval: "month",
  stripe_price_id: "price_basalt_starter_monthly",
  features: [],
  active: true,
  created_at: "2026-11-22T10:00:00Z",
  updated_at: "2026-11-22T10:00:00Z",
};
/** The list of plans holds one; what is written is answered like this. */
const onePlanFor = (write: (route: Route) => unknown) =>
  answer("**/rest/v1/subscription_plans*", (route) =>
    route.request().method() === "GET" ? route.fulfill({ json: [onePlan] }) : write(route),
  );
const written = (route: Route) =>
  route.request().method() === "POST"
    ? route.fulfill({ status: 201, body: "" })
    : route.fulfill({ json: { id: onePlan.id } });

const addPlan = async (page: Page) => {
  await button(page, "Add Plan").click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Plan Name").fill("New");
  await dialog.getByLabel("Price", { exact: true }).fill("1");
  await dialog.getByLabel("Stripe Price ID").fill("price_new");
  await dialog.getByRole("button", { name: "Save Plan" }).click();
};
const editPlan = async (page: Page) => {
  await button(page, /^Edit/).click();
  await page.getByRole("dialog").getByLabel("Plan Name").fill("Other");
  await button(page, "Update Plan").click();
};
const deletePlan = async (page: Page) => {
  await button(page, /^Delete/).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Delete Plan" }).click();
};

const acts: Record<Scene, Act> = {
  "landing page": visit("/", toPrices),
  "landing page, canceled": visit("/?subscription=canceled"),
  "landing page, nothing for sale": async ({ visitor }) => {
    await visitor.route("**/rest/v1/subscription_plans?*", (route) => route.fulfill({ json: [] }));
    await visitor.goto("/");
    await toPrices(visitor);
    return visitor;
  },
  "landing page, subscribed": subscription({}, async (page) => {
    await page.goto("/");
    await toPrices(page);
  }),
  "user menu": admin("/dashboard", (page) => button(page, "User menu").click()),
  "log in": visit("/login"),
  "log in, empty": visit("/login", (page) => button(page, "Log In").click()),
  "log in, Invalid login credentials": logIn(),
  "log in, Email not confirmed": logIn(
    refuse(400, { code: 400, error_code: "email_not_confirmed", msg: "Email not confirmed" }),
  ),
  "log in, User not found": logIn(refuse(404, { code: 404, error_code: "user_not_found", msg: "User not found" })),
  "log in, another error": logIn(
    refuse(400, { code: 400, error_code: "validation_failed", msg: "Something of the server's own" }),
  ),
  "log in, an error without words": logIn(refuse(400, {})),
  "log in, unexpected": async (given) => {
    const maria = await given.person();
    await given.visitor.goto("/login");
    await given.visitor.getByLabel("Email").fill(maria.email);
    await given.visitor.getByLabel("Password").fill(maria.password);
    await given.visitor.evaluate(() => {
      Storage.prototype.setItem = () => {
        throw new DOMException("The storage is full", "QuotaExceededError");
      };
    });
    await button(given.visitor, "Log In").click();
    return given.visitor;
  },
  "log in, done": async ({ visitor, person }) => {
    const maria = await person();
    await visitor.goto("/login");
    await visitor.getByLabel("Email").fill(maria.email);
    await visitor.getByLabel("Password").fill(maria.password);
    await button(visitor, "Log In").click();
    return visitor;
  },
  "sign up, empty": visit("/register", (page) => button(page, "Sign Up").click()),
  "sign up, a plan waiting": visit("/pricing", (page) => button(page, "Sign Up & Subscribe").click()),
  "sign up, refused": async ({ visitor, person }) => {
    await visitor.goto("/register");
    await fillSignUp(visitor, await person());
    return visitor;
  },
  "sign up, no way in": signUp((page, { newAccount }) =>
    page.route("**/auth/v1/signup*", (route) =>
      route.fulfill({ json: { id: randomUUID(), aud: "authenticated", email: newAccount.email, identities: [] } }),
    ),
  ),
  "sign up, done": signUp(),
  "sign up, on to checkout": withPlan(silence),
  "sign up, checkout refused": withPlan(refuse(400, {})),
  "pricing, checkout refused": async ({ person, signedIn }) => {
    const page = await signedIn(await person());
    await page.route("**/functions/v1/create-checkout-session", refuse(400, {}));
    await page.goto("/pricing");
    await button(page, "Subscribe").click();
    return page;
  },
  "pricing, on to checkout": async ({ person, signedIn }) => {
    const page = await signedIn(await person());
    await page.route("**/functions/v1/create-checkout-session", silence);
    await page.goto("/pricing");
    await button(page, "Subscribe").click();
    return page;
  },
  "forgot password, sent": visit("/forgot-password", async (page) => {
    await page.getByLabel("Email").fill("nobody@example.org");
    await button(page, "Send Reset Link").click();
  }),
  "reset password, without a link": visit("/reset-password"),
  "reset password, two passwords": visit("/reset-password#access_token=none&type=recovery", async (page) => {
    await page.getByLabel("New Password").fill("battery staple");
    await page.getByLabel("Confirm Password").fill("battery stable");
    await button(page, "Reset Password").click();
  }),
  "reset password, empty": visit("/reset-password#access_token=none&type=recovery", (page) =>
    button(page, "Reset Password").click(),
  ),
  "reset password, done": async ({ visitor, person }) => {
    const { email } = await person();
    const { origin } = new URL(process.env.BASALT_URL ?? "http://127.0.0.1:8000");
    const { data, error } = await server().auth.admin.generateLink({
      type: "recovery",
      email,
      options: { redirectTo: `${origin}/reset-password` },
    });
    if (error) throw error;
    await visitor.goto(data.properties.action_link);
    await visitor.getByLabel("New Password").fill("battery staple");
    await visitor.getByLabel("Confirm Password").fill("battery staple");
    await button(visitor, "Reset Password").click();
    return visitor;
  },
  "not found": visit("/no/such/page"),
  "subscription, active": subscription({}),
  "subscription, ending": subscription({ cancel_at_period_end: true }),
  "subscription, refused": subscription({}, async (page) => {
    for (const name of ["create-portal-session", "cancel-subscription"]) {
      await page.route(`**/functions/v1/${name}`, refuse(400, {}));
    }
    await page.route("**/rest/v1/rpc/get_user_subscription", refuse());
    await button(page, "Billing Settings").click();
    await button(page, "Refresh Data").click();
    await cancel(page);
  }),
  "subscription, reactivation refused": subscription({ cancel_at_period_end: true }, async (page) => {
    await page.route("**/functions/v1/reactivate-subscription", refuse(400, {}));
    await button(page, "Reactivate Subscription").click();
  }),
  "subscription, session gone": subscription({}, async (page) => {
    await page.evaluate(() => localStorage.clear());
    await button(page, "Billing Settings").click();
  }),
  "subscription, done": subscription({}, async (page) => {
    await button(page, "Refresh Data").click();
    await page.route("**/functions/v1/cancel-subscription", (route) => route.fulfill({ json: { success: true } }));
    await cancel(page);
  }),
  "subscription, reactivated": subscription({ cancel_at_period_end: true }, async (page) => {
    await page.route("**/functions/v1/reactivate-subscription", (route) => route.fulfill({ json: { success: true } }));
    await button(page, "Reactivate Subscription").click();
  }),
  "upgrade prompt": async ({ person, signedIn }) => {
    const page = await signedIn(await person());
    await page.addInitScript(() => sessionStorage.removeItem("basalt.prompt-dismissed"));
    await page.route("**/rest/v1/subscription_prompt?*", (route) => route.fulfill({ json: [{ delay_seconds: 1 }] }));
    await page.goto("/dashboard");
    return page;
  },

  "admin overview": admin("/admin"),
  "e-mail settings": admin("/admin/integrations/email"),
  "e-mail settings, empty": admin(
    "/admin/integrations/email",
    (page) => button(page, "Save Settings").click(),
    setting(null, saved),
  ),
  "e-mail settings, saved": admin("/admin/integrations/email", saveMail, setting(mailKey, saved)),
  "e-mail settings, refused": admin("/admin/integrations/email", saveMail, setting(mailKey, refuse())),
  "e-mail settings, not loaded": admin(
    "/admin/integrations/email",
    async () => undefined,
    answer("**/rest/v1/app_settings*", refuse()),
  ),
  "e-mail template, empty": admin(
    "/admin/integrations/email?tab=templates",
    (page) => button(page, "Save Template").click(),
    setting(null, saved),
  ),
  "e-mail template, saved": admin("/admin/integrations/email?tab=templates", saveTemplate, setting(words, saved)),
  "e-mail template, refused": admin("/admin/integrations/email?tab=templates", saveTemplate, setting(words, refuse())),
  "test e-mail, empty": admin(
    "/admin/integrations/email?tab=test",
    async (page) => {
      await page.getByLabel("To", { exact: true }).fill("nowhere");
      await page.getByLabel("Subject", { exact: true }).fill("");
      await page.getByLabel("Message", { exact: true }).fill("");
      await button(page, "Send Test Email").click();
    },
    setting(mailKey, saved),
  ),
  "test e-mail, sent": admin("/admin/integrations/email?tab=test", sendTest, async (page) => {
    await setting(mailKey, saved)(page);
    await page.route("**/functions/v1/test-email", (route) => route.fulfill({ json: { success: true } }));
  }),
  "test e-mail, refused": admin("/admin/integrations/email?tab=test", sendTest, async (page) => {
    await setting(mailKey, saved)(page);
    await page.route("**/functions/v1/test-email", refuse(400, { error: "API key is invalid" }));
  }),
  "app settings": admin("/admin/settings"),
  "app settings, not loaded": admin(
    "/admin/settings",
    async () => undefined,
    answer("**/rest/v1/app_settings*", refuse()),
  ),
  logos: admin("/admin/settings?tab=logo"),
  "logos, not loaded": admin(
    "/admin/settings?tab=logo",
    async () => undefined,
    answer("**/rest/v1/brand_assets*", refuse()),
  ),
  "logos, refused": admin("/admin/settings?tab=logo", async (page) => {
    await expect(button(page, "Upload small logo")).toBeEnabled();
    await page
      .getByLabel("File for the small logo")
      .setInputFiles({ name: "a.png", mimeType: "text/plain", buffer: Buffer.from("hello") });
  }),
  "prompt settings, not loaded": admin(
    "/admin/settings?tab=subscription-prompt",
    async () => undefined,
    answer("**/rest/v1/subscription_prompt*", refuse()),
  ),
  "marketing content": admin("/admin/marketing"),
  "marketing content, not loaded": admin(
    "/admin/marketing",
    async () => undefined,
    answer("**/rest/v1/marketing_content*", refuse()),
  ),
  "marketing content, refused": admin(
    "/admin/marketing",
    async (page) => {
      await page.getByRole("textbox", { name: "Title", exact: true }).fill("Mine");
      await button(page, "Save Changes").click();
    },
    answer("**/rest/v1/marketing_content*", (route) =>
      route.request().method() === "GET" ? route.continue() : refuse()(route),
    ),
  ),
  webhooks: admin("/admin/webhooks", async () => undefined, threeEvents),
  "webhooks, copied": admin("/admin/webhooks", async (page) => {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await button(page, "Copy webhook URL").click();
  }),
  "webhooks, secret empty": admin("/admin/webhooks", (page) => button(page, "Save Webhook Secret Temporarily").click()),
  "webhooks, secret saving": secret("whsec_basaltbrowsertests0123456789", silence),
  "webhooks, secret saved": secret("whsec_basaltbrowsertests0123456789"),
  "webhooks, secret refused": secret("no secret"),
  "webhooks, instructions": admin("/admin/webhooks", (page) => button(page, "View Manual Setup Instructions").click()),
  "webhooks, none": admin(
    "/admin/webhooks",
    async () => undefined,
    answer("**/rest/v1/rpc/get_webhook_events", (route) => route.fulfill({ json: [] })),
  ),
  "webhooks, none found": admin("/admin/webhooks", (page) =>
    page.getByPlaceholder("Search events...").fill("no such event at all"),
  ),
  "webhooks, not loaded": admin(
    "/admin/webhooks",
    async () => undefined,
    answer("**/rest/v1/rpc/get_webhook_events", refuse()),
  ),
  "webhooks, details": admin("/admin/webhooks", (page) => button(page, "Details of evt_1").click(), threeEvents),
  "webhooks, replaying": admin("/admin/webhooks", (page) => button(page, "Replay evt_1").click(), threeEvents),
  "webhooks, replay under way": replay(silence),
  "webhooks, replayed": replay((route) =>
    route.fulfill({ json: { success: true, message: "Webhook event replayed successfully" } }),
  ),
  "webhooks, replay refused": replay(refuse(409, { error: "This event is being processed" })),
  "webhooks, replay refused without words": replay(refuse(400, {})),
  "subscription plans": admin(plansPath, (page) => expect(page.getByRole("row").nth(1)).toBeVisible()),
  "subscription plans, none": admin(
    plansPath,
    async () => undefined,
    answer("**/rest/v1/subscription_plans*", (route) => route.fulfill({ json: [] })),
  ),
  "subscription plans, not loaded": admin(
    plansPath,
    async () => undefined,
    answer("**/rest/v1/subscription_plans*", refuse()),
  ),
  "subscription plans, adding": admin(plansPath, (page) => button(page, "Add Plan").click()),
  "subscription plans, empty form": admin(plansPath, async (page) => {
    await button(page, "Add Plan").click();
    await button(page, "Save Plan").click();
  }),
  "subscription plans, editing": admin(plansPath, (page) => button(page, /^Edit/).click()),
  "subscription plans, deleting": admin(plansPath, (page) => button(page, /^Delete/).click()),
  "subscription plans, added": admin(plansPath, addPlan, onePlanFor(written)),
  "subscription plans, updated": admin(plansPath, editPlan, onePlanFor(written)),
  "subscription plans, deleted": admin(plansPath, deletePlan, onePlanFor(written)),
  "subscription plans, add refused": admin(plansPath, addPlan, onePlanFor(refuse())),
  "subscription plans, update refused": admin(plansPath, editPlan, onePlanFor(refuse())),
  "subscription plans, delete refused": admin(plansPath, deletePlan, onePlanFor(refuse())),
};

/** Everything that can be read on the page, or be heard of it. */
const readable = (page: Page) =>
  page.evaluate(() => {
    const said = [...document.querySelectorAll("[placeholder], [aria-label], [title]")].flatMap((element) =>
      ["placeholder", "aria-label", "title"].map((name) => element.getAttribute(name) ?? ""),
    );
    const values = [...document.querySelectorAll("input")].map(({ value }) => value);
    const options = [...document.querySelectorAll("option, optgroup")].map(
      (option) => option.getAttribute("label") ?? option.textContent,
    );
    // biome-ignore lint/performance/useDomNodeTextContent: a text that is hidden must not count
    return [document.body.innerText, ...said, ...values, ...options].join("\n").replace(/\s+/g, " ").toLowerCase();
  });

for (const [scene, act] of Object.entries(acts) as [Scene, Act][]) {
  test(scene, async ({ page: visitor, person, administrator, signedIn, newAccount }) => {
    const page = await act({ visitor, person, administrator, signedIn, newAccount });
    for (const text of texts[scene]) {
      await expect.poll(() => readable(page), { message: text }).toContain(text.toLowerCase());
    }
  });
}
