import { defineConfig } from "vitest/config";

// Programs that tests start write plain text.
delete process.env["FORCE_COLOR"];

const report = process.env["MCPVALS_TEST_REPORT"];

/** These fill the memory of their workers, and starting a program takes 3 ms longer for each 100 MB of the process that starts it. */
const large = [
  "src/**/*.test.ts",
  "test/{load,reporters}/*.test.ts",
  "test/adversarial/{bounded,files,gateway,output,secrets}*.test.ts",
];

export default defineConfig({
  test: {
    isolate: false,
    globalSetup: ["test/support/bundle-programs.ts"],
    // Each has workers of its own.
    projects: [
      { extends: true, test: { name: "large", include: large, sequence: { groupOrder: 0 } } },
      {
        extends: true,
        test: {
          name: "programs",
          include: ["test/**/*.test.ts"],
          exclude: large,
          sequence: { groupOrder: 1 },
        },
      },
    ],
    // Tests of programs mostly wait, so two processors can take four files at a time.
    maxWorkers: 4,
    // Only what hangs reaches them, even on a busy machine.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    reporters: report === undefined ? ["default"] : ["default", "json"],
    ...(report === undefined ? {} : { outputFile: { json: report } }),
  },
});
