import { padToWidth, displayWidth, wrapText } from "../base/columns.ts";
import { McpvalsError } from "../base/error.ts";
import { withoutNoise, withoutUndefined } from "../base/json.ts";
import { visibleText } from "../base/visible-text.ts";
import type { ComparisonDocument, Question, Statement } from "../model/comparison.ts";
import type { TrialResult } from "../model/result.ts";
import { failCode, type FailOn, minTasks, type OpenDifference } from "../statistics/compare.ts";
import type { Proportion } from "../statistics/rates.ts";
import {
  type ComparedTask,
  type ComparedTrial,
  compareRuns,
  isPairedBy,
  type Kind,
  namesIn,
  type RunComparison,
  type Side,
  type SideName,
  statementsOf,
} from "./documents/compare-runs.ts";
import { countOf, escapeMarkdown } from "./text.ts";
import { wasLeftOut } from "./rates.ts";

/** A side with what is known of it. `name` is what the user calls it. */
export interface NamedSide extends Side, SideName {
  /** What else it is called, such as the id of a run. */
  readonly alias?: string;
  /** Equal for sides that share trials: the id of the run that recorded them, also of a retry, or the path of a file. */
  readonly origin: string;
}

export interface CompareSidesOptions {
  /** What is the difference between the sides, where they are parts of one run. */
  readonly across?: Kind | undefined;
  readonly margin?: number | undefined;
  /** Whose verdict `failOn` looks at. Default: that on these tasks. */
  readonly question?: Question | undefined;
  readonly failOn?: FailOn | undefined;
}

/**
 * Compares sides with the first, and says what `--fail-on` makes of it. Throws `usage/invalid-option` for the same trials on two sides, and for sides with several
 * agents or variants of which none has a name that the other one has.
 */
export function compareSides(
  sides: readonly [NamedSide, ...NamedSide[]],
  { across, margin, question = "these tasks", failOn }: CompareSidesOptions = {},
): ComparisonDocument {
  const [first, ...others] = sides;
  refuseIncomparable(sides, across);
  const named = others.map((second) => ({
    first,
    second,
    comparison: compareRuns(first, second, { across }),
  }));
  const statements = statementsOf(named, withoutUndefined({ margin }));
  const compared = named.map((each, index) => {
    const said = statements[index] ?? [];
    return comparedDocument(each, {
      statements: said,
      notes: notesOf(each, across),
      verdict: verdictFor(said, question),
    });
  });
  const verdicts = compared.map(({ verdict }) => verdict);
  return withoutNoise(
    withoutUndefined({
      schema: "mcpvals.comparison/1" as const,
      first: first.name,
      firstRun: runOf(first),
      question,
      margin,
      failOn: failOn && { verdict: failOn, exitCode: failCode(verdicts, failOn) },
      compared,
    }),
  );
}

/** Throws what {@link compareSides} does; sides need only have the tasks, agents and variants that they will have. */
export function refuseIncomparable(
  [first, ...others]: readonly [NamedSide, ...NamedSide[]],
  across?: Kind,
): void {
  for (const [index, side] of others.entries()) {
    if (across === undefined) refuseSame(side, [first, ...others.slice(0, index)]);
    for (const kind of ["variant", "agent"] as const) requireCommonName(kind, first, side, across);
  }
}

function refuseSame(side: NamedSide, others: readonly NamedSide[]): void {
  const same = others.find(({ origin }) => origin === side.origin);
  if (same === undefined) return;
  throw new McpvalsError(
    "usage/invalid-option",
    `${same.name} and ${side.name} have the same trials, or tried some of them again`,
    {
      hint: "Name two runs of which none was graded or retried from the other. To compare the variants or agents of one run, name it once.",
    },
  );
}

function requireCommonName(kind: Kind, first: NamedSide, second: NamedSide, across: Kind | undefined): void {
  if (!isPairedBy(kind, [first, second], across)) return;
  const [names, others] = [namesIn(first.trials, kind), namesIn(second.trials, kind)];
  if (names.some((name) => others.includes(name))) return;
  throw new McpvalsError(
    "usage/invalid-option",
    `${first.name} and ${second.name} have no ${kind} in common: ${names.join(", ") || "none"}; ${others.join(", ") || "none"}`,
    {
      hint: `Where each side has one ${kind}, these are compared: run with --${kind} NAME. The ${kind}s of one run are compared with: mcpvals compare RUN --by ${kind}`,
    },
  );
}

