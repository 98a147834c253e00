/** Makes titles unique by adding ` (2)`, ` (3)` and so on to those that came before. */
export function uniqueTitles(titles: readonly string[]): string[] {
  const used = new Set<string>();
  const counts = new Map<string, number>();
  return titles.map((title) => {
    let count = counts.get(title) ?? 0;
    let unique: string;
    do {
      count += 1;
      unique = count === 1 ? title : `${title} (${count})`;
    } while (used.has(unique));
    counts.set(title, count);
    used.add(unique);
    return unique;
  });
}
