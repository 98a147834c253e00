import type { JSONRPCMessage, RequestId } from "@modelcontextprotocol/client";
import { isJsonObject } from "../../core/formats/json.ts";
import type { JsonObject } from "../../core/formats/model.ts";
import { messageJson } from "../json-rpc.ts";

/** A request as filters look at it. */
export interface Request {
  readonly id: RequestId;
  readonly method: string;
  readonly params: JsonObject;
  /** The tool that it calls; absent when it calls none. */
  readonly tool?: string;
}

/** Reads a message as a request; undefined for a notification, an answer, and what has no usable id. */
export function requestOf(message: JSONRPCMessage): Request | undefined {
  if (!("method" in message && "id" in message)) return undefined;
  const { id, method } = message;
  if (!isId(id)) return undefined;
  const tool = calledTool(message);
  return { id, method, params: paramsOf(message), ...(tool === undefined ? {} : { tool }) };
}

/** The id that an answer belongs to; undefined for a message that is no answer. */
export function answeredId(message: JSONRPCMessage): RequestId | undefined {
  if ("method" in message || !("id" in message)) return undefined;
  return isId(message.id) ? message.id : undefined;
}

/** The id of the request that a notification takes back; undefined for any other message. */
export function cancelledId(message: JSONRPCMessage): RequestId | undefined {
  if (!("method" in message) || message.method !== "notifications/cancelled") return undefined;
  const { requestId } = paramsOf(message);
  return isId(requestId) ? requestId : undefined;
}

/** The result of an answer; undefined where there is none, or none that is an object. */
export function resultOf(message: JSONRPCMessage): JsonObject | undefined {
  const json = messageJson(message);
  const result = isJsonObject(json) ? json["result"] : undefined;
  return isJsonObject(result) ? result : undefined;
}

/** The tool that a message calls, whether it has an id or not; undefined when it calls none. */
export function calledTool(message: JSONRPCMessage): string | undefined {
  if (!("method" in message) || message.method !== "tools/call") return undefined;
  const { name } = paramsOf(message);
  return typeof name === "string" ? name : undefined;
}

/** The same answer with another result. */
export function withResult(message: JSONRPCMessage, result: JsonObject): JSONRPCMessage {
  return { ...message, result };
}

function paramsOf(message: JSONRPCMessage): JsonObject {
  const json = messageJson(message);
  const params = isJsonObject(json) ? json["params"] : undefined;
  return isJsonObject(params) ? params : {};
}

function isId(value: unknown): value is RequestId {
  return typeof value === "string" || typeof value === "number";
}
