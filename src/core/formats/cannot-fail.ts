import { suggestion } from "./did-you-mean.ts";
import { isJsonObject } from "./json.ts";
import type { KeyPath } from "./key-path.ts";
import { formatKeyPath } from "./key-path.ts";
import type { Json, JsonObject } from "./model.ts";
import type { Problem } from "./problem.ts";
import { leavesNothing } from "./without-paths.ts";

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

/** The problem of paths that leave nothing of what is expected; none when something is left. Throws `task/json-path`. */
export function ignoredProblems(expected: Json, ignorePaths: readonly string[], path: KeyPath): Problem[] {
  if (!leavesNothing(expected, ignorePaths)) return [];
  const message = `${formatKeyPath(path)} leaves out all that is expected, so nothing would be compared`;
  const hint = "Leave out only what differs every time.";
  return [{ code: "config/checks-nothing", message, path, at: "value", hint }];
}

/** What is wrong with a JSON Schema that somebody wrote as an expectation: keywords that do not exist, and that it accepts everything. */
export function schemaProblems(schema: Json, path: KeyPath): Problem[] {
  const unknown = unknownKeywords(schema, path);
  if (unknown.length > 0 || canRefuse(schema)) return unknown;
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
  "contains",
  "not",
];
/** Keywords that a value may fail by themselves, unless they are empty, 0 or false. */
const assertions = [
  "type",
  "multipleOf",
  "minLength",
  "pattern",
  "format",
  "minItems",
  "uniqueItems",
  "maxContains",
  "minContains",
  "minProperties",
  "required",
  "dependentRequired",
  "dependencies",
  "propertyNames",
  "$ref",
  "$dynamicRef",
  "$recursiveRef",
];
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
const known = [...strong, ...assertions, ...single, ...listed, ...tabled, ...eitherWay, ...silent];

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

/** Whether there may be a value that a schema refuses. */
function canRefuse(schema: Json): boolean {
  if (!isJsonObject(schema)) return schema === false;
  if (strong.some((keyword) => schema[keyword] !== undefined)) return true;
  if (assertions.some((keyword) => saysSomething(schema[keyword]))) return true;
  const { anyOf, oneOf } = schema;
  // Several of them refuse what fits two.
  if (Array.isArray(oneOf) && oneOf.length > 1) return true;
  if (Array.isArray(anyOf) && anyOf.every((each: Json) => canRefuse(each))) return true;
  return [...innerSchemas(schema)].some(
    ([each, [keyword = ""]]) =>
      !["anyOf", "if", "$defs", "definitions"].includes(String(keyword)) && canRefuse(each),
  );
}

/** What a keyword says: nothing where it is an empty list or table, no least number, or `false`. */
function saysSomething(value: Json | undefined): boolean {
  if (value === undefined || value === null || value === false || value === 0) return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}
