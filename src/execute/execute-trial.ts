import type { AgentDriver } from "../agents/driver.ts";
import { McpvalsError, serializeError } from "../core/errors/error.ts";
import type { Limits, Task } from "../core/formats/model.ts";
import type { Trial } from "../core/plan/plan.ts";
import type { Emit, Phase, TrialOutcome } from "../core/trace/events.ts";
import { abortAfter, abortWithAny } from "../process/deadline.ts";
import type { ServerSession } from "../servers/session.ts";
import { runStep } from "../steps/run-step.ts";

/** What a trial needs of the outside world. */
export interface TrialPorts {
  readonly limits: Limits;
  startServer(
    name: string,
    options: { readonly emit: Emit; readonly signal: AbortSignal },
  ): Promise<ServerSession>;
  createAgent(name: string): AgentDriver;
}

export interface TrialRun {
  readonly trial: Trial;
  readonly task: Task;
  readonly emit: Emit;
  /** Aborts when the run is interrupted, with an McpvalsError as its reason. */
  readonly signal: AbortSignal;
}

/**
 * Executes one trial: servers, agent, verify steps, then every server stopped, whatever happened before. Nothing is
 * thrown and no verdict is taken: how it went is in the events, the last of which is `trial.finished`.
 */
export async function executeTrial(run: TrialRun, ports: TrialPorts): Promise<void> {
  const { trial, emit } = run;
  const started = performance.now();
  emit({ type: "trial.started", task: trial.task, agent: trial.agent, attempt: trial.attempt });
  const sessions: ServerSession[] = [];
  let failure: unknown;
  let failed = false;
  try {
    await executePhases(run, ports, sessions);
  } catch (error) {
    failure = error;
    failed = true;
  }
  await runPhase("stop", emit, () => Promise.all(sessions.map((session) => session.stop())));
  const durationMs = performance.now() - started;
  emit({
    type: "trial.finished",
    durationMs,
    ...(failed ? { outcome: outcomeOf(failure), error: serializeError(failure) } : { outcome: "completed" }),
  });
}

async function executePhases(run: TrialRun, ports: TrialPorts, sessions: ServerSession[]): Promise<void> {
  const { trial, task, emit } = run;
  const agent = trial.agent === null ? undefined : ports.createAgent(trial.agent);
  await agent?.prepare();
  using deadline = abortAfter(ports.limits.trialMs, () => trialTimeout(ports.limits.trialMs), run.signal);
  deadline.signal.throwIfAborted();
  await runPhase("servers", emit, () => startServers(run, ports, { sessions, signal: deadline.signal }));
  const lost = sessions.map((session) => session.lost);
  using working = lost.length === 0 ? undefined : abortWithAny([deadline.signal, ...lost]);
  const signal = working?.signal ?? deadline.signal;
  if (agent !== undefined) {
    await runPhase("agent", emit, () =>
      agent.run({
        task: task.name,
        turns: task.turns,
        sessions,
        emit,
        signal,
        callTimeoutMs: ports.limits.callMs,
      }),
    );
    signal.throwIfAborted();
  }
  if (task.verify.length > 0) {
    await runPhase("verify", emit, async () => {
      for (const step of task.verify) await runStep(step, "verify", { sessions, emit, signal });
    });
    signal.throwIfAborted();
  }
}

interface StartOptions {
  /** Filled in the order of the task's servers, also when one of them fails. */
  readonly sessions: ServerSession[];
  readonly signal: AbortSignal;
}

async function startServers(
  { task, emit }: TrialRun,
  ports: TrialPorts,
  options: StartOptions,
): Promise<void> {
  const { sessions, signal } = options;
  const starts = task.servers.map((name) => ports.startServer(name, { emit, signal }));
  const settled = await Promise.allSettled(starts);
  for (const start of settled) {
    if (start.status === "fulfilled") sessions.push(start.value);
  }
  const broken = settled.find((start) => start.status === "rejected");
  if (broken !== undefined) throw broken.reason;
}

async function runPhase(phase: Phase, emit: Emit, work: () => Promise<unknown>): Promise<void> {
  const started = performance.now();
  emit({ type: "phase.started", phase });
  try {
    await work();
  } finally {
    emit({ type: "phase.finished", phase, durationMs: performance.now() - started });
  }
}

function trialTimeout(limitMs: number): McpvalsError {
  return new McpvalsError("trial/timeout", `the trial took longer than ${limitMs / 1000} s`, {
    hint: "Raise limits.trial or --timeout if the work is only slow.",
  });
}

function outcomeOf(error: unknown): TrialOutcome {
  if (!(error instanceof McpvalsError)) return "error";
  if (error.kind === "timeout") return "timeout";
  return error.kind === "interrupted" ? "interrupted" : "error";
}
