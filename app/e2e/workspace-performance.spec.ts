import type { Page } from "@playwright/test";
import { expect, type Person, test } from "./fixtures";
import { server } from "./workspace";

// A large plan with 30 priorities and 1,000 tasks opens in 1 s, and a check-off is painted in 100 ms. Other processes may
// slow this machine down, so the best of several attempts counts; the figures are annotations.

const [priorityCount, taskCount] = [30, 1000];

async function largePlan(maria: Person) {
  const plan = await maria.client
    .from("plans")
    .insert({ title: "Everything we do", user_id: maria.id })
    .select("id")
    .single()
    .throwOnError();
  const planId = plan.data.id;
  const priorities = await server()
    .from("priorities")
    .insert(Array.from({ length: priorityCount }, (_, index) => ({ plan_id: planId, title: `Priority ${index + 1}` })))
    .select("id")
    .throwOnError();
  const tasks = Array.from({ length: taskCount }, (_, index) => ({
    priority_id: priorities.data[index % priorityCount]?.id ?? "",
    title: `Task ${index + 1} of the plan`,
    description: "<p>Ask the school, the <strong>parish</strong> and the council; compare what they offer.</p>",
    measure_success: "Two offers in writing",
    due_date: `2099-0${(index % 9) + 1}-15`,
    responsible_party: ["Maya Fischer", "Tom Okafor"],
    is_completed: index % 3 === 0,
  }));
  await server().from("tasks").insert(tasks).throwOnError();
  return planId;
}

const least = (figures: number[]) => Math.min(...figures);
const note = (type: string, figures: number[]) =>
  test.info().annotations.push({ type, description: figures.map((figure) => figure.toFixed(0)).join(", ") });

/** Milliseconds from the start of the navigation until the whole plan is rendered. */
async function openingTime(page: Page, path: string) {
  await page.goto(path);
  await page.waitForFunction(() => "standsAt" in window);
  return page.evaluate(() => Number((window as unknown as { standsAt: number }).standsAt));
}

test("plan with 1,000 tasks stays responsive", async ({ person, signedIn }) => {
  test.slow();
  const maria = await person();
  const path = `/plan/${await largePlan(maria)}`;
  const page = await signedIn(maria);
  await page.addInitScript(() => {
    const look = () => {
      const progress = document.querySelector('section[aria-label="Progress"]');
      const cards = document.querySelectorAll('section[aria-label="Priorities"] article');
      if (progress?.textContent?.includes("/1000") && cards.length === 30) {
        requestAnimationFrame(() => Object.assign(window, { standsAt: performance.now() }));
      } else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });

  const openings: number[] = [];
  while (openings.length < 8 && !(least(openings) < 1000)) openings.push(await openingTime(page, path));
  note("opens, ms", openings);
  expect(least(openings)).toBeLessThan(1000);

  // All sections expanded: the worst case.
  for (const button of await page.getByRole("button", { name: /^View Tasks/ }).all()) {
    if ((await button.getAttribute("aria-expanded")) === "false") await button.click();
  }
  await expect(page.getByRole("checkbox")).toHaveCount(taskCount);

  const checkOffs: number[] = [];
  for (let index = 0; index < 8 && !(least(checkOffs) < 100); index += 1) {
    checkOffs.push(
      await page.evaluate(async () => {
        const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
        const check = document.querySelector<HTMLElement>('[role="checkbox"][aria-checked="false"]');
        if (!check) throw new Error("no open task is left");
        const before = document.querySelector('section[aria-label="Progress"]')?.textContent;
        const start = performance.now();
        check.click();
        while (document.querySelector('section[aria-label="Progress"]')?.textContent === before) await frame();
        await frame();
        return performance.now() - start;
      }),
    );
    await expect(page.getByText("Task completed").first()).toBeVisible();
  }
  note("check-off until it is painted, ms", checkOffs);
  expect(least(checkOffs)).toBeLessThan(100);

  const slowest: number[] = [];
  while (slowest.length < 5 && !(least(slowest) < 150)) {
    slowest.push(
      await page.evaluate(async () => {
        window.scrollTo(0, 0);
        const frames: number[] = [];
        let last = await new Promise<number>(requestAnimationFrame);
        for (let step = 0; step < 120; step += 1) {
          window.scrollBy({ top: 400, behavior: "instant" });
          const now = await new Promise<number>(requestAnimationFrame);
          frames.push(now - last);
          last = now;
        }
        // The 95th percentile tolerates delays of the machine.
        return frames.sort((one, other) => one - other)[Math.floor(frames.length * 0.95)] ?? 0;
      }),
    );
  }
  note("scrolls, 95 of 100 frames within ms", slowest);
  expect(least(slowest)).toBeLessThan(150);
});
