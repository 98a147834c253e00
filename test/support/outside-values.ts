import { existsSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "../../src/core/formats/model.ts";
import type { Check } from "../../src/core/trace/events.ts";
import { runStep } from "../../src/steps/run-step.ts";
import type { StepJudge } from "../../src/steps/step-runner.ts";
import { type TestTrial, testTrial } from "./program-steps.ts";
import { scopeOf, stepContext } from "./step-context.ts";
import { stepOf } from "./task-file.ts";

/** Values that would act wherever they are read as code; a file `pwned` says so. */
export const hostile: readonly string[] = [
  "touch pwned",
  "; touch pwned #",
  "'; touch pwned; '",
  '"; touch pwned; "',
  "$(touch pwned)",
  "`touch pwned`",
  "x\ntouch pwned\n",
  ") && touch pwned; (",
  "${X:=$(touch pwned)}",
  "a[$(touch pwned)]",
  "E\ntouch pwned",
  "\\'; touch pwned; \\'",
  "}; touch pwned; {",
  "* ~ $HOME !! ${HOME} \\",
];

export interface Tried {
  readonly outcome: string;
  readonly checks: readonly Check[];
  readonly outputs: JsonObject | undefined;
  readonly error: unknown;
  /** What the trace shows of the step. */
  readonly input: JsonObject;
  /** `pwned`, when a value has acted. */
  readonly ran: readonly string[];
}

export interface Outside {
  /** What the agent said. */
  readonly output?: string;
  /** Outputs of the earlier steps `s` and `again`. */
  readonly steps?: Readonly<Record<string, JsonObject>>;
  readonly trial?: TestTrial;
  /** The task's variables. */
  readonly variables?: Readonly<Record<string, string>>;
  readonly judge?: StepJudge;
}

/** Reads a step as it stands in a task, which has to be valid, and runs it once after an agent and a step `s`. */
export async function attempt(written: object, outside: Outside = {}): Promise<Tried> {
  const { output = "", steps = {}, variables = {}, judge, trial: given = testTrial() } = outside;
  const names = Object.keys(steps["s"] ?? { o: "" });
  const outputs = Object.fromEntries(names.map((name) => [name, "{stdout}"]));
  const step = stepOf(written, {
    env: variables,
    setup: [{ command: { id: "s", run: "true", outputs } }],
  });
  const trial = { ...given, agent: { output, exitCode: 0 }, outputs: new Map(Object.entries(steps)), judge };
  const { workspace } = trial;
  const scope = scopeOf({ env: variables, workspace, random: { id: "abc" }, agent: { output } }, trial);
  const context = stepContext({ trial, scope });
  const report = await runStep(step, context);
  const started = context.events.find((event) => event.type === "step.started");
  return {
    outcome: report.outcome,
    checks: report.checks,
    outputs: report.outputs,
    error: report.error,
    input: started?.input ?? {},
    ran: existsSync(join(trial.dir, "pwned")) ? ["pwned"] : [],
  };
}
