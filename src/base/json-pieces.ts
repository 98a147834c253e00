import { visibleJson } from "./visible-text.ts";

/**
 * What `JSON.stringify(document, null, 2)` gives, with a final line break and safe to print, but in pieces: the items of
 * lists one by one, since a large run's document would not fit one string.
 */
export function* jsonPieces(document: object): Generator<string> {
  let before = "{\n";
  for (const [key, value] of Object.entries(document) as [string, unknown][]) {
    if (value === undefined) continue;
    yield `${before}  ${visibleJson(JSON.stringify(key))}: `;
    if (Array.isArray(value)) yield* listPieces(value);
    else yield indented(value, 1);
    before = ",\n";
  }
  yield before === "{\n" ? "{}\n" : "\n}\n";
}

function* listPieces(items: readonly unknown[]): Generator<string> {
  let before = "[\n";
  for (const item of items) {
    yield `${before}    ${indented(item, 2)}`;
    before = ",\n";
  }
  yield items.length === 0 ? "[]" : "\n  ]";
}

/** Pretty JSON of a value as it stands in a list, or in a list of a list: faster than to indent its lines again. */
function indented(value: unknown, lists: 1 | 2): string {
  return visibleJson(
    lists === 1
      ? JSON.stringify([value], null, 2).slice("[\n  ".length, -"\n]".length)
      : JSON.stringify([[value]], null, 2).slice("[\n  [\n    ".length, -"\n  ]\n]".length),
  );
}

const blockCharacters = 65_536;

/** Joins small texts to pieces of about 64 Ki characters: each piece is a write of its own. */
export function* blocksOf(texts: Iterable<string>): Generator<string> {
  let pending: string[] = [];
  let length = 0;
  for (const text of texts) {
    pending.push(text);
    length += text.length;
    if (length < blockCharacters) continue;
    yield pending.join("");
    pending = [];
    length = 0;
  }
  if (length > 0) yield pending.join("");
}
