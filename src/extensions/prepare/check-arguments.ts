import { pointerTo } from "../../core/checks/json-difference.ts";
import { fillDefaults } from "../../core/formats/extension/fill-defaults.ts";
import { durationInWords } from "../../core/formats/extension/typed-args.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import type { SchemaCheck } from "../../core/grade/grader.ts";
import { hasUnknown, knownArguments, unknownValue } from "./known-arguments.ts";
import { nameRules } from "./name-rules.ts";

/** Validates a value against a JSON Schema. Never rejects. */
export type ValidateSchema = (schema: Json, value: Json) => Promise<SchemaCheck>;

/**
 * What is wrong with the arguments of an operation, a sentence each, with their defaults filled in. Where they have
 * templates only that is checked which does not depend on them.
 */
export async function checkArguments(
  params: JsonObject,
  args: JsonObject,
  validate: ValidateSchema,
): Promise<readonly string[]> {
  const value = fillDefaults(params, knownArguments(args));
  if (!hasUnknown(value)) {
    const check = await validate(params, value);
    return check.status === "unusable"
      ? [`its JSON Schema cannot be used: ${check.reason}`]
      : problemsOf(check, "");
  }
  return checkKnown(params, value, { root: params, validate, place: "" });
}

interface Place {
  /** The whole schema, which references start from. */
  readonly root: JsonObject;
  readonly validate: ValidateSchema;
  /** JSON pointer of the value. */
  readonly place: string;
}

/** Checks a part by itself; around what is not known, only keywords that need no more than the names of members. */
async function checkKnown(schema: Json | undefined, value: Json, place: Place): Promise<readonly string[]> {
  if (value === unknownValue || schema === undefined) return [];
  if (!hasUnknown(value)) {
    const check = await place.validate(withDefinitions(schema, place.root), value);
    return problemsOf(check, place.place);
  }
  // Beside a reference some dialects heed nothing.
  if (!isJsonObject(schema) || schema["$ref"] !== undefined) return [];
  const expected = typeof schema["type"] === "string" ? schema["type"] : undefined;
  const type = Array.isArray(value) ? "array" : "object";
  if (expected !== undefined && expected !== type) return [`${named(place.place)} must be ${expected}`];
  return isJsonObject(value) ? checkMembers(schema, value, place) : checkItems(schema, value, place);
}

async function checkMembers(schema: JsonObject, value: JsonObject, place: Place): Promise<readonly string[]> {
  const properties = objectOf(schema["properties"]);
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const missing = required.filter((name) => typeof name === "string" && !Object.hasOwn(value, name));
  const own = Object.entries(value).filter(([name]) => Object.hasOwn(properties, name));
  const inner = await Promise.all(
    own.map(([name, member]) =>
      checkKnown(properties[name], member, { ...place, place: `${place.place}${pointerTo(name)}` }),
    ),
  );
  const rules = nameRules(schema);
  const told = rules === undefined ? [] : problemsOf(await place.validate(rules, value), place.place);
  // Not what the members are, which is not known.
  const chosen = told.map((problem) => problem.replace(/, is \{.*$/s, ""));
  return [
    ...chosen,
    ...missing.map((name) => `${named(place.place)} must have required property '${String(name)}'`),
    ...unknownNames(schema, value).map(
      (name) => `${named(place.place)} must NOT have additional properties (${JSON.stringify(name)})`,
    ),
    ...inner.flat(),
  ];
}

/** Names that the schema rules out; none where patterns could allow them. */
function unknownNames(schema: JsonObject, value: JsonObject): string[] {
  if (schema["additionalProperties"] !== false || schema["patternProperties"] !== undefined) return [];
  const properties = objectOf(schema["properties"]);
  return Object.keys(value).filter((name) => !Object.hasOwn(properties, name));
}

async function checkItems(schema: JsonObject, value: Json, place: Place): Promise<readonly string[]> {
  const { items } = schema;
  const list: readonly Json[] = Array.isArray(value) ? value : [];
  if (!isJsonObject(items) || schema["prefixItems"] !== undefined) return [];
  const inner = await Promise.all(
    list.map((item, index) => checkKnown(items, item, { ...place, place: `${place.place}/${index}` })),
  );
  return inner.flat();
}

/** A part of a schema keeps what its references lead to, where that is in the usual place. */
function withDefinitions(schema: Json, root: JsonObject): Json {
  if (!isJsonObject(schema)) return schema;
  const shared = ["$schema", "$defs", "definitions"].flatMap((name) =>
    root[name] === undefined ? [] : [[name, root[name]] as const],
  );
  return { ...Object.fromEntries(shared), ...schema };
}

/** A part that cannot be used by itself is left to the trial, which has the whole. */
function problemsOf(check: SchemaCheck, place: string): readonly string[] {
  if (check.status !== "invalid") return [];
  return check.errors
    .map(durationInWords)
    .map((error) =>
      error.startsWith("the value ")
        ? `${named(place)}${error.slice("the value".length)}`
        : `${place}${error}`,
    );
}

function named(place: string): string {
  return place === "" ? "the arguments" : place;
}

function objectOf(value: Json | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}
