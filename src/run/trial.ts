import { workspaceFilesOf } from "../graders/kinds.ts";
import type { AgentContext, AgentDriver } from "../agents/driver.ts";
import type { ConversationContext } from "../agents/simulated-user.ts";
import { McpvalsError, serializeError } from "../base/error.ts";
import { withoutUndefined } from "../base/json.ts";
import type { CheckSpec } from "../model/check.ts";
import { usesJudge } from "../model/step.ts";
import { readTrace } from "../trace/trajectory.ts";
import { expanderOf } from "../templates/expand.ts";
import { type Emit, eventsOf, type Phase, type TrialOutcome } from "../model/event.ts";
import { mapUserTexts, type SimulatedUser, simulatedUserOf } from "../model/task.ts";
import { abortAfter, abortWithAny } from "../process/deadline.ts";
import { isServerFault } from "../servers/connections/host.ts";
import type { TrialServer } from "../servers/server-pool.ts";
import { runCleanup, runPhase, runSequence, setupFailed, type StepContext } from "../steps/step-runner.ts";
import { runStep } from "../steps/run-step.ts";
import type { AgentLimits } from "./agent-limits.ts";
import { createWorkspace, type TrialRun, type TrialServices, TrialState } from "./trial-state.ts";

/**
 * Executes one trial. Whatever happens, its cleanup steps run and everything that it started is stopped. Never throws and gives no
 * verdict: the outcome is in the last event, `trial.finished`.
 */
export async function executeTrial(run: TrialRun, services: TrialServices): Promise<void> {
  const { trial, emit } = run;
  const started = performance.now();
  emit({ type: "trial.started", task: trial.task, agent: trial.agent, attempt: trial.attempt });
  const phases = new TrialPhases(run, services);
  let failure: { readonly error: unknown } | undefined;
  try {
    await phases.run();
  } catch (error) {
    failure = { error };
  }
  try {
    await runPhase("stop", emit, () => phases.stop());
  } catch (error) {
    failure ??= { error };
  }
  const recordedMs = services.records?.get(trial.task)?.durationMs ?? 0;
  const durationMs = recordedMs + performance.now() - started;
  try {
    const compared = await run.compareAttack?.();
    if (compared !== undefined) emit(compared);
  } catch (error) {
    failure ??= { error };
  }
  emit({
    type: "trial.finished",
    durationMs,
    outcome: failure === undefined ? "completed" : outcomeOf(failure.error),
    ...(failure && { error: serializeError(failure.error) }),
  });
}

/** The reason to skip a trial: requirements of its task that are not met, or a part of a check that has nothing to do. */
class SkippedTrial extends McpvalsError {}

function outcomeOf(error: unknown): TrialOutcome {
  if (error instanceof SkippedTrial) return "skipped";
  if (!(error instanceof McpvalsError)) return "error";
  return error.kind === "timeout" || error.kind === "interrupted" ? error.kind : "error";
}

function trialTimeout(limitMs: number): McpvalsError {
  return new McpvalsError("trial/timeout", `the trial took longer than ${limitMs / 1000} s`, {
    hint: "Raise limits.trial, the task's timeout or --timeout if the work is only slow.",
  });
}

/** Whether an agent was stopped since it used too much, which is its failure; not where nobody knows what it used. */
function isExcess(reason: unknown): boolean {
  return reason !== undefined && !(reason instanceof McpvalsError);
}

/** The phases of one trial, with its servers. Each phase throws the error that ended it early, and the signal's reason. */
class TrialPhases {
  readonly #run: TrialRun;
  readonly #services: TrialServices;
  /** In the order of the task, without those that did not start. */
  readonly #servers: TrialServer[] = [];
  /** Servers that cleanup ended; no error. */
  readonly #excused = new Set<TrialServer>();
  /** Work for the end of the trial, after the servers stopped; the last one first. */
  readonly #deferred: (() => Promise<void>)[] = [];
  /** Whether an agent program connected to any server. */
  #isConnected = false;
  /** Looks at what the agent uses; present while it acts. */
  #watchUse: (() => void) | undefined;
  /** The agent's answer so far, see `finalMessage`, with its secrets, which are removed only from recorded events. */
  #lastMessage = "";

  constructor(run: TrialRun, services: TrialServices) {
    this.#run = run;
    this.#services = services;
  }

