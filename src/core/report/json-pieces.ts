import { visibleJson } from "../text/visible-text.ts";

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
    else yield indented(value, "  ");
    before = ",\n";
  }
  yield before === "{\n" ? "{}\n" : "\n}\n";
}

function* listPieces(items: readonly unknown[]): Generator<string> {
  let before = "[\n";
  for (const item of items) {
    yield `${before}    ${indented(item, "    ")}`;
    before = ",\n";
  }
  yield items.length === 0 ? "[]" : "\n  ]";
}

/** Pretty JSON for a deeper place; line breaks inside strings are escaped, so every one found is layout. */
function indented(value: unknown, indent: string): string {
  return visibleJson(JSON.stringify(value, null, 2)).replaceAll("\n", `\n${indent}`);
}
