import { McpvalsError } from "../core/errors/error.ts";
import type { Reporter, ReporterOutput } from "../core/report/reporter.ts";

/** Writes the dashboard with this one run into one page, which opens from disk. */
export function htmlReporter(output: ReporterOutput): Reporter {
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
      const { reportPage } = await import("../dashboard/report.ts");
      for await (const piece of reportPage(folder)) output.write(piece);
    },
  };
}
