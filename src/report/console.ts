import { countFindings } from "../model/alike-findings.ts";
import { type Task, testedTool } from "../model/task.ts";
import type { Plan, Trial } from "../model/plan.ts";
import type { Reporter, ReporterOutput, RunEnd, RunStart } from "./reporter.ts";
import { coverageGaps } from "./counters.ts";
import { countWarnings, exitCode, isServerError } from "./result.ts";
import { hasIdleAttack, wasNotRun, taskKey } from "./rates.ts";
import type { RunVerdict } from "../model/grade.ts";
import type { RunResult, TrialResult } from "../model/result.ts";
import { findingsOf } from "../model/finding.ts";
import { countOf, formatInteger, visibleText, withoutCommands, clipText } from "../base/visible-text.ts";
import { exact } from "../base/json.ts";
import { explainTrial } from "./explain.ts";
import {
  calledText,
  touchedTexts,
  checkedServers,
  clientLines,
  findingLines,
  hasSeveralServers,
  serverText,
} from "./findings.ts";
import { measurementLines } from "./measurements.ts";
import {
  cutToWidth,
  displayWidth,
  padToWidth,
  createStyle,
  type Page,
  paintFlow,
  paintText,
  type Piece,
  type Tone,
} from "../base/columns.ts";
import {
  agentsIn,
  countPieces,
  describeAgent,
  describeCost,
  describeCoverage,
  describeMocks,
  describeModels,
  describePrograms,
  describeThrottling,
  fullTitle,
  gapText,
  recordText,
  othersOf,
  groupName,
  type Nameable,
  partialScore,
  taskTitle,
  hadNothingToDo,
  optionalRemarks,
  remarkSubject,
  type Remarks,
  skipRemarks,
  trialTitle,
  warningRemarks,
  hasSeveral,
  variantName,
  type Variety,
  varietyOf,
  verdictReason,
  taskPlace,
} from "./text.ts";
import { comparedTrials, comparisonText } from "./comparison.ts";
import { comparisonsOf } from "./documents/compare-sides.ts";
import { decisionText } from "./decisions.ts";
import { Progress } from "./progress.ts";
import { type Gate, formatMeasure, wantedText } from "./gates.ts";
import { formatDuration } from "../base/duration.ts";
import { type RateRow, ratesByTask, totalRows, rateText, attackTable, describeAttacks } from "./rate-text.ts";

/**
 * Output for people: a line for each finished trial, with live progress on a terminal; at the end failures with reasons and
 * evidence, the verdict, and the location of the traces. Control characters in text from servers and models are escaped.
 */
export function consoleReporter(output: ReporterOutput): Reporter {
  const style = createStyle(output.colors);
  let start: RunStart | undefined;
  let lines: TrialLines | undefined;
  let progress: Progress | undefined;

  const print = (printed: readonly string[]): void => {
    if (printed.length > 0) output.write(withoutCommands(printed.map((line) => `${line}\n`).join("")));
  };
  // Lines are wrapped only on a terminal, so that text in files can be searched.
  const pageNow = (): Page => ({ style, width: output.isTerminal ? output.columns() : Infinity });

  return {
    onRunStart(begun) {
      start = begun;
      if (output.quiet === true) return;
      lines = createTrialLines(begun.plan, pageNow(), output.columns());
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
      print(lines?.rest?.() ?? []);
      const tasks = new Map<string, Task>(start?.plan.tasks.map((task) => [task.name, task]));
      const variety = varietyOf(end.result.trials);
      const quiet = output.quiet === true;
      const printed = endLines({ end, tasks, page: pageNow(), variety, quiet }, { ...start });
      print(quiet ? printed.slice(1) : printed);
    },
    close: () => progress?.stop(),
  };
}

function dim(text: string): Piece {
  return { text, tone: "dim" };
}

