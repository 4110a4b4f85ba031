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

/** A person with an account, and a client of their own to make data with. */
export interface Person extends Account {
  id: string;
  client: SupabaseClient<Database>;
  /** What the browser's storage holds when this person is signed in there. */
  storage: { name: string; value: string }[];
}

/** Themes and widths to look at a page in: two of the four, and all of them with EVERY_LOOK (`cargo xtask nightly`). */
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

/** The smallest PNG there is: one grey pixel. */
export const pixel = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

interface Fixtures {
  /** No account has these details yet. */
  newAccount: Account;
  /** Makes an account through the API. */
  person: () => Promise<Person>;
  /** Makes an account of an administrator, whom the seed's administrator appoints. */
  administrator: () => Promise<Person>;
  /** A page of a browser of its own, where this person is signed in. */
  signedIn: (person: Person) => Promise<Page>;
  /** Fails the test when a page of it reports an error, a breach of the content policy among them. */
  quietPages: undefined;
  /** What pages of this test may report all the same. */
  allowedComplaint: RegExp | null;
  /** Whether people without a subscription are asked after a while to buy one: into the middle of a slow test, that is. */
  upgradePrompt: boolean;
}

type Client = SupabaseClient<Database>;

// Kept per worker: the anonymous key and the seed's administrator are the same for every test.
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

/** A failure is not kept: the next test asks again. */
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

/** A page that asks once more while it is being closed is no failure of the answer that a test made for it. */
async function letRoutesEnd(...pages: Page[]) {
  await Promise.all(pages.map((page) => page.unrouteAll({ behavior: "ignoreErrors" })));
}

const complaints: string[] = [];

function watch(page: Page) {
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // An answer of the server in the 400s is the browser's news, not an error of the app: what the app makes of it is tested.
    const isRefusal = /the server responded with a status of 4\d\d/.test(message.text());
    if (message.type() === "error" && !isRefusal) complaints.push(message.text());
  });
}

const dismissPrompt = () => sessionStorage.setItem("basalt.prompt-dismissed", "1");

function account(): Account {
  return { email: `${randomUUID()}@example.org`, password: "correct horse", organization: "Riverside Food Bank" };
}

/** Puts plans into the person's account, the first the oldest. */
export async function makePlans({ client, id }: Person, ...plans: { title: string; description?: string }[]) {
  for (const plan of plans) {
    await client
      .from("plans")
      .insert({ ...plan, user_id: id })
      .throwOnError();
  }
}
