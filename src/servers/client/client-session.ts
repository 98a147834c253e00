import type { Client, RequestOptions, StandardSchemaV1 } from "@modelcontextprotocol/client";
import { contentProblem } from "../../core/checks/result-text.ts";
import { isNoAnswer } from "../../core/checks/http-status.ts";
import { McpvalsError } from "../../core/errors/error.ts";
import { paramHeaders } from "../messages/mcp-headers.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { abortAfter, settlesWithin } from "../../process/deadline.ts";
import { HttpNoAnswer, type ServerConnection } from "../connections/host.ts";
import { OriginalError } from "./answer-guard.ts";
import type { Handshake } from "./handshake.ts";
import { listTools, PageCursors, resultSchema } from "./list-tools.ts";
import type {
  CallOptions,
  CallOutcome,
  Sdk,
  ServerAbilities,
  ServerSession,
  ToolDefinition,
} from "./session.ts";

/** How long a server may take to show that it lives, in milliseconds. */
const aliveMs = 1000;

/** A healthy server that this process talks to itself, with the SDK's client on a recorded connection. */
export class ClientSession implements ServerSession {
  readonly name: string;
  readonly abilities: ServerAbilities;
  readonly lost: AbortSignal;
  readonly #connection: ServerConnection;
  readonly #caller: ServerCaller;
  #toolsMayDiffer = false;
  #stopped = false;

  constructor(connection: ServerConnection, { client, tools, abilities }: Handshake, sdk: Sdk) {
    this.name = connection.name;
    this.abilities = abilities;
    this.lost = connection.lost;
    this.#connection = connection;
    this.#caller = new ServerCaller(client, sdk, tools);
    client.setNotificationHandler("notifications/tools/list_changed", () => this.expireTools());
  }

  get tools(): readonly ToolDefinition[] {
    return this.#caller.tools;
  }

  async toolsNamed(name: string, options: CallOptions): Promise<readonly ToolDefinition[]> {
    if (!this.abilities.tools) return [];
    const known = this.#named(name);
    if (known.length > 0 && !this.#toolsMayDiffer) return known;
    this.#toolsMayDiffer = false;
    const outcome = await this.#ask(options, () => this.#caller.listTools(options));
    if (outcome.kind === "result") return this.#named(name);
    this.#toolsMayDiffer = true;
    const code = outcome.kind === "timeout" ? "server/call-timeout" : "server/protocol-error";
    throw new McpvalsError(code, `server "${this.name}" gives no list of its tools: ${outcome.message}`);
  }

  expireTools(): void {
    this.#toolsMayDiffer = true;
  }

  callTool(tool: string, args: JsonObject, options: CallOptions): Promise<CallOutcome> {
    return this.#ask(options, () => this.#caller.callTool(tool, args, options));
  }

  readResource(uri: string, options: CallOptions): Promise<CallOutcome> {
    return this.#ask(options, () => this.#caller.readResource(uri, options));
  }

  getPrompt(name: string, args: JsonObject, options: CallOptions): Promise<CallOutcome> {
    return this.#ask(options, () => this.#caller.getPrompt(name, args, options));
  }

  list(kind: "resources" | "resourceTemplates" | "prompts", options: CallOptions): Promise<CallOutcome> {
    return this.#ask(options, () => this.#caller.list(kind, options));
  }

  async checkAlive(): Promise<void> {
    if (this.#stopped || this.lost.aborted) return;
    await settlesWithin(this.#caller.ping(aliveMs), aliveMs);
  }

  stop(): Promise<void> {
    this.#stopped = true;
    return this.#connection.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #named(name: string): readonly ToolDefinition[] {
    return this.tools.filter((tool) => tool.name === name);
  }

  async #ask({ signal }: CallOptions, send: () => Promise<CallOutcome>): Promise<CallOutcome> {
    this.#throwIfOver(signal);
    const outcome = await send();
    if (outcome.kind !== "result") this.#throwIfOver(signal);
    return outcome;
  }

  /** The reasons for which a request has no outcome at all. */
  #throwIfOver(signal: AbortSignal): void {
    this.lost.throwIfAborted();
    signal.throwIfAborted();
    if (this.#stopped)
      throw new McpvalsError(
        "server/exited",
        `server "${this.name}" was stopped by us, so it gives no answer`,
      );
  }
}

/** The longest time limit that the SDK can keep, in milliseconds. */
const longestTimeout = 2 ** 31 - 1;
type ListKind = Parameters<ServerSession["list"]>[0];

const lists = {
  resources: { method: "resources/list", key: "resources" },
  resourceTemplates: { method: "resources/templates/list", key: "resourceTemplates" },
  prompts: { method: "prompts/list", key: "prompts" },
} as const;

/** One request to a server. */
interface ServerRequest {
  readonly method: string;
  readonly params: JsonObject;
  readonly schema: StandardSchemaV1<unknown, JsonObject>;
  /** What is asked, in words. */
  readonly what: string;
  /** Headers that it needs over HTTP. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Calls tools and reads resources and prompts over one client, and says of each request how it ended. Requests are sent as
 * they are, so that results come back as the server sent them and are judged elsewhere. Each method gives an outcome also
 * when the signal aborts or the connection is lost: the caller has to look at those first.
 */
export class ServerCaller {
  readonly #client: Client;
  readonly #sdk: Sdk;
  readonly #callSchema: StandardSchemaV1<unknown, JsonObject>;
  readonly #isModern: boolean;
  #tools: readonly ToolDefinition[];

  constructor(client: Client, sdk: Sdk, tools: readonly ToolDefinition[]) {
    this.#client = client;
    this.#tools = tools;
    this.#sdk = sdk;
    this.#callSchema = callResultSchema(sdk);
    this.#isModern = client.getProtocolEra() === "modern";
  }

  /** As they were listed last. */
  get tools(): readonly ToolDefinition[] {
    return this.#tools;
  }

  /** Asks for all pages of `tools/list`, which are the tools from then on; the result is empty. */
  listTools(options: CallOptions): Promise<CallOutcome> {
    return this.#settle("tools/list", options, async (request) => {
      this.#tools = await listTools(this.#client, request);
      return {};
    });
  }

  /** Asks for a sign of life; any answer is one. Never rejects. */
  async ping(timeoutMs: number): Promise<void> {
    const { signal } = new AbortController();
    await this.#settle("ping", { timeoutMs, signal }, (options) =>
      this.#client.request({ method: "ping" }, anyResult, options),
    );
  }

