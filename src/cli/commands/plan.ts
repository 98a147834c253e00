import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import type { Command } from "commander";
import { withoutNoise, withoutUndefined } from "../../base/json.ts";
import { countOf, formatInteger, visibleText, formatScore } from "../../base/visible-text.ts";
import { load } from "../../formats/load.ts";
import type { LoadedConfig } from "../../formats/assemble-eval.ts";
import type { Eval } from "../../model/eval.ts";
import { createPlan, effectiveServers, lifetimeOf, type Plan, taskOf } from "../../model/plan.ts";
import type { Cost, Usage } from "../../model/grade.ts";
import type { TrialResult } from "../../model/result.ts";
import { simulatedUserOf } from "../../model/task.ts";
import { addCost } from "../../trace/trajectory.ts";
import { costOf, isJudged, taskKey, taskRates } from "../../report/rates.ts";
import { replayRun } from "../../report/replay.ts";
import { costText } from "../../report/text.ts";
import { prepare } from "../../run/prepare.ts";
import { sourceOf } from "../../run/run.ts";
import { type Detectable, detectableDrop } from "../../statistics/planning.ts";
import { minTasks } from "../../statistics/compare.ts";
import { countTasksAlike, meanOf, theseTasks, trialsToDecide } from "../../statistics/rates.ts";
import { lowerBound } from "../../graders/measurements/metrics.ts";
import { wrapText } from "../../base/columns.ts";
import { McpvalsError } from "../../base/error.ts";
import { defaultRunsFolder, readLastRun, type StoredRun } from "../../store/run-folder.ts";
import {
  addAttackFlag,
  addPricesFlag,
  type AttackFlags,
  attacksOf,
  addQueryFlags,
  queryOf,
  type SetExitCode,
  type SourceFlags,
  wholeNumber,
} from "../flags.ts";
import { columnsOf, hideSecrets, workingFolder, writeJson, writeNotes, writeOut } from "../terminal.ts";
import { formatDuration } from "../../base/duration.ts";

interface PlanFlags extends SourceFlags, AttackFlags {
  readonly json?: boolean;
  readonly trials?: number;
  readonly output?: string;
}

/** `mcpvals plan`: what a run would do, what it may cost, and what it can show. Starts nothing. */
export function define(command: Command, setExitCode: SetExitCode): void {
  addAttackFlag(addPricesFlag(addQueryFlags(command)))
    .option("-n, --trials <n>", "number of attempts of each task", wholeNumber(10_000))
    .option(
      "-o, --output <dir>",
      "folder of the runs, of which the last one is an example (default: .mcpvals/runs)",
    )
    .action(async (sources: readonly string[], flags: PlanFlags) =>
      setExitCode(await execute(sources, flags)),
    );
}

/** What a run is expected to use; what is absent is unknown. */
interface Expected {
  readonly run: string;
  readonly tokens?: number;
  readonly durationMs: number;
  readonly cost?: Cost;
}

/** What a run would be. */
interface Forecast {
  readonly name: string;
  readonly tasks: number;
  readonly agents: readonly string[];
  /** The model that plays simulated users. Absent: none is played. */
  readonly userModel?: string;
  readonly variants: readonly string[];
  /** Of how many attacks each task has trials, beside those without one. Absent: nothing is attacked. */
  readonly attacks?: number;
  readonly trials: number;
  /** Calls of tools that the file says itself: those of tool tests. */
  readonly toolTests: number;
  /** How often each server is started or connected to. */
  readonly serverStarts: Readonly<Record<string, number>>;
  /** By what the last run of the same file used; absent: there is none, or none of its trials is like these. */
  readonly expected?: Expected;
  /** Smallest drops of the pass rate between two runs like this that are found with 80 % probability. Absent without trials, and with attacks. */
  readonly detectable?: Detectable;
  /** Of the threshold `lowerBound`: what it would be if every trial passed, and trials of each task that would then reach it. Absent without one. */
  readonly lowerBound?: { readonly threshold: number; readonly most: number; readonly trials: number };
}

async function execute(sources: readonly string[], flags: PlanFlags): Promise<number> {
  const { load: options, filters, json } = queryOf(sources, flags);
  const loaded = prepare(await load({ ...options, cwd: workingFolder(), lookOnly: true }), {
    ...filters,
    trials: flags.trials,
    attacks: await attacksOf(flags, workingFolder()),
  });
  hideSecrets(loaded.secrets);
  const plan = createPlan(loaded.eval, availableParallelism());
  const forecast = withoutUndefined({
    ...forecastOf(loaded.eval, plan),
    expected: await expectedOf(plan, loaded, resolve(flags.output ?? defaultRunsFolder)),
  });
  if (json) writeJson(forecast, 2);
  else
    writeOut(
      linesOf(forecast, plan)
        .map(visibleText)
        .flatMap((line) => hanging(line, columnsOf(process.stdout)))
        .join("\n"),
    );
  return 0;
}

