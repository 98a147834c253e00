import { countOf } from "../base/visible-text.ts";
import { withoutUndefined } from "../base/json.ts";
import { version } from "../base/version.ts";
import type { Baseline, BaselineTask } from "../model/baseline.ts";
import type { ComparisonDocument } from "../model/comparison.ts";
import type { Plan } from "../model/plan.ts";
import type { RunResult, TaskRate, TrialResult } from "../model/result.ts";
import { comparedTrials, compareSides, refuseIncomparable } from "./comparison.ts";
import type { ComparedTrial } from "./documents/compare-runs.ts";
import type { NamedSide } from "./documents/compare-sides.ts";
import { identitiesOf } from "./documents/identities.ts";
import { taskRates } from "./rates.ts";
import { verdictReason } from "./text.ts";

/** What a run is compared with at its end. */
export type PlannedBaseline = NonNullable<Plan["baseline"]>;

/** The run that recorded the trials of a result: equal for results that share some. */
export function originOf({
  id,
  gradedFrom,
  retryOf,
}: Pick<RunResult, "id" | "gradedFrom" | "retryOf">): string {
  return retryOf?.first ?? retryOf?.id ?? gradedFrom?.id ?? id;
}

/** Why a run cannot be a baseline; undefined for one that can. A baseline without some of the evidence would make later runs look better or worse than they are. */
export function whyNoBaseline(result: RunResult): string | undefined {
  const unscored = taskRates(result.trials).reduce((sum, task) => sum + task.unscored, 0);
  if (unscored > 0)
    return `${countOf(unscored, "trial")} of the run ${unscored === 1 ? "has" : "have"} no verdict`;
  if (result.verdict === "pass" || result.verdict === "fail") return undefined;
  return `the run is ${result.verdict}. ${verdictReason(result)}`;
}

/** The baseline that a run is. */
export function baselineOf(result: RunResult): Baseline {
  const { name, trials, fingerprints = {} } = result;
  const tasks = taskRates(trials)
    .filter(({ scored }) => scored > 0)
    .map(({ task, suite, variant, agent, passed, scored, durationMs, tokens, cost }): BaselineTask =>
      withoutUndefined({
        task,
        suite,
        variant,
        agent: agent ?? undefined,
        passed,
        scored,
        durationMs: shortened(durationMs),
        tokens: shortened(tokens),
        cost: shortenedCost(cost),
        fingerprint: fingerprints[task],
      }),
    )
    .toSorted((a, b) => compareTexts(sortKeyOf(a), sortKeyOf(b)));
  const agents = identitiesOf(result.environment.agents, trials);
  return withoutUndefined({
    schema: "mcpvals.baseline/1" as const,
    mcpvals: version,
    name,
    run: originOf(result),
    agents: agents.length === 0 ? undefined : agents,
    tasks,
  });
}

/** To three digits: more change with every run and say nothing. */
function shortened(value: number | undefined): number | undefined {
  return value === undefined ? undefined : Number(value.toPrecision(3));
}

function shortenedCost(cost: TaskRate["cost"]): BaselineTask["cost"] | undefined {
  if (cost === undefined || cost.isPartial === true) return undefined;
  return { amount: Number(cost.amount.toPrecision(3)), currency: cost.currency };
}

/** Variants and agents keep the order of the run: the first of them is what the others are compared with. */
function sortKeyOf({ task, suite = "" }: BaselineTask): readonly string[] {
  return [task, suite];
}

/** In the order of code units, which is the same on every machine. */
function compareTexts(a: readonly string[], b: readonly string[]): number {
  const at = a.findIndex((text, index) => text !== b[index]);
  return at === -1 ? 0 : (a[at] ?? "") < (b[at] ?? "") ? -1 : 1;
}

/** A baseline as JSON with a line for each task, agent and variant, so that a change of one is a change of one line. */
export function baselineText({ tasks, ...head }: Baseline): string {
  const members = Object.entries(head).map(([key, value]) => `  "${key}": ${JSON.stringify(value)},\n`);
  const lines = tasks.map((task) => `    ${JSON.stringify(task)}`);
  return `{\n${members.join("")}  "tasks": [\n${lines.join(",\n")}\n  ]\n}\n`;
}

/** A baseline as a side of a comparison: each task as the trials that passed and those that failed. */
export function sideOfBaseline(name: string, { run, agents, tasks }: Baseline): NamedSide {
  const trials = tasks.flatMap(({ task, suite, variant, agent, passed, scored, durationMs, tokens, cost }) =>
    (
      [
        ["pass", passed],
        ["fail", scored - passed],
      ] as const
    ).flatMap(([verdict, times]): readonly ComparedTrial[] =>
      times === 0
        ? []
        : [
            withoutUndefined({
              task,
              suite,
              variant,
              agent,
              verdict,
              times,
              durationMs,
              inputTokens: tokens,
              cost,
            }),
          ],
    ),
  );
  const known = tasks.flatMap(({ task, fingerprint }) =>
    fingerprint === undefined ? [] : [[task, fingerprint] as const],
  );
  return { name, origin: run, agents, trials, fingerprints: Object.fromEntries(known) };
}

const thisRun = "this run";

/** Refuses a baseline that a run cannot be compared with, before it starts. Throws `usage/invalid-option`. `origin`: the run of which it tries trials again. */
export function refuseBaseline({ baseline, trials }: Plan, origin: string | undefined): void {
  if (baseline === undefined) return;
  const planned = trials.map(({ task, agent, variant }) => withoutUndefined({ task, agent, variant }));
  refuseIncomparable([
    sideOfBaseline(baseline.name, baseline.document),
    { name: thisRun, origin: origin ?? "", trials: planned },
  ]);
}

/** A run compared with the baseline of its plan; undefined for a plan without one. */
export function compareWithBaseline(
  { baseline }: Pick<Plan, "baseline">,
  {
    trials,
    interrupted,
    fingerprints,
    environment,
    ...head
  }: Pick<RunResult, "id" | "gradedFrom" | "retryOf" | "environment"> & {
    readonly trials: readonly TrialResult[];
    readonly interrupted: boolean;
    readonly fingerprints: RunResult["fingerprints"] | undefined;
  },
): ComparisonDocument | undefined {
  if (baseline === undefined) return undefined;
  const { name, document, margin, failOn } = baseline;
  const side = withoutUndefined({
    name: thisRun,
    origin: originOf(head),
    unfinished: interrupted ? "was interrupted" : undefined,
    agents: environment.agents,
    trials: comparedTrials(trials),
    fingerprints,
  });
  return compareSides([sideOfBaseline(name, document), side], { margin, failOn });
}
