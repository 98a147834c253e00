import type { ReporterName } from "../model/reporter.ts";
import { blocksOf, jsonPieces } from "../base/json-pieces.ts";
import type { Reporter, ReporterOutput } from "./reporter.ts";
import { consoleReporter } from "./console.ts";
import { githubReporter } from "./github.ts";
import { junitReporter } from "./junit.ts";
import { markdownReporter } from "./markdown.ts";
import { sarifReporter } from "./sarif.ts";
import { McpvalsError } from "../base/error.ts";

/** Writes the dashboard with this one run into one page, which opens from disk. */
function htmlReporter(output: ReporterOutput): Reporter {
  let folder: string | undefined;
  return {
    onRunStart(start) {
      folder = start.folder;
    },
    async onRunEnd() {
      if (folder === undefined)
        throw new McpvalsError("usage/invalid-option", "the reporter html needs the folder of the run", {
          hint: "Let the run be recorded.",
        });
      const { reportPage } = await import("./html.ts");
      for await (const piece of reportPage(folder)) output.write(piece);
    },
  };
}

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
