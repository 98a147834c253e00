import { isJsonObject } from "../../src/core/formats/json.ts";
import type { Json, JsonObject } from "../../src/core/formats/model.ts";

export interface ReferencePage {
  /** Everything before the first table, in Markdown. */
  readonly introduction: string;
  /** JSON Schema of the file, with its parts in `$defs`, each with a title and a description. */
  readonly schema: JsonObject;
  /** Parts that are explained in the introduction: what they are called where they are used, by their id. */
  readonly words: Readonly<Record<string, string>>;
}

/** What is known of the parts of a schema while the tables are written. */
interface Names {
  readonly titles: ReadonlyMap<string, string>;
  readonly words: Readonly<Record<string, string>>;
}

/** The reference page of a format, in Markdown: a table for the file, and one for each of its parts. */
export function referencePage({ introduction, schema, words }: ReferencePage): string {
  const definitions = Object.entries(objectAt(schema, "$defs"));
  const names = { titles: new Map(definitions.map(([id, each]) => [id, textAt(each, "title")])), words };
  const sections = definitions.flatMap(([id, definition]) =>
    isJsonObject(definition) && !Object.hasOwn(words, id) ? [section(definition, names)] : [],
  );
  return [introduction, "## The file", "", table(schema, names), ...sections].join("\n");
}

function section(definition: JsonObject, names: Names): string {
  const isObject = definition["properties"] !== undefined;
  const body = isObject ? table(definition, names) : `One of: ${typeText(definition, names)}.\n`;
  return [`## ${textAt(definition, "title")}`, "", textAt(definition, "description"), "", body].join("\n");
}

function table(definition: JsonObject, names: Names): string {
  const required = definition["required"];
  const rows = Object.entries(objectAt(definition, "properties")).map(([key, property]) => {
    const isRequired = Array.isArray(required) && required.includes(key);
    return [
      `\`${key}\``,
      typeText(property, names),
      isRequired ? "**required**" : defaultOf(property),
      textAt(property, "description"),
    ];
  });
  const head = ["key", "type", "default", "meaning"];
  const lines = [head, head.map(() => "---"), ...rows].map(
    (cells) => `| ${cells.map(escapeCell).join(" | ")} |`,
  );
  return `${lines.join("\n")}\n`;
}

function escapeCell(text: string): string {
  return text.replaceAll("|", String.raw`\|`).replaceAll("\n", " ");
}

function defaultOf(property: Json | undefined): string {
  if (!isJsonObject(property)) return "";
  const value = property["default"];
  if (value !== undefined) return `\`${typeof value === "string" ? value : JSON.stringify(value)}\``;
  return textAt(property, "defaultText");
}

function typeText(schema: Json | undefined, names: Names): string {
  if (!isJsonObject(schema)) return "any JSON value";
  if (typeof schema["$ref"] === "string") return referenceText(schema["$ref"], names);
  const union = schema["oneOf"] ?? schema["anyOf"];
  if (Array.isArray(union)) return union.map((each: Json) => typeText(each, names)).join(" or ");
  if (schema["const"] !== undefined) return `\`${JSON.stringify(schema["const"])}\``;
  if (Array.isArray(schema["enum"])) {
    return schema["enum"].map((each: Json) => `\`${JSON.stringify(each)}\``).join(" or ");
  }
  return plainTypeText(schema, names);
}

function plainTypeText(schema: JsonObject, names: Names): string {
  switch (schema["type"]) {
    case "array":
      return `list of ${plural(typeText(schema["items"], names))}`;
    case "object":
      return isTable(schema)
        ? `object: name to ${typeText(schema["additionalProperties"], names)}`
        : objectText(schema, names);
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

/** Whether the members of an object have any names, be there one or another that means something of its own. */
function isTable({ properties, additionalProperties }: JsonObject): boolean {
  return (
    isJsonObject(additionalProperties) || (additionalProperties !== undefined && properties === undefined)
  );
}

/** A small object that has no section of its own. */
function objectText(schema: JsonObject, names: Names): string {
  const members = Object.entries(objectAt(schema, "properties"));
  if (members.length === 0) return "object";
  return `\`{${members.map(([key]) => key).join(", ")}}\` of ${members.map(([, each]) => typeText(each, names)).join(", ")}`;
}

function plural(type: string): string {
  return /^(string|object)$/.test(type) ? `${type}s` : type;
}

function rangeText({ minimum, maximum }: JsonObject): string {
  if (typeof minimum !== "number" || minimum === Number.MIN_SAFE_INTEGER) return "";
  const isOpen = typeof maximum !== "number" || maximum === Number.MAX_SAFE_INTEGER;
  return isOpen ? `, at least ${minimum}` : `, ${minimum} to ${maximum}`;
}

function referenceText(reference: string, { titles, words }: Names): string {
  const id = reference.split("/").at(-1) ?? "";
  const word = Object.hasOwn(words, id) ? words[id] : undefined;
  if (word !== undefined) return word;
  const title = titles.get(id) ?? id;
  return `[${title}](#${anchor(title)})`;
}

/** The anchor that Git hosts give to a heading. */
function anchor(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\w\s-]/g, "")
    .replaceAll(/\s/g, "-");
}

function objectAt(parent: JsonObject, key: string): JsonObject {
  const value = parent[key];
  return isJsonObject(value) ? value : {};
}

function textAt(parent: Json | undefined, key: string): string {
  const value = isJsonObject(parent) ? parent[key] : undefined;
  return typeof value === "string" ? value : "";
}
