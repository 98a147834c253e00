import type {
  Client,
  CreateMessageResult,
  ElicitResult,
  RequestOptions,
  StandardSchemaV1,
} from "@modelcontextprotocol/client";
import { contentProblem, isNoAnswer } from "../../expect/tool-result.ts";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { isJsonObject, withoutUndefined, type Json, type JsonObject } from "../../base/json.ts";
import type { ServerSpec } from "../../model/server.ts";
import type { McpRequest } from "../../model/step.ts";
import { shortened } from "../../base/visible-text.ts";
import { Clocks, settlesWithin, untilAborted } from "../../process/deadline.ts";
import {
  lostAtStart,
  HttpNoAnswer,
  OriginalError,
  type ServerConnection,
  type ServerHost,
  unusableAnswer,
} from "../connections/host.ts";
import type { FilterChain } from "../filters/filter-chain.ts";
import type { RateLimiter, TrialFilters } from "../filters/filters.ts";
import { paramHeaders } from "../messages/json-rpc.ts";
import { modernVersion } from "../../model/mcp-versions.ts";
import type { ErrorCode } from "../../base/catalogue.ts";
import type { Emit } from "../../model/event.ts";
import { errorCodes } from "../../model/error-codes.ts";

/** A tool as the server listed it. */
export interface ToolDefinition {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: JsonObject;
  readonly outputSchema?: JsonObject;
}

/** The outcome of a request on an intact connection. */
export type CallOutcome =
  | { readonly kind: "result"; readonly result: JsonObject; readonly latencyMs: number }
  /** A JSON-RPC error, or an invalid result. */
  | {
      readonly kind: "error";
      readonly message: string;
      readonly code?: number;
      readonly data?: Json;
      /** The answer was unusable or missing: the message is not the server's. */
      readonly unusable?: true;
      readonly latencyMs: number;
    }
  /** Not answered in time; the request was cancelled. */
  | { readonly kind: "timeout"; readonly message: string; readonly latencyMs: number };

export interface CallOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Asks the server to report progress, which is recorded and changes no time limit. */
  readonly progress?: boolean;
}

/** What a server may ask of its client; absent members are not declared as capabilities. */
export interface ClientSide {
  /** Answers `sampling/createMessage`; a rejection becomes an error answer. */
  readonly sampling?: (params: JsonObject, signal: AbortSignal) => Promise<JsonObject>;
  /** Answers `elicitation/create`. */
  readonly elicitation?: (params: JsonObject, context: { readonly server: string }) => JsonObject;
  /** Answers `roots/list`. */
  readonly roots?: readonly { readonly uri: string; readonly name?: string }[];
}

/** The capabilities of a server. */
type ServerAbilities = Readonly<Record<"tools" | "resources" | "prompts", boolean>>;

/** How long a server may take to show that it is alive, in milliseconds. */
const aliveMs = 1000;

/** The longest timeout of the SDK, in milliseconds, for requests whose time is limited by a signal. */
const noTimeout: number = 2 ** 31 - 1;

const lists = {
  resources: { method: "resources/list", key: "resources" },
  resourceTemplates: { method: "resources/templates/list", key: "resourceTemplates" },
  prompts: { method: "prompts/list", key: "prompts" },
} as const;

/** What a session is made of, besides its connection and client. */
interface SessionParts {
  readonly sdk: Sdk;
  /** All time limits of the session. */
  readonly clocks: Clocks;
  readonly limiter: RateLimiter | undefined;
  /** Ends the connection. */
  readonly end: () => Promise<void>;
}

/** A session with a healthy server, as its users and stand-ins have it. */
export type ServerSession = Pick<ClientSession, keyof ClientSession>;

/**
 * A session with a healthy server: the SDK's client on a recorded connection. Results are given as the server sent them and are
 * judged elsewhere.
 */
