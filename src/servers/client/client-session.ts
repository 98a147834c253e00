import type { Client, RequestOptions, StandardSchemaV1 } from "@modelcontextprotocol/client";
import { isNoAnswer } from "../../core/checks/http-status.ts";
import { contentProblem } from "../../core/checks/result-text.ts";
import { McpvalsError } from "../../core/errors/error.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { abortAfter, settlesWithin } from "../../process/deadline.ts";
import { HttpNoAnswer, type ServerConnection } from "../connections/host.ts";
import { paramHeaders } from "../messages/mcp-headers.ts";
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

/** How long a server may take to show that it is alive, in milliseconds. */
const aliveMs = 1000;

/** The longest time limit that the SDK can keep, in milliseconds. */
const longestTimeout = 2 ** 31 - 1;

const lists = {
  resources: { method: "resources/list", key: "resources" },
  resourceTemplates: { method: "resources/templates/list", key: "resourceTemplates" },
  prompts: { method: "prompts/list", key: "prompts" },
} as const;

interface ServerRequest {
  readonly method: string;
  readonly params: JsonObject;
  readonly schema: StandardSchemaV1<unknown, JsonObject>;
  /** What is asked for, for messages. Default: the method. */
  readonly what?: string;
  /** Headers that it needs over HTTP. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * A session with a healthy server: the SDK's client on a recorded connection. Results are given as the server sent them and are
 * judged elsewhere.
 */
export class ClientSession implements ServerSession {
  readonly name: string;
  readonly abilities: ServerAbilities;
  readonly lost: AbortSignal;
  readonly #connection: ServerConnection;
  readonly #client: Client;
  readonly #sdk: Sdk;
  readonly #isModern: boolean;
  #tools: readonly ToolDefinition[];
  #toolsMayDiffer = false;
  #stopped = false;

  constructor(connection: ServerConnection, { client, tools, abilities }: Handshake, sdk: Sdk) {
    this.name = connection.name;
    this.abilities = abilities;
    this.lost = connection.lost;
    this.#connection = connection;
    this.#client = client;
    this.#sdk = sdk;
    this.#isModern = client.getProtocolEra() === "modern";
    this.#tools = tools;
    client.setNotificationHandler("notifications/tools/list_changed", () => this.expireTools());
  }

  get tools(): readonly ToolDefinition[] {
    return this.#tools;
  }

  async toolsNamed(name: string, options: CallOptions): Promise<readonly ToolDefinition[]> {
    if (!this.abilities.tools) return [];
    const named = (): ToolDefinition[] => this.#tools.filter((tool) => tool.name === name);
    if (named().length > 0 && !this.#toolsMayDiffer) return named();
    this.#toolsMayDiffer = false;
    const outcome = await this.#settle("tools/list", options, async (request) => {
      this.#tools = await listTools(this.#client, request);
      return {};
    });
    if (outcome.kind === "result") return named();
    this.#toolsMayDiffer = true;
    const code = outcome.kind === "timeout" ? "server/call-timeout" : "server/protocol-error";
    throw new McpvalsError(code, `server "${this.name}" gives no list of its tools: ${outcome.message}`);
  }

  expireTools(): void {
    this.#toolsMayDiffer = true;
  }

  callTool(tool: string, args: JsonObject, options: CallOptions): Promise<CallOutcome> {
    const definition = this.#isModern ? this.#tools.find(({ name }) => name === tool) : undefined;
    return this.#send(
      {
        method: "tools/call",
        params: { name: tool, arguments: args },
        schema: callResultSchema(this.#sdk),
        what: `tool "${tool}"`,
        ...(definition === undefined ? {} : { headers: paramHeaders(definition.inputSchema, args) }),
      },
      options,
    );
  }

