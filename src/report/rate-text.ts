import type { Tone } from "../base/columns.ts";
import { formatDuration } from "../base/duration.ts";
import { countOf, formatInteger, visibleText } from "../base/visible-text.ts";
import type { AttackRate, RunResult, TrialResult } from "../model/result.ts";
import { type Proportion, sumOf } from "../statistics/rates.ts";
import { attackSides, taskRate, taskKey, trialsUnder } from "./rates.ts";
import { byResultText, costText, fullTitle, variantName, type Variety } from "./text.ts";
import { summarize } from "./result.ts";

/** A task in a table of rates. */
export interface RateRow {
  readonly title: string;
  /** Agent and variant, where a run has several. */
  readonly name: string;
  /** Passed attempts of those with a verdict. */
  readonly count: string;
  readonly tone: Tone;
  /** Rate with its interval, mean time, mean tokens, mean cost, and whether it is flaky; empty where there is none. See also {@link attackTable}. */
  readonly cells: readonly [rate: string, time: string, tokens: string, cost: string, flaky: string];
  readonly isMixed: boolean;
}

/** Rates of each task, a row for each agent and variant. */
export function ratesByTask(trials: readonly TrialResult[], variety: Variety): readonly RateRow[] {
  const named = { ...variety, attempts: false };
  return [...Map.groupBy(trials, taskKey).values()].flatMap((group): RateRow[] => {
    const [trial] = group;
    if (trial === undefined) return [];
    const { pass, fail, total, byToolResult } = summarize(group);
    const { rate, durationMs, tokens, cost, flaky } = taskRate(group);
    return [
      {
        title: fullTitle(trial),
        name: variantName(trial, named),
        count: rateText(group),
        tone: fail > 0 ? "bad" : pass === total && byToolResult === undefined ? "good" : "warn",
        cells: [
          intervalText(rate),
          durationMs === undefined ? "" : formatDuration(durationMs),
          tokens === undefined ? "" : `${formatInteger(tokens)} tokens`,
          cost === undefined ? "" : costText(cost),
          flaky === true ? "flaky" : "",
        ],
        isMixed: pass < total,
      },
    ];
  });
}

/** A row for all tasks of each agent and variant, where a run has several tasks with rates. */
export function totalRows(
  { rates, trials }: Pick<RunResult, "rates" | "trials">,
  variety: Variety,
): readonly RateRow[] {
  const tasks = new Set(trials.map(({ task }) => task));
  if (tasks.size < 2) return [];
  const named = { ...variety, attempts: false };
  const groups = rates?.groups ?? [];
  const hasAgents = groups.some(({ agent }) => agent !== null);
  return groups.map(({ agent, variant, passed, scored, unscored, theseTasks }) => ({
    title: "all tasks",
    name: [
      hasAgents && agent === null ? "no agent" : "",
      variantName({ agent, attempt: 1, ...(variant === undefined ? {} : { variant }) }, named),
    ]
      .filter((part) => part !== "")
      .join(" · "),
    count: countText({ passed, scored, unjudged: unscored }),
    tone: passed < scored ? ("bad" as const) : unscored > 0 ? ("warn" as const) : ("good" as const),
    cells: [intervalText(theseTasks), "", "", "", ""] as const,
    isMixed: passed < scored,
  }));
}

/** How many attacks succeeded, and how many of all did not come to their agents, in a few words. */
export function describeAttacks(result: Pick<RunResult, "attacks">): string {
  const wholes = attackSides(result).flatMap((rates) => rates.slice(-1));
  const judged = sumOf(wholes.map((rate) => rate.judged));
  const succeeded = sumOf(wholes.map((rate) => rate.succeeded));
  const notDelivered = sumOf(wholes.map((rate) => rate.notDelivered));
  return [
    judged === 0
      ? "no attack judged"
      : `${formatInteger(succeeded)} of ${countOf(judged, "attack")} succeeded`,
    ...(notDelivered === 0 ? [] : [shareOf(notDelivered, sumOf(wholes.map(trialsUnder)), "not delivered")]),
  ].join(", ");
}

function shareOf(part: number, whole: number, words: string): string {
  return `${formatInteger(part)} of ${formatInteger(whole)} ${words}`;
}

/** What came of attacks, as a table; its head is empty above columns in which nothing stands. */
interface AttackTable {
  readonly head: RateRow;
  /** For each agent one without an attack, then one for each class of attacks. */
  readonly rows: readonly RateRow[];
}

