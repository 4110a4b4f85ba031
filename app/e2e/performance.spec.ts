import type { Page } from "@playwright/test";
import { expect, test } from "./fixtures";
import { makePlan, server } from "./workspace";

/** Milliseconds to the largest contentful paint of one load. */
async function largestPaint(page: Page, path: string) {
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  return page.evaluate(async () => {
    await document.fonts.ready;
    const paints = await new Promise<PerformanceEntry[]>((resolve) => {
      const observer = new PerformanceObserver((list) => resolve(list.getEntries()));
      observer.observe({ type: "largest-contentful-paint", buffered: true });
      // The observer is not called without entries.
      setTimeout(() => resolve([]), 500);
    });
    return paints.at(-1)?.startTime ?? Number.POSITIVE_INFINITY;
  });
}

/** Loads the page until it is fast enough once: other processes may slow a load down, but not eight loads. */
async function bestLoad(page: Page, path: string, withinMs: number) {
  const loads: number[] = [];
  while (loads.length < 8 && !loads.some((ms) => ms < withinMs)) loads.push(await largestPaint(page, path));
  test.info().annotations.push({ type: "largest contentful paint, ms", description: `${path}: ${loads.join(", ")}` });
  return Math.min(...loads);
}

test("landing page loads quickly", async ({ page }) => {
  expect(await bestLoad(page, "/", 1000)).toBeLessThan(1000);
});

test("landing page loads on a slow phone and network", async ({ page }) => {
  test.slow();
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Network.enable");
  // Each load has an empty cache.
  await devtools.send("Network.setCacheDisabled", { cacheDisabled: true });
  const megabit = (1024 * 1024) / 8;
  await devtools.send("Network.emulateNetworkConditions", {
    offline: false,
    latency: 170,
    downloadThroughput: 9 * megabit,
    uploadThroughput: 9 * megabit,
  });
  await devtools.send("Emulation.setCPUThrottlingRate", { rate: 4 });
  expect(await bestLoad(page, "/", 2000)).toBeLessThan(2000);
});

for (const path of ["/dashboard", "/dashboard/subscription", "/plan/{id}"]) {
  test(`${path} loads quickly`, async ({ person, signedIn }) => {
    const maria = await person();
    const { id } = await makePlan(maria, "Weighed", {
      Hubs: [{ title: "Find a hall" }, { title: "Sign", done: true }],
    });
    const page = await signedIn(maria);
    expect(await bestLoad(page, path.replace("{id}", id), 1000)).toBeLessThan(1000);
  });
}

test("check-off responds quickly", async ({ person, signedIn }) => {
  const maria = await person();
  const tasks = Array.from({ length: 30 }, (_, index) => ({ title: `Task ${index + 1}` }));
  const { id } = await makePlan(maria, "Long", { Hubs: tasks });
  const page = await signedIn(maria);
  await page.addInitScript(() => {
    const spent: number[] = [];
    Object.assign(window, { spent });
    const observer = new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        if ("interactionId" in entry && Number(entry.interactionId) > 0) spent.push(entry.duration);
      }
    });
    // The first input is always reported: its entry proves that this measures.
    observer.observe({ type: "first-input", buffered: true });
    observer.observe({ type: "event", durationThreshold: 16, buffered: true } as PerformanceObserverInit);
  });
  await page.goto(`/plan/${id}`);
  const durations: number[] = [];
  // As with the loads: one of eight attempts must be fast enough.
  while (durations.length < 8 && !durations.some((duration) => duration < 100)) {
    const task = page.getByRole("checkbox", { name: `Task ${durations.length + 1}`, exact: true });
    await task.scrollIntoViewIfNeeded();
    await task.click();
    await expect(task).toBeChecked();
    const spent = await page.waitForFunction(() => {
      const { spent } = window as unknown as { spent: number[] };
      return spent.length > 0 && spent.splice(0);
    });
    durations.push(Math.max(...((await spent.jsonValue()) || [])));
  }
  test.info().annotations.push({ type: "interaction to next paint, ms", description: durations.join(", ") });
  expect(Math.min(...durations)).toBeLessThan(100);
});

test("event list stays fast with 50,000 events", async ({ administrator, signedIn }) => {
  test.slow();
  const run = Date.now().toString(36);
  for (let from = 0; from < 50_000; from += 2500) {
    const events = Array.from({ length: 2500 }, (_, index) => ({
      id: `evt_${run}_${from + index}`,
      event_type: (from + index) % 7 === 0 ? "invoice.payment_failed" : "invoice.paid",
      status: "processed",
      payload: { id: `evt_${run}_${from + index}`, type: "invoice.paid", data: { object: { object: "invoice" } } },
      created_at: new Date(Date.now() - (from + index) * 1000).toISOString(),
      processed_at: new Date().toISOString(),
    }));
    await server().from("webhook_events").insert(events).throwOnError();
  }
  const page = await signedIn(await administrator());
  const spent: Record<string, number> = {};
  const measure = async (what: string, act: () => Promise<unknown>) => {
    const start = Date.now();
    await act();
    spent[what] = Date.now() - start;
  };
  const table = page.getByRole("table");
  await measure("the page", async () => {
    await page.goto("/admin/webhooks");
    await expect(table.getByRole("row").nth(50)).toBeAttached();
  });
  await measure("a search for the oldest", async () => {
    await page.getByPlaceholder("Search events...").fill(`evt_${run}_49999`);
    await expect(page.getByText("Showing 1 webhook events")).toBeVisible();
  });
  await measure("a search for nothing", async () => {
    await page.getByPlaceholder("Search events...").fill("no such event at all");
    await expect(page.getByText("No matching webhook events found")).toBeVisible();
  });
  await page.getByPlaceholder("Search events...").fill("");
  await expect(table.getByRole("row").nth(50)).toBeAttached();
  await measure("the next page", async () => {
    const rows = await table.getByRole("row").count();
    await page.getByRole("button", { name: /^Load more/i }).click();
    await expect(table.getByRole("row").nth(rows + 1)).toBeAttached();
  });
  test.info().annotations.push({ type: "50,000 events, ms", description: JSON.stringify(spent) });
  await server().from("webhook_events").delete().like("id", `evt_${run}_%`).throwOnError();
});
