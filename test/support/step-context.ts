import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import { McpvalsError } from "../../src/base/error.ts";
import type { Json, JsonObject } from "../../src/base/json.ts";
import type { CommandStep, ScriptStep } from "../../src/model/step.ts";
import { resolveIn, type Scope, withLocals } from "../../src/templates/template.ts";
import type { Check, EventBody } from "../../src/model/event.ts";
import { Clocks } from "../../src/process/deadline.ts";
import { runStep } from "../../src/steps/run-step.ts";
import type { StepContext, StepJudge, StepReport, TrialContext } from "../../src/steps/step-runner.ts";
import { stepOf } from "./task-file.ts";
import { keepIn } from "./records.ts";

/** A context for steps in a test, with what they emitted. */
export interface TestContext extends StepContext {
  readonly events: EventBody[];
}

/** A context whose parts are the test's; without a scope, texts have no templates, and it is that of a tool test. */
export function stepContext(parts: Partial<StepContext> = {}): TestContext {
  const events: EventBody[] = [];
  return {
    phase: "verify",
    sessions: [],
    emit: keepIn(events),
    signal: new AbortController().signal,
    scope: undefined,
    trial: plainTrial("a task"),
    form: parts.scope === undefined ? "tool-test" : "task",
    ...parts,
    events,
  };
}

/** A scope with these roots, as if the task's author had written their values. */
export function trustedScope(roots: Readonly<Record<string, Json>>): Scope {
  return withLocals(new Map(), roots, { trusted: true });
}

/** A scope with these roots, each standing for one JSON value; `steps` reads the trial's outputs. */
export function scopeOf(roots: Readonly<Record<string, Json>>, trial?: TrialContext): Scope {
  const scope = withLocals(new Map(), roots);
  if (trial === undefined) return scope;
  return new Map([
    ...scope,
    [
      "steps",
      ([id = "", , ...names], variant) => {
        const given = trial.outputs.get(id);
        return given === undefined ? undefined : resolveIn(given)(names, variant);
      },
    ],
  ]);
}

/** A trial with a folder for the task and one for the workspace; both go when it is disposed of. */
export function temporaryTrial(parts: Partial<TrialContext> = {}): TrialContext & Disposable {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "mcpvals-trial-")));
  const dir = mkdtempSync(join(root, "task-"));
  const workspace = mkdtempSync(join(root, "workspace-"));
  return {
    ...plainTrial("a task"),
    dir,
    workspace,
    env: { PATH: process.env["PATH"] ?? "" },
    ...parts,
    [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }),
  };
}

/** A trial whose steps have no folder, no judge and no extensions. */
export function plainTrial(task: string): TrialContext {
  return {
    task,
    prompt: "",
    dir: "",
    workspace: "",
    allowOutside: false,
    env: {},
    declared: {},
    agent: undefined,
    judge: undefined,
    clocks: new Clocks(),
    extensions: {
      execute: ({ extension }) =>
        Promise.reject(
          new McpvalsError("task/extension", `there is no extension that is named "${extension}"`),
        ),
    },
    validateSchema: () => Promise.resolve({ status: "unusable", reason: "nothing validates here" }),
    outputs: new Map(),
    failed: new Set(),
    history: () => ({ toolCalls: [], resourceReads: [], promptGets: [] }),
    releasePorts: () => Promise.resolve(),
    adopt: () => undefined,
  };
}

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
