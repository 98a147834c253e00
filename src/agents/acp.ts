import { maxMessageBytes } from "../base/limits.ts";
import type {
  AnyMessage,
  ClientConnection,
  McpServer,
  PermissionOption,
  RequestPermissionRequest,
  RequestPermissionResponse,
  Stream,
} from "@agentclientprotocol/sdk";
import { McpvalsError } from "../base/error.ts";
import { asObject, isJsonObject, withoutUndefined, type Json } from "../base/json.ts";
import type { AcpAgentSpec, PermissionPolicy, SystemPrompt } from "../model/agent.ts";
import { mergeObjects } from "./programs/options.ts";
import { textOf, type WireObject } from "./programs/preset.ts";
import type { TurnEnd } from "../model/event.ts";
import { abortWithAny, settlesWithin, withDeadline } from "../process/deadline.ts";
import { closed } from "../process/process-tree.ts";
import { LineReader } from "../process/program-output.ts";
import type { ManagedProcess } from "../process/spawn.ts";
import { AcpUpdates, AcpUsage, objectsIn } from "./acp-updates.ts";
import {
  type AgentProgram,
  copySkills,
  findAgentProgram,
  loginDetails,
  startAgentProgram,
} from "./agent-program.ts";
import type { AgentContext, AgentDriver } from "./driver.ts";
import { environmentAtHome, type HomeOptions } from "./home.ts";
import { withModelProxy } from "./model-proxy.ts";
import { MessageBudget, parseObject, ProgramLines, repeatedKeyProblem } from "./program-lines.ts";
import { type McpClient, presetNamed } from "./programs/presets.ts";
import { type WrittenFiles, writeClientFiles, writeMcpConfigFile } from "./write-client-files.ts";

export interface AcpAgentOptions extends HomeOptions {
  /** Version of mcpvals, for the agent. */
  readonly version: string;
  /** Longest that the program may take for its first answer, and to begin a session, in milliseconds. */
  readonly startupMs?: number;
}

/**
 * Creates an agent: a program that speaks the Agent Client Protocol. It is started for each trial, plays all user
 * turns in one session, and is stopped with everything that it started.
 *
 * `prepare` throws McpvalsError `agent/program-not-found`. `run` throws `agent/spawn-failed`, `agent/exited`,
 * `agent/protocol`, `agent/startup-timeout`, `agent/auth`, `agent/failed`, `agent/home`, `agent/skills`, `agent/model-not-offered`,
 * `agent/option-not-offered`, and
 * the signal's reason.
 */
export function createAcpAgent(spec: AcpAgentSpec, options: AcpAgentOptions): AgentDriver {
  return {
    reach: "endpoints",
    prepare: () => findAgentProgram(spec, presetNamed(spec.preset)?.acp.package),
    run: async (context) => {
      context.signal.throwIfAborted();
      const home = await environmentAtHome(spec, context, options);
      await withModelProxy({ ...spec, env: home }, context, (env) =>
        withServersFile({ ...spec, env }, context, (complete) => playSession(complete, context, options)),
      );
    },
  };
}

async function playSession(
  spec: AcpAgentSpec,
  context: AgentContext,
  { version, startupMs = 60_000 }: AcpAgentOptions,
): Promise<void> {
  const { emit, signal, turns } = context;
  const { name, command, args, env, cwd = context.workspace } = spec;
  await copySkills(spec.skills, context);
  const sdk = await import("@agentclientprotocol/sdk");
  const program = await startAgentProgram({ name, command, args, env, cwd, emit });
  const session = new AcpSession(sdk, { spec, context, program, cwd, version, startupMs });
  try {
    await session.open();
    let turn = 0;
    for await (const { user } of turns) {
      await session.play(turn, user);
      turn += 1;
    }
  } finally {
    await session.close();
    await program.stop(signal.aborted ? { stdinMs: 0 } : {});
    await session.watching;
  }
  // After an error it is done when the trial ends.
  await session.files?.restore();
  // A program that crashes with its answer may not have done what the answer says.
  if (program.endedBadly) throw program.exitedError("after its last turn");
}

