import { maxUnasked } from "../../base/limits.ts";
import { isUtf8 } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { McpvalsError } from "../../base/error.ts";
import { isJsonObject } from "../../base/json.ts";
import { repeatedKey } from "../../base/read-json.ts";
import { shortened } from "../../base/visible-text.ts";
import type { Emit } from "../../model/event.ts";
import { type RateLimitNotes, rateLimitNotes, type ServerHost } from "../connections/host.ts";
import {
  type Deliver,
  type Filter,
  FilterChain,
  type FilterContext,
  type FilterDecision,
} from "../filters/filter-chain.ts";
import {
  type BodyMessages,
  createReceiveLimits,
  decodedHeader,
  errorAnswer,
  type MessageId,
  messageJson,
  recordedMessage,
  methodOf,
  namedMember,
  requestOf,
  type WireMessage,
} from "../messages/json-rpc.ts";
import { errorCodes } from "../../model/error-codes.ts";

/** A server that is opened to the agent of one trial. */
export interface GatewayRoute {
  readonly host: ServerHost;
  /** Records messages as the agent sent and got them. */
  readonly emit: Emit;
  /** Creates the filters of one connection, in order from the client to the server. */
  readonly filters: (context: FilterContext) => readonly Filter[];
  /**
   * Called when an agent's connection cannot go on because of the server: a message that is too large or nested too deeply, a
   * flood, no connection to its address.
   */
  readonly onLost?: (error: McpvalsError) => void;
}

/** Where an agent reaches one server. */
export interface GatewayEndpoint {
  readonly server: string;
  /** Streamable HTTP on loopback; the path holds the trial's secret. */
  readonly url: string;
  /** A program that an agent can start instead, and talk to over stdin and stdout. */
  readonly bridge: {
    readonly command: string;
    readonly args: readonly string[];
    readonly env: Readonly<Record<string, string>>;
  };
  /** Ends the agent's connections; nothing is recorded afterwards. Never throws. */
  close(): Promise<void>;
}

/** One HTTP request of an agent, with its body. */
export interface HttpExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly body: Buffer;
  /** Aborts when the agent leaves before the response is complete. */
  readonly signal: AbortSignal;
}

/** The session that a request names. */
export function sessionOf({ request }: Pick<HttpExchange, "request">): string | undefined {
  const value = request.headers["mcp-session-id"];
  return Array.isArray(value) ? value[0] : value;
}

/** Answers with a JSON-RPC error without an id, as MCP servers over HTTP do. */
export function answerError(response: ServerResponse, status: number, code: number, message: string): void {
  if (response.headersSent || response.destroyed) return void response.destroy();
  const body = JSON.stringify({ jsonrpc: "2.0", error: { code, message }, id: null });
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  });
  response.end(body);
}

/** One connection of an agent: filters what it sends and gets, and records it as the agent saw it. */
export class AgentConnection {
  /** Whether filters decide by what messages say, so that the server must not read them in another way. */
  readonly isFiltered: boolean;
  readonly #route: GatewayRoute;
  /** The server's name, and the number of the connection in the trial and server. */
  readonly #who: { readonly server: string; readonly client: string };
  readonly #filters: FilterChain;
  readonly #problemOf: ReturnType<typeof createReceiveLimits>;
  readonly #ended = new AbortController();
  readonly #closers = new Set<() => void>();
  #sent = 0;

