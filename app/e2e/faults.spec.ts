import type { Locator, Page } from "@playwright/test";
import { settled } from "./examine";
import { expect, makePlans, test } from "./fixtures";
import { expectToast, makePlan } from "./workspace";

/** Pixels by which the page is wider than the window. */
const excess = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);

const longTitle = "Food security for 500 families, with averyveryverylongwordthatnobodycanbreakwithoutbeingtoldto";

/** Words of a text that stand on more than one line. */
function brokenWords(text: Locator) {
  return text.evaluate((element) => {
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const broken: string[] = [];
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      for (const { 0: word, index } of node.nodeValue?.matchAll(/\S+/g) ?? []) {
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        if (new Set([...range.getClientRects()].map(({ top }) => top)).size > 1) broken.push(word);
      }
    }
    return broken;
  });
}

// A laptop's window at 200 % zoom and the narrowest phone.
const narrow = [
  { what: "at 200 % zoom", viewport: { width: 640, height: 400 } },
  { what: "at 320 pixels", viewport: { width: 320, height: 640 } },
];

/** Opens each page and asserts that it does not overflow in any narrow window. */
async function expectNothingBeyond(page: Page, paths: string[]) {
  for (const path of paths) {
    await page.goto(path);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expect(page.getByRole("status").filter({ hasText: /^Loading/ })).toHaveCount(0);
    for (const { what, viewport } of narrow) {
      await page.setViewportSize(viewport);
      await settled(page);
      expect.soft(await excess(page), `${path} ${what}`).toBeLessThanOrEqual(0);
    }
  }
}