  callTool(tool: string, args: JsonObject, options: CallOptions): Promise<CallOutcome> {
    const params = { name: tool, arguments: args };
    const definition = this.#isModern ? this.#tools.find(({ name }) => name === tool) : undefined;
    const request = {
      method: "tools/call",
      params,
      schema: this.#callSchema,
      what: `tool "${tool}"`,
      ...(definition === undefined ? {} : { headers: paramHeaders(definition.inputSchema, args) }),
    } as const;
    return this.#send(request, options);
  }

  readResource(uri: string, options: CallOptions): Promise<CallOutcome> {
    const [method, what] = ["resources/read", `resource "${uri}"`] as const;
    return this.#send({ method, params: { uri }, schema: resourceResultSchema, what }, options);
  }

  getPrompt(name: string, args: JsonObject, options: CallOptions): Promise<CallOutcome> {
    const [method, what] = ["prompts/get", `prompt "${name}"`] as const;
    const params = { name, arguments: promptArguments(args) };
    return this.#send({ method, params, schema: promptResultSchema, what }, options);
  }

  /** Asks for every page of a list, all in the time for one call; the lists are joined under the list's own key. */
  async list(kind: ListKind, options: CallOptions): Promise<CallOutcome> {
    const { method, key } = lists[kind];
    const schema = listResultSchema(key);
    const items: Json[] = [];
    const started = performance.now();
    const cursors = new PageCursors();
    let cursor: string | undefined;
    do {
      const params: JsonObject = cursor === undefined ? {} : { cursor };
      const timeoutMs = Math.max(options.timeoutMs - (performance.now() - started), 1);
      const page = await this.#send({ method, params, schema, what: method }, { ...options, timeoutMs });
      const latencyMs = performance.now() - started;
      if (page.kind === "timeout") return { ...page, message: timeoutText(method, options), latencyMs };
      if (page.kind !== "result") return { ...page, latencyMs };
      const listed = page.result[key];
      if (Array.isArray(listed)) for (const item of listed as readonly Json[]) items.push(item);
      cursor = cursorOf(page.result);
      const problem = cursor === undefined ? undefined : cursors.problemOf(method, cursor);
      if (problem !== undefined) return { kind: "error", message: problem, unusable: true, latencyMs };
    } while (cursor !== undefined);
    return { kind: "result", result: { [key]: items }, latencyMs: performance.now() - started };
  }

