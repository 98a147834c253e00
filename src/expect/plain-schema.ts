import { isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import { equalJson } from "./json-difference.ts";

/** Keywords without an effect on validity. */
const annotations: ReadonlySet<string> = new Set([
  "title",
  "description",
  "default",
  "examples",
  "deprecated",
  "$comment",
]);
const maxDepth = 32;

/**
 * Whether a value is valid against a JSON Schema with common keywords only. False if it is not, and if only the validator can
 * decide. Most calls fit such schemas, and the validator is a thread that takes long to start.
 */
export function fitsPlainly(schema: Json, value: Json, depth = 0): boolean {
  if (!isJsonObject(schema) || depth > maxDepth) return schema === true;
  // Runs for every call: a list of all entries would take longer than the rest.
  for (const keyword of Object.keys(schema)) {
    if (annotations.has(keyword)) continue;
    const wanted = schema[keyword];
    if (wanted !== undefined && !fitsKeyword(keyword, wanted, value, { schema, depth })) return false;
  }
  return true;
}

function fitsKeyword(
  keyword: string,
  wanted: Json,
  value: Json,
  { schema, depth }: { readonly schema: JsonObject; readonly depth: number },
): boolean {
  switch (keyword) {
    case "$schema":
      return isDialect(wanted);
    case "type":
      return typeof wanted === "string" && isOfType(value, wanted);
    case "enum":
      return Array.isArray(wanted) && (wanted as readonly Json[]).some((each) => equalJson(each, value));
    case "properties":
      if (!isJsonObject(wanted)) return false;
      if (!isJsonObject(value)) return true;
      return Object.keys(wanted).every((key) => {
        const member = Object.hasOwn(value, key) ? value[key] : undefined;
        return member === undefined || fitsPlainly(wanted[key] ?? null, member, depth + 1);
      });
    case "required":
      if (!Array.isArray(wanted)) return false;
      return (
        !isJsonObject(value) || wanted.every((key) => typeof key === "string" && Object.hasOwn(value, key))
      );
    case "additionalProperties": {
      if (!isJsonObject(value) || wanted === true) return typeof wanted === "boolean";
      const { properties = {} } = schema;
      return (
        wanted === false &&
        isJsonObject(properties) &&
        Object.keys(value).every((key) => Object.hasOwn(properties, key))
      );
    }
    case "items":
      if (!Array.isArray(value)) return isJsonObject(wanted) || wanted === true;
      return (value as readonly Json[]).every((item) => fitsPlainly(wanted, item, depth + 1));
    case "minimum":
      return typeof wanted === "number" && (typeof value !== "number" || value >= wanted);
    case "maximum":
      return typeof wanted === "number" && (typeof value !== "number" || value <= wanted);
    default:
      return false;
  }
}

/** Whether a JSON Schema has only common keywords, all of them well-formed, so that {@link fitsPlainly} can decide. */
export function isPlain(schema: Json, depth = 0): boolean {
  if (!isJsonObject(schema) || depth > maxDepth) return typeof schema === "boolean";
  return Object.entries(schema).every(([keyword, wanted]) => isPlainKeyword(keyword, wanted ?? null, depth));
}

function isPlainKeyword(keyword: string, wanted: Json, depth: number): boolean {
  switch (keyword) {
    case "title":
    case "description":
    case "$comment":
      return typeof wanted === "string";
    case "deprecated":
    case "additionalProperties":
      return typeof wanted === "boolean";
    case "minimum":
    case "maximum":
      return typeof wanted === "number";
    case "default":
      return true;
    case "examples":
      return Array.isArray(wanted);
    case "$schema":
      return depth === 0 && isDialect(wanted);
    case "type":
      return typeof wanted === "string" && types.has(wanted);
    case "enum":
      return Array.isArray(wanted) && wanted.length > 0;
    case "properties":
      return isJsonObject(wanted) && Object.values(wanted).every((each) => isPlain(each ?? null, depth + 1));
    case "required":
      return (
        Array.isArray(wanted) &&
        wanted.every((key) => typeof key === "string") &&
        new Set(wanted).size === wanted.length
      );
    case "items":
      return isPlain(wanted, depth + 1);
    default:
      return false;
  }
}

const types: ReadonlySet<string> = new Set([
  "object",
  "array",
  "integer",
  "null",
  "string",
  "number",
  "boolean",
]);

function isDialect(schema: Json): boolean {
  return typeof schema === "string" && /2020-12|2019-09|draft-0[67]/.test(schema);
}

function isOfType(value: Json, type: string): boolean {
  switch (type) {
    case "object":
      return isJsonObject(value);
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    case "null":
      return value === null;
    default:
      return ["string", "number", "boolean"].includes(type) && typeof value === type;
  }
}
