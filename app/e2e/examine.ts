import type { Page } from "@playwright/test";
import axe from "axe-core";
import { expect, looks } from "./fixtures";

/** Waits until nothing moves: no colour between two themes, no dialog half faded. */
export async function settled(page: Page) {
  // A change of theme starts its transitions with the next frames.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await page.waitForFunction(() =>
    document
      .getAnimations()
      .every(
        (animation) => animation.playState !== "running" || animation.effect?.getComputedTiming().endTime === Infinity,
      ),
  );
}

/** What axe finds wrong with the page, and where. */
export async function faultsOf(page: Page) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe.source);
  const violations = await page.evaluate(async () => {
    const { axe: injected } = window as unknown as { axe: typeof axe };
    // Without the lists of what is right, which take long to make.
    return (await injected.run(document, { resultTypes: ["violations"] })).violations;
  });
  return violations.map(({ id, nodes }) => ({ id, at: nodes.map((node) => node.html) }));
}

interface Options {
  /** There is no such state on a wider screen. */
  phoneOnly?: boolean;
  /** Called in each look, before the page is judged. */
  inLook?: (look: { colorScheme: "light" | "dark"; width: number }) => Promise<unknown>;
}

/** Nothing for axe to find and nothing beyond the edge, in each of the looks. */
export async function examine(page: Page, what: string, { phoneOnly = false, inLook }: Options = {}) {
  for (const look of looks) {
    const { colorScheme, width } = phoneOnly ? { ...look, width: 375 } : look;
    await page.emulateMedia({ colorScheme });
    await expect(page.locator("html")).toHaveClass(colorScheme === "dark" ? "dark" : "");
    await page.setViewportSize({ width, height: 800 });
    await settled(page);
    await inLook?.({ colorScheme, width });
    expect.soft(await faultsOf(page), `${what}, ${colorScheme}, ${width} px`).toEqual([]);
    const excess = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    expect.soft(excess, `${what}, ${colorScheme}, ${width} px: pixels beyond the edge`).toBeLessThanOrEqual(0);
  }
}
