import type { AgentSpec, Eval, Task } from "../formats/model.ts";

/** One attempt of one task by one agent: the unit of scheduling. */
export interface Trial {
  readonly id: string;
  readonly task: string;
  /** Name of the agent; null when the task has no user turns, so that no agent takes part. */
  readonly agent: string | null;
  /** Counts from 1. */
  readonly attempt: number;
  /** Trials of one lane run one after the other; without a lane a trial may overlap with any other. */
  readonly lane?: string;
}

/** Everything that will run, resolved and in order. */
export interface Plan {
  readonly schema: "mcpvals.plan/1";
  readonly name: string;
  readonly agents: readonly AgentSummary[];
  readonly tasks: readonly Task[];
  readonly trials: readonly Trial[];
  /** Trials at once. */
  readonly concurrency: number;
}

/** What a report says of an agent: enough to know who acted, nothing secret. */
export interface AgentSummary {
  readonly name: string;
  readonly type: string;
  readonly model?: string;
}

const parallelSuiteSlots = 4;

/**
 * Lays out every trial of an eval: task by task, agent by agent, attempt by attempt.
 * Without an explicit concurrency everything shares one lane, except suites that are declared parallel;
 * with one, only the tests of a suite that is not parallel share a lane.
 */
export function createPlan(spec: Eval): Plan {
  const trials = spec.tasks
    .flatMap((task) => attemptsOf(task, spec))
    .map((trial, index): Trial => ({ id: `t${index + 1}`, ...trial }));
  return {
    schema: "mcpvals.plan/1",
    name: spec.name,
    agents: spec.agents.map(summarizeAgent),
    tasks: spec.tasks,
    trials,
    concurrency:
      spec.concurrency ?? (trials.some((trial) => trial.lane === undefined) ? parallelSuiteSlots : 1),
  };
}

/** What may be said of an agent in public. */
export function summarizeAgent(agent: AgentSpec): AgentSummary {
  const model = agent.type === "model" ? { model: agent.model } : {};
  return { name: agent.name, type: agent.type, ...model };
}

function attemptsOf(task: Task, spec: Eval): Omit<Trial, "id">[] {
  const agents = task.turns.length === 0 ? [null] : spec.agents.map((agent) => agent.name);
  const lane = laneOf(task, spec);
  return agents.flatMap((agent) =>
    Array.from({ length: task.portable?.runs ?? spec.trials }, (_, index) => ({
      task: task.name,
      agent,
      attempt: index + 1,
      ...(lane === undefined ? {} : { lane }),
    })),
  );
}

function laneOf(task: Task, spec: Eval): string | undefined {
  // Tasks of the older forms may count on being alone unless they say otherwise.
  const isOlder = task.portable !== undefined && task.portable.format !== "mcp-eval/v1";
  if (isOlder && !task.parallel) return spec.concurrency === undefined ? "main" : "not parallel";
  if (task.suite !== undefined) {
    if (task.parallel) return undefined;
    return spec.concurrency === undefined ? "main" : `suite:${task.suite}`;
  }
  return spec.concurrency === undefined ? "main" : undefined;
}