export class ClientSession implements AsyncDisposable {
  readonly name: string;
  readonly abilities: ServerAbilities;
  /** What the server says about its use; undefined: nothing. */
  readonly instructions: string | undefined;
  /** Aborts with an McpvalsError when the connection is lost without being stopped. */
  readonly lost: AbortSignal;
  readonly #client: Client;
  readonly #parts: SessionParts;
  readonly #isModern: boolean;
  #tools: readonly ToolDefinition[];
  #toolsMayDiffer = false;
  #stopped = false;

  /** `client` has completed the handshake. */
  constructor(
    { name, lost }: ServerConnection,
    client: Client,
    tools: readonly ToolDefinition[],
    parts: SessionParts,
  ) {
    const { tools: hasTools, resources, prompts } = client.getServerCapabilities() ?? {};
    this.name = name;
    this.abilities = {
      tools: hasTools !== undefined,
      resources: resources !== undefined,
      prompts: prompts !== undefined,
    };
    this.instructions = client.getInstructions();
    this.lost = lost;
    this.#client = client;
    this.#parts = parts;
    this.#isModern = client.getProtocolEra() === "modern";
    this.#tools = tools;
    client.setNotificationHandler("notifications/tools/list_changed", () => this.expireTools());
  }

  /** The last listing. */
  get tools(): readonly ToolDefinition[] {
    return this.#tools;
  }

