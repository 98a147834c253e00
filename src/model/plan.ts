import * as z from "zod";
import { type AgentSpec, type AgentSummary, agentSummarySchema } from "./agent.ts";
import { baselineSchema } from "./baseline.ts";
import {
  type Budget,
  type Eval,
  type Thresholds,
  type UntilDecided,
  untilModel,
  type Variant,
} from "./eval.ts";
import { type Model, text } from "./fields.ts";
import { share } from "./result-parts.ts";
import { type Attack, attackModel, noAttack, type ServerSpec } from "./server.ts";
import { type Task, taskModel } from "./task.ts";
import { mapValues, withoutUndefined } from "../base/json.ts";
import { failOnNames } from "../statistics/compare.ts";

const trialModel = z
  .strictObject({
    id: text.describe("Unique in the run."),
    task: text.describe("Name of the task."),
    agent: text
      .nullable()
      .describe("Name of the agent; null when the task has no user turns, so that no agent takes part."),
    // May be undefined, so that a trial is one object literal: a large run holds a hundred thousand of them.
    variant: text.describe("Name of the set of servers. Absent when the eval has no variants.").optional(),
    attempt: z.int().min(1).describe("Counts from 1."),
    lane: text
      .describe(
        "Name of a sequential group: its trials run one after the other. Absent: the trial may overlap with any other.",
      )
      .optional(),
  })
  .meta({ id: "Trial", description: "One attempt of one task by one agent: the unit of scheduling." });

const variantModel = z
  .strictObject({
    name: text,
    servers: z.record(text, z.array(text)).describe("Names of servers, by task."),
    attack: attackModel.describe("What its agents are attacked with. Absent: nothing.").exactOptional(),
  })
  .meta({ id: "VariantPlan", description: "One set of servers that tasks are run with." });

/** Everything that will run, resolved and in order. */
export const planModel = z
  .strictObject({
    schema: z.literal("mcpvals.plan/1").describe("Name and version of this format."),
    name: text.describe("Name of the eval."),
    agents: z.array(agentSummarySchema).describe("The agents of the eval."),
    variants: z
      .array(variantModel)
      .describe("The servers that trials of each task start, by variant. Absent when the eval has none.")
      .exactOptional(),
    filter: text
      .describe("Which tasks of the eval were asked for, as flags: `--tag smoke`. Absent: all.")
      .exactOptional(),
    tasks: z.array(taskModel).describe("The tasks, each with everything that its trials do."),
    trials: z.array(trialModel).describe("Every trial, in the order in which they begin."),
    shard: z
      .strictObject({
        index: z.int().min(1).describe("Number of the part."),
        count: z.int().min(1).describe("Number of parts."),
        of: text.describe("A hash of the trials of all parts."),
      })
      .describe("Of which part of a run it is the plan. Absent: of all of it.")
      .exactOptional(),
    concurrency: z.int().min(1).describe("Trials at once."),
    maxConcurrent: z
      .record(text, z.int().min(1))
      .describe("Most trials at once that use a server, by its name. Absent: no server has a limit.")
      .exactOptional(),
    maxWarnings: z
      .int()
      .min(0)
      .describe("More warnings fail the run. Absent: any number may pass.")
      .exactOptional(),
    thresholds: z
      .record(text, z.number())
      .describe(
        "Lowest values with which the run passes, by the name of what is measured. Absent: a failed trial fails the run, and scores do not matter.",
      )
      .exactOptional(),
    until: untilModel
      .describe(
        "The trials are the most that run: it ends when it is decided which side is better, or whether a threshold is met. Absent: all run.",
      )
      .exactOptional(),
    baseline: z
      .strictObject({
        name: text.describe("Its file, as the command names it."),
        document: baselineSchema,
        margin: share
          .describe("Difference of pass rates that does not matter. Absent: any does.")
          .exactOptional(),
        failOn: z
          .enum(failOnNames)
          .describe("Which verdict of the comparison fails the run. Absent: none does.")
          .exactOptional(),
      })
      .describe("What the run is compared with at its end. Absent: nothing.")
      .exactOptional(),
  })
  .meta({ title: "mcpvals plan", description: "Everything that a run executes, resolved and in order." });

export type Plan = Model<typeof planModel>;
/** One attempt of one task by one agent: the unit of scheduling. */
export type Trial = Model<typeof trialModel>;
/** One set of servers that tasks are run with. */
export type VariantPlan = Model<typeof variantModel>;

