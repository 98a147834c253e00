import type { AgentDriver } from "../agents/driver.ts";
import { McpvalsError } from "../core/errors/error.ts";
import type { PortableTask } from "../core/formats/model.ts";
import { expanderOf } from "../core/templates/expand.ts";
import type { Emit, Phase } from "../core/trace/events.ts";
import { abortAfter } from "../process/deadline.ts";
import { setupFailed } from "../steps/group.ts";
import { runCleanup, runSequence } from "../steps/running/run-sequence.ts";
import { runStep } from "../steps/running/run-step.ts";
import type { StepContext, StepJudge } from "../steps/step-runner.ts";
import { clientSideOf } from "./client-side.ts";
import { runPhase, trialTimeout } from "./run-phase.ts";
import { SkippedTrial } from "./skipped-trial.ts";
import { StateComparison } from "./state-comparison.ts";
import type { TrialPorts, TrialRun } from "./trial-ports.ts";
import type { TrialServers } from "./trial-servers.ts";
import { TrialState } from "./trial-world.ts";
import { usesJudge } from "../core/formats/uses-judge.ts";
import { createWorkspace, type Workspace } from "./workspace.ts";

interface Parts {
  readonly servers: TrialServers;
  readonly portable: PortableTask;
}

/**
 * Runs a task from a file of its own: workspace, servers, setup, agent, verify, then always cleanup. Throws what ended it
 * early, and SkippedTrial when something is missing that it requires.
 */
export async function runPortableTask(run: TrialRun, ports: TrialPorts, parts: Parts): Promise<void> {
  const judge = ports.createJudge(run.emit);
  checkPreconditions(run, ports, judge);
  const agent = run.trial.agent === null ? undefined : await ports.createAgent(run.trial.agent);
  await agent?.prepare();
  run.signal.throwIfAborted();
  const trial = new PortableTrial(run, ports, { ...parts, judge, agent });
  await trial.run();
}

function checkPreconditions(run: TrialRun, ports: TrialPorts, judge: StepJudge | undefined): void {
  const { task } = run;
  const missing = ports.missing(run);
  if (missing.length > 0) {
    const message = `the task requires what is not there: ${missing.join("; ")}`;
    const Failure = ports.strict ? McpvalsError : SkippedTrial;
    throw new Failure("task/missing-requirement", message);
  }
  if (judge === undefined && usesJudge(task.verify)) {
    throw new McpvalsError("task/no-judge", "a verify step asks a judge, and none is configured", {
      hint: "Configure one: llmJudge in an Eval, judge in a config, --judge MODEL on the command line.",
    });
  }
}

interface PortableParts extends Parts {
  readonly judge: StepJudge | undefined;
  readonly agent: AgentDriver | undefined;
}

/** One trial of a portable task, from its workspace to the end of its cleanup. */
class PortableTrial {
  readonly #run: TrialRun;
  readonly #ports: TrialPorts;
  readonly #parts: PortableParts;
  readonly #limitMs: number;
  /** What the agent said last, as it said it. */
  #said = "";

  constructor(run: TrialRun, ports: TrialPorts, parts: PortableParts) {
    this.#run = run;
    this.#ports = ports;
    this.#parts = parts;
    this.#limitMs = parts.portable.timeoutMs ?? ports.limits.trialMs;
  }

