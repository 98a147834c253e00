import { resultProblem, resultText } from "../checks/result-text.ts";
import { isJsonObject } from "../formats/json.ts";
import type { Json, JsonObject } from "../formats/model.ts";
import type { EventOf, TraceEvent } from "./events.ts";
import type { CallError } from "./trajectory.ts";

/** Something that the agent asked a server for. */
export interface AgentCall {
  readonly type: "tool" | "resource" | "prompt";
  readonly server: string;
  /** Name of the tool or prompt, or URI of the resource. */
  readonly name: string;
  /** Arguments; an empty object when there are none. */
  readonly args: Json;
  /** Number of the request's event. */
  readonly seq: number;
  /** In what words it failed, or that it has no answer; absent: it succeeded. */
  readonly failure?: string;
  /** A fault was injected that takes the answer away. */
  readonly faulted?: true;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** What an agent asked of its servers. */
export interface AgentCalls {
  /** Number of the event with which the agent's phase began; undefined when no agent took part. */
  readonly started: number | undefined;
  /** In the order in which they were asked for. */
  readonly calls: readonly AgentCall[];
}

/**
 * Reads what the agent itself asked for, with how it ended: requests on the wire in its phase, those of steps left out. One
 * without a usable id can have no answer, and one that was given up has none.
 */
export function agentCalls(events: readonly TraceEvent[]): AgentCalls {
  const calls: Mutable<AgentCall>[] = [];
  /** The newest call of each request id. */
  const byId = new Map<string, Mutable<AgentCall>>();
  /** Those that wait for their answer. */
  const open = new Map<string, Mutable<AgentCall>>();
  let started: number | undefined;
  let inside = false;
  for (const event of events) {
    if (event.type === "phase.started" && event.phase === "agent") {
      inside = true;
      started ??= event.seq;
    } else if (event.type === "phase.finished" && event.phase === "agent") inside = false;
    else if (event.type === "mcp.message" && event.direction === "server-to-client") {
      const answer = readAnswer(event.message);
      const call = answer === undefined ? undefined : open.get(callKey(event, answer.id));
      if (answer === undefined || call === undefined) continue;
      open.delete(callKey(event, answer.id));
      delete call.failure;
      const failure =
        event.malformed === undefined
          ? failureOf(call.type, answer)
          : `the answer is malformed: ${event.malformed}`;
      if (failure !== undefined) call.failure = failure;
    } else if (inside && event.type === "mcp.message") {
      const cancelled = cancelledId(event.message);
      if (cancelled !== undefined) open.delete(callKey(event, cancelled));
      const read = readCall(event.message);
      if (read === undefined) continue;
      const { id, ...asked } = read;
      const failure = "there was no answer";
      const call: Mutable<AgentCall> = { ...asked, server: event.server, seq: event.seq, failure };
      calls.push(call);
      if (id === undefined) continue;
      byId.set(callKey(event, id), call);
      open.set(callKey(event, id), call);
    } else if (inside && event.type === "fault.injected" && event.fault !== "delay") {
      const call = byId.get(callKey(event, event.id));
      if (call !== undefined) call.faulted = true;
    }
  }
  return { started, calls };
}

const methods: ReadonlyMap<Json | undefined, AgentCall["type"]> = new Map([
  ["tools/call", "tool"],
  ["resources/read", "resource"],
  ["prompts/get", "prompt"],
]);

interface ReadCall extends Pick<AgentCall, "type" | "name" | "args"> {
  readonly id: string | number | undefined;
}

function readCall(message: Json): ReadCall | undefined {
  if (!isJsonObject(message)) return undefined;
  const type = methods.get(message["method"]);
  if (type === undefined) return undefined;
  const id =
    typeof message["id"] === "string" || typeof message["id"] === "number" ? message["id"] : undefined;
  const params: JsonObject = isJsonObject(message["params"]) ? message["params"] : {};
  const name = params[type === "resource" ? "uri" : "name"];
  return { id, type, name: typeof name === "string" ? name : "", args: params["arguments"] ?? {} };
}

interface ReadAnswer {
  readonly id: string | number;
  readonly result: Json | undefined;
  readonly error: Json | undefined;
}

function readAnswer(message: Json): ReadAnswer | undefined {
  if (!isJsonObject(message) || "method" in message) return undefined;
  const { id, result, error } = message;
  if (typeof id !== "string" && typeof id !== "number") return undefined;
  return { id, result, error };
}

function failureOf(type: AgentCall["type"], { result, error }: ReadAnswer): string | undefined {
  if (!isJsonObject(result)) return errorFailure(error);
  const { isError = false } = result;
  if (isError !== false) return resultText(result) || wordless;
  const problem = resultProblem(type, result);
  return problem === undefined ? undefined : `the answer is unusable: ${problem}`;
}

function errorFailure(error: Json | undefined): string {
  const message = isJsonObject(error) ? error["message"] : undefined;
  return typeof message === "string" && message !== "" ? message : wordless;
}

const wordless = "it failed without a word";

/** The request that a message gives up. */
function cancelledId(message: Json): string | number | undefined {
  if (!isJsonObject(message) || message["method"] !== "notifications/cancelled") return undefined;
  const id = isJsonObject(message["params"]) ? message["params"]["requestId"] : undefined;
  return typeof id === "string" || typeof id === "number" ? id : undefined;
}

/** What a request and its answer have in common; each connection has ids of its own. */
export function callKey(
  { server, client = "" }: { readonly server: string; readonly client?: string },
  id: string | number,
): string {
  return `${server}\n${client}\n${typeof id}\n${id}`;
}

/** What the agent asked of servers, in the order of the requests. Times are ISO 8601. */
export interface CallHistory {
  readonly toolCalls: readonly {
    readonly serverName: string;
    readonly toolName: string;
    readonly arguments: Json;
    /** The `CallToolResult`, or `{error: message}` when there was none. */
    readonly result: Json;
    readonly timestamp: string;
  }[];
  readonly resourceReads: readonly {
    readonly serverName: string;
    readonly uri: string;
    readonly result: Json;
    readonly timestamp: string;
  }[];
  readonly promptGets: readonly {
    readonly serverName: string;
    readonly promptName: string;
    readonly arguments: Json;
    readonly result: Json;
    readonly timestamp: string;
  }[];
}

/** Reads from a trial's events what its agent called; calls of steps are left out. */
export function callHistory(events: readonly TraceEvent[]): CallHistory {
  const reader = new HistoryReader();
  for (const event of events) reader.read(event);
  return reader.finish();
}

/** A request of the agent. */
interface Asked {
  readonly server: string;
  readonly method: string;
  readonly params: JsonObject;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  answer?: Json;
}

const recordedMethods: ReadonlySet<string> = new Set(["tools/call", "resources/read", "prompts/get"]);

/** Accumulates one pass over the events; lives only while a history is read. */
class HistoryReader {
  readonly #asked: Asked[] = [];
  /** Requests that have no answer yet. */
  readonly #open = new Map<string, Asked>();
  #inAgentPhase = false;

