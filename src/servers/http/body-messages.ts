import { parseMessage } from "../json-rpc.ts";
import type { WireMessage } from "../wire.ts";

/** What an HTTP body or an event says. */
export type BodyMessages =
  | { readonly kind: "message"; readonly wire: WireMessage }
  /** An array of messages, as older versions of the protocol allow. */
  | { readonly kind: "batch"; readonly wires: readonly WireMessage[] }
  /** Neither, so that it is nothing to record. */
  | { readonly kind: "other" };

/** Reads the JSON-RPC messages in a text, each with its own text. Never throws. */
export function readBody(text: string): BodyMessages {
  const line = inOneLine(text);
  if (!line.startsWith("[")) {
    const wire = readMessage(line);
    return wire === undefined ? { kind: "other" } : { kind: "message", wire };
  }
  if (!isJson(line)) return { kind: "other" };
  const wires = itemsOf(line).map(readMessage);
  const all = wires.filter((wire) => wire !== undefined);
  return all.length === wires.length && all.length > 0 ? { kind: "batch", wires: all } : { kind: "other" };
}

/** All messages of a body. */
export function wiresOf(body: BodyMessages): readonly WireMessage[] {
  return body.kind === "message" ? [body.wire] : body.kind === "batch" ? body.wires : [];
}

function readMessage(text: string): WireMessage | undefined {
  const parsed = parseMessage(Buffer.from(text));
  return parsed === undefined ? undefined : { message: parsed.message, text };
}

/** JSON has line breaks only between its parts, where a space is as good. */
function inOneLine(text: string): string {
  const trimmed = text.trim();
  return /[\r\n]/.test(trimmed) ? trimmed.replaceAll(/\r\n|\r|\n/g, " ") : trimmed;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The texts of an array's items; the array is known to be JSON. */
function itemsOf(array: string): string[] {
  const items: string[] = [];
  let depth = 0;
  let start = 1;
  for (const { index, 0: token } of array.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},]/g)) {
    if (token === "[" || token === "{") depth += 1;
    else if (token === "]" || token === "}") depth -= 1;
    if ((token === "," && depth === 1) || depth === 0) {
      items.push(array.slice(start, index).trim());
      start = index + 1;
    }
  }
  return items;
}
