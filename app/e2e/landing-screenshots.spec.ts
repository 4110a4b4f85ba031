import { mkdirSync, writeFileSync } from "node:fs";
import type { Locator, Page } from "@playwright/test";
import { settled } from "./examine";
import { test } from "./fixtures";
import { priorityCard } from "./workspace";

// Not a test: takes the pictures that the landing page shows, of the demo plan, in both themes.
const folder = "src/features/marketing/pictures";
const demoPlan = "5eed1000-0000-4000-8000-000000000001";
/** Of the window, in CSS pixels: the pictures have it, too. */
const columnWidth = 592;
const heroWidth = 768;

test.use({ allowedComplaint: /./ });

interface Size {
  width?: number;
  height: number;
}

/** The upper part of an element as WebP, which Playwright cannot write: Chromium's canvas can. */
async function picture(page: Page, element: Locator, { width = columnWidth, height }: Size, path: string) {
  await page.setViewportSize({ width, height: 3000 });
  await settled(page);
  await element.scrollIntoViewIfNeeded();
  const box = await element.boundingBox();
  if (!box) throw new Error(`${path}: nothing to see`);
  const png = await page.screenshot({ clip: { x: 0, y: box.y - 12, width, height } });
  const webp = await page.evaluate(
    async (data) => {
      const image = await createImageBitmap(await (await fetch(data)).blob());
      const canvas = new OffscreenCanvas(image.width, image.height);
      canvas.getContext("2d")?.drawImage(image, 0, 0);
      const bytes = await (await canvas.convertToBlob({ type: "image/webp", quality: 0.82 })).bytes();
      return Array.from(bytes);
    },
    `data:image/png;base64,${png.toString("base64")}`,
  );
  writeFileSync(path, Uint8Array.from(webp));
}

test("landing pictures", async ({ browser }) => {
  mkdirSync(folder, { recursive: true });
  // The page reads its own picture from a data: URL.
  const context = await browser.newContext({
    bypassCSP: true,
    deviceScaleFactor: 2,
    reducedMotion: "reduce",
    viewport: { width: columnWidth, height: 3000 },
  });
  const page = await context.newPage();
  await page.goto("/login");
  await page.getByLabel("Email").fill("demo@basalt.local");
  await page.getByLabel("Password").fill("basalt-demo");
  await page.getByRole("button", { name: "Log In" }).click();
  await page.waitForURL("/dashboard");
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.goto(`/plan/${demoPlan}`);
    await settled(page);
    const plan = { width: heroWidth, height: 604 };
    await picture(page, page.getByRole("link", { name: "Back to plans" }), plan, `${folder}/plan.${colorScheme}.webp`);
    await picture(
      page,
      priorityCard(page, "Open four neighborhood hubs"),
      { height: 480 },
      `${folder}/priority.${colorScheme}.webp`,
    );
    await page.getByRole("tab", { name: "Team" }).click();
    await settled(page);
    await picture(
      page,
      page.getByRole("region", { name: "Team" }),
      { height: 400 },
      `${folder}/team.${colorScheme}.webp`,
    );
    await page.goto(`/plan/${demoPlan}/report`);
    await settled(page);
    await picture(page, page.getByRole("article"), { height: 600 }, `${folder}/report.${colorScheme}.webp`);
  }
  await context.close();
});
