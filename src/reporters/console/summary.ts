import { checkedNothing, exitCode, wasNotRun } from "../../core/report/summarize.ts";
import type { RunResult, RunVerdict } from "../../core/report/result.ts";
import { describeMocks, describeModels } from "../format/agents.ts";
import { countOf, formatDuration } from "../format/numbers.ts";
import { type Page, paintFlow, paintText, type Piece, type Tone } from "../format/rows.ts";
import { visibleText } from "../../core/text/visible-text.ts";
import { countPieces } from "./counts.ts";

const verdictTones: Readonly<Record<RunVerdict, Tone>> = {
  pass: "good",
  fail: "bad",
  incomplete: "warn",
  interrupted: "warn",
};

/** The last lines of a run: counts, models, verdict, and where the traces are. */
export function summaryLines(result: RunResult, folder: string | undefined, page: Page): string[] {
  const { style } = page;
  const { verdict, summary, trials, environment } = result;
  const size = `${countOf(summary.total, "trial")} in ${formatDuration(result.durationMs)}`;
  const models = trials.length === 0 ? [] : describeModels(trials, environment);
  const mocked = describeMocks(trials);
  const mocks = mocked === "" ? [] : [`mocks, not servers: ${mocked}`];
  const facts = [size, ...models, ...mocks].map((text): Piece => ({ text, tone: "dim" }));
  const word = style.badge(verdictTones[verdict], verdict.toUpperCase());
  const exit = verdict === "pass" ? "" : `  exit ${exitCode(verdict)}`;
  const why = reasonOf(result);
  return [
    ...paintFlow([...countPieces(summary), ...facts], 2, page),
    "",
    ` ${word}${exit}`.trimEnd(),
    ...(why === "" ? [] : paintText({ text: why }, 2, page)),
    ...(folder === undefined ? [] : traceLines(result, folder, page)),
  ];
}

/** The run folder, and the command that shows the first trial worth a look. */
function traceLines({ id, trials }: RunResult, folder: string, page: Page): string[] {
  const bad = trials.find(({ verdict }) => verdict !== "pass" && verdict !== "skip");
  const trial = bad === undefined ? "" : ` --trial ${visibleText(bad.id)}`;
  const name = isUsualFolder(folder) ? id : folder;
  const ways = [`trace ${visibleText(folder)}`, `npx --no-install mcpvals show ${visibleText(name)}${trial}`];
  return paintFlow(
    ways.map((text): Piece => ({ text, tone: "dim" })),
    2,
    page,
  );
}

/** Whether the run is where `mcpvals show` looks for an id without being told. */
function isUsualFolder(folder: string): boolean {
  return /(?:^|[\\/])\.mcpvals[\\/]runs[\\/][^\\/]+$/.test(folder);
}

/** Why a run is neither green nor red; empty for one that is. */
function reasonOf({ verdict, summary, trials }: RunResult): string {
  const notRun = trials.filter(wasNotRun).length;
  switch (verdict) {
    case "pass":
    case "fail":
      return "";
    case "interrupted":
      return notRun === 0
        ? "The run was interrupted."
        : `The run was interrupted before ${countOf(notRun, "trial")} of ${summary.total} could finish.`;
    case "incomplete":
      return incompleteReason(summary, { notRun, unchecked: trials.filter(checkedNothing).length });
  }
}

function incompleteReason(
  { total, pass, error, timeout }: RunResult["summary"],
  { notRun, unchecked }: { readonly notRun: number; readonly unchecked: number },
): string {
  if (total === 0) return "Not green: nothing ran, so nothing is known.";
  const open = [
    ...(error > 0 ? [countOf(error, "error")] : []),
    ...(timeout > 0 ? [countOf(timeout, "timeout")] : []),
    ...(notRun > 0 ? [`${countOf(notRun, "trial")} not run`] : []),
  ];
  if (open.length > 0) return `Not green: nothing failed, but ${open.join(" and ")} could have changed that.`;
  return pass === 0
    ? "Not green: every trial was skipped, so nothing is known."
    : `Not green: ${countOf(unchecked, "trial")} checked nothing.`;
}
