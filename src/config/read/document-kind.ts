/** What a document says it is. */
export type DocumentKind = "Task" | "Eval" | "Agent" | "config";

const kinds = ["Task", "Eval", "Agent"] as const;

/** The kind that the root of a document names; `config` when it names none, undefined when it is one that does not exist. */
export function documentKind(root: ReadonlyMap<string, unknown>): DocumentKind | undefined {
  const [, kind] = memberNamed(root, "kind");
  if (kind === undefined) return "config";
  return kinds.find((each) => each === kind);
}

/** Whether a document is a Task, Eval or Agent of one of the older forms, which are read leniently. */
export function isOlderForm(root: ReadonlyMap<string, unknown>): boolean {
  const kind = documentKind(root);
  if (kind === undefined || kind === "config") return false;
  const [, version] = memberNamed(root, "apiVersion");
  return typeof version !== "string" || !version.startsWith("mcp-eval/");
}

/** A member with its key as written: keys of the older forms may be in upper or lower case. */
export function memberNamed(
  root: ReadonlyMap<string, unknown>,
  name: string,
): readonly [key: string, value: unknown] {
  const sameName = (each: string): boolean => each.toLowerCase() === name.toLowerCase();
  const key = root.has(name) ? name : ([...root.keys()].find(sameName) ?? name);
  return [key, root.get(key)];
}

/** The members of a document's root by name; none when the root is no object. */
export function rootMembers(document: unknown): ReadonlyMap<string, unknown> {
  const isObject = typeof document === "object" && document !== null && !Array.isArray(document);
  return new Map(isObject ? Object.entries(document) : []);
}
