import { jsonDifference } from "../../expect/json-difference.ts";
import { formatSchemaError, type ValidateSchema } from "../../expect/tool-result.ts";
import { messageOf } from "../../base/error.ts";
import { isJsonObject, valueAt, withoutUndefined, type Json, type JsonObject } from "../../base/json.ts";
import type { MockDefinition, MockResponse, MockServerSpec } from "../../model/server.ts";
import { previewJson } from "../../base/read-json.ts";
import { compilePattern } from "../../templates/pattern.ts";
import type { Emit } from "../../model/event.ts";
import { pause } from "../../process/deadline.ts";
import {
  type Channel,
  type ChannelListener,
  type ConnectOptions,
  ServerConnection,
  type ServerHost,
  Watchers,
} from "../connections/host.ts";
import { requestCancelled } from "../filters/filter-chain.ts";
import {
  cancelledId,
  errorAnswer,
  type MessageId,
  parseMessage,
  type Request,
  requestOf,
} from "../messages/json-rpc.ts";
import { errorCodes } from "../../model/error-codes.ts";
import { legacyVersions, modernVersion } from "../../model/mcp-versions.ts";

/** Creates a mock server in this process; `validateSchema` is for `matchSchema`. Throws McpvalsError `task/pattern` for an invalid regular expression. */
export function openMockHost(
  name: string,
  spec: MockServerSpec,
  { validateSchema }: { readonly validateSchema: ValidateSchema },
): ServerHost {
  return new MockHost(name, new MockServer(name, spec.mock, validateSchema));
}

class MockHost implements ServerHost {
  readonly name: string;
  readonly transport = "mock";
  readonly isProgram = false;
  readonly address = undefined;
  /** Never aborts. */
  readonly lost = new AbortController().signal;
  readonly #server: MockServer;
  readonly #watchers: Watchers;
  /** Functions that end the open channels. */
  readonly #channels = new Set<() => void>();
  #isStopped = false;

  constructor(name: string, server: MockServer) {
    this.name = name;
    this.#server = server;
    this.#watchers = new Watchers(name, { transport: "mock", target: "written answers" });
  }

  watch(emit: Emit): () => void {
    return this.#watchers.add(emit);
  }

  connect(emit: Emit, { filters }: ConnectOptions = {}): ServerConnection {
    return new ServerConnection({
      name: this.name,
      emit,
      open: (listener) => this.#open(listener, false),
      hostLost: this.lost,
      evidence: () => this.#watchers.evidence(),
      filters,
    });
  }

  open(listener: ChannelListener): Channel {
    return this.#open(listener, true);
  }

