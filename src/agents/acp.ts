import type {
  McpServer,
  RequestPermissionRequest,
  RequestPermissionResponse,
} from "@agentclientprotocol/sdk";
import { McpvalsError } from "../core/errors/error.ts";
import type { AcpAgentSpec, PermissionPolicy } from "../core/formats/model.ts";
import { objectOf, type Preset, textOf, type WireObject } from "../core/formats/presets/preset.ts";
import { presets } from "../core/formats/presets/presets.ts";
import type { TurnEnd, Usage } from "../core/trace/events.ts";
import { settlesWithin } from "../process/deadline.ts";
import type { GatewayEndpoint } from "../servers/gateway/endpoint.ts";
import type { AgentContext, AgentDriver } from "./driver.ts";
import {
  type AcpAnswerer,
  acpAnswerError,
  AcpLink,
  type AcpRequest,
  authError,
} from "./programs/acp-link.ts";
import { AcpUpdates } from "./programs/acp-updates.ts";
import {
  type AgentProgram,
  copySkills,
  findAgentProgram,
  type ProgramAgentOptions,
  startAgentProgram,
} from "./programs/agent-program.ts";
import { withModelProxy } from "./programs/model-proxy.ts";

export interface AcpAgentOptions extends ProgramAgentOptions {
  /** Longest that the program may take for its first answer, and to begin a session, in milliseconds. Default: 60000. */
  readonly startupMs?: number;
}

/**
 * Creates an agent: a program that speaks the Agent Client Protocol. It is started for each trial, plays all user
 * turns in one session, and is stopped with everything that it started.
 *
 * `prepare` throws McpvalsError `agent/program-not-found`. `run` throws `agent/spawn-failed`, `agent/exited`,
 * `agent/protocol`, `agent/startup-timeout`, `agent/auth`, `agent/failed`, `agent/skills`, `agent/model-not-offered`, and the signal's
 * reason.
 */
export function createAcpAgent(spec: AcpAgentSpec, options: AcpAgentOptions): AgentDriver {
  const facts = spec.preset === undefined ? undefined : presets[spec.preset];
  return {
    reach: "endpoints",
    prepare: () => findAgentProgram(spec, facts?.acp.package),
    run: async (context) => {
      context.signal.throwIfAborted();
      await withModelProxy(spec, context, (env) => runProgram({ ...spec, env }, context, options));
    },
  };
}

async function runProgram(
  spec: AcpAgentSpec,
  context: AgentContext,
  options: AcpAgentOptions,
): Promise<void> {
  const { emit, signal } = context;
  const { name, command, args, env } = spec;
  const cwd = spec.cwd ?? context.workspace;
  await copySkills(spec.skills, context);
  const program = await startAgentProgram({ name, command, args, env, cwd, emit });
  const session = new AcpSession({ spec, program, context, cwd, ...options });
  try {
    await session.open();
    for (const [turn, { user }] of context.turns.entries()) await session.play(turn, user);
  } finally {
    await session.close();
    await program.stop(signal.aborted ? { stdinMs: 0 } : {});
    await session.finished();
  }
  // A program that crashes with its answer may not have done what the answer says.
  if (program.endedBadly) throw program.exitedError("after its last turn");
}

export interface AcpSessionOptions {
  readonly spec: AcpAgentSpec;
  readonly program: AgentProgram;
  readonly context: AgentContext;
  /** Absolute path of the folder that the agent works in. */
  readonly cwd: string;
  readonly version: string;
  readonly startupMs?: number;
}

/** The version of the protocol that we speak. */
const protocolVersion = 1;
const defaultStartupMs = 60_000;
/** How long an agent may take to end a turn that was cancelled, in milliseconds. */
const cancelMs = 1000;

