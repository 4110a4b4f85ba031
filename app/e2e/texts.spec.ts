import { randomUUID } from "node:crypto";
import type { Page, Route } from "@playwright/test";
import { type Account, expect, type Person, test } from "./fixtures";
import texts from "./texts.json" with { type: "json" };
import { type SubscriptionRow, server, subscribe } from "./workspace";

// `texts.json` lists the texts that the specification requires, by scene; each scene is set up here and its texts are
// searched for. The scenes of one place share a visit: an account, a page and the browser's cache.
// Not tested: "An error occurred during checkout.", the fallback for failures without a message, because each failure
// there has one.

// The browser's messages for the failed requests of the scenes.
test.use({ allowedComplaint: /the server responded with a status of 5\d\d/ });

type Scene = keyof typeof texts;

interface Given {
  page: Page;
  /** The signed-in user; for a visitor, an account to sign in with. */
  maria: Person;
  newAccount: Account;
}

/** Sets up a scene on the page as the previous scene left it. */
type Act = (given: Given) => Promise<unknown>;

interface Visit {
  as: "visitor" | "person" | "administrator";
  scenes: Partial<Record<Scene, Act>>;
}

const refuse =
  (status = 400, json: object = { message: "No" }) =>
  (route: Route) =>
    route.fulfill({ status, json });
/** Never responds. */
const silence = () => undefined;
const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name }).first();

/** Uses the page as it is. */
const then =
  (act: (page: Page) => Promise<unknown>): Act =>
  ({ page }) =>
    act(page);

/** Loads a page; `before` stubs responses. */
const open =
  (
    path: string,
    act: (page: Page) => Promise<unknown> = async () => undefined,
    before: (page: Page) => Promise<unknown> = async () => undefined,
  ): Act =>
  async ({ page }) => {
    await before(page);
    await page.goto(path);
    await act(page);
  };

/** Scrolls to the landing page's prices, which are loaded on scrolling. */
const toPrices = (page: Page) => page.locator("#pricing").scrollIntoViewIfNeeded();

async function fillLogIn(page: Page, email = "maria@example.org", password = "correct horse") {
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password").fill(password);
  await button(page, "Log In").click();
}

/** Logs in with this response of the server. */
const logIn = (reply: (route: Route) => unknown) =>
  then(async (page) => {
    await page.route("**/auth/v1/token?*", reply);
    await fillLogIn(page);
  });

async function fillSignUp(page: Page, { organization, email, password }: Account) {
  await page.getByLabel("Organization Name").fill(organization);
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByLabel("I agree to the terms and privacy policy").check();
  await button(page, "Sign Up").click();
}

/** Chooses a plan and signs up for it with this response to the checkout. */
const signUpForPlan =
  (reply: (route: Route) => unknown): Act =>
  async ({ page, newAccount }) => {
    await page.route("**/functions/v1/create-checkout-session", reply);
    await fillSignUp(page, newAccount);
  };

/** The subscription page in this state; `before` stubs responses. */
const subscription =
  (
    row: SubscriptionRow,
    act: (page: Page) => Promise<unknown> = async () => undefined,
    before: (page: Page) => Promise<unknown> = async () => undefined,
  ): Act =>
  async (given) => {
    await subscribe(given.maria, { stripe_price_id: "price_basalt_starter_monthly", ...row });
    await open("/dashboard/subscription", (page) => expect(button(page, "Refresh Data")).toBeEnabled())(given);
    await before(given.page);
    await act(given.page);
  };

const cancel = async (page: Page) => {
  await button(page, "Cancel Subscription").click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Cancel Subscription" }).click();
};

const stub = (pattern: string, reply: (route: Route) => unknown) => (page: Page) => page.route(pattern, reply);

