/** Servers choose names too, and comparing takes time with the square of their length. */
const maxComparedLength = 60;

interface Near {
  readonly candidate: string;
  readonly distance: number;
  /** How many characters it begins with that the name begins with too. */
  readonly prefix: number;
  /** By how many characters it is longer or shorter than the name. */
  readonly difference: number;
}

/**
 * The candidate that `name` is most likely a misspelling of, or undefined when none is close: at most one edit for
 * every three characters. Upper and lower case, `-` and `_` are not counted. Of those that are equally close it is one that
 * begins as the name does, then one that is as long.
 */
export function didYouMean(name: string, candidates: Iterable<string>): string | undefined {
  const written = fold(name);
  let best: Near | undefined;
  for (const candidate of candidates) {
    const limit = Math.max(1, Math.floor(Math.max(name.length, candidate.length) / 3));
    const folded = fold(candidate);
    const distance = editDistance(written, folded, limit);
    if (distance > limit) continue;
    const prefix = commonPrefix(written, folded);
    const near = { candidate, distance, prefix, difference: Math.abs(written.length - folded.length) };
    if (best === undefined || isNearer(near, best)) best = near;
  }
  return best?.candidate;
}

/** Whether two names are the same but for one edit; upper and lower case, `-` and `_` are not counted. */
export function isOneEditFrom(name: string, other: string): boolean {
  return editDistance(fold(name), fold(other), 1) <= 1;
}

function isNearer(a: Near, b: Near): boolean {
  if (a.distance !== b.distance) return a.distance < b.distance;
  return a.prefix === b.prefix ? a.difference < b.difference : a.prefix > b.prefix;
}

function commonPrefix(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length += 1;
  return length;
}

/** The sentences that go into a hint: the likely name, and all names there are; `what` is their plural. */
export function suggestion(name: string, candidates: readonly string[], what: string): string {
  if (candidates.length === 0) return `There are no ${what.replaceAll(" and ", " or ")}.`;
  const names = [...new Set(candidates)];
  const near = didYouMean(name, names);
  const all = `Known ${what}: ${listNames(names)}.`;
  return near === undefined ? all : `Did you mean "${near}"? ${all}`;
}

/** Names as a list for people, cut when there are many. */
export function listNames(names: readonly string[]): string {
  const shown = names.slice(0, 20).join(", ");
  return names.length > 20 ? `${shown} and ${names.length - 20} more` : shown;
}

function fold(text: string): string {
  return text.toLowerCase().replaceAll(/[-_\s]/g, "");
}

/** Edits (insert, delete, replace, swap neighbours) between two texts; anything over `limit` when they are farther. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit || a.length > maxComparedLength || b.length > maxComparedLength) {
    return limit + 1;
  }
  let before: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const same = a[row - 1] === b[column - 1];
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      current[column] = Math.min(
        at(previous, column) + 1,
        at(current, column - 1) + 1,
        at(previous, column - 1) + (same ? 0 : 1),
        swapped ? at(before, column - 2) + 1 : Infinity,
      );
    }
    before = previous;
    previous = current;
  }
  return at(previous, b.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Infinity;
}