  /**
   * The tools of one name. They are listed again when the server said that they changed, after `expireTools`, or when none has
   * that name. Throws as `callTool` does, and McpvalsError `server/protocol-error` when there is no list.
   */
  async toolsNamed(name: string, options: CallOptions): Promise<readonly ToolDefinition[]> {
    if (!this.abilities.tools) return [];
    const named = (): ToolDefinition[] => this.#tools.filter((tool) => tool.name === name);
    if (named().length === 0 || this.#toolsMayDiffer) await this.listTools(options);
    return named();
  }

  /** Whether the tools may have changed since the last listing. */
  get toolsMayDiffer(): boolean {
    return this.#toolsMayDiffer;
  }

  /** Lists the tools again. Throws as `toolsNamed`. */
  async listTools(options: CallOptions): Promise<void> {
    this.#toolsMayDiffer = false;
    const outcome = await this.#settle("tools/list", options, async (request) => {
      this.#tools = await listTools(this.#client, request);
      return {};
    });
    if (outcome.kind === "result") return;
    this.#toolsMayDiffer = true;
    const code = outcome.kind === "timeout" ? "server/call-timeout" : "server/protocol-error";
    throw new McpvalsError(code, `server "${this.name}" gives no list of its tools: ${outcome.message}`);
  }

  /** To be called when other clients have used the server, so that its tools may have changed. */
  expireTools(): void {
    this.#toolsMayDiffer = true;
  }

  /**
   * Calls a tool. Throws McpvalsError when the connection is lost (`server/exited`, `server/unreachable`,
   * `server/message-too-large`, …), and the signal's reason when it aborts.
   */
  callTool(tool: string, args: JsonObject, options: CallOptions): Promise<CallOutcome> {
    const definition = this.#isModern ? this.#tools.find(({ name }) => name === tool) : undefined;
    const headers =
      definition === undefined ? {} : { headers: { ...paramHeaders(definition.inputSchema, args) } };
    const request = { method: "tools/call", params: { name: tool, arguments: args } };
    return this.#settle(`tool "${tool}"`, options, (limits) =>
      this.#client.request(request, callResultSchema(this.#parts.sdk), { ...limits, ...headers }),
    );
  }

  /** Reads a resource; the result has `contents`. Throws as `callTool` does. */
  readResource(uri: string, options: CallOptions): Promise<CallOutcome> {
    const request = { method: "resources/read", params: { uri } };
    return this.#settle(`resource "${uri}"`, options, (limits) =>
      this.#client.request(request, listSchema("contents"), limits),
    );
  }

  /**
   * Gets a prompt; the result has `messages`. Its arguments are strings (MCP 2025-11-25, prompts/get); other values are sent as
   * their JSON. Throws as `callTool` does.
   */
  getPrompt(name: string, args: JsonObject, options: CallOptions): Promise<CallOutcome> {
    const texts = Object.entries(args).map(
      ([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)] as const,
    );
    const request = { method: "prompts/get", params: { name, arguments: Object.fromEntries(texts) } };
    return this.#settle(`prompt "${name}"`, options, (limits) =>
      this.#client.request(request, listSchema("messages"), limits),
    );
  }

  /**
   * All pages of `resources/list`, `resources/templates/list` or `prompts/list` within the time of one call, joined under the list's
   * own key. Throws as `callTool` does.
   */
  list(kind: keyof typeof lists, options: CallOptions): Promise<CallOutcome> {
    const { method, key } = lists[kind];
    return this.#settle(method, options, async (limits) => ({
      [key]: await listAll(this.#client, method, { key, schema: listSchema(key) }, limits),
    }));
  }

  /**
   * Settles when the server has answered a ping, and so has outlived its last answer, when it is lost, or after a timeout. Sends
   * nothing where the rate limit would hold it. Never throws.
   */
  async checkAlive(): Promise<void> {
    if (this.#stopped || this.lost.aborted || this.#parts.limiter?.isFull === true) return;
    // Any answer is a sign of life, an error too.
    const anyResult = resultSchema(() => undefined);
    const ping = async (): Promise<unknown> =>
      this.#client.request({ method: "ping" }, anyResult, { timeout: aliveMs });
    await settlesWithin(ping(), aliveMs);
  }

  /** Ends the connection and the whole process tree; never throws. */
  stop(): Promise<void> {
    this.#stopped = true;
    return this.#parts.end();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /**
   * Sends a request, or several, within the limits of one call. Throws when the server is lost or stopped, and when the signal
   * aborts.
   */
  async #settle(
    what: string,
    { timeoutMs, signal, progress = false }: CallOptions,
    send: (limits: RequestOptions) => Promise<JsonObject>,
  ): Promise<CallOutcome> {
    this.#throwIfOver(signal);
    const { SdkError, SdkErrorCode } = this.#parts.sdk;
    const timedOut = (): Error =>
      new SdkError(SdkErrorCode.RequestTimeout, "Request timed out", { timeout: timeoutMs });
    using limit = this.#parts.clocks.start(timeoutMs, timedOut, signal);
    try {
      const result = await send({
        timeout: noTimeout,
        signal: limit.signal,
        // A server reports progress only to a client that handles it. The record has it; the time limit stays as it is.
        ...(progress ? { onprogress: () => undefined } : {}),
      });
      return { kind: "result", result, latencyMs: limit.elapsedMs() };
    } catch (error) {
      const latencyMs = limit.elapsedMs();
      this.#throwIfOver(signal);
      if (!limit.signal.aborted) return { kind: "error", ...this.#describe(error), latencyMs };
      const message = `${what} did not answer within ${Math.round(timeoutMs)} ms`;
      return { kind: "timeout", message, latencyMs };
    }
  }

  #throwIfOver(signal: AbortSignal): void {
    this.lost.throwIfAborted();
    signal.throwIfAborted();
    if (!this.#stopped) return;
    throw new McpvalsError("server/exited", `server "${this.name}" was stopped by mcpvals`);
  }

  #describe(error: unknown): { message: string; code?: number; data?: Json; unusable?: true } {
    const data = error instanceof this.#parts.sdk.ProtocolError ? error.data : undefined;
    if (data instanceof HttpNoAnswer) {
      const { status, message } = data;
      return { message, ...(status < 300 || isNoAnswer(status) ? { unusable: true } : {}) };
    }
    // Every error that the server sent comes with its original; others are made in this process.
    if (!(data instanceof OriginalError)) return { message: messageOf(error), unusable: true };
    const { code, message, data: given } = data.error;
    return { message, code, ...(given === undefined ? {} : { data: given as Json }) };
  }
}

