import { isUtf8 } from "node:buffer";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import type { Json } from "../core/formats/model.ts";
import { repeatedKey } from "../core/formats/read-json.ts";
import { shortened } from "../core/text/shortened.ts";

const openingBrace = 0x7b;

/**
 * Reads one line as a JSON-RPC message; undefined if it is none. It asks for no more than what tells a message from noise,
 * so that a message with a wrong inside is recorded as one.
 */
export function parseMessage(line: Buffer): { message: JSONRPCMessage; text: string } | undefined {
  if (!mayBeMessage(line)) return undefined;
  const text = line.toString("utf8");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isMessage(value)) return undefined;
  const problem = isUtf8(line) ? twinIn(value, text) : notUtf8;
  if (problem !== undefined) markMalformed(value, problem);
  return { message: value, text };
}

/** What is wrong with bytes that are no text (MCP specification, "Transports": messages are UTF-8). */
export const notUtf8 = "its bytes are not UTF-8";

/** An answer with a key twice is another one to each reader, so that it says nothing. */
function twinIn(message: JSONRPCMessage, text: string): string | undefined {
  // What is written as we would write it has no key twice, and to look for one takes longer.
  if ("method" in message || text === JSON.stringify(message)) return undefined;
  const key = repeatedKey(text);
  return key === undefined ? undefined : `it has the key ${JSON.stringify(shortened(key, 80))} twice`;
}

/** Known by identity: in what was read nothing shows it any more. */
const malformed = new WeakMap<object, string>();

/** Notes what is wrong with the text of a message, which readers may read in different ways. */
export function markMalformed(message: JSONRPCMessage, problem: string): void {
  malformed.set(message, problem);
}

/** What is wrong with the text of a message; undefined: nothing. */
export function malformationOf(message: JSONRPCMessage): string | undefined {
  return malformed.get(message);
}

/** A message as the plain JSON that it is. */
export function messageJson(message: JSONRPCMessage): Json {
  return message as unknown as Json;
}

/**
 * Levels of arrays and objects that a message may have. JSON itself has no limit, but whoever handles a message, we, the
 * SDK and an agent, does so with a stack that has one.
 */
export const deepestMessage = 400;

/** Whether a message is nested deeper than {@link deepestMessage}. */
export function isTooDeep(message: JSONRPCMessage): boolean {
  return hasMoreLevels(message, deepestMessage);
}

function hasMoreLevels(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((item) => hasMoreLevels(item, levels - 1));
}

/** Whether a line begins as a message does: a flood of noise must be cheap, and a failing `JSON.parse` is not. */
export function mayBeMessage(line: Buffer): boolean {
  return line.find((byte) => byte !== 0x20 && byte !== 0x09) === openingBrace;
}

function isMessage(value: unknown): value is JSONRPCMessage {
  if (typeof value !== "object" || value === null) return false;
  if (!("jsonrpc" in value) || value.jsonrpc !== "2.0") return false;
  return "method" in value ? typeof value.method === "string" : "result" in value || "error" in value;
}