  constructor(route: GatewayRoute, client: string, via: "http" | "bridge") {
    const server = route.host.name;
    this.#route = route;
    this.#who = { server, client };
    this.#problemOf = createReceiveLimits(server);
    const filters = route.filters({ ...this.#who, emit: (event) => this.#emit(event) });
    this.isFiltered = filters.length > 0;
    this.#filters = new FilterChain(filters);
    this.#emit({ type: "gateway.connected", ...this.#who, via });
  }

  /** Aborts when the connection has ended. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Records and filters a message of the agent. Settles as `deliver` does, which is not called after the end. */
  fromAgent(wire: WireMessage, deliver: Deliver): Promise<void> {
    this.#sent += 1;
    // An agent in a loop must not fill the memory.
    if (this.#sent > maxUnasked) return this.#deliver({ kind: "disconnect" }, deliver);
    this.recordRefused(wire);
    const ambiguity = this.isFiltered ? ambiguityOf(wire) : undefined;
    if (ambiguity !== undefined)
      return this.#deliver(refusal(wire, `that a server may read in another way: ${ambiguity}`), deliver);
    return this.#filters.fromClient(wire, (decision) => this.#deliver(decision, deliver));
  }

  /** Records a message of the agent that is refused before it is filtered. */
  recordRefused(wire: WireMessage): void {
    this.#record("client-to-server", wire);
  }

  /** Filters a message of the server; settles as `deliver` does. */
  fromServer(wire: WireMessage, deliver: Deliver): Promise<void> {
    const problem = this.#problemOf(wire.message);
    if (problem === undefined)
      return this.#filters.fromServer(wire, (decision) => this.#deliver(decision, deliver));
    this.lose(problem);
    return Promise.resolve(deliver({ kind: "disconnect" }));
  }

  /** Records what the agent is given now. */
  recordDelivered(wire: WireMessage): void {
    this.#record("server-to-client", wire);
  }

  /** Records the status that a request over HTTP was answered with. */
  recordResponse(method: string, status: number, requestIds: readonly MessageId[]): void {
    this.#emit({ type: "http.response", ...this.#who, method, status, requestIds });
  }

  /** What records a request over HTTP that the server's rate limit holds back. */
  rateLimitNotes(method: string, requestIds: readonly MessageId[]): RateLimitNotes {
    return rateLimitNotes({ ...this.#who, emit: (event) => this.#emit(event) }, method, requestIds);
  }

  /** To be called when the connection cannot go on because of the server. */
  lose(error: McpvalsError): void {
    if (!this.ended.aborted) this.#route.onLost?.(error);
  }

  /** Calls `close` when the connection is cut; the result removes it. */
  onCut(close: () => void): () => void {
    if (this.ended.aborted) close();
    else this.#closers.add(close);
    return () => this.#closers.delete(close);
  }

  /** Cuts whatever is open now; an agent over HTTP may come back. */
  cut(): void {
    for (const close of this.#closers) close();
  }

  /** Ends the connection; nothing of it is recorded afterwards. */
  end(): void {
    if (this.ended.aborted) return;
    this.#emit({ type: "gateway.disconnected", ...this.#who });
    this.#ended.abort();
    this.#filters.close();
    this.cut();
  }

  async #deliver(decision: FilterDecision, deliver: Deliver): Promise<void> {
    if (!this.ended.aborted) await deliver(decision);
  }

  #emit(event: Parameters<Emit>[0]): number {
    return this.ended.aborted ? 0 : this.#route.emit(event);
  }

  #record(direction: "client-to-server" | "server-to-client", wire: WireMessage): void {
    const { malformed, ...content } = recordedMessage(wire);
    const fault = direction === "server-to-client" && malformed !== undefined ? { malformed } : {};
    this.#emit({ type: "mcp.message", ...this.#who, direction, ...content, ...fault });
  }
}

/** Answers a request with an error, and drops any other message. */
function refusal({ message }: WireMessage, why: string): FilterDecision {
  const id = requestOf(message)?.id;
  if (id === undefined) return { kind: "drop" };
  const text = `mcpvals passes on no message ${why}`;
  return { kind: "answer", wire: errorAnswer(id, errorCodes.invalidRequest, text) };
}

/**
 * The client that requests with these ids belong to, among those of an endpoint that name no session, as 2026-07-28 has none. They
 * are treated as one client until two requests with the same id are pending at the same time, which shows that there are two.
 */
export function pickClient<T extends { isWaitingFor(id: MessageId): boolean }>(
  clients: Set<T>,
  ids: readonly MessageId[],
  create: () => T,
): T {
  const free = [...clients].find((client) => !ids.some((id) => client.isWaitingFor(id)));
  const picked = free ?? create();
  clients.add(picked);
  return picked;
}

/** Why a server may read the body of a request in another way than we do; undefined when it cannot. */
export function requestProblem(
  { request: { headersDistinct }, body }: Pick<HttpExchange, "request" | "body">,
  messages: BodyMessages,
): { readonly code: number; readonly message: string } | undefined {
  if (body.length === 0) return undefined;
  if (!isUtf8(body)) return { code: errorCodes.parse, message: "Parse error: the body is not UTF-8" };
  const types = headersDistinct["content-type"] ?? [];
  if (types.length > 1 || types.some((type) => !/^application\/json\s*(?:;|$)/i.test(type.trim())))
    return { code: errorCodes.parse, message: "Parse error: the content-type is not application/json" };
  // Since 2026-07-28 headers repeat what the body says, so that servers and what stands before them can go by either.
  const message = messages.kind === "message" ? messages.wires[0]?.message : undefined;
  const isWrong =
    differs(headersDistinct["mcp-method"], message === undefined ? undefined : methodOf(message)) ||
    differs(
      headersDistinct["mcp-name"]?.map(decodedHeader),
      message === undefined ? undefined : namedMember(message),
    );
  if (!isWrong) return undefined;
  const id = message === undefined ? undefined : requestOf(message)?.id;
  const which = id === undefined ? "" : ` (id ${JSON.stringify(id)})`;
  return {
    code: errorCodes.headerMismatch,
    message: `Header mismatch: mcp-method or mcp-name is not what the body says${which}`,
  };
}

function differs(values: readonly string[] | undefined, said: string | undefined): boolean {
  return values !== undefined && (values.length !== 1 || values[0] !== said);
}

/** Members of messages, and those of their `params`, that decide what a message does. */
const messageKeys = ["jsonrpc", "id", "method", "params", "result", "error"];
const paramKeys = ["name", "arguments", "uri", "cursor", "requestId", "progressToken", "taskId", "_meta"];
/** Methods that filters look for. */
const methods = ["tools/call", "tools/list"];

/**
 * Why a server may read a message in another way than a filter does; undefined when all read it in one way. Readers differ
 * on keys that are there twice, some take `Name` for `name`, some the end of a text at a zero byte.
 */
function ambiguityOf({ message, text }: WireMessage): string | undefined {
  const json = messageJson(message);
  if (!isJsonObject(json)) return "it is not an object";
  const repeated = repeatedKey(text);
  if (repeated !== undefined) return `duplicate key ${shown(repeated)}`;
  const twin = twinOf(Object.keys(json), messageKeys);
  if (twin !== undefined) return twin;
  const { method, id, params } = json;
  if (typeof method !== "string") return undefined;
  if (params !== undefined && !isJsonObject(params)) return "its params are not an object";
  return (
    methodProblem(method) ??
    idProblem(method, Object.hasOwn(json, "id") ? { id } : undefined) ??
    twinOf(Object.keys(params ?? {}), paramKeys) ??
    (method === "tools/call" ? nameProblem(params?.["name"]) : undefined)
  );
}

function methodProblem(method: string): string | undefined {
  if (!/^[\x21-\x7e]+$/.test(method)) return `its method ${shown(method)} is not all visible ASCII`;
  const near = methods.find((known) => known !== method && folded(known) === folded(method));
  return near === undefined ? undefined : `its method ${shown(method)} can be read as ${shown(near)}`;
}

/** What has no id that can be answered would be asked without being counted. */
function idProblem(method: string, given: { readonly id: unknown } | undefined): string | undefined {
  if (given === undefined)
    return method.startsWith("notifications/") ? undefined : `it is a request ${shown(method)} without an id`;
  return typeof given.id === "string" || typeof given.id === "number"
    ? undefined
    : "its id is neither a text nor a number";
}

function nameProblem(name: unknown): string | undefined {
  if (typeof name !== "string") return "the tool name is not a string";
  const isPlain = name.isWellFormed() && !/\p{Cc}/u.test(name);
  return isPlain ? undefined : `the tool name contains invalid characters: ${shown(name)}`;
}

/** A key that can be read as another one. */
function twinOf(keys: readonly string[], known: readonly string[]): string | undefined {
  const taken = new Map(known.map((key) => [folded(key), key]));
  for (const key of keys) {
    const other = taken.get(folded(key)) ?? key;
    if (other !== key) return `the key ${shown(key)} can be read as ${shown(other)}`;
    taken.set(folded(key), key);
  }
  return undefined;
}

/** As the most lenient reader compares: without regard to case, which turns `ſ` into `s`, and to width. */
function folded(text: string): string {
  return text.normalize("NFKC").toUpperCase().toLowerCase();
}

function shown(text: string): string {
  return JSON.stringify(shortened(text, 80));
}
