import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import type { Json } from "../core/formats/model.ts";

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
  return isMessage(value) ? { message: value, text } : undefined;
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
