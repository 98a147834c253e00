/** One line of a diff: kept, only in the first text (`-`), only in the second (`+`), or a gap of kept lines. */
export interface DiffLine {
  readonly kind: "same" | "removed" | "added" | "gap";
  readonly text: string;
}

/** Above this many comparisons the differing middle is shown whole instead of being matched line by line. */
const maxComparisons = 250_000;
const contextLines = 2;

/** The difference of two lists of lines, with a little context around each change; empty when there is none. */
export function diffLines(before: readonly string[], after: readonly string[]): DiffLine[] {
  const start = sharedStart(before, after);
  const end = sharedEnd(before, after, start);
  const oldMiddle = before.slice(start, before.length - end);
  const newMiddle = after.slice(start, after.length - end);
  if (oldMiddle.length + newMiddle.length === 0) return [];
  return foldKept([
    ...before.slice(0, start).map((text): DiffLine => ({ kind: "same", text })),
    ...matchMiddle(oldMiddle, newMiddle),
    ...before.slice(before.length - end).map((text): DiffLine => ({ kind: "same", text })),
  ]);
}

function sharedStart(before: readonly string[], after: readonly string[]): number {
  const most = Math.min(before.length, after.length);
  let shared = 0;
  while (shared < most && before[shared] === after[shared]) shared += 1;
  return shared;
}

function sharedEnd(before: readonly string[], after: readonly string[], start: number): number {
  const most = Math.min(before.length, after.length) - start;
  let shared = 0;
  while (shared < most && before.at(-1 - shared) === after.at(-1 - shared)) shared += 1;
  return shared;
}

/** Longest common subsequence of lines (dynamic programming, Wagner and Fischer 1974). */
function matchMiddle(before: readonly string[], after: readonly string[]): DiffLine[] {
  const removed = before.map((text): DiffLine => ({ kind: "removed", text }));
  const added = after.map((text): DiffLine => ({ kind: "added", text }));
  if (before.length * after.length > maxComparisons) return [...removed, ...added];
  const width = after.length + 1;
  const lengths = new Uint32Array((before.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (let row = before.length - 1; row >= 0; row--) {
    for (let column = after.length - 1; column >= 0; column--) {
      lengths[row * width + column] =
        before[row] === after[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  return walk(before, after, at);
}

function walk(
  before: readonly string[],
  after: readonly string[],
  at: (row: number, column: number) => number,
): DiffLine[] {
  const lines: DiffLine[] = [];
  let row = 0;
  let column = 0;
  while (row < before.length || column < after.length) {
    const old = before[row];
    const now = after[column];
    if (old !== undefined && old === now) {
      lines.push({ kind: "same", text: old });
      row += 1;
      column += 1;
    } else if (old !== undefined && (now === undefined || at(row + 1, column) >= at(row, column + 1))) {
      lines.push({ kind: "removed", text: old });
      row += 1;
    } else {
      lines.push({ kind: "added", text: now ?? "" });
      column += 1;
    }
  }
  return lines;
}

/** Leaves out kept lines that are far from any change; a single one is shown, since a gap would take its place. */
function foldKept(lines: readonly DiffLine[]): DiffLine[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, index) => {
    if (line.kind !== "same") near.fill(1, Math.max(0, index - contextLines), index + contextLines + 1);
  });
  return lines.flatMap((line, index): DiffLine[] => {
    const alone = near[index - 1] !== 0 && near[index + 1] !== 0;
    if (near[index] === 1 || alone) return [line];
    return index > 0 && near[index - 1] === 0 ? [] : [{ kind: "gap", text: "…" }];
  });
}
