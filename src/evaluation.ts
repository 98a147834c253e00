import { McpvalsError } from "./core/errors/error.ts";
import { suggestion } from "./core/formats/did-you-mean.ts";
import { parseDuration } from "./core/formats/duration.ts";
import { withoutUndefined } from "./core/formats/json.ts";
import { type Plan, taskInVariant } from "./core/plan/plan.ts";
import type { RunResult } from "./core/report/result.ts";
import type { TraceEvent } from "./core/trace/events.ts";
import { buildTrajectory, type ToolCall } from "./core/trace/trajectory.ts";
import { consoleReporter } from "./reporters/console.ts";
import type { RunOutcome } from "./run/run.ts";

/** What the verdict of a trial rests on. */
export interface TrialEvidence {
  /** The cited tool calls, of a trial that did not pass also the first and last ones, with their arguments and results. */
  readonly calls: readonly ToolCall[];
  /** Everything that its grades cite, and what belongs to it, as recorded. */
  readonly events: readonly TraceEvent[];
}

/** The result document of a run, with what was recorded of it. */
export interface Evaluation extends RunResult {
  /** The run folder; absent when nothing was written. */
  readonly folder?: string;
  readonly plan: Plan;
  /**
   * By trial id: of the first hundred trials that passed and the first hundred that did not. Long texts are cut off where all
   * evidence together would be too large; the run folder has everything.
   */
  readonly evidence: Readonly<Record<string, TrialEvidence>>;
}

/** The evaluation that a run gives. Throws the first error of writing it down. */
export function evaluationOf({ result, plan, evidence, folder, failures }: RunOutcome): Evaluation {
  const [failure] = failures;
  if (failure !== undefined) throw failure.error;
  const trials = new Map(plan.trials.map((trial) => [trial.id, trial]));
  const tasks = new Map(plan.tasks.map((task) => [task.name, task]));
  const evidenceOf = (id: string, events: readonly TraceEvent[]): TrialEvidence => {
    const trial = trials.get(id);
    const task = trial && tasks.get(trial.task);
    if (trial === undefined || task === undefined) throw new Error(`the plan lacks the trial ${id}`);
    return { calls: buildTrajectory(trial, taskInVariant(plan, task, trial), events).calls, events };
  };
  return {
    ...result,
    ...withoutUndefined({ folder }),
    plan,
    evidence: Object.fromEntries([...evidence].map(([id, events]) => [id, evidenceOf(id, events)])),
  };
}

/** The report of a run as `mcpvals` prints it: each trial, findings, failures with their evidence, the verdict. */
export function formatReport(
  evaluation: Evaluation,
  { colors = false, columns = 80 }: { readonly colors?: boolean; readonly columns?: number } = {},
): string {
  const { plan, evidence, folder, ...result } = evaluation;
  const { id, startedAt, environment } = result;
  const written: string[] = [];
  const reporter = consoleReporter({
    write: (text) => void written.push(text),
    isTerminal: false,
    colors,
    columns: () => columns,
    now: Date.now,
    every: () => () => undefined,
  });
  const events = Object.entries(evidence).map(([trial, kept]) => [trial, kept.events] as const);
  void reporter.onRunStart?.({ id, plan, startedAt, environment, ...withoutUndefined({ folder }) });
  for (const trial of result.trials) void reporter.onTrialEnd?.(trial);
  void reporter.onRunEnd?.({ result, evidence: new Map(events) });
  return written.join("");
}

/** Whether the value of an option is right, and what it must be otherwise. */
export type OptionCheck = readonly [isRight: (value: unknown) => boolean, expected: string];

/** The check of each option of a function of the library. */
export type OptionChecks<Options> = { readonly [K in keyof Required<Options>]: OptionCheck };

export const isText = (value: unknown): value is string => typeof value === "string";
export const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);

export const yesOrNo: OptionCheck = [(value) => typeof value === "boolean", "true or false"];

export const milliseconds: OptionCheck = [
  (value) => typeof value === "number" && parseDuration(value) !== undefined,
  "a number of milliseconds above zero",
];

/** Options that several functions have. */
export const commonChecks = {
  cwd: [isText, "the path of a folder"],
  env: [
    (value: unknown) => typeof value === "object" && value !== null && Object.values(value).every(isText),
    "an object of texts",
  ],
  output: [(value: unknown) => value === false || isText(value), "the path of a folder, or false"],
  signal: [(value: unknown) => value instanceof AbortSignal, "an AbortSignal"],
} as const satisfies Readonly<Record<string, OptionCheck>>;

/** Checks the options that callers without TypeScript give to a function. Throws `usage/invalid-option`. */
export function checkOptions<Options extends object>(
  caller: string,
  options: Options,
  checks: OptionChecks<Options>,
): void {
  const known: Readonly<Record<string, OptionCheck>> = checks;
  for (const [name, value] of Object.entries(options)) {
    const check = Object.hasOwn(known, name) ? known[name] : undefined;
    if (check === undefined) {
      throw new McpvalsError("usage/invalid-option", `${caller} has no option "${name}"`, {
        hint: suggestion(name, Object.keys(known), "options"),
      });
    }
    const [isRight, expected] = check;
    if (value !== undefined && !isRight(value)) {
      throw new McpvalsError("usage/invalid-option", `the option ${name} of ${caller} must be ${expected}`);
    }
  }
}
