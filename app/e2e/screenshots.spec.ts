import { settled } from "./examine";
import { test } from "./fixtures";
import { screens } from "./screens";

// Not a test: takes screenshots of every screen in every state, in phone and desktop sizes and both themes.
const folder = "screenshots";

for (const [device, width, height] of [
  ["phone", 375, 812],
  ["desk", 1280, 800],
] as const) {
  for (const screen of screens) {
    if (screen.phone && device !== "phone") continue;
    test.describe(`${device}: ${screen.name}`, () => {
      test.use({ contextOptions: { reducedMotion: "reduce" }, allowedComplaint: /./ });

      test("pictures", async ({ page: visitors, person, administrator, signedIn }) => {
        let page = visitors;
        let path: string | undefined;
        if (screen.as) {
          const maria = await (screen.as === "administrator" ? administrator() : person());
          path = await screen.prepare?.(maria);
          page = await signedIn(maria);
        }
        await page.setViewportSize({ width, height });
        await page.goto(path ?? screen.path);
        await screen.arrange(page);
        for (const colorScheme of ["light", "dark"] as const) {
          await page.emulateMedia({ colorScheme });
          await settled(page);
          await page.screenshot({
            path: `${folder}/${screen.name.replace(/[^a-z0-9]+/gi, "-")}.${device}.${colorScheme}.png`,
            fullPage: true,
          });
        }
      });
    });
  }
}