/** Plays while a file exists that leads the program to the servers, if it takes one. */
async function withServersFile(
  spec: AcpAgentSpec,
  { endpoints }: AgentContext,
  play: (spec: AcpAgentSpec) => Promise<void>,
): Promise<void> {
  const flag = presetNamed(spec.preset)?.acp.serversFlag;
  if (flag === undefined || endpoints.length === 0) return play(spec);
  const file = await writeMcpConfigFile(endpoints, spec.connect, spec.preset);
  try {
    await play({ ...spec, args: [...spec.args, flag, file.path] });
  } finally {
    file.remove();
  }
}

interface SessionOptions extends Required<Omit<AcpAgentOptions, keyof HomeOptions>> {
  readonly spec: AcpAgentSpec;
  readonly context: AgentContext;
  readonly program: AgentProgram;
  /** Absolute path of the folder that the agent works in. */
  readonly cwd: string;
}

const protocolVersion = 1;
/** Lines that are not messages which a program may write before its first answer; a banner has fewer. */
const maxOtherLines = 20;
/** How long what was written before the end may take to arrive, in milliseconds. */
const drainMs = 200;
/** How long a program whose stdout has ended may take to end itself, in milliseconds. */
const exitMs = 1000;
/** How long an agent may take to end a turn that was cancelled, in milliseconds. */
const cancelMs = 1000;
/** How long a program may wait for its servers in the request for a session, in milliseconds. */
const maxServersMs = 600_000;
/** The protocol's error code for a request that needs a login. */
const authRequired = -32_000;

const turnEnds: Readonly<Record<string, TurnEnd>> = {
  end_turn: "done",
  max_tokens: "max-tokens",
  max_turn_requests: "max-steps",
  refusal: "refused",
  cancelled: "cancelled",
};

/** One session with a running agent program, in which all user turns are played. */
class AcpSession {
  /** Settles soon after the program was stopped, when nothing of the session waits any more. */
  readonly watching: Promise<void>;
  /** The file that leads the program to the servers, if it gets them by one. */
  files: WrittenFiles | undefined;
  readonly #options: SessionOptions;
  readonly #stream: ReturnType<typeof openAcpStream>;
  readonly #connection: ClientConnection;
  readonly #updates: AcpUpdates;
  readonly #usage: AcpUsage;
  readonly #otherLines: ProgramLines;
  /** Aborts when the program cannot go on, with the reason. */
  readonly #lost = new AbortController();
  /** The first lines that are not messages, before the first answer. */
  #banner: string[] = [];
  #hasAnswered = false;
  #doing = "at the start";
  #lastRequest: Promise<unknown> = Promise.resolve();
  #authMethods: readonly string[] = [];
  #turn = 0;
  #id = "";
  #model: string | undefined;
  /** The options of the session with their values. */
  #offered: readonly WireObject[] = [];
  #foreignReported = false;

