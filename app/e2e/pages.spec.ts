import { examine } from "./examine";
import { expect, test } from "./fixtures";
import { type Screen, visits } from "./screens";

for (const [visit, screens] of visits) {
  test.describe(visit, () => {
    // Without animations, axe does not measure colours in transition.
    test.use({ contextOptions: { reducedMotion: "reduce" } });

    test("passes axe and fits the window", async ({ page: visitors, person, administrator, signedIn }) => {
      // axe checks whole pages.
      test.setTimeout(300_000);
      const [first] = screens;
      const maria = first?.as && (await (first.as === "administrator" ? administrator() : person()));
      const page = maria ? await signedIn(maria) : visitors;
      const prepared = new Map<Screen["prepare"], string | undefined>();
      for (const screen of screens) {
        await test.step(screen.name, async () => {
          const { prepare } = screen;
          if (maria && prepare && !prepared.has(prepare)) prepared.set(prepare, await prepare(maria));
          await page.unrouteAll({ behavior: "ignoreErrors" });
          await page.setViewportSize({ width: screen.phone ? 375 : 1280, height: 800 });
          await page.goto(prepared.get(prepare) ?? screen.path);
          await screen.arrange(page);
          await examine(page, screen.name, { phoneOnly: screen.phone ?? false });
        });
      }
    });
  });
}

test("narrowest phones show everything", async ({ page }) => {
  await page.setViewportSize({ width: 320, height: 640 });
  for (const path of [
    "/",
    "/pricing",
    "/terms",
    "/privacy",
    "/login",
    "/register",
    "/forgot-password",
    "/reset-password",
    "/no/such/page",
  ]) {
    await page.goto(path);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  }
});

test("phone menu works", async ({ page }) => {
  await page.setViewportSize({ width: 375, height: 700 });
  await page.goto("/");
  await page.getByRole("button", { name: "Open menu" }).click();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("button", { name: "Open menu" })).toBeFocused();
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "Log In" }).click();
  await expect(page).toHaveURL("/login");
  await expect(page.getByRole("button", { name: "Open menu" })).toBeVisible();
});

test("theme follows the system until the user chooses", async ({ page }) => {
  const html = page.locator("html");
  await page.emulateMedia({ colorScheme: "dark" });
  await page.goto("/");
  await expect(html).toHaveClass(/dark/);
  await page.getByRole("button", { name: "Switch to light theme" }).click();
  await expect(html).not.toHaveClass(/dark/);
  await page.reload();
  await expect(page.getByRole("button", { name: "Switch to dark theme" })).toBeVisible();
  await expect(html).not.toHaveClass(/dark/);
});

test("unknown address shows a not-found page", async ({ page }) => {
  await page.goto("/no/such/page");
  await expect(page.getByText("Oops! Page not found")).toBeVisible();
  await page.getByRole("link", { name: "Return to Home" }).click();
  await expect(page).toHaveURL("/");
});

test.describe("server without configuration", () => {
  // Both the browser and the app report the error that React caught.
  test.use({ allowedComplaint: /did not give its configuration/ });

  test("shows an error with retry; the landing page still works", async ({ page }) => {
    let away = true;
    await page.route("**/app-config.json", (route) => (away ? route.fulfill({ status: 404 }) : route.continue()));
    await page.goto("/");
    await expect(page.getByRole("heading", { name: "Strategic Planning Made Simple" })).toBeVisible();
    await page.getByRole("link", { name: "Log In" }).click();
    await expect(page.getByRole("heading", { name: "This page could not be shown" })).toBeVisible();
    await expect(page.getByText("The server did not give its configuration (404).")).toBeVisible();
    away = false;
    await page.getByRole("button", { name: "Try again" }).click();
    await expect(page.getByRole("heading", { name: "Welcome back" })).toBeVisible();
  });
});