function notesOf(
  { first, second, comparison: { unscored } }: ComparedSides,
  across: Kind | undefined,
): readonly string[] {
  const sides = [
    [first, unscored.before],
    [second, unscored.after],
  ] as const;
  const unknown =
    across === undefined ? [first, second].filter(({ fingerprints }) => fingerprints === undefined) : [];
  return [
    ...sides.flatMap(([{ name, unfinished }, count]) => {
      const lacking = `${countOf(count, "trial")} of ${name} ${count === 1 ? "has" : "have"} no verdict`;
      if (unfinished !== undefined) return [`${name} ${unfinished}${count === 0 ? "" : `: ${lacking}`}.`];
      return count === 0 ? [] : [`${lacking}.`];
    }),
    ...(unknown.length === 0
      ? []
      : [
          `${unknown.map(({ name }) => name).join(" and ")} ${unknown.length === 1 ? "has" : "have"} no fingerprints of tasks, since an older mcpvals wrote ${unknown.length === 1 ? "it" : "them"}: whether the tasks are the same on both sides cannot be checked.`,
        ]),
  ];
}

/** The verdict of a side for a question. */
function verdictFor(statements: readonly Statement[], question: Question): Statement["verdict"] {
  const found = statements.find((each) => each.question === question && each.metric === "pass rate");
  return found?.verdict ?? "undecided";
}

type ComparedDocument = ComparisonDocument["compared"][number];

/** One side against the first. */
interface ComparedSides {
  readonly first: NamedSide;
  readonly second: NamedSide;
  readonly comparison: RunComparison;
}

function comparedDocument(
  { second, comparison }: ComparedSides,
  { verdict, notes, statements }: Pick<ComparedDocument, "verdict" | "notes" | "statements">,
): ComparedDocument {
  const { rates, theseTasks, tasksLikeThese, durations, tokens, tasks } = comparison;
  return withoutUndefined({
    name: second.name,
    run: runOf(second),
    verdict,
    notes,
    statements,
    tasksCompared: comparison.compared.tasks,
    tasksInAll: comparison.compared.of,
    rates: rates && { first: rates.before, second: rates.after },
    theseTasks: theseTasks && differenceDocument(theseTasks),
    tasksLikeThese: tasksLikeThese && differenceDocument(tasksLikeThese),
    durations,
    tokens,
    tasks: tasks.map(taskDocument),
  });
}

function runOf({ name, alias }: NamedSide): string | undefined {
  return alias === name ? undefined : alias;
}

type DifferenceDocument = NonNullable<ComparedDocument["theseTasks"]>;

function differenceDocument({ difference, least, most }: OpenDifference): DifferenceDocument {
  return least === difference ? difference : { ...difference, least, most };
}

type TaskDocument = ComparedDocument["tasks"][number];
type SideCounts = NonNullable<TaskDocument["first"]>;

function taskDocument(compared: ComparedTask): TaskDocument {
  const { task, suite, agent, variant, changed, difference, before, after } = compared;
  return withoutUndefined({
    task,
    suite,
    agent,
    variant,
    changed,
    difference,
    first: before && countsOf(before),
    second: after && countsOf(after),
  });
}

function countsOf(side: NonNullable<ComparedTask["before"]>): SideCounts {
  const { passed, scored, unscored, leftOut, passRate, durationMs, tokens } = side;
  return withoutUndefined({ passed, scored, unscored, leftOut, passRate, durationMs, tokens });
}

/** Most tasks that are listed. */
const maxShownTasks = 20;
/** Where sentences begin, behind the longest verdict. */
const textColumn = 14;
const maxNameWidth = 40;

const nothingCommon = "They have no task in common that both measured, so nothing can be compared.";

