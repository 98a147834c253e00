import { formatKeyPath, type KeyPath } from "../../core/formats/key-path.ts";
import type { Locate } from "../../core/formats/problem.ts";
import type { SourceText } from "./source-text.ts";

/** Offsets of a value in a text, and of the key in front of it. */
export interface Offsets {
  readonly key?: number;
  readonly value: number;
  /** Where the value ends, when that is known. */
  readonly end?: number;
}

/** Offsets of what a path leads to, or of the innermost thing around it that exists. */
export type FindOffsets = (path: KeyPath) => Offsets & { readonly found: boolean };

/** Makes the function that finds places in a text. */
export function locateIn(source: SourceText, find: FindOffsets): Locate {
  return ({ path, at, text }) => {
    const { key, value, end, found } = find(path);
    const offset = at === "key" && found && key !== undefined ? key : value;
    const inner = text === undefined || end === undefined ? -1 : source.text.indexOf(text, value);
    const inside = inner !== -1 && end !== undefined && inner < end;
    return source.location(inside ? inner : offset, formatKeyPath(path));
  };
}
