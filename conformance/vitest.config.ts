import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    globalSetup: ["support/ready.ts"],
    // A statement timeout is three seconds; everything else answers in milliseconds.
    testTimeout: 15_000,
    retry: 0,
  },
});
