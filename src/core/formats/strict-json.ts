import { createScanner } from "jsonc-parser";
import type { Json } from "./model.ts";

/**
 * Parses JSON that decides something: as `JSON.parse`, but an object with a key that is there twice is refused, since
 * readers differ on which one counts. Throws SyntaxError.
 */
export function parseStrictJson(text: string): Json {
  const value = JSON.parse(text) as Json;
  const key = repeatedKey(text);
  if (key === undefined) return value;
  throw new SyntaxError(`the key ${JSON.stringify(key.slice(0, 80))} is there twice`);
}

export type JsonText =
  | { readonly value: Json; readonly reason?: never }
  | { readonly value?: never; readonly reason: string };

/** The value of a text, read as {@link parseStrictJson} does, or why it has none. */
export function readJsonText(text: string): JsonText {
  if (text.trim() === "") return { reason: "it is empty" };
  try {
    return { value: parseStrictJson(text) };
  } catch (error) {
    // The engine's words repeat a part of the text, in which a secret could not be told any more.
    const words = error instanceof Error ? error.message : String(error);
    return { reason: words.replace(/,? ?(?:\.\.\.)?"[\s\S]*"(?:\.\.\.)? is not valid JSON$/, "") };
  }
}

/** The first key that an object has twice, escapes in it resolved. The text has to be well-formed JSON, of any depth. */
export function repeatedKey(text: string): string | undefined {
  const scanner = createScanner(text, true);
  /** The keys of the objects that are open, undefined as long as there is none. */
  const open: (Set<string> | undefined)[] = [];
  let string = "";
  const next = (): number => scanner.scan();
  for (let token = next(); token !== endOfText; token = next()) {
    if (token === openBrace) open.push(undefined);
    else if (token === closeBrace) open.pop();
    else if (token === stringLiteral) string = scanner.getTokenValue();
    else if (token === colon) {
      const keys = (open[open.length - 1] ??= new Set());
      if (keys.has(string)) return string;
      keys.add(string);
    }
  }
  return undefined;
}

// The values of the library's SyntaxKind, an enum that exists for the compiler only.
const openBrace = 1;
const closeBrace = 2;
const colon = 6;
const stringLiteral = 10;
const endOfText = 17;
