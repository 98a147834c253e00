import { isJsonObject } from "../formats/json.ts";
import type { Json, JsonObject } from "../formats/model.ts";
import { callKey } from "./agent-calls.ts";
import { answeredError } from "./build-trajectory.ts";
import type { EventOf, TraceEvent } from "./events.ts";

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

const methods: ReadonlySet<string> = new Set(["tools/call", "resources/read", "prompts/get"]);

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
    if (!this.#inAgentPhase || typeof method !== "string" || !methods.has(method)) return;
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