// Schemas that leave the result as it came. Unlike the SDK's own ones they keep unknown members.

type ResultSchema = StandardSchemaV1<unknown, JsonObject>;

/** `problemOf` says why a result is unusable. The SDK has checked that it is an object. */
function resultSchema(problemOf: (result: JsonObject) => string | undefined): ResultSchema {
  return {
    "~standard": {
      version: 1,
      vendor: "mcpvals",
      validate(result) {
        const problem = problemOf(result as JsonObject);
        return problem === undefined ? { value: result as JsonObject } : { issues: [{ message: problem }] };
      },
    },
  };
}

function callResultSchema(sdk: Sdk): ResultSchema {
  const schema = sdk.specTypeSchemas.CallToolResult["~standard"];
  return resultSchema((result) => {
    const { content, structuredContent } = result;
    if (!Array.isArray(content) && (content !== undefined || structuredContent === undefined))
      return "content is not an array";
    const problem = contentProblem(result);
    if (problem !== undefined) return problem;
    const [issue] = schema.validate(result).issues ?? [];
    return issue === undefined ? undefined : `${pathText(issue.path)}${issue.message}`;
  });
}

function pathText(path: StandardSchemaV1.Issue["path"] = []): string {
  const keys = path.map((part) => String(typeof part === "object" ? part.key : part));
  return keys.length === 0 ? "" : `${keys.join(".")}: `;
}

/** Accepts a result with an array under this key. */
function listSchema(key: string): ResultSchema {
  return resultSchema((result) => (Array.isArray(result[key]) ? undefined : `${key} is not an array`));
}

/** Checks only what a call needs, so that an invalid annotation does not make the whole server unusable. */
const toolsSchema = resultSchema(({ tools, nextCursor }) => {
  if (!Array.isArray(tools)) return "tools is not an array";
  for (const [index, tool] of (tools as readonly Json[]).entries()) {
    const problem = toolProblem(tool);
    if (problem !== undefined) return `tools[${index}] ${problem}`;
  }
  return nextCursor === undefined || nextCursor === null || typeof nextCursor === "string"
    ? undefined
    : "nextCursor is not a string";
});

function toolProblem(tool: Json): string | undefined {
  if (!isJsonObject(tool)) return "is not an object";
  const { name, description, inputSchema, outputSchema } = tool;
  if (typeof name !== "string") return "has no name";
  if (!isJsonObject(inputSchema)) return `(${name}) has no inputSchema`;
  if (description !== undefined && typeof description !== "string")
    return `(${name}) has a description that is not text`;
  if (outputSchema !== undefined && !isJsonObject(outputSchema))
    return `(${name}) has an outputSchema that is not an object`;
  return undefined;
}

/** Requests all pages of `tools/list`. Throws when a page is unusable or the pages do not end. */
async function listTools(client: Client, limits: RequestOptions): Promise<readonly ToolDefinition[]> {
  const tools = await listAll(client, "tools/list", { key: "tools", schema: toolsSchema }, limits);
  return tools as unknown as readonly ToolDefinition[];
}

/** Pages that a list may have. */
const maxPages = 1000;

async function listAll(
  client: Client,
  method: string,
  { key, schema }: { readonly key: string; readonly schema: ResultSchema },
  limits: RequestOptions,
): Promise<readonly Json[]> {
  const items: Json[] = [];
  const seen = new Set<string>();
  let cursor: Json | undefined;
  do {
    const params = cursor === undefined ? {} : { params: { cursor } };
    const page = await client.request({ method, ...params }, schema, limits);
    for (const item of page[key] as readonly Json[]) items.push(item);
    cursor = page["nextCursor"];
    if (typeof cursor !== "string") return items;
    if (seen.has(cursor))
      throw new Error(
        `${method} does not end: the cursor ${JSON.stringify(shortened(cursor, 200))} is repeated`,
      );
    seen.add(cursor);
  } while (seen.size < maxPages);
  throw new Error(`${method} has more than ${maxPages} pages`);
}

