import { defineConfig } from "vitest/config";

// Programs that tests start write plain text.
delete process.env["FORCE_COLOR"];

const report = process.env["MCPVALS_TEST_REPORT"];

export default defineConfig({
  test: {
    isolate: false,
    globalSetup: ["test/support/bundle-programs.ts"],
    // Tests of functions fill the memory of their workers, and starting a program from a large process takes long.
    projects: [
      {
        extends: true,
        test: { name: "functions", include: ["src/**/*.test.ts"], sequence: { groupOrder: 0 } },
      },
      {
        extends: true,
        test: { name: "programs", include: ["test/**/*.test.ts"], sequence: { groupOrder: 1 } },
      },
    ],
    // Tests of programs mostly wait, so two processors can take four files at a time.
    maxWorkers: 4,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: report === undefined ? ["default"] : ["default", "json"],
    ...(report === undefined ? {} : { outputFile: { json: report } }),
  },
});