/** The number of tasks and trials, and the agents. */
function headerLines(
  { plan, environment, gradedFrom, retryOf, recorded, durationMs }: RunStart,
  page: Page,
): string[] {
  const { tasks, trials, agents, name, until, shard } = plan;
  const size = countOf(tasks.length, "task");
  const acting = agentsIn(trials, agents).map((agent) => `agent ${describeAgent(agent)}`);
  const isTested = tasks.some((task) => task.form === "tool-test");
  const withoutAgent = isTested ? "tools called directly, no agent" : "no agent takes part";
  const facts = [
    trials.length === tasks.length
      ? size
      : `${size}, ${until === undefined || durationMs !== undefined ? "" : "at most "}${countOf(trials.length, "trial")}`,
    ...(shard === undefined ? [] : [`part ${shard.index} of ${shard.count}`]),
    ...(trials.length === 0 ? [] : acting.length === 0 ? [withoutAgent] : acting),
  ];
  const version = page.style.strong(`mcpvals ${visibleText(environment.mcpvals)}`);
  if (tasks.length > 0 && tasks.every(({ form }) => form === "check")) {
    const checked = checkedServers(tasks);
    const servers = [...new Set(tasks.flatMap((task) => task.servers))];
    const aboutOf = (server: string): string => {
      const about = checked.get(server);
      if (about === undefined) return `${visibleText(server)}: no session could be opened`;
      return servers.length === 1 ? serverText(about) : `${visibleText(server)}: ${serverText(about)}`;
    };
    return [`${version}  check`, ...servers.flatMap((server) => paintText(dim(aboutOf(server)), 0, page, 2))];
  }
  const graded = recordText({ environment, ...exact({ gradedFrom }) });
  return [
    `${version}  ${visibleText(name)}`,
    ...paintFlow(facts.map(dim), 0, page),
    ...(graded === "" ? [] : paintText({ text: graded }, 0, page)),
    ...resumedTexts(trials.length, { retryOf, recorded }).flatMap((text) => paintText({ text }, 0, page)),
  ];
}

function resumedTexts(
  total: number,
  { retryOf, recorded }: { [K in "retryOf" | "recorded"]: RunStart[K] },
): readonly string[] {
  const kept = recorded === undefined ? "" : `${formatInteger(recorded)} of ${countOf(total, "trial")}`;
  if (retryOf === undefined) return kept === "" ? [] : [`resumed: ${kept} had ended before`];
  return [visibleText(`retry of run ${retryOf.id}${kept === "" ? "" : `: ${kept} keep their verdicts`}`)];
}

const verdictMarks: Readonly<Record<TrialResult["verdict"], { readonly mark: string; readonly tone: Tone }>> =
  {
    pass: { mark: "✓", tone: "good" },
    fail: { mark: "✗", tone: "bad" },
    error: { mark: "!", tone: "warn" },
    timeout: { mark: "!", tone: "warn" },
    skip: { mark: "-", tone: "dim" },
  };

const maxNameWidth = 60;
const leastTitleWidth = 12;
const durationWidth = 9;

/** One line for each finished trial, with names and times aligned for the whole run. */
interface TrialLines {
  /**
   * The lines to print when a trial has ended; the first of a group also gets its heading. The parts of a check are printed in the
   * plan's order, so that one may wait for those before it.
   */
  of(result: TrialResult): string[];
  /** The lines that waited for trials of the plan that did not run, since the run had decided. */
  rest?(): string[];
  /** Name of a planned trial in one line, for progress. */
  readonly nameOf: (trial: Trial) => string;
}

/**
 * Groups get headings when trials run one after the other; when groups run concurrently, each task is prefixed with the
 * name of its group instead.
 */
