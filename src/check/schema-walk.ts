import { maxFileValues, maxSchemaParts } from "../base/limits.ts";
import type { SchemaError } from "../expect/tool-result.ts";
import { isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import { aboutTool, type Found, type Listed, type Surface } from "./check-view.ts";
import type { ClientEffects, FindingPlace } from "../model/finding.ts";

/** A schema inside another one. */
export interface Subschema {
  readonly schema: Json;
  /** JSON Pointer (RFC 6901) from the outermost schema; empty for that one. */
  readonly pointer: string;
  /** The keyword that it stands under, such as `properties` or `items`; empty for the outermost. */
  readonly keyword: string;
}

/** Keywords of JSON Schema 2020-12 and draft-07 whose value is a schema, a list of schemas, or an object of schemas. */
const single = [
  "items",
  "additionalProperties",
  "unevaluatedProperties",
  "unevaluatedItems",
  "additionalItems",
  "contains",
  "propertyNames",
  "not",
  "if",
  "then",
  "else",
];
const lists = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
const tables = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/** A schema and everything in it that is a schema, outermost first. */
function* subschemas(schema: Json, pointer = "", keyword = ""): Iterable<Subschema> {
  yield { schema, pointer, keyword };
  if (!isJsonObject(schema)) return;
  // The walk may stop long before the last of very many keys.
  for (const key of Object.keys(schema)) {
    const value = schema[key] ?? null;
    const inner = `${pointer}/${pointerKey(key)}`;
    if (single.includes(key) && !Array.isArray(value)) yield* subschemas(value, inner, key);
    else if (lists.includes(key) && Array.isArray(value))
      for (const [index, item] of value.entries()) yield* subschemas(item, `${inner}/${index}`, key);
    else if (tables.includes(key) && isJsonObject(value))
      for (const name of Object.keys(value))
        yield* subschemas(value[name] ?? null, `${inner}/${pointerKey(name)}`, key);
  }
}

/** A key as a part of a JSON Pointer (RFC 6901). */
export function pointerKey(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}

/** What a `$ref` of the form `#/…` stands for; undefined when it points to nothing, or is of another form. */
export function atReference(document: Json, ref: string): Json | undefined {
  if (!/^#(?:\/|$)/.test(ref)) return undefined;
  try {
    return atPointer(document, decodeURIComponent(ref.slice(1)));
  } catch {
    // A percent sign without two digits.
    return undefined;
  }
}

export interface Reference {
  readonly ref: string;
  /** Pointer of the schema that has it. */
  readonly pointer: string;
  /** Whether it leads nowhere in the document; those to `$id`, `$anchor` and other documents are left to the validator. */
  readonly isDangling: boolean;
}

export function referencesIn({ schema: document, parts }: ToolSchema): readonly Reference[] {
  return parts.flatMap(({ schema, pointer }) => {
    const ref = isJsonObject(schema) ? schema["$ref"] : undefined;
    if (typeof ref !== "string") return [];
    const isDangling = /^#(?:\/|$)/.test(ref) && atReference(document, ref) === undefined;
    return [{ ref, pointer, isDangling }];
  });
}

/** The value at a JSON Pointer in a document; undefined when there is none. */
function atPointer(document: Json, pointer: string): Json | undefined {
  let value: Json | undefined = document;
  for (const part of pointer.split("/").slice(1)) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(value)) value = (value as readonly Json[])[Number(key)];
    else value = isJsonObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  }
  return value;
}

export function typesOf(schema: Json): readonly string[] {
  if (!isJsonObject(schema)) return [];
  const { type } = schema;
  return (Array.isArray(type) ? (type as readonly Json[]) : [type]).filter(
    (each) => typeof each === "string",
  );
}

/** The keywords for objects in a schema that does not name the type object. */
export function objectKeywords(schema: Json): readonly string[] {
  if (!isJsonObject(schema) || typesOf(schema).includes("object")) return [];
  return ["properties", "required"].filter((keyword) => keyword in schema);
}

export interface ToolSchema {
  readonly tool: Listed;
  readonly key: "inputSchema" | "outputSchema";
  readonly schema: Json;
  /** The schema and everything in it that is a schema, outermost first; not all of them where they are too many. */
  readonly parts: readonly Subschema[];
  readonly hasAllParts: boolean;
}

