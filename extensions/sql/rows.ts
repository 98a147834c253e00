import type { Json } from "../../src/extension-sdk/index.ts";
import type { Table } from "./database.ts";
import { isJsonObject } from "./json-object.ts";
import { sameValue } from "./same-value.ts";

/** A row as it is expected: by column, or in the order of the columns. */
export type ExpectedRow = Readonly<Record<string, Json>> | readonly Json[];

/** How expected rows and found ones go together, by their indexes. */
export interface Pairing {
  /** For every expected row the found one, if there is any. */
  readonly partners: readonly (number | undefined)[];
  /** Found rows that nobody expected. */
  readonly extra: readonly number[];
}

/**
 * Whether a row is the expected one. `all`: it must have no further columns; else an expected row by column is about the
 * columns that it names.
 */
export type SameRow = (expected: ExpectedRow, found: readonly Json[]) => boolean;

export function rowMatcher({ columns }: Table, all: boolean): SameRow {
  const places = new Map(columns.map((name, index) => [name, index]));
  return (expected, found) => {
    if (!isJsonObject(expected)) return sameList(expected, found);
    const entries = Object.entries(expected);
    if (all && entries.length !== places.size) return false;
    return entries.every(([name, value]) => {
      const place = places.get(name);
      return place !== undefined && sameValue(value, found[place] ?? null);
    });
  };
}

function sameList(expected: readonly Json[], found: readonly Json[]): boolean {
  return (
    expected.length === found.length &&
    expected.every((value, index) => sameValue(value, found[index] ?? null))
  );
}

/** Pairs rows by their places. */
export function pairInOrder(expected: readonly ExpectedRow[], found: Table["rows"], same: SameRow): Pairing {
  const partners = expected.map((row, index) => {
    const other = found[index];
    return other !== undefined && same(row, other) ? index : undefined;
  });
  return { partners, extra: extraOf(partners, found.length) };
}

/** Pairs as many rows as can be, each with another one, wherever they are. */
export function pairAnywhere(expected: readonly ExpectedRow[], found: Table["rows"], same: SameRow): Pairing {
  const takenBy = new Map<number, number>();
  const fits = expected.map((row) => found.flatMap((other, index) => (same(row, other) ? [index] : [])));
  for (const index of expected.keys()) give(index, fits, takenBy, new Set());
  const partners: (number | undefined)[] = expected.map(() => undefined);
  for (const [place, taker] of takenBy) partners[taker] = place;
  return { partners, extra: extraOf(partners, found.length) };
}

/** Finds a partner for an expected row, where needed by giving others another one (Kuhn's algorithm). */
function give(
  index: number,
  fits: readonly (readonly number[])[],
  takenBy: Map<number, number>,
  tried: Set<number>,
): boolean {
  for (const place of fits[index] ?? []) {
    if (tried.has(place)) continue;
    tried.add(place);
    const taker = takenBy.get(place);
    if (taker !== undefined && !give(taker, fits, takenBy, tried)) continue;
    takenBy.set(place, index);
    return true;
  }
  return false;
}

function extraOf(partners: Pairing["partners"], length: number): readonly number[] {
  const taken = new Set(partners);
  return Array.from({ length }, (_none, index) => index).filter((index) => !taken.has(index));
}