/** A line broken at a width, its parts as far in as its beginning. */
function hanging(line: string, columns: number): readonly string[] {
  const [indent = ""] = /^ */.exec(line) ?? [];
  return wrapText(line.slice(indent.length), columns - indent.length).map((part) => indent + part);
}

function forecastOf(spec: Eval, plan: Plan): Forecast {
  const { tasks, trials } = plan;
  const tested = new Set(tasks.filter(({ form }) => form === "tool-test").map(({ name }) => name));
  const attempts = Map.groupBy(trials, taskKey);
  const repeated = leastOf([...attempts.values()].map(({ length }) => length));
  const attacks = new Set(
    (spec.variants ?? []).flatMap(({ attack }) =>
      attack === undefined || attack.channel === "none" ? [] : [attack.id],
    ),
  );
  const isAttacked = attacks.size > 0;
  return {
    name: spec.name,
    tasks: tasks.length,
    agents: [...new Set(trials.flatMap(({ agent }) => agent ?? []))],
    ...userModelIn(tasks),
    variants: (spec.variants ?? []).map(({ name }) => name),
    ...(isAttacked ? { attacks: attacks.size } : {}),
    trials: trials.length,
    toolTests: trials.filter(({ task }) => tested.has(task)).length,
    serverStarts: serverStarts(spec, plan),
    ...(trials.length === 0 || isAttacked ? {} : { detectable: detectableDrop(tasks.length, repeated) }),
    ...boundOf(plan, attempts),
  };
}

function userModelIn(tasks: Plan["tasks"]): Pick<Forecast, "userModel"> {
  const user = tasks.map(simulatedUserOf).find((each) => each?.kind === "model");
  return user?.kind === "model" && user.model !== undefined ? { userModel: user.model } : {};
}

/** Not `Math.min(...numbers)`: the number of arguments of a call is limited. */
function leastOf(numbers: readonly number[]): number {
  return numbers.reduce((least, each) => Math.min(least, each), Infinity);
}

/** What the threshold of the lower bound can come to, by the variant with the fewest trials. */
function boundOf(
  { thresholds = {} }: Plan,
  attempts: ReadonlyMap<string, Plan["trials"]>,
): Pick<Forecast, "lowerBound"> {
  const threshold = thresholds[lowerBound];
  if (threshold === undefined) return {};
  const parts = [...attempts.values()].map((group) => ({
    task: group[0]?.task ?? "",
    variant: group[0]?.variant,
    passed: group.length,
    scored: group.length,
  }));
  const bounds = [...Map.groupBy(parts, ({ variant }) => variant).values()].map((group) => {
    const tasks = countTasksAlike(group, ({ task }) => task);
    const least = leastOf(tasks.map(({ scored }) => scored));
    return { most: theseTasks(tasks)?.low ?? 0, trials: least + (trialsToDecide(tasks, threshold) ?? 0) };
  });
  const [worst] = bounds.toSorted((a, b) => a.most - b.most);
  return worst === undefined ? {} : { lowerBound: withoutNoise({ threshold, ...worst }) };
}

/** How often the servers of a plan are started: once for each trial, each task with its agent and variant, or the run. */
function serverStarts(spec: Eval, plan: Plan): Readonly<Record<string, number>> {
  const starts = new Map<string, Set<string>>();
  for (const trial of plan.trials) {
    const { id, task, agent, variant } = trial;
    for (const [name, server] of Object.entries(effectiveServers(spec, taskOf(trial, plan), variant))) {
      const lifetime = lifetimeOf(server);
      const use = lifetime === "per_trial" ? id : lifetime === "per_task" ? [task, agent, variant] : variant;
      const uses = starts.get(name) ?? new Set<string>();
      starts.set(name, uses.add(JSON.stringify(use ?? null)));
    }
  }
  return Object.fromEntries([...starts].map(([name, uses]) => [name, uses.size]));
}

/** What the trials of the plan are expected to use, by the means of the same tasks in the last run. */
async function expectedOf(plan: Plan, loaded: LoadedConfig, runs: string): Promise<Expected | undefined> {
  let last: StoredRun | undefined;
  try {
    last = await readLastRun(runs, sourceOf(loaded));
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    writeNotes({ notes: [`the last run tells nothing: ${error.message}`] });
  }
  if (last === undefined) return undefined;
  const trials = await pricedAgain(replayRun(last).result.trials, loaded.eval);
  const rates = taskRates(trials).filter(({ scored }) => scored > 0);
  const known = new Map(rates.map((rate) => [taskKey(rate), rate]));
  const found = plan.trials.flatMap((trial) => known.get(taskKey(trial)) ?? []);
  if (found.length === 0) return undefined;
  const totalOf = (key: "tokens" | "durationMs"): number =>
    meanOf(found.map((rate) => rate[key] ?? 0)) * plan.trials.length;
  const usedModel = found.some(({ tokens }) => tokens !== undefined);
  return withoutUndefined({
    run: last.id,
    durationMs: totalOf("durationMs"),
    tokens: usedModel ? totalOf("tokens") : undefined,
    cost: costOfPlan(trials, plan),
  });
}