/** Sends a request of any kind to a server. Throws as `ServerSession.callTool` does. */
export function sendRequest(
  session: ServerSession,
  request: McpRequest,
  options: CallOptions,
): Promise<CallOutcome> {
  switch (request.kind) {
    case "tool":
      return session.callTool(request.tool, request.args, options);
    case "resource":
      return session.readResource(request.uri, options);
    case "prompt":
      return session.getPrompt(request.prompt, request.args, options);
  }
}

export type Sdk = typeof import("@modelcontextprotocol/client");

/** Loads the SDK. The first time this blocks for a while, so concurrent work has to be started before. */
export function loadSdk(): Promise<Sdk> {
  return import("@modelcontextprotocol/client");
}

export interface StartOptions {
  readonly emit: Emit;
  /** Aborts the start. */
  readonly signal: AbortSignal;
  /** Version of mcpvals, for `clientInfo`. */
  readonly version: string;
  /** What the server can ask of the client; absent: nothing. */
  readonly clientSide?: ClientSide;
}

export interface SessionOptions extends StartOptions {
  /** It is an agent's, with these filters before the server; absent: only the rate limit concerns it. */
  readonly agent?: { readonly filters: TrialFilters["of"] };
  /** Called before the connection ends, also when the session does not start. Never throws. */
  readonly end?: () => Promise<void>;
  /** When the start began, by `performance.now()`; absent: now. */
  readonly started?: number;
}

/** A request that a server has to answer before it counts as healthy. */
type HandshakeStep = "initialize" | "server/discover" | "tools/list";

/** What to do about a server that was about to start. */
const ifSlow = "If it is only slow, raise startupTimeout, or run fewer trials at once (-j 1).";

/** The reason of the signal when the startup timeout is over. */
const timeUp = Symbol("startup timeout");

/**
 * Opens a session with a server and waits until it is healthy: handshake and all of `tools/list` within the startup timeout. Throws McpvalsError (`server/exited`, `server/handshake-timeout`, `server/protocol-error`,
 * `server/message-too-large`, `server/http-status`, `server/unreachable`) or the signal's reason; the session has ended by
 * then.
 */
export async function openSession(
  host: ServerHost,
  spec: ServerSpec,
  options: SessionOptions,
): Promise<ServerSession> {
  const { emit, signal, started = performance.now() } = options;
  const clocks = new Clocks(host.now);
  using deadline = clocks.start(spec.startupTimeoutMs, () => timeUp, signal);
  // What a rate limit holds back takes no time of the server's.
  const onHeld = (waiting: Promise<void>): void => void clocks.hold(waiting).catch(() => undefined);
  const filters = await createChain(host, options, onHeld);
  const connection = host.connect(emit, { agent: options.agent !== undefined, filters, onHeld });
  const stop = async (): Promise<void> => {
    await options.end?.();
    await connection.stop();
  };
  // A process takes about as long to start up as the SDK takes to load.
  const loading = loadSdk();
  const lost = AbortSignal.any([deadline.signal, connection.lost]);
  let step: HandshakeStep = "initialize";
  try {
    const sdk = await untilAborted(loading, lost);
    const opening = connectClient(sdk, connection, spec, options, lost, (next) => (step = next));
    const client = await untilAborted(opening, lost);
    step = "tools/list";
    const hasTools = client.getServerCapabilities()?.tools !== undefined;
    const listing = hasTools ? listTools(client, { signal: lost, timeout: noTimeout }) : [];
    const tools = await untilAborted(Promise.resolve(listing), lost);
    // Recorded once, with the session of the trial.
    if (options.agent === undefined) {
      const { name = "", version = "" } = client.getServerVersion() ?? {};
      const protocolVersion = client.getNegotiatedProtocolVersion() ?? "";
      const durationMs = performance.now() - started;
      const facts = { name, version, protocolVersion, tools: tools.length, durationMs };
      emit({ type: "server.ready", server: host.name, ...facts });
    }
    return new ClientSession(connection, client, tools, { sdk, clocks, limiter: host.limiter, end: stop });
  } catch (error) {
    await stop();
    signal.throwIfAborted();
    const timedOut = deadline.signal.reason === timeUp;
    throw explainFailure(error, connection, spec, step, await loading, timedOut);
  }
}

