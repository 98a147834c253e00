import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentContext } from "../../src/agents/driver.ts";
import type { PortableTask, Task } from "../../src/model/task.ts";
import type { Trial } from "../../src/model/plan.ts";
import type { EventOf, TraceEvent } from "../../src/model/event.ts";
import { executeTrial } from "../../src/run/trial.ts";
import type { TrialServices } from "../../src/run/trial-state.ts";
import { leafServer, trialServer } from "./sessions.ts";
import { misfitOf } from "../../src/store/misfits.ts";

/** A task from a file of its own; its folder is the folder for temporary files unless given. */
export function portableTask(parts: Partial<PortableTask> = {}, task: Partial<Task> = {}): Task {
  return {
    name: "a task",
    form: "task",
    servers: ["leaves"],
    turns: [],
    expectTools: [],
    verify: [],
    parallel: false,
    ...task,
    portable: {
      format: "mcp-eval/v1",
      file: join(tmpdir(), "task.yaml"),
      dir: tmpdir(),
      env: {},
      setup: [],
      cleanup: [],
      fixtures: [],
      requires: [],
      tags: [],
      labels: {},
      cleanupTimeoutMs: 60_000,
      stateProbe: [],
      randomPorts: [],
      assertions: [],
      inheritEnv: [],
      ...parts,
    },
  };
}

export interface TrialOptions {
  readonly services?: Partial<TrialServices>;
  readonly agent?: (context: AgentContext) => Promise<void>;
  /** Hears of every call of a leaf before it is answered. */
  readonly onCall?: (id: string) => void;
  readonly onEvent?: (event: TraceEvent) => void;
  readonly signal?: AbortSignal;
}

export interface PlayedTrial {
  readonly events: readonly TraceEvent[];
  readonly calls: readonly string[];
  readonly finished: EventOf<"trial.finished">;
  /** Outcomes of the phase's own steps, by name, of their last attempts. */
  readonly outcomes: Readonly<Record<string, string>>;
}

/** Executes one trial of a task on the server of {@link leafServer}. */
export async function playTrial(task: Task, options: TrialOptions = {}): Promise<PlayedTrial> {
  const events: TraceEvent[] = [];
  const calls: string[] = [];
  const { agent, onCall, onEvent } = options;
  const trial: Trial = { id: "t1", task: task.name, agent: agent === undefined ? null : "agent", attempt: 1 };
  const session = leafServer((id) => {
    calls.push(id);
    onCall?.(id);
  });
  const services: TrialServices = {
    limits: { trialMs: 60_000, callMs: 60_000, modelMs: 60_000 },
    variables: { overrides: {}, shell: { PATH: process.env["PATH"] ?? "" } },
    allowOutside: false,
    strict: false,
    listAll: false,
    compareState: undefined,
    missing: () => [],
    judgesWithoutKey: new Map(),
    startServer: () => Promise.resolve(trialServer(session)),
    specOf: () => ({
      transport: "mock",
      mock: { tools: {}, resources: [], prompts: [], state: {} },
      startupTimeoutMs: 60_000,
      maxMessageBytes: 1024,
    }),
    createAgent: () =>
      Promise.resolve({
        reach: "sessions",
        prepare: () => Promise.resolve(),
        run: (context) => (agent === undefined ? Promise.resolve() : agent(context)),
      }),
    createJudge: undefined,
    extensions: {
      notes: [],
      of: ({ alias }) => {
        throw new Error(`an extension was not prepared: ${alias}`);
      },
    },
    validateSchema: () => Promise.resolve({ status: "unusable", reason: "nothing validates here" }),
    ...options.services,
  };
  await executeTrial(
    {
      trial,
      task,
      events,
      signal: options.signal ?? new AbortController().signal,
      emit(body) {
        const event: TraceEvent = { seq: events.length + 1, at: performance.now(), trial: trial.id, ...body };
        const misfit = misfitOf([event]);
        if (misfit !== undefined) throw misfit;
        events.push(event);
        onEvent?.(event);
        return event.seq;
      },
    },
    services,
  );
  const finished = events.at(-1);
  if (finished?.type !== "trial.finished") throw new Error("the trial's last event is not its end");
  const steps = events.filter((event) => event.type === "step.finished" && event.parent === undefined);
  const outcomes = Object.fromEntries(
    steps.flatMap((event) => (event.type === "step.finished" ? [[event.step, event.outcome]] : [])),
  );
  return { events, calls, finished, outcomes };
}

/** A folder for a task's files. */
export function taskFolder(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), "mcpvals-task-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}