/** Stubs the settings, so that those of other tests do not interfere. */
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
const threeEvents = stub("**/rest/v1/rpc/get_webhook_events", (route) =>
  route.fulfill({ json: [event("evt_1", "failed"), event("evt_2", "processed"), event("evt_3", "pending")] }),
);
/** Confirms a replay with this response of the server. */
const replay = (reply: (route: Route) => unknown) =>
  then(async (page) => {
    await threeEvents(page);
    await page.route("**/functions/v1/stripe-webhook", (route) =>
      route.request().method() === "OPTIONS" ? route.fallback() : reply(route),
    );
    await button(page, "Replay Event").click();
  });
const saveSecret = (text: string, reply?: (route: Route) => unknown) =>
  then(async (page) => {
    if (reply) await page.route("**/functions/v1/set-webhook-secret", reply);
    await page.getByPlaceholder("Enter your Stripe webhook secret").fill(text);
    await button(page, "Save Webhook Secret Temporarily").click();
  });
const webhookSecret = "whsec_basaltbrowsertests0123456789";
const pressEscape = (page: Page) => page.keyboard.press("Escape");

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
/** The list has one plan; writes get this response. */
const onePlanFor = (write: (route: Route) => unknown) => async (page: Page) => {
  await stub("**/functions/v1/check-price", (route) => route.fulfill({ json: { success: true, price: null } }))(page);
  await stub("**/rest/v1/subscription_plans*", (route) =>
    route.request().method() === "GET" ? route.fulfill({ json: [onePlan] }) : write(route),
  )(page);
};
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

const emailPath = "/admin/integrations/email";
const logosPath = "/admin/settings?tab=logo";
const nothing = async () => undefined;

