import type { Page } from "@playwright/test";
import axe from "axe-core";
import { expect, looks } from "./fixtures";

/** Waits until all animations and transitions have ended. */
export async function settled(page: Page) {
  // A change of theme starts its transitions in the next frames.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await page.waitForFunction(() =>
    document
      .getAnimations()
      .every(
        (animation) => animation.playState !== "running" || animation.effect?.getComputedTiming().endTime === Infinity,
      ),
  );
}

/** axe's violations on the page, with their elements. */
export async function faultsOf(page: Page) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe.source);
  const violations = await page.evaluate(async () => {
    const { axe: injected } = window as unknown as { axe: typeof axe };
    // Without the list of passed checks, which is slow to build.
    return (await injected.run(document, { resultTypes: ["violations"] })).violations;
  });
  return violations.map(({ id, nodes }) => ({ id, at: nodes.map((node) => node.html) }));
}

interface Options {
  /** This state exists only on narrow screens. */
  phoneOnly?: boolean;
  /** Called for each theme and width, before the page is checked. */
  inLook?: (look: { colorScheme: "light" | "dark"; width: number }) => Promise<unknown>;
}

/** Asserts for each theme and width that axe finds no violation and nothing overflows. */
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
