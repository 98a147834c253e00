import type { AgentDriver } from "../agents/driver.ts";
import { McpvalsError, serializeError } from "../core/errors/error.ts";
import { usesJudge } from "../core/formats/uses-judge.ts";
import { expanderOf } from "../core/templates/expand.ts";
import type { Emit, Phase, TrialOutcome } from "../core/trace/events.ts";
import { abortAfter } from "../process/deadline.ts";
import { setupFailed } from "../steps/run-sequence.ts";
import { runCleanup, runSequence } from "../steps/run-sequence.ts";
import { runStep } from "../steps/run-step.ts";
import type { StepContext } from "../steps/step-runner.ts";
import { StateComparison } from "./state-comparison.ts";
import { type TrialServices, TrialState } from "./trial-context.ts";
import { runPhase, type TrialRun } from "./trial-run.ts";
import { TrialServers } from "./trial-servers.ts";
import { createWorkspace } from "./workspace.ts";

/**
 * Executes one trial through its phases. Whatever happens, its cleanup steps run and everything that it started is
 * stopped. Never throws and takes no verdict: the outcome is in the events, the last of which is `trial.finished`.
 */
export async function executeTrial(run: TrialRun, services: TrialServices): Promise<void> {
  const { trial, emit } = run;
  const started = performance.now();
  emit({ type: "trial.started", task: trial.task, agent: trial.agent, attempt: trial.attempt });
  const servers = new TrialServers(run, services);
  let failure: { readonly error: unknown } | undefined;
  try {
    await runPhases(run, services, servers);
  } catch (error) {
    failure = { error };
  }
  try {
    await runPhase("stop", emit, () => servers.stop());
  } catch (error) {
    failure ??= { error };
  }
  emit({
    type: "trial.finished",
    durationMs: performance.now() - started,
    ...(failure === undefined
      ? { outcome: "completed" }
      : { outcome: outcomeOf(failure.error), error: serializeError(failure.error) }),
  });
}

/** Ends a trial whose task's requirements are not met; the message says which. */
class SkippedTrial extends McpvalsError {}

function outcomeOf(error: unknown): TrialOutcome {
  if (error instanceof SkippedTrial) return "skipped";
  if (!(error instanceof McpvalsError)) return "error";
  return error.kind === "timeout" || error.kind === "interrupted" ? error.kind : "error";
}

/** Workspace, servers, setup, agent, verify, then always cleanup. Throws what ended the trial early. */
async function runPhases(run: TrialRun, services: TrialServices, servers: TrialServers): Promise<void> {
  const { trial, task } = run;
  checkRequirements(run, services);
  const agent = trial.agent === null ? undefined : await services.createAgent(trial.agent);
  await agent?.prepare();
  run.signal.throwIfAborted();
  const workspace = await openWorkspace(run, services, { agent, servers });
  const state = new TrialState(run, services, workspace);
  servers.defer(() => state[Symbol.asyncDispose]());
  await state.reservePorts();
  const limitMs = task.portable?.timeoutMs ?? services.limits.trialMs;
  using deadline = abortAfter(limitMs, () => trialTimeout(limitMs), run.signal);
  const phases = new TrialPhases(run, services, { servers, state });
  const comparison = new StateComparison(workspace, run, services);
  try {
    await phases.startServers(agent, deadline.signal);
    using alive = servers.whileAlive(deadline.signal);
    await comparison.remember(phases.stepContext("probe", alive.signal));
    await phases.setup(alive.signal);
    if (agent !== undefined) await phases.agent(agent, alive.signal);
    await phases.verify(alive.signal);
  } finally {
    await phases.cleanup();
    await comparison.compare(phases.stepContext("probe", new AbortController().signal));
  }
}

function checkRequirements(run: TrialRun, services: TrialServices): void {
  const missing = services.missing(run);
  if (missing.length > 0) {
    const Failure = services.strict ? McpvalsError : SkippedTrial;
    throw new Failure("task/missing-requirement", `requirements not met: ${missing.join("; ")}`);
  }
  if (usesJudge(run.task.verify) && services.createJudge(run.emit) === undefined) {
    throw new McpvalsError("task/no-judge", "a verify step asks a judge, and none is configured", {
      hint: "Configure one: llmJudge in an Eval, judge in a config, --judge MODEL on the command line.",
    });
  }
}

/** The trial's folder; "" when neither the task nor the agent needs one. */
async function openWorkspace(
  { task, emit }: TrialRun,
  services: TrialServices,
  { agent, servers }: { readonly agent: AgentDriver | undefined; readonly servers: TrialServers },
): Promise<string> {
  if (task.portable === undefined && agent?.reach !== "endpoints") return "";
  return runPhase("workspace", emit, async () => {
    const { path, fixtures, remove } = await createWorkspace(task.portable, services);
    servers.defer(remove);
    emit({ type: "workspace.created", path, fixtures });
    return path;
  });
}

