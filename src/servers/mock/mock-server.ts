import type { RequestId } from "@modelcontextprotocol/client";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject, MockDefinition, MockResponse } from "../../core/formats/model.ts";
import { compilePattern } from "../../core/templates/pattern.ts";
import { pause } from "../../process/deadline.ts";
import type { Request } from "../filters/messages.ts";
import { modernVersion } from "../client/era-switch.ts";
import { findResponse, type FoundResponse, type ValidateSchema } from "./find-response.ts";
import { agreedVersion, modernResult, requestVersion } from "./mock-era.ts";
import {
  capabilitiesOf,
  codes,
  getPrompt,
  invalid,
  listPrompts,
  listResources,
  listTools,
  type MockResult,
  readResource,
} from "./mock-results.ts";

/** What comes of a call of a tool. */
type CallResult =
  | MockResult
  | { readonly kind: "malformed"; readonly text: string }
  | { readonly kind: "silence" };

/**
 * A server that is nothing but written answers, for all who talk to it: its state is one. It speaks both eras, each
 * request in its own.
 */
export class MockServer {
  readonly #mock: MockDefinition;
  readonly #validateSchema: ValidateSchema;
  readonly #info: JsonObject;
  readonly #state: Map<string, Json>;
  /** Settles when the calls so far have found their answers, and the state is as they left it. */
  #finding: Promise<unknown> = Promise.resolve();

  /** Throws McpvalsError `task/pattern` for a regular expression that is none. */
  constructor(name: string, mock: MockDefinition, validateSchema: ValidateSchema) {
    this.#mock = mock;
    this.#validateSchema = validateSchema;
    this.#info = { name, version: "mock" };
    this.#state = new Map(Object.entries(mock.state));
    for (const { responses } of Object.values(mock.tools)) {
      for (const { matchRegex = {} } of responses) Object.values(matchRegex).forEach(compilePattern);
    }
  }

  /** The text that a request is answered with; undefined: nothing at all. Rejects with the signal's reason when that aborts first. */
  async answer(request: Request, signal: AbortSignal): Promise<string | undefined> {
    const version = requestVersion(request.params);
    const result =
      version === undefined || version === modernVersion
        ? await this.#resultOf(request, { isModern: version !== undefined, signal })
        : unsupported(version);
    return answerText(request.id, result);
  }