/**
 * Lays out every trial of an eval: task by task, agent by agent, attempt by attempt. Without an explicit concurrency as many run at once as
 * there are `processors`.
 */
export function createPlan(spec: Eval, processors = 1): Plan {
  const trials: Trial[] = [];
  for (const task of spec.tasks) addTrials(trials, task, spec);
  return {
    schema: "mcpvals.plan/1",
    name: spec.name,
    agents: spec.agents.map(summarizeAgent),
    // What stands before the trials can be read without them.
    ...(spec.variants === undefined ? {} : { variants: spec.variants.map(planVariant) }),
    ...(spec.filter === undefined ? {} : { filter: spec.filter }),
    tasks: spec.tasks,
    trials: spec.until === undefined ? trials : inRounds(trials),
    concurrency: spec.concurrency ?? processors,
    ...serverLimits(spec),
    ...(spec.thresholds === undefined ? {} : { thresholds: spec.thresholds }),
    ...(spec.until === undefined ? {} : { until: spec.until }),
  };
}

/** Where servers of different tasks or variants have the same name, the smallest limit holds for all of them: they may be one service. */
function serverLimits({ servers, taskServers = {}, variants = [] }: Eval): Pick<Plan, "maxConcurrent"> {
  const limits: Record<string, number> = {};
  const tables = [
    servers,
    ...Object.values(taskServers),
    ...variants.flatMap((each) => Object.values(each.servers)),
  ];
  for (const table of tables)
    for (const [name, { maxConcurrent }] of Object.entries(table))
      if (maxConcurrent !== undefined) limits[name] = Math.min(limits[name] ?? Infinity, maxConcurrent);
  return Object.keys(limits).length === 0 ? {} : { maxConcurrent: limits };
}

/** The tasks of plans by name, kept as long as their plans, since a large run looks them up for each trial. */
const namedTasks = new WeakMap<Plan, ReadonlyMap<string, Task>>();

/** The task of a trial, with the servers of the trial's variant. Throws for a plan that lacks it. */
export function taskOf({ task: name, variant }: Pick<Trial, "task" | "variant">, plan: Plan): Task {
  const tasks = namedTasks.get(plan) ?? new Map(plan.tasks.map((task) => [task.name, task]));
  namedTasks.set(plan, tasks);
  const task = tasks.get(name);
  if (task === undefined) throw new Error(`the plan has a trial of a task that it lacks: ${name}`);
  if (variant === undefined) return task;
  const servers = plan.variants?.find((each) => each.name === variant)?.servers[name];
  return { ...task, servers: servers ?? [] };
}

function planVariant({ name, servers, attack }: Variant): VariantPlan {
  const names = mapValues(servers, (table) => Object.keys(table));
  return { name, servers: names, ...(attack === undefined ? {} : { attack }) };
}

/** What may be said of an agent in public. */
export function summarizeAgent(agent: AgentSpec): AgentSummary {
  const { name, type } = agent;
  if (agent.type === "model")
    return withoutUndefined({
      name,
      type,
      model: agent.model,
      effort: agent.effort,
      systemHash: agent.systemHash,
    });
  if (agent.type !== "acp" && agent.type !== "command") return { name, type };
  const { model, preset, userHome, permissions, effort, systemHash, maxTurns, allowedTools } = agent;
  return withoutUndefined({
    name,
    type,
    model,
    preset,
    permissions,
    home: userHome === undefined ? ("user" as const) : ("trial" as const),
    effort,
    systemHash,
    maxTurns,
    allowedTools,
    sessionOptions: agent.type === "acp" ? agent.sessionOptions : undefined,
  });
}

/** One object literal and no lists in between, since a large run holds a hundred thousand trials at once. */
function addTrials(trials: Trial[], task: Task, spec: Eval): void {
  for (const agent of task.turns.length === 0 ? [undefined] : spec.agents) {
    const lane = laneOf(task, agent, spec);
    for (const variant of spec.variants ?? [undefined]) {
      for (let attempt = 1; attempt <= (task.portable?.runs ?? spec.trials); attempt++) {
        trials.push({
          id: `t${trials.length + 1}`,
          task: task.name,
          agent: agent?.name ?? null,
          variant: variant?.name,
          attempt,
          lane,
        });
      }
    }
  }
}

/** The first attempts of all, then the second ones, and so on. */
function inRounds(trials: readonly Trial[]): readonly Trial[] {
  return trials
    .toSorted((a, b) => a.attempt - b.attempt)
    .map((trial, index) => ({ ...trial, id: `t${index + 1}` }));
}

