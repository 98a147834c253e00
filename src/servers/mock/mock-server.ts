import type { RequestId } from "@modelcontextprotocol/client";
import { jsonDifference } from "../../core/checks/json-difference.ts";
import { isJsonObject, withoutUndefined } from "../../core/formats/json.ts";
import type { Json, JsonObject, MockDefinition, MockResponse } from "../../core/formats/model.ts";
import { previewJson } from "../../core/formats/read-json.ts";
import { compilePattern } from "../../core/templates/pattern.ts";
import { pause } from "../../process/deadline.ts";
import { formatSchemaError, type ValidateSchema } from "../../core/checks/schema-check.ts";
import { errorCodes, modernVersion, type Request } from "../messages/json-rpc.ts";

/** The outcome of a tool call. */
type CallResult =
  | MockResult
  | { readonly kind: "malformed"; readonly text: string }
  | { readonly kind: "silence" };

/** A server whose answers are written in its definition. All clients share its state. It speaks both eras, request by request. */
export class MockServer {
  readonly #mock: MockDefinition;
  readonly #validateSchema: ValidateSchema;
  readonly #info: JsonObject;
  readonly #state: Map<string, Json>;
  /** Settles when earlier calls have found their answers and changed the state. */
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

  /** The text of the answer to a request; undefined: none. Rejects with the signal's reason when that aborts first. */
  async answer(request: Request, signal: AbortSignal): Promise<string | undefined> {
    const version = namedVersion(request.params);
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
        return resultOf(
          this.#serverInfo({ protocolVersion: agreedVersion(params) }, { serverInfo: this.#info }),
        );
      case "server/discover":
        return isModern
          ? resultOf(this.#serverInfo({ supportedVersions: [modernVersion] }))
          : unknownMethod(method);
      case "ping":
      case "logging/setLevel":
        return resultOf({});
      case "tools/list":
        return resultOf(listTools(mock));
      case "resources/list":
        return resultOf(listResources(mock));
      case "resources/templates/list":
        return resultOf({ resourceTemplates: [] });
      case "resources/read":
        return readResource(mock, params, { isModern });
      case "prompts/list":
        return resultOf(listPrompts(mock));
      case "prompts/get":
        return getPrompt(mock, params);
      default:
        return unknownMethod(method);
    }
  }

  #serverInfo(versions: JsonObject, more: JsonObject = {}): JsonObject {
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
        return {
          kind: "error",
          code: errorCodes.internal,
          message: `a matchSchema of the mock: ${found.reason}`,
        };
      case "found": {
        const { latencyMs = 0, answer } = found.response;
        if (latencyMs > 0) await pause(latencyMs, signal);
        return callResult(answer, isModern);
      }
    }
  }

  /** Calls are matched one after the other, so that each sees the state that the previous one has set. */
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

function resultOf(result: JsonObject): MockResult {
  return { kind: "result", result };
}

function unknownMethod(method: string): MockResult {
  return { kind: "error", code: errorCodes.methodNotFound, message: `Method not found: ${method}` };
}

