import type { ReporterName } from "../core/formats/reporters.ts";
import { blocksOf, jsonPieces } from "../core/report/result.ts";
import type { Reporter, ReporterOutput } from "../core/report/reporter.ts";
import { consoleReporter } from "./console.ts";
import { githubReporter } from "./github.ts";
import { htmlReporter } from "./html.ts";
import { junitReporter } from "./junit.ts";
import { markdownReporter } from "./markdown.ts";
import { sarifReporter } from "./sarif.ts";

/** Every reporter. */
export const reporters: Readonly<Record<ReporterName, (output: ReporterOutput) => Reporter>> = {
  console: consoleReporter,
  /** Writes the result document at the end, pretty-printed, and nothing else. */
  json: (output) => ({
    onRunEnd({ result }) {
      for (const block of blocksOf(jsonPieces(result))) output.write(block);
    },
  }),
  junit: junitReporter,
  markdown: markdownReporter,
  github: githubReporter,
  html: htmlReporter,
  sarif: sarifReporter,
};
