import { isUtf8 } from "node:buffer";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { createScanner } from "jsonc-parser";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { repeatedKey } from "../../core/formats/read-json.ts";
import { shortened } from "../../core/text/visible-text.ts";

/** JSON-RPC's and MCP's error codes. */
export const errorCodes = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
  server: -32000,
  sessionNotFound: -32001,
  resourceNotFound: -32002,
  headerMismatch: -32020,
  unsupportedVersion: -32022,
} as const;

/** A JSON-RPC message together with its text, which is what is passed on: writing it again could change its bytes. */
export interface WireMessage {
  readonly message: JSONRPCMessage;
  /** JSON in one line. */
  readonly text: string;
}

/** A message that this process writes. */
export function wireMessage(message: JSONRPCMessage): WireMessage {
  return { message, text: JSON.stringify(message) };
}

/** An error answer that this process writes. */
export function errorAnswer(id: MessageId, code: number, message: string): WireMessage {
  return wireMessage({ jsonrpc: "2.0", id, error: { code, message } });
}

/**
 * Reads one line as a JSON-RPC message; undefined if it is not one. It checks only what tells a message from other output,
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
  const problem = isUtf8(line) ? repeatedKeyIn(value, text) : notUtf8;
  if (problem !== undefined) markMalformed(value, problem);
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

/** Parsers differ on which of two equal keys counts, so an answer with one is no evidence. */
function repeatedKeyIn(message: JSONRPCMessage, text: string): string | undefined {
  // The usual text has no repeated key, and comparing is faster than looking for one.
  if ("method" in message || text === JSON.stringify(message)) return undefined;
  const key = repeatedKey(text);
  return key === undefined ? undefined : `it has the key ${JSON.stringify(shortened(key, 80))} twice`;
}

/** By identity, since the parsed message does not show it any more. */
const malformed = new WeakMap<object, string>();

/** Notes what is wrong with the text of a message, which readers may read in different ways. */
export function markMalformed(message: JSONRPCMessage, problem: string): void {
  malformed.set(message, problem);
}

/** What is wrong with the text of a message; undefined: nothing. */
export function malformationOf(message: JSONRPCMessage): string | undefined {
  return malformed.get(message);
}

/** A message as plain JSON. */
export function messageJson(message: JSONRPCMessage): Json {
  return message as unknown as Json;
}

// What a message says.

/** The id of a request and its answer, or a progress token. */
export type MessageId = string | number;

export type MessageKind = "request" | "notification" | "answer";

/** The kind of a message, by its shape; one with a method and an invalid id is a notification. */
export function kindOf(message: JSONRPCMessage): MessageKind {
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

/** The value at a path of keys; undefined when there is none. */
export function valueAt(message: JSONRPCMessage, path: readonly string[]): unknown {
  let value: unknown = message;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
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

/** The version of MCP that has no `initialize`. */
export const modernVersion = "2026-07-28";

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

/** Whether a request asks a server if it speaks an era at all. */
export function opensEra(message: JSONRPCMessage): boolean {
  const method = methodOf(message);
  return method === "server/discover" || method === "initialize";
}

// Bodies of HTTP requests and responses.

/** The messages in an HTTP body or a server-sent event. */
export type BodyMessages =
  | { readonly kind: "message"; readonly wire: WireMessage }
  /** An array of messages, as older versions of the protocol allow. */
  | { readonly kind: "batch"; readonly wires: readonly WireMessage[] }
  | { readonly kind: "other" };

/** Reads the JSON-RPC messages in a text, each with its own text. Never throws. */
export function readBody(text: string): BodyMessages {
  const trimmed = trimmedJson(text);
  if (!trimmed.startsWith("[")) {
    const wire = readMessage(trimmed);
    return wire === undefined ? { kind: "other" } : { kind: "message", wire };
  }
  if (!isJson(trimmed)) return { kind: "other" };
  const wires = itemsOf(trimmed).map(readMessage);
  const all = wires.filter((wire) => wire !== undefined);
  return all.length === wires.length && all.length > 0 ? { kind: "batch", wires: all } : { kind: "other" };
}

/** The same for bytes; messages in bytes that are not UTF-8 are malformed. */
export function readBytes(bytes: Buffer, text: string = bytes.toString("utf8")): BodyMessages {
  const body = readBody(text);
  if (!isUtf8(bytes)) for (const { message } of wiresOf(body)) markMalformed(message, notUtf8);
  return body;
}

/** All messages of a body. */
export function wiresOf(body: BodyMessages): readonly WireMessage[] {
  return body.kind === "message" ? [body.wire] : body.kind === "batch" ? body.wires : [];
}

function readMessage(text: string): WireMessage | undefined {
  const parsed = parseMessage(Buffer.from(text));
  return parsed === undefined ? undefined : { message: parsed.message, text: inOneLine(text) };
}

const spaces = " \t\r\n";

/** Without a byte order mark and the white space of JSON around the text. */
function trimmedJson(text: string): string {
  let start = text.startsWith("\uFEFF") ? 1 : 0;
  let end = text.length;
  while (start < end && spaces.includes(text.charAt(start))) start += 1;
  while (end > start && spaces.includes(text.charAt(end - 1))) end -= 1;
  return text.slice(start, end);
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
  const next = (): number => scanner.scan();
  for (let token = next(); token !== jsonToken.endOfText; token = next()) {
    if (token === jsonToken.openBrace || token === jsonToken.openBracket) depth += 1;
    else if (token === jsonToken.closeBrace || token === jsonToken.closeBracket) depth -= 1;
    if ((token === jsonToken.comma && depth === 1) || depth === 0) {
      items.push(trimmedJson(array.slice(start, scanner.getTokenOffset())));
      start = scanner.getTokenOffset() + 1;
    }
  }
  return items;
}

/** Values of the library's `SyntaxKind`, a const enum that exists only for the compiler. */
export const jsonToken = {
  openBrace: 1,
  closeBrace: 2,
  openBracket: 3,
  closeBracket: 4,
  comma: 5,
  endOfText: 17,
} as const;