/** One session with an agent program, in which all user turns are played. */
export class AcpSession {
  readonly #options: AcpSessionOptions;
  readonly #facts: Preset | undefined;
  readonly #updates: AcpUpdates;
  readonly #usage: AcpUsage;
  #link: AcpLink | undefined;
  #authMethods: readonly string[] = [];
  #turn = 0;
  #id = "";
  #toldOthers = false;
  /** That is chosen in the session, where the agent has such a setting. */
  #model: string | undefined;

  constructor(options: AcpSessionOptions) {
    const { spec, context } = options;
    this.#options = options;
    this.#facts = spec.preset === undefined ? undefined : presets[spec.preset];
    this.#usage = new AcpUsage(this.#facts?.acp.usage ?? "turn");
    this.#updates = new AcpUpdates({
      emit: context.emit,
      servers: context.endpoints.map(({ server }) => server),
      skillTool: spec.skills?.tool,
      onRefused: (note) => {
        throw authError(note, this.#answerer);
      },
      ...(spec.preset === undefined ? {} : { preset: spec.preset }),
    });
  }

  /** Shakes hands and begins the session. Throws McpvalsError, and the signal's reason. */
  async open(): Promise<void> {
    const { spec, program, context } = this.#options;
    this.#link = await AcpLink.open({
      name: spec.name,
      program,
      emit: context.emit,
      signal: context.signal,
      onUpdate: (params) => this.#takeUpdate(objectOf(params)),
      onPermission: (request) => this.#answerPermission(request),
    });
    const canHttp = await this.#initialize();
    const session = await this.#begin(canHttp);
    const id = textOf(session["sessionId"]);
    if (id === undefined) throw this.#linked.protocolError("began a session without an id");
    this.#id = id;
    await this.#chooseMode(session);
    this.#model = modelSetting(session)?.current;
    if (spec.model === undefined || (this.#facts?.acp.model.by ?? "session") !== "session") return;
    await this.#chooseModel(spec.model, session);
    this.#model = spec.model;
  }

  /** Plays one user turn. Throws McpvalsError, and the signal's reason after asking the agent to stop. */
  async play(turn: number, user: string): Promise<void> {
    const { emit, signal } = this.#options.context;
    signal.throwIfAborted();
    this.#turn = turn;
    this.#updates.begin(turn);
    emit({ type: "turn.started", turn, user });
    const prompt = [{ type: "text", text: user }];
    const params = { sessionId: this.#id, prompt };
    const asked = this.#ask({ method: "session/prompt", params, doing: `in turn ${turn + 1}` });
    const answer = await asked.catch(async (error: unknown) => {
      this.#updates.end();
      throw error;
    });
    signal.throwIfAborted();
    this.#updates.end();
    const usage = this.#usage.take(answer);
    if (usage !== undefined) emit({ type: "agent.usage", source: "agent", usage });
    for (const model of this.#modelsIn(answer)) emit({ type: "agent.told", model });
    const { failure } = this.#updates;
    if (failure !== undefined) throw this.#failedError(failure);
    emit({ type: "turn.finished", turn, reason: this.#turnEnd(answer) });
  }

  /** Asks the agent to stop at the end of the trial, waits a moment, and closes the connection. Never throws. */
  async close(): Promise<void> {
    const { context, program } = this.#options;
    if (this.#link === undefined) return;
    if (context.signal.aborted && this.#id !== "") {
      const ended = this.#link.settled();
      this.#link.notify("session/cancel", { sessionId: this.#id });
      await settlesWithin(Promise.race([ended, program.process.exited]), cancelMs);
    }
    this.#link.close();
  }

  /** Settles when nothing of the session waits any more, which is soon after the program was stopped. */
  async finished(): Promise<void> {
    await this.#link?.finished();
  }

  #failedError(failure: string): McpvalsError {
    const { spec, program } = this.#options;
    const detail = program.stderrTail();
    const message = `agent ${spec.name} could not act: ${failure}`;
    return new McpvalsError("agent/failed", message, detail === undefined ? {} : { detail });
  }

  #takeUpdate({ sessionId, update, message }: WireObject): void {
    if (sessionId === this.#id) this.#updates.take(objectOf(update ?? message));
    else if (this.#id !== "" && !this.#toldOthers) {
      this.#toldOthers = true;
      const text = `[left out, as of another session than ours: updates of ${JSON.stringify(sessionId)}]\n`;
      this.#options.context.emit({ type: "agent.output", stream: "stdout", text: text.slice(0, 500) });
    }
  }

  /** The models whose tokens a turn's response reports, else the model chosen in the session. */
  #modelsIn(answer: WireObject): readonly string[] {
    const used = objectOf(objectOf(answer["_meta"])["quota"])["model_usage"];
    const models = Array.isArray(used) ? used.flatMap((each) => textOf(objectOf(each)["model"]) ?? []) : [];
    return models.length > 0 || this.#model === undefined ? models : [this.#model];
  }

  get #linked(): AcpLink {
    if (this.#link === undefined) throw new Error("the session is not open");
    return this.#link;
  }

  get #startupMs(): number {
    return this.#options.startupMs ?? defaultStartupMs;
  }

  /** Returns whether the agent can reach servers over HTTP. */
  async #initialize(): Promise<boolean> {
    const { spec, program, context, version } = this.#options;
    const params = {
      protocolVersion,
      clientInfo: { name: "mcpvals", version },
      clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
    };
    const answer = await this.#ask({
      method: "initialize",
      params,
      doing: "before it had answered initialize",
      ms: this.#startupMs,
    });
    if (answer["protocolVersion"] !== protocolVersion)
      throw this.#linked.protocolError(
        `speaks version ${JSON.stringify(answer["protocolVersion"])} of the Agent Client Protocol, not ${protocolVersion}`,
      );
    const methods = Array.isArray(answer["authMethods"]) ? answer["authMethods"].map(objectOf) : [];
    this.#authMethods = methods.flatMap(({ id }) => textOf(id) ?? []);
    const { name, version: itsVersion } = objectOf(answer["agentInfo"]);
    const told = [textOf(name), textOf(itsVersion)].filter((text) => text !== undefined).join(" ");
    context.emit({
      type: "agent.started",
      agent: spec.name,
      kind: "acp",
      ...(spec.model === undefined ? {} : { model: spec.model }),
      ...(told === "" ? {} : { program: told }),
      pid: program.process.pid,
    });
    const capabilities = objectOf(answer["agentCapabilities"]);
    return objectOf(capabilities["mcpCapabilities"])["http"] === true;
  }

  /** Starts the session. If the agent asks for a login and a key is available, it logs in and tries again. */
  async #begin(canHttp: boolean): Promise<WireObject> {
    const { spec, context, cwd } = this.#options;
    const mcpServers = acpServers(context.endpoints, { connect: spec.connect, canHttp });
    const request = {
      method: "session/new",
      params: {
        cwd,
        mcpServers,
        ...(this.#facts?.acp.sessionMeta === undefined ? {} : { _meta: this.#facts.acp.sessionMeta }),
      },
      doing: "before the session had begun",
      ms: this.#startupMs,
    };
    try {
      return await this.#ask(request);
    } catch (error) {
      const method = this.#loginMethod(error);
      if (method === undefined) throw error;
      await this.#ask({ ...request, method: "authenticate", params: { methodId: method } });
      return this.#ask(request);
    }
  }

  #loginMethod(error: unknown): string | undefined {
    const login = this.#facts?.acp.login;
    if (!(error instanceof McpvalsError) || error.code !== "agent/auth" || login === undefined)
      return undefined;
    const { env } = this.#options.spec;
    const hasKey = login.variables.some((variable) => (env[variable] ?? "") !== "");
    return hasKey && this.#authMethods.includes(login.method) ? login.method : undefined;
  }

  /** Puts the session into the mode in which the agent asks, where it may begin in another one. */
  async #chooseMode(session: WireObject): Promise<void> {
    const modeId = this.#facts?.acp.mode;
    if (modeId === undefined || objectOf(session["modes"])["currentModeId"] === modeId) return;
    await this.#ask({
      method: "session/set_mode",
      params: { sessionId: this.#id, modeId },
      doing: "before the session had begun",
      ms: this.#startupMs,
    });
  }

  async #chooseModel(model: string, session: WireObject): Promise<void> {
    const setting = modelSetting(session);
    const { name } = this.#options.spec;
    if (setting === undefined)
      throw new McpvalsError("agent/model-not-offered", `agent ${name} does not support choosing a model`, {
        hint: "Leave model out, and choose it by the program's own arguments or variables.",
      });
    if (!setting.values.includes(model))
      throw new McpvalsError("agent/model-not-offered", `agent ${name} does not offer the model ${model}`, {
        hint: `It offers ${setting.values.join(", ")}.`,
      });
    if (setting.current === model) return;
    await this.#ask({
      method: "session/set_config_option",
      params: { sessionId: this.#id, configId: setting.configId, value: model },
      doing: "before the session had begun",
      ms: this.#startupMs,
    });
  }

  /** Asks the agent; the answer is an object. */
  async #ask(request: AcpRequest): Promise<WireObject> {
    const { context } = this.#options;
    try {
      return objectOf(await this.#linked.request(request));
    } catch (error) {
      if (error === context.signal.reason) throw error;
      throw acpAnswerError(error, request.method, this.#answerer);
    }
  }

  get #answerer(): AcpAnswerer {
    const { spec, program } = this.#options;
    return {
      name: spec.name,
      ...(this.#facts === undefined ? {} : { facts: this.#facts }),
      authMethods: this.#authMethods,
      stderrTail: program.stderrTail(),
    };
  }

  #answerPermission({ toolCall, options }: RequestPermissionRequest): RequestPermissionResponse {
    const { spec, context } = this.#options;
    // By the protocol, what is still asked after a cancel is answered so.
    if (context.signal.aborted) return { outcome: { outcome: "cancelled" } };
    const call = objectOf(toolCall);
    this.#updates.takeAsked(call);
    const isMcp = this.#updates.originOf(call).source.startsWith("mcp:");
    const { decision, optionId } = answerPermission(spec.permissions, options, { isMcp });
    const callId = textOf(call["toolCallId"]);
    context.emit({
      type: "agent.permission",
      turn: this.#turn,
      ...(callId === undefined ? {} : { callId }),
      title: this.#updates.titleOf(call),
      decision,
      policy: spec.permissions,
    });
    return { outcome: optionId === undefined ? { outcome: "cancelled" } : { outcome: "selected", optionId } };
  }

  #turnEnd(answer: WireObject): TurnEnd {
    const { stopReason } = answer;
    switch (stopReason) {
      case "end_turn":
        return "done";
      case "max_tokens":
        return "max-tokens";
      case "max_turn_requests":
        return "max-steps";
      case "refusal":
        return "refused";
      case "cancelled":
        return "cancelled";
      default:
        throw this.#linked.protocolError(`ended a turn for an unknown reason: ${JSON.stringify(stopReason)}`);
    }
  }
}

