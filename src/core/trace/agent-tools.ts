import { isJsonObject } from "../formats/json.ts";
import type { Json } from "../formats/model.ts";
import type { TraceEvent } from "./events.ts";

/** What an agent tells of one use of a tool. */
export interface AgentTool {
  readonly callId: string;
  readonly turn: number;
  readonly name: string;
  readonly source: string;
  readonly tool?: string;
  readonly status: "started" | "completed" | "failed";
  readonly args?: Json;
  readonly result?: Json;
  readonly parentCallId?: string;
  /** Number of the event that told of it first. */
  readonly seq: number;
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
  readonly endedAt?: number;
}

/** Joins what an agent tells of its uses of tools, in the order in which they began. Later news of a use wins. */
export function agentTools(events: readonly TraceEvent[]): readonly AgentTool[] {
  const tools = new Map<string, AgentTool>();
  for (const event of events) {
    if (event.type !== "agent.tool") continue;
    const { type: _type, trial: _trial, seq, at, ...told } = event;
    const before = tools.get(event.callId);
    tools.set(event.callId, {
      ...before,
      ...told,
      // An empty object is how some agents begin to tell of arguments that they do not have yet.
      ...(before?.args !== undefined && isEmpty(told.args) ? { args: before.args } : {}),
      seq: before?.seq ?? seq,
      startedAt: before?.startedAt ?? at,
      ...(event.status === "started" ? {} : { endedAt: at }),
    });
  }
  return [...tools.values()];
}

function isEmpty(args: Json | undefined): boolean {
  return args === undefined || (isJsonObject(args) && Object.keys(args).length === 0);
}
