import { alikeFindings } from "../model/alike-findings.ts";
import { withoutUndefined } from "../base/json.ts";
import type { Task } from "../model/task.ts";
import { type Reporter, reporterAtEnd, type ReporterOutput, type RunEnd } from "./reporter.ts";
import { decidingGrades } from "./rates.ts";
import { summarize } from "./result.ts";
import { blocksOf } from "../base/json-pieces.ts";
import type { Decision, RunResult, TrialResult } from "../model/result.ts";
import { visibleText, visibleXml, clipText } from "../base/visible-text.ts";
import { findingsOf } from "../model/finding.ts";
import { decisionText } from "./decisions.ts";
import { explainTrial } from "./explain.ts";
import { placesText } from "./findings.ts";
import {
  agentsIn,
  describeAgent,
  describeCoverage,
  describeMocks,
  groupName,
  taskTitle,
  trialReason,
  hasSeveral,
  variantName,
  type Variety,
  varietyOf,
  verdictReason,
} from "./text.ts";
import { type Gate, gateText } from "./gates.ts";
import { createStyle, type Page } from "../base/columns.ts";
import { ratesByTask, totalRows, attackTable } from "./rate-text.ts";

const maxShownMessage = 1000;
const page: Page = { style: createStyle(false), width: Infinity };

/**
 * Writes JUnit XML at the end, as Jenkins and others read it: a suite for each tool health suite, one for the workflows and
 * one for the tasks; one for each checked server. Rates of tasks that were tried several times are properties of their suite; thresholds and decisions are cases. A failed trial is a `failure`, in a check one for each error found, one that could not be judged an `error`, with reasons and evidence as text. In a run that passes, such as by its threshold, a failed trial is `skipped`: readers take any failure for that of the run.
 */
export function junitReporter(output: ReporterOutput): Reporter {
  return reporterAtEnd((end, { tasks }) => {
    for (const block of blocksOf(documentPieces(end, tasks))) output.write(block);
  });
}

function* documentPieces(end: RunEnd, tasks: ReadonlyMap<string, Task>): Generator<string> {
  const { result } = end;
  const { name, trials, durationMs } = result;
  const variety = varietyOf(trials);
  const counts = countsOf(trials, result);
  // Readers look at cases only: where none says that the run did not pass, one more does.
  const { gates = [], decisions = [] } = result;
  const ofGates = gateCounts(gates);
  const undecided = undecidedIn(decisions);
  const isUntold =
    result.verdict !== "pass" &&
    counts.failures + counts.errors + ofGates.failures + ofGates.errors + undecided === 0;
  const ofVerdict = isUntold ? verdictCounts(result) : { failures: 0, errors: 0 };
  const attributes = {
    name,
    tests: trials.length + gates.length + decisions.length + (isUntold ? 1 : 0),
    failures: counts.failures + ofGates.failures + ofVerdict.failures,
    errors: counts.errors + ofGates.errors + undecided + ofVerdict.errors,
    time: seconds(durationMs),
  };
  yield `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites${xmlAttributes(attributes)}>\n`;
  for (const suite of Map.groupBy(trials, ({ form, suite }) => JSON.stringify([form, suite])).values()) {
    yield suiteStart(suite, result, variety);
    for (const trial of suite) yield testCase(trial, end, tasks.get(trial.task), variety);
    yield "  </testsuite>\n";
  }
  if (gates.length > 0) yield gateSuite(gates);
  if (decisions.length > 0) yield decisionSuite(decisions);
  if (isUntold) yield verdictSuite(result);
  yield "</testsuites>\n";
}

function gateCounts(gates: readonly Gate[]): Counts {
  const countOf = (wanted: Gate["verdict"]): number =>
    gates.filter(({ verdict }) => verdict === wanted).length;
  return { failures: countOf("fail"), errors: countOf("incomplete") };
}

/** A suite with a case for each threshold; the name of a case stays the same from run to run. */
function gateSuite(gates: readonly Gate[]): string {
  const cases = gates.map((gate) => {
    const open = `    <testcase${xmlAttributes({ name: gate.name, classname: "mcpvals.thresholds" })}>`;
    const text = gateText(gate);
    const element = gate.verdict === "fail" ? "failure" : "error";
    const outcome =
      gate.verdict === "pass"
        ? `<system-out>${xmlText(text)}</system-out>`
        : `<${element}${xmlAttributes({ type: "threshold", message: text })}/>`;
    return `${open}\n      ${outcome}\n    </testcase>\n`;
  });
  const suite = xmlAttributes({ name: "thresholds", tests: gates.length, ...gateCounts(gates) });
  return `  <testsuite${suite}>\n${cases.join("")}  </testsuite>\n`;
}