  /** Begins to listen to the program. */
  constructor(sdk: typeof import("@agentclientprotocol/sdk"), options: SessionOptions) {
    const { spec, context, program } = options;
    this.#options = options;
    this.#usage = new AcpUsage(presetNamed(spec.preset)?.acp.usage ?? "turn");
    this.#updates = new AcpUpdates({
      emit: context.emit,
      preset: spec.preset,
      servers: context.endpoints.map(({ server }) => server),
      skillTool: spec.skills?.tool,
      onRefused: (note) => {
        throw new McpvalsError("agent/auth", this.#notLoggedIn(note), this.#loginDetails);
      },
    });
    this.#otherLines = new ProgramLines("stdout", context.emit);
    this.#stream = openAcpStream(program.process, {
      onUpdate: (params) => this.#takeUpdate(asObject(params)),
      onOther: (line) => this.#takeOther(line),
      onBroken: (problem) =>
        this.#lost.abort(typeof problem === "string" ? this.#protocolError(problem) : problem),
    });
    this.#connection = sdk
      .client({ name: "mcpvals" })
      .onRequest(sdk.methods.client.session.requestPermission, ({ params }) => this.#answerPermission(params))
      .connect(this.#stream);
    this.watching = this.#watch();
  }

  /** Does the handshake and begins the session. Throws McpvalsError, and the signal's reason. */
  async open(): Promise<void> {
    const { spec } = this.#options;
    const preset = presetNamed(spec.preset)?.acp;
    const { mode: chosen, ...others } = spec.sessionOptions ?? {};
    const mode = chosen ?? preset?.mode;
    const session = await this.#begin(await this.#initialize());
    const id = textOf(session["sessionId"]);
    if (id === undefined) throw this.#protocolError("began a session without an id");
    this.#id = id;
    this.#offered = objectsIn(session["configOptions"]);
    if (mode !== undefined) await this.#chooseMode(mode, asObject(session["modes"]));
    this.#model = textOf(settingOf(this.#offered.find(isOf("model")))?.current);
    if (spec.model !== undefined && (preset?.model.by ?? "session") === "session") {
      await this.#chooseModel(spec.model);
      this.#model = spec.model;
    }
    // What is offered may depend on the model.
    const { effort } = spec.session ?? {};
    if (effort !== undefined) await this.#set("effort", this.#offered.find(isOf("thought_level")), effort);
    for (const [option, value] of Object.entries(others))
      await this.#set(
        `sessionOptions.${option}`,
        this.#offered.find(({ id: each }) => each === option),
        value,
      );
  }

  /** Plays one user turn. Throws McpvalsError, and the signal's reason. */
  async play(turn: number, user: string): Promise<void> {
    const { spec, program } = this.#options;
    const { emit, signal } = this.#options.context;
    signal.throwIfAborted();
    this.#turn = turn;
    this.#updates.begin(turn);
    emit({ type: "turn.started", turn, user });
    const params = { sessionId: this.#id, prompt: [{ type: "text", text: user }] };
    let answer: WireObject;
    try {
      answer = await this.#ask("session/prompt", params, `in turn ${turn + 1}`, Infinity);
      signal.throwIfAborted();
    } catch (error) {
      const { ended } = this.#updates;
      if (ended === undefined || !(error instanceof McpvalsError) || error.code !== "agent/failed")
        throw error;
      emit({ type: "agent.usage", source: "agent", usage: ended.usage });
      emit({ type: "turn.finished", turn, reason: ended.reason });
      return;
    } finally {
      this.#updates.end();
    }
    const usage = this.#usage.take(answer, this.#updates.cost);
    if (usage !== undefined) emit({ type: "agent.usage", source: "agent", usage });
    // The models whose tokens the response reports, else the model of the session.
    const used = objectsIn(asObject(asObject(answer["_meta"])["quota"])["model_usage"]);
    const models = used.flatMap(({ model }) => textOf(model) ?? []);
    for (const model of models.length > 0 ? models : [this.#model])
      if (model !== undefined) emit({ type: "agent.reported", model });
    const { failure } = this.#updates;
    if (failure !== undefined)
      throw program.error("agent/failed", `agent ${spec.name} could not act: ${failure}`);
    const reason = turnEnds[String(answer["stopReason"])];
    if (reason === undefined)
      throw this.#protocolError(
        `ended a turn for an unknown reason: ${JSON.stringify(answer["stopReason"])}`,
      );
    emit({ type: "turn.finished", turn, reason });
  }

  /** At the end of the trial, asks the agent to stop and waits a moment; closes the connection. Never throws. */
  async close(): Promise<void> {
    const { context, program } = this.#options;
    if (context.signal.aborted && this.#id !== "") {
      this.#connection.agent.notify("session/cancel", { sessionId: this.#id }).catch(() => undefined);
      await settlesWithin(Promise.race([this.#lastRequest, program.process.exited]), cancelMs);
    }
    this.#stream.stop();
    this.#connection.close();
    this.#otherLines.finish();
  }

  /** Returns the agent's capabilities. */
  async #initialize(): Promise<WireObject> {
    const { spec, program, context, version } = this.#options;
    const params = {
      protocolVersion,
      clientInfo: { name: "mcpvals", version },
      clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
    };
    const answer = await this.#ask("initialize", params, "before it had answered initialize");
    const { protocolVersion: spoken, authMethods, agentInfo, agentCapabilities } = answer;
    if (spoken !== protocolVersion)
      throw this.#protocolError(
        `speaks version ${JSON.stringify(spoken)} of the Agent Client Protocol, not ${protocolVersion}`,
      );
    this.#authMethods = objectsIn(authMethods).flatMap(({ id }) => textOf(id) ?? []);
    const { name, version: itsVersion } = asObject(agentInfo);
    const { pid } = program.process;
    const info = [textOf(name), textOf(itsVersion)].filter((text) => text !== undefined).join(" ");
    const known = withoutUndefined({
      model: spec.model,
      program: info === "" ? undefined : info,
      hides: presetNamed(spec.preset)?.acp.hides,
    });
    context.emit({ type: "agent.started", agent: spec.name, kind: "acp", ...known, pid });
    return asObject(agentCapabilities);
  }

  /** Begins the session. If the agent asks for a login and has a key, it logs in and is asked again. */
  async #begin({ mcpCapabilities, sessionCapabilities }: WireObject): Promise<WireObject> {
    const { spec, context, cwd } = this.#options;
    const preset = presetNamed(spec.preset)?.acp;
    const { meta = {}, systemPrompt: prompt } = spec.session ?? {};
    if (prompt !== undefined) this.#checkSystemPrompt(prompt, asObject(sessionCapabilities)["systemPrompt"]);
    const systemPrompt = prompt && { mode: prompt.mode, content: [{ type: "text", text: prompt.text }] };
    const canHttp = asObject(mcpCapabilities)["http"] === true;
    const overHttp = spec.connect === undefined ? canHttp : spec.connect === "http";
    const { emit, signal, endpoints } = context;
    const byFile = preset?.usesClientFile === true;
    if (byFile) {
      const connect = overHttp ? "http" : "bridge";
      const files = await writeClientFiles(cwd, [spec.preset as McpClient], endpoints, {
        connect,
        emit,
        signal,
      });
      this.files = files;
      context.defer(() => files.restore());
    }
    const mcpServers: McpServer[] = (byFile ? [] : endpoints).map(({ server: name, url, bridge }) => {
      if (overHttp) return { type: "http", name, url, headers: [] };
      const env = Object.entries(bridge.env).map(([variable, value]) => ({ name: variable, value }));
      return { name, command: bridge.command, args: [...bridge.args], env };
    });
    const allMeta = mergeObjects(preset?.sessionMeta ?? {}, meta);
    const params = withoutUndefined({
      cwd,
      mcpServers,
      systemPrompt,
      _meta: Object.keys(allMeta).length === 0 ? undefined : allMeta,
    });
    // A program that gets its servers by a file waits for them during this request.
    const hasFile = endpoints.length > 0 && (byFile || preset?.serversFlag !== undefined);
    const ms = hasFile ? maxServersMs : this.#options.startupMs;
    try {
      return await this.#ask("session/new", params, undefined, ms);
    } catch (error) {
      const login = preset?.login;
      const isRefused = error instanceof McpvalsError && error.code === "agent/auth";
      const hasKey = login?.variables.some((variable) => (spec.env[variable] ?? "") !== "");
      if (!isRefused || hasKey !== true || !this.#authMethods.includes(login?.method ?? "")) throw error;
      await this.#ask("authenticate", { methodId: login?.method });
      return this.#ask("session/new", params, undefined, ms);
    }
  }

  /** The protocol has a capability for system prompts, and another one for those that take the place of the agent's own. */
  #checkSystemPrompt({ mode }: SystemPrompt, capability: unknown): void {
    const isOffered = typeof capability === "object" && capability !== null;
    if (isOffered && (mode === "append" || asObject(asObject(capability)["mode"])["override"] !== undefined))
      return;
    const what = isOffered ? "a system prompt in the place of its own" : "a system prompt";
    throw this.#notOffered(
      `take ${what} in the session`,
      "Leave systemPrompt out, or give the text by the program's own arguments or files.",
    );
  }

  #notOffered(what: string, hint: string): McpvalsError {
    const message = `agent ${this.#options.spec.name} does not ${what}`;
    return new McpvalsError("agent/option-not-offered", message, { hint });
  }

  /** Modes are an option of the session, or of their own in programs that have no such option. */
  async #chooseMode(mode: string | boolean, modes: WireObject): Promise<void> {
    const option = this.#offered.find(isOf("mode"));
    const ids = objectsIn(modes["availableModes"]).flatMap(({ id }) => textOf(id) ?? []);
    if (option !== undefined || ids.length === 0) return this.#set("sessionOptions.mode", option, mode);
    if (typeof mode !== "string" || !ids.includes(mode))
      throw this.#notOffered(`offer ${String(mode)} for sessionOptions.mode`, `It offers ${ids.join(", ")}.`);
    if (modes["currentModeId"] === mode) return;
    await this.#ask("session/set_mode", { sessionId: this.#id, modeId: mode });
  }

  /** Sets an option of the session; `name` is the key of the config. */
  async #set(name: string, option: WireObject | undefined, value: string | boolean): Promise<void> {
    const setting = settingOf(option);
    if (setting === undefined) {
      const ids = this.#offered.flatMap(({ id }) => textOf(id) ?? []);
      const hint =
        ids.length === 0 ? "Its session has no options." : `The options of its session: ${ids.join(", ")}.`;
      throw this.#notOffered(`have an option of its session for ${name}`, hint);
    }
    const { configId, values, current, isSwitch } = setting;
    const isOffered = isSwitch ? typeof value === "boolean" : values.includes(String(value));
    if (!isOffered)
      throw this.#notOffered(`offer ${String(value)} for ${name}`, `It offers ${values.join(", ")}.`);
    if (current === value) return;
    const params = { sessionId: this.#id, configId, value: isSwitch ? value : String(value) };
    const answer = await this.#ask(
      "session/set_config_option",
      isSwitch ? { ...params, type: "boolean" } : params,
    );
    if (Array.isArray(answer["configOptions"])) this.#offered = objectsIn(answer["configOptions"]);
  }

  async #chooseModel(model: string): Promise<void> {
    const option = this.#offered.find(isOf("model"));
    const setting = settingOf(option);
    const { name } = this.#options.spec;
    if (setting === undefined)
      throw new McpvalsError("agent/model-not-offered", `agent ${name} does not support choosing a model`, {
        hint: "Leave model out, and choose it by the program's own arguments or variables.",
      });
    const { values } = setting;
    if (!values.includes(model))
      throw new McpvalsError("agent/model-not-offered", `agent ${name} does not offer the model ${model}`, {
        hint: `It offers ${values.join(", ")}.`,
      });
    await this.#set("model", option, model);
  }

  /**
   * Sends a request; `doing` says in messages when it is sent, such as `in turn 1`. Throws McpvalsError `agent/auth`,
   * `agent/failed`, `agent/exited`, `agent/protocol`, `agent/startup-timeout`, and the signal's reason.
   */
  async #ask(
    method: string,
    params: object,
    doing = "before the session had begun",
    ms: number = this.#options.startupMs,
  ): Promise<WireObject> {
    const { signal } = this.#options.context;
    this.#doing = doing;
    using end = abortWithAny([this.#lost.signal, signal]);
    const send = (): Promise<unknown> => {
      this.#lastRequest = this.#connection.agent.request(method, params);
      return this.#lastRequest;
    };
    const onTimeout = (): McpvalsError => this.#timeoutError(method, ms);
    try {
      const answer = await withDeadline(send, { ms, signal: end.signal, onTimeout });
      this.#hasAnswered = true;
      return asObject(answer);
    } catch (error) {
      throw error === signal.reason ? error : this.#answerError(error, method);
    }
  }

  /** The error for an agent's error answer: it could not act, which is not bad behaviour. */
  #answerError(cause: unknown, method: string): unknown {
    if (!(cause instanceof Error) || !("code" in cause) || typeof cause.code !== "number") return cause;
    const data = "data" in cause ? (cause.data ?? undefined) : undefined;
    const detail = typeof data === "string" ? data : JSON.stringify(data);
    const details = withoutUndefined({ detail, cause });
    const { program, spec } = this.#options;
    if (cause.code === authRequired)
      return program.error("agent/auth", this.#notLoggedIn(cause.message), {
        ...this.#loginDetails,
        ...details,
      });
    const message = `agent ${spec.name} answered ${method} with an error: ${cause.message}`;
    return program.error("agent/failed", message, details);
  }

  #notLoggedIn(reason: string): string {
    return `agent ${this.#options.spec.name} is not logged in: ${reason}`;
  }

  get #loginDetails(): ReturnType<typeof loginDetails> {
    return loginDetails(this.#options.spec.preset, this.#authMethods);
  }

  #protocolError(what: string): McpvalsError {
    const { spec, program } = this.#options;
    const [first] = this.#banner;
    const details = first === undefined ? {} : { detail: `stdout: ${first}` };
    return program.error("agent/protocol", `agent ${spec.name} ${what}`, details);
  }

  #timeoutError(method: string, ms: number): McpvalsError {
    const { spec, program } = this.#options;
    const missing = `did not answer ${method} within ${ms} ms`;
    if (this.#banner.length > 0) return this.#protocolError(`${missing}, but wrote something else`);
    return program.error("agent/startup-timeout", `agent ${spec.name} ${missing}`, {
      hint: "Run the same command in a terminal: it may wait for a login, or may not speak the Agent Client Protocol.",
    });
  }

  #takeUpdate({ sessionId, update, message }: WireObject): void {
    if (sessionId === this.#id) this.#updates.take(asObject(update ?? message));
    else if (this.#id !== "" && !this.#foreignReported) {
      this.#foreignReported = true;
      const text = `[left out, as of another session than ours: updates of ${JSON.stringify(sessionId)}]\n`;
      this.#options.context.emit({ type: "agent.output", stream: "stdout", text: text.slice(0, 500) });
    }
  }

  #takeOther(line: Buffer): void {
    this.#otherLines.push(Buffer.concat([line, Buffer.from("\n")]));
    if (this.#hasAnswered) return;
    if (this.#banner.length < maxOtherLines) this.#banner.push(line.toString("utf8", 0, 500));
    else this.#lost.abort(this.#protocolError("does not speak the Agent Client Protocol on stdout"));
  }

  async #watch(): Promise<void> {
    const { program } = this.#options;
    const { exited, stdout } = program.process;
    const silent = closed(stdout);
    await Promise.race([exited, silent]);
    // The last answer can still arrive after the program has ended, and the other way around.
    if (program.process.exit !== undefined) await settlesWithin(silent, drainMs);
    else await settlesWithin(exited, exitMs);
    const isRunning = program.process.exit === undefined;
    this.#lost.abort(
      isRunning
        ? this.#protocolError("closed its stdout and went on running")
        : program.exitedError(this.#doing),
    );
  }

  #answerPermission({ toolCall, options }: RequestPermissionRequest): RequestPermissionResponse {
    const { spec, context } = this.#options;
    // The protocol demands this answer after a cancel.
    if (context.signal.aborted) return { outcome: { outcome: "cancelled" } };
    const call = asObject(toolCall);
    this.#updates.takeAsked(call);
    const isMcp = this.#updates.originOf(call).source.startsWith("mcp:");
    const { decision, optionId } = answerPermission(spec.permissions, options, isMcp);
    context.emit({
      type: "agent.permission",
      turn: this.#turn,
      ...withoutUndefined({ callId: textOf(call["toolCallId"]) }),
      title: this.#updates.titleOf(call),
      decision,
      policy: spec.permissions,
    });
    return { outcome: optionId === undefined ? { outcome: "cancelled" } : { outcome: "selected", optionId } };
  }
}

