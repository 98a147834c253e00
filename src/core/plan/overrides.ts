import type { Eval, ServerSpec, Task } from "../formats/model.ts";

/** What a command line may change about an eval. */
export interface Overrides {
  readonly trials?: number;
  readonly concurrency?: number;
  /** Longest that a trial, and so anything inside it, may take; in milliseconds. */
  readonly timeoutMs?: number;
  /** Keeps only the tasks for which this is true. */
  readonly selects?: (task: Task) => boolean;
}

/** The eval with the overrides applied. */
export function applyOverrides(spec: Eval, overrides: Overrides): Eval {
  const { trials, concurrency, timeoutMs, selects } = overrides;
  const selected = selects === undefined ? spec.tasks : spec.tasks.filter(selects);
  return {
    ...spec,
    ...(trials === undefined ? {} : { trials }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(timeoutMs === undefined ? { tasks: selected } : limitTimes(spec, selected, timeoutMs)),
  };
}

function limitTimes(
  spec: Eval,
  tasks: readonly Task[],
  most: number,
): Pick<Eval, "tasks" | "servers" | "limits"> {
  const { callMs, modelMs } = spec.limits;
  return {
    tasks: tasks.map((task) => limitSteps(task, most)),
    servers: Object.fromEntries(
      Object.entries(spec.servers).map(([name, server]): [string, ServerSpec] => [
        name,
        { ...server, startupTimeoutMs: Math.min(server.startupTimeoutMs, most) },
      ]),
    ),
    limits: { trialMs: most, callMs: Math.min(callMs, most), modelMs: Math.min(modelMs, most) },
  };
}

function limitSteps(task: Task, most: number): Task {
  // The steps of a task from a file of its own end with the trial anyway.
  if (task.portable !== undefined) return { ...task, portable: { ...task.portable, timeoutMs: most } };
  return {
    ...task,
    verify: task.verify.map((step) => ({ ...step, timeoutMs: Math.min(step.timeoutMs, most) })),
  };
}