  #send(
    { method, params, schema, what, headers }: ServerRequest,
    options: CallOptions,
  ): Promise<CallOutcome> {
    return this.#settle(what, options, (request) =>
      this.#client.request({ method, params }, schema, {
        ...request,
        ...(options.progress === true ? { onprogress: ignoreProgress } : {}),
        ...(headers === undefined ? {} : { headers: { ...headers } }),
      }),
    );
  }

  /** Asks within the limits, and says how it ended. */
  async #settle(
    what: string,
    { timeoutMs, signal }: CallOptions,
    ask: (options: RequestOptions) => Promise<JsonObject>,
  ): Promise<CallOutcome> {
    const started = performance.now();
    const timeout = Math.min(timeoutMs, longestTimeout);
    // Since 2026-07-28 one call can take several requests, with our own answers in between; the limit is for all of it.
    using limit = this.#isModern ? abortAfter(timeout, () => this.#timeUp(timeout), signal) : undefined;
    try {
      const result = await ask({ timeout, signal: limit?.signal ?? signal });
      return { kind: "result", result, latencyMs: performance.now() - started };
    } catch (error) {
      const latencyMs = performance.now() - started;
      if (this.#isTimeout(error) || (limit?.signal.aborted === true && !signal.aborted))
        return { kind: "timeout", message: timeoutText(what, { timeoutMs }), latencyMs };
      return { kind: "error", ...this.#describe(error), latencyMs };
    }
  }

  #isTimeout(error: unknown): boolean {
    const { SdkError, SdkErrorCode } = this.#sdk;
    return error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout;
  }

  #timeUp(timeout: number): Error {
    const { SdkError, SdkErrorCode } = this.#sdk;
    return new SdkError(SdkErrorCode.RequestTimeout, "Request timed out", { timeout });
  }

  #describe(error: unknown): { message: string; code?: number; data?: Json; unusable?: true } {
    if (error instanceof this.#sdk.ProtocolError) {
      if (error.data instanceof HttpNoAnswer) {
        const { status, message } = error.data;
        return { message, ...(status < 300 || isNoAnswer(status) ? { unusable: true } : {}) };
      }
      // Every error that the server sent comes with its original; others are made in this process.
      if (!(error.data instanceof OriginalError)) return { message: error.message, unusable: true };
      const { message, code, data } = error.data.error;
      return { message, code, ...(data === undefined ? {} : { data: data as Json }) };
    }
    return { message: error instanceof Error ? error.message : String(error), unusable: true };
  }
}

/** Being asked for is what a server reports progress for; the record has it. The time limit stays what it is. */
function ignoreProgress(): void {}

function timeoutText(what: string, { timeoutMs }: Pick<CallOptions, "timeoutMs">): string {
  return `${what} did not answer within ${Math.round(timeoutMs)} ms`;
}

function cursorOf({ nextCursor }: JsonObject): string | undefined {
  return typeof nextCursor === "string" ? nextCursor : undefined;
}

/** Arguments of prompts are texts (MCP 2025-11-25, prompts/get); anything else is sent as its JSON. */
function promptArguments(args: JsonObject): JsonObject {
  const texts = Object.entries(args).map(
    ([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)] as const,
  );
  return Object.fromEntries(texts);
}

/** Takes any result, and leaves it as it came. */
const anyResult: StandardSchemaV1<unknown, JsonObject> = resultSchema((result) => ({ value: result }));

/** Takes a result of `tools/call` that is one, and leaves it as it came. */
function callResultSchema(sdk: Sdk): StandardSchemaV1<unknown, JsonObject> {
  const schema = sdk.specTypeSchemas.CallToolResult["~standard"];
  return resultSchema((result) => {
    const { content, structuredContent } = result;
    if (!Array.isArray(content) && (content !== undefined || structuredContent === undefined))
      return { problem: "content is not an array" };
    const problem = contentProblem(result);
    if (problem !== undefined) return { problem };
    const { issues } = schema.validate(result);
    const issue = issues?.[0];
    return issue === undefined ? { value: result } : { problem: `${pathText(issue.path)}${issue.message}` };
  });
}

/** Takes a result of `resources/read` that has contents, and leaves it as it came. */
const resourceResultSchema: StandardSchemaV1<unknown, JsonObject> = withList("contents");

/** Takes a result of `prompts/get` that has messages, and leaves it as it came. */
const promptResultSchema: StandardSchemaV1<unknown, JsonObject> = withList("messages");

/** Takes a page of a list under this key, and leaves it as it came. */
function listResultSchema(key: string): StandardSchemaV1<unknown, JsonObject> {
  return withList(key);
}

function withList(key: string): StandardSchemaV1<unknown, JsonObject> {
  return resultSchema((result) =>
    Array.isArray(result[key]) ? { value: result } : { problem: `${key} is not an array` },
  );
}

function pathText(path: StandardSchemaV1.Issue["path"]): string {
  if (path === undefined || path.length === 0) return "";
  return `${path.map((part) => String(typeof part === "object" ? part.key : part)).join(".")}: `;
}
