import { type Json, valueAt } from "../formats/json.ts";
import type { TraceEvent } from "../trace/events.ts";
import { type ContentPart, type Excerpt, excerptLength } from "./documents.ts";

/** Most characters of one part of a text. */
const longestPart = 1024 * 1024;

/** A text as it is, any other value as indented JSON. */
function textOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** The beginning of a value in an event. */
export function excerptOf(value: Json, seq: number, pointer: string, most = excerptLength): Excerpt {
  const text = textOf(value);
  const type = typeof value === "string" ? "text" : "json";
  return { text: text.slice(0, most), length: text.length, type, seq, pointer };
}

/** The text of the value at a JSON Pointer (RFC 6901) in an event; undefined where the pointer leads nowhere. */
export function contentText(event: TraceEvent | Json, pointer: string): string | undefined {
  const path = pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  const value = valueAt(event, path);
  return value === undefined ? undefined : textOf(value as Json);
}

/** A part of a text: from a position, at most so many characters. */
export function contentPart(text: string, from: number, length: number): ContentPart {
  return { text: text.slice(from, from + Math.min(length, longestPart)), from, length: text.length };
}
