import { isJsonObject, type Json } from "../base/json.ts";
import { equalJson } from "./json-difference.ts";

const maxDepth = 32;

/** A schema with only these keywords, and such without an effect on validity, all of them well-formed. */
interface PlainSchema {
  readonly type?: string;
  readonly enum?: readonly Json[];
  readonly properties?: Readonly<Record<string, PlainSchema | boolean>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean;
  readonly items?: PlainSchema | boolean;
  readonly minimum?: number;
  readonly maximum?: number;
}

/**
 * Whether a value is valid against a JSON Schema with common keywords only. False if it is not, and if only the validator can
 * decide. Most calls fit such schemas, and the validator is a thread that takes long to start.
 */
export function fitsPlainly(schema: Json, value: Json): boolean {
  if (typeof schema !== "object" || schema === null) return schema === true;
  const isKnownPlain = known.get(schema) ?? isPlain(schema, 0);
  known.set(schema, isKnownPlain);
  return isKnownPlain && fits(schema as PlainSchema, value);
}

/** Whether schemas are plain: each comes with many calls. */
const known = new WeakMap<object, boolean>();

function fits(schema: PlainSchema | boolean, value: Json): boolean {
  if (typeof schema === "boolean") return schema;
  const { type, enum: allowed, properties = {}, required = [], additionalProperties = true } = schema;
  const { items = true, minimum = -Infinity, maximum = Infinity } = schema;
  if (type !== undefined && !isOfType(value, type)) return false;
  if (allowed?.some((each) => equalJson(each, value)) === false) return false;
  if (typeof value === "number") return value >= minimum && value <= maximum;
  if (Array.isArray(value)) return value.every((item: Json) => fits(items, item));
  if (!isJsonObject(value)) return true;
  if (!required.every((name) => Object.hasOwn(value, name))) return false;
  return Object.entries(value).every(([key, member]) => {
    const own = Object.hasOwn(properties, key) ? properties[key] : undefined;
    return own === undefined ? additionalProperties : fits(own, member);
  });
}

function isPlain(schema: Json, depth: number): boolean {
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
