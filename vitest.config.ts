import { defineConfig } from "vitest/config";

// Programs that tests start write plain text.
delete process.env["FORCE_COLOR"];

const report = process.env["MCPVALS_TEST_REPORT"];

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    isolate: false,
    globalSetup: ["test/support/bundle-programs.ts"],
    // Tests of programs mostly wait, so two processors can take four files at a time.
    maxWorkers: 4,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: report === undefined ? ["default"] : ["default", "json"],
    ...(report === undefined ? {} : { outputFile: { json: report } }),
  },
});
