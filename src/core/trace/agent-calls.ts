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
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  /** What came back; absent: nothing, or nothing before the agent gave up. */
  readonly answer?: Answer;
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
  /** Calls without an answer. */
  const open = new Map<string, Mutable<AgentCall>>();
  let started: number | undefined;
  let inside = false;
  for (const event of events) {
    if (event.type === "phase.started" && event.phase === "agent") {
      inside = true;
      started ??= event.seq;
    } else if (event.type === "phase.finished" && event.phase === "agent") inside = false;
    else if (event.type === "fault.injected" && event.fault !== "delay" && inside) {
      const call = byId.get(callKey(event, event.id));
      if (call !== undefined) call.faulted = true;
    } else if (event.type === "mcp.message" && isJsonObject(event.message)) {
      const { message } = event;
      const id = idOf(message["id"]);
      const key = id === undefined ? undefined : callKey(event, id);
      if (event.direction === "server-to-client") {
        const call = key === undefined || "method" in message ? undefined : open.get(key);
        if (key === undefined || call === undefined) continue;
        open.delete(key);
        delete call.failure;
        call.answer = readAnswer(event, message);
        const failure = failureOf(call.type, call.answer);
        if (failure !== undefined) call.failure = failure;
        continue;
      }
      const cancelled = cancelledId(message);
      if (cancelled !== undefined) open.delete(callKey(event, cancelled));
      // A later request with the same id is another one.
      if (key !== undefined && "method" in message) open.delete(key);
      const asked = inside ? readRequest(message) : undefined;
      if (asked === undefined) continue;
      const { server, seq, at } = event;
      const call: Mutable<AgentCall> = { ...asked, server, seq, at, failure: "there was no answer" };
      calls.push(call);
      if (key === undefined) continue;
      byId.set(key, call);
      open.set(key, call);
    }
  }
  return { started, calls };
}

const methods: ReadonlyMap<Json | undefined, AgentCall["type"]> = new Map([
  ["tools/call", "tool"],
  ["resources/read", "resource"],
  ["prompts/get", "prompt"],
]);

function readRequest(message: JsonObject): Pick<AgentCall, "type" | "name" | "args"> | undefined {
  const type = methods.get(message["method"]);
  if (type === undefined) return undefined;
  const params: JsonObject = isJsonObject(message["params"]) ? message["params"] : {};
  const name = params[type === "resource" ? "uri" : "name"];
  return { type, name: typeof name === "string" ? name : "", args: params["arguments"] ?? {} };
}

function idOf(id: Json | undefined): string | number | undefined {
  return typeof id === "string" || typeof id === "number" ? id : undefined;
}

/** The parts of a response that say how a request ended. */
interface Answer {
  readonly result: Json | undefined;
  readonly error: Json | undefined;
  /** What is malformed about the message. */
  readonly malformed: string | undefined;
}

function readAnswer({ malformed }: EventOf<"mcp.message">, { result, error }: JsonObject): Answer {
  return { result, error, malformed };
}

function failureOf(type: AgentCall["type"], { result, error, malformed }: Answer): string | undefined {
  if (malformed !== undefined) return `the answer is malformed: ${malformed}`;
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

/** The request that a message cancels. */
function cancelledId({ method, params }: JsonObject): string | number | undefined {
  if (method !== "notifications/cancelled" || !isJsonObject(params)) return undefined;
  return idOf(params["requestId"]);
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
  const { calls } = agentCalls(events);
  const ofType = (type: AgentCall["type"]): readonly AgentCall[] =>
    calls.filter((call) => call.type === type);
  return {
    toolCalls: ofType("tool").map((call) => ({
      serverName: call.server,
      toolName: call.name,
      arguments: call.args,
      ...outcomeOf(call),
    })),
    resourceReads: ofType("resource").map((call) => ({
      serverName: call.server,
      uri: call.name,
      ...outcomeOf(call),
    })),
    promptGets: ofType("prompt").map((call) => ({
      serverName: call.server,
      promptName: call.name,
      arguments: call.args,
      ...outcomeOf(call),
    })),
  };
}

function outcomeOf({ at, answer }: AgentCall): { readonly result: Json; readonly timestamp: string } {
  return { result: resultOf(answer), timestamp: new Date(at).toISOString() };
}

function resultOf(answer: Answer | undefined): Json {
  if (answer === undefined) return { error: "never answered" };
  const { result, error, malformed } = answer;
  if (malformed !== undefined) return { error: `the answer is malformed: ${malformed}` };
  return isJsonObject(result) ? result : { error: answeredError(error).message };
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
