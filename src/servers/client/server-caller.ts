import type { Client, StandardSchemaV1 } from "@modelcontextprotocol/client";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { OriginalError, unusableAnswer } from "./answer-guard.ts";
import {
  callResultSchema,
  listResultSchema,
  promptResultSchema,
  resourceResultSchema,
} from "./answer-schemas.ts";
import type { Sdk } from "./sdk.ts";
import type { CallOptions, CallOutcome, ServerSession } from "../session.ts";

/** The longest time limit that the SDK can keep, in milliseconds. */
const longestTimeout = 2 ** 31 - 1;
type ListKind = Parameters<ServerSession["list"]>[0];

const lists = {
  resources: { method: "resources/list", key: "resources" },
  resourceTemplates: { method: "resources/templates/list", key: "resourceTemplates" },
  prompts: { method: "prompts/list", key: "prompts" },
} as const;

/** Shown of the body of an HTTP error, in characters. */
const bodyLength = 300;

/** One request to a server. */
interface ServerRequest {
  readonly method: string;
  readonly params: JsonObject;
  readonly schema: StandardSchemaV1<unknown, JsonObject>;
  /** What is asked, in words. */
  readonly what: string;
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

  constructor(client: Client, sdk: Sdk) {
    this.#client = client;
    this.#sdk = sdk;
    this.#callSchema = callResultSchema(sdk);
  }

  callTool(tool: string, args: JsonObject, options: CallOptions): Promise<CallOutcome> {
    const params = { name: tool, arguments: args };
    const request = {
      method: "tools/call",
      params,
      schema: this.#callSchema,
      what: `tool "${tool}"`,
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

  /** Asks for every page of a list; the lists are joined under the list's own key. */
  async list(kind: ListKind, options: CallOptions): Promise<CallOutcome> {
    const { method, key } = lists[kind];
    const items: Json[] = [];
    const started = performance.now();
    const seen = new Set<string>();
    let cursor: string | undefined;
    do {
      const params: JsonObject = cursor === undefined ? {} : { cursor };
      const page = await this.#send({ method, params, schema: listResultSchema(key), what: method }, options);
      if (page.kind !== "result") return page;
      const listed = page.result[key];
      items.push(...(Array.isArray(listed) ? (listed as readonly Json[]) : []));
      const next = page.result["nextCursor"];
      cursor = typeof next === "string" && !seen.has(next) ? next : undefined;
      if (cursor !== undefined) seen.add(cursor);
    } while (cursor !== undefined);
    return { kind: "result", result: { [key]: items }, latencyMs: performance.now() - started };
  }

  async #send(
    { method, params, schema, what }: ServerRequest,
    { timeoutMs, signal }: CallOptions,
  ): Promise<CallOutcome> {
    const started = performance.now();
    const options = { timeout: Math.min(timeoutMs, longestTimeout), signal };
    try {
      const result = await this.#client.request({ method, params }, schema, options);
      return { kind: "result", result, latencyMs: performance.now() - started };
    } catch (error) {
      const latencyMs = performance.now() - started;
      if (error instanceof this.#sdk.SdkError && error.code === this.#sdk.SdkErrorCode.RequestTimeout)
        return { kind: "timeout", message: `${what} did not answer within ${timeoutMs} ms`, latencyMs };
      return { kind: "error", ...this.#describe(error), latencyMs };
    }
  }

  #describe(error: unknown): { message: string; code?: number; data?: Json; unusable?: true } {
    if (error instanceof this.#sdk.ProtocolError) {
      if (error.data === unusableAnswer) return { message: error.message, unusable: true };
      const { message, code, data } = error.data instanceof OriginalError ? error.data.error : error;
      return { message, code, ...(data === undefined ? {} : { data: data as Json }) };
    }
    if (error instanceof this.#sdk.SdkHttpError) {
      const { status, statusText = "", data } = error;
      const body = typeof data["text"] === "string" ? data["text"].trim().slice(0, bodyLength) : "";
      return { message: `HTTP ${status} ${statusText}`.trim() + (body === "" ? "" : `: ${body}`) };
    }
    return { message: error instanceof Error ? error.message : String(error), unusable: true };
  }
}

/** Arguments of prompts are texts (MCP 2025-11-25, prompts/get); anything else is sent as its JSON. */
function promptArguments(args: JsonObject): JsonObject {
  const texts = Object.entries(args).map(
    ([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)] as const,
  );
  return Object.fromEntries(texts);
}