function trialTimeout(limitMs: number): McpvalsError {
  return new McpvalsError("trial/timeout", `the trial took longer than ${limitMs / 1000} s`, {
    hint: "Raise limits.trial, the task's timeout or --timeout if the work is only slow.",
  });
}

interface TrialParts {
  readonly servers: TrialServers;
  readonly state: TrialState;
}

/** The phases of one trial. All throw what ended the phase early, and the signal's reason. */
class TrialPhases {
  readonly #run: TrialRun;
  readonly #services: TrialServices;
  readonly #servers: TrialServers;
  readonly #state: TrialState;
  /** The agent's last message, with its secrets: only recorded events lose them. */
  #lastMessage = "";

  constructor(run: TrialRun, services: TrialServices, { servers, state }: TrialParts) {
    this.#run = run;
    this.#services = services;
    this.#servers = servers;
    this.#state = state;
  }

  async startServers(agent: AgentDriver | undefined, signal: AbortSignal): Promise<void> {
    const { emit, task } = this.#run;
    const { workspace, scope } = this.#state;
    const { elicitation = [] } = task;
    const clientSide = agent?.clientSide?.({ emit, workspace, elicitation });
    await runPhase("servers", emit, () =>
      this.#servers.start({
        signal,
        ...(task.portable?.format === "mcp-eval/v1" ? { expander: expanderOf(scope) } : {}),
        ...(clientSide === undefined ? {} : { clientSide }),
        releasePorts: (texts) => this.#state.releasePorts(texts),
      }),
    );
  }

  async setup(signal: AbortSignal): Promise<void> {
    const { setup = [] } = this.#run.task.portable ?? {};
    if (setup.length === 0) return;
    await runPhase("setup", this.#run.emit, async () => {
      const context = this.stepContext("setup", signal);
      const { passed, ran, error } = await runSequence(setup, context, runStep);
      if (error !== undefined) throw error;
      if (!passed) throw setupFailed(ran);
    });
    signal.throwIfAborted();
  }

  async agent(agent: AgentDriver, signal: AbortSignal): Promise<void> {
    const { task, emit } = this.#run;
    const state = this.#state;
    const { scope, workspace } = state;
    const turns =
      scope === undefined
        ? task.turns
        : task.turns.map((turn) => ({ ...turn, user: expanderOf(scope).text(turn.user) }));
    state.prompt = turns.map((turn) => turn.user).join("\n\n");
    // A port that the prompt names is for the agent to use.
    await state.releasePorts([state.prompt]);
    const solution = state.solution();
    const context = {
      task: task.name,
      turns,
      emit: this.#emitOfAgent(),
      signal,
      callTimeoutMs: this.#services.limits.callMs,
      workspace,
      defer: (work: () => Promise<void>) => this.#servers.defer(work),
      ...(scope === undefined ? {} : { scope }),
      ...(solution === undefined ? {} : { solution }),
    };
    await runPhase("agent", emit, () =>
      this.#servers.forAgent(agent, signal, (connections) => agent.run({ ...context, ...connections })),
    );
    signal.throwIfAborted();
    state.agent = { output: this.#lastMessage, exitCode: 0 };
  }

  async verify(signal: AbortSignal): Promise<void> {
    const { verify, portable } = this.#run.task;
    if (verify.length === 0 && portable === undefined) return;
    await runPhase("verify", this.#run.emit, async () => {
      const context = this.stepContext("verify", signal);
      const { error } = await runSequence(verify, context, runStep);
      if (error !== undefined) throw error;
      // Cleanup may end servers on purpose; until then a server that ended is an error.
      if ((portable?.cleanup ?? []).length > 0) await this.#servers.checkAlive();
    });
    signal.throwIfAborted();
  }

  async cleanup(): Promise<void> {
    const { cleanup = [], cleanupTimeoutMs: timeoutMs = 0 } = this.#run.task.portable ?? {};
    if (cleanup.length === 0) return;
    // The last message counts also when the agent was interrupted.
    this.#state.agent ??= { output: this.#lastMessage, exitCode: 1 };
    const context = this.stepContext("cleanup", new AbortController().signal);
    await runPhase("cleanup", this.#run.emit, () => runCleanup(cleanup, context, runStep, { timeoutMs }));
    await this.#servers.excuseLost();
  }

  stepContext(phase: Phase, signal: AbortSignal): StepContext {
    const { sessions, absent } = this.#servers;
    const { scope } = this.#state;
    return { phase, sessions, absent, emit: this.#run.emit, signal, scope, trial: this.#state };
  }

  #emitOfAgent(): Emit {
    return (event) => {
      if (event.type === "agent.message") this.#lastMessage = event.text;
      return this.#run.emit(event);
    };
  }
}
