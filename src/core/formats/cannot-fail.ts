import { isFoundInEveryText } from "../templates/pattern.ts";
import { selectJson } from "../templates/select-json.ts";
import { suggestion } from "./did-you-mean.ts";
import { formatKeyPath, isJsonObject, type KeyPath } from "./json.ts";
import type { Json, JsonObject } from "./model.ts";
import type { Problem } from "./problem.ts";

// Expectations that nothing could fail to meet. They are refused at load: what checks nothing cannot pass.

/** Whether an expected value is contained in every object: one without members. */
export function isContainedEverywhere(expected: unknown): boolean {
  return isJsonObject(expected as Json) && Object.keys(expected as JsonObject).length === 0;
}

/** The problem of an expected value that every object contains; `path` is its place. */
export function emptyObjectProblem(path: KeyPath, hint: string): Problem {
  const message = `${formatKeyPath(path)}: every object contains {}, so it could not fail`;
  return { code: "config/checks-nothing", message, path, at: "value", hint };
}

/** What is wrong with a JSON Schema that somebody wrote as an expectation: keywords that do not exist, and that it accepts everything. */
export function schemaProblems(schema: Json, path: KeyPath): Problem[] {
  const unknown = unknownKeywords(schema, path);
  if (unknown.length > 0 || canRefuse(schema, { root: schema, seen: [] })) return unknown;
  const message = `${formatKeyPath(path)} accepts every value, so it could not fail`;
  const hint = "Say what the value must be, such as {type: object, required: [id]}.";
  return [{ code: "config/checks-nothing", message, path, at: "value", hint }];
}

/** Keywords that a value may fail whatever they say. */
const strong = [
  "const",
  "enum",
  "maximum",
  "exclusiveMaximum",
  "minimum",
  "exclusiveMinimum",
  "maxLength",
  "maxItems",
  "maxProperties",
];
/** Keywords that a value may fail by themselves, unless they are empty, 0 or false. */
const assertions = [
  "multipleOf",
  "minLength",
  "format",
  "minItems",
  "uniqueItems",
  "minProperties",
  "required",
  "dependentRequired",
  "dependencies",
  "$dynamicRef",
  "$recursiveRef",
];
/** Keywords of which each has a rule of its own. */
const special = ["type", "pattern", "contains", "minContains", "maxContains", "not", "propertyNames", "$ref"];
/** Keywords with one schema, with a list of them, and with a table of them. */
const single = [
  "additionalItems",
  "additionalProperties",
  "unevaluatedItems",
  "unevaluatedProperties",
  "if",
  "then",
  "else",
];
const listed = ["allOf", "anyOf", "oneOf", "prefixItems"];
const tabled = ["properties", "patternProperties", "dependentSchemas"];
const eitherWay = ["items"];
const inner = [...single, "contains", "propertyNames", "not"];
const silent = [
  "$schema",
  "$id",
  "id",
  "$anchor",
  "$dynamicAnchor",
  "$recursiveAnchor",
  "$vocabulary",
  "$comment",
  "$defs",
  "definitions",
  "title",
  "description",
  "default",
  "deprecated",
  "readOnly",
  "writeOnly",
  "examples",
  "contentEncoding",
  "contentMediaType",
  "contentSchema",
];
/** Those that the validator looks at; it takes any text for one of another. */
const formats = [
  "date",
  "time",
  "date-time",
  "iso-time",
  "iso-date-time",
  "duration",
  "uri",
  "uri-reference",
  "uri-template",
  "url",
  "email",
  "hostname",
  "ipv4",
  "ipv6",
  "regex",
  "uuid",
  "json-pointer",
  "json-pointer-uri-fragment",
  "relative-json-pointer",
  "byte",
  "int32",
  "int64",
  "float",
  "double",
];
const known = [
  ...strong,
  ...assertions,
  ...special,
  ...single,
  ...listed,
  ...tabled,
  ...eitherWay,
  ...silent,
];