function unsupported(requested: string): MockResult {
  return {
    kind: "error",
    code: errorCodes.unsupportedVersion,
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

const newestLegacyVersion = "2025-11-25";

/** The versions of the era that begins with `initialize`, the newest first. */
export const legacyVersions = [newestLegacyVersion, "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];

/** Results that clients may cache in 2026-07-28, and that have to say for how long. */
const cacheable = new Set([
  "server/discover",
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
  "resources/read",
]);

/** The negotiated version: the requested one, where it is known. */
function agreedVersion({ protocolVersion }: JsonObject): string {
  return legacyVersions.find((version) => version === protocolVersion) ?? newestLegacyVersion;
}

/** Adds to a result what every result has in 2026-07-28. */
function modernResult(method: string, result: JsonObject, server: JsonObject): JsonObject {
  const meta = result["_meta"];
  return {
    resultType: "complete",
    ...(cacheable.has(method) ? { ttlMs: 0, cacheScope: "private" } : {}),
    ...result,
    _meta: { "io.modelcontextprotocol/serverInfo": server, ...(isJsonObject(meta) ? meta : {}) },
  };
}

/** A result or a JSON-RPC error. */
export type MockResult =
  | { readonly kind: "result"; readonly result: JsonObject }
  | { readonly kind: "error"; readonly code: number; readonly message: string; readonly data?: Json };

function capabilitiesOf({ tools, resources, prompts }: MockDefinition): JsonObject {
  return {
    logging: {},
    ...(Object.keys(tools).length === 0 ? {} : { tools: {} }),
    ...(resources.length === 0 ? {} : { resources: {} }),
    ...(prompts.length === 0 ? {} : { prompts: {} }),
  };
}

function listTools({ tools }: MockDefinition): JsonObject {
  const listed = Object.entries(tools).map(([name, { description, inputSchema, outputSchema }]) =>
    withoutUndefined({ name, description, inputSchema, outputSchema }),
  );
  return { tools: listed };
}

function listResources({ resources }: MockDefinition): JsonObject {
  const listed = resources.map(({ uri, name, description, mimeType }) =>
    withoutUndefined({ uri, name, description, mimeType }),
  );
  return { resources: listed };
}

/** The error code of an unknown resource changed in 2026-07-28. */
function readResource(
  { resources }: MockDefinition,
  { uri }: JsonObject,
  { isModern }: { readonly isModern: boolean },
): MockResult {
  if (typeof uri !== "string") return invalid("uri is not a text");
  const found = resources.find((resource) => resource.uri === uri);
  if (found !== undefined) {
    const { mimeType, text } = found;
    return resultOf({ contents: [withoutUndefined({ uri, mimeType, text })] });
  }
  const code = isModern ? errorCodes.invalidParams : errorCodes.resourceNotFound;
  return { kind: "error", code, message: `Resource not found: ${uri}`, data: { uri } };
}

function listPrompts({ prompts }: MockDefinition): JsonObject {
  const listed = prompts.map(({ name, description, arguments: args }) =>
    withoutUndefined({ name, description, arguments: args }),
  );
  return { prompts: listed };
}

function getPrompt({ prompts }: MockDefinition, params: JsonObject): MockResult {
  const { name } = params;
  const prompt = prompts.find((each) => each.name === name);
  if (prompt === undefined)
    return invalid(`Unknown prompt: ${typeof name === "string" ? name : "(no name)"}`);
  const given = isJsonObject(params["arguments"]) ? params["arguments"] : {};
  const values = new Map<string, string>();
  for (const argument of prompt.arguments) {
    const value = Object.hasOwn(given, argument.name) ? given[argument.name] : undefined;
    if (value === undefined && argument.required) return invalid(`Missing argument: ${argument.name}`);
    values.set(argument.name, value === undefined ? "" : textOf(value));
  }
  const { description } = prompt;
  const messages = prompt.messages.map(({ role, text }) => ({
    role,
    content: { type: "text", text: fillIn(text, values) },
  }));
  return resultOf(withoutUndefined({ description, messages }));
}

function invalid(message: string): MockResult {
  return { kind: "error", code: errorCodes.invalidParams, message };
}

function textOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Replaces `{NAME}` of each known name in one pass, so that values are not replaced again. */
function fillIn(text: string, values: ReadonlyMap<string, string>): string {
  return text.replaceAll(/\{([^{}]*)\}/g, (written, name: string) => values.get(name) ?? written);
}

/** A tool call, with what responses are matched against. */
export interface MockCall {
  readonly args: JsonObject;
  /** The current state. */
  readonly state: ReadonlyMap<string, Json>;
  readonly validateSchema: ValidateSchema;
}

export type FoundResponse =
  | { readonly kind: "found"; readonly response: MockResponse }
  /** Why each of the responses does not fit, in order. */
  | { readonly kind: "none"; readonly reasons: readonly string[] }
  /** The schema of a response is invalid. */
  | { readonly kind: "unusable"; readonly reason: string };

/** Finds the first response all of whose conditions hold; one without conditions fits every call. */
async function findResponse(responses: readonly MockResponse[], call: MockCall): Promise<FoundResponse> {
  const reasons: string[] = [];
  for (const response of responses) {
    const problem =
      matchProblem(response, call) ?? regexProblem(response, call) ?? whenProblem(response, call);
    const outcome: SchemaMatch =
      problem === undefined ? await matchSchemaProblem(response, call) : { kind: "checked", problem };
    if (outcome.kind === "unusable") return outcome;
    if (outcome.problem === undefined) return { kind: "found", response };
    reasons.push(outcome.problem);
  }
  return { kind: "none", reasons };
}

function matchProblem({ match }: MockResponse, { args }: MockCall): string | undefined {
  return match === undefined ? undefined : difference("arguments", args, match);
}

function regexProblem({ matchRegex = {} }: MockResponse, { args }: MockCall): string | undefined {
  for (const [name, source] of Object.entries(matchRegex)) {
    const value = Object.hasOwn(args, name) ? args[name] : undefined;
    if (value === undefined) return `argument ${name} is missing, expected /${source}/`;
    const text = typeof value === "string" ? value : JSON.stringify(value);
    if (!compilePattern(source).test(text))
      return `argument ${name} is ${previewJson(value)}, expected /${source}/`;
  }
  return undefined;
}

function whenProblem({ when = {} }: MockResponse, { state }: MockCall): string | undefined {
  for (const [name, expected] of Object.entries(when)) {
    const value = state.get(name);
    if (value === undefined) return `state ${name} is not set, expected ${previewJson(expected)}`;
    const problem = difference(`state ${name}`, value, expected);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** The first place where a value is not the expected one, in words. */
function difference(what: string, value: Json, expected: Json): string | undefined {
  const found = jsonDifference(value, expected, "equal");
  return found?.messageFor(found.pointer === "" ? what : `${what} at ${found.pointer}`);
}

type SchemaMatch =
  | { readonly kind: "checked"; readonly problem: string | undefined }
  | { readonly kind: "unusable"; readonly reason: string };

async function matchSchemaProblem(
  { matchSchema }: MockResponse,
  { args, validateSchema }: MockCall,
): Promise<SchemaMatch> {
  if (matchSchema === undefined) return { kind: "checked", problem: undefined };
  const check = await validateSchema(matchSchema, args);
  switch (check.status) {
    case "valid":
      return { kind: "checked", problem: undefined };
    case "invalid":
      return {
        kind: "checked",
        problem: `arguments do not satisfy its schema: ${check.errors.map((error) => formatSchemaError(error)).join("; ")}`,
      };
    case "unusable":
      return { kind: "unusable", reason: check.reason };
  }
}

/** The version that a request names; undefined for one of the legacy era. */
function namedVersion({ _meta: meta }: JsonObject): string | undefined {
  const version = isJsonObject(meta) ? meta["io.modelcontextprotocol/protocolVersion"] : undefined;
  return typeof version === "string" ? version : undefined;
}
