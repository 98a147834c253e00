import type { Tone } from "../base/columns.ts";
import { formatDuration } from "../base/duration.ts";
import { formatInteger, visibleText } from "../base/visible-text.ts";
import type { RunResult, TrialResult } from "../model/result.ts";
import type { Proportion } from "../statistics/rates.ts";
import { taskRate, taskKey } from "./rates.ts";
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
  /** Rate with its interval, mean time, mean tokens, mean cost, and whether it is flaky; empty where there is none. See also {@link attackRows}. */
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

/**
 * A row for each agent and class of attacks: how many succeeded of those that the agent got, with their share; then the share of tasks that pass under
 * attack, and that without.
 */
export function attackRows(
  { attacks = [] }: Pick<RunResult, "attacks">,
  variety: Variety,
): readonly RateRow[] {
  const hasVariants = attacks.some(({ variant }) => variant !== undefined);
  return attacks.map((attack): RateRow => {
    const { class: ofClass = "all attacks", agent, variant, succeeded, delivered } = attack;
    const { notDelivered, unjudged, furtherTools = [], rate, taskWith, taskWithout } = attack;
    const named = { ...variety, variants: hasVariants, attempts: false };
    return {
      title: visibleText(ofClass),
      name: variantName({ agent, attempt: 1, ...(variant === undefined ? {} : { variant }) }, named),
      count:
        delivered === 0
          ? "none delivered"
          : `${formatInteger(succeeded)}/${formatInteger(delivered)} succeeded`,
      tone: succeeded > 0 ? "bad" : delivered > 0 && notDelivered + unjudged === 0 ? "good" : "warn",
      cells: [
        intervalText(rate),
        taskWith === undefined ? "" : `task passes ${intervalText(taskWith)}`,
        taskWithout === undefined ? "" : `without attack ${intervalText(taskWithout)}`,
        [
          ...(notDelivered === 0 ? [] : [`${formatInteger(notDelivered)} not delivered`]),
          ...(unjudged === 0 ? [] : [`${formatInteger(unjudged)} not judged`]),
        ].join(", "),
        furtherTools.length === 0 ? "" : `also called ${visibleText(furtherTools.join(", "))}`,
      ],
      isMixed: succeeded > 0,
    };
  });
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