/** A comparison for people, wrapped to a width. */
export function comparisonText(document: ComparisonDocument, columns: number): string {
  const wrapped = (text: string, indent: number, hang = indent): readonly string[] =>
    wrapText(visibleText(text), columns - hang).map(
      (line, index) => " ".repeat(index === 0 ? indent : hang) + line,
    );
  const blocks = document.compared.map((compared) => [
    [...wrapped(headline(document, compared), 0, 2), ...compared.notes.flatMap((note) => wrapped(note, 2))],
    compared.statements.length === 0
      ? wrapped(nothingCommon, 2)
      : compared.statements.flatMap(({ verdict, text, changes = "" }) =>
          wrapText(visibleText(`${text} ${changes}`.trimEnd()), columns - textColumn).map(
            (line, at) => (at === 0 ? `  ${verdict}` : "").padEnd(textColumn) + line,
          ),
        ),
    rateLines(document.first, compared).flatMap((line) => wrapped(line, 2, 4)),
    taskLines(document.first, compared).flatMap((line) => wrapped(line, 2, 4)),
  ]);
  return blocks
    .map((sections) => sections.filter((lines) => lines.length > 0).map((lines) => lines.join("\n")))
    .map((sections) => sections.join("\n\n"))
    .join("\n\n");
}

/** Which sides are compared, and of how many tasks. */
function headline(
  { first, firstRun }: ComparisonDocument,
  { name, run, tasksCompared, tasksInAll }: ComparedDocument,
): string {
  const tasks =
    tasksCompared === tasksInAll
      ? countOf(tasksInAll, "task")
      : `${tasksCompared} of ${countOf(tasksInAll, "task")} compared`;
  return `${titleOf(name, run)} compared with ${titleOf(first, firstRun)}: ${tasks}`;
}

/** A side by its name, and the run that it is. */
function titleOf(name: string, run: string | undefined): string {
  return run === undefined ? name : `${name} (${run})`;
}

type Rates = NonNullable<ComparedDocument["rates"]>["first"];

/** Whether what is said of tasks like these has a base. */
function hasEnoughTasks({ tasksLikeThese }: ComparedDocument): boolean {
  return (tasksLikeThese?.pairs ?? 0) >= minTasks;
}

function rateLines(first: string, compared: ComparedDocument): readonly string[] {
  const { name: second, rates } = compared;
  if (rates === undefined) return [];
  const names = [first, second].map(visibleText);
  const width = Math.min(maxNameWidth, Math.max(...names.map(displayWidth)));
  const isKnown = hasEnoughTasks(compared);
  const line = (name: string | undefined, { theseTasks: these, tasksLikeThese: others }: Rates): string =>
    `${padToWidth(name ?? "", width)}  ${rateText(these)} on these tasks${others === undefined || !isKnown ? "" : `, ${rangeText(others)} for tasks like these`}`;
  return ["Pass rates, with 95 % intervals:", line(names[0], rates.first), line(names[1], rates.second)];
}

/** The tasks that are of interest: those that changed, and those that are not compared. */
function taskLines(first: string, { name, tasks }: ComparedDocument): readonly string[] {
  const moved = tasks.filter(({ difference = 0 }) => difference !== 0);
  const others = tasks.filter(({ difference }) => difference === undefined);
  const shown = [...moved, ...others].slice(0, maxShownTasks);
  const more = moved.length + others.length - shown.length;
  if (shown.length === 0) return [];
  return [
    "Tasks that changed or were not compared:",
    ...shown.map((task) => `${nameOf(task)}  ${changeText(task, first, name)}`),
    ...(more === 0 ? [] : [`… and ${more} more; all are in --format json`]),
  ];
}

function nameOf({ task, agent, variant }: TaskDocument): string {
  const rest = [agent, variant].filter((each) => each !== undefined);
  return rest.length === 0 ? task : `${task} (${rest.join(", ")})`;
}

function changeText({ first, second, changed }: TaskDocument, firstName: string, secondName: string): string {
  if (first === undefined) return `only in ${secondName}`;
  if (second === undefined) return `only in ${firstName}`;
  if (changed === true) return "not compared: the task, or how it is graded, is not the same";
  return `${countText(first)} → ${countText(second)}`;
}

function countText({ passed, scored, unscored, leftOut }: SideCounts): string {
  const parts = [
    ...(scored === 0 ? [] : [`${passed}/${scored}`]),
    ...(unscored === 0 ? [] : [`${unscored} without a verdict`]),
    ...(leftOut === 0 ? [] : [`${leftOut} skipped`]),
  ];
  return parts.join(", ");
}

