import type { ReporterName } from "../core/formats/reporters.ts";
import type { Reporter, ReporterOutput } from "../core/report/reporter.ts";
import { consoleReporter } from "./console.ts";
import { jsonReporter } from "./json.ts";
import { junitReporter } from "./junit.ts";

/** Every reporter, one line each. */
export const reporters: Readonly<Record<ReporterName, (output: ReporterOutput) => Reporter>> = {
  console: consoleReporter,
  json: jsonReporter,
  junit: junitReporter,
};