  async #resultOf(
    request: Request,
    { isModern, signal }: { readonly isModern: boolean; readonly signal: AbortSignal },
  ): Promise<CallResult> {
    const { method, params } = request;
    const result =
      method === "tools/call"
        ? await this.#call(params, { isModern, signal })
        : this.#simple(request, isModern);
    if (result.kind !== "result" || !isModern) return result;
    return { kind: "result", result: modernResult(method, result.result, this.#info) };
  }

  #simple({ method, params }: Request, isModern: boolean): MockResult {
    const mock = this.#mock;
    switch (method) {
      case "initialize":
        return give(this.#greeting({ protocolVersion: agreedVersion(params) }, { serverInfo: this.#info }));
      case "server/discover":
        return isModern
          ? give(this.#greeting({ supportedVersions: [modernVersion] }))
          : unknownMethod(method);
      case "ping":
      case "logging/setLevel":
        return give({});
      case "tools/list":
        return give(listTools(mock));
      case "resources/list":
        return give(listResources(mock));
      case "resources/templates/list":
        return give({ resourceTemplates: [] });
      case "resources/read":
        return readResource(mock, params, { isModern });
      case "prompts/list":
        return give(listPrompts(mock));
      case "prompts/get":
        return getPrompt(mock, params);
      default:
        return unknownMethod(method);
    }
  }

  #greeting(versions: JsonObject, more: JsonObject = {}): JsonObject {
    const { instructions } = this.#mock;
    const capabilities = capabilitiesOf(this.#mock);
    return { ...versions, capabilities, ...more, ...(instructions === undefined ? {} : { instructions }) };
  }

  async #call(
    params: JsonObject,
    { isModern, signal }: { readonly isModern: boolean; readonly signal: AbortSignal },
  ): Promise<CallResult> {
    const { name } = params;
    const args = params["arguments"] ?? {};
    if (typeof name !== "string") return invalid("name is not a text");
    if (!isJsonObject(args)) return invalid("arguments is not an object");
    const tool = Object.hasOwn(this.#mock.tools, name) ? this.#mock.tools[name] : undefined;
    if (tool === undefined) return toolError(`Unknown tool: ${name}`);
    const found = await this.#find(tool.responses, args);
    switch (found.kind) {
      case "none":
        return toolError(unmatched(name, found.reasons));
      case "unusable":
        return { kind: "error", code: codes.internal, message: `a matchSchema of the mock: ${found.reason}` };
      case "found": {
        const { latencyMs = 0, answer } = found.response;
        if (latencyMs > 0) await pause(latencyMs, signal);
        return callResult(answer, isModern);
      }
    }
  }

  /** One call after the other: what a response sets is so before the next call looks at it. */
  #find(responses: readonly MockResponse[], args: JsonObject): Promise<FoundResponse> {
    const finding = this.#finding.then(async () => {
      const call = { args, state: this.#state, validateSchema: this.#validateSchema };
      const found = await findResponse(responses, call);
      const { set = {} } = found.kind === "found" ? found.response : {};
      for (const [name, value] of Object.entries(set)) this.#state.set(name, value);
      return found;
    });
    this.#finding = finding.catch(() => undefined);
    return finding;
  }
}

function callResult(answer: MockResponse["answer"], isModern: boolean): CallResult {
  switch (answer.kind) {
    case "return":
      return { kind: "result", result: returned(answer.value, isModern) };
    case "error":
      return toolError(answer.message);
    case "protocol-error":
      return { kind: "error", code: answer.code, message: answer.message };
    case "malformed":
      return { kind: "malformed", text: answer.text };
    case "silence":
      return { kind: "silence" };
  }
}

/** Before 2026-07-28, structured content is an object or absent. */
function returned(value: Json, isModern: boolean): JsonObject {
  if (typeof value === "string") return { content: [textContent(value)] };
  if (isJsonObject(value) && Array.isArray(value["content"])) return value;
  const content = [textContent(JSON.stringify(value))];
  return isModern || isJsonObject(value) ? { content, structuredContent: value } : { content };
}

function toolError(message: string): MockResult {
  return { kind: "result", result: { content: [textContent(message)], isError: true } };
}

function textContent(text: string): JsonObject {
  return { type: "text", text };
}

function unmatched(tool: string, reasons: readonly string[]): string {
  if (reasons.length === 0) return `The mock has no answers for tool "${tool}"`;
  const lines = reasons.map((reason, index) => `- response ${index + 1}: ${reason}`);
  return [`No answer of the mock's tool "${tool}" fits this call:`, ...lines].join("\n");
}

function give(result: JsonObject): MockResult {
  return { kind: "result", result };
}

function unknownMethod(method: string): MockResult {
  return { kind: "error", code: codes.methodNotFound, message: `Method not found: ${method}` };
}

function unsupported(requested: string): MockResult {
  return {
    kind: "error",
    code: codes.unsupportedVersion,
    message: `Unsupported protocol version: ${requested}`,
    data: { supported: [modernVersion], requested },
  };
}

function answerText(id: RequestId, result: CallResult): string | undefined {
  switch (result.kind) {
    case "silence":
      return undefined;
    case "malformed":
      return result.text.replaceAll("{id}", () => JSON.stringify(id));
    case "result":
      return JSON.stringify({ jsonrpc: "2.0", id, result: result.result });
    case "error": {
      const { kind: _, ...error } = result;
      return JSON.stringify({ jsonrpc: "2.0", id, error });
    }
  }
}
