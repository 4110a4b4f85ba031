import { gzipSync } from "node:zlib";
import type { Page, Response } from "@playwright/test";
import { expect, test } from "./fixtures";
import { makePlan } from "./workspace";

// Costs of a page that do not depend on the machine: scripts, in KB of 1,024 bytes, and layout shift while loading.

/** Fetched on the first movement of the pointer, which Chromium sometimes reports before anyone has moved it. */
const fetchedOnUse = /\/find(er)?-[^/]*$/;

/** Kilobytes of compressed scripts until the screen is rendered and the network is idle. */
async function scriptsOf(page: Page, path: string) {
  const scripts: Response[] = [];
  page.on("response", (response) => {
    const isScript = response.request().resourceType() === "script";
    if (isScript && !fetchedOnUse.test(response.url())) scripts.push(response);
  });
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await page.waitForLoadState("networkidle");
  // Later responses are not read: the page may be closed by then.
  const bodies = await Promise.all(scripts.map((script) => script.body()));
  const bytes = bodies.map((script) => gzipSync(script).length);
  const kilobytes = bytes.reduce((sum, size) => sum + size, 0) / 1000;
  test.info().annotations.push({ type: "scripts, gzip", description: `${path}: ${kilobytes.toFixed(2)} kB` });
  return kilobytes;
}

/** The cumulative layout shift until the fonts are loaded. */
async function layoutShift(page: Page) {
  return page.evaluate(async () => {
    await document.fonts.ready;
    const shifts = await new Promise<PerformanceEntry[]>((resolve) => {
      const observer = new PerformanceObserver((list) => resolve(list.getEntries()));
      observer.observe({ type: "layout-shift", buffered: true });
      // The observer is not called without entries.
      setTimeout(() => resolve([]), 500);
    });
    return shifts.reduce((sum, shift) => sum + ("value" in shift ? Number(shift.value) : 0), 0);
  });
}

test("public pages meet script and layout-shift budgets", async ({ browser }) => {
  for (const path of ["/", "/pricing", "/terms", "/privacy"]) {
    // A browser with an empty cache.
    const context = await browser.newContext();
    const page = await context.newPage();
    expect.soft(await scriptsOf(page, path), `${path}: kB of scripts`).toBeLessThanOrEqual(153.6);
    if (path === "/") expect.soft(await layoutShift(page), `${path}: layout shift`).toBeLessThan(0.02);
    await context.close();
  }
});

test("user pages meet script and layout-shift budgets", async ({ person, signedIn }) => {
  const maria = await person();
  const { id } = await makePlan(maria, "Weighed", {
    Hubs: [{ title: "Find a hall" }, { title: "Sign", done: true }],
  });
  for (const path of [
    "/dashboard",
    "/dashboard/subscription",
    `/plan/${id}`,
    `/plan/${id}/print`,
    `/plan/${id}/report`,
  ]) {
    const page = await signedIn(maria);
    expect.soft(await scriptsOf(page, path), `${path}: kB of scripts`).toBeLessThanOrEqual(266.2);
    if (!/(print|report)$/.test(path)) expect.soft(await layoutShift(page), `${path}: layout shift`).toBeLessThan(0.02);
    await page.close();
  }
});

test("admin area meets its script budget", async ({ administrator, signedIn }) => {
  test.slow();
  const maria = await administrator();
  for (const place of [
    "",
    "/audit-log",
    "/health",
    "/integrations/email",
    "/marketing",
    "/settings",
    "/subscription-plans",
    "/users",
    "/webhooks",
  ]) {
    const page = await signedIn(maria);
    const path = `/admin${place}`;
    expect.soft(await scriptsOf(page, path), `${path}: kB of scripts`).toBeLessThanOrEqual(266.2);
    await page.close();
  }
});