/** What stands between a client and a server; undefined: nothing. It is loaded only when it is used. */
async function createChain(
  { name, limiter }: ServerHost,
  { agent, emit }: SessionOptions,
  onHeld: (waiting: Promise<void>) => void,
): Promise<FilterChain | undefined> {
  if (agent === undefined && limiter === undefined) return undefined;
  const [{ FilterChain: Chain }, { limitFilters }] = await Promise.all([
    import("../filters/filter-chain.ts"),
    import("../filters/filters.ts"),
  ]);
  const context = { server: name, emit, onHeld };
  return new Chain(agent?.filters(context) ?? limitFilters(limiter, context));
}

/** Uses the era of the spec, or else `initialize` first and the modern era where the server requires it. */
async function connectClient(
  sdk: Sdk,
  connection: ServerConnection,
  { protocol }: ServerSpec,
  options: StartOptions,
  signal: AbortSignal,
  onStep: (step: HandshakeStep) => void,
): Promise<Client> {
  const connect = async (isModern: boolean): Promise<Client> => {
    const { sampling, elicitation, roots } = options.clientSide ?? {};
    const client = new sdk.Client(
      { name: "mcpvals", version: options.version },
      {
        capabilities: {
          ...(sampling === undefined ? {} : { sampling: {} }),
          ...(elicitation === undefined ? {} : { elicitation: { form: {} } }),
          ...(roots === undefined ? {} : { roots: {} }),
        },
        ...(isModern ? { versionNegotiation: { mode: { pin: modernVersion } } } : {}),
      },
    );
    answerServer(client, options.clientSide ?? {}, connection.name);
    onStep(isModern ? "server/discover" : "initialize");
    await client.connect(connection, { signal, timeout: noTimeout });
    return client;
  };
  if (protocol !== undefined) return connect(protocol === "modern");
  try {
    return await connect(false);
  } catch (error) {
    if (!connection.takeOver()) throw error;
    return connect(true);
  }
}

/**
 * Sets the handlers for requests of the server; to be called before the client connects. Since 2026-07-28 servers answer a call
 * with `input_required` instead, which the SDK's client fulfils with the same handlers. An error of a handler becomes a JSON-RPC
 * error, and since 2026-07-28 ends the call. Elicitation with `mode: "url"` is not declared: the SDK refuses it with -32602.
 */
function answerServer(client: Client, { sampling, elicitation, roots }: ClientSide, server: string): void {
  if (sampling !== undefined)
    client.setRequestHandler(
      "sampling/createMessage",
      async ({ params }, { mcpReq }) =>
        // The SDK's client validates the result of a handler.
        (await sampling(params as JsonObject, mcpReq.signal)) as unknown as CreateMessageResult,
    );
  if (elicitation !== undefined)
    client.setRequestHandler(
      "elicitation/create",
      async ({ params }) => elicitation(params as JsonObject, { server }) as unknown as ElicitResult,
    );
  if (roots !== undefined)
    client.setRequestHandler("roots/list", () => ({ roots: roots.map((root) => ({ ...root })) }));
}

/**
 * Says why a server did not become healthy, in the order of what is known best: it is gone, its time was up, HTTP failed,
 * or it answered something unusable. `step` is the request that failed.
 */
