import type { Task } from "../core/formats/model.ts";
import type { Reporter, ReporterOutput, RunEnd, RunStart } from "../core/report/reporter.ts";
import type { RunResult, RunVerdict, TrialResult } from "../core/report/result.ts";
import { checkedNothing, exitCode, wasNotRun } from "../core/report/trial-result.ts";
import { visibleText, withoutCommands } from "../core/text/visible-text.ts";
import {
  byTaskLines,
  createTrialLines,
  errorLines,
  failedLines,
  type TrialLines,
  trialName,
} from "./console/trials.ts";
import { countPieces, Progress } from "./console/progress.ts";
import {
  agentsIn,
  describeAgent,
  describeMocks,
  describeModels,
  fullTitle,
  varietyOf,
} from "./format/names.ts";
import {
  clipText,
  countOf,
  createStyle,
  formatDuration,
  type Page,
  paintFlow,
  paintText,
  type Piece,
  type Tone,
} from "./format/text.ts";

/**
 * For people: a line for each finished trial, with live progress on a terminal; at the end failures with reasons and
 * evidence, the verdict and where the traces are. Control characters in text from servers and models are escaped.
 */
export function consoleReporter(output: ReporterOutput): Reporter {
  const style = createStyle(output.colors);
  let start: RunStart | undefined;
  let lines: TrialLines | undefined;
  let progress: Progress | undefined;

  const print = (printed: readonly string[]): void => {
    if (printed.length > 0) output.write(withoutCommands(printed.map((line) => `${line}\n`).join("")));
  };
  // Lines are wrapped on a terminal only, so that files can be searched.
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

/** The report at the end of a run: its sections, each after an empty line. */
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

/** The size of the run and its agents. */
function headerLines({ plan, environment }: RunStart, page: Page): string[] {
  const version = `mcpvals ${visibleText(environment.mcpvals)}`;
  const facts = [sizeOf(plan), ...agentFacts(plan)].map((text): Piece => ({ text, tone: "dim" }));
  return [`${page.style.strong(version)}  ${visibleText(plan.name)}`, ...paintFlow(facts, 0, page)];
}

function sizeOf({ tasks, trials }: RunStart["plan"]): string {
  const size = countOf(tasks.length, "task");
  return trials.length === tasks.length ? size : `${size}, ${countOf(trials.length, "trial")}`;
}

function agentFacts({ tasks, trials, agents }: RunStart["plan"]): string[] {
  if (trials.length === 0) return [];
  const acting = agentsIn(trials, agents);
  const isTested = tasks.some((task) => task.form === "tool-test");
  if (acting.length === 0) return [isTested ? "tools called directly, no agent" : "no agent takes part"];
  return acting.map((agent) => `agent ${describeAgent(agent)}`);
}

const verdictTones: Readonly<Record<RunVerdict, Tone>> = {
  pass: "good",
  fail: "bad",
  incomplete: "warn",
  interrupted: "warn",
};

/** The last lines of a run: counts, models, verdict, and where the traces are. */
function summaryLines(result: RunResult, folder: string | undefined, page: Page): string[] {
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

/** The run folder, and the command that shows the first trial that did not pass. */
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

/** Whether the run is in the default folder of `mcpvals show`. */
function isUsualFolder(folder: string): boolean {
  return /(?:^|[\\/])\.mcpvals[\\/]runs[\\/][^\\/]+$/.test(folder);
}

/** Why a run neither passed nor failed; empty for one that did. */
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
  if (total === 0) return "Incomplete: no trial ran.";
  const open = error + timeout + notRun;
  if (open > 0) {
    const reasons = [
      ...(error > 0 ? [countOf(error, "error")] : []),
      ...(timeout > 0 ? [countOf(timeout, "timeout")] : []),
      ...(notRun > 0 ? [`${notRun} not run`] : []),
    ];
    return `Incomplete: 0 failed, ${open} not evaluated (${reasons.join(", ")}).`;
  }
  return pass === 0
    ? "Incomplete: every trial was skipped."
    : `Incomplete: ${countOf(unchecked, "trial")} checked nothing.`;
}

const shownGroups = 20;
const characters = 400;
const shownNames = 12;

/** Skipped trials by reason; for unmet requirements with the names of the tasks. */
function skippedLines(trials: readonly TrialResult[], page: Page): string[] {
  const skipped = trials.filter((trial) => trial.verdict === "skip");
  return remarks("Skipped", trials, Map.groupBy(skipped, skipReason), page);
}

/** Warnings, each once. */
function warningLines(trials: readonly TrialResult[], page: Page): string[] {
  const byText = new Map<string, TrialResult[]>();
  for (const trial of trials) {
    for (const warning of new Set(trial.warnings)) {
      const others = byText.get(warning);
      if (others === undefined) byText.set(warning, [trial]);
      else others.push(trial);
    }
  }
  return remarks("Warnings", trials, byText, page);
}

function skipReason(trial: TrialResult): string {
  if (trial.error !== undefined) return trial.error.message;
  if (wasNotRun(trial)) return "not run";
  return [...new Set(trial.grades.map((grade) => grade.reason))].join("; ");
}

function remarks(
  title: string,
  trials: readonly TrialResult[],
  groups: ReadonlyMap<string, readonly TrialResult[]>,
  page: Page,
): string[] {
  if (groups.size === 0) return [];
  const variety = varietyOf(trials);
  const rest = groups.size - shownGroups;
  return [
    page.style.strong(title),
    "",
    ...[...groups].slice(0, shownGroups).flatMap(([text, group]) => {
      const [first] = group;
      const who =
        group.length > 1 || first === undefined ? countOf(group.length, "trial") : trialName(first, variety);
      const lines = paintText({ text: `- ${who}: ${clipText(text, characters)}`, tone: "dim" }, 2, page, 2);
      const isUnmet = group.length > 1 && first?.error?.code === "task/missing-requirement";
      return isUnmet ? [...lines, ...paintText({ text: tasksOf(group), tone: "dim" }, 4, page)] : lines;
    }),
    ...(rest > 0 ? [page.style.dim(`  and ${countOf(rest, "more reason")}`)] : []),
  ];
}

/** The names of the trials' tasks, each once. */
function tasksOf(trials: readonly TrialResult[]): string {
  const names = [...new Set(trials.map((trial) => clipText(fullTitle(trial), 80)))];
  const rest = names.length - shownNames;
  return `${names.slice(0, shownNames).join(", ")}${rest > 0 ? ` and ${countOf(rest, "more task")}` : ""}`;
}