const visits: Record<string, Visit> = {
  "the site, as a visitor": {
    as: "visitor",
    scenes: {
      "landing page": open("/", toPrices),
      "landing page, canceled": open("/?subscription=canceled"),
      "landing page, nothing for sale": open(
        "/",
        toPrices,
        stub("**/rest/v1/subscription_plans?*", (route) => route.fulfill({ json: [] })),
      ),
      "forgot password, sent": open("/forgot-password", async (page) => {
        await page.getByLabel("Email").fill("nobody@example.org");
        await button(page, "Send Reset Link").click();
      }),
      "reset password, without a link": open("/reset-password"),
      // Needed between URLs that differ only in the fragment: the browser would not reload.
      "not found": open("/no/such/page"),
      "reset password, empty": open("/reset-password#access_token=none&type=recovery", (page) =>
        button(page, "Reset Password").click(),
      ),
      "reset password, two passwords": then(async (page) => {
        await page.getByLabel("New Password").fill("battery staple");
        await page.getByLabel("Confirm Password").fill("battery stable");
        await button(page, "Reset Password").click();
      }),
      "reset password, done": async ({ page, maria }) => {
        const { origin } = new URL(page.url());
        const { data, error } = await server().auth.admin.generateLink({
          type: "recovery",
          email: maria.email,
          options: { redirectTo: `${origin}/reset-password` },
        });
        if (error) throw error;
        await page.goto(data.properties.action_link);
        await page.getByLabel("New Password").fill("battery staple");
        await page.getByLabel("Confirm Password").fill("battery staple");
        await button(page, "Reset Password").click();
      },
    },
  },
  "logging in": {
    as: "visitor",
    scenes: {
      "log in": open("/login"),
      "log in, empty": then((page) => button(page, "Log In").click()),
      "log in, Invalid login credentials": then((page) => fillLogIn(page)),
      "log in, Email not confirmed": logIn(
        refuse(400, { code: 400, error_code: "email_not_confirmed", msg: "Email not confirmed" }),
      ),
      "log in, User not found": logIn(refuse(404, { code: 404, error_code: "user_not_found", msg: "User not found" })),
      "log in, another error": logIn(
        refuse(400, { code: 400, error_code: "validation_failed", msg: "Something of the server's own" }),
      ),
      "log in, an error without words": logIn(refuse(400, {})),
      "log in, unexpected": async ({ page, maria }) => {
        await page.evaluate(() => {
          Storage.prototype.setItem = () => {
            throw new DOMException("The storage is full", "QuotaExceededError");
          };
        });
        await fillLogIn(page, maria.email, maria.password);
      },
      "log in, done": async ({ page, maria }) => {
        await page.goto("/login");
        await fillLogIn(page, maria.email, maria.password);
      },
    },
  },
  "signing up": {
    as: "visitor",
    scenes: {
      "sign up, empty": open("/register", (page) => button(page, "Sign Up").click()),
      "sign up, refused": ({ page, maria }) => fillSignUp(page, maria),
      "sign up, no way in": async ({ page, newAccount }) => {
        await page.route("**/auth/v1/signup*", (route) =>
          route.fulfill({ json: { id: randomUUID(), aud: "authenticated", email: newAccount.email, identities: [] } }),
        );
        await fillSignUp(page, newAccount);
      },
      "sign up, done": async ({ page, newAccount }) => {
        await page.goto("/register");
        await fillSignUp(page, newAccount);
      },
    },
  },
  "signing up for a plan": {
    as: "visitor",
    scenes: {
      "sign up, a plan waiting": open("/pricing", (page) => button(page, "Sign Up & Subscribe").click()),
      "sign up, on to checkout": signUpForPlan(silence),
    },
  },
  "failed sign-up for a plan": {
    as: "visitor",
    scenes: {
      "sign up, checkout refused": async (given) => {
        const { page } = given;
        await page.goto("/pricing");
        await button(page, "Sign Up & Subscribe").click();
        await signUpForPlan(refuse(400, {}))(given);
      },
    },
  },
  "buying a subscription": {
    as: "person",
    scenes: {
      "pricing, checkout refused": open(
        "/pricing",
        (page) => button(page, "Subscribe").click(),
        stub("**/functions/v1/create-checkout-session", refuse(400, {})),
      ),
      "pricing, on to checkout": open(
        "/pricing",
        (page) => button(page, "Subscribe").click(),
        stub("**/functions/v1/create-checkout-session", silence),
      ),
      "upgrade prompt": async ({ page }) => {
        await page.addInitScript(() => sessionStorage.removeItem("basalt.prompt-dismissed"));
        await page.route("**/rest/v1/subscription_prompt?*", (route) =>
          route.fulfill({ json: [{ delay_seconds: 1 }] }),
        );
        // The held checkout may be answered now, and its navigation then wins once.
        await expect(() => page.goto("/dashboard")).toPass();
      },
    },
  },
  "a subscription": {
    as: "person",
    scenes: {
      "subscription, active": subscription({}),
      "subscription, refused": then(async (page) => {
        for (const name of ["create-portal-session", "cancel-subscription"]) {
          await page.route(`**/functions/v1/${name}`, refuse(400, {}));
        }
        await page.route("**/rest/v1/rpc/get_user_subscription", refuse());
        await button(page, "Billing Settings").click();
        await button(page, "Refresh Data").click();
        await cancel(page);
      }),
      "subscription, done": subscription({}, async (page) => {
        await button(page, "Refresh Data").click();
        await page.route("**/functions/v1/cancel-subscription", (route) => route.fulfill({ json: { success: true } }));
        await cancel(page);
      }),
      "subscription, ending": subscription({ cancel_at_period_end: true }),
      "subscription, reactivation refused": then(async (page) => {
        await page.route("**/functions/v1/reactivate-subscription", refuse(400, {}));
        await button(page, "Reactivate Subscription").click();
      }),
      "subscription, reactivated": then(async (page) => {
        await page.route("**/functions/v1/reactivate-subscription", (route) =>
          route.fulfill({ json: { success: true } }),
        );
        await button(page, "Reactivate Subscription").click();
      }),
      "landing page, subscribed": open("/", toPrices),
      "subscription, session gone": subscription({}, async (page) => {
        await page.evaluate(() => localStorage.clear());
        await button(page, "Billing Settings").click();
      }),
    },
  },

  "the admin area, its overview": {
    as: "administrator",
    scenes: {
      "admin overview": open("/admin"),
      "user menu": open("/dashboard", (page) => button(page, "User menu").click()),
    },
  },
  "the admin area, e-mail": {
    as: "administrator",
    scenes: {
      "e-mail settings": open(emailPath),
      "e-mail settings, empty": open(emailPath, (page) => button(page, "Save Settings").click(), setting(null, saved)),
      "e-mail settings, refused": open(emailPath, saveMail, setting(mailKey, refuse())),
      "e-mail settings, saved": open(emailPath, saveMail, setting(mailKey, saved)),
      "e-mail settings, not loaded": open(emailPath, nothing, stub("**/rest/v1/app_settings*", refuse())),
      "e-mail template, empty": open(
        `${emailPath}?tab=templates`,
        (page) => button(page, "Save Template").click(),
        setting(null, saved),
      ),
      "e-mail template, refused": open(`${emailPath}?tab=templates`, saveTemplate, setting(words, refuse())),
      "e-mail template, saved": open(`${emailPath}?tab=templates`, saveTemplate, setting(words, saved)),
      "test e-mail, empty": open(
        `${emailPath}?tab=test`,
        async (page) => {
          await page.getByLabel("To", { exact: true }).fill("nowhere");
          await page.getByLabel("Subject", { exact: true }).fill("");
          await page.getByLabel("Message", { exact: true }).fill("");
          await button(page, "Send Test Email").click();
        },
        setting(mailKey, saved),
      ),
      "test e-mail, refused": open(`${emailPath}?tab=test`, sendTest, async (page) => {
        await setting(mailKey, saved)(page);
        await page.route("**/functions/v1/test-email", refuse(400, { error: "API key is invalid" }));
      }),
      "test e-mail, sent": then(async (page) => {
        await page.route("**/functions/v1/test-email", (route) => route.fulfill({ json: { success: true } }));
        await sendTest(page);
      }),
    },
  },
  "the admin area, settings": {
    as: "administrator",
    scenes: {
      "app settings": open("/admin/settings"),
      "app settings, not loaded": open("/admin/settings", nothing, stub("**/rest/v1/app_settings*", refuse())),
      logos: open(logosPath, (page) => expect(button(page, "Upload small logo")).toBeEnabled()),
      "logos, refused": then((page) =>
        page
          .getByLabel("File for the small logo")
          .setInputFiles({ name: "a.png", mimeType: "text/plain", buffer: Buffer.from("hello") }),
      ),
      "logos, not loaded": open(logosPath, nothing, stub("**/rest/v1/brand_assets*", refuse())),
      "prompt settings, not loaded": open(
        "/admin/settings?tab=subscription-prompt",
        nothing,
        stub("**/rest/v1/subscription_prompt*", refuse()),
      ),
      "marketing content": open("/admin/marketing"),
      "marketing content, refused": then(async (page) => {
        await page.route("**/rest/v1/marketing_content*", (route) =>
          route.request().method() === "GET" ? route.continue() : refuse()(route),
        );
        await page.getByRole("textbox", { name: "Title", exact: true }).fill("Mine");
        await button(page, "Save Changes").click();
      }),
      "marketing content, not loaded": open(
        "/admin/marketing",
        nothing,
        stub("**/rest/v1/marketing_content*", refuse()),
      ),
    },
  },
  "the admin area, webhooks": {
    as: "administrator",
    scenes: {
      webhooks: open("/admin/webhooks", nothing, threeEvents),
      "webhooks, copied": then(async (page) => {
        await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
        await button(page, "Copy webhook URL").click();
      }),
      "webhooks, secret empty": then((page) => button(page, "Save Webhook Secret Temporarily").click()),
      "webhooks, secret refused": saveSecret("no secret"),
      "webhooks, secret saved": saveSecret(webhookSecret),
      "webhooks, secret saving": saveSecret(webhookSecret, silence),
      "webhooks, instructions": then((page) => button(page, "View Manual Setup Instructions").click()),
      "webhooks, details": then(async (page) => {
        await threeEvents(page);
        await pressEscape(page);
        await button(page, "Details of evt_1").click();
      }),
      "webhooks, replaying": then(async (page) => {
        await threeEvents(page);
        await pressEscape(page);
        await button(page, "Replay evt_1").click();
      }),
      "webhooks, replay refused": replay(refuse(409, { error: "This event is being processed" })),
      "webhooks, replay refused without words": replay(refuse(400, {})),
      "webhooks, replay under way": replay(silence),
      "webhooks, replayed": async (given) => {
        await open("/admin/webhooks", (page) => button(page, "Replay evt_1").click(), threeEvents)(given);
        await replay((route) =>
          route.fulfill({ json: { success: true, message: "Webhook event replayed successfully" } }),
        )(given);
      },
      "webhooks, none found": open("/admin/webhooks", (page) =>
        page.getByPlaceholder("Search events...").fill("no such event at all"),
      ),
      "webhooks, none": open(
        "/admin/webhooks",
        nothing,
        stub("**/rest/v1/rpc/get_webhook_events", (route) => route.fulfill({ json: [] })),
      ),
      "webhooks, not loaded": open("/admin/webhooks", nothing, stub("**/rest/v1/rpc/get_webhook_events", refuse())),
    },
  },
  "the admin area, plans for sale": {
    as: "administrator",
    scenes: {
      "subscription plans": open(plansPath, (page) => expect(page.getByRole("row").nth(1)).toBeVisible()),
      "subscription plans, editing": then((page) => button(page, /^Edit/).click()),
      "subscription plans, deleting": then(async (page) => {
        await pressEscape(page);
        await button(page, /^Delete/).click();
      }),
      "subscription plans, adding": then(async (page) => {
        await pressEscape(page);
        await button(page, "Add Plan").click();
      }),
      "subscription plans, empty form": then((page) => button(page, "Save Plan").click()),
      "subscription plans, add refused": open(plansPath, addPlan, onePlanFor(refuse())),
      "subscription plans, added": then(async (page) => {
        await onePlanFor(written)(page);
        await button(page, "Save Plan").click();
      }),
      "subscription plans, update refused": then(async (page) => {
        await onePlanFor(refuse())(page);
        await editPlan(page);
      }),
      "subscription plans, updated": then(async (page) => {
        await onePlanFor(written)(page);
        await button(page, "Update Plan").click();
      }),
      "subscription plans, delete refused": then(async (page) => {
        await onePlanFor(refuse())(page);
        await deletePlan(page);
      }),
      "subscription plans, deleted": then(async (page) => {
        await onePlanFor(written)(page);
        await page.getByRole("alertdialog").getByRole("button", { name: "Delete Plan" }).click();
      }),
      "subscription plans, none": open(
        plansPath,
        nothing,
        stub("**/rest/v1/subscription_plans*", (route) => route.fulfill({ json: [] })),
      ),
      "subscription plans, not loaded": open(plansPath, nothing, stub("**/rest/v1/subscription_plans*", refuse())),
    },
  },
};

