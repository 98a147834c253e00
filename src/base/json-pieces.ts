import { visibleJson } from "./visible-text.ts";

/**
 * A document as JSON that is safe to print, with a final line break, in pieces, since a large run's document would not fit one string: indented by two, but with
 * each item of its lists on one line, which is half as long and read faster.
 */
export function* jsonPieces(document: object): Generator<string> {
  let before = "{\n";
  for (const [key, value] of Object.entries(document) as [string, unknown][]) {
    if (value === undefined) continue;
    yield `${before}  ${visibleJson(JSON.stringify(key))}: `;
    if (Array.isArray(value)) yield* listPieces(value);
    else yield indented(value);
    before = ",\n";
  }
  yield before === "{\n" ? "{}\n" : "\n}\n";
}

function* listPieces(items: readonly unknown[]): Generator<string> {
  let before = "[\n";
  for (const item of items) {
    yield `${before}    ${visibleJson(JSON.stringify(item))}`;
    before = ",\n";
  }
  yield items.length === 0 ? "[]" : "\n  ]";
}

/** Pretty JSON of a value as it stands in an object: faster than to indent its lines again. */
function indented(value: unknown): string {
  return visibleJson(JSON.stringify([value], null, 2).slice("[\n  ".length, -"\n]".length));
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