function createTrialLines(plan: Plan, { style, width }: Page, columns: number): TrialLines {
  const variety = varietyOf(plan.trials);
  const tasks = new Map(plan.tasks.map((task) => [task.name, task]));
  const groups = new Set(plan.tasks.map(groupName));
  const isImplied = groups.size === 1 && (groups.has("workflows") || groups.has("tasks"));
  const isCheck = plan.tasks.every(({ form }) => form === "check");
  const isAttacked = plan.variants?.some(({ attack }) => attack !== undefined) === true;
  const isFolded = !isCheck && (variety.attempts || isAttacked || plan.trials.length > maxShownPasses);
  const headed = !isImplied && !isFolded && (plan.concurrency === 1 || groups.size === 1);
  const nameOf = (trial: Nameable, room = Infinity): string => {
    const which = variantName(trial, variety);
    const suffix = which === "" ? "" : ` · ${which}`;
    const title = headed || isImplied ? taskTitle(trial) : fullTitle(trial);
    return `${cutToWidth(title, Math.max(leastTitleWidth, room - displayWidth(suffix)))}${suffix}`;
  };
  const plannedName = (trial: Trial): string => {
    const task = tasks.get(trial.task);
    return nameOf({ form: "workflow", ...task, ...trial, tool: task && testedTool(task) });
  };
  const widest = widestOf(plan.trials.map((trial) => displayWidth(plannedName(trial))));
  const nameWidth = Math.min(widest, maxNameWidth, Math.max(20, columns - 24));
  // Names are cut only on a terminal, so that they can be searched in files.
  const room = Number.isFinite(width) ? nameWidth : Infinity;
  let group: string | undefined;
  const linesOf = (result: TrialResult): string[] => {
    if (wasNotRun(result)) return [];
    const { verdict, error, durationMs, form, grades } = result;
    const isFirst = group === undefined;
    const isNew = headed && group !== groupName(result);
    if (isNew) group = groupName(result);
    const { mark, tone } = verdictMarks[verdict];
    const name = padToWidth(nameOf(result, room), nameWidth);
    const time = style.dim(formatDuration(durationMs).padStart(durationWidth));
    const why = hadNothingToDo(result) ? `skipped: ${visibleText(error?.message ?? "")}` : "skipped";
    const skip = cutToWidth(why, width - displayWidth(name) - durationWidth - 8);
    const score = partialScore(result);
    const notes = { error: error?.code ?? "no verdict", timeout: "timeout", skip };
    const found = countFindings(grades.flatMap(({ findings = [] }) => findings));
    const note =
      verdict !== "pass" && verdict !== "fail"
        ? `  ${style[tone](notes[verdict])}`
        : form === "check"
          ? `  ${style.dim(found)}`
          : score === ""
            ? ""
            : `  ${style.dim(score)}`;
    return [
      ...(isNew ? [...(isFirst ? [] : [""]), `  ${style.strong(group ?? "")}`] : []),
      `  ${style[tone](mark)} ${verdict === "skip" ? style.dim(name) : name}  ${time}${note}`,
    ];
  };
  if (isFolded) return { nameOf: plannedName, ...foldPasses(plan, variety, { style, width, linesOf }) };
  if (!isCheck) return { nameOf: plannedName, of: linesOf };
  const ended = new Map<string, TrialResult>();
  let next = 0;
  return {
    nameOf: plannedName,
    of(result) {
      ended.set(result.id, result);
      const due = plan.trials.slice(next).map(({ id }) => ended.get(id));
      const waiting = due.indexOf(undefined);
      const printed = waiting === -1 ? due : due.slice(0, waiting);
      next += printed.length;
      return printed.flatMap((each) => (each === undefined ? [] : linesOf(each)));
    },
  };
}

/** In a run of more trials, of several attempts, or with attacks, those that pass share a line with the others of their group. */
const maxShownPasses = 20;

/**
 * Lines of trials that did not pass, and one for those that did of each suite, or of each task with several trials. That line also counts
 * attacks that succeeded or were skipped, where the task passed: they have a table.
 */
function foldPasses(
  plan: Plan,
  variety: Variety,
  { style, width, linesOf }: Page & { readonly linesOf: TrialLines["of"] },
): Pick<Required<TrialLines>, "of" | "rest"> {
  const tasks = new Map(plan.tasks.map((task) => [task.name, task]));
  const groupOf = ({ task }: Pick<Trial, "task">): string => {
    const { form = "task", suite } = tasks.get(task) ?? {};
    const named = { task, form, suite, agent: null, attempt: 1 };
    return hasSeveral(variety) ? fullTitle(named) : groupName(named);
  };
  const left = new Map<string, number>();
  for (const trial of plan.trials) left.set(groupOf(trial), (left.get(groupOf(trial)) ?? 0) + 1);
  const folded = new Map<string, Partial<Record<TrialResult["verdict"], number>>>();
  const foldedLines = (group: string): string[] => {
    const verdicts = folded.get(group) ?? {};
    folded.delete(group);
    const counts = foldedKinds.flatMap(({ verdict, words }) => {
      const { [verdict]: count = 0 } = verdicts;
      return count === 0 ? [] : [{ verdict, text: words(count) }];
    });
    const [worst] = counts;
    if (worst === undefined) return [];
    const { mark, tone } = verdictMarks[worst.verdict];
    const text = counts.map((count) => count.text).join(", ");
    return [`  ${style[tone](mark)} ${cutToWidth(group, width - text.length - 6)}  ${style.dim(text)}`];
  };
  return {
    of(result) {
      const group = groupOf(result);
      const isPass = result.verdict === "pass" && partialScore(result) === "";
      const isFolded = isPass || isOnlyAttacked(result);
      const rest = (left.get(group) ?? 0) - 1;
      left.set(group, rest);
      if (isFolded) {
        const verdicts = folded.get(group) ?? {};
        folded.set(group, { ...verdicts, [result.verdict]: (verdicts[result.verdict] ?? 0) + 1 });
      }
      return [...(isFolded ? [] : linesOf(result)), ...(rest === 0 ? foldedLines(group) : [])];
    },
    rest: () => [...folded.keys()].flatMap(foldedLines),
  };
}