  /** Workspace, servers, setup, agent, verify, then always cleanup. */
  async run(): Promise<void> {
    const { trial, task, signal } = this.#run;
    const { limits, compareState } = this.#services;
    this.#checkRequirements();
    if (task.check !== undefined) return this.#probe(task.check);
    const agent = trial.agent === null ? undefined : await this.#services.createAgent(trial.agent);
    await agent?.prepare();
    signal.throwIfAborted();
    const limitMs = task.portable?.timeoutMs ?? limits.trialMs;
    const workspace = await this.#openWorkspace(agent, limitMs);
    const state = new TrialState(this.#run, this.#services, workspace);
    this.#deferred.push(() => state[Symbol.asyncDispose]());
    await state.reservePorts();
    using deadline = state.clocks.start(limitMs, () => trialTimeout(limitMs), signal);
    const stepContext = (phase: Phase, until: AbortSignal): StepContext =>
      this.#stepContext(state, phase, until);
    const comparison =
      compareState && new (await import("./state-comparison.ts")).StateComparison(this.#run, compareState);
    try {
      await this.#startServers(state, agent, deadline.signal);
      // In a tool test the server is the subject: after its crash, the test goes on to its verdict.
      const fatal = task.form === "tool-test" ? [] : this.#servers.map(({ lost }) => lost);
      using alive = abortWithAny([deadline.signal, ...fatal]);
      await comparison?.remember(stepContext("probe", alive.signal));
      await this.#setup(() => stepContext("setup", alive.signal));
      if (agent !== undefined) await this.#act(state, agent, alive.signal);
      await this.#verify(() => stepContext("verify", alive.signal));
    } finally {
      await this.#cleanup(state);
      await comparison?.compare(stepContext("probe", new AbortController().signal));
    }
  }

  /**
   * Stops all servers, then does the deferred work. Records the servers that were lost during the trial. Throws at the end: the loss
   * of the first of them, unless it is the result of a tool test, or the first error of the deferred work.
   */
  async stop(): Promise<void> {
    if (this.#servers.length > 0) await Promise.all(this.#servers.map((server) => server.stop()));
    const errors: unknown[] = [];
    for (const work of this.#deferred.toReversed())
      await work().catch((error: unknown) => errors.push(error));
    const { task, emit } = this.#run;
    const lost = this.#servers.filter((server) => server.lost.aborted && !this.#excused.has(server));
    const faulty = lost.filter((server) => isServerFault(server.lost.reason));
    for (const { name, lost } of faulty)
      emit({ type: "server.lost", server: name, error: serializeError(lost.reason) });
    const fatal = lost.find((server) => task.form !== "tool-test" || !faulty.includes(server));
    if (fatal !== undefined) throw fatal.lost.reason;
    if (errors.length > 0) throw errors[0];
  }

  #checkRequirements(): void {
    const missing = this.#services.missing(this.#run);
    if (missing.length > 0) {
      const Failure = this.#services.strict ? McpvalsError : SkippedTrial;
      throw new Failure("task/missing-requirement", `requirements not met: ${missing.join("; ")}`);
    }
    const { task } = this.#run;
    const keyless = this.#services.judgesWithoutKey.get(task.name);
    if (keyless !== undefined) throw keyless;
    if (usesJudge(task.verify) && this.#services.createJudge === undefined)
      throw new McpvalsError("task/no-judge", "a verify step asks a judge, and none is configured", {
        hint: "Configure one: llmJudge in an Eval, judge in a config, --judge MODEL on the command line.",
      });
  }

  /** A trial of a check: its probes start the server themselves, unless planning has recorded them. */
  async #probe(check: CheckSpec): Promise<void> {
    if (check.skipped !== undefined) throw new SkippedTrial("check/nothing-to-do", check.skipped);
    const { task, emit, signal } = this.#run;
    const { limits, specOf, records } = this.#services;
    const [server = ""] = task.servers;
    const record = records?.get(task.name);
    if (record !== undefined)
      return runPhase("probe", emit, async () => {
        for (const event of record.events) emit(event);
        if (record.error !== undefined) throw record.error;
      });
    const { probeServer } = await import("../check/server-prober.ts");
    const spec = specOf(this.#run, server);
    using deadline = abortAfter(limits.trialMs, () => trialTimeout(limits.trialMs), signal);
    await runPhase("probe", emit, () =>
      probeServer({ server, spec, check, emit, signal: deadline.signal, callMs: limits.callMs }),
    );
  }

  /** The trial's folder; "" when neither the task nor the agent needs one. Copying files may take as long as the trial itself. */
  async #openWorkspace(agent: AgentDriver | undefined, limitMs: number): Promise<string> {
    const { task, emit, signal } = this.#run;
    const { portable, workspace } = task;
    const files = portable ?? (workspace && { ...workspace, format: "mcp-eval/v1" as const });
    if (files === undefined && agent?.reach !== "endpoints") return "";
    return runPhase("workspace", emit, async () => {
      using deadline = abortAfter(limitMs, () => trialTimeout(limitMs), signal);
      const { allowOutside } = this.#services;
      const { path, fixtures, remove } = await createWorkspace(files, allowOutside, deadline.signal);
      this.#deferred.push(remove);
      this.#run.ownValue?.("workspace", path);
      emit({ type: "workspace.created", path, fixtures });
      return path;
    });
  }

  /** Starts all servers of the task at once. Throws the error of the first that did not start. */
  async #startServers(state: TrialState, agent: AgentDriver | undefined, signal: AbortSignal): Promise<void> {
    const { emit, task } = this.#run;
    const { elicitation = [], portable } = task;
    const expander = portable?.format === "mcp-eval/v1" ? expanderOf(state.scope) : undefined;
    const clientSide = agent?.clientSide?.({ emit, workspace: state.workspace, elicitation });
    await runPhase("servers", emit, async () => {
      const start = {
        emit: (event: Parameters<Emit>[0]) => {
          this.#isConnected ||= event.type === "gateway.connected";
          const seq = emit(event);
          this.#watchUse?.();
          return seq;
        },
        signal,
        ...withoutUndefined({ expander, clientSide }),
        releasePorts: (texts: Iterable<string>) => state.releasePorts(texts),
      };
      const starts = task.servers.map((name) => this.#services.startServer(this.#run, name, start));
      const settled = await Promise.allSettled(starts);
      for (const each of settled)
        if (each.status === "fulfilled" && each.value !== undefined) this.#servers.push(each.value);
      const broken = settled.find(({ status }) => status === "rejected");
      if (broken?.status === "rejected") throw broken.reason;
      if (this.#services.listAll)
        await Promise.all(this.#servers.map((server) => this.#list(server, signal)));
    });
  }

  /** Asks a server for its resources and prompts. Ignores errors; the loss of a server is noticed elsewhere. */
  async #list({ session }: TrialServer, signal: AbortSignal): Promise<void> {
    const { abilities } = session;
    const options = { timeoutMs: this.#services.limits.callMs, signal };
    await Promise.allSettled([
      ...(abilities.resources
        ? [session.list("resources", options), session.list("resourceTemplates", options)]
        : []),
      ...(abilities.prompts ? [session.list("prompts", options)] : []),
    ]);
  }

  async #setup(contextOf: () => StepContext): Promise<void> {
    const { setup = [] } = this.#run.task.portable ?? {};
    if (setup.length === 0) return;
    const context = contextOf();
    await runPhase("setup", this.#run.emit, async () => {
      const { passed, ran, error } = await runSequence(setup, context, runStep);
      if (error !== undefined) throw error;
      if (!passed) throw setupFailed(ran);
    });
    context.signal.throwIfAborted();
  }

  /** Runs the agent's turns. Throws McpvalsError `agent/no-connection` for a program that got the tools of none of its servers. */
  async #act(state: TrialState, agent: AgentDriver, signal: AbortSignal): Promise<void> {
    const { task, emit } = this.#run;
    const { scope, workspace } = state;
    const { text } = expanderOf(scope);
    const told = task.turns.map(({ user }) => ({ user: mapUserTexts(user, text) }));
    const written = told.flatMap(({ user }) => (typeof user === "string" ? [user] : []));
    const simulated = simulatedUserOf({ turns: told });
    state.prompt = written.join("\n\n");
    // A port that the prompt names is for the agent to use.
    await state.releasePorts([state.prompt, JSON.stringify(simulated ?? null)]);
    const limits = await this.#agentLimits();
    this.#watchUse = limits && (() => limits.look());
    // Signals take much memory in a run of very many trials.
    using within = limits && abortWithAny([signal, limits.reached]);
    let open: number | undefined;
    const context: Omit<AgentContext, "sessions" | "endpoints" | "turns"> = {
      task: task.name,
      emit: (event) => {
        if (event.type === "agent.message") this.#lastMessage = event.text;
        if (event.type === "turn.started") {
          open = event.turn;
          if (simulated !== undefined && open >= written.length) {
            state.prompt = [state.prompt, event.user].filter(Boolean).join("\n\n");
            return emit({ ...event, by: `user-${simulated.kind}` });
          }
          this.#lastMessage = "";
        }
        if (event.type === "turn.finished") {
          open = undefined;
          const excess = limits?.excess;
          return emit(excess === undefined ? event : { ...event, reason: "limit", detail: excess });
        }
        const seq = emit(event);
        limits?.look();
        return seq;
      },
      signal: within?.signal ?? signal,
      callTimeoutMs: this.#services.limits.callMs,
      hold: state.clocks.hold.bind(state.clocks),
      workspace,
      defer: (work) => this.#deferred.push(work),
      ...withoutUndefined({ scope, solution: state.solution() }),
    };
    const servers = this.#servers;
    const isProgram = agent.reach === "endpoints";
    const turns =
      simulated === undefined
        ? written.map((user) => ({ user }))
        : await this.#converse(simulated, { written, ...context });
    await runPhase("agent", emit, async () => {
      try {
        const endpoints = isProgram ? await Promise.all(servers.map((server) => server.endpoint())) : [];
        const sessions = isProgram
          ? []
          : await Promise.all(servers.map((server) => server.agentSession({ signal })));
        await agent.run({ ...context, turns, endpoints, sessions });
        if (isProgram && limits?.excess === undefined) limits?.requireUse();
      } catch (error) {
        if (signal.aborted || !isExcess(limits?.reached.reason)) throw error;
        if (open !== undefined) context.emit({ type: "turn.finished", turn: open, reason: "cancelled" });
      } finally {
        this.#watchUse = undefined;
        await Promise.all(servers.map((server) => server.closeAgentSide()));
      }
      if (!isProgram || servers.length === 0) return;
      const names = servers.map(({ name }) => `"${name}"`).join(", ");
      if (!this.#isConnected)
        throw new McpvalsError("agent/no-connection", `the agent connected to none of its servers: ${names}`);
      const { gotNoTools } = await import("../trace/agent-acts.ts");
      if (gotNoTools(readTrace(this.#run.events)))
        throw new McpvalsError(
          "agent/no-connection",
          `the agent did not wait for the tools that it had asked its servers for: ${names}`,
        );
    });
    signal.throwIfAborted();
    state.agent = { output: this.#lastMessage, exitCode: 0 };
  }

  /** The turns with a simulated user, which few tasks have. It hears what is on record, without secrets. */
  async #converse(
    user: SimulatedUser,
    context: Pick<ConversationContext, "written" | "signal" | "hold">,
  ): Promise<AgentContext["turns"]> {
    const { events, emit } = this.#run;
    const { askUserModel: askModel } = this.#services;
    const { conversation } = await import("../agents/simulated-user.ts");
    return conversation(user, {
      ...context,
      emit,
      askModel,
      heard: () => {
        const turn = events.slice(events.findLastIndex(({ type }) => type === "turn.started"));
        return {
          said: eventsOf(turn, "agent.message")
            .map((message) => message.text)
            .join("\n\n"),
          end: eventsOf(turn, "turn.finished").at(-1)?.reason,
        };
      },
    });
  }

  /** Few runs limit what an agent uses. */
  async #agentLimits(): Promise<AgentLimits | undefined> {
    const limits = { ...this.#services.limits, ...this.#run.task.limits };
    const { maxCost, maxTokens, maxToolCalls, maxTurns } = limits;
    if ([maxCost, maxTokens, maxToolCalls, maxTurns].every((limit) => limit === undefined)) return undefined;
    const { AgentLimits: Watch } = await import("./agent-limits.ts");
    return new Watch(limits, this.#run.events);
  }

  async #verify(contextOf: () => StepContext): Promise<void> {
    const { verify, portable, graders = [] } = this.#run.task;
    const files = workspaceFilesOf(graders);
    if (verify.length === 0 && portable === undefined && files.length === 0) return;
    const context = contextOf();
    await runPhase("verify", this.#run.emit, async () => {
      const { error } = await runSequence(verify, context, runStep);
      if (error !== undefined) throw error;
      if (files.length > 0) await this.#recordFiles(files, context);
      // Before cleanup, which may end servers on purpose, a server that ended is an error.
      if ((portable?.cleanup ?? []).length > 0) await this.#checkAlive();
    });
    context.signal.throwIfAborted();
  }

  /** Records files of the workspace for graders, since it is removed before grading. */
  async #recordFiles(names: readonly string[], { trial, signal }: StepContext): Promise<void> {
    const { workspace } = trial;
    if (workspace === "") return;
    const { lookAtWorkspace } = await import("../graders/workspace-files.ts");
    for await (const found of lookAtWorkspace(names, { workspace, signal }))
      this.#run.emit({ type: "workspace.files", ...found });
  }

  async #cleanup(state: TrialState): Promise<void> {
    const { cleanup = [], cleanupTimeoutMs: timeoutMs = 0 } = this.#run.task.portable ?? {};
    if (cleanup.length === 0) return;
    // An interrupted agent has a last message too.
    state.agent ??= { output: this.#lastMessage, exitCode: 1 };
    const context = this.#stepContext(state, "cleanup", new AbortController().signal);
    await runPhase("cleanup", this.#run.emit, () => runCleanup(cleanup, context, runStep, { timeoutMs }));
    await this.#checkAlive();
    for (const server of this.#servers) if (server.lost.aborted) this.#excused.add(server);
  }

  /** Settles when it is known which servers still run. */
  async #checkAlive(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.checkAlive()));
  }

  #stepContext(trial: TrialState, phase: Phase, signal: AbortSignal): StepContext {
    const { task, emit } = this.#run;
    const started = this.#servers.map(({ name }) => name);
    return {
      phase,
      sessions: this.#servers.map(({ session }) => session),
      absent: task.servers.filter((name) => !started.includes(name)),
      emit,
      signal,
      scope: trial.scope,
      form: task.form,
      trial,
    };
  }
}
