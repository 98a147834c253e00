/**
 * Turns a path of the older forms into RFC 9535. Dots separate object keys, `[n]` indexes lists, a number after a dot is a
 * key, an empty path is the whole document: `items[0].name`. Gives undefined for what is no such path.
 */
export function translateFieldPath(path: string): string | undefined {
  const trimmed = path.trim();
  const segments = trimmed.replace(/^(?:\$(?=[.[]|$))?\.?/, "");
  if (segments === "") return "$";
  if (!/^(?:[^.[\]]+|\[\d+\])(?:\.[^.[\]]+|\[\d+\])*$/.test(segments)) return undefined;
  const parts = [...segments.matchAll(/\[(\d+)\]|[^.[\]]+/g)];
  return `$${parts.map(([key, index]) => (index === undefined ? member(key) : `[${Number(index)}]`)).join("")}`;
}

function member(key: string): string {
  if (/^[A-Za-z_]\w*$/.test(key)) return `.${key}`;
  return `[${JSON.stringify(key)}]`;
}