/** The schemas in a schema, with their places. */
function* innerSchemas(schema: JsonObject): Generator<readonly [schema: Json, keys: KeyPath]> {
  for (const [keyword, value] of Object.entries(schema)) {
    if (inner.includes(keyword)) yield [value, [keyword]];
    else if ([...listed, ...eitherWay].includes(keyword)) {
      if (Array.isArray(value))
        for (const [index, item] of value.entries()) yield [item as Json, [keyword, index]];
      else yield [value, [keyword]];
    } else if ([...tabled, "$defs", "definitions"].includes(keyword) && isJsonObject(value))
      for (const [name, item] of Object.entries(value)) yield [item, [keyword, name]];
  }
}

function unknownKeywords(schema: Json, path: KeyPath): Problem[] {
  if (!isJsonObject(schema)) return [];
  const own = Object.keys(schema)
    .filter((keyword) => !known.includes(keyword) && !keyword.startsWith("x-"))
    .map((keyword): Problem => {
      const message = `unknown keyword ${JSON.stringify(keyword)} in the schema ${formatKeyPath(path)}`;
      const hint = suggestion(keyword, known, "keywords");
      return { code: "config/unknown-key", message, path: [...path, keyword], at: "key", hint };
    });
  const { format } = schema;
  if (typeof format === "string" && !formats.includes(format)) {
    const message = `no format is named ${JSON.stringify(format)}, in the schema ${formatKeyPath(path)}`;
    const hint = suggestion(format, formats, "formats");
    own.push({ code: "config/unknown-reference", message, path: [...path, "format"], at: "value", hint });
  }
  return [
    ...own,
    ...[...innerSchemas(schema)].flatMap(([each, keys]) => unknownKeywords(each, [...path, ...keys])),
  ];
}

/** The schema that references lead into, and those that led here. */
interface Whole {
  readonly root: Json;
  readonly seen: readonly string[];
}

/** Whether there may be a value that a schema refuses. */
function canRefuse(schema: Json, whole: Whole): boolean {
  if (!isJsonObject(schema)) return schema === false;
  const refuses = (inside: Json | undefined): boolean => inside !== undefined && canRefuse(inside, whole);
  if (strong.some((keyword) => schema[keyword] !== undefined)) return true;
  if (assertions.some((keyword) => saysSomething(schema[keyword]))) return true;
  const { anyOf, oneOf, not, pattern, propertyNames } = schema;
  if (not !== undefined && canAccept(not, whole)) return true;
  if (typeof pattern === "string" && !isEverywhere(pattern)) return true;
  if (namesSomeTypes([schema["type"]]) || refuses(propertyNames)) return true;
  if (limitsContained(schema) || referenceRefuses(schema["$ref"], whole)) return true;
  // Several of them refuse what fits two.
  if (Array.isArray(oneOf) && oneOf.length > 1) return true;
  if (isList(anyOf) && anyOf.every(refuses) && !isEveryType(anyOf)) return true;
  return [...innerSchemas(schema)].some(([each, [keyword = ""]]) => {
    const name = String(keyword);
    if (["then", "else"].includes(name)) return schema["if"] !== undefined && refuses(each);
    return (
      !["anyOf", "if", "not", "contains", "propertyNames", "$defs", "definitions"].includes(name) &&
      refuses(each)
    );
  });
}

/** Whether there may be a value that a schema accepts; only what is plain counts. */
function canAccept(schema: Json, whole: Whole): boolean {
  if (!isJsonObject(schema)) return schema !== false;
  return schema["not"] === undefined || canRefuse(schema["not"], whole);
}

/** `minContains` and `maxContains` say something only of `contains`. */
function limitsContained({ contains, minContains = 1, maxContains }: JsonObject): boolean {
  return contains !== undefined && (minContains !== 0 || maxContains !== undefined);
}

/** A reference into the schema refuses what its target refuses; other references are unknown. */
function referenceRefuses(reference: Json | undefined, { root, seen }: Whole): boolean {
  if (typeof reference !== "string") return false;
  if (seen.includes(reference)) return false;
  const target = reference === "#" ? root : pointedAt(root, reference);
  return target === undefined || canRefuse(target, { root, seen: [...seen, reference] });
}

function pointedAt(root: Json, reference: string): Json | undefined {
  if (!reference.startsWith("#/")) return undefined;
  const keys = reference
    .slice(2)
    .split("/")
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  let found: Json | undefined = root;
  for (const key of keys) found = isJsonObject(found) && Object.hasOwn(found, key) ? found[key] : undefined;
  return found;
}

