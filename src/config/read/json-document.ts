import type { KeyPath } from "../../core/formats/key-path.ts";
import type { ConfigDocument } from "./document.ts";
import { type FindOffsets, locateIn } from "./locate.ts";
import { type JsonPosition, parseJson } from "./parse-json.ts";
import type { SourceText } from "./source-text.ts";

/** Reads a JSON file's text. Throws SyntaxProblems. */
export function jsonDocument(source: SourceText): ConfigDocument {
  const { value, position } = parseJson(source.text);
  return { value, source, locate: locateIn(source, finder(source.text, position)) };
}

function finder(text: string, root: JsonPosition): FindOffsets {
  return (path: KeyPath) => {
    let key: number | undefined;
    let position = root;
    for (const segment of path) {
      const next = step(position, segment);
      if (next === undefined) return { value: startOf(position), found: false };
      key = next.key;
      position = next.value;
    }
    const value = startOf(position);
    const end = typeof position === "number" ? endOfScalar(text, position) : undefined;
    return {
      value,
      found: true,
      ...(key === undefined ? {} : { key }),
      ...(end === undefined ? {} : { end }),
    };
  };
}

function step(
  position: JsonPosition,
  segment: string | number,
): { key?: number; value: JsonPosition } | undefined {
  if (typeof position === "number") return undefined;
  if ("members" in position) return position.members.get(String(segment));
  const item = typeof segment === "number" ? position.items[segment] : undefined;
  return item === undefined ? undefined : { value: item };
}

function startOf(position: JsonPosition): number {
  return typeof position === "number" ? position : position.start;
}

function endOfScalar(text: string, start: number): number {
  const string = /"(?:[^"\\]|\\.)*"/y;
  string.lastIndex = start;
  return start + (string.exec(text)?.[0].length ?? 1);
}
