import * as z from "zod";
import { exact } from "../base/json.ts";
import { closedObject, duration, type Model, named, optional } from "./fields.ts";
import type { Attack, ServerSpec } from "./server.ts";
import type { AgentSpec, ModelSpec } from "./agent.ts";
import type { Task, UseLimits } from "./task.ts";
import type { CheckSettings } from "./check-settings.ts";
import type { Prices } from "./prices.ts";
import type { ExtensionSettings } from "./extension.ts";

/**
 * Lowest values with which a run passes, by the name of what is measured: `score`, the mean score of the trials; `passRate`, the
 * share of those with a verdict that passed; `answerRate`, the same without those in which only a tool's result has what was expected
 * of the agent; else a grader, its mean score.
 */
export type Thresholds = Readonly<Record<string, number>>;

export const untilModel = z.strictObject({
  maxTrials: z.int().min(1).describe("Most attempts of each task."),
  margin: z
    .number()
    .describe("Difference of pass rates that does not matter, as a share. Absent: any does.")
    .exactOptional(),
});

/** How long a run goes on that is to decide something. */
export type UntilDecided = Model<typeof untilModel>;

const spending = {
  cost: z.number().positive().describe("Money that models may cost, in the currency of the prices."),
  tokens: z.int().min(1).describe("Tokens of agents, judges and simulated users, in and out."),
  calls: z.int().min(1).describe("Calls of tools."),
};

export const budgetModel = z.strictObject({
  cost: spending.cost.exactOptional(),
  tokens: spending.tokens.exactOptional(),
  calls: spending.calls.exactOptional(),
  timeMs: z.number().positive().describe("Time of the run, in milliseconds.").exactOptional(),
});

/** What a run may use. When it is used up, no further trial begins. */
export type Budget = Model<typeof budgetModel>;

/** A budget as files have it. */
export const budgetSchema = closedObject({
  ...z.object(spending).partial().shape,
  time: optional(duration, "Time of the run."),
})
  .meta(named("Budget", "Budget", "What a run may use. What is absent has no limit."))
  .transform(({ time: timeMs, ...others }): Budget => exact({ ...others, timeMs }));

/** What the agent of one trial may use, as files have it. */
export const useLimitFields = {
  maxCost: optional(
    z.number().positive(),
    "What the agent of one trial may cost, in the currency of the prices. One that costs more is stopped, and its trial fails.",
    "no limit",
  ),
  maxTokens: optional(
    z.int().min(1),
    "Tokens that the agent of one trial may use, read and written. One that uses more is stopped, and its trial fails.",
    "no limit",
  ),
  maxToolCalls: optional(
    z.int().min(1),
    "Calls of servers' tools that the agent of one trial may make. One that makes more is stopped, and its trial fails.",
    "no limit",
  ),
  maxTurns: optional(
    z.int().min(1),
    "Requests to its model that the agent of one trial may send, in all turns of the user together. One that sends more is stopped, and its trial fails.",
    "no limit",
  ),
};

/** What every file format parses to: which tasks run, with which agents, against which servers. Durations are in milliseconds. */
export interface Eval {
  readonly name: string;
  readonly servers: Readonly<Record<string, ServerSpec>>;
  readonly agents: readonly AgentSpec[];
  readonly tasks: readonly Task[];
  /** Absent when no judge was asked for. */
  readonly judge?: JudgeSpec;
  /** The judge is there for steps of tasks and is not asked about workflows. */
  readonly judgesStepsOnly?: true;
  /** What plays the simulated users of tasks; absent: nothing does. */
  readonly userModel?: ModelSpec;
  /** Attempts of each task by each agent. */
  readonly trials: number;
  /** Trials at once. Absent: one at a time, except suites that ask to be parallel. */
  readonly concurrency?: number;
  readonly limits: Limits;
  /** Absent: all trials run. */
  readonly budget?: Budget;
  /** What models cost; absent: only what programs report is known. */
  readonly prices?: Prices;
  /** Absent: no trial may fail, and scores do not matter. */
  readonly thresholds?: Thresholds;
  /** Reporters as written on the command line: `NAME` or `NAME=FILE`. */
  readonly reporters: readonly string[];
  /** Absent: a check has its defaults. */
  readonly check?: CheckSettings;
  /** Servers that a task declares itself, by task and name; they win over `servers`. */
  readonly taskServers?: Readonly<Record<string, Readonly<Record<string, ServerSpec>>>>;
  /** Other sets of servers to run every task with, each a dimension of the matrix beside the agents; absent: one, unnamed. */
  readonly variants?: readonly Variant[];
  /** Whether the first trial that does not pass ends the run. Absent: it does not. */
  readonly bail?: true;
  /** Absent: no commands run around a run. */
  readonly hooks?: RunHooks;
  /** Begins the random numbers of faults. Default: 0. */
  readonly seed?: number;
  /** Absent: all trials run. */
  readonly until?: UntilDecided;
  /** Which tasks of the files were asked for, as flags: `--tag smoke`. Absent: all. */
  readonly filter?: string;
  /** How the extensions of its tasks are fetched; absent: all defaults. */
  readonly extensionSettings?: ExtensionSettings;
}

/** Commands around a whole run; those after it run however it ends. */
export interface RunHooks {
  readonly before: readonly RunHook[];
  readonly after: readonly RunHook[];
}

/** A command line of sh around a whole run. */
export interface RunHook {
  /** Its place in the file, such as `before_run[0]`. */
  readonly id: string;
  readonly command: string;
  /** Absolute path. */
  readonly cwd: string;
  /** Exit codes with which it has not failed. */
  readonly exitCodes: readonly number[];
  /** Whether its failure is only a warning. */
  readonly mayFail: boolean;
  readonly timeoutMs: number;
}

/** One set of servers that tasks are run with. */
export interface Variant {
  readonly name: string;
  /** All servers that a trial of a task starts, by task and server. */
  readonly servers: Readonly<Record<string, Readonly<Record<string, ServerSpec>>>>;
  /** What its servers are attacked with; absent: they are not. */
  readonly attack?: Attack;
}

/** Times are in milliseconds; what a task limits itself wins. */
export interface Limits extends UseLimits {
  /** Longest a whole trial may take, from starting its servers to its last verify step. */
  readonly trialMs: number;
  /** Longest a single tool call may take. */
  readonly callMs: number;
  /** Longest one request to a model may take. */
  readonly modelMs: number;
}

export interface JudgeSpec extends ModelSpec {
  /** Lowest score that passes, 0 to 1. */
  readonly passThreshold: number;
}