/** All visible text of the page and its accessible labels. */
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

/** Finds each text of the scene at any moment, because toasts disappear. */
async function expectTexts(page: Page, scene: Scene) {
  const left = new Set(texts[scene]);
  const look = async () => {
    const now = await readable(page);
    for (const text of left) if (now.includes(text.toLowerCase())) left.delete(text);
    return [...left];
  };
  await softly.poll(look, { message: `${scene}: texts that are missing` }).toEqual([]);
}
const softly = expect.configure({ soft: true });

for (const [name, { as, scenes }] of Object.entries(visits)) {
  test(name, async ({ page: visitor, person, administrator, signedIn, newAccount }) => {
    test.slow();
    const maria = await (as === "administrator" ? administrator() : person());
    const page = as === "visitor" ? visitor : await signedIn(maria);
    for (const [scene, act] of Object.entries(scenes) as [Scene, Act][]) {
      await test.step(scene, async () => {
        await page.unrouteAll({ behavior: "ignoreErrors" });
        await act({ page, maria, newAccount });
        await expectTexts(page, scene);
      });
    }
  });
}

test("every scene is visited", () => {
  const shown = Object.values(visits).flatMap(({ scenes }) => Object.keys(scenes));
  expect(shown.toSorted()).toEqual(Object.keys(texts).toSorted());
});
