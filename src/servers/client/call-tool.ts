import type { Client, StandardSchemaV1 } from "@modelcontextprotocol/client";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { unusableAnswer } from "./answer-guard.ts";
import { resultSchema } from "./result-schema.ts";
import type { Sdk } from "./sdk.ts";
import type { CallOptions, CallOutcome } from "../session.ts";

/** The longest time limit that the SDK can keep, in milliseconds. */
const longestTimeout = 2 ** 31 - 1;
/** Shown of the body of an HTTP error, in characters. */
const bodyLength = 300;

/** Calls tools over one client, and says of each call how it ended. */
export class ToolCaller {
  readonly #client: Client;
  readonly #sdk: Sdk;
  readonly #schema: StandardSchemaV1<unknown, JsonObject>;

  constructor(client: Client, sdk: Sdk) {
    this.#client = client;
    this.#sdk = sdk;
    this.#schema = callResultSchema(sdk);
  }

  /**
   * Sends `tools/call` as it is, so that the result comes back as the server sent it and is judged elsewhere. Gives an
   * outcome also when the signal aborts or the connection is lost: the caller has to look at those first.
   */
  async call(tool: string, args: JsonObject, { timeoutMs, signal }: CallOptions): Promise<CallOutcome> {
    const started = performance.now();
    const options = { timeout: Math.min(timeoutMs, longestTimeout), signal };
    const request = { method: "tools/call", params: { name: tool, arguments: args } };
    try {
      const result = await this.#client.request(request, this.#schema, options);
      return { kind: "result", result, latencyMs: performance.now() - started };
    } catch (error) {
      const latencyMs = performance.now() - started;
      if (error instanceof this.#sdk.SdkError && error.code === this.#sdk.SdkErrorCode.RequestTimeout)
        return {
          kind: "timeout",
          message: `tool "${tool}" did not answer within ${timeoutMs} ms`,
          latencyMs,
        };
      return { kind: "error", ...this.#describe(error), latencyMs };
    }
  }

  #describe(error: unknown): { message: string; code?: number; data?: Json; unusable?: true } {
    if (error instanceof this.#sdk.ProtocolError) {
      const { message, code, data } = error;
      if (data === unusableAnswer) return { message, unusable: true };
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

function callResultSchema(sdk: Sdk): StandardSchemaV1<unknown, JsonObject> {
  const schema = sdk.specTypeSchemas.CallToolResult["~standard"];
  return resultSchema((result) => {
    const { content, structuredContent } = result;
    if (!Array.isArray(content) && (content !== undefined || structuredContent === undefined))
      return { problem: "content is not an array" };
    const { issues } = schema.validate(result);
    const issue = issues?.[0];
    return issue === undefined ? { value: result } : { problem: `${pathText(issue.path)}${issue.message}` };
  });
}

function pathText(path: StandardSchemaV1.Issue["path"]): string {
  if (path === undefined || path.length === 0) return "";
  return `${path.map((part) => String(typeof part === "object" ? part.key : part)).join(".")}: `;
}
