import { countOf } from "../../base/visible-text.ts";
import { withoutNoise, withoutUndefined } from "../../base/json.ts";
import type { AgentIdentity } from "../../model/agent.ts";
import type { ComparedDocument, ComparisonDocument, Question, Statement } from "../../model/comparison.ts";
import { failCode, type FailOn, type OpenDifference } from "../../statistics/compare.ts";
import {
  type ComparedTask,
  type ComparedTrial,
  compareRuns,
  isPairedBy,
  type Kind,
  namesIn,
  type RunComparison,
  type Side,
} from "./compare-runs.ts";
import { agentDifferences } from "./identities.ts";
import { hasEnoughTasks, nothingMeasured, type SideName, statementsOf } from "./statements.ts";

// What the command `compare` and the dashboard say of several sides.

/** A side with what is known of it. `name` is what the user calls it. */
export interface NamedSide<T extends ComparedTrial = ComparedTrial> extends Side<T>, SideName {
  /** What else it is called, such as the id of a run. */
  readonly alias?: string;
  /** Equal for sides that share trials: the id of the run that recorded them, also of a retry, or the path of a file. */
  readonly origin: string;
  /** Who its agents are; absent: not known. */
  readonly agents?: readonly AgentIdentity[] | undefined;
  /** Whether the number of its trials depended on their verdicts. */
  readonly isUntilDecided?: true;
  /** Its variants are attacks on its agents. */
  readonly isAttacked?: true;
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
 * What of one run can be compared: its variants, its agents. Attacks cannot: what came of each class is in the report of the run, compared
 * with the trials without an attack.
 */
export function comparableKinds({ trials, isAttacked }: NamedSide): readonly Kind[] {
  const kinds = isAttacked === true ? (["agent"] as const) : (["variant", "agent"] as const);
  return kinds.filter((kind) => namesIn(trials, kind).length > 1);
}

/** The sides of one run: its variants, or its agents; without `by`, what it has several of. */
export function sidesOfRun<T extends ComparedTrial>(
  run: NamedSide<T>,
  by?: Kind,
): { readonly sides: readonly NamedSide<T>[]; readonly across: Kind } {
  const across = by ?? comparableKinds(run)[0] ?? "agent";
  const sides = namesIn(run.trials, across).map((name) => ({
    ...run,
    name,
    alias: name,
    trials: run.trials.filter((trial) => trial[across] === name),
  }));
  return { sides, across };
}

/** Why sides cannot be compared with the first, and what to do. */
interface Refusal {
  readonly message: string;
  readonly hint: string;
}

/**
 * Says why sides cannot be compared: two have the same trials, or have several agents or variants of which none has a name that the other one has.
 * Undefined for sides that can be.
 */
export function refusalOf(
  [first, ...others]: readonly [NamedSide, ...NamedSide[]],
  across?: Kind,
): Refusal | undefined {
  for (const [index, side] of others.entries()) {
    const refusal =
      (across === undefined ? sameTrials(side, [first, ...others.slice(0, index)]) : undefined) ??
      noCommonName("variant", first, side, across) ??
      noCommonName("agent", first, side, across);
    if (refusal !== undefined) return refusal;
  }
  return undefined;
}

function sameTrials(side: NamedSide, others: readonly NamedSide[]): Refusal | undefined {
  const same = others.find(({ origin }) => origin === side.origin);
  if (same === undefined) return undefined;
  return {
    message: `${same.name} and ${side.name} have the same trials, or tried some of them again`,
    hint: "Name two runs of which none was graded or retried from the other. To compare the variants or agents of one run, name it once.",
  };
}

function noCommonName(
  kind: Kind,
  first: NamedSide,
  second: NamedSide,
  across: Kind | undefined,
): Refusal | undefined {
  if (!isPairedBy(kind, [first, second], across)) return undefined;
  const [names, others] = [namesIn(first.trials, kind), namesIn(second.trials, kind)];
  if (names.some((name) => others.includes(name))) return undefined;
  return {
    message: `${first.name} and ${second.name} have no ${kind} in common: ${names.join(", ") || "none"}; ${others.join(", ") || "none"}`,
    hint: `Where each side has one ${kind}, these are compared: run with --${kind} NAME. The ${kind}s of one run are compared with: mcpvals compare RUN --by ${kind}`,
  };
}

/** Compares sides with the first, and says what `--fail-on` makes of it. They are such that {@link refusalOf} refuses none. */
export function comparisonOf(
  [first, ...others]: readonly [NamedSide, ...NamedSide[]],
  { across, margin, question = "these tasks", failOn }: CompareSidesOptions = {},
): ComparisonDocument {
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

function notesOf(
  { first, second, comparison: { unscored } }: ComparedSides,
  across: Kind | undefined,
): readonly string[] {
  const sides = [
    [first, unscored.before],
    [second, unscored.after],
  ] as const;
  const ended = [first, second].filter(({ isUntilDecided }) => isUntilDecided).map(({ name }) => name);
  const unknown =
    across === undefined ? [first, second].filter(({ fingerprints }) => fingerprints === undefined) : [];
  return [
    ...sides.flatMap(([{ name, unfinished }, count]) => {
      const lacking = `${countOf(count, "trial")} of ${name} ${count === 1 ? "has" : "have"} no verdict`;
      if (unfinished !== undefined) return [`${name} ${unfinished}${count === 0 ? "" : `: ${lacking}`}.`];
      return count === 0 ? [] : [`${lacking}.`];
    }),
    ...[first, second].flatMap(reportedNote),
    ...(across === "agent" ? [] : agentDifferences(first, second)),
    ...(ended.length === 0
      ? []
      : [
          `The number of trials of ${ended.join(" and ")} depends on their verdicts (--until decided), so the intervals and probabilities here are too sure. Those of the run's own decisions hold.`,
        ]),
    ...(unknown.length === 0
      ? []
      : [
          `${unknown.map(({ name }) => name).join(" and ")} ${unknown.length === 1 ? "has" : "have"} no fingerprints of tasks, since an older mcpvals wrote ${unknown.length === 1 ? "it" : "them"}: whether the tasks are the same on both sides cannot be checked.`,
        ]),
  ];
}

function reportedNote({ name, trials }: NamedSide): readonly string[] {
  const tools = [...new Set(trials.flatMap(({ reported }) => reported?.by ?? []))];
  return tools.map(
    (tool) => `Verdicts of ${name} are those that ${tool} reported: mcpvals has no evidence of them.`,
  );
}

/** The verdict of a side for a question. */
function verdictFor(statements: readonly Statement[], question: Question): Statement["verdict"] {
  const found = statements.find((each) => each.question === question && each.metric === "pass rate");
  return found?.verdict ?? "undecided";
}

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
  const { rates, theseTasks, tasksLikeThese, durations, tokens, costs, tasks } = comparison;
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
    tools: comparison.tools,
    durations,
    tokens,
    costs,
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
  const { passed, scored, unscored, leftOut, passRate, durationMs, tokens, cost } = side;
  return withoutUndefined({ passed, scored, unscored, leftOut, passRate, durationMs, tokens, cost });
}

/**
 * What is said of the pass rates of the variants of one run, each compared with the first; else of its agents. Empty where it has
 * one of each.
 */
export function comparisonsOf(trials: readonly ComparedTrial[]): readonly (readonly Statement[])[] {
  const {
    sides: [first, ...others],
    across,
  } = sidesOfRun({ name: "", origin: "", trials });
  if (first === undefined || others.length === 0) return [];
  return comparisonOf([first, ...others], { across }).compared.map((compared) =>
    compared.statements.length === 0
      ? [nothingMeasured(first.name, compared.name)]
      : compared.statements.filter(
          ({ metric, question }) =>
            metric === "pass rate" && (question === "these tasks" || hasEnoughTasks(compared)),
        ),
  );
}
