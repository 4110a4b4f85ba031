import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    globalSetup: ["support/ready.ts"],
    // A statement timeout is three seconds and everything else answers in milliseconds, but not on a machine that builds beside it.
    testTimeout: 60_000,
    retry: 0,
  },
});
