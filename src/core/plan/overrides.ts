import type { Eval, ServerSpec, Task } from "../formats/model.ts";

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
}

/** The eval with the overrides applied. */
export function applyOverrides(spec: Eval, overrides: Overrides): Eval {
  const { variants, ...others } = overrides;
  if (variants !== undefined) return applyOverrides(onlyVariants(spec, variants), others);
  const { trials, concurrency, timeoutMs, selects } = others;
  const chosen = selects === undefined ? spec.tasks : spec.tasks.filter(selects);
  const selected = trials === undefined ? chosen : chosen.map(withoutRuns);
  return {
    ...spec,
    ...(trials === undefined ? {} : { trials }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(timeoutMs === undefined ? { tasks: selected } : limitTimes(spec, selected, timeoutMs)),
  };
}

function onlyVariants(spec: Eval, names: readonly string[]): Eval {
  const { variants = [] } = spec;
  return { ...spec, variants: variants.filter(({ name }) => names.includes(name)) };
}

function limitTimes(
  spec: Eval,
  tasks: readonly Task[],
  most: number,
): Pick<Eval, "tasks" | "servers" | "limits" | "taskServers" | "variants"> {
  const { callMs, modelMs } = spec.limits;
  const { taskServers, variants } = spec;
  const limited = (tables: TaskTables): TaskTables =>
    mapValues(tables, (servers) => limitStarts(servers, most));
  return {
    tasks: tasks.map((task) => limitSteps(task, most)),
    servers: limitStarts(spec.servers, most),
    ...(taskServers === undefined ? {} : { taskServers: limited(taskServers) }),
    ...(variants === undefined
      ? {}
      : { variants: variants.map(({ name, servers }) => ({ name, servers: limited(servers) })) }),
    limits: { trialMs: most, callMs: Math.min(callMs, most), modelMs: Math.min(modelMs, most) },
  };
}

type Servers = Readonly<Record<string, ServerSpec>>;
type TaskTables = Readonly<Record<string, Servers>>;

function limitStarts(servers: Servers, most: number): Servers {
  return mapValues(servers, (server) => ({
    ...server,
    startupTimeoutMs: Math.min(server.startupTimeoutMs, most),
  }));
}

function mapValues<T>(record: Readonly<Record<string, T>>, change: (value: T) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}

/** A number of attempts that was asked for wins over those of tasks. */
function withoutRuns(task: Task): Task {
  if (task.portable?.runs === undefined) return task;
  const { runs: _, ...portable } = task.portable;
  return { ...task, portable };
}

function limitSteps(task: Task, most: number): Task {
  // The steps of a task from a file of its own end with the trial anyway.
  if (task.portable !== undefined) return { ...task, portable: { ...task.portable, timeoutMs: most } };
  return {
    ...task,
    verify: task.verify.map((step) => ({ ...step, timeoutMs: Math.min(step.timeoutMs, most) })),
  };
}
