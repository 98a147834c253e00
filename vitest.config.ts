import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { defineConfig, type Plugin } from "vitest/config";

// Programs that tests start write plain text.
delete process.env["FORCE_COLOR"];

/** What `test/support/bundle-programs.ts` makes; to import the path from cli.ts would make Vite bundle all of src for this file. */
const programs = join(import.meta.dirname, "node_modules/.cache/programs");
process.env["PATH"] = [join(programs, "python"), process.env["PATH"]].join(delimiter);

const report = process.env["MCPVALS_TEST_REPORT"];

/** These fill the memory of their workers, and starting a program takes 3 ms longer for each 100 MB of the process that starts it. */
const large = [
  "src/**/*.test.ts",
  "test/{formats,report}/*.test.ts",
  "test/adversarial/{bounded,files,gateway,output,secrets}*.test.ts",
];

/** Each takes more than ten seconds: `npm run test:slow`. */
const slow = "test/**/*.slow.test.ts";

/** Modules of src that start a thread or a program which stands beside them. */
const starters = /\/src\/(?:graders\/(?:schema-validator|run-program))\.ts$/;

const besidePrograms = pathToFileURL(join(programs, "bin/any.js"));

/** These start what `bundle-programs.ts` has made of it: to load the sources takes four times as long. */
const bundledParts: Plugin = {
  name: "bundled-parts",
  transform: (code, id) =>
    starters.test(id) ? code.replaceAll("import.meta.url", JSON.stringify(besidePrograms.href)) : undefined,
};

export default defineConfig({
  plugins: [bundledParts],
  test: {
    isolate: false,
    globalSetup: ["test/support/bundle-programs.ts"],
    // Each has workers of its own.
    projects: [
      {
        extends: true,
        test: { name: "large", include: large, exclude: [slow], sequence: { groupOrder: 0 } },
      },
      {
        extends: true,
        test: {
          name: "programs",
          include: ["test/**/*.test.ts"],
          exclude: [...large, slow],
          sequence: { groupOrder: 1 },
        },
      },
      { extends: true, test: { name: "slow", include: [slow], sequence: { groupOrder: 2 } } },
    ],
    // Tests of programs mostly wait, so two processors can take four files at a time.
    maxWorkers: 4,
    // Only what hangs reaches them, even on a busy machine.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 120_000 } },
    reporters: report === undefined ? ["default"] : ["default", "json"],
    ...(report === undefined ? {} : { outputFile: { json: report } }),
  },
});