  read(event: TraceEvent): void {
    if (event.type === "phase.started" && event.phase === "agent") this.#inAgentPhase = true;
    if (event.type === "phase.finished" && event.phase === "agent") this.#inAgentPhase = false;
    if (event.type === "mcp.message" && isJsonObject(event.message)) this.#readMessage(event, event.message);
  }

  finish(): CallHistory {
    return {
      toolCalls: this.#of("tools/call").map(({ params, ...call }) => ({
        serverName: call.server,
        toolName: textOf(params["name"]),
        arguments: params["arguments"] ?? {},
        ...answerOf(call),
      })),
      resourceReads: this.#of("resources/read").map(({ params, ...call }) => ({
        serverName: call.server,
        uri: textOf(params["uri"]),
        ...answerOf(call),
      })),
      promptGets: this.#of("prompts/get").map(({ params, ...call }) => ({
        serverName: call.server,
        promptName: textOf(params["name"]),
        arguments: params["arguments"] ?? {},
        ...answerOf(call),
      })),
    };
  }

  #of(method: string): readonly Asked[] {
    return this.#asked.filter((call) => call.method === method);
  }

  #readMessage(event: EventOf<"mcp.message">, message: JsonObject): void {
    const { id, method } = message;
    if (method === "notifications/cancelled") this.#giveUp(event, message["params"]);
    if (typeof id !== "string" && typeof id !== "number") return;
    const key = callKey(event, id);
    if (event.direction === "server-to-client") {
      if (method === undefined) this.#answer(key, event, message);
      return;
    }
    // A later request with the same id is another one.
    this.#open.delete(key);
    if (!this.#inAgentPhase || typeof method !== "string" || !recordedMethods.has(method)) return;
    const params = isJsonObject(message["params"]) ? message["params"] : {};
    const asked = { server: event.server, method, params, at: event.at };
    this.#asked.push(asked);
    this.#open.set(key, asked);
  }

  #answer(key: string, { malformed }: EventOf<"mcp.message">, message: JsonObject): void {
    const asked = this.#open.get(key);
    if (asked === undefined) return;
    this.#open.delete(key);
    const { result } = message;
    if (malformed !== undefined) asked.answer = { error: `the answer is malformed: ${malformed}` };
    else asked.answer = isJsonObject(result) ? result : { error: answeredError(message["error"]).message };
  }

  /** Who gave up on a call does not get an answer that comes later. */
  #giveUp(event: EventOf<"mcp.message">, params: Json | undefined): void {
    const id = isJsonObject(params) ? params["requestId"] : undefined;
    if (event.direction !== "client-to-server" || (typeof id !== "string" && typeof id !== "number")) return;
    this.#open.delete(callKey(event, id));
  }
}

function answerOf({ at, answer }: Pick<Asked, "at" | "answer">): {
  readonly result: Json;
  readonly timestamp: string;
} {
  return { result: answer ?? { error: "never answered" }, timestamp: new Date(at).toISOString() };
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

/** Why an answer without a result gave none. */
export function answeredError(error: Json | undefined): CallError {
  if (!isJsonObject(error)) {
    return { kind: "no-response", message: "the response has neither a result object nor an error" };
  }
  const code = typeof error["code"] === "number" ? ` (code ${error["code"]})` : "";
  const said = typeof error["message"] === "string" ? error["message"] : JSON.stringify(error);
  return { kind: "protocol", message: `${said}${code}` };
}