/** What agents, judges and simulated users are expected to cost, by the mean of trials like these. Undefined if none used a model. */
function costOfPlan(trials: readonly TrialResult[], plan: Plan): Cost | undefined {
  const groups = new Map(
    [...Map.groupBy(trials.filter(isJudged), taskKey)].map(([key, group]) => [
      key,
      { cost: costOf(group), count: group.length },
    ]),
  );
  const found = plan.trials.flatMap((trial) => groups.get(taskKey(trial)) ?? []);
  const costs = found.flatMap(({ cost, count }) =>
    cost === undefined ? [] : { ...cost, amount: cost.amount / count },
  );
  const [first, ...others] = costs;
  const sum = first && others.reduce<Cost | undefined>((all, cost) => addCost(all, cost), first);
  return sum && { ...sum, amount: (sum.amount / found.length) * plan.trials.length };
}

/** The trials with what they would cost by the prices now. */
async function pricedAgain(
  trials: readonly TrialResult[],
  { prices, agents, judge, userModel }: Eval,
): Promise<readonly TrialResult[]> {
  if (prices === undefined) return trials;
  const { priceOf, withCost } = await import("../../model/prices.ts");
  const models = new Map(agents.map((agent) => [agent.name, "model" in agent ? agent.model : undefined]));
  const priced = (usage: Usage | undefined, model: string | undefined): Usage | undefined => {
    if (usage === undefined || model === undefined || priceOf(model, prices) === undefined) return usage;
    const { cost: _, ...tokens } = usage;
    return withCost(tokens, model, prices);
  };
  return trials.map((trial) =>
    withoutUndefined({
      ...trial,
      usage: priced(trial.usage, models.get(trial.agent ?? "")),
      judgeUsage: priced(trial.judgeUsage, judge?.model),
      userUsage: priced(trial.userUsage, userModel?.model),
    }),
  );
}

/** The money that a run is expected to cost, in words. */
function moneyOf({ tokens, cost }: Expected): string {
  if (cost === undefined) return tokens === undefined ? "none" : "unknown";
  return cost.isPartial === true ? costText(cost) : `about ${costText(cost)}`;
}

function points(share: number): string {
  return countOf(Math.round(share * 100), "point");
}

/** What two runs can show, in sentences. */
function detectableLines({ theseTasks: these, tasksLikeThese: others }: Detectable, tasks: number): string {
  const onThese =
    these === undefined
      ? "On these tasks two such runs can show no difference: there are too few trials."
      : `On these tasks two such runs show a pass rate that is lower by ${points(these)} or more (in 80 % of cases, if 60 % passed before).`;
  if (tasks < minTasks)
    return `${onThese} For tasks like these they can show none: that takes at least ${minTasks} tasks.`;
  return others === undefined
    ? `${onThese} For tasks like these they can show none: there are too few tasks or trials.`
    : `${onThese} For tasks like these: by ${points(others)} or more.`;
}

function boundLine({ threshold, most, trials }: NonNullable<Forecast["lowerBound"]>): readonly string[] {
  if (most >= threshold) return [];
  return [
    `The threshold ${lowerBound} ${threshold} cannot be reached: even if every trial passes, the lower end of the interval is ${formatScore(most)}. It takes about ${countOf(trials, "trial")} of each task.`,
  ];
}

function linesOf(
  {
    name,
    tasks,
    agents,
    userModel,
    variants,
    attacks,
    trials,
    toolTests,
    serverStarts: starts,
    expected,
    detectable,
    lowerBound: bound,
  }: Forecast,
  { concurrency }: Plan,
): readonly string[] {
  const facts = [
    countOf(tasks, "task"),
    ...(agents.length === 0 ? [] : [`${agents.length === 1 ? "agent" : "agents"} ${agents.join(", ")}`]),
    ...(userModel === undefined ? [] : [`simulated users played by ${userModel}`]),
    ...(attacks === undefined ? [] : [`${countOf(attacks, "attack")}, and none`]),
    ...(variants.length === 0 || attacks !== undefined ? [] : [`variants ${variants.join(", ")}`]),
  ];
  return [
    name,
    `  ${facts.join(" · ")}`,
    `  ${countOf(trials, "trial")}, up to ${formatInteger(concurrency)} at once${toolTests === 0 ? "" : `, ${formatInteger(toolTests)} of them calls of tool tests`}`,
    ...Object.entries(starts).map(([server, count]) => `  server ${server}: ${countOf(count, "start")}`),
    "",
    ...(expected === undefined
      ? ["  Tokens, money and time: unknown; there is no earlier run of this file."]
      : [
          `  By the run ${expected.run}: ${expected.tokens === undefined ? "no tokens" : `about ${formatInteger(expected.tokens)} tokens`}, ${formatDuration(expected.durationMs)} of trials. Money: ${moneyOf(expected)}.`,
        ]),
    ...(detectable === undefined ? [] : [`  ${detectableLines(detectable, tasks)}`]),
    ...(bound === undefined ? [] : boundLine(bound).map((line) => `  ${line}`)),
  ];
}