  stop(): Promise<void> {
    this.#isStopped = true;
    for (const end of this.#channels) end();
    this.#watchers.stop("disconnect", 0);
    return Promise.resolve();
  }

  /** `passesInvalid`: answers that are not messages go to the client too, with an error as their message for the record. */
  #open(listener: ChannelListener, passesInvalid: boolean): Channel {
    const waiting = new Map<MessageId, AbortController>();
    const end = (): void => {
      if (!this.#channels.delete(end)) return;
      for (const controller of waiting.values()) controller.abort(requestCancelled);
      if (this.#isStopped) listener.onClosed();
    };
    const answer = async (request: Request): Promise<void> => {
      const { id } = request;
      const controller = new AbortController();
      waiting.set(id, controller);
      const text = await this.#server.answer(request, controller.signal).catch((error: unknown) => {
        const why = `the mock could not answer: ${messageOf(error)}`;
        return errorAnswer(id, errorCodes.internal, why).text;
      });
      if (waiting.get(id) === controller) waiting.delete(id);
      if (text === undefined || controller.signal.aborted) return;
      const line = Buffer.from(text, "utf8");
      const wire = parseMessage(line);
      if (wire !== undefined) return listener.onMessage(wire);
      this.#watchers.invalidLine(line);
      const why = "the mock's answer is not JSON-RPC message, on purpose";
      if (passesInvalid)
        listener.onMessage({ message: errorAnswer(id, errorCodes.parse, why).message, text });
    };
    this.#channels.add(end);
    if (this.#isStopped) queueMicrotask(end);
    return {
      send: ({ message }) => {
        if (!this.#channels.has(end)) return Promise.reject(new Error("the client has closed its channel"));
        const request = requestOf(message);
        const cancelled = cancelledId(message);
        if (request !== undefined) void answer(request);
        if (cancelled !== undefined) waiting.get(cancelled)?.abort(requestCancelled);
        return Promise.resolve();
      },
      close: () => Promise.resolve(end()),
    };
  }
}

/** Results that clients may cache in 2026-07-28, and that have to say for how long. */
const cacheable = [
  "server/discover",
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
  "resources/read",
];

/** Thrown for a JSON-RPC error as the answer. */
class ErrorAnswer extends Error {
  readonly error: JsonObject;

  constructor(code: number, message: string, data?: Json) {
    super(message);
    this.error = withoutUndefined({ code, message, data });
  }
}

/** The answers of a mock, which are written in its definition. All clients share its state. It speaks both eras, request by request. */
class MockServer {
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
    for (const { responses } of Object.values(mock.tools))
      for (const { matchRegex = {} } of responses) Object.values(matchRegex).forEach(compilePattern);
  }

  /** The text of the answer to a request; undefined: none. Rejects with the signal's reason when that aborts first. */
  async answer({ id, method, params }: Request, signal: AbortSignal): Promise<string | undefined> {
    try {
      // A request of the legacy era names no version.
      const version = valueAt(params, ["_meta", "io.modelcontextprotocol/protocolVersion"]);
      const isModern = typeof version === "string";
      if (isModern && version !== modernVersion)
        throw new ErrorAnswer(errorCodes.unsupportedVersion, `Unsupported protocol version: ${version}`, {
          supported: [modernVersion],
          requested: version,
        });
      const result =
        method === "tools/call"
          ? await this.#call(params, isModern, signal)
          : this.#result(method, params, isModern);
      if (result === undefined) return undefined;
      if (typeof result === "string") return result.replaceAll("{id}", () => JSON.stringify(id));
      const whole = isModern ? modernResult(method, result, this.#info) : result;
      return JSON.stringify({ jsonrpc: "2.0", id, result: whole });
    } catch (error) {
      if (!(error instanceof ErrorAnswer)) throw error;
      return JSON.stringify({ jsonrpc: "2.0", id, error: error.error });
    }
  }

  #result(method: string, params: JsonObject, isModern: boolean): JsonObject {
    const { tools, resources, prompts, instructions } = this.#mock;
    const capabilities = {
      logging: {},
      ...(Object.keys(tools).length === 0 ? {} : { tools: {} }),
      ...(resources.length === 0 ? {} : { resources: {} }),
      ...(prompts.length === 0 ? {} : { prompts: {} }),
    };
    switch (method) {
      case "initialize": {
        const { protocolVersion: wanted } = params;
        const protocolVersion = legacyVersions.find((version) => version === wanted) ?? legacyVersions[0];
        return withoutUndefined({ protocolVersion, capabilities, serverInfo: this.#info, instructions });
      }
      case "server/discover":
        if (!isModern) break;
        return withoutUndefined({ supportedVersions: [modernVersion], capabilities, instructions });
      case "ping":
      case "logging/setLevel":
        return {};
      case "tools/list":
        return {
          tools: Object.entries(tools).map(([name, { description, inputSchema, outputSchema }]) =>
            withoutUndefined({
              name,
              description,
              inputSchema: { type: "object", ...inputSchema },
              outputSchema: outputSchema && { type: "object", ...outputSchema },
            }),
          ),
        };
      case "resources/list":
        return {
          resources: resources.map(({ uri, name, description, mimeType }) =>
            withoutUndefined({ uri, name, description, mimeType }),
          ),
        };
      case "resources/templates/list":
        return { resourceTemplates: [] };
      case "resources/read":
        return readResource(this.#mock, params, isModern);
      case "prompts/list":
        return {
          prompts: prompts.map(({ name, description, arguments: args }) =>
            withoutUndefined({ name, description, arguments: args }),
          ),
        };
      case "prompts/get":
        return getPrompt(this.#mock, params);
      default:
    }
    throw new ErrorAnswer(errorCodes.methodNotFound, `Method not found: ${method}`);
  }

  /** The result of a call; a text is a malformed answer, undefined is none. */
  async #call(
    params: JsonObject,
    isModern: boolean,
    signal: AbortSignal,
  ): Promise<JsonObject | string | undefined> {
    const { name, arguments: args = {} } = params;
    if (typeof name !== "string") throw invalid("name is not a text");
    if (!isJsonObject(args)) throw invalid("arguments is not an object");
    const tool = Object.hasOwn(this.#mock.tools, name) ? this.#mock.tools[name] : undefined;
    if (tool === undefined) return toolError(`Unknown tool: ${name}`);
    // Calls are matched one after the other, so that each sees the state that the previous one has set.
    const finding = this.#finding.then(() => this.#find(name, tool.responses, args));
    this.#finding = finding.catch(() => undefined);
    const found = await finding;
    if (typeof found === "string") return toolError(found);
    const { latency = 0, error, protocolError, malformed, silence } = found;
    if (latency > 0) await pause(latency, signal);
    if (error !== undefined) return toolError(error);
    if (protocolError !== undefined) throw new ErrorAnswer(protocolError.code, protocolError.message);
    if (malformed !== undefined) return malformed;
    return silence === true ? undefined : returned(found.return ?? null, isModern);
  }

  /** Finds the first response all of whose conditions hold, and sets the state; a text says why there is none. */
  async #find(
    tool: string,
    responses: readonly MockResponse[],
    args: JsonObject,
  ): Promise<MockResponse | string> {
    const lines: string[] = [];
    for (const [index, response] of responses.entries()) {
      const problem = await this.#mismatch(response, args);
      if (problem === undefined) {
        for (const [name, value] of Object.entries(response.set ?? {})) this.#state.set(name, value);
        return response;
      }
      lines.push(`- response ${index + 1}: ${problem}`);
    }
    if (lines.length === 0) return `The mock has no answers for tool "${tool}"`;
    return [`No answer of the mock's tool "${tool}" fits this call:`, ...lines].join("\n");
  }

  /** Why a response does not fit a call; one without conditions fits every call. */
  async #mismatch(
    { match, matchRegex = {}, when = {}, matchSchema }: MockResponse,
    args: JsonObject,
  ): Promise<string | undefined> {
    const unequal = match === undefined ? undefined : difference("arguments", args, match);
    if (unequal !== undefined) return unequal;
    for (const [name, source] of Object.entries(matchRegex)) {
      const value = Object.hasOwn(args, name) ? args[name] : undefined;
      if (value === undefined) return `argument ${name} is missing, expected /${source}/`;
      if (!compilePattern(source).test(textOf(value)))
        return `argument ${name} is ${previewJson(value)}, expected /${source}/`;
    }
    for (const [name, expected] of Object.entries(when)) {
      const value = this.#state.get(name);
      if (value === undefined) return `state ${name} is not set, expected ${previewJson(expected)}`;
      const problem = difference(`state ${name}`, value, expected);
      if (problem !== undefined) return problem;
    }
    if (matchSchema === undefined) return undefined;
    const check = await this.#validateSchema(matchSchema, args);
    if (check.status === "valid") return undefined;
    if (check.status === "unusable")
      throw new ErrorAnswer(errorCodes.internal, `a matchSchema of the mock: ${check.reason}`);
    const problems = check.errors.map((error) => formatSchemaError(error)).join("; ");
    return `arguments do not satisfy its schema: ${problems}`;
  }
}

/** The first place where a value is not the expected one, in words. */
function difference(what: string, value: Json, expected: Json): string | undefined {
  const found = jsonDifference(value, expected, "equal");
  return found?.messageFor(found.pointer === "" ? what : `${what} at ${found.pointer}`);
}

/** Before 2026-07-28, structured content is an object or absent. */
function returned(value: Json, isModern: boolean): JsonObject {
  if (isJsonObject(value) && Array.isArray(value["content"])) return value;
  const content = [{ type: "text", text: textOf(value) }];
  const isStructured = typeof value !== "string" && (isModern || isJsonObject(value));
  return isStructured ? { content, structuredContent: value } : { content };
}

function toolError(message: string): JsonObject {
  return { content: [{ type: "text", text: message }], isError: true };
}

/** Adds to a result what every result has in 2026-07-28. */
function modernResult(method: string, result: JsonObject, server: JsonObject): JsonObject {
  const meta = result["_meta"];
  return {
    resultType: "complete",
    ...(cacheable.includes(method) ? { ttlMs: 0, cacheScope: "private" } : {}),
    ...result,
    _meta: { "io.modelcontextprotocol/serverInfo": server, ...(isJsonObject(meta) ? meta : {}) },
  };
}

/** The error code of an unknown resource changed in 2026-07-28. */
function readResource({ resources }: MockDefinition, { uri }: JsonObject, isModern: boolean): JsonObject {
  if (typeof uri !== "string") throw invalid("uri is not a text");
  const found = resources.find((resource) => resource.uri === uri);
  if (found !== undefined)
    return { contents: [withoutUndefined({ uri, mimeType: found.mimeType, text: found.text })] };
  const code = isModern ? errorCodes.invalidParams : errorCodes.resourceNotFound;
  throw new ErrorAnswer(code, `Resource not found: ${uri}`, { uri });
}

function getPrompt({ prompts }: MockDefinition, { name, arguments: given }: JsonObject): JsonObject {
  const prompt = prompts.find((each) => each.name === name);
  if (prompt === undefined) throw invalid(`Unknown prompt: ${typeof name === "string" ? name : "(no name)"}`);
  const values = new Map<string, string>();
  for (const argument of prompt.arguments) {
    const value = valueAt(given, [argument.name]) as Json | undefined;
    if (value === undefined && argument.required) throw invalid(`Missing argument: ${argument.name}`);
    values.set(argument.name, value === undefined ? "" : textOf(value));
  }
  // In one pass, so that values are not replaced again.
  const filled = (text: string): string =>
    text.replaceAll(/\{([^{}]*)\}/g, (written, key: string) => values.get(key) ?? written);
  const messages = prompt.messages.map(({ role, text }) => ({
    role,
    content: { type: "text", text: filled(text) },
  }));
  return withoutUndefined({ description: prompt.description, messages });
}

function invalid(message: string): ErrorAnswer {
  return new ErrorAnswer(errorCodes.invalidParams, message);
}

function textOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
