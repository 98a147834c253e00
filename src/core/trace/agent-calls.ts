import { isJsonObject } from "../formats/json.ts";
import type { Json, JsonObject } from "../formats/model.ts";
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
}

/** What an agent asked of its servers. */
export interface AgentCalls {
  /** Number of the event with which the agent's phase began; undefined when no agent took part. */
  readonly started: number | undefined;
  /** In the order in which they were asked for. */
  readonly calls: readonly AgentCall[];
}

/** Reads what the agent itself asked for, however it ended: requests on the wire in its phase, those of steps left out. */
export function agentCalls(events: readonly TraceEvent[]): AgentCalls {
  const calls: AgentCall[] = [];
  let started: number | undefined;
  let inside = false;
  for (const event of events) {
    if (event.type === "phase.started" && event.phase === "agent") {
      inside = true;
      started ??= event.seq;
    } else if (event.type === "phase.finished" && event.phase === "agent") inside = false;
    else if (inside && event.type === "mcp.message" && event.direction === "client-to-server") {
      const call = readCall(event.message);
      if (call !== undefined) calls.push({ ...call, server: event.server, seq: event.seq });
    }
  }
  return { started, calls };
}

const methods: Readonly<Record<string, AgentCall["type"]>> = {
  "tools/call": "tool",
  "resources/read": "resource",
  "prompts/get": "prompt",
};

function readCall(message: Json): Pick<AgentCall, "type" | "name" | "args"> | undefined {
  if (!isJsonObject(message)) return undefined;
  const { id, method } = message;
  const type = typeof method === "string" ? methods[method] : undefined;
  if (type === undefined || (typeof id !== "string" && typeof id !== "number")) return undefined;
  const params: JsonObject = isJsonObject(message["params"]) ? message["params"] : {};
  const name = params[type === "resource" ? "uri" : "name"];
  return { type, name: typeof name === "string" ? name : "", args: params["arguments"] ?? {} };
}
