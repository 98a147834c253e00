import type { JSONRPCMessage, RequestId } from "@modelcontextprotocol/client";
import { isJsonObject } from "../../core/formats/json.ts";
import type { JsonObject } from "../../core/formats/model.ts";
import { repeatedKey } from "../../core/formats/read-json.ts";
import { shortened } from "../../core/text/shortened.ts";
import { messageJson } from "../json-rpc.ts";
import type { WireMessage } from "../wire.ts";

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

/** Members of messages, and those of their `params`, that decide what a message does. */
const messageKeys = ["jsonrpc", "id", "method", "params", "result", "error"];
const paramKeys = ["name", "arguments", "uri", "cursor", "requestId", "progressToken", "taskId", "_meta"];
/** Methods that filters look for. */
const methods = ["tools/call", "tools/list"];

/**
 * Why a server may read a message in another way than a filter does; undefined when all read it in one way. Readers differ
 * on keys that are there twice, some take `Name` for `name`, some the end of a text at a zero byte.
 */
export function ambiguityOf({ message, text }: WireMessage): string | undefined {
  const json = messageJson(message);
  if (!isJsonObject(json)) return "it is no object";
  const repeated = repeatedKey(text);
  if (repeated !== undefined) return `the key ${shown(repeated)} is there twice`;
  const twin = twinOf(Object.keys(json), messageKeys);
  if (twin !== undefined) return twin;
  const { method, id, params } = json;
  if (typeof method !== "string") return undefined;
  if (params !== undefined && !isJsonObject(params)) return "its params are no object";
  return (
    methodProblem(method) ??
    idProblem(method, Object.hasOwn(json, "id") ? { id } : undefined) ??
    twinOf(Object.keys(params ?? {}), paramKeys) ??
    (method === "tools/call" ? nameProblem(params?.["name"]) : undefined)
  );
}

function methodProblem(method: string): string | undefined {
  if (!/^[\x21-\x7e]+$/.test(method)) return `its method ${shown(method)} is not all visible ASCII`;
  const near = methods.find((known) => known !== method && folded(known) === folded(method));
  return near === undefined ? undefined : `its method ${shown(method)} can be read as ${shown(near)}`;
}

/** What has no id that can be answered would be asked without being counted. */
function idProblem(method: string, given: { readonly id: unknown } | undefined): string | undefined {
  if (given === undefined)
    return method.startsWith("notifications/") ? undefined : `it is a request ${shown(method)} without an id`;
  return typeof given.id === "string" || typeof given.id === "number"
    ? undefined
    : "its id is neither a text nor a number";
}

function nameProblem(name: unknown): string | undefined {
  if (typeof name !== "string") return "the name of the tool is no text";
  const isPlain = name.isWellFormed() && !/\p{Cc}/u.test(name);
  return isPlain ? undefined : `the name of the tool has characters that are none: ${shown(name)}`;
}

/** A key that can be read as another one. */
function twinOf(keys: readonly string[], known: readonly string[]): string | undefined {
  const taken = new Map(known.map((key) => [folded(key), key]));
  for (const key of keys) {
    const other = taken.get(folded(key)) ?? key;
    if (other !== key) return `the key ${shown(key)} can be read as ${shown(other)}`;
    taken.set(folded(key), key);
  }
  return undefined;
}

/** As the most lenient reader compares: without regard to case, which turns `ſ` into `s`, and to width. */
function folded(text: string): string {
  return text.normalize("NFKC").toUpperCase().toLowerCase();
}

function shown(text: string): string {
  return JSON.stringify(shortened(text, 80));
}
