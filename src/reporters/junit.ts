import type { Task } from "../core/formats/model.ts";
import type { Reporter, ReporterOutput, RunEnd } from "../core/report/reporter.ts";
import type { RunResult, RunSummary, TrialResult } from "../core/report/result.ts";
import { summarize } from "../core/report/trial-result.ts";
import { visibleText, visibleXml } from "../core/text/visible-text.ts";
import {
  agentsIn,
  describeAgent,
  describeMocks,
  groupName,
  taskTitle,
  variantName,
  type Variety,
  varietyOf,
} from "./format/names.ts";
import { clipText, createPieceWriter, createStyle, type Page } from "./format/text.ts";
import { explainBroken, explainGrades, readEvidence } from "./format/evidence.ts";

const messageCharacters = 1000;
const page: Page = { style: createStyle(false), width: Infinity };

/**
 * Writes JUnit XML at the end, as Jenkins and others read it: a suite for each tool health suite one for the
 * workflows and one for the tasks. A failed trial is a `failure`, one that could not be judged an `error`, with reasons and evidence as text.
 */
export function junitReporter(output: ReporterOutput): Reporter {
  let tasks: ReadonlyMap<string, Task> = new Map();
  return {
    onRunStart({ plan }) {
      tasks = new Map(plan.tasks.map((task) => [task.name, task]));
    },
    onRunEnd(end) {
      const writer = createPieceWriter(output);
      for (const piece of documentPieces(end, tasks)) writer.write(piece);
      writer.flush();
    },
  };
}

function* documentPieces(end: RunEnd, tasks: ReadonlyMap<string, Task>): Generator<string> {
  const { result } = end;
  const attributes = {
    name: result.name,
    tests: result.trials.length,
    ...countsOf(summarize(result.trials)),
    time: seconds(result.durationMs),
  };
  yield `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites${xmlAttributes(attributes)}>\n`;
  const variety = varietyOf(result.trials);
  const suites = Map.groupBy(result.trials, (trial) => JSON.stringify([trial.form, trial.suite]));
  for (const trials of suites.values()) {
    yield suiteStart(trials, result);
    for (const trial of trials) yield testCase(trial, { end, tasks, variety });
    yield "  </testsuite>\n";
  }
  yield "</testsuites>\n";
}

function suiteStart(trials: readonly TrialResult[], result: RunResult): string {
  const [first] = trials;
  const summary = summarize(trials);
  const attributes = {
    name: first === undefined ? "" : groupName(first),
    tests: trials.length,
    ...countsOf(summary),
    skipped: summary.skip,
    time: seconds(trials.reduce((sum, trial) => sum + trial.durationMs, 0)),
    timestamp: result.startedAt,
  };
  const mocked = describeMocks(trials);
  const properties = {
    "mcpvals.version": result.environment.mcpvals,
    "mcpvals.run": result.id,
    "mcpvals.verdict": result.verdict,
    "mcpvals.agents": agentsIn(trials, result.environment.agents).map(describeAgent).join(", ") || "none",
    ...(mocked === "" ? {} : { "mcpvals.mocks": mocked }),
  };
  const lines = Object.entries(properties).map(
    ([name, value]) => `      <property${xmlAttributes({ name, value })}/>\n`,
  );
  const block = `    <properties>\n${lines.join("")}    </properties>\n`;
  return `  <testsuite${xmlAttributes(attributes)}>\n${block}`;
}

function countsOf({ fail, error, timeout }: RunSummary): {
  readonly failures: number;
  readonly errors: number;
} {
  return { failures: fail, errors: error + timeout };
}

interface CaseContext {
  readonly end: RunEnd;
  readonly tasks: ReadonlyMap<string, Task>;
  readonly variety: Variety;
}

