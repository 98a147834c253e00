import { isUtf8 } from "node:buffer";
import { createScanner } from "jsonc-parser";
import { markMalformed, notUtf8, parseMessage } from "../json-rpc.ts";
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

/** The same for bytes; messages in bytes that are no UTF-8 are malformed. */
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

/** A body may begin with a byte order mark, and only what JSON takes for space stands around it. */
function trimmedJson(text: string): string {
  let start = text.startsWith("\uFEFF") ? 1 : 0;
  let end = text.length;
  while (start < end && spaces.includes(text.charAt(start))) start += 1;
  while (end > start && spaces.includes(text.charAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

/** Of JSON, which has line breaks only between its parts, where a space is as good. */
function inOneLine(json: string): string {
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

/** The texts of an array's items; the array is known to be JSON. */
function itemsOf(array: string): string[] {
  const scanner = createScanner(array, true);
  const items: string[] = [];
  let depth = 0;
  let start = 1;
  const next = (): number => scanner.scan();
  for (let token = next(); token !== endOfText; token = next()) {
    if (token === openBrace || token === openBracket) depth += 1;
    else if (token === closeBrace || token === closeBracket) depth -= 1;
    if ((token === comma && depth === 1) || depth === 0) {
      items.push(trimmedJson(array.slice(start, scanner.getTokenOffset())));
      start = scanner.getTokenOffset() + 1;
    }
  }
  return items;
}

// The values of the library's SyntaxKind, an enum that exists for the compiler only.
const openBrace = 1;
const closeBrace = 2;
const openBracket = 3;
const closeBracket = 4;
const comma = 5;
const endOfText = 17;
