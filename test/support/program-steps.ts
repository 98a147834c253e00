import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import type { JsonObject } from "../../src/core/formats/model.ts";
import type { CommandStep, ScriptStep } from "../../src/core/formats/step.ts";
import type { Scope } from "../../src/core/templates/template.ts";
import type { EventBody } from "../../src/core/trace/events.ts";
import { runStep } from "../../src/steps/run-step.ts";
import type { StepReport, TrialContext } from "../../src/steps/step-runner.ts";
import { stepContext, temporaryTrial } from "./step-context.ts";

/** A step that runs a line with the shell. */
export function commandStepOf(run: string, parts: Partial<CommandStep> = {}): CommandStep {
  return { type: "command", id: "run", timeoutMs: 20_000, env: {}, expect: { exitCode: 0 }, run, ...parts };
}

/** A step that runs a script by its exit code. */
export function scriptStepOf(source: ScriptStep["source"], parts: Partial<ScriptStep> = {}): ScriptStep {
  return {
    type: "script",
    id: "check",
    timeoutMs: 20_000,
    source,
    args: [],
    env: {},
    protocol: "exit-code",
    workdir: "task",
    ...parts,
  };
}

/** A process that a step left to its trial. */
export type Adopted = Parameters<TrialContext["adopt"]>[0];

export interface TestTrial extends TrialContext {
  /** What steps left running. */
  readonly adopted: readonly Adopted[];
  /** What processes were started with. */
  readonly released: readonly string[];
}

/** A trial whose task has these files; the test's end removes it and ends what steps left running. */
export function testTrial(
  files: Readonly<Record<string, string>> = {},
  parts: Partial<TrialContext> = {},
): TestTrial {
  const adopted: Adopted[] = [];
  const released: string[] = [];
  const trial = temporaryTrial({
    adopt: (process) => void adopted.push(process),
    releasePorts: (texts) => {
      released.push(...texts);
      return Promise.resolve();
    },
    ...parts,
  });
  for (const [name, content] of Object.entries(files)) writeTaskFile(trial, name, content);
  onTestFinished(async () => {
    await Promise.all(adopted.map((process) => process.stop()));
    trial[Symbol.dispose]();
  });
  return { ...trial, adopted, released };
}

/** Writes a file of the task; `mode` are its permission bits. */
export function writeTaskFile(trial: TrialContext, name: string, content: string, mode = 0o644): string {
  const path = join(trial.dir, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content, { mode });
  return path;
}

export interface PlayedStep {
  readonly report: StepReport;
  readonly outcome: string;
  /** Name, whether it holds, message of every check. */
  readonly checks: readonly (readonly [string, boolean, string])[];
  readonly outputs: JsonObject | undefined;
  /** An output that is a text. */
  text(this: void, output: string): string;
  readonly events: readonly EventBody[];
  readonly input: JsonObject;
}

export interface PlayStepOptions {
  readonly trial?: TrialContext;
  readonly scope?: Scope;
  readonly signal?: AbortSignal;
}

/** Runs one step to its end in a trial of its own. */
export async function playStep(
  step: CommandStep | ScriptStep,
  { trial = testTrial(), scope = new Map(), signal }: PlayStepOptions = {},
): Promise<PlayedStep> {
  const context = stepContext({ trial, scope, ...(signal === undefined ? {} : { signal }) });
  const report = await runStep(step, context);
  const { events } = context;
  const started = events.find((event) => event.type === "step.started");
  return {
    report,
    outcome: report.outcome,
    checks: report.checks.map(({ name, passed, message }) => [name, passed, message]),
    outputs: report.outputs,
    text: (output) => {
      const given = report.outputs?.[output];
      if (typeof given !== "string") throw new Error(`no text: ${JSON.stringify(given)}`);
      return given;
    },
    events,
    input: started?.input ?? {},
  };
}
