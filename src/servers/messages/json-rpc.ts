import { maxMemory, maxMessageDepth, maxUnasked } from "../../base/limits.ts";
import { isUtf8 } from "node:buffer";
import { isDeepStrictEqual } from "node:util";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { createScanner, visit } from "jsonc-parser";
import { McpvalsError } from "../../base/error.ts";
import { isJsonObject, valueAt, withoutUndefined, type Json, type JsonObject } from "../../base/json.ts";
import { type JsonExcess, jsonToken, repeatedKey } from "../../base/read-json.ts";
import { shortened } from "../../base/visible-text.ts";
import type { EventOf } from "../../model/event.ts";

/** A JSON-RPC message together with its text, which is what is passed on: writing it again could change its bytes. */
export interface WireMessage {
  readonly message: JSONRPCMessage;
  /** JSON in one line. */
  readonly text: string;
  /** The text is what `JSON.stringify` makes of the message; absent: not known. */
  readonly isUsual?: true;
}

/** A message that this process writes. */
export function wireMessage(message: JSONRPCMessage): WireMessage {
  return { message, text: JSON.stringify(message), isUsual: true };
}

/** An error answer that this process writes. */
export function errorAnswer(id: MessageId, code: number, message: string): WireMessage {
  return wireMessage({ jsonrpc: "2.0", id, error: { code, message } });
}

/**
 * Reads one line as a JSON-RPC message; undefined if it is not one. It checks only what distinguishes a message from other output,
 * so that messages with invalid contents are recorded as messages.
 */
export function parseMessage(line: Buffer): WireMessage | undefined {
  if (!mayBeMessage(line)) return undefined;
  const text = line.toString("utf8");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isMessage(value)) return undefined;
  if (!isUtf8(line)) malformed.set(value, notUtf8);
  // The usual text has no repeated key, and comparing is faster than looking for one.
  else if (isUsualText(value, text)) return { message: value, text, isUsual: true };
  else if (!("method" in value)) {
    const key = repeatedKey(text);
    if (key !== undefined) malformed.set(value, `it has the key ${JSON.stringify(shortened(key, 80))} twice`);
  }
  return { message: value, text };
}

const openingBrace = 0x7b;

/** Whether a line begins as a message does: cheaper than a failing `JSON.parse`, for floods of other output. */
export function mayBeMessage(line: Buffer): boolean {
  return line.find((byte) => byte !== 0x20 && byte !== 0x09) === openingBrace;
}

function isMessage(value: unknown): value is JSONRPCMessage {
  if (typeof value !== "object" || value === null) return false;
  if (!("jsonrpc" in value) || value.jsonrpc !== "2.0") return false;
  return "method" in value ? typeof value.method === "string" : "result" in value || "error" in value;
}

/** MCP specification, "Transports": messages are UTF-8. */
const notUtf8 = "its bytes are not UTF-8";

/** Whether a message is written so; also of one that is too deep for that, which is refused for its depth. */
function isUsualText(message: JSONRPCMessage, text: string): boolean {
  try {
    return text === JSON.stringify(message);
  } catch {
    return true;
  }
}

/** What is wrong with the texts of messages, by identity, since the parsed message does not show it any more. */
const malformed = new WeakMap<object, string>();

/** What is wrong with the text of a message; undefined: nothing. */
export function malformationOf(message: JSONRPCMessage): string | undefined {
  return malformed.get(message);
}

/** Messages that came in an array, by identity. */
const inArrays = new WeakSet<object>();

/** Notes that messages came in one array, where one object answers a request. */
export function noteArray(wires: readonly WireMessage[]): void {
  for (const { message } of wires) inArrays.add(message);
}

export function cameInArray(message: JSONRPCMessage): boolean {
  return inArrays.has(message);
}

/** A message as plain JSON. */
export function messageJson(message: JSONRPCMessage): Json {
  return message as unknown as Json;
}

/** A message of a server as an event has it: with its text where that says more, and with what is malformed about it. */
export function recordedMessage({
  message,
  text,
  isUsual,
}: WireMessage): Pick<EventOf<"mcp.message">, "message" | "raw" | "malformed"> {
  const malformed = malformationOf(message);
  const raw = isUsual || isUsualText(message, text) ? undefined : text;
  return withoutUndefined({ message: messageJson(message), raw, malformed });
}