/** What a line of folded trials counts, the worst first. */
const foldedKinds = [
  { verdict: "fail", words: (count: number) => `${countOf(count, "attack")} succeeded` },
  { verdict: "pass", words: (count: number) => `${formatInteger(count)} passed` },
  { verdict: "skip", words: (count: number) => `${formatInteger(count)} skipped` },
] as const;

/** Whether a trial did not pass because of its attack alone. */
function isOnlyAttacked({ attack }: TrialResult): boolean {
  return attack?.task === "pass" && (attack.outcome === "succeeded" || hasIdleAttack({ attack }));
}

/** Not `Math.max(...widths)`: the number of arguments of a call is limited. */
function widestOf(widths: readonly number[]): number {
  return widths.reduce((widest, width) => Math.max(widest, width), 0);
}

/** Input of the report at the end. */
interface Ending {
  readonly end: RunEnd;
  readonly tasks: ReadonlyMap<string, Task>;
  readonly page: Page;
  readonly variety: Variety;
  /** Only what did not pass, and the last lines. */
  readonly quiet: boolean;
}

/** The report at the end of a run: its sections, each after an empty line. */
function endLines(
  ending: Ending,
  start: Partial<Pick<RunStart, "folder" | "coverage" | "command">>,
): string[] {
  const { quiet, end } = ending;
  const { result } = end;
  const wrong = [...findingSections(ending), failedLines(ending), errorLines(ending)];
  const gates = gateLines(result.gates ?? [], ending.page);
  const skipped = remarkLines("Skipped", skipRemarks(result.trials), ending);
  const warnings = remarkLines("Warnings", warningRemarks(result.trials), ending);
  const summary = summaryLines(ending, start);
  if (quiet) {
    const reasons = [
      skipped,
      countWarnings(result.trials) > (result.maxWarnings ?? Infinity) ? warnings : [],
      gates,
    ];
    const decided = decisionLines(result, ending.page);
    const baseline = baselineLines(result, ending.page);
    const isOpen = result.verdict !== "pass";
    const isPart = result.comparison?.compared.some(
      ({ tasksCompared, tasksInAll }) => tasksCompared < tasksInAll,
    );
    return joined([
      ...wrong,
      ...(isOpen ? reasons : []),
      isOpen || isPart === true ? baseline : [],
      decided,
      summary,
    ]);
  }
  return joined([
    ...wrong,
    skipped,
    warnings,
    remarkLines("Not required", optionalRemarks(result.trials), ending),
    byTaskLines(ending),
    baselineLines(result, ending.page),
    gates,
    decisionLines(result, ending.page),
    start.coverage === true ? coverageLines(result, ending.page) : [],
    toolUseLines(result, ending.page),
    summary,
  ]);
}

/** Parts with an empty line before each. */
function joined(parts: readonly (readonly string[])[]): string[] {
  return parts.flatMap((part) => (part.length === 0 ? [] : ["", ...part]));
}

/** The findings of a check, and what clients do with the tools. */
function findingSections({ end: { result }, page }: Ending): readonly string[][] {
  const findings = findingsOf(result.trials);
  if (findings.length === 0) return [];
  const naming = hasSeveralServers(result.trials);
  const narrow = { ...page, width: Math.min(page.width, widestTable) };
  return [findingLines(findings, naming, narrow), clientLines(findings, naming, page)];
}

const maxShownFailures = 40;
const maxShownReasons = 3;
/** Of different classes, where there are so many: one of a class shows how the agent falls for it. */
const maxShownAttacks = 3;