const everyType = ["string", "number", "boolean", "object", "array", "null"];

/** Whether there are types, and a type that is not among them. */
function namesSomeTypes(types: readonly (Json | undefined)[]): boolean {
  const named = types.flat().filter((type) => type !== undefined);
  return named.length > 0 && !everyType.every((type) => named.includes(type));
}

/** Whether alternatives that say nothing but a type name all of them. */
function isEveryType(alternatives: readonly Json[]): boolean {
  const plain = alternatives.filter(isJsonObject).filter((each) => Object.keys(each).join() === "type");
  return plain.length > 0 && !namesSomeTypes(plain.map(({ type }) => type));
}

function isEverywhere(pattern: string): boolean {
  try {
    return pattern === "" || isFoundInEveryText(pattern);
  } catch {
    return false; // RE2 has not all that JavaScript has
  }
}

function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

/** What a keyword says: nothing where it is an empty list or table, no least number, or `false`. */
function saysSomething(value: Json | undefined): boolean {
  if (value === undefined || value === null || value === false || value === 0) return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}

/**
 * A JSON value without the places that some paths (RFC 9535) lead to: members of objects and entries of lists are taken
 * out; the value itself cannot be. Throws `task/json-path`.
 */
export function withoutPaths(value: Json, paths: readonly string[]): Json {
  const out: Places = { taken: false, below: new Map() };
  for (const path of paths) mark(value, path, out);
  return copy(value, out);
}

/**
 * Whether some paths take out all that a value could be compared by: every text, number and empty list or object that is
 * in it. Of an empty list or object, whether they take out whatever such a one may have. Throws `task/json-path`.
 */
export function leavesNothing(value: Json, paths: readonly string[]): boolean {
  if (paths.length === 0) return false;
  const compared = isEmpty(value) ? filled(value) : value;
  const out: Places = { taken: false, below: new Map() };
  for (const path of paths) mark(compared, path, out);
  return isAllTaken(compared, out);
}

function isEmpty(value: Json): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

/** A list, or an object, with what no path can name but by chance. */
function filled(value: Json): Json {
  const entries = Array.from({ length: 20 }, (_, index) => [`\uE000${index}`, index] as const);
  return Array.isArray(value) ? entries.map(([text]) => text) : Object.fromEntries(entries);
}

function isAllTaken(value: Json, places: Places | undefined): boolean {
  if (places === undefined) return false;
  if (places.taken) return true;
  if (typeof value !== "object" || value === null || isEmpty(value)) return false;
  const members: readonly (readonly [string | number, Json])[] = Array.isArray(value)
    ? value.map((item: Json, index) => [index, item] as const)
    : Object.entries(value);
  return members.every(([key, member]) => isAllTaken(member, places.below.get(key)));
}

/** Places that are taken out, and those on the way to them. */
interface Places {
  taken: boolean;
  readonly below: Map<string | number, Places>;
}

function mark(value: Json, path: string, out: Places): void {
  for (const keys of selectJson(value, path).places) {
    let place = out;
    for (const key of keys) place = below(place, key);
    place.taken = true;
  }
}

function below(place: Places, key: string | number): Places {
  const known = place.below.get(key);
  if (known !== undefined) return known;
  const made: Places = { taken: false, below: new Map() };
  place.below.set(key, made);
  return made;
}

function copy(value: Json, { below: places }: Places): Json {
  if (places.size === 0) return value;
  const isKept = (key: string | number): boolean => places.get(key)?.taken !== true;
  const inside = (key: string | number, member: Json): Json => {
    const place = places.get(key);
    return place === undefined ? member : copy(member, place);
  };
  if (Array.isArray(value)) {
    const entries = value.map((item: Json, index) => [index, item] as const);
    return entries.filter(([index]) => isKept(index)).map(([index, item]) => inside(index, item));
  }
  if (!isJsonObject(value)) return value;
  const members = Object.entries(value).filter(([key]) => isKept(key));
  return Object.fromEntries(members.map(([key, member]) => [key, inside(key, member)]));
}