// What a message says.

/** The id of a request and its answer, or a progress token. */
export type MessageId = string | number;

/** The kind of a message, by its shape; one with a method and an invalid id is a notification. */
export function kindOf(message: JSONRPCMessage): "request" | "notification" | "answer" {
  if (!("method" in message)) return "answer";
  return idAt(message, ["id"]) === undefined ? "notification" : "request";
}

export function methodOf(message: JSONRPCMessage): string | undefined {
  return "method" in message ? message.method : undefined;
}

/** The id or token at a path of keys. */
export function idAt(message: JSONRPCMessage, path: readonly string[]): MessageId | undefined {
  const value = valueAt(message, path);
  return typeof value === "string" || typeof value === "number" ? value : undefined;
}

export interface Request {
  readonly id: MessageId;
  readonly method: string;
  readonly params: JsonObject;
  /** The tool that it calls; absent when it calls none. */
  readonly tool?: string;
}

/** Reads a message as a request; undefined for a notification, an answer, and a message without a valid id. */
export function requestOf(message: JSONRPCMessage): Request | undefined {
  const id = idAt(message, ["id"]);
  const method = methodOf(message);
  if (id === undefined || method === undefined) return undefined;
  const tool = calledTool(message);
  const params = valueAt(message, ["params"]) as Json;
  return { id, method, params: isJsonObject(params) ? params : {}, ...(tool === undefined ? {} : { tool }) };
}

/** The id that an answer belongs to; undefined for other messages. */
export function answeredId(message: JSONRPCMessage): MessageId | undefined {
  return kindOf(message) === "answer" ? idAt(message, ["id"]) : undefined;
}

/** The id of the request that a notification cancels; undefined for other messages. */
export function cancelledId(message: JSONRPCMessage): MessageId | undefined {
  return methodOf(message) === "notifications/cancelled" ? idAt(message, ["params", "requestId"]) : undefined;
}

/** The result of an answer; undefined where there is none, or it is not an object. */
export function resultOf(message: JSONRPCMessage): JsonObject | undefined {
  const result = valueAt(message, ["result"]) as Json | undefined;
  return isJsonObject(result) ? result : undefined;
}

/** The same answer with another result. */
export function withResult(message: JSONRPCMessage, result: JsonObject): WireMessage {
  return wireMessage({ ...message, result });
}

/** The tool that a message calls, whether it has an id or not; undefined when it calls none. */
export function calledTool(message: JSONRPCMessage): string | undefined {
  const name = methodOf(message) === "tools/call" ? valueAt(message, ["params", "name"]) : undefined;
  return typeof name === "string" ? name : undefined;
}

// Versions of the protocol.

/** `legacy` begins with `initialize`; `modern` (2026-07-28) has no handshake, and every request names its version. */
export type Era = "legacy" | "modern";

/** The version that a message itself names, as every request of 2026-07-28 does; undefined for an older one. */
export function versionIn(message: JSONRPCMessage): string | undefined {
  const version = valueAt(message, ["params", "_meta", "io.modelcontextprotocol/protocolVersion"]);
  return typeof version === "string" ? version : undefined;
}

/** The era that a client's message belongs to; undefined for one that could belong to either. */
export function eraOf(message: JSONRPCMessage): Era | undefined {
  if (kindOf(message) !== "request") return undefined;
  if (versionIn(message) !== undefined || methodOf(message) === "server/discover") return "modern";
  return methodOf(message) === "initialize" ? "legacy" : undefined;
}

// Bodies of HTTP requests and responses.

/** The messages in an HTTP body or a server-sent event. */
export interface BodyMessages {
  /** `batch`: an array of messages, as older versions of the protocol allow; `other`: no messages. */
  readonly kind: "message" | "batch" | "other";
  readonly wires: readonly WireMessage[];
}