/**
 * How many attacks succeeded of those that were judged, with their share; the share of tasks that pass; how many count neither way; the
 * tools that were called only under attack.
 */
export function attackTable({ attacks = [] }: Pick<RunResult, "attacks">, variety: Variety): AttackTable {
  const hasVariants = attacks.some(({ variant }) => variant !== undefined);
  const named = { ...variety, variants: hasVariants, attempts: false };
  const nameOf = ({ agent, variant }: AttackRate): string =>
    variantName({ agent, attempt: 1, ...(variant === undefined ? {} : { variant }) }, named);
  const rows = attackSides({ attacks }).flatMap((rates) => [
    ...rates.slice(-1).flatMap((rate) => unattackedRow(rate, nameOf(rate))),
    ...rates.map((rate) => attackRow(rate, nameOf(rate))),
  ]);
  const above = (column: number, words: string): string =>
    rows.some(({ cells }) => cells[column] !== "") ? words : "";
  const head: RateRow = {
    title: "class",
    name: rows.some(({ name }) => name !== "") ? (hasVariants ? "agent, variant" : "agent") : "",
    count: "succeeded",
    tone: "dim",
    cells: [above(0, "share"), above(1, "tasks pass"), above(2, "not counted"), above(3, "also called"), ""],
    isMixed: false,
  };
  return { head, rows };
}

function unattackedRow({ taskWithout }: AttackRate, name: string): readonly RateRow[] {
  if (taskWithout === undefined) return [];
  const cells = ["", intervalText(taskWithout), "", "", ""] as const;
  return [{ title: "without attack", name, count: "", tone: "dim", cells, isMixed: false }];
}

function attackRow(attack: AttackRate, name: string): RateRow {
  const { class: ofClass = "all attacks", succeeded, judged } = attack;
  const { notDelivered, provedNothing, unjudged, furtherTools = [], rate, taskWith } = attack;
  const uncounted = {
    "not delivered": notDelivered,
    "proved nothing": provedNothing,
    "not judged": unjudged,
  };
  const isWhole = judged > 0 && Object.values(uncounted).every((count) => count === 0);
  return {
    title: visibleText(ofClass),
    name,
    count: `${formatInteger(succeeded)}/${formatInteger(judged)}`,
    tone: succeeded > 0 ? "bad" : isWhole ? "good" : "warn",
    cells: [
      intervalText(rate),
      intervalText(taskWith),
      Object.entries(uncounted)
        .flatMap(([words, count]) => (count === 0 ? [] : [shareOf(count, trialsUnder(attack), words)]))
        .join(", "),
      visibleText(furtherTools.join(", ")),
      "",
    ],
    isMixed: succeeded > 0,
  };
}

/** A rate with its interval: `90 % (60 to 98)`. */
function intervalText(rate: Proportion | undefined): string {
  if (rate === undefined) return "";
  const [value, low, high] = [rate.value, rate.low, rate.high].map(wholePercent);
  return `${value} % (${low} to ${high})`;
}

/** Only all is 100, and only nothing 0. */
function wholePercent(share: number): string {
  const rounded = Math.round(share * 100);
  if (share < 1 && rounded === 100) return ">99";
  return share > 0 && rounded === 0 ? "<1" : String(rounded);
}

/** How many of the trials with a verdict passed, and beside it what that does not say: `3/4, 1 by the tool's result only, 2 not judged`; `word` follows the first. */
export function rateText(trials: readonly TrialResult[], word = ""): string {
  const summary = summarize(trials);
  const scored = summary.pass + summary.fail;
  const counts = { passed: summary.pass, scored, unjudged: summary.total - scored };
  return countText(counts, { word, notes: byResultText(summary) });
}

interface Counts {
  readonly passed: number;
  readonly scored: number;
  readonly unjudged: number;
}

function countText(
  { passed, scored, unjudged }: Counts,
  { word = "", notes = [] }: { readonly word?: string; readonly notes?: readonly string[] } = {},
): string {
  return [
    ...(scored === 0 ? [] : [`${formatInteger(passed)}/${formatInteger(scored)}${word}`]),
    ...notes,
    ...(unjudged === 0 ? [] : [`${formatInteger(unjudged)} not judged`]),
  ].join(", ");
}