function undecidedIn(decisions: readonly Decision[]): number {
  return decisions.filter(({ verdict }) => verdict === "undecided").length;
}

/** A suite with a case for each thing that the run was to decide; whether a threshold is missed, and a side worse, is said by its text. */
function decisionSuite(decisions: readonly Decision[]): string {
  const cases = decisions.map((decision) => {
    const name =
      decision.kind === "threshold"
        ? `${decision.threshold}${decision.variant === undefined ? "" : ` of ${decision.variant}`}`
        : `${decision.second} or ${decision.first}`;
    const open = `    <testcase${xmlAttributes({ name, classname: "mcpvals.decisions" })}>`;
    const text = visibleText(decisionText(decision));
    const outcome =
      decision.verdict === "undecided"
        ? `<error${xmlAttributes({ type: "decision", message: text })}/>`
        : `<system-out>${xmlText(text)}</system-out>`;
    return `${open}\n      ${outcome}\n    </testcase>\n`;
  });
  const counts = { tests: decisions.length, failures: 0, errors: undecidedIn(decisions) };
  return `  <testsuite${xmlAttributes({ name: "decisions", ...counts })}>\n${cases.join("")}  </testsuite>\n`;
}

function verdictCounts({ verdict }: RunResult): Counts {
  return verdict === "fail" ? { failures: 1, errors: 0 } : { failures: 0, errors: 1 };
}

/** A suite with one case: the verdict of the run, with its reason. */
function verdictSuite(result: RunResult): string {
  const suite = xmlAttributes({ name: "mcpvals", tests: 1, ...verdictCounts(result) });
  const element = result.verdict === "fail" ? "failure" : "error";
  const remark = xmlAttributes({ type: result.verdict, message: verdictReason(result) });
  const open = `    <testcase${xmlAttributes({ name: "verdict", classname: "mcpvals" })}>`;
  return `  <testsuite${suite}>\n${open}\n      <${element}${remark}/>\n    </testcase>\n  </testsuite>\n`;
}

interface Counts {
  readonly failures: number;
  readonly errors: number;
}

/** What came of trials; nothing fails a run that passes. */
function countsOf(
  trials: readonly TrialResult[],
  { verdict }: RunResult,
): Counts & { readonly skipped: number } {
  const { fail, error, timeout, skip } = summarize(trials);
  return verdict === "pass"
    ? { failures: 0, errors: 0, skipped: fail + skip }
    : { failures: fail, errors: error + timeout, skipped: skip };
}

/** How often each task of a suite passed, with its interval, by agent and variant; then all tasks of the run. */
function rateProperties(
  trials: readonly TrialResult[],
  result: RunResult,
  variety: Variety,
): readonly (readonly [string, string])[] {
  if (!hasSeveral(variety)) return [];
  if (result.attacks !== undefined) {
    const { head, rows } = attackTable(result, variety);
    const headings = [head.count, ...head.cells];
    return rows.map(({ title, name, count, cells }) => [
      ["mcpvals.attacks", title, name].filter((part) => part !== "").join(" · "),
      [count, ...cells].flatMap((cell, at) => (cell === "" ? [] : [`${headings[at]} ${cell}`])).join(", "),
    ]);
  }
  return [...ratesByTask(trials, variety), ...totalRows(result, variety)].map(
    ({ title, name, count, cells: [rate, , , , flaky] }) => [
      ["mcpvals.rate", title, name].filter((part) => part !== "").join(" · "),
      [count, rate, flaky].filter((part) => part !== "").join(", "),
    ],
  );
}