function explainFailure(
  error: unknown,
  connection: ServerConnection,
  spec: ServerSpec,
  step: HandshakeStep,
  sdk: Sdk,
  timedOut: boolean,
): McpvalsError {
  const { stderrTail, firstInvalidLine, silentUrl, httpFailure } = connection.evidence();
  const lost: unknown = connection.lost.reason;
  const subject = `server "${connection.name}"`;
  const explained = (
    code: ErrorCode,
    message: string,
    { hint, detail, cause }: McpvalsError["details"],
  ): McpvalsError =>
    new McpvalsError(code, message, withoutUndefined({ hint, cause, detail: stderrTail ?? detail }));
  const noise =
    firstInvalidLine === undefined
      ? undefined
      : `the first line on its stdout that is not an MCP message: ${JSON.stringify(shortened(firstInvalidLine, 200))}`;

  if (lost instanceof McpvalsError) {
    if (lost.code === "server/unauthorized") return lost;
    const { message, details } = lostAtStart(lost, step);
    return explained(lost.code, message, details);
  }
  if (timedOut) {
    const within = `within ${spec.startupTimeoutMs} ms`;
    if (silentUrl !== undefined)
      return explained(
        "server/handshake-timeout",
        `nothing answered at ${silentUrl} ${within}, though ${subject} was started`,
        {
          hint: `Check that it listens on the host and port of the url. ${ifSlow}`,
        },
      );
    const message = `${subject} did not answer ${step} ${within}`;
    return explained("server/handshake-timeout", noise === undefined ? message : `${message}; ${noise}`, {
      hint:
        spec.transport !== "stdio"
          ? `See the server's own log. ${ifSlow}`
          : noise === undefined
            ? `Stdout must carry nothing but MCP messages. ${ifSlow}`
            : "Its stdout must carry nothing but MCP messages; logs belong on stderr.",
    });
  }
  if (httpFailure !== undefined) {
    // Servers of older versions refuse in many ways to be greeted in the newer one.
    if (step !== "server/discover" || httpFailure.code !== "server/http-status") return httpFailure;
    const { hint = "", ...details } = httpFailure.details;
    const asked = `It was asked to speak MCP ${modernVersion}: should it not, leave \`protocol\` out.`;
    return new McpvalsError(httpFailure.code, httpFailure.message, {
      ...details,
      hint: `${hint} ${asked}`.trim(),
    });
  }
  const message = messageOf(error);
  const other = otherVersion(error, step, sdk);
  // Errors that stand for an answer that could not be used, or never came, are not the server's.
  const isAnswer =
    error instanceof sdk.ProtocolError &&
    error.data !== unusableAnswer &&
    !(error.data instanceof HttpNoAnswer);
  const how = isAnswer
    ? `answered ${step} with an error: ${message} (code ${error.code})`
    : other === undefined
      ? `answered ${step} with something unusable: ${message}`
      : `does not speak MCP ${modernVersion}: ${message}`;
  const hint =
    other ??
    (spec.transport !== "stdio" && /content type/i.test(message)
      ? "Check the url: MCP servers answer with application/json or text/event-stream."
      : noise === undefined
        ? "Compare the answer, recorded as mcp.message, with the MCP specification."
        : `Besides, ${noise}; stdout must carry nothing but MCP messages.`);
  return explained("server/protocol-error", `${subject} ${how}`, { hint, cause: error });
}

/** What to do about a server that speaks other versions of MCP than it was asked to; undefined when that is not known. */
function otherVersion(error: unknown, step: HandshakeStep, sdk: Sdk): string | undefined {
  if (step === "server/discover") {
    const isOther =
      (error instanceof sdk.SdkError && error.code === sdk.SdkErrorCode.EraNegotiationFailed) ||
      error instanceof sdk.UnsupportedProtocolVersionError;
    return isOther ? "Leave `protocol` out, so that it is greeted with `initialize`." : undefined;
  }
  const isNewer = error instanceof sdk.ProtocolError && error.code === errorCodes.unsupportedVersion;
  return step === "initialize" && isNewer
    ? "It speaks newer versions of MCP only: leave `protocol` out, or write `protocol: modern`."
    : undefined;
}