interface SessionSetting {
  readonly configId: string;
  readonly values: readonly string[];
  readonly current: string | boolean | undefined;
  /** It is on or off. */
  readonly isSwitch: boolean;
}

/** Finds the option of a session that chooses the model, the mode or the effort. */
function isOf(wanted: "model" | "mode" | "thought_level"): (option: WireObject) => boolean {
  return ({ category, type }) => category === wanted && type === "select";
}

/** An option of a session; undefined for one of an unknown type. */
function settingOf(option: WireObject | undefined): SessionSetting | undefined {
  const configId = textOf(option?.["id"]);
  if (option === undefined || configId === undefined) return undefined;
  const { type, currentValue, options } = option;
  if (type === "boolean") {
    const current = typeof currentValue === "boolean" ? currentValue : undefined;
    return { configId, values: ["true", "false"], current, isSwitch: true };
  }
  if (type !== "select") return undefined;
  const choices = objectsIn(options).flatMap((choice) =>
    "options" in choice ? objectsIn(choice["options"]) : [choice],
  );
  const values = choices.flatMap(({ value }) => textOf(value) ?? []);
  return { configId, values, current: textOf(currentValue), isSwitch: false };
}

/**
 * Chooses the answer to an agent that asks permission. What is allowed is allowed once where the agent offers that, and
 * denials apply once; without a matching option the request is cancelled, and there is no `optionId`.
 */