function testCase(trial: TrialResult, context: CaseContext): string {
  const variant = variantName(trial, context.variety);
  const title = taskTitle(trial);
  const attributes = {
    name: variant === "" ? title : `${title} · ${variant}`,
    classname: `${context.end.result.name}.${groupName(trial)}`,
    file: fileOf(context.tasks.get(trial.task)),
    time: seconds(trial.durationMs),
  };
  const children = outcome(trial, context) + notes(trial);
  const open = `    <testcase${xmlAttributes(attributes)}`;
  return children === "" ? `${open}/>\n` : `${open}>\n${children}    </testcase>\n`;
}

/** The file of a task that has one of its own, as messages name it. */
function fileOf(task: Task | undefined): string | undefined {
  return task?.portable === undefined ? undefined : (task.location?.file ?? task.portable.file);
}

function outcome(trial: TrialResult, context: CaseContext): string {
  switch (trial.verdict) {
    case "pass":
      return "";
    case "skip":
      return `      <skipped${xmlAttributes({ message: messageOf(trial) })}/>\n`;
    case "fail":
      return problem("failure", trial, context);
    case "error":
    case "timeout":
      return problem("error", trial, context);
  }
}

function problem(element: "failure" | "error", trial: TrialResult, { end, tasks }: CaseContext): string {
  const evidence = readEvidence(end.evidence.get(trial.id) ?? [], trial, tasks.get(trial.task));
  const lines = [
    ...(trial.error === undefined ? [] : explainBroken(trial.error, evidence, 0, page)),
    ...explainGrades(trial.grades, evidence, 0, page),
  ];
  const attributes = { type: trial.error?.code ?? graderOf(trial), message: messageOf(trial) };
  return `      <${element}${xmlAttributes(attributes)}>${xmlText(lines.join("\n"))}</${element}>\n`;
}

/** The grader that decided against a trial. */
function graderOf({ grades, verdict }: TrialResult): string {
  return grades.find((grade) => grade.verdict === verdict)?.grader ?? verdict;
}

function messageOf({ verdict, error, grades }: TrialResult): string {
  if (error !== undefined) return clipText(error.message, messageCharacters);
  const told = grades.filter((grade) => grade.verdict === verdict);
  if (told.length === 0) return verdict === "skip" ? "not run" : verdict;
  return clipText(told.map((grade) => `${grade.grader}: ${grade.reason}`).join("; "), messageCharacters);
}

function notes({ mocks = [], warnings = [] }: TrialResult): string {
  const lines = [
    ...mocks.map((server) => `mock: ${visibleText(server)}`),
    ...warnings.map((warning) => `warning: ${visibleText(warning)}`),
  ];
  return lines.length === 0 ? "" : `      <system-out>${xmlText(lines.join("\n"))}</system-out>\n`;
}

/** Milliseconds as seconds with three digits, which is what the schema of JUnit files allows. */
function seconds(milliseconds: number): string {
  const known = Number.isFinite(milliseconds) ? Math.max(0, milliseconds) : 0;
  return (Math.min(known, Number.MAX_SAFE_INTEGER) / 1000).toFixed(3);
}

/** Characters that XML 1.0 does not allow at all, not even escaped (section 2.2). */
const illegal =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\p{Surrogate}\ufffe\uffff]/gu;

const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "\t": "&#9;",
  "\n": "&#10;",
  "\r": "&#13;",
};

/** Text for the inside of an element; characters that XML cannot carry are left out. */
export function xmlText(text: string): string {
  const escaped = text
    .replaceAll(illegal, "")
    .replaceAll(/[&<>\r]/gu, (character) => escapes[character] ?? character);
  return visibleXml(escaped);
}

/** Attributes, with a space before each; those without a value are left out. */
export function xmlAttributes(attributes: Readonly<Record<string, string | number | undefined>>): string {
  return Object.entries(attributes)
    .flatMap(([name, value]) => (value === undefined ? [] : [` ${name}="${xmlAttribute(String(value))}"`]))
    .join("");
}

/** Line breaks and tabs are escaped, since a parser would turn them into spaces. */
function xmlAttribute(value: string): string {
  const escaped = value
    .replaceAll(illegal, "")
    .replaceAll(/[&<>"\t\n\r]/gu, (character) => escapes[character] ?? character);
  return visibleXml(escaped);
}