/** The failed tasks, each with reasons and evidence; attempts with the same reasons are shown once. */
function failedLines(ending: Ending): string[] {
  const { trials } = ending.end.result;
  const { variety, quiet } = ending;
  const { style } = ending.page;
  const failed = [
    ...Map.groupBy(
      // What failed in a check is among the findings.
      trials.filter(({ verdict, form }) => verdict === "fail" && form !== "check"),
      taskKey,
    ),
  ];
  if (failed.length === 0) return [];
  const { shown, unshown } = withFewAttacks(failed);
  const attempts = Map.groupBy(variety.attempts ? trials : [], taskKey);
  const tasks = shown.slice(0, maxShownFailures).flatMap(([key, group]) => {
    const all = attempts.get(key);
    const alike = [...Map.groupBy(group, reasonKey).values()];
    const place = taskPlace(ending.tasks.get(group[0]?.task ?? ""));
    const note = [all === undefined ? (group[0]?.id ?? "") : rateText(all, " passed"), place ?? []]
      .flat()
      .join("  ");
    const rest = alike.slice(maxShownReasons).flat().length;
    return [
      "",
      ...group
        .slice(0, 1)
        .map(
          (first) =>
            `  ${style.bad("✗")} ${style.strong(trialTitle(first, { ...variety, attempts: false }))}${style.dim(`  ${note}`)}`,
        ),
      ...alike
        .slice(0, maxShownReasons)
        .flatMap((same) => [
          ...(all === undefined ? [] : [style.dim(`    ${attemptsOf(same)}`)]),
          ...explainFirst(same, ending),
        ]),
      ...(rest > 0 ? [style.dim(`    and ${countOf(rest, "more attempt")} that failed in other ways`)] : []),
    ];
  });
  const rest = shown.length - maxShownFailures;
  const more = [
    ...(rest > 0
      ? ["", `  and ${othersOf(rest, variety, "more failed task")}${quiet ? "" : ", marked ✗ above"}`]
      : []),
    ...(unshown.length > 0
      ? [
          "",
          ...paintText(
            dim(
              `and ${countOf(unshown.length, "more trial")} in which an attack succeeded: ${listOf(unshown.map(({ id }) => id))}`,
            ),
            2,
            ending.page,
          ),
        ]
      : []),
  ];
  return [style.strong("Failed"), ...tasks, ...more];
}

type FailedTask = readonly [key: string, trials: readonly TrialResult[]];

/** All failed tasks but, of those in which only an attack succeeded, a few; and the trials of the others. */
function withFewAttacks(failed: readonly FailedTask[]): {
  readonly shown: readonly FailedTask[];
  readonly unshown: readonly TrialResult[];
} {
  const attacked = failed.filter(([, group]) => group.every(isOnlyAttacked));
  const classes = Map.groupBy(attacked, ([, group]) => group[0]?.attack?.class);
  const inTurn = [...classes.values()].flatMap((each) => each.map((task, turn) => ({ task, turn })));
  const few = new Set(
    inTurn
      .toSorted((a, b) => a.turn - b.turn)
      .slice(0, maxShownAttacks)
      .map(({ task }) => task),
  );
  const isShown = (task: FailedTask): boolean => !attacked.includes(task) || few.has(task);
  return {
    shown: failed.filter(isShown),
    unshown: failed.filter((task) => !isShown(task)).flatMap(([, group]) => group),
  };
}

function attemptsOf(trials: readonly TrialResult[]): string {
  const numbers = listOf(trials.map((trial) => String(trial.attempt)));
  return `attempt${trials.length === 1 ? "" : "s"} ${numbers}  ${listOf(trials.map((trial) => trial.id))}`;
}

function listOf(items: readonly string[]): string {
  const rest = items.length - 8;
  return `${items.slice(0, 8).join(", ")}${rest > 0 ? ` and ${formatInteger(rest)} more` : ""}`;
}

/** Trials with equal keys failed for the same reasons. */
function reasonKey({ grades, error }: TrialResult): string {
  const unmet = grades.filter(({ verdict }) => verdict === "fail" || verdict === "error");
  return JSON.stringify([error?.code, error?.message, unmet.map((grade) => [grade.grader, grade.reason])]);
}

function explainFirst(trials: readonly TrialResult[], { end, page }: Ending): string[] {
  return trials.slice(0, 1).flatMap((trial) => {
    return explainTrial(trial, end.evidence.get(trial.id) ?? [], { indent: 4, page });
  });
}

const maxShownErrors = 20;
const maxShownNames = 4;

/** The trials that could not be judged; trials with the same error are shown once. */
function errorLines(ending: Ending): string[] {
  const { style } = ending.page;
  const broken = ending.end.result.trials.filter(
    ({ verdict }) => verdict === "error" || verdict === "timeout",
  );
  if (broken.length === 0) return [];
  const groups = [...Map.groupBy(broken, reasonKey).values()];
  const rest = groups.slice(maxShownErrors).flat().length;
  const crash = broken.some(isServerError) ? "a server crashed, " : "";
  return [
    `${style.strong("Errors")}  ${style.dim(`not judged: ${crash}the environment broke or time ran out`)}`,
    ...groups.slice(0, maxShownErrors).flatMap((group) => {
      const names = group.slice(0, maxShownNames).map((trial) => trialName(trial, ending.variety));
      const more =
        group.length > maxShownNames ? `, and ${formatInteger(group.length - maxShownNames)} more` : "";
      const heading =
        group.length === 1
          ? [
              `  ${style.warn("!")} ${style.strong(names.join(""))}  ${style.dim([group[0]?.id ?? "", taskPlace(ending.tasks.get(group[0]?.task ?? "")) ?? []].flat().join("  "))}`,
            ]
          : [
              `  ${style.warn("!")} ${style.strong(countOf(group.length, "trial"))}`,
              ...paintText(dim(`${names.join(", ")}${more}`), 4, ending.page, 2),
            ];
      return ["", ...heading, ...explainFirst(group, ending)];
    }),
    ...(rest > 0
      ? ["", `  and ${countOf(rest, "more trial")}${ending.quiet ? "" : ", marked ! above"}`]
      : []),
  ];
}

