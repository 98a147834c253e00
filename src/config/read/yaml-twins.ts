import type { Node, ParsedNode } from "yaml";

type Yaml = typeof import("yaml");

/** A key that its mapping has already. */
export interface Twin {
  readonly key: string;
  /** Where the later one begins. */
  readonly offset: number;
}

/** Finds keys that are in one mapping twice, and counts aliases; in time linear to the document. */
export function findTwins(
  root: ParsedNode | null,
  yaml: Yaml,
): { readonly twins: readonly Twin[]; readonly aliases: number } {
  const twins: Twin[] = [];
  let aliases = 0;
  const open: unknown[] = [root];
  while (open.length > 0) {
    const node = open.pop();
    if (yaml.isAlias(node)) aliases += 1;
    else if (yaml.isSeq(node)) pushReversed(open, node.items);
    else if (yaml.isMap<Node, Node | null>(node)) {
      for (const twin of twinsIn(node.items, yaml)) twins.push(twin);
      pushReversed(
        open,
        node.items.map(({ value }) => value),
      );
    }
  }
  return { twins, aliases };
}

/** So that they are taken in their order. A call takes only so many arguments, so not all at once. */
function pushReversed(open: unknown[], items: readonly unknown[]): void {
  for (const item of items.toReversed()) open.push(item);
}

function twinsIn(items: readonly { readonly key: Node }[], yaml: Yaml): Twin[] {
  const seen = new Set<string>();
  return items.flatMap(({ key }) => {
    if (!yaml.isScalar(key) || key.value === "<<") return [];
    const name = String(key.value);
    const isTwin = seen.has(name);
    seen.add(name);
    return isTwin ? [{ key: name, offset: key.range?.[0] ?? 0 }] : [];
  });
}