/** The setting of a session by which an agent lets its model be chosen. */
export interface ModelSetting {
  readonly configId: string;
  /** Values that can be chosen. */
  readonly values: readonly string[];
  readonly current: string | undefined;
}

/** Finds that setting in the answer to `session/new`; undefined when the agent has none. */
function modelSetting(session: WireObject): ModelSetting | undefined {
  const options = listOf(session["configOptions"]);
  const setting = options.find((option) => option["category"] === "model" && option["type"] === "select");
  const configId = textOf(setting?.["id"]);
  if (setting === undefined || configId === undefined) return undefined;
  const choices = listOf(setting["options"]).flatMap((choice) =>
    "options" in choice ? listOf(choice["options"]) : [choice],
  );
  return {
    configId,
    values: choices.flatMap((choice) => textOf(choice["value"]) ?? []),
    current: textOf(setting["currentValue"]),
  };
}

function listOf(value: unknown): readonly WireObject[] {
  return Array.isArray(value) ? value.map(objectOf) : [];
}

/** One answer that an agent offers to its question. */
export interface PermissionChoice {
  readonly optionId: string;
  readonly kind: string;
}

export interface PermissionAnswer {
  readonly decision: "allowed" | "denied" | "cancelled";
  /** The option that is chosen; absent: none, which cancels the request. */
  readonly optionId?: string;
}