  readResource(uri: string, options: CallOptions): Promise<CallOutcome> {
    const what = `resource "${uri}"`;
    return this.#send(
      { method: "resources/read", params: { uri }, schema: listSchema("contents"), what },
      options,
    );
  }

  getPrompt(name: string, args: JsonObject, options: CallOptions): Promise<CallOutcome> {
    const what = `prompt "${name}"`;
    const params = { name, arguments: promptArguments(args) };
    return this.#send({ method: "prompts/get", params, schema: listSchema("messages"), what }, options);
  }

  /** All pages have the time of one call together; their lists are joined under the list's own key. */
  async list(kind: keyof typeof lists, options: CallOptions): Promise<CallOutcome> {
    const { method, key } = lists[kind];
    const items: Json[] = [];
    const started = performance.now();
    const cursors = new PageCursors();
    let cursor: string | undefined;
    do {
      const params: JsonObject = cursor === undefined ? {} : { cursor };
      const timeoutMs = Math.max(options.timeoutMs - (performance.now() - started), 1);
      const page = await this.#send({ method, params, schema: listSchema(key) }, { ...options, timeoutMs });
      const latencyMs = performance.now() - started;
      if (page.kind === "timeout") return { ...page, message: timeoutText(method, options), latencyMs };
      if (page.kind !== "result") return { ...page, latencyMs };
      const { [key]: listed, nextCursor } = page.result;
      for (const item of listed as readonly Json[]) items.push(item);
      cursor = typeof nextCursor === "string" ? nextCursor : undefined;
      const problem = cursor === undefined ? undefined : cursors.problemOf(method, cursor);
      if (problem !== undefined) return { kind: "error", message: problem, unusable: true, latencyMs };
    } while (cursor !== undefined);
    return { kind: "result", result: { [key]: items }, latencyMs: performance.now() - started };
  }

  async checkAlive(): Promise<void> {
    if (this.#stopped || this.lost.aborted) return;
    const options = { timeout: aliveMs };
    // Any answer is a sign of life, an error too.
    await settlesWithin(this.#client.request({ method: "ping" }, anyResult, options), aliveMs);
  }

  stop(): Promise<void> {
    this.#stopped = true;
    return this.#connection.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #send(
    { method, params, schema, what = method, headers }: ServerRequest,
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

  /** Sends a request within its limits. Throws when the server is lost or stopped, and when the signal aborts. */
  async #settle(
    what: string,
    { timeoutMs, signal }: CallOptions,
    send: (options: RequestOptions) => Promise<JsonObject>,
  ): Promise<CallOutcome> {
    this.#throwIfOver(signal);
    const started = performance.now();
    const timeout = Math.min(timeoutMs, longestTimeout);
    // Since 2026-07-28 one call can take several requests, with answers of the client in between; the limit is for all of it.
    using limit = this.#isModern ? abortAfter(timeout, () => this.#timeoutError(timeout), signal) : undefined;
    try {
      const result = await send({ timeout, signal: limit?.signal ?? signal });
      return { kind: "result", result, latencyMs: performance.now() - started };
    } catch (error) {
      const latencyMs = performance.now() - started;
      this.#throwIfOver(signal);
      if (this.#isTimeout(error) || limit?.signal.aborted === true)
        return { kind: "timeout", message: timeoutText(what, { timeoutMs }), latencyMs };
      return { kind: "error", ...this.#describe(error), latencyMs };
    }
  }

  #throwIfOver(signal: AbortSignal): void {
    this.lost.throwIfAborted();
    signal.throwIfAborted();
    if (!this.#stopped) return;
    throw new McpvalsError("server/exited", `server "${this.name}" was stopped by us, so it gives no answer`);
  }

  #isTimeout(error: unknown): boolean {
    const { SdkError, SdkErrorCode } = this.#sdk;
    return error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout;
  }

  #timeoutError(timeout: number): Error {
    const { SdkError, SdkErrorCode } = this.#sdk;
    return new SdkError(SdkErrorCode.RequestTimeout, "Request timed out", { timeout });
  }

  #describe(error: unknown): { message: string; code?: number; data?: Json; unusable?: true } {
    const data = error instanceof this.#sdk.ProtocolError ? error.data : undefined;
    if (data instanceof HttpNoAnswer) {
      const { status, message } = data;
      return { message, ...(status < 300 || isNoAnswer(status) ? { unusable: true } : {}) };
    }
    // Every error that the server sent comes with its original; others are made in this process.
    if (!(data instanceof OriginalError))
      return { message: error instanceof Error ? error.message : String(error), unusable: true };
    const { code, message, data: given } = data.error;
    return { message, code, ...(given === undefined ? {} : { data: given as Json }) };
  }
}

/** A server reports progress only to a client that handles it. The record has it; the time limit stays as it is. */
function ignoreProgress(): void {}

function timeoutText(what: string, { timeoutMs }: Pick<CallOptions, "timeoutMs">): string {
  return `${what} did not answer within ${Math.round(timeoutMs)} ms`;
}

/** Arguments of prompts are strings (MCP 2025-11-25, prompts/get); other values are sent as their JSON. */
function promptArguments(args: JsonObject): JsonObject {
  const texts = Object.entries(args).map(
    ([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)] as const,
  );
  return Object.fromEntries(texts);
}

// Schemas that leave the result as it came.

const anyResult: StandardSchemaV1<unknown, JsonObject> = resultSchema((result) => ({ value: result }));

function callResultSchema(sdk: Sdk): StandardSchemaV1<unknown, JsonObject> {
  const schema = sdk.specTypeSchemas.CallToolResult["~standard"];
  return resultSchema((result) => {
    const { content, structuredContent } = result;
    if (!Array.isArray(content) && (content !== undefined || structuredContent === undefined))
      return { problem: "content is not an array" };
    const problem = contentProblem(result);
    if (problem !== undefined) return { problem };
    const issue = schema.validate(result).issues?.[0];
    return issue === undefined ? { value: result } : { problem: `${pathText(issue.path)}${issue.message}` };
  });
}

/** Accepts a result with an array under this key. */
function listSchema(key: string): StandardSchemaV1<unknown, JsonObject> {
  return resultSchema((result) =>
    Array.isArray(result[key]) ? { value: result } : { problem: `${key} is not an array` },
  );
}

function pathText(path: StandardSchemaV1.Issue["path"]): string {
  if (path === undefined || path.length === 0) return "";
  return `${path.map((part) => String(typeof part === "object" ? part.key : part)).join(".")}: `;
}