/** The sequential group of a task's trials with an agent; undefined: they run beside all others. */
function laneOf(task: Task, agent: AgentSpec | undefined, spec: Eval): string | undefined {
  // Tasks of the older forms may count on being alone unless they say otherwise.
  const isOlder = task.portable !== undefined && task.portable.format !== "mcp-eval/v1";
  if (isOlder && !task.parallel) return "not parallel";
  if (task.suite !== undefined && task.parallel) return undefined;
  if (spec.concurrency === undefined && sharesServer(task, spec)) return "shared server";
  // They share the home of the user, or a folder that they work in.
  const isSharing =
    (agent?.type === "command" || agent?.type === "acp") &&
    (agent.userHome === undefined || agent.cwd !== undefined);
  if (spec.concurrency === undefined && isSharing) return `agent:${agent.name}`;
  return task.suite === undefined ? undefined : `suite:${task.suite}`;
}

/** Whether other trials use a server of this task too, and nothing says how many may at once. */
function sharesServer(task: Task, spec: Eval): boolean {
  return (spec.variants ?? [undefined]).some((variant) =>
    Object.values(effectiveServers(spec, task, variant?.name)).some(
      (server) => lifetimeOf(server) !== "per_trial" && server.maxConcurrent === undefined,
    ),
  );
}

/** The agents that some task has a part for; one without user turns has none. */
export function actingAgents({ agents, tasks }: Pick<Eval, "agents" | "tasks">): Eval["agents"] {
  return tasks.some((task) => task.turns.length > 0) ? agents : [];
}

/** By the names of variants whose attack asks for a tool of a server, the variant without an attack that shows whether a task needs that tool. */
export function comparedVariants({ variants = [] }: Pick<Plan, "variants">): ReadonlyMap<string, string> {
  const without = new Map(
    variants.flatMap(({ name, attack }) => (attack?.channel === "none" ? [[attack.variant, name]] : [])),
  );
  return new Map(
    variants.flatMap(({ name, attack }) => {
      const other = attack?.calls === undefined ? undefined : without.get(attack.variant);
      return other === undefined ? [] : [[name, other]];
    }),
  );
}

/**
 * One of several parts of a plan: all attempts of a task by an agent, in a variant, are in the same part, and those of the variant that it
 * is compared with ({@link comparedVariants}).
 */
export function shardOf(plan: Plan, shard: NonNullable<Plan["shard"]>): Plan {
  const groups = new Map<string, number>();
  const compared = comparedVariants(plan);
  const trials = plan.trials.filter(({ task, agent, variant = "" }) => {
    const key = JSON.stringify([task, agent, compared.get(variant) ?? variant]);
    const group = groups.get(key) ?? groups.size;
    groups.set(key, group);
    return group % shard.count === shard.index - 1;
  });
  const names = new Set(trials.map(({ task }) => task));
  return {
    ...plan,
    tasks: plan.tasks.filter(({ name }) => names.has(name)),
    trials,
    shard,
  };
}

/** The servers that a trial starts, by name, in the order in which they are declared. */
export type ServerTable = Readonly<Record<string, ServerSpec>>;

/** The servers that a trial of a task starts in a variant. Throws when the plan names what the eval lacks, which is a bug. */
export function effectiveServers(spec: Eval, task: Task, variant: string | undefined): ServerTable {
  if (variant !== undefined) {
    const servers = spec.variants?.find(({ name }) => name === variant)?.servers[task.name];
    if (servers === undefined) throw new Error(`the plan names a variant that the eval lacks: ${variant}`);
    return servers;
  }
  const own = spec.taskServers?.[task.name];
  return Object.fromEntries(
    task.servers.map((name) => {
      const server = own?.[name] ?? spec.servers[name];
      if (server === undefined) throw new Error(`the plan names a server that the eval lacks: ${name}`);
      return [name, server];
    }),
  );
}

/** What the lifetime of a server is unless it says. */
export function lifetimeOf(server: ServerSpec): NonNullable<ServerSpec["lifetime"]> {
  const hasAddress = server.transport === "shttp" || server.transport === "sse";
  return server.lifetime ?? (hasAddress ? "per_run" : "per_trial");
}

