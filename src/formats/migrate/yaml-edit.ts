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
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";

/** The text of a pair's key. */
function keyOf({ key }: Pair): string {
  return isScalar(key) ? String(key.value) : String(key);
}

/** The pair of a key; exactly so written, else whatever its case. */
export function pairOf(map: YAMLMap, key: string): Pair | undefined {
  return (
    map.items.findLast((pair) => keyOf(pair) === key) ??
    map.items.findLast((pair) => keyOf(pair).toLowerCase() === key.toLowerCase())
  );
}

/** The mapping under a key; undefined when there is something else, or nothing. */
export function mapIn(map: YAMLMap, key: string): YAMLMap | undefined {
  const value = pairOf(map, key)?.value;
  return isMap(value) ? value : undefined;
}

/** The JSON value of a node. */
export function plain(node: unknown): unknown {
  if (isScalar(node)) return node.value;
  if (isSeq(node)) return node.items.map(plain);
  if (isMap(node)) return Object.fromEntries(node.items.map((pair) => [keyOf(pair), plain(pair.value)]));
  return node;
}

/** Renames a pair in its place; comments stay. */
export function rename(pair: Pair | undefined, name: string): void {
  if (isScalar(pair?.key)) pair.key.value = name;
  else if (pair !== undefined) pair.key = new Scalar(name);
}

/** Takes a pair out. */
export function remove(map: YAMLMap, pair: Pair | undefined): void {
  map.items = map.items.filter((each) => each !== pair);
}

/** A list of nodes that exist. */
export function listOf(items: readonly unknown[]): YAMLSeq {
  const list = new YAMLSeq();
  for (const item of items) list.items.push(item);
  return list;
}

/** A mapping of pairs that exist. */
export function mapOf(pairs: readonly Pair[]): YAMLMap {
  const map: YAMLMap = new YAMLMap();
  for (const pair of pairs) map.items.push(pair);
  return map;
}

/** Keys of the older forms, in lower case, that have another name in the new one. */
const renamedKeys: Readonly<Record<string, string>> = {
  match: "matches",
  fields: "json",
  content: "text",
  mcpserver: "server",
  extension: "package",
};

/**
 * Makes a node say what a JSON value says, and gives the node to put in its place. Keys that the value does not have go, new ones
 * come after the one before them in the value; everything else keeps its order, its style and its comments.
 */
export function reconcile(document: Document, node: unknown, target: Json): unknown {
  if (isJsonObject(target)) return reconcileMap(document, isMap(node) ? node : new YAMLMap(), target);
  if (Array.isArray(target)) return reconcileList(document, node, target);
  if (isScalar(node) && node.value === target) return node;
  if (typeof target !== "string" || !isScalar(node)) return document.createNode(target);
  if (typeof node.value !== "string") node.type = "QUOTE_DOUBLE";
  node.value = target;
  return node;
}

function reconcileList(document: Document, node: unknown, target: readonly Json[]): unknown {
  const isSame = isSeq(node) && node.items.length === target.length;
  if (!isSame && !target.some(isJsonObject)) return document.createNode(target, { flow: true });
  const list = isSame ? node : new YAMLSeq();
  list.items = target.map((item, index) => reconcile(document, list.items[index], item));
  return list;
}

function reconcileMap(document: Document, map: YAMLMap, target: JsonObject): YAMLMap {
  for (const pair of map.items) {
    const folded = keyOf(pair).toLowerCase();
    const key = Object.keys(target).find((each) => each.toLowerCase() === folded) ?? renamedKeys[folded];
    if (!Object.hasOwn(target, keyOf(pair)) && key !== undefined) rename(pair, key);
  }
  map.items = map.items.filter(
    (pair) => pairOf(map, keyOf(pair)) === pair && Object.hasOwn(target, keyOf(pair)),
  );
  let at = 0;
  for (const [key, value] of Object.entries(target)) {
    const pair = pairOf(map, key) ?? new Pair(new Scalar(key), undefined);
    if (!map.items.includes(pair)) map.items.splice(at, 0, pair);
    const inner = typeof value === "string" ? unwrap(pair) : pair.value;
    pair.value = reconcile(document, inner ?? undefined, value);
    at = map.items.indexOf(pair) + 1;
  }
  return map;
}

/** The text that stands in `{inline: TEXT}` or `{raw: TEXT}`, whose comments go to the pair; else the pair's value. */
function unwrap(pair: Pair): unknown {
  const { value } = pair;
  const inner = isMap(value) ? (pairOf(value, "inline") ?? pairOf(value, "raw")) : undefined;
  if (inner === undefined) return value;
  keepComments(value, pair);
  keepComments(inner.key, pair);
  return inner.value;
}

/** Puts a comment before what a path leads to: a pair, or an item of a list. */
export function commentAt(root: YAMLMap, path: readonly (string | number)[], text: string): void {
  let target: unknown = root;
  let holder: unknown = root;
  for (const key of path) {
    if (isSeq(holder) && typeof key === "number") target = holder.items[key];
    else target = isMap(holder) ? pairOf(holder, String(key)) : undefined;
    holder = target instanceof Pair ? target.value : target;
  }
  const node = target instanceof Pair ? keyNode(target) : target;
  if (!isScalar(node) && !isMap(node) && !isSeq(node)) return;
  node.commentBefore = [node.commentBefore, ` ${text}`].filter(Boolean).join("\n");
}

function keyNode(target: Pair): Node {
  if (isScalar(target.key)) return target.key;
  const key = new Scalar(String(target.key));
  target.key = key;
  return key;
}

/** Moves the comment before one node to a pair. */
export function keepComments(from: unknown, to: Pair): void {
  if ((!isScalar(from) && !isMap(from) && !isSeq(from)) || !from.commentBefore) return;
  const node = keyNode(to);
  node.commentBefore = [node.commentBefore, from.commentBefore].filter(Boolean).join("\n");
  from.commentBefore = null;
}

/** Writes out aliases and merge keys, since nodes move across anchors, and leaves the last of duplicate keys. */
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
      const last = new Map(map.items.map((each) => [keyOf(each), each]));
      map.items = map.items.filter((each) => last.get(keyOf(each)) === each);
    },
  });
  visit(document, {
    Value(_key, node) {
      delete node.anchor;
    },
  });
}

function merge(map: YAMLMap): void {
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
