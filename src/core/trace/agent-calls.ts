import { isJsonObject } from "../formats/json.ts";
import type { Json, JsonObject } from "../formats/model.ts";
import { callKey } from "./call-key.ts";
import type { TraceEvent } from "./events.ts";

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
  /** It was sent without a usable id, so that no answer shows whether the server heeded it. */
  readonly unanswerable?: true;
  /** A fault was injected that takes the answer away. */
  readonly spoilt?: true;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** What an agent asked of its servers. */
export interface AgentCalls {
  /** Number of the event with which the agent's phase began; undefined when no agent took part. */
  readonly started: number | undefined;
  /** In the order in which they were asked for. */
  readonly calls: readonly AgentCall[];
}

/** Reads what the agent itself asked for, however it ended: requests on the wire in its phase, those of steps left out. */
export function agentCalls(events: readonly TraceEvent[]): AgentCalls {
  const calls: Mutable<AgentCall>[] = [];
  /** The newest call of each request id. */
  const byId = new Map<string, Mutable<AgentCall>>();
  let started: number | undefined;
  let inside = false;
  for (const event of events) {
    if (event.type === "phase.started" && event.phase === "agent") {
      inside = true;
      started ??= event.seq;
    } else if (event.type === "phase.finished" && event.phase === "agent") inside = false;
    else if (inside && event.type === "mcp.message" && event.direction === "client-to-server") {
      const read = readCall(event.message);
      if (read === undefined) continue;
      const { id, ...asked } = read;
      const call: Mutable<AgentCall> = { ...asked, server: event.server, seq: event.seq };
      calls.push(call);
      if (id === undefined) call.unanswerable = true;
      else byId.set(callKey(event, id), call);
    } else if (inside && event.type === "fault.injected" && event.fault !== "delay") {
      const call = byId.get(callKey(event, event.id));
      if (call !== undefined) call.spoilt = true;
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