export function answerPermission(
  policy: PermissionPolicy,
  options: readonly Pick<PermissionOption, "kind" | "optionId">[],
  isMcp: boolean,
): { readonly decision: "allowed" | "denied" | "cancelled"; readonly optionId?: string } {
  const allowed = policy === "allow" || (policy === "allow-mcp" && isMcp);
  const kinds = allowed ? ["allow_once", "allow_always"] : ["reject_once"];
  const chosen = kinds.flatMap((kind) => options.filter((option) => option.kind === kind)).at(0);
  if (chosen === undefined) return { decision: "cancelled" };
  return { decision: allowed ? "allowed" : "denied", optionId: chosen.optionId };
}

/** Receives what is not passed on to the SDK. */
interface AcpListener {
  /** Called with the parameters of each `session/update` in the order of the wire. */
  readonly onUpdate: (params: unknown) => void;
  /** Called with each line that is not an expected message. */
  readonly onOther: (line: Buffer) => void;
  /** Called with what the program did wrong, or with what `onUpdate` threw; nothing more is read. */
  readonly onBroken: (problem: string | Error) => void;
}

/** The second is Claude Code's own notification, in which it reports about itself. */
const updates: readonly unknown[] = ["session/update", "_claude/sdkMessage"];

/**
 * The messages of an agent program, one a line. Updates of the session bypass the SDK, so that each comes before the answer
 * that follows it; answers to no request are left out. The stream has no end of its own.
 */
