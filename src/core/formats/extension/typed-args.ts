import * as z from "zod";
import { anyJson, closedObject } from "../config/config-fields.ts";
import { goDurationPattern, parseGoDuration } from "../duration.ts";
import { isJsonObject, type Json, type JsonObject, withoutUndefined } from "../json.ts";

/** Names of types, with those of other languages, and what JSON Schema calls them. */
const types = {
  string: "string",
  number: "number",
  integer: "integer",
  boolean: "boolean",
  array: "array",
  object: "object",
  /** A text, such as `90s`. */
  duration: "string",
  any: undefined,
  int: "integer",
  float: "number",
  bool: "boolean",
  list: "array",
  map: "object",
} as const;

const typeNames = Object.keys(types) as (keyof typeof types)[];

const typedArg = closedObject({
  type: z.enum(typeNames).optional().meta({ description: "Kind of the value." }),
  required: z.boolean().optional().meta({ description: "Whether it is required." }),
  default: anyJson.optional().meta({ description: "What it is when it is not given." }),
  description: z.string().optional().meta({ description: "What it is for." }),
});

/** Arguments by name, as the proposal declares them. */
export const typedArgs = z.record(z.string().regex(/\S/, { error: "must not be a blank name" }), typedArg);

/** The JSON Schema of arguments that are declared by name. Others than those are refused. */
export function typedArgsSchema(args: z.output<typeof typedArgs>): OperationSchema {
  const wrong = Object.entries(args).find(([, { type, default: value }]) => !fits(value, type));
  if (wrong !== undefined) {
    const [name, { type }] = wrong;
    return {
      ok: false,
      message: `gives ${JSON.stringify(name)} a default that is not of type ${String(type)}`,
    };
  }
  const properties = Object.entries(args).map(([name, arg]): [string, JsonObject] => [
    name,
    withoutUndefined({
      type: arg.type === undefined ? undefined : types[arg.type],
      pattern: arg.type === "duration" ? goDurationPattern : undefined,
      description: arg.description,
      default: arg.default,
    }),
  ]);
  const required = Object.entries(args).flatMap(([name, { required: isRequired, default: value }]) =>
    isRequired === true && value === undefined ? [name] : [],
  );
  return {
    ok: true,
    schema: {
      type: "object",
      properties: Object.fromEntries(properties),
      ...(required.length === 0 ? {} : { required }),
      additionalProperties: false,
    },
  };
}

function fits(value: Json | undefined, type: keyof typeof types | undefined): boolean {
  const name = type === undefined ? undefined : types[type];
  if (value === undefined || name === undefined) return true;
  if (type === "duration") return typeof value === "string" && parseGoDuration(value) !== undefined;
  switch (name) {
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === name;
  }
}

export type OperationSchema =
  | { readonly ok: true; readonly schema: JsonObject }
  /** `message` is a predicate: `must be …`. */
  | { readonly ok: false; readonly message: string };

/** Reads the JSON Schema of an operation's arguments, which are an object. Without one there may be any arguments. */
export function readOperationSchema(value: Json | undefined): OperationSchema {
  if (value === undefined || value === null) return { ok: true, schema: { type: "object" } };
  if (!isJsonObject(value)) return { ok: false, message: "must be a JSON Schema, an object" };
  const { type } = value;
  if (type === undefined) return { ok: true, schema: { type: "object", ...value } };
  if (type === "object") return { ok: true, schema: value };
  return { ok: false, message: 'must be a JSON Schema of type "object": arguments are an object' };
}

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