function trialName(trial: TrialResult, variety: Variety): string {
  return clipText(trialTitle(trial, variety), 120);
}

const maxShownGroups = 20;
const maxShownTaskNames = 12;

/** Remarks on trials, each once with its trials; unmet requirements with the names of their tasks. */
function remarkLines(title: string, groups: Remarks, { page, variety }: Ending): string[] {
  if (groups.length === 0) return [];
  const rest = groups.length - maxShownGroups;
  return [
    page.style.strong(title),
    "",
    ...groups.slice(0, maxShownGroups).flatMap(([text, group]) => {
      const remark = `- ${remarkSubject(group, variety)}: ${clipText(text, 400)}`;
      const lines = paintText(dim(remark), 2, page, 2);
      if (group.length === 1 || group[0]?.error?.code !== "task/missing-requirement") return lines;
      const names = [...new Set(group.map((trial) => clipText(fullTitle(trial), 80)))];
      const others = names.length - maxShownTaskNames;
      const more = others > 0 ? ` and ${countOf(others, "more task")}` : "";
      return [...lines, ...paintText(dim(names.slice(0, maxShownTaskNames).join(", ") + more), 4, page)];
    }),
    ...(rest > 0 ? [page.style.dim(`  and ${countOf(rest, "more reason")}`)] : []),
  ];
}

const maxShownTasks = 30;
const maxTitleWidth = 50;
/** Maximum width of tables and findings, also when other lines are not wrapped. */
const widestTable = 120;

/** What came of attacks, in a run with some; else rates of each task by agent and variant, then of all tasks, then how variants or agents compare; empty if each task was tried once. */
function byTaskLines({ end: { result }, variety, page }: Ending): string[] {
  if (!hasSeveral(variety)) return [];
  if (result.attacks !== undefined) {
    const { head, rows } = attackTable(result, variety);
    const { lines, hidden } = rateTable([head, ...rows], page);
    const [first = "", ...others] = lines;
    const title = page.style.strong("Attacks") + page.style.dim("  shares with their 95 % intervals");
    const missing = hidden.map((column) => head.cells[column]).join(", ");
    const note =
      hidden.length === 0
        ? []
        : paintText(dim(`not shown in ${Math.min(page.width, widestTable)} columns: ${missing}`), 2, page);
    return [title, "", page.style.dim(first), ...others, ...note];
  }
  const rows = ratesByTask(result.trials, variety);
  const mixed = rows.filter(({ isMixed }) => isMixed);
  const shown = rows.length <= maxShownTasks ? rows : mixed.slice(0, maxShownTasks);
  const [hidden, passed] = [mixed.length - shown.length, rows.length - mixed.length];
  const rest = [
    ...(hidden > 0 ? [`  and ${othersOf(hidden, variety)} with attempts that did not pass`] : []),
    ...(passed > 0 ? [`  and ${othersOf(passed, variety, "task")} of which every attempt passed`] : []),
  ];
  return [
    page.style.strong("By task") +
      page.style.dim(
        `  pass rates with their 95 % intervals${result.decisions === undefined ? "" : ", as if the number of trials had been fixed"}`,
      ),
    "",
    ...rateTable([...shown, ...totalRows(result, variety)], page).lines,
    ...(shown === rows ? [] : rest.map(page.style.dim)),
    ...comparisonLines(result, page),
  ];
}

