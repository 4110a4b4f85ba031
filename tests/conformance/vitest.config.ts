import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    globalSetup: ["support/ready.ts"],
    // A statement timeout is three seconds and everything else takes milliseconds, unless the machine is also compiling.
    testTimeout: 60_000,
    retry: 0,
  },
});
