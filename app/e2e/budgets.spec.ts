import { gzipSync } from "node:zlib";
import type { Page } from "@playwright/test";
import { expect, test } from "./fixtures";
import { makePlan } from "./workspace";

// What a page costs whatever the machine does: its scripts, in KB of 1,024 bytes, and how much it moves while it loads.

/** Kilobytes of scripts, compressed, until the screen stands and the browser is idle. */
async function scriptsOf(page: Page, path: string) {
  const scripts: Promise<Buffer>[] = [];
  page.on("response", (response) => {
    if (response.request().resourceType() === "script") scripts.push(response.body());
  });
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await page.evaluate(() => new Promise((resolve) => requestIdleCallback(resolve)));
  const bytes = (await Promise.all(scripts)).map((script) => gzipSync(script).length);
  const kilobytes = bytes.reduce((sum, size) => sum + size, 0) / 1000;
  test.info().annotations.push({ type: "scripts, gzip", description: `${path}: ${kilobytes.toFixed(0)} kB` });
  return kilobytes;
}

for (const path of ["/", "/pricing", "/terms", "/privacy"]) {
  test(`${path} keeps to its budget of scripts`, async ({ page }) => {
    expect(await scriptsOf(page, path)).toBeLessThanOrEqual(153.6);
  });
}

for (const path of [
  "/dashboard",
  "/dashboard/subscription",
  "/plan/{id}",
  "/plan/{id}/print",
  "/admin",
  "/admin/audit-log",
  "/admin/health",
  "/admin/integrations/email",
  "/admin/marketing",
  "/admin/settings",
  "/admin/subscription-plans",
  "/admin/users",
  "/admin/webhooks",
]) {
  test(`${path} keeps to its budget of scripts`, async ({ administrator, person, signedIn }) => {
    const maria = path.startsWith("/admin") ? await administrator() : await person();
    const { id } = await makePlan(maria, "Weighed", {
      Hubs: [{ title: "Find a hall" }, { title: "Sign", done: true }],
    });
    const page = await signedIn(maria);
    expect(await scriptsOf(page, path.replace("{id}", id))).toBeLessThanOrEqual(266.2);
  });
}

/** How far a load of the page moves what already stands, until its fonts are there: the cumulative layout shift. */
async function layoutShift(page: Page, path: string) {
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  return page.evaluate(async () => {
    await document.fonts.ready;
    const shifts = await new Promise<PerformanceEntry[]>((resolve) => {
      const observer = new PerformanceObserver((list) => resolve(list.getEntries()));
      observer.observe({ type: "layout-shift", buffered: true });
      // Without a single entry the observer is never called.
      setTimeout(() => resolve([]), 500);
    });
    return shifts.reduce((sum, shift) => sum + ("value" in shift ? Number(shift.value) : 0), 0);
  });
}

test("the landing page stands still", async ({ page }) => {
  expect(await layoutShift(page, "/")).toBeLessThan(0.02);
});

for (const path of ["/dashboard", "/dashboard/subscription", "/plan/{id}"]) {
  test(`${path} stands still`, async ({ person, signedIn }) => {
    const maria = await person();
    const { id } = await makePlan(maria, "Weighed", {
      Hubs: [{ title: "Find a hall" }, { title: "Sign", done: true }],
    });
    const page = await signedIn(maria);
    expect(await layoutShift(page, path.replace("{id}", id))).toBeLessThan(0.02);
  });
}
