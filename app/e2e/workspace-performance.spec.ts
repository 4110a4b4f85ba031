import type { Page } from "@playwright/test";
import { expect, type Person, test } from "./fixtures";
import { server } from "./workspace";

// The largest plan, with 500 priorities and 5,000 tasks, opens in 1 s; a check-off and a move are painted in 100 ms. Other
// processes may slow this machine down, so the best of several attempts counts; the figures are annotations.

const [priorityCount, taskCount] = [500, 5000];
/** The server's `max_rows`. */
const atOnce = 1000;

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
  for (let from = 0; from < taskCount; from += atOnce) {
    await server()
      .from("tasks")
      .insert(tasks.slice(from, from + atOnce))
      .throwOnError();
  }
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

test("plan with 5,000 tasks stays responsive", async ({ person, signedIn }) => {
  test.slow();
  const maria = await person();
  const path = `/plan/${await largePlan(maria)}`;
  const page = await signedIn(maria);
  await page.addInitScript(
    ([priorities, tasks]) => {
      const look = () => {
        const progress = document.querySelector('section[aria-label="Progress"]');
        const cards = document.querySelectorAll('section[aria-label="Priorities"] article');
        if (progress?.textContent?.includes(`/${tasks}`) && cards.length === priorities) {
          requestAnimationFrame(() => Object.assign(window, { standsAt: performance.now() }));
        } else requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    },
    [priorityCount, taskCount],
  );

  const openings: number[] = [];
  while (openings.length < 8 && !(least(openings) < 1000)) openings.push(await openingTime(page, path));
  note("opens, ms", openings);
  expect(least(openings)).toBeLessThan(1000);

  // Cards far from the screen are outlines.
  expect(await page.getByRole("button", { name: /^View Tasks/ }).count()).toBeLessThan(40);
  await page
    .getByRole("button", { name: /^View Tasks/ })
    .first()
    .click();
  await expect(page.getByRole("checkbox")).toHaveCount(taskCount / priorityCount);

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

  const moves: number[] = [];
  for (let index = 0; index < 8 && !(least(moves) < 100); index += 1) {
    await page
      .getByRole("button", { name: /^Actions for priority/ })
      .nth(1)
      .click();
    const item = page.getByRole("menuitem", { name: "Move up" });
    moves.push(
      await item.evaluate(async (element: HTMLElement) => {
        const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
        const first = () => document.querySelector('section[aria-label="Priorities"] h3')?.textContent;
        const before = first();
        const start = performance.now();
        element.click();
        while (first() === before) await frame();
        await frame();
        return performance.now() - start;
      }),
    );
  }
  note("moves until they are painted, ms", moves);
  expect(least(moves)).toBeLessThan(100);

  const slowest: number[] = [];
  while (slowest.length < 5 && !(least(slowest) < 34)) {
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
  expect(least(slowest)).toBeLessThan(34);
});
