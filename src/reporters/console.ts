import type { Task } from "../core/formats/model.ts";
import type { Reporter, ReporterOutput, RunEnd, RunStart } from "../core/report/reporter.ts";
import { withoutCommands } from "../core/text/visible-text.ts";
import { byTaskLines } from "./console/by-task.ts";
import { errorLines, failedLines } from "./console/failures.ts";
import { headerLines } from "./console/header.ts";
import { Progress } from "./console/progress.ts";
import { skippedLines, warningLines } from "./console/remarks.ts";
import { summaryLines } from "./console/summary.ts";
import { createTrialLines, type TrialLines } from "./console/trial-lines.ts";
import { createStyle, type Page } from "./format/rows.ts";

/**
 * Tells a person what happens: a line for each finished trial, on a terminal with live progress below, and at the end
 * what failed, why, the evidence, the verdict and the way to the traces. Text of servers and models cannot drive the
 * terminal: its control characters are written out.
 */
export function consoleReporter(output: ReporterOutput): Reporter {
  const style = createStyle(output.colors);
  let start: RunStart | undefined;
  let lines: TrialLines | undefined;
  let progress: Progress | undefined;

  const print = (printed: readonly string[]): void => {
    if (printed.length > 0) output.write(withoutCommands(printed.map((line) => `${line}\n`).join("")));
  };
  // A terminal's lines are wrapped with care; elsewhere they stay whole, for searching.
  const pageNow = (): Page => ({ style, width: output.isTerminal ? output.columns() : Infinity });

  return {
    onRunStart(begun) {
      start = begun;
      lines = createTrialLines(begun.plan, { style, width: output.columns() });
      const gap = begun.plan.trials.length === 0 ? [] : [""];
      print([...headerLines(begun, pageNow()), ...gap]);
      if (output.isTerminal) progress = new Progress(output, style, begun.plan, lines.nameOf);
    },
    onTrialStart: (trial) => progress?.trialStarted(trial),
    onEvent: (event) => progress?.event(event),
    onTrialEnd(result) {
      const printed = lines?.of(result) ?? [];
      if (progress === undefined) print(printed);
      else progress.trialEnded(result, printed);
    },
    onRunEnd(end) {
      progress?.stop();
      print(endLines(end, start, pageNow()));
    },
    close: () => progress?.stop(),
  };
}

/** Everything that is said when a run has ended, part by part with a blank line before each. */
function endLines(end: RunEnd, start: RunStart | undefined, page: Page): string[] {
  const { result } = end;
  const tasks = new Map<string, Task>(start?.plan.tasks.map((task) => [task.name, task]));
  const parts = [
    failedLines({ end, tasks, page }),
    errorLines({ end, tasks, page }),
    skippedLines(result.trials, page),
    warningLines(result.trials, page),
    byTaskLines(result.trials, page),
    summaryLines(result, start?.folder, page),
  ];
  return parts.flatMap((part) => (part.length === 0 ? [] : ["", ...part]));
}
