import type { Page } from "@playwright/test";
import { expect, test } from "./fixtures";

// These tests change what every visitor sees, so they run on the server that few other tests use.
const server = process.env.BASALT_CONFIRMING_URL;
test.use({ baseURL: server });
test.skip(!server, "BASALT_CONFIRMING_URL names no server of its own for these tests");
test.describe.configure({ mode: "serial" });

async function logIn(page: Page, email: string) {
  await page.goto("/login");
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password").fill("basalt-demo");
  await page.getByRole("button", { name: "Log In" }).click();
  await expect(page).toHaveURL("/dashboard");
}

/** Opens the landing page and waits until it is subscribed to changes of the table. */
async function watchLive(page: Page, table: string) {
  const joined = page.waitForEvent("websocket").then((socket) =>
    socket.waitForEvent("framereceived", {
      predicate: ({ payload }) =>
        String(payload).includes("Subscribed to PostgreSQL") && String(payload).includes(`:${table}:`),
    }),
  );
  await page.goto("/");
  await joined;
}

/** Annotates the run with the other browser's time. */
function note(what: string, since: number) {
  test.info().annotations.push({ type: "live", description: `${what}: ${Date.now() - since} ms after the press` });
}

test("hero title changes live on another browser", async ({ page: visitor, browser }) => {
  const admin = await (await browser.newContext()).newPage();
  await logIn(admin, "demo@basalt.local");
  await watchLive(visitor, "marketing_content");
  const title = visitor.getByRole("heading", { level: 1 });
  await expect(title).toHaveText("Strategic Planning Made Simple");

  await admin.goto("/admin/marketing");
  const field = admin.getByRole("textbox", { name: "Title", exact: true });
  const before = await field.inputValue();
  await field.fill("Plans that outlast us");
  const pressed = Date.now();
  await admin.getByRole("button", { name: "Save Changes" }).click();
  await expect(title).toHaveText("Plans that outlast us");
  note("hero title", pressed);
  await expect(admin.getByText("Marketing content updated")).toBeVisible();

  await admin.getByRole("switch", { name: "Visible" }).click();
  await admin.getByRole("button", { name: "Save Changes" }).click();
  await expect(visitor.getByText("Plans that outlast us")).toHaveCount(0);
  await admin.getByRole("switch", { name: "Visible" }).click();
  await field.fill(before);
  await admin.getByRole("button", { name: "Save Changes" }).click();
  await expect(title).toHaveText("Strategic Planning Made Simple");
  await admin.context().close();
});

const drawing =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 32"><rect width="120" height="32" fill="#0f5c55"/></svg>';

test("logo changes live on another browser", async ({ page: visitor, browser }) => {
  const admin = await (await browser.newContext()).newPage();
  await logIn(admin, "demo@basalt.local");
  await watchLive(visitor, "brand_assets");
  await admin.goto("/admin/settings?tab=logo");
  await expect(admin.getByRole("button", { name: "Upload regular logo" })).toBeEnabled();
  await admin
    .getByLabel("File for the regular logo")
    .setInputFiles({ name: "ours.svg", mimeType: "image/svg+xml", buffer: Buffer.from(drawing) });
  const pressed = Date.now();
  await admin.getByRole("button", { name: "Save regular logo" }).click();
  const shown = visitor.getByRole("banner").locator("img");
  await expect(shown).toHaveAttribute("src", /\/storage\/v1\/object\/public\/public\/logos\/regular_.+\.svg$/);
  note("logo", pressed);
  expect(await shown.evaluate((image: HTMLImageElement) => image.naturalWidth)).toBeGreaterThan(0);
  await admin.context().close();
});

test.describe("subscription prompt", () => {
  test.use({ upgradePrompt: true });

  test("shows saved texts to new and current visitors", async ({ page: maya, browser }) => {
    const admin = await (await browser.newContext()).newPage();
    await logIn(admin, "demo@basalt.local");
    await admin.goto("/admin/settings?tab=subscription-prompt");
    const prompt = {
      title: admin.getByLabel("Title", { exact: true }),
      delay: admin.getByLabel("Delay (seconds)"),
    };
    await expect(prompt.title).not.toHaveValue("");
    const [title, delay] = [await prompt.title.inputValue(), await prompt.delay.inputValue()];
    await prompt.title.fill("Grow with us");
    await prompt.delay.fill("1");
    await admin.getByRole("button", { name: "Save Prompt" }).click();
    await expect(admin.getByText("Subscription prompt saved")).toBeVisible();

    await logIn(maya, "maya@basalt.local");
    await expect(maya.getByRole("dialog", { name: "Grow with us" })).toBeVisible();

    // Also on pages that are already open.
    await prompt.title.fill("Grow further");
    const pressed = Date.now();
    await admin.getByRole("button", { name: "Save Prompt" }).click();
    await expect(maya.getByRole("dialog", { name: "Grow further" })).toBeVisible();
    note("prompt", pressed);

    await prompt.title.fill(title);
    await prompt.delay.fill(delay);
    const restored = admin.waitForResponse((response) => response.request().method() === "PATCH");
    await admin.getByRole("button", { name: "Save Prompt" }).click();
    expect((await restored).ok()).toBe(true);
    await admin.context().close();
  });
});
