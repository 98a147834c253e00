import type { Document, Node, Pair, ParsedNode } from "yaml";
import type { KeyPath } from "../../core/formats/key-path.ts";
import type { FindOffsets, Offsets } from "./locate.ts";

type Yaml = typeof import("yaml");
/** Pairs of mappings by their keys; of equal keys the last one counts. */
type Index = WeakMap<object, ReadonlyMap<string, Pair<Node, Node | null>>>;

/** Makes the function that finds places in a YAML document; it reads each mapping once, however often it is asked. */
export function yamlFinder(document: Document.Parsed, yaml: Yaml): FindOffsets {
  const index: Index = new WeakMap();
  return (path: KeyPath) => {
    let here: Offsets = offsetsOf(document.contents) ?? { value: 0 };
    let node: Node | null | undefined = document.contents;
    for (const segment of path) {
      const target = yaml.isAlias(node) ? node.resolve(document) : node;
      const next = step(target, segment, { yaml, index });
      if (next === undefined) return { value: here.value, found: false };
      here = offsetsOf(next.value, next.key) ?? here;
      node = next.value;
    }
    return { ...here, found: true };
  };
}

interface Member {
  readonly key?: Node;
  readonly value: Node | null;
}

function step(
  node: Node | null | undefined,
  segment: string | number,
  { yaml, index }: { readonly yaml: Yaml; readonly index: Index },
): Member | undefined {
  if (yaml.isMap<Node, Node | null>(node)) {
    const pairs = index.get(node) ?? new Map(node.items.flatMap((pair) => keyed(pair, yaml)));
    index.set(node, pairs);
    const pair = pairs.get(String(segment));
    return pair === undefined ? undefined : { key: pair.key, value: pair.value };
  }
  if (!yaml.isSeq<Node>(node) || typeof segment !== "number") return undefined;
  const item = node.items[segment];
  return item === undefined ? undefined : { value: item };
}

function keyed(
  pair: Pair<Node, Node | null>,
  yaml: Yaml,
): readonly (readonly [string, Pair<Node, Node | null>])[] {
  return yaml.isScalar(pair.key) ? [[String(pair.key.value), pair]] : [];
}

function offsetsOf(value: Node | ParsedNode | null, key?: Node): Offsets | undefined {
  const keyStart = key?.range?.[0];
  const start = value?.range?.[0] ?? keyStart;
  if (start === undefined) return undefined;
  const end = value?.range?.[1];
  return {
    value: start,
    ...(keyStart === undefined ? {} : { key: keyStart }),
    ...(end === undefined ? {} : { end }),
  };
}
