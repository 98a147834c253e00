import { isJsonObject } from "../formats/json.ts";
import type { JsonObject } from "../formats/model.ts";
import type { EventOf, TraceEvent } from "./events.ts";
import type { ToolCall } from "./trajectory.ts";

/**
 * What kind of failure a use of a tool ended with. `tool`: the tool ran and says that it failed (`isError`). `schema`: it was
 * refused before it ran, for a name or arguments that do not fit: no server has the tool, the arguments are no object, or the
 * server answers with JSON-RPC's "invalid params" (-32602). `timeout`: whoever called gave up, or the trial's time was over.
 * `protocol`: another JSON-RPC error, or no usable answer.
 */
export type ToolErrorKind = "tool" | "protocol" | "timeout" | "schema";

const invalidParams = -32602;

/** The kind of a recorded call's failure; undefined when it did not fail. `events` are those of the trial. */
export function toolErrorKind(call: ToolCall, events: readonly TraceEvent[]): ToolErrorKind | undefined {
  const { result, error, responseSeq } = call;
  if (result !== undefined) return result["isError"] === true ? "tool" : undefined;
  if (error?.kind === "rejected") return "schema";
  if (responseSeq !== undefined)
    return answeredCode(responseSeq, events) === invalidParams ? "schema" : "protocol";
  return call.fault === "drop" || isGivenUp(call, events) ? "timeout" : "protocol";
}

function answeredCode(seq: number, events: readonly TraceEvent[]): unknown {
  const answer = messageAt(seq, events)?.message;
  const error = isJsonObject(answer) ? answer["error"] : undefined;
  return isJsonObject(error) ? error["code"] : undefined;
}

function isGivenUp({ seq }: ToolCall, events: readonly TraceEvent[]): boolean {
  const request = messageAt(seq, events);
  const finished = events.findLast((event) => event.type === "trial.finished");
  if (finished?.outcome === "timeout") return true;
  const broke = finished?.outcome === "error" ? finished.error?.message : undefined;
  return events.some((event) => {
    if (event.type !== "mcp.message" || request === undefined) return false;
    const params = cancellation(event, request);
    // What broke the trial, such as a message that is too large, ended the call too: nobody had waited too long.
    const reason = params?.["reason"];
    const isBroken = broke !== undefined && typeof reason === "string" && reason.includes(broke);
    return params !== undefined && !isBroken;
  });
}

/** The params of a message that cancels a request. */
function cancellation(
  event: EventOf<"mcp.message">,
  request: EventOf<"mcp.message">,
): JsonObject | undefined {
  const { message } = event;
  if (event.server !== request.server || event.client !== request.client) return undefined;
  if (event.seq < request.seq || !isJsonObject(message)) return undefined;
  const { method, params } = message;
  if (method !== "notifications/cancelled" || !isJsonObject(params)) return undefined;
  return isJsonObject(request.message) && params["requestId"] === request.message["id"] ? params : undefined;
}

function messageAt(seq: number, events: readonly TraceEvent[]): EventOf<"mcp.message"> | undefined {
  return events.find(
    (event): event is EventOf<"mcp.message"> => event.seq === seq && event.type === "mcp.message",
  );
}
