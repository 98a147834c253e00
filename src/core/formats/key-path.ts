/** Keys and list positions from a document's root to a place inside it. */
export type KeyPath = readonly (string | number)[];

/** Writes a path as `workflows[0].steps[1].user`; keys that are not plain words are quoted: `agents["my agent"]`. */
export function formatKeyPath(path: KeyPath): string {
  return path.reduce<string>((text, key) => text + segment(key, text === ""), "");
}

/** The value at a path, or undefined where the path leads nowhere. */
export function valueAt(root: unknown, path: KeyPath): unknown {
  let value: unknown = root;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string | number, unknown>)[key];
  }
  return value;
}

function segment(key: string | number, first: boolean): string {
  if (typeof key === "number") return `[${key}]`;
  if (!/^[A-Za-z_$][\w$-]*$/.test(key)) return `[${JSON.stringify(key)}]`;
  return first ? key : `.${key}`;
}