function openAcpStream(
  { stdin, stdout }: ManagedProcess,
  { onUpdate, onOther, onBroken }: AcpListener,
): Stream & { readonly stop: () => void } {
  /** Ids of mcpvals' requests that wait for an answer. */
  const waiting = new Set<unknown>();
  const budget = new MessageBudget();
  let controller: Pick<ReadableStreamDefaultController<AnyMessage>, "enqueue"> | undefined;
  const breakOff = (problem: string | Error): void => {
    lines.stop();
    onBroken(problem);
  };
  const readLine = (line: Buffer): void => {
    const text = line.toString("utf8").trim();
    if (text === "") return;
    const excess = budget.problemOf(line);
    if (excess !== undefined) return breakOff(excess);
    const message = parseObject(text);
    if (message === undefined) return onOther(line);
    const problem = messageProblem(message, text, budget);
    if (problem !== undefined) breakOff(problem);
    else if (updates.includes(message["method"]) && !("id" in message)) onUpdate(message["params"]);
    else if (isMessage(message) && ("method" in message || waiting.delete(message["id"])))
      controller?.enqueue(message);
    else onOther(line);
  };
  const lines = new LineReader({
    limit: maxMessageBytes,
    onLine(line) {
      try {
        readLine(line);
      } catch (error) {
        breakOff(error instanceof Error ? error : new Error(String(error)));
      }
    },
    onTooLong: () => breakOff(`wrote a message of more than ${maxMessageBytes} bytes`),
  });
  stdout.on("data", (chunk: Buffer) => lines.push(chunk));
  stdout.once("end", () => lines.end());
  return {
    readable: new ReadableStream<AnyMessage>({
      start(given) {
        controller = given;
      },
      cancel: () => lines.stop(),
    }),
    writable: new WritableStream<AnyMessage>({
      write(message) {
        if ("id" in message && "method" in message) waiting.add(message.id);
        // A broken pipe means that the program has ended, which is reported elsewhere.
        return new Promise((resolve) => {
          stdin.write(`${JSON.stringify(message)}\n`, () => resolve());
        });
      },
    }),
    stop: () => lines.stop(),
  };
}

/** Why a message must not be used. */
function messageProblem(message: WireObject, text: string, budget: MessageBudget): string | undefined {
  if ("result" in message && (message["error"] ?? undefined) !== undefined)
    return "wrote an answer with both a result and an error";
  const isRequest = "method" in message && "id" in message;
  return repeatedKeyProblem(text) ?? (isRequest ? budget.problemOfRequest() : undefined);
}

function isMessage(message: WireObject): message is WireObject & AnyMessage {
  if (typeof message["method"] === "string") return true;
  if (!("error" in message)) return "result" in message;
  const error = message["error"] as Json;
  return isJsonObject(error) && typeof error["code"] === "number" && typeof error["message"] === "string";
}