function suiteStart(trials: readonly TrialResult[], result: RunResult, variety: Variety): string {
  const { startedAt, environment, id, verdict, coverage = {}, gradedFrom } = result;
  const attributes = {
    name: trials.slice(0, 1).map(groupName).join(""),
    tests: trials.length,
    ...countsOf(trials, result),
    time: seconds(trials.reduce((sum, trial) => sum + trial.durationMs, 0)),
    timestamp: startedAt,
  };
  const properties = withoutUndefined({
    "mcpvals.version": environment.mcpvals,
    "mcpvals.run": id,
    "mcpvals.gradedFrom": gradedFrom?.id,
    "mcpvals.verdict": verdict,
    "mcpvals.agents": agentsIn(trials, environment.agents).map(describeAgent).join(", ") || "none",
    "mcpvals.mocks": describeMocks(trials) || undefined,
    "mcpvals.byToolResult": summarize(trials).byToolResult,
    "mcpvals.coverage": describeCoverage(coverage) || undefined,
  });
  const lines = [...Object.entries(properties), ...rateProperties(trials, result, variety)].map(
    ([name, value]) => `      <property${xmlAttributes({ name, value })}/>\n`,
  );
  return `  <testsuite${xmlAttributes(attributes)}>\n    <properties>\n${lines.join("")}    </properties>\n`;
}

function testCase(trial: TrialResult, end: RunEnd, task: Task | undefined, variety: Variety): string {
  const { verdict, durationMs, mocks = [], warnings = [] } = trial;
  const variant = variantName(trial, variety);
  const title = taskTitle(trial);
  const attributes = {
    name: variant === "" ? title : `${title} · ${variant}`,
    classname: `${end.result.name}.${groupName(trial)}`,
    // Only tasks from files of their own have one.
    file: task?.portable === undefined ? undefined : (task.location?.file ?? task.portable.file),
    time: seconds(durationMs),
  };
  const notes = [
    ...mocks.map((server) => `mock: ${visibleText(server)}`),
    ...warnings.map((warning) => `warning: ${visibleText(warning)}`),
  ];
  const outcome =
    verdict === "pass"
      ? ""
      : verdict === "skip"
        ? `      <skipped${xmlAttributes({ message: trialReason(trial) })}/>\n`
        : verdict === "fail" && trial.form === "check"
          ? defects(trial)
          : problem(trial, end);
  const output = notes.length === 0 ? "" : `      <system-out>${xmlText(notes.join("\n"))}</system-out>\n`;
  const children = outcome + output;
  const open = `    <testcase${xmlAttributes(attributes)}`;
  return children === "" ? `${open}/>\n` : `${open}>\n${children}    </testcase>\n`;
}

/** A trial of a check that failed: each error that it found, `type` is its code. */
function defects({ id, grades }: TrialResult): string {
  const errors = findingsOf([{ id, grades }]).filter(({ severity }) => severity === "error");
  return alikeFindings(errors)
    .map((group) => {
      const [finding] = group;
      const message = clipText(`${finding.title}: ${finding.message}`, maxShownMessage);
      const text = clipText(`${placesText(group)}: ${finding.fix}`, maxShownMessage);
      return `      <failure${xmlAttributes({ type: finding.code, message })}>${xmlText(text)}</failure>\n`;
    })
    .join("");
}

/** A trial that failed or could not be judged. `type` is the error's code, or the grader that decided. In a run that passes it is skipped. */
function problem(trial: TrialResult, { evidence, result }: RunEnd): string {
  const { id, verdict, error } = trial;
  const isTolerated = result.verdict === "pass";
  const element = isTolerated ? "skipped" : verdict === "fail" ? "failure" : "error";
  const lines = explainTrial(trial, evidence.get(id) ?? [], { indent: 0, page });
  const type = error?.code ?? decidingGrades(trial)[0]?.grader ?? verdict;
  const reason = trialReason(trial);
  const attributes = xmlAttributes({ type, message: isTolerated ? `failed; ${reason}` : reason });
  return `      <${element}${attributes}>${xmlText(lines.join("\n"))}</${element}>\n`;
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

function escaped(text: string, characters: RegExp): string {
  const legal = text.replaceAll(illegal, "");
  return visibleXml(legal.replaceAll(characters, (character) => escapes[character] ?? character));
}

/** Text for the inside of an element; characters that XML cannot carry are left out. */
export function xmlText(text: string): string {
  return escaped(text, /[&<>\r]/gu);
}

/**
 * Attributes, with a space before each; those without a value are left out. Line breaks and tabs are escaped, since a parser
 * would turn them into spaces.
 */
export function xmlAttributes(attributes: Readonly<Record<string, string | number | undefined>>): string {
  return Object.entries(attributes)
    .flatMap(([name, value]) =>
      value === undefined ? [] : [` ${name}="${escaped(String(value), /[&<>"\t\n\r]/gu)}"`],
    )
    .join("");
}