function rateText(rate: Proportion): string {
  return `${percent(rate.value)} (${rangeText(rate)})`;
}

function rangeText({ low, high }: Proportion): string {
  return `${percent(low)} to ${percent(high)}`;
}

/** Only all is 100 %, and only nothing 0 %. */
function percent(share: number): string {
  const rounded = Math.round(share * 1000) / 10;
  if (share < 1 && rounded === 100) return "over 99.9 %";
  return share > 0 && rounded === 0 ? "under 0.1 %" : `${rounded} %`;
}

function cell(text: string): string {
  return escapeMarkdown(visibleText(text));
}

/** A comparison in Markdown. */
export function comparisonMarkdown(document: ComparisonDocument): string {
  const { first } = document;
  const sections = document.compared.map((compared) => [
    [`## ${cell(headline(document, compared))}`],
    compared.notes.map(cell),
    compared.statements.length === 0
      ? [nothingCommon]
      : compared.statements.map(
          ({ verdict, text, changes = "" }) => `- **${verdict}**: ${cell(`${text} ${changes}`.trimEnd())}`,
        ),
    rateTable(first, compared)
      .map((cells) => `| ${cells.map(cell).join(" | ")} |`)
      .toSpliced(1, 0, "| --- | --- | --- |"),
    [
      `| task | ${cell(first)} | ${cell(compared.name)} |`,
      "| --- | --- | --- |",
      ...compared.tasks.map(
        (task) =>
          `| ${cell(nameOf(task))}${task.changed === true ? " (not the same task)" : ""} | ${task.first === undefined ? "-" : countText(task.first)} | ${task.second === undefined ? "-" : countText(task.second)} |`,
      ),
    ],
  ]);
  return sections
    .map((parts) =>
      parts.filter((lines) => lines.length > 1 || (lines[0]?.startsWith("|") !== true && lines.length > 0)),
    )
    .map((parts) => parts.map((lines) => lines.join("\n")).join("\n\n"))
    .join("\n\n");
}

/** Rows of a table of pass rates, with its heading; empty if nothing was measured on both sides. */
function rateTable(first: string, compared: ComparedDocument): readonly (readonly string[])[] {
  const { name: second, rates } = compared;
  if (rates === undefined) return [];
  const isKnown = hasEnoughTasks(compared);
  const row = (name: string, { theseTasks: these, tasksLikeThese: others }: Rates): readonly string[] => [
    name,
    rateText(these),
    others === undefined || !isKnown ? "-" : rangeText(others),
  ];
  return [
    ["pass rate", "on these tasks (95 % interval)", "for tasks like these"],
    row(first, rates.first),
    row(second, rates.second),
  ];
}

/** What is said of the pass rates of the variants of one run, each compared with the first; else of its agents. Empty where it has one of each. */
export function comparisonsOf(results: readonly TrialResult[]): readonly (readonly Statement[])[] {
  const trials = results.filter(({ form }) => form !== "check").map(comparedTrial);
  const across = (["variant", "agent"] as const).find((kind) => namesIn(trials, kind).length > 1);
  if (across === undefined) return [];
  const [first, ...others] = namesIn(trials, across).map((name) => ({
    name,
    trials: trials.filter((trial) => trial[across] === name),
  }));
  if (first === undefined) return [];
  const compared = others.map((second) => ({
    first,
    second,
    comparison: compareRuns(first, second, { across }),
  }));
  return statementsOf(compared).map((statements, index) => {
    const hasTasks = (compared[index]?.comparison.tasksLikeThese?.difference.pairs ?? 0) >= minTasks;
    return statements.filter(
      ({ metric, question }) => metric === "pass rate" && (hasTasks || question === "these tasks"),
    );
  });
}

/** What a comparison needs of a trial's result. */
export function comparedTrial(result: TrialResult): ComparedTrial {
  const { task, suite, agent, variant, verdict, durationMs, usage } = result;
  return withoutUndefined({
    task,
    suite,
    agent,
    variant,
    verdict,
    isLeftOut: wasLeftOut(result) ? (true as const) : undefined,
    durationMs,
    inputTokens: usage?.inputTokens,
    outputTokens: usage?.outputTokens,
  });
}
