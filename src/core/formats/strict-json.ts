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
