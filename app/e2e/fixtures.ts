import { randomUUID } from "node:crypto";
import { type BrowserContext, test as base, type Page } from "@playwright/test";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import type { Database } from "../src/lib/database.types";

export { expect } from "@playwright/test";

export interface Account {
  email: string;
  password: string;
  organization: string;
}

/** A user with an account and a client to create data with. */
export interface Person extends Account {
  id: string;
  client: SupabaseClient<Database>;
  /** The browser's storage with this user's session. */
  storage: { name: string; value: string }[];
}

/** Combinations of theme and width: two of the four; all with EVERY_LOOK (`cargo xtask nightly`). */
export const looks: { colorScheme: "light" | "dark"; width: number }[] = [
  { colorScheme: "light", width: 1280 },
  { colorScheme: "dark", width: 375 },
  ...(process.env.EVERY_LOOK
    ? ([
        { colorScheme: "light", width: 375 },
        { colorScheme: "dark", width: 1280 },
      ] as const)
    : []),
];

/** Creates a price at the Stripe double, as an administrator does in Stripe's dashboard. */
export async function stripePrice(cents: number, interval: "day" | "week" | "month" | "year" = "month") {
  const double = process.env.BASALT_STRIPE_DOUBLE_URL ?? "http://127.0.0.1:12111";
  const response = await fetch(`${double}/v1/prices`, {
    method: "POST",
    headers: { authorization: "Bearer sk_test_browser_tests" },
    body: new URLSearchParams({
      currency: "usd",
      unit_amount: String(cents),
      "recurring[interval]": interval,
      "product_data[name]": "A plan",
    }),
  });
  if (!response.ok) throw new Error(`The Stripe double: ${response.status} ${await response.text()}`);
  return ((await response.json()) as { id: string }).id;
}

/** A minimal PNG: one grey pixel. */
export const pixel = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

interface Fixtures {
  /** Details that no account has yet. */
  newAccount: Account;
  /** Creates an account through the API. */
  person: () => Promise<Person>;
  /** Creates an account and makes it an administrator, as the seed's administrator. */
  administrator: () => Promise<Person>;
  /** A page in a separate browser context where this user is signed in. */
  signedIn: (person: Person) => Promise<Page>;
  /** Fails the test if one of its pages reports an error, including content security policy violations. */
  quietPages: undefined;
  /** Errors that pages of this test may report. */
  allowedComplaint: RegExp | null;
  /** Whether to show the prompt to subscribe, which would appear in the middle of a slow test. */
  upgradePrompt: boolean;
}

type Client = SupabaseClient<Database>;

// Cached per worker: all tests use the same anonymous key and seed administrator.
const anonKeys = new Map<string, Promise<string>>();
const seedAdministrators = new Map<string, Promise<Client>>();

function anonKey(baseURL: string) {
  return once(anonKeys, baseURL, async () => {
    const response = await fetch(`${baseURL}/app-config.json`);
    return ((await response.json()) as { anonKey: string }).anonKey;
  });
}

function seedAdministrator(baseURL: string) {
  return once(seedAdministrators, baseURL, async () => {
    const client = createClient<Database>(baseURL, await anonKey(baseURL), {
      auth: { persistSession: false, autoRefreshToken: false },
    });
    const { error } = await client.auth.signInWithPassword({ email: "demo@basalt.local", password: "basalt-demo" });
    if (error) throw error;
    return client;
  });
}

/** A failure is not cached: the next test tries again. */
function once<Value>(kept: Map<string, Promise<Value>>, key: string, make: () => Promise<Value>) {
  let value = kept.get(key);
  if (!value) {
    value = make();
    kept.set(key, value);
    value.catch(() => kept.delete(key));
  }
  return value;
}

export const test = base.extend<Fixtures>({
  newAccount: async ({ browserName: _ }, use) => {
    await use(account());
  },

  person: async ({ baseURL }, use) => {
    await use(async () => {
      const stored = new Map<string, string>();
      const client = createClient<Database>(baseURL ?? "", await anonKey(baseURL ?? ""), {
        auth: {
          autoRefreshToken: false,
          storage: {
            getItem: (name) => stored.get(name) ?? null,
            setItem: (name, value) => void stored.set(name, value),
            removeItem: (name) => void stored.delete(name),
          },
        },
      });
      const { email, password, organization } = account();
      const { data, error } = await client.auth.signUp({
        email,
        password,
        options: { data: { organization_name: organization } },
      });
      if (error) throw error;
      if (!data.user || !data.session) throw new Error("Sign-up gave no session: these tests need autoconfirm.");
      const storage = [...stored].map(([name, value]) => ({ name, value }));
      return { email, password, organization, id: data.user.id, client, storage };
    });
  },

  administrator: async ({ baseURL, person }, use) => {
    await use(async () => {
      const newcomer = await person();
      const seed = await seedAdministrator(baseURL ?? "");
      await seed.from("user_roles").insert({ user_id: newcomer.id, role: "admin" }).throwOnError();
      return newcomer;
    });
  },

  page: async ({ page, upgradePrompt }, use) => {
    if (!upgradePrompt) await page.addInitScript(dismissPrompt);
    watch(page);
    await use(page);
    await letRoutesEnd(page);
  },

  signedIn: async ({ baseURL, browser, upgradePrompt }, use) => {
    const contexts: BrowserContext[] = [];
    await use(async ({ storage }) => {
      const origin = new URL(baseURL ?? "").origin;
      const context = await browser.newContext({
        storageState: { cookies: [], origins: [{ origin, localStorage: storage }] },
      });
      contexts.push(context);
      if (!upgradePrompt) await context.addInitScript(dismissPrompt);
      const page = await context.newPage();
      watch(page);
      return page;
    });
    await Promise.all(
      contexts.map(async (context) => {
        await letRoutesEnd(...context.pages());
        await context.close();
      }),
    );
  },

  allowedComplaint: [null, { option: true }],
  upgradePrompt: [false, { option: true }],

  quietPages: [
    async ({ allowedComplaint }, use) => {
      complaints.length = 0;
      await use(undefined);
      const unexpected = complaints.filter((complaint) => !allowedComplaint?.test(complaint));
      if (unexpected.length > 0) throw new Error(`Pages complained:\n${unexpected.join("\n")}`);
    },
    { auto: true },
  ],
});

/** Ignores the error of a route handler whose page is closing. */
async function letRoutesEnd(...pages: Page[]) {
  await Promise.all(pages.map((page) => page.unrouteAll({ behavior: "ignoreErrors" })));
}

const complaints: string[] = [];

function watch(page: Page) {
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // The browser reports each 4xx response; tests assert how the app handles it.
    const isRefusal = /the server responded with a status of 4\d\d/.test(message.text());
    if (message.type() === "error" && !isRefusal) complaints.push(message.text());
  });
}

const dismissPrompt = () => sessionStorage.setItem("basalt.prompt-dismissed", "1");

function account(): Account {
  return { email: `${randomUUID()}@example.org`, password: "correct horse", organization: "Riverside Food Bank" };
}

/** Creates plans in the user's account, oldest first. */
export async function makePlans({ client, id }: Person, ...plans: { title: string; description?: string }[]) {
  for (const plan of plans) {
    await client
      .from("plans")
      .insert({ ...plan, user_id: id })
      .throwOnError();
  }
}