/**
 * Answers an agent that asks whether it may do something. What is allowed is allowed once where the agent offers that, and
 * denials apply once; without a matching option the request is cancelled.
 */
export function answerPermission(
  policy: PermissionPolicy,
  options: readonly PermissionChoice[],
  { isMcp }: { readonly isMcp: boolean },
): PermissionAnswer {
  const allowed = policy === "allow" || (policy === "allow-mcp" && isMcp);
  const kinds = allowed ? ["allow_once", "allow_always"] : ["reject_once"];
  const chosen = kinds.flatMap((kind) => options.filter((option) => option.kind === kind)).at(0);
  if (chosen === undefined) return { decision: "cancelled" };
  return { decision: allowed ? "allowed" : "denied", optionId: chosen.optionId };
}

export interface AcpConnect {
  readonly connect: AcpAgentSpec["connect"];
  /** The agent's name and version. */
  readonly canHttp: boolean;
}

/** The servers as the agent gets them: by URL if it supports that or must, else by a command to start. */
function acpServers(endpoints: readonly GatewayEndpoint[], { connect, canHttp }: AcpConnect): McpServer[] {
  const overHttp = connect === undefined ? canHttp : connect === "http";
  return endpoints.map(({ server: name, url, bridge }) =>
    overHttp
      ? { type: "http", name, url, headers: [] }
      : {
          name,
          command: bridge.command,
          args: [...bridge.args],
          env: Object.entries(bridge.env).map(([variable, value]) => ({ name: variable, value })),
        },
  );
}