export function toolSchemas(surface: Surface, ...keys: readonly ToolSchema["key"][]): readonly ToolSchema[] {
  const all = schemasOf.get(surface) ?? readSchemas(surface);
  schemasOf.set(surface, all);
  return keys.length === 0 ? all : all.filter(({ key }) => keys.includes(key));
}

/** What was read of a surface, since most rules look at it. */
const schemasOf = new WeakMap<Surface, readonly ToolSchema[]>();

function readSchemas({ tools }: Surface): readonly ToolSchema[] {
  // Of all tools together.
  let left = maxFileValues;
  return tools.flatMap((tool) =>
    (["inputSchema", "outputSchema"] as const).flatMap((key) => {
      const { [key]: schema } = tool.definition;
      if (schema === undefined) return [];
      const parts: Subschema[] = [];
      const most = Math.min(left, maxSchemaParts);
      let hasAllParts = true;
      for (const part of subschemas(schema)) {
        hasAllParts = parts.length < most;
        if (!hasAllParts) break;
        parts.push(part);
      }
      left -= parts.length;
      return { tool, key, schema, parts, hasAllParts };
    }),
  );
}

/** The parameters of a tool, in its input schema, as far as that is looked at. */
export function parametersIn({ parts }: ToolSchema): readonly Subschema[] {
  return parts.filter(({ pointer }) => /^\/properties\/[^/]*$/.test(pointer));
}

/** The place of a part of a tool's schema: with the parameter that it belongs to. */
export function placeIn({ tool, key }: ToolSchema, pointer: string): FindingPlace {
  const [, parameter] = key === "inputSchema" ? (/^\/properties\/([^/]*)/.exec(pointer) ?? []) : [];
  return {
    tool: tool.name,
    ...(parameter === undefined ? {} : { parameter: parameter.replaceAll("~1", "/").replaceAll("~0", "~") }),
    pointer: `/${key}${pointer}`,
  };
}

/** What is found at a pointer in a tool's schema, and what clients do with it. */
export function aboutSchema(
  of: ToolSchema,
  pointer: string,
  message: string,
  clients?: ClientEffects,
): Found {
  return { ...aboutTool(of.tool, message, clients), place: placeIn(of, pointer) };
}

const listedNames = 8;

/** Names in a message: the first of many. */
export function listText(names: readonly string[]): string {
  return `${names.slice(0, listedNames).join(", ")}${names.length > listedNames ? " …" : ""}`;
}

/** What is wrong with a value, in view of a schema. */
export interface SchemaProblem {
  readonly pointer: string;
  readonly message: string;
}

/** What the errors of a value say: one problem for each place, the first that the validator tells. */
export function problemsIn(errors: readonly SchemaError[]): readonly SchemaProblem[] {
  const byPlace = Map.groupBy(errors, ({ instancePath }) => instancePath);
  return [...byPlace.values()].flatMap(([error]) => {
    if (error === undefined) return [];
    const { instancePath: pointer, keyword, params, message, actual = "" } = error;
    const isOfPart = [...byPlace.keys()].some((path) => path.startsWith(`${pointer}/`));
    // The value fits none of the alternatives here; what is wrong in it has an error of its own.
    if ((keyword === "enum" || keyword === "type") && isOfPart) return [];
    if (keyword === "required")
      return [{ pointer, message: `it has no ${JSON.stringify(params["missingProperty"] ?? "")}` }];
    const is = actual === "" ? "" : `it is ${actual}, and `;
    if (/\/type(?:\/\d+)?$/.test(pointer) && keyword === "enum")
      return [{ pointer, message: `${is}no such type exists in JSON Schema` }];
    if (keyword === "type") {
      const types = (Array.isArray(params["type"]) ? params["type"] : [params["type"]]) as readonly string[];
      return [{ pointer, message: `${is}must be of type ${types.join(" or ")}` }];
    }
    return [{ pointer, message: `${is}${message}` }];
  });
}

export function objectIn(schema: Json, key: string): JsonObject {
  const value = isJsonObject(schema) ? schema[key] : undefined;
  return isJsonObject(value) ? value : {};
}