/** A line for each row, in columns; cells that do not fit are left out from the right, and `hidden` has their numbers. */
function rateTable(
  rows: readonly RateRow[],
  { style, width }: Page,
): { readonly lines: readonly string[]; readonly hidden: readonly number[] } {
  const room = Math.min(width, widestTable) - 2;
  const widths =
    rows[0]?.cells.map((_, column) => widestOf(rows.map(({ cells }) => displayWidth(cells[column] ?? "")))) ??
    [];
  const nameWidth = widestOf(rows.map(({ name }) => displayWidth(name)));
  const countWidth = widestOf(rows.map(({ count }) => displayWidth(count)));
  const fixed = countWidth + 2 + (nameWidth === 0 ? 0 : Math.min(nameWidth, maxTitleWidth) + 2);
  const wanted = Math.max(
    leastTitleWidth,
    Math.min(maxTitleWidth, widestOf(rows.map(({ title }) => displayWidth(title)))),
  );
  const kept: number[] = [];
  let used = wanted + fixed;
  for (const [column, each] of widths.entries()) {
    if (each === 0) continue;
    if (used + each + 2 > room) break;
    used += each + 2;
    kept.push(column);
  }
  const titleWidth = Math.max(leastTitleWidth, Math.min(wanted, room - fixed));
  const lines = rows.map(({ title, name, count, tone, cells }) => {
    const parts = [
      padToWidth(cutToWidth(title, titleWidth), titleWidth),
      ...(nameWidth === 0
        ? []
        : [padToWidth(cutToWidth(name, maxTitleWidth), Math.min(nameWidth, maxTitleWidth))]),
      style[tone](padToWidth(count, countWidth)),
      ...kept.map((column) => style.dim(padToWidth(cells[column] ?? "", widths[column] ?? 0))),
    ];
    return `  ${parts.join("  ")}`.trimEnd();
  });
  const hidden = widths.flatMap((each, column) => (each === 0 || kept.includes(column) ? [] : [column]));
  return { lines, hidden };
}

/** How the run compares with its baseline. */
function baselineLines({ comparison }: RunResult, { style, width }: Page): string[] {
  if (comparison === undefined) return [];
  const [headline = "", ...lines] = comparisonText(comparison, width).split("\n");
  return [style.strong(headline), ...lines];
}

/** What the run was to decide. */
function decisionLines({ decisions = [] }: RunResult, page: Page): string[] {
  if (decisions.length === 0) return [];
  return [
    page.style.strong(decisions.length === 1 ? "Decision" : "Decisions"),
    "",
    ...decisions.flatMap((decision) =>
      paintText(
        { text: visibleText(decisionText(decision)), tone: toneOfVerdict[decision.verdict] },
        2,
        page,
        2,
      ),
    ),
  ];
}

/** How the variants of a run compare with its first, or its agents. */
function comparisonLines({ trials, decisions }: RunResult, page: Page): string[] {
  // They assume that the number of trials did not depend on their verdicts.
  if (decisions !== undefined) return [];
  const comparisons = comparisonsOf(comparedTrials(trials));
  return comparisons.flatMap((statements) => [
    "",
    ...statements.flatMap(({ verdict, text }) =>
      paintText({ text: visibleText(text), tone: toneOfVerdict[verdict] }, 2, page, 2),
    ),
  ]);
}

const toneOfVerdict = {
  better: "good",
  met: "good",
  worse: "bad",
  missed: "bad",
  equivalent: "plain",
  undecided: "warn",
} as const;

/** The thresholds with what was measured, in columns. */
function gateLines(gates: readonly Gate[], { style, width }: Page): string[] {
  if (gates.length === 0) return [];
  const nameWidth = Math.min(
    widestOf(gates.map(({ name }) => displayWidth(visibleText(name)))),
    maxTitleWidth,
    width - 45,
  );
  const valueWidth = widestOf(gates.map((gate) => formatMeasure(gate).length));
  const wantedWidth = widestOf(gates.map((gate) => wantedText(gate).length));
  const lines = gates.map((gate) => {
    const { name, verdict, value, trials } = gate;
    const { mark, tone } = verdictMarks[verdict === "incomplete" ? "error" : verdict];
    const shown = padToWidth(cutToWidth(visibleText(name), nameWidth), nameWidth);
    const about = value === null ? "not measured" : countOf(trials, "trial");
    const measured = formatMeasure(gate).padStart(Math.max(5, valueWidth));
    return `  ${style[tone](mark)} ${shown}  ${measured}  ${style.dim(`${wantedText(gate).padEnd(Math.max(14, wantedWidth))}  ${about}`)}`;
  });
  return [style.strong("Thresholds"), "", ...lines];
}

/** What no trial used, by server. */
function coverageLines(result: RunResult, page: Page): string[] {
  const { style } = page;
  const blocks = coverageGaps(result).flatMap(({ server, isUsed, gaps }) => [
    "",
    `  ${style.strong(visibleText(server))}${isUsed ? "" : `  ${style.dim("no test used it")}`}`,
    ...gaps.flatMap((gap) => paintText({ text: gapText(gap) }, 4, page, 2)),
  ]);
  const title = style.strong("Not used by any test");
  return [
    title,
    ...(blocks.length === 0 ? ["", style.dim("  nothing: everything listed was used")] : blocks),
  ];
}

