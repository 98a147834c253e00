import { stringify } from "yaml";
import * as z from "zod";
import { isJsonObject, type Json, type JsonObject } from "../base/json.ts";

/**
 * The JSON Schema (draft 2020-12) of what a schema accepts. `defaultTexts` keeps `defaultText`, the words for defaults that are not
 * a fixed value; only the reference page wants them.
 */
export function inputJsonSchema(schema: z.ZodType, { defaultTexts = false } = {}): JsonObject {
  return z.toJSONSchema(schema, {
    io: "input",
    target: "draft-2020-12",
    unrepresentable: "any",
    override: ({ jsonSchema }) => {
      // Any text may hold a ${VAR}, so a format can only be checked after it was replaced.
      delete jsonSchema.format;
      if (!defaultTexts) delete jsonSchema["defaultText"];
    },
  }) as JsonObject;
}

/** Names a part of a schema that has an id, where it is used. */
export type NameOfPart = (id: string) => string;

/** The default of a value, as a page or a help text shows it; "" where it has none. */
export function defaultOf(property: Json | undefined): string {
  if (!isJsonObject(property)) return "";
  const value = property["default"];
  if (value !== undefined) return `\`${typeof value === "string" ? value : JSON.stringify(value)}\``;
  return textAt(property, "defaultText");
}

/** The type of a value in words. */
export function typeText(schema: Json | undefined, nameOf: NameOfPart): string {
  if (!isJsonObject(schema)) return "any JSON value";
  if (typeof schema["$ref"] === "string") return nameOf(schema["$ref"].split("/").at(-1) ?? "");
  const union = schema["oneOf"] ?? schema["anyOf"];
  if (Array.isArray(union)) return union.map((each: Json) => typeText(each, nameOf)).join(" or ");
  if (schema["const"] !== undefined) return `\`${JSON.stringify(schema["const"])}\``;
  if (Array.isArray(schema["enum"])) {
    return schema["enum"].map((each: Json) => `\`${JSON.stringify(each)}\``).join(" or ");
  }
  return plainTypeText(schema, nameOf);
}

function plainTypeText(schema: JsonObject, nameOf: NameOfPart): string {
  switch (schema["type"]) {
    case "array":
      return `list of ${plural(typeText(schema["items"], nameOf))}`;
    case "object":
      return isTable(schema)
        ? `object: name to ${typeText(schema["additionalProperties"], nameOf)}`
        : objectText(schema, nameOf);
    case "integer":
      return `whole number${rangeText(schema)}`;
    case "number":
      return `number${rangeText(schema)}`;
    case "boolean":
      return "`true` or `false`";
    case "null":
      return "`null`";
    case "string":
      return "string";
    default:
      return "any JSON value";
  }
}

/** Whether the members of an object may have any names. */
function isTable({ properties, additionalProperties }: JsonObject): boolean {
  return (
    isJsonObject(additionalProperties) || (additionalProperties !== undefined && properties === undefined)
  );
}

/** A small object that has no section of its own. */
function objectText(schema: JsonObject, nameOf: NameOfPart): string {
  const members = Object.entries(objectAt(schema, "properties"));
  if (members.length === 0) return "object";
  return `\`{${members.map(([key]) => key).join(", ")}}\` of ${members.map(([, each]) => typeText(each, nameOf)).join(", ")}`;
}

function plural(type: string): string {
  return /^(string|object)$/.test(type) ? `${type}s` : type;
}

function rangeText({ minimum, maximum }: JsonObject): string {
  if (typeof minimum !== "number" || minimum === Number.MIN_SAFE_INTEGER) return "";
  const isOpen = typeof maximum !== "number" || maximum === Number.MAX_SAFE_INTEGER;
  return isOpen ? `, at least ${minimum}` : `, ${minimum} to ${maximum}`;
}

export function objectAt(parent: JsonObject, key: string): JsonObject {
  const value = parent[key];
  return isJsonObject(value) ? value : {};
}

export function textAt(parent: Json | undefined, key: string): string {
  const value = isJsonObject(parent) ? parent[key] : undefined;
  return typeof value === "string" ? value : "";
}

/** A setting, as help texts and reference pages list it. */
export interface Setting {
  /** Its place: `content_patterns[].path` is a member of each entry of a list. */
  readonly key: string;
  readonly type: string;
  readonly required: boolean;
  /** The default in words; "" without one. */
  readonly default: string;
  readonly description: string;
}

/** The declaration of a grader with the example of its type, in YAML. */
export function exampleText({ type, example }: { readonly type: string; readonly example: Json }): string {
  return stringify([{ type, config: example }], { lineWidth: 0 });
}

/** Levels of objects in objects whose members are listed. */
const maxLevels = 4;

/** The settings that a schema of an object describes, each object followed by its members. */
export function settingsOf(schema: z.ZodType): readonly Setting[] {
  const root = inputJsonSchema(schema, { defaultTexts: true });
  const definitions = objectAt(root, "$defs");
  const resolved = (part: Json | undefined): Json | undefined => {
    const reference = isJsonObject(part) ? part["$ref"] : undefined;
    const id = typeof reference === "string" ? reference.split("/").at(-1) : undefined;
    return id === undefined ? part : definitions[id];
  };
  const nameOf: NameOfPart = (id) => textAt(definitions[id], "title").toLowerCase() || "object";
  /** The objects that a value may be, or that may stand in its list, and how their place is written. */
  const objectsIn = (
    part: Json | undefined,
    suffix = "",
  ): (readonly [object: JsonObject, suffix: string])[] => {
    const value = resolved(part);
    if (!isJsonObject(value)) return [];
    if (value["type"] === "array") return objectsIn(value["items"], `${suffix}[]`);
    const union = value["oneOf"] ?? value["anyOf"];
    if (Array.isArray(union)) return union.flatMap((each: Json) => objectsIn(each, suffix));
    return value["properties"] === undefined ? [] : [[value, suffix]];
  };
  const rowsOf = (object: JsonObject, prefix: string, level: number): Setting[] => {
    const { required } = object;
    return Object.entries(objectAt(object, "properties")).flatMap(([name, part]): Setting[] => {
      const key = `${prefix}${name}`;
      const inner = level < maxLevels ? objectsIn(part) : [];
      const row = {
        key,
        type: typeText(inner.length > 0 ? withoutMembers(part) : part, nameOf),
        required: Array.isArray(required) && required.includes(name),
        default: defaultOf(part),
        description: textAt(part, "description"),
      };
      return [row, ...inner.flatMap(([each, suffix]) => rowsOf(each, `${key}${suffix}.`, level + 1))];
    });
  };
  return objectsIn(root).flatMap(([object]) => rowsOf(object, "", 1));
}

/** A schema without the members of its objects, which are listed by themselves. */
function withoutMembers(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(withoutMembers);
  if (!isJsonObject(schema)) return schema;
  if (schema["properties"] !== undefined) return { type: "object" };
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, withoutMembers(value)]));
}
