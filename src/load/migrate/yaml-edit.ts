import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  Pair,
  Scalar,
  visit,
  YAMLMap,
  YAMLSeq,
} from "yaml";

/** A mapping of any nodes. */
export type AnyMap = YAMLMap;
type AnyPair = Pair;

/** The text of a pair's key. */
function keyOf(pair: AnyPair): string {
  const { key } = pair;
  return isScalar(key) ? String(key.value) : String(key);
}

/** The pair of a key; exactly so written, else whatever its case. */
export function pairOf(map: AnyMap, key: string): AnyPair | undefined {
  return (
    map.items.findLast((pair) => keyOf(pair) === key) ??
    map.items.findLast((pair) => keyOf(pair).toLowerCase() === key.toLowerCase())
  );
}

/** The mapping under a key; undefined when there is something else, or nothing. */
export function mapIn(map: AnyMap, key: string): AnyMap | undefined {
  const value = pairOf(map, key)?.value;
  return isMap(value) ? value : undefined;
}

/** The list under a key; undefined when there is something else, or nothing. */
export function listIn(map: AnyMap, key: string): YAMLSeq | undefined {
  const value = pairOf(map, key)?.value;
  return isSeq(value) ? value : undefined;
}

/** The JSON value under a key; undefined for nothing and for null. */
export function valueIn(map: AnyMap, key: string): unknown {
  return plain(pairOf(map, key)?.value) ?? undefined;
}

/** The JSON value of a node. */
export function plain(node: unknown): unknown {
  if (isScalar(node)) return node.value;
  if (isSeq(node)) return node.items.map(plain);
  if (isMap(node)) return Object.fromEntries(node.items.map((pair) => [keyOf(pair), plain(pair.value)]));
  return node;
}

/** The text under a key, as the older forms take it: numbers and booleans too. */
export function textIn(map: AnyMap, key: string): string | undefined {
  const value = valueIn(map, key);
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? String(value)
    : undefined;
}

/** Renames a pair in its place; comments stay. */
export function rename(pair: AnyPair, name: string): void {
  if (isScalar(pair.key)) pair.key.value = name;
  else pair.key = new Scalar(name);
}

/** Takes a pair out. */
export function remove(map: AnyMap, pair: AnyPair | undefined): void {
  if (pair !== undefined) map.items = map.items.filter((each) => each !== pair);
}

/** Puts a pair at the end, or at a place. */
export function insert(map: AnyMap, pair: AnyPair, at = map.items.length): void {
  map.items.splice(at, 0, pair);
}

/** A pair of any value. */
export function pair(document: Document, key: string, value: unknown): AnyPair {
  return document.createPair(key, value);
}

/** A mapping of pairs that exist. */
export function mapOf(pairs: readonly AnyPair[]): AnyMap {
  const map: AnyMap = new YAMLMap();
  for (const pair of pairs) map.items.push(pair);
  return map;
}

/** A list of nodes that exist. */
export function listOf(items: readonly unknown[]): YAMLSeq {
  const list = new YAMLSeq();
  for (const item of items) list.items.push(item);
  return list;
}

/** Gives a text to a scalar, in the style that it has; what is no text becomes one. */
export function setText(parent: AnyPair, text: string): void {
  const { value } = parent;
  if (!isScalar(value)) parent.value = new Scalar(text);
  else if (value.value !== text) {
    if (typeof value.value !== "string") value.type = "QUOTE_DOUBLE";
    value.value = text;
  }
}

/** Puts a comment before a pair, a mapping or a list item; one line each. */
export function commentOn(target: AnyPair | Node, text: string): void {
  const node = target instanceof Pair ? keyNode(target) : target;
  const written = text
    .split("\n")
    .map((line) => ` ${line}`)
    .join("\n");
  const before = node.commentBefore;
  node.commentBefore = before === undefined || before === null ? written : `${before}\n${written}`;
}

function keyNode(target: AnyPair): Node {
  if (isScalar(target.key)) return target.key;
  const key = new Scalar(String(target.key));
  target.key = key;
  return key;
}

/** Adds what is remarked on one node to another: the comments and the blank line before it. */
export function keepComments(from: unknown, to: AnyPair): void {
  if (!isScalar(from) && !isMap(from) && !isSeq(from)) return;
  if (from.commentBefore !== undefined && from.commentBefore !== null && from.commentBefore !== "") {
    const node = keyNode(to);
    node.commentBefore = [node.commentBefore, from.commentBefore].filter(Boolean).join("\n");
    from.commentBefore = null;
  }
}

/** Writes every alias out, and what merge keys bring in; nothing may move across its anchor otherwise. */
export function unfold(document: Document): void {
  visit(document, {
    Alias(_key, node) {
      const target = node.resolve(document);
      if (target === undefined) return undefined;
      const copy = target.clone() as Node;
      if (!isAlias(copy)) delete copy.anchor;
      return copy;
    },
  });
  visit(document, {
    Map(_key, map) {
      merge(map);
    },
  });
  visit(document, {
    Value(_key, node) {
      delete node.anchor;
    },
  });
}

/** A comment before the first item of a list or mapping is on the whole; lets it stay with the item. */
export function bindComments(document: Document): void {
  visit(document, {
    Collection(_key, node, path) {
      const { commentBefore } = node;
      const [first] = node.items;
      // The comment before an item of a list is the item's.
      if (isMap(node) && isSeq(path.at(-1))) return;
      if (node.flow === true || node === document.contents || !commentBefore || first === undefined) return;
      const target: unknown = first instanceof Pair ? first.key : first;
      if (!isScalar(target) && !isMap(target) && !isSeq(target)) return;
      target.commentBefore = [commentBefore, target.commentBefore].filter(Boolean).join("\n");
      node.commentBefore = null;
    },
  });
}

function merge(map: AnyMap): void {
  const merged = map.items.filter((each) => keyOf(each) === "<<");
  if (merged.length === 0) return;
  const sources = merged.flatMap(({ value }) => (isSeq(value) ? value.items : [value])).filter(isMap);
  map.items = map.items.filter((each) => keyOf(each) !== "<<");
  const known = new Set(map.items.map(keyOf));
  for (const each of sources.flatMap((source) => source.items)) {
    if (known.has(keyOf(each))) continue;
    known.add(keyOf(each));
    map.items.push(each);
  }
}

/** Of equal keys leaves the last one. */
export function dropTwins(document: Document): void {
  visit(document, {
    Map(_key, map) {
      const last = new Map(map.items.map((each) => [keyOf(each), each]));
      if (last.size < map.items.length)
        map.items = map.items.filter((each) => last.get(keyOf(each)) === each);
    },
  });
}
