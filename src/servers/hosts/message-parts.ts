import type { JSONRPCMessage } from "@modelcontextprotocol/client";

/** What a request and its answer have in common; a progress token is of the same kind. */
export type MessageId = string | number;

export type MessageKind = "request" | "notification" | "answer";

/** Tells by its shape what a message is; one whose id is none is a notification if it has a method. */
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

/** What stands at a path of keys; undefined when nothing does. */
export function valueAt(message: JSONRPCMessage, path: readonly string[]): unknown {
  let value: unknown = message;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}