/** Tokens of each turn, if an agent reports them with its response to the prompt; single requests are unknown. */
export class AcpUsage {
  readonly #of: "turn" | "session";
  #before: Usage = none;

  /** `session`: the agent reports the sum of all turns so far. */
  constructor(of: "turn" | "session") {
    this.#of = of;
  }

  /** The tokens of the turn; undefined when the agent does not report them. */
  take(answer: unknown): Usage | undefined {
    const told = toldUsage(answer);
    if (told === undefined || this.#of === "turn") return told;
    const before = this.#before;
    this.#before = told;
    return {
      inputTokens: told.inputTokens - before.inputTokens,
      outputTokens: told.outputTokens - before.outputTokens,
      ...difference("cacheReadTokens", told, before),
      ...difference("cacheWriteTokens", told, before),
    };
  }
}

const none: Usage = { inputTokens: 0, outputTokens: 0 };

function difference(
  name: "cacheReadTokens" | "cacheWriteTokens",
  told: Usage,
  before: Usage,
): Partial<Usage> {
  const now = told[name];
  return now === undefined ? {} : { [name]: now - (before[name] ?? 0) };
}

function toldUsage(answer: unknown): Usage | undefined {
  const told = objectOf(objectOf(answer)["usage"]);
  const input = countOf(told["inputTokens"]);
  const output = countOf(told["outputTokens"]);
  if (input === undefined || output === undefined) return undefined;
  const read = countOf(told["cachedReadTokens"]);
  const written = countOf(told["cachedWriteTokens"]);
  const cached = (read ?? 0) + (written ?? 0);
  // Some agents report cached tokens separately from the input; the total shows which.
  const isApart = told["totalTokens"] === input + cached + output;
  return {
    inputTokens: isApart ? input + cached : input,
    outputTokens: output,
    ...(read === undefined ? {} : { cacheReadTokens: read }),
    ...(written === undefined ? {} : { cacheWriteTokens: written }),
  };
}

function countOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}