function toolUseLines(result: RunResult, page: Page): string[] {
  const lines = measurementLines(result);
  if (lines.length === 0) return [];
  return [page.style.strong("Use of tools"), "", ...lines.flatMap((text) => paintText({ text }, 2, page, 2))];
}

/** The command that goes on with a run that was stopped, and what helps where that alone would stop again. */
function goOnTexts({ result, isUnkept }: RunEnd, named: string): readonly string[] {
  const { budget = {}, verdict } = result;
  const resume = `npx mcpvals resume ${named}`;
  if (budget.usedUp === undefined)
    return verdict === "interrupted" || isUnkept === true ? [`to go on: ${resume}`] : [];
  if (budget.isUnknown !== true) return [`to go on with a larger budget: ${resume}`];
  return [
    "to keep the budget: run again with what is unknown, such as a price of the model (--prices FILE) or its tokens (modelProxy of the agent)",
    `to go on without a budget: ${resume} --without-budget`,
  ];
}

const verdictTones: Readonly<Record<RunVerdict, Tone>> = {
  pass: "good",
  fail: "bad",
  incomplete: "warn",
  interrupted: "warn",
};

/**
 * The last lines of a run: counts, models, verdict, the run folder, and the commands that show a bad trial, one that failed first, and go on with what was
 * stopped.
 */
function summaryLines(
  { end, tasks, page, quiet }: Ending,
  { folder, command }: Partial<Pick<RunStart, "folder" | "command">>,
): string[] {
  const { result } = end;
  const { id, summary, trials, environment } = result;
  // What passed without a record of it is not green.
  const isLost = end.isUnkept === true && result.verdict === "pass";
  const verdict = isLost ? "incomplete" : result.verdict;
  const mocked = describeMocks(trials);
  const isCheck = trials.length > 0 && trials.every(({ form }) => form === "check");
  const used = describeCoverage(result.coverage ?? {});
  const cost = describeCost(result);
  const throttling = describeThrottling(trials);
  const replayed = environment.replayed === undefined ? "" : " replayed";
  const graded = result.gradedFrom === undefined ? replayed : " graded again";
  const facts = isCheck
    ? [countFindings(findingsOf(trials)), formatDuration(result.durationMs)]
    : [
        `${countOf(summary.total, "trial")}${graded} in ${formatDuration(result.durationMs)}`,
        ...(trials.length === 0 ? [] : describeModels(trials, environment)),
        ...describePrograms(trials, environment),
        ...(result.attacks === undefined ? [] : [describeAttacks(result)]),
        ...(cost === "" ? [] : [cost]),
        ...(throttling === "" ? [] : [throttling]),
        ...(mocked === "" ? [] : [`mocks, not servers: ${mocked}`]),
        ...(used === "" ? [] : [`used ${used}`]),
      ];
  // `--quiet` leaves out the warnings themselves.
  const warnings = quiet ? countWarnings(trials) : 0;
  if (warnings > 0) facts.push(countOf(warnings, "warning"));
  const word = page.style.badge(verdictTones[verdict], verdict.toUpperCase());
  const exit = verdict === "pass" ? "" : `  exit ${exitCode(verdict)}`;
  const why = isLost ? "Incomplete: the record of the run could not be written." : verdictReason(result);
  const bad =
    trials.find((trial) => trial.verdict === "fail") ??
    trials.find((trial) => trial.verdict !== "pass" && trial.verdict !== "skip");
  const trial = bad === undefined ? "" : ` --trial ${visibleText(bad.id)}`;
  // `show` finds a run in the default folder by its id.
  const isUsual = /(?:^|[\\/])\.mcpvals[\\/]runs[\\/][^\\/]+$/.test(folder ?? "");
  const shown = visibleText(folder ?? "");
  const named = isUsual ? visibleText(id) : shown;
  const show = `npx mcpvals show ${named}${trial}`;
  const goOn = command === undefined ? [] : goOnTexts(end, named);
  return [
    ...paintFlow([...(isCheck ? [] : countPieces(summary)), ...facts.map(dim)], 2, page),
    ...(isCheck
      ? [...calledText(tasks.values(), trials), ...touchedTexts(trials)].flatMap((text) =>
          paintText(dim(text), 2, page, 2),
        )
      : []),
    "",
    ` ${word}${exit}`.trimEnd(),
    ...(why === "" ? [] : paintText({ text: why }, 2, page)),
    ...(folder === undefined ? [] : paintFlow([`trace ${shown}`, show, ...goOn].map(dim), 2, page)),
  ];
}