/** Reads the JSON-RPC messages in a text, each with its own text. Never throws. */
export function readBody(text: string): BodyMessages {
  const trimmed = trimmedJson(text);
  const isBatch = trimmed.startsWith("[");
  const texts = isBatch ? (isJson(trimmed) ? itemsOf(trimmed) : []) : [trimmed];
  const wires = texts.flatMap((each) => readMessage(each) ?? []);
  if (wires.length === 0 || wires.length < texts.length) return { kind: "other", wires: [] };
  return { kind: isBatch ? "batch" : "message", wires };
}

/** The same for bytes; messages in bytes that are not UTF-8 are malformed. */
export function readBytes(bytes: Buffer, text: string = bytes.toString("utf8")): BodyMessages {
  const body = readBody(text);
  if (!isUtf8(bytes)) for (const { message } of body.wires) malformed.set(message, notUtf8);
  return body;
}

function readMessage(text: string): WireMessage | undefined {
  const parsed = parseMessage(Buffer.from(text));
  return parsed === undefined ? undefined : { ...parsed, text: inOneLine(text) };
}

/** Without a byte order mark and the white space of JSON around the text. */
function trimmedJson(text: string): string {
  const [before] = /^\uFEFF?[ \t\r\n]*/.exec(text) ?? [""];
  let end = text.length;
  while (end > before.length && " \t\r\n".includes(text.charAt(end - 1))) end -= 1;
  return text.slice(before.length, end);
}

/** JSON has line breaks only between tokens, where a space means the same. */
export function inOneLine(json: string): string {
  return /[\r\n]/.test(json) ? json.replaceAll(/\r\n|\r|\n/g, " ") : json;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The texts of an array's items; the text has to be valid JSON. */
function itemsOf(array: string): string[] {
  const scanner = createScanner(array, true);
  const items: string[] = [];
  let depth = 0;
  let start = 1;
  for (let token: number = scanner.scan(); token !== jsonToken.endOfText; token = scanner.scan()) {
    if (token === jsonToken.openBrace || token === jsonToken.openBracket) depth += 1;
    else if (token === jsonToken.closeBrace || token === jsonToken.closeBracket) depth -= 1;
    if ((token === jsonToken.comma && depth === 1) || depth === 0) {
      items.push(trimmedJson(array.slice(start, scanner.getTokenOffset())));
      start = scanner.getTokenOffset() + 1;
    }
  }
  return items;
}

/** The same message with another id or token at a path, and every other character of the text unchanged. */
export function withIdAt(wire: WireMessage, path: readonly string[], id: MessageId): WireMessage {
  if (idAt(wire.message, path) === id) return wire;
  const text = replaceInJson(wire.text, path, JSON.stringify(id));
  const message = JSON.parse(text) as JSONRPCMessage;
  const problem = malformed.get(wire.message);
  if (problem !== undefined) malformed.set(message, problem);
  return { message, text };
}

/**
 * Replaces the text, number or other plain value at a path of keys, and leaves every other character unchanged; gives the same
 * text when there is no such value. Of repeated keys the last one counts, as for `JSON.parse`. The text has to be valid JSON.
 */
export function replaceInJson(text: string, path: readonly string[], json: string): string {
  let isNamed = false;
  let found: { readonly start: number; readonly end: number } | undefined;
  visit(text, {
    onObjectProperty: (key) => (isNamed = key === path.at(-1)),
    onLiteralValue: (_value, start, length, _line, _column, pathOf) => {
      const isThere = isNamed && isDeepStrictEqual(pathOf(), path);
      if (isThere) found = { start, end: start + length };
      isNamed = false;
    },
  });
  return found === undefined ? text : text.slice(0, found.start) + json + text.slice(found.end);
}

// Headers that repeat, over HTTP and since 2026-07-28, what a request says, so that proxies can route by them.

/** The member of a request's params that the `mcp-name` header repeats, by method. */
const named: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
  "tasks/get": "taskId",
  "tasks/update": "taskId",
  "tasks/cancel": "taskId",
};

/** Whether a server may get a request twice: it begins a session, or only asks what there is. */
export function isRepeatable(message: JSONRPCMessage): boolean {
  const method = requestOf(message)?.method ?? "";
  return ["initialize", "server/discover", "ping"].includes(method) || method.endsWith("/list");
}

