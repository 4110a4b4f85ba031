import { defineConfig, devices } from "@playwright/test";

// Against a real Basalt, which `cargo xtask e2e` or a developer has started.
export default defineConfig({
  testDir: "e2e",
  outputDir: "test-results",
  fullyParallel: true,
  forbidOnly: Boolean(process.env.CI),
  retries: 0,
  // One more than the cores of the smallest machine: a test also waits, for a toast or a retry.
  workers: 3,
  reporter: [["list"]],
  projects: [
    { name: "app", testIgnore: /performance|screenshots/ },
    // Times depend on what else the machine does: `cargo xtask nightly`, or `npm run performance`.
    ...(process.env.PERFORMANCE ? [{ name: "performance", testMatch: /performance/ }] : []),
    // Pictures to look at, by hand: `npm run screenshots`.
    ...(process.env.SCREENSHOTS ? [{ name: "screenshots", testMatch: /screenshots/ }] : []),
  ],
  // Generous: a machine that also builds is no reason to fail. What must be fast is in performance.spec.ts.
  timeout: 60_000,
  expect: { timeout: 15_000 },
  use: {
    ...devices["Desktop Chrome"],
    baseURL: process.env.BASALT_URL ?? "http://127.0.0.1:8000",
    viewport: { width: 1280, height: 800 },
    // A trace shows more, and takes a third of the time: `--trace retain-on-failure`.
    screenshot: "only-on-failure",
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
      ],
    },
  },
});
