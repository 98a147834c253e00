/**
 * A longest common subsequence of two lists, as pairs of positions (dynamic programming, Wagner and Fischer 1974). Among
 * equally good matches it takes the one that has the earliest items of the first list.
 */
export function commonSequence<A, B>(
  first: readonly A[],
  second: readonly B[],
  isEqual: (a: A, b: B) => boolean,
): (readonly [number, number])[] {
  const width = second.length + 1;
  const lengths = new Uint32Array((first.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (const [row, a] of [...first.entries()].toReversed()) {
    for (let column = second.length - 1; column >= 0; column -= 1) {
      lengths[row * width + column] = isEqual(a, second[column] as B)
        ? at(row + 1, column + 1) + 1
        : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const pairs: (readonly [number, number])[] = [];
  let column = 0;
  for (const [row, a] of first.entries()) {
    while (
      column < second.length &&
      !isEqual(a, second[column] as B) &&
      at(row + 1, column) <= at(row, column + 1)
    )
      column += 1;
    if (column < second.length && isEqual(a, second[column] as B)) pairs.push([row, column++]);
  }
  return pairs;
}