/** The headers that repeat what a message says; none for a notification and for an older request. */
export function messageHeaders(message: JSONRPCMessage): Readonly<Record<string, string>> {
  const version = versionIn(message);
  const method = requestOf(message)?.method;
  if (version === undefined || method === undefined) return {};
  const name = namedMember(message);
  return {
    "mcp-protocol-version": version,
    "mcp-method": method,
    ...(name === undefined ? {} : { "mcp-name": headerValue(name) }),
  };
}

/** What the `mcp-name` header of a request repeats; undefined for one that has none. */
export function namedMember(message: JSONRPCMessage): string | undefined {
  const method = methodOf(message) ?? "";
  const member = Object.hasOwn(named, method) ? named[method] : undefined;
  const name = member === undefined ? undefined : valueAt(message, ["params", member]);
  return typeof name === "string" ? name : undefined;
}

/** What may be the name of an HTTP header (RFC 9110, token). */
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** The `Mcp-Param-NAME` headers of a call: the arguments whose schema has `x-mcp-header`. Servers refuse a call without them. */
export function paramHeaders(inputSchema: JsonObject, args: JsonObject): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  const { properties } = inputSchema;
  for (const [key, schema] of Object.entries(isJsonObject(properties) ? properties : {})) {
    const value = Object.hasOwn(args, key) ? args[key] : undefined;
    if (!isJsonObject(schema)) continue;
    const name = schema["x-mcp-header"];
    const text = textOf(value);
    if (typeof name === "string" && headerName.test(name) && text !== undefined)
      headers[`Mcp-Param-${name}`] = headerValue(text);
    if (isJsonObject(value)) Object.assign(headers, paramHeaders(schema, value));
  }
  return headers;
}

function textOf(value: Json | undefined): string | undefined {
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return String(value);
  const isPrecise = typeof value === "number" && (!Number.isInteger(value) || Number.isSafeInteger(value));
  return isPrecise ? String(value) : undefined;
}

/** What a header can carry as it is: printable ASCII without blanks at its ends. */
const plainValue = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;
const encodedValue = /^=\?base64\?(.*)\?=$/i;

function headerValue(text: string): string {
  return plainValue.test(text) && !encodedValue.test(text)
    ? text
    : `=?base64?${Buffer.from(text, "utf8").toString("base64")}?=`;
}

/** The text that a header carries. */
export function decodedHeader(value: string): string {
  const [, base64] = encodedValue.exec(value) ?? [];
  return base64 === undefined ? value : Buffer.from(base64, "base64").toString("utf8");
}

// Limits.

/** What a request counts: each keeps an answer in memory until the server reads it. */
const requestWeight = 10;

/** Counts the messages that one connection receives from a server; gives the error for one too many. */
export function createReceiveLimits(server: string): (message: JSONRPCMessage) => McpvalsError | undefined {
  let unasked = 0;
  return (message) => {
    if ("method" in message) unasked += "id" in message ? requestWeight : 1;
    if (unasked <= maxUnasked) return undefined;
    return new McpvalsError(
      "server/protocol-error",
      `server "${server}" sent more than ${maxUnasked} notifications, or ${maxUnasked / requestWeight} requests, in one trial`,
      { hint: "Check whether it logs in a loop. Every message is kept in memory and in the journal." },
    );
  };
}

/** The error for a message that is too deep or too expensive to parse. */
export function excessive(server: string, excess: JsonExcess): McpvalsError {
  if (excess === "deep")
    return new McpvalsError(
      "server/protocol-error",
      `server "${server}" sent a message nested more than ${maxMessageDepth} levels deep`,
      { hint: "Answer with flatter data; most clients cannot handle more." },
    );
  return new McpvalsError(
    "server/message-too-large",
    `server "${server}" sent a message of so many values that it would take more than ${maxMemory / 1024 / 1024} MiB of memory`,
    { hint: "Answer with less: with fewer lists, objects and numbers." },
  );
}

/** The error for a message longer than the limit of a server, in bytes. */
export function messageTooLarge(server: string, limit: number): McpvalsError {
  return new McpvalsError(
    "server/message-too-large",
    `server "${server}" sent a message of more than ${limit} bytes`,
    { hint: "Answer with less, or raise maxMessageBytes for that server." },
  );
}