/** What a command line may change about an eval. */
export interface Overrides {
  readonly trials?: number;
  readonly concurrency?: number;
  /** Longest that a trial, and so anything inside it, may take; in milliseconds. */
  readonly timeoutMs?: number;
  /** Keeps only the tasks for which this is true. */
  readonly selects?: (task: Task) => boolean;
  /** Keeps only the variants of these names. */
  readonly variants?: readonly string[];
  /** Replaces those of the eval. */
  readonly thresholds?: Thresholds;
  /** Its number of attempts wins over `trials`. */
  readonly until?: UntilDecided;
  /** Its members win over those of the eval; null: there is none. */
  readonly budget?: Budget | null;
  /** Each is a variant in which agents meet it, beside one without an attack. Absent: nothing is attacked. */
  readonly attacks?: readonly Attack[];
}

export function applyOverrides(spec: Eval, overrides: Overrides): Eval {
  const { until, concurrency = spec.concurrency, timeoutMs, selects, variants } = overrides;
  const { thresholds = spec.thresholds } = overrides;
  const attempts = until?.maxTrials ?? overrides.trials;
  const tasks = spec.tasks.filter((task) => selects?.(task) !== false);
  const kept = spec.variants?.filter(({ name }) => variants?.includes(name) !== false);
  const { budget, ...others } = spec;
  const changed: Eval = {
    ...others,
    ...budgetWith(budget, overrides.budget),
    trials: attempts ?? spec.trials,
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(thresholds === undefined ? {} : { thresholds }),
    ...(until === undefined ? {} : { until }),
    tasks: attempts === undefined ? tasks : tasks.map(withoutRuns),
    ...(kept === undefined ? {} : { variants: kept }),
  };
  const limited = timeoutMs === undefined ? changed : limitTimes(changed, timeoutMs);
  return overrides.attacks === undefined ? limited : withAttacks(limited, overrides.attacks);
}

/** Where the trials without an attack stand among the variants. */
const unattacked: Attack = { id: noAttack, class: "none", channel: "none", text: "" };

/** The tasks that an agent has a part in, in variants of each variant: one without an attack, then each attack. */
function withAttacks(spec: Eval, attacks: readonly Attack[]): Eval {
  const tasks = spec.tasks.filter(({ turns }) => turns.length > 0);
  const variants = (spec.variants ?? [undefined]).flatMap((variant) =>
    [unattacked, ...attacks].map((each): Variant => {
      const attack = variant === undefined ? each : { ...each, variant: variant.name };
      const servers = tasks.map((task) => {
        const table = effectiveServers(spec, task, variant?.name);
        return [task.name, mapValues(table, (server) => ({ ...server, attack }))] as const;
      });
      const name = variant === undefined ? attack.id : `${variant.name} · ${attack.id}`;
      return { name, servers: Object.fromEntries(servers), attack };
    }),
  );
  return { ...spec, tasks, variants };
}

function budgetWith(own: Budget | undefined, given: Overrides["budget"]): Pick<Eval, "budget"> {
  return given === null || (given ?? own) === undefined ? {} : { budget: { ...own, ...given } };
}

function limitTimes(spec: Eval, most: number): Eval {
  const { callMs, modelMs } = spec.limits;
  const { taskServers, variants } = spec;
  const limitStarts = (servers: ServerTable): ServerTable =>
    mapValues(servers, (server) => ({
      ...server,
      startupTimeoutMs: Math.min(server.startupTimeoutMs, most),
    }));
  const limited = variants?.map(({ name, servers }) => ({ name, servers: mapValues(servers, limitStarts) }));
  return {
    ...spec,
    tasks: spec.tasks.map((task) => limitSteps(task, most)),
    servers: limitStarts(spec.servers),
    ...(taskServers === undefined ? {} : { taskServers: mapValues(taskServers, limitStarts) }),
    ...(limited === undefined ? {} : { variants: limited }),
    limits: {
      ...spec.limits,
      trialMs: most,
      callMs: Math.min(callMs, most),
      modelMs: Math.min(modelMs, most),
    },
  };
}

/** A requested number of attempts wins over those of tasks. */
function withoutRuns(task: Task): Task {
  if (task.portable?.runs === undefined) return task;
  const { runs: _, ...portable } = task.portable;
  return { ...task, portable };
}

function limitSteps(task: Task, most: number): Task {
  // The steps of a task from a file of its own end with the trial anyway.
  if (task.portable !== undefined) return { ...task, portable: { ...task.portable, timeoutMs: most } };
  const verify = task.verify.map((step) => ({ ...step, timeoutMs: Math.min(step.timeoutMs, most) }));
  return { ...task, verify };
}