test("user pages and dialogs fit narrow windows", async ({ person, signedIn }) => {
  test.slow();
  const maria = await person();
  const { id } = await makePlan(maria, longTitle, {
    Hubs: [{ title: "Find a hall" }, { title: "Sign", done: true }],
  });
  const page = await signedIn(maria);
  await expectNothingBeyond(page, [
    "/",
    "/pricing",
    "/dashboard/subscription",
    `/plan/${id}`,
    `/plan/${id}/print`,
    "/dashboard",
  ]);
  for (const { what, viewport } of narrow) {
    await test.step(what, async () => {
      await page.setViewportSize(viewport);
      await page.reload();
      await page.getByRole("button", { name: "Create Plan" }).click();
      const creating = page.getByRole("dialog", { name: "Create Plan" });
      await creating.getByLabel("Title").fill("Intergenerational neighborhoods");
      await expect(creating.getByRole("button", { name: "Create Plan" })).toBeInViewport({ ratio: 1 });
      await creating.getByRole("button", { name: "Create Plan" }).click();
      await expectToast(page, "Plan created");
      await expect(page).toHaveURL(/\/plan\//);
      expect(await brokenWords(page.getByRole("heading", { level: 1 }))).toEqual([]);
      if (viewport.width < 400) {
        const toasts = page.locator("[data-sonner-toaster]");
        await expect(toasts).toHaveAttribute("data-y-position", "bottom");
      }
      await page.goto("/dashboard");
      await page.getByRole("button", { name: `Actions for ${longTitle}` }).click();
      await page.getByRole("menuitem", { name: "Edit plan" }).click();
      const editing = page.getByRole("dialog", { name: "Edit Plan" });
      await editing.getByLabel("Estimated End Date").fill("2031-01-31");
      await expect(editing.getByRole("button", { name: "Update Plan" })).toBeInViewport({ ratio: 1 });
      await editing.getByRole("button", { name: "Update Plan" }).click();
      await expectToast(page, "Plan updated");
    });
  }
});

test("admin area fits narrow windows", async ({ administrator, signedIn }) => {
  const page = await signedIn(await administrator());
  await expectNothingBeyond(page, [
    "/admin",
    "/admin/audit-log",
    "/admin/health",
    "/admin/integrations/email",
    "/admin/marketing",
    "/admin/settings",
    "/admin/settings?tab=logo",
    "/admin/subscription-plans",
    "/admin/users",
    "/admin/webhooks",
  ]);
});

test("login rate limit shows an error and keeps the input", async ({ page }) => {
  await page.route("**/auth/v1/token?*", (route) =>
    route.fulfill({
      status: 429,
      json: { code: 429, error_code: "over_request_rate_limit", msg: "Request rate limit reached" },
    }),
  );
  await page.goto("/login");
  await page.getByLabel("Email").fill("maria@example.org");
  await page.getByLabel("Password").fill("correct horse");
  await page.getByRole("button", { name: "Log In" }).click();
  await expect(page.getByRole("alert")).toHaveText("Too many requests. Please wait a moment and try again.");
  await expect(page.getByLabel("Email")).toHaveValue("maria@example.org");
  await expect(page.getByLabel("Password")).toHaveValue("correct horse");
});

test("save rate limit keeps the text and allows a retry", async ({ person, signedIn }) => {
  const page = await signedIn(await person());
  let busy = true;
  await page.route("**/rest/v1/plans*", (route) =>
    busy && route.request().method() === "POST"
      ? route.fulfill({ status: 429, json: { code: "429", message: "Too many requests", details: null, hint: null } })
      : route.continue(),
  );
  await page.goto("/dashboard");
  await page.getByRole("button", { name: "Create Plan" }).click();
  const dialog = page.getByRole("dialog", { name: "Create Plan" });
  await dialog.getByLabel("Title").fill("Patient plan");
  await dialog.getByRole("button", { name: "Create Plan" }).click();
  await expectToast(page, "Error creating plan");
  await expectToast(page, "Too many requests");
  await expect(dialog.getByLabel("Title")).toHaveValue("Patient plan");
  // The message covers no button of the dialog.
  const toast = await page.locator("[data-sonner-toast]").first().boundingBox();
  const save = await dialog.getByRole("button", { name: "Create Plan" }).boundingBox();
  expect((toast?.x ?? 0) + (toast?.width ?? 0)).toBeLessThan(save?.x ?? 0);
  busy = false;
  await dialog.getByRole("button", { name: "Create Plan" }).click();
  // The new plan opens.
  await expect(page.getByRole("heading", { level: 1, name: "Patient plan" })).toBeVisible();
});

test.describe("failing server", () => {
  // The browser's messages for the requests that fail here.
  test.use({ allowedComplaint: /the server responded with a status of 5\d\d/ });

  test("shows an error without details and allows a retry", async ({ person, signedIn }) => {
    const maria = await person();
    await makePlans(maria, { title: "Still here" });
    const page = await signedIn(maria);
    let failing = true;
    await page.route("**/rest/v1/plans?*", (route) =>
      failing
        ? route.fulfill({ status: 500, json: { code: "XX000", message: "internal error: lock table", details: null } })
        : route.continue(),
    );
    await page.goto("/dashboard");
    await expect(page.getByRole("heading", { name: "Your plans could not be loaded" })).toBeVisible();
    await expect(page.getByText("The server has a problem at the moment. Please try again.").first()).toBeVisible();
    await expect(page.getByText("lock table")).toHaveCount(0);
    failing = false;
    await page.getByRole("button", { name: "Try again" }).click();
    await expect(page.getByRole("article", { name: "Still here" })).toBeVisible();
  });
});

/** Holds requests that match the pattern until `release` is called. */
async function hold(page: Page, pattern: string, method: string) {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let count = 0;
  await page.route(pattern, async (route) => {
    if (route.request().method() === method) {
      count += 1;
      await held;
    }
    await route.continue();
  });
  return { release: () => release(), count: () => count };
}

test("slow list has a placeholder and causes no shift", async ({ person, signedIn }) => {
  const maria = await person();
  await makePlans(maria, { title: "Slow one" });
  const page = await signedIn(maria);
  const held = await hold(page, "**/rest/v1/plans?*", "GET");
  await page.goto("/dashboard");
  const skeleton = page.getByRole("status").filter({ hasText: "Loading plans..." });
  await expect(skeleton).toBeVisible();
  const heading = page.getByRole("heading", { level: 1 });
  const before = await heading.boundingBox();
  held.release();
  await expect(page.getByRole("article", { name: "Slow one" })).toBeVisible();
  await expect(skeleton).toHaveCount(0);
  expect((await heading.boundingBox())?.y).toBe(before?.y);
});

test("double submit creates one plan", async ({ person, signedIn }) => {
  const page = await signedIn(await person());
  const held = await hold(page, "**/rest/v1/plans*", "POST");
  await page.goto("/dashboard");
  await page.getByRole("button", { name: "Create Plan" }).click();
  const dialog = page.getByRole("dialog", { name: "Create Plan" });
  await dialog.getByLabel("Title").fill("Only once");
  await dialog.getByRole("button", { name: "Create Plan" }).dblclick();
  await expect(dialog.getByRole("button", { name: "Creating..." })).toBeDisabled();
  held.release();
  await expectToast(page, "Plan created");
  await page.getByRole("link", { name: "Back to plans" }).click();
  await expect(page.getByRole("article")).toHaveCount(1);
  expect(held.count()).toBe(1);
});

test("two tabs share changes and sign-out", async ({ person, signedIn }) => {
  const maria = await person();
  await makePlans(maria, { title: "Shared by two tabs" });
  const page = await signedIn(maria);
  const other = await page.context().newPage();
  await page.goto("/dashboard");
  await other.goto("/dashboard");
  await expect(other.getByRole("article", { name: "Shared by two tabs" })).toBeVisible();

  await page.getByRole("button", { name: "Create Plan" }).click();
  await page.getByLabel("Title").fill("Made in the first");
  await page.getByRole("dialog").getByRole("button", { name: "Create Plan" }).click();
  await expect(other.getByRole("article", { name: "Made in the first" })).toBeVisible();

  await other.getByRole("button", { name: "User menu" }).click();
  await other.getByRole("menuitem", { name: "Sign out" }).click();
  await expect(other).toHaveURL("/login");
  // The next user of this machine sees nothing in the other tab either.
  await expect(page).toHaveURL("/login");
});

test.describe("offline", () => {
  // The browser's messages for the requests that fail here.
  test.use({ allowedComplaint: /ERR_INTERNET_DISCONNECTED|WebSocket connection/ });

  test("input is kept and can be saved after reconnecting", async ({ person, signedIn }) => {
    const page = await signedIn(await person());
    await page.goto("/dashboard");
    await page.getByRole("button", { name: "Create Plan" }).click();
    const dialog = page.getByRole("dialog", { name: "Create Plan" });
    await dialog.getByLabel("Title").fill("Written on a train");
    await expect(dialog.getByRole("textbox", { name: "Description" })).toBeVisible();
    await page.context().setOffline(true);
    await expect(page.getByText("You are offline. Changes cannot be saved.")).toBeVisible();
    await dialog.getByRole("button", { name: "Create Plan" }).click();
    await expectToast(page, "Error creating plan");
    await expectToast(page, "The server could not be reached. Check your connection and try again.");
    await expect(dialog.getByLabel("Title")).toHaveValue("Written on a train");
    await page.context().setOffline(false);
    await expect(page.getByText("You are offline. Changes cannot be saved.")).toBeHidden();
    await dialog.getByRole("button", { name: "Create Plan" }).click();
    // The new plan opens.
    await expect(page.getByRole("heading", { level: 1, name: "Written on a train" })).toBeVisible();
  });

  test("failed check-off is reverted", async ({ person, signedIn }) => {
    const maria = await person();
    const { id } = await makePlan(maria, "Offline", { Hubs: [{ title: "Find a hall" }] });
    const page = await signedIn(maria);
    await page.goto(`/plan/${id}`);
    const task = page.getByRole("checkbox", { name: "Find a hall" });
    await expect(task).toBeVisible();
    await page.context().setOffline(true);
    await task.click();
    await expectToast(page, "Error updating task status");
    await expect(task).not.toBeChecked();
  });

  test("optional data fails separately and recovers", async ({ person, signedIn }) => {
    const maria = await person();
    const { id } = await makePlan(maria, "Extras", { Hubs: [{ title: "Find a hall" }] });
    const page = await signedIn(maria);
    const extras = /\/assets\/(?:toaster|upgrade-prompt|user-menu)-/;
    const missed = new Set<string>();
    await page.route(extras, async (route) => {
      missed.add(extras.exec(route.request().url())?.[0] ?? "");
      await route.abort("internetdisconnected");
    });
    await page.goto(`/plan/${id}`);
    await expect.poll(() => missed.size).toBe(3);
    const task = page.getByRole("checkbox", { name: "Find a hall" });
    await task.click();
    await expect(task).toBeChecked();
    await page.unroute(extras);
    await expect(page.getByRole("button", { name: "User menu" })).toBeVisible();
    // The toast region may be rendered a moment later.
    await expect(page.getByRole("region", { name: "Notifications" })).toBeAttached();
  });

  test("unloaded tab and dialog recover after reconnecting", async ({ administrator, signedIn }) => {
    const page = await signedIn(await administrator());
    await page.goto("/admin/marketing");
    const title = page.getByRole("textbox", { name: "Title", exact: true });
    await title.fill("Written on a train");
    await page.context().setOffline(true);
    await page.getByRole("tab", { name: "Subscription Prompt" }).click();
    await expect(page.getByRole("heading", { name: "This part could not be loaded" })).toBeVisible();
    await page.context().setOffline(false);
    await expect(page.getByRole("button", { name: "Save Prompt" })).toBeVisible();
    await page.getByRole("tab", { name: "Page Content" }).click();
    await expect(title).toHaveValue("Written on a train");

    await page.goto("/dashboard");
    const create = page.getByRole("button", { name: "Create Plan" }).first();
    await expect(create).toBeEnabled();
    await page.context().setOffline(true);
    await create.click();
    await expectToast(page, "This could not be opened");
    await page.context().setOffline(false);
    await create.click();
    await expect(page.getByRole("dialog", { name: "Create Plan" }).getByLabel("Title")).toBeVisible();
  });
});
