import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { isJsonObject } from "../../core/formats/json.ts";
import { repeatedKey } from "../../core/formats/read-json.ts";
import { shortened } from "../../core/text/visible-text.ts";
import {
  type BodyMessages,
  errorCodes,
  messageJson,
  requestOf,
  type WireMessage,
} from "../messages/json-rpc.ts";
import { decodedHeader, namedMember } from "../messages/mcp-headers.ts";
import type { HttpExchange } from "./endpoint.ts";

export interface RequestProblem {
  readonly code: number;
  readonly message: string;
}

/** Why a server may read the body of a request in another way than we do; undefined when it cannot. */
export function requestProblem(
  { request, body }: Pick<HttpExchange, "request" | "body">,
  messages: BodyMessages,
): RequestProblem | undefined {
  if (body.length === 0) return undefined;
  if (!isUtf8(body)) return { code: errorCodes.parse, message: "Parse error: the body is not UTF-8" };
  const types = request.headersDistinct["content-type"] ?? [];
  if (types.length > 1 || types.some((type) => !/^application\/json\s*(?:;|$)/i.test(type.trim())))
    return { code: errorCodes.parse, message: "Parse error: the content-type is not application/json" };
  return headerProblem(request, messages);
}

/** Since 2026-07-28 headers repeat what the body says, so that servers and what stands before them can go by either. */
function headerProblem(
  { headersDistinct }: IncomingMessage,
  messages: BodyMessages,
): RequestProblem | undefined {
  const said = messages.kind === "message" ? messages.wire.message : undefined;
  const method = said === undefined || !("method" in said) ? undefined : said.method;
  const member = said === undefined ? undefined : namedMember(said);
  const isWrong =
    differs(headersDistinct["mcp-method"], method) ||
    differs(headersDistinct["mcp-name"]?.map(decodedHeader), member === undefined ? undefined : member);
  if (!isWrong) return undefined;
  const id = said === undefined ? undefined : requestOf(said)?.id;
  const which = id === undefined ? "" : ` (id ${JSON.stringify(id)})`;
  return {
    code: errorCodes.headerMismatch,
    message: `Header mismatch: mcp-method or mcp-name is not what the body says${which}`,
  };
}

function differs(values: readonly string[] | undefined, said: string | undefined): boolean {
  return values !== undefined && (values.length !== 1 || values[0] !== said);
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
