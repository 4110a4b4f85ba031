import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { expect, makePlans, test } from "./fixtures";

interface Screen {
  name: string;
  path: string;
  signedIn?: boolean;
  plans?: boolean;
  /** Brings the screen into the state in question. */
  arrange: (page: Page) => Promise<void>;
}

const heading = (name: string) => (page: Page) =>
  expect(page.getByRole("heading", { name, exact: true })).toBeVisible();

const screens: Screen[] = [
  { name: "landing page", path: "/", arrange: heading("Strategic Planning Made Simple") },
  { name: "log in", path: "/login", arrange: heading("Welcome back") },
  {
    name: "sign up, with its errors",
    path: "/register",
    arrange: async (page) => {
      await page.getByRole("button", { name: "Sign Up" }).click();
      await expect(page.getByText("You must agree to the terms and privacy policy")).toBeVisible();
    },
  },
  { name: "forgot password", path: "/forgot-password", arrange: heading("Forgot your password?") },
  {
    name: "forgot password, sent",
    path: "/forgot-password",
    arrange: async (page) => {
      await page.getByLabel("Email").fill("nobody@example.org");
      await page.getByRole("button", { name: "Send Reset Link" }).click();
      await expect(page.getByRole("heading", { name: "Check your email" })).toBeFocused();
    },
  },
  { name: "reset password, without a link", path: "/reset-password", arrange: heading("Reset your password") },
  {
    name: "reset password, with its errors",
    path: "/reset-password#access_token=none&type=recovery",
    arrange: async (page) => {
      await page.getByRole("button", { name: "Reset Password" }).click();
      await expect(page.getByText("Password must be at least 6 characters").first()).toBeVisible();
    },
  },
  { name: "not found", path: "/no/such/page", arrange: heading("404") },
  { name: "dashboard, empty", path: "/dashboard", signedIn: true, arrange: heading("No Strategic Plans Yet") },
  { name: "dashboard", path: "/dashboard", signedIn: true, plans: true, arrange: heading("Warm meals") },
  {
    name: "dashboard, editing",
    path: "/dashboard",
    signedIn: true,
    plans: true,
    arrange: async (page) => {
      await page.getByRole("button", { name: "Edit Warm meals" }).click();
      await expect(page.getByRole("dialog", { name: "Edit Plan" })).toBeVisible();
    },
  },
  {
    name: "dashboard, user menu",
    path: "/dashboard",
    signedIn: true,
    plans: true,
    arrange: async (page) => {
      await page.getByRole("button", { name: "User menu" }).click();
      await expect(page.getByRole("menu")).toBeVisible();
    },
  },
];

/** Waits until no colour is between two themes: a contrast in between is neither's. */
const settled = (page: Page) =>
  page.waitForFunction(() =>
    document
      .getAnimations()
      .every(
        (animation) => animation.playState !== "running" || animation.effect?.getComputedTiming().endTime === Infinity,
      ),
  );

for (const screen of screens) {
  test.describe(screen.name, () => {
    // Nothing is judged while it fades.
    test.use({ contextOptions: { reducedMotion: "reduce" } });

    test("nothing for axe to find, nothing beyond the edge", async ({ page: visitors, person, signedIn }) => {
      // Four examinations of the whole page.
      test.slow();
      let page = visitors;
      if (screen.signedIn) {
        const maria = await person();
        if (screen.plans) await makePlans(maria, plan);
        page = await signedIn(maria);
      }
      await page.goto(screen.path);
      await screen.arrange(page);

      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        await expect(page.locator("html")).toHaveClass(colorScheme === "dark" ? "dark" : "");
        for (const width of [375, 1280]) {
          await page.setViewportSize({ width, height: 800 });
          await settled(page);
          const { violations } = await new AxeBuilder({ page }).analyze();
          const faults = violations.map(({ id, nodes }) => ({ id, at: nodes.map((node) => node.html) }));
          expect.soft(faults, `${colorScheme}, ${width} px`).toEqual([]);
          const excess = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
          expect.soft(excess, `${colorScheme}, ${width} px: pixels beyond the edge`).toBeLessThanOrEqual(0);
        }
      }
    });
  });
}

const plan = {
  title: "Warm meals",
  description:
    "<p>For <strong>every</strong> district, and averyveryverylongwordthatnobodycanbreakwithoutbeingtoldto</p>",
};

test("the narrowest phones lose nothing", async ({ page, person }) => {
  await person();
  await page.setViewportSize({ width: 360, height: 640 });
  for (const path of ["/", "/login", "/register", "/forgot-password", "/reset-password", "/no/such/page"]) {
    await page.goto(path);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  }
});

test("the menu of a phone", async ({ page }) => {
  await page.setViewportSize({ width: 375, height: 700 });
  await page.goto("/");
  await page.getByRole("button", { name: "Open menu" }).click();
  await page.getByRole("link", { name: "Log In" }).click();
  await expect(page).toHaveURL("/login");
  await expect(page.getByRole("button", { name: "Open menu" })).toBeVisible();
});

test("the theme follows the system until somebody chooses, and the choice stays", async ({ page }) => {
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

test("an unknown address says so and leads home", async ({ page }) => {
  await page.goto("/no/such/page");
  await expect(page.getByText("Oops! Page not found")).toBeVisible();
  await page.getByRole("link", { name: "Return to Home" }).click();
  await expect(page).toHaveURL("/");
});

test.describe("a server without a configuration", () => {
  // The browser reports the error that React caught, and so do we.
  test.use({ allowedComplaint: /did not give its configuration/ });

  test("is told of, with a way to try again; the landing page does without", async ({ page }) => {
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
