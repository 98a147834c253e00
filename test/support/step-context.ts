import { McpvalsError } from "../../src/core/errors/error.ts";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Json } from "../../src/core/formats/model.ts";
import { resolveIn, type Scope, withLocals } from "../../src/core/templates/template.ts";
import type { EventBody } from "../../src/core/trace/events.ts";
import type { StepContext, TrialContext } from "../../src/steps/step-runner.ts";

/** A context for steps in a test, with what they emitted. */
export interface TestContext extends StepContext {
  readonly events: EventBody[];
}

/** A context whose parts are the test's; without a scope, texts have no templates. */
export function stepContext(parts: Partial<StepContext> = {}): TestContext {
  const events: EventBody[] = [];
  return {
    phase: "verify",
    sessions: [],
    emit: (event) => events.push(event),
    signal: new AbortController().signal,
    scope: undefined,
    trial: plainTrial("a task"),
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