  async run(): Promise<void> {
    const { emit } = this.#run;
    const { servers, portable } = this.#parts;
    let opened: TrialState | undefined;
    const workspace = await runPhase("workspace", emit, async () => {
      const created = await createWorkspace(portable, this.#ports);
      servers.defer(async () => {
        try {
          await opened?.[Symbol.asyncDispose]();
        } finally {
          await created.remove();
        }
      });
      emit({ type: "workspace.created", path: created.path, fixtures: created.fixtures });
      return created;
    });
    const world = this.#createWorld(workspace);
    opened = world;
    await world.prepare();
    using deadline = abortAfter(this.#limitMs, () => trialTimeout(this.#limitMs), this.#run.signal);
    const state = new StateComparison(workspace, this.#run, this.#ports);
    try {
      await this.#untilVerified(world, state, deadline.signal);
    } finally {
      await this.#cleanup(world);
      await state.compare(this.#context("probe", world, new AbortController().signal));
    }
  }

  #createWorld(workspace: Workspace): TrialState {
    const { task, events, emit } = this.#run;
    const { variables, allowOutside, urlOf, validateSchema, extensions } = this.#ports;
    const world: TrialState = new TrialState(task, workspace.path, {
      variables,
      allowOutside,
      judge: this.#parts.judge,
      validateSchema,
      extensions,
      emit,
      events,
      urls: () => {
        const { text } = expanderOf(world.scope);
        const urls = task.servers.map((name) => [name, urlOf(this.#run, name)] as const);
        return Object.fromEntries(
          urls.flatMap(([name, url]) => (url === undefined ? [] : [[name, text(url)]])),
        );
      },
    });
    return world;
  }

  async #untilVerified(world: TrialState, state: StateComparison, signal: AbortSignal): Promise<void> {
    const { servers, portable, agent } = this.#parts;
    const { emit, task } = this.#run;
    const expander = portable.format === "mcp-eval/v1" ? { expander: expanderOf(world.scope) } : {};
    const side = agent === undefined ? {} : clientSideOf(agent, { emit, workspace: world.workspace, task });
    await this.#phase("servers", () =>
      servers.start({ signal, ...expander, ...side, releasePorts: (texts) => world.releasePorts(texts) }),
    );
    using alive = servers.whileAlive(signal);
    await state.remember(this.#context("probe", world, alive.signal));
    await this.#setup(world, alive.signal);
    if (agent !== undefined) await this.#agent(agent, world, alive.signal);
    await this.#verify(world, alive.signal);
  }

  async #setup(world: TrialState, signal: AbortSignal): Promise<void> {
    const { setup } = this.#parts.portable;
    if (setup.length === 0) return;
    await this.#phase("setup", async () => {
      const context = this.#context("setup", world, signal);
      const { passed, ran, error } = await runSequence(setup, context, { kind: "setup", run: runStep });
      if (error !== undefined) throw error;
      if (!passed) throw setupFailed(ran);
    });
    signal.throwIfAborted();
  }

  async #agent(agent: AgentDriver, world: TrialState, signal: AbortSignal): Promise<void> {
    const { task } = this.#run;
    const { text } = expanderOf(world.scope);
    const turns = task.turns.map((turn) => ({ ...turn, user: text(turn.user) }));
    world.prompt = turns.map((turn) => turn.user).join("\n\n");
    // A port that the agent is told of is the agent's to use.
    await world.releasePorts([world.prompt]);
    const actions = this.#parts.portable.solution;
    const { servers } = this.#parts;
    const context = {
      task: task.name,
      turns,
      emit: this.#listening(),
      signal,
      callTimeoutMs: this.#ports.limits.callMs,
      scope: world.scope,
      workspace: world.workspace,
      defer: (work: () => Promise<void>) => servers.defer(work),
      ...(actions === undefined ? {} : { solution: { actions, ...world.forSolution() } }),
    };
    await this.#phase("agent", () =>
      servers.forAgent(agent, signal, (ways) => agent.run({ ...context, ...ways })),
    );
    signal.throwIfAborted();
    world.agent = { output: this.#said, exitCode: 0 };
  }

  /** Events lose their secrets when they are recorded; what the agent said is needed as it was. */
  #listening(): Emit {
    return (event) => {
      if (event.type === "agent.message") this.#said = event.text;
      return this.#run.emit(event);
    };
  }

  async #verify(world: TrialState, signal: AbortSignal): Promise<void> {
    const { verify } = this.#run.task;
    await this.#phase("verify", async () => {
      const context = this.#context("verify", world, signal);
      const { error } = await runSequence(verify, context, { kind: "verify", run: runStep });
      if (error !== undefined) throw error;
      // The cleanup may end servers on purpose; until then nothing may.
      if (this.#parts.portable.cleanup.length > 0) await this.#parts.servers.checkAlive();
    });
    signal.throwIfAborted();
  }

  async #cleanup(world: TrialState): Promise<void> {
    const { cleanup, cleanupTimeoutMs: timeoutMs } = this.#parts.portable;
    if (cleanup.length === 0) return;
    // An agent that was cut off has still said what it said.
    world.agent ??= { output: this.#said, exitCode: 1 };
    const context = this.#context("cleanup", world, new AbortController().signal);
    await this.#phase("cleanup", () => runCleanup(cleanup, context, { timeoutMs, run: runStep }));
    await this.#parts.servers.excuseLost();
  }

  #context(phase: Phase, world: TrialState, signal: AbortSignal): StepContext {
    const { emit } = this.#run;
    const { sessions, absent } = this.#parts.servers;
    return { phase, sessions, absent, emit, signal, scope: world.scope, trial: world };
  }

  async #phase(phase: Phase, work: () => Promise<unknown>): Promise<void> {
    await runPhase(phase, this.#run.emit, work);
  }
}
