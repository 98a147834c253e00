import { isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../json-value.ts";

/**
 * The arguments with what their JSON Schema says of members that are absent: `default` of what stands in `properties`, at any
 * depth, in items of lists too. What is there stays as it is, `null` included. References inside the schema are followed;
 * defaults in alternatives (`anyOf`, `oneOf`, `if`) are not, since which one is meant cannot be told.
 */
export function fillDefaults(schema: JsonObject, args: JsonObject): JsonObject {
  return fillObject(schema, args, { root: schema, filling: [] });
}

interface Context {
  readonly root: JsonObject;
  /** Schemas whose defaults the value came from; those of one that refers to itself would never end. */
  readonly filling: readonly JsonObject[];
}

function fill(schema: Json | undefined, value: Json, context: Context): Json {
  const found = follow(schema, context.root);
  if (found === undefined) return value;
  if (Array.isArray(value)) return fillList(found, value, context);
  return isJsonObject(value) ? fillObject(found, value, context) : value;
}

function fillObject(schema: JsonObject, value: JsonObject, context: Context): JsonObject {
  const found = follow(schema, context.root) ?? {};
  const { properties } = found;
  if (!isJsonObject(properties)) return value;
  const own = Object.entries(value).map(([key, member]): [string, Json] => [
    key,
    Object.hasOwn(properties, key) ? fill(properties[key], member, context) : member,
  ]);
  const added = Object.entries(properties).flatMap(([key, property]) =>
    Object.hasOwn(value, key) ? [] : defaulted(key, property, context),
  );
  return Object.fromEntries([...own, ...added]);
}

function defaulted(key: string, property: Json, { root, filling }: Context): [string, Json][] {
  const written = isJsonObject(property) && Object.hasOwn(property, "default") ? property : undefined;
  const found = written ?? follow(property, root);
  if (found === undefined || !Object.hasOwn(found, "default") || filling.includes(found)) return [];
  return [[key, fill(property, found["default"] ?? null, { root, filling: [...filling, found] })]];
}

function fillList(schema: JsonObject, items: readonly Json[], context: Context): readonly Json[] {
  const { prefixItems, items: rest } = schema;
  const first: readonly Json[] = Array.isArray(prefixItems) ? prefixItems : [];
  return items.map((item, index) => fill(index < first.length ? first[index] : rest, item, context));
}

/** Most references in a row. */
const mostReferences = 20;

/** The schema that a reference inside the document leads to. */
function follow(schema: Json | undefined, root: JsonObject): JsonObject | undefined {
  let found = schema;
  for (let count = 0; count < mostReferences; count += 1) {
    if (!isJsonObject(found)) return undefined;
    const { $ref } = found;
    if (typeof $ref !== "string") return found;
    found = at($ref, root);
  }
  return undefined;
}

function at(reference: string, root: JsonObject): Json | undefined {
  if (reference === "#") return root;
  if (!reference.startsWith("#/")) return undefined;
  const keys = reference.slice(2).split("/").map(unescaped);
  return keys.reduce<Json | undefined>(
    (value, key) => (isJsonObject(value) && Object.hasOwn(value, key) ? value[key] : undefined),
    root,
  );
}

function unescaped(token: string): string {
  return token.replaceAll("~1", "/").replaceAll("~0", "~");
}
