import { suggestion } from "../base/did-you-mean.ts";
import {
  asObject,
  formatKeyPath,
  isJsonObject,
  type Json,
  type JsonObject,
  type KeyPath,
} from "../base/json.ts";
import { afterPath, type Problem, problem, problemAt } from "../base/problem.ts";

// Expectations that are empty by their form are refused at load. Whether another one can fail is shown by a run with an agent that does
// nothing.

/** Whether an expected value is contained in every object: an object without members. */
export function isContainedEverywhere(expected: unknown): boolean {
  return isJsonObject(expected as Json) && Object.keys(expected as JsonObject).length === 0;
}

/** Whether limits hold for every number from 0 to `most`. */
export function holdsForAll(
  { min = 0, max = Infinity }: { readonly min?: number | undefined; readonly max?: number | undefined },
  most = Infinity,
): boolean {
  return min <= 0 && max >= most;
}

/** The problem of an expected value that every object contains. */
export function emptyObjectProblem(path: KeyPath, hint: string): Problem {
  return problemAt(path, ": every object contains {}, so it could not fail", {
    code: "config/checks-nothing",
    hint,
  });
}

const operators = ["$equals", "$contains"];

/** Problems of an expected result: an unknown operator, which would be taken for a key of the result, or one that always holds. */
export function resultProblems(expected: Json | undefined, path: KeyPath): Problem[] {
  const [[operator, operand] = ["", undefined], ...others] = Object.entries(asObject(expected));
  const isOperator = others.length === 0 && operator.startsWith("$");
  const inner = [...path, operator];
  if (isOperator && !operators.includes(operator)) {
    const escape = "A result with that very key is expected with {$contains: {…}}.";
    const hint = `${suggestion(operator, operators, "operators")} ${escape}`;
    const message = `unknown operator ${JSON.stringify(operator)} in ${formatKeyPath(path)}`;
    return [problem(inner, message, { code: "config/unknown-key", at: "key", hint })];
  }
  const hint = "Leave it out, or write {$equals: {}} for an object without members.";
  if (isContainedEverywhere(expected)) return [emptyObjectProblem(path, hint)];
  return operator === "$contains" && isOperator && isContainedEverywhere(operand)
    ? [emptyObjectProblem(inner, hint)]
    : [];
}

/** Problems of a JSON Schema as an expectation: it is empty, or has unknown keywords or formats. */
export function schemaProblems(schema: Json, path: KeyPath): Problem[] {
  if (schema !== true && !isContainedEverywhere(schema)) return unknownKeywords(schema, path);
  const hint = "Say what the value must be, such as {type: object, required: [id]}.";
  const message = "accepts every value, so it could not fail";
  return [problemAt(path, message, { code: "config/checks-nothing", hint })];
}

function words(text: string): readonly string[] {
  return text.split(" ");
}

/** Keywords with one schema, with a list of them, and with a table of them; `items` may be a schema or a list. */
const single = words(
  "additionalItems additionalProperties unevaluatedItems unevaluatedProperties if then else contains propertyNames not",
);
const listed = words("allOf anyOf oneOf prefixItems items");
const tabled = words("properties patternProperties dependentSchemas");
const definitions = words("$defs definitions");
const known = [
  ...single,
  ...listed,
  ...tabled,
  ...definitions,
  ...words("type const enum pattern format multipleOf required dependentRequired dependencies uniqueItems"),
  ...words("maximum exclusiveMaximum minimum exclusiveMinimum minLength maxLength minItems maxItems"),
  ...words("minProperties maxProperties minContains maxContains $ref $dynamicRef $recursiveRef"),
  ...words(
    "$schema $id id $anchor $dynamicAnchor $recursiveAnchor $vocabulary $comment title description default",
  ),
  ...words("deprecated readOnly writeOnly examples contentEncoding contentMediaType contentSchema"),
];
/** Those that the validator knows; any text is valid for another one. */
const formats = words(
  "date time date-time iso-time iso-date-time duration uri uri-reference uri-template url email hostname ipv4 ipv6 regex uuid json-pointer json-pointer-uri-fragment relative-json-pointer byte int32 int64 float double",
);

/** The schemas in a schema, with their places. */
function* innerSchemas(schema: JsonObject): Generator<readonly [schema: Json, keys: KeyPath]> {
  for (const [keyword, value] of Object.entries(schema)) {
    if (listed.includes(keyword) && Array.isArray(value))
      for (const [index, item] of value.entries()) yield [item as Json, [keyword, index]];
    else if (single.includes(keyword) || listed.includes(keyword)) yield [value, [keyword]];
    else if ([...tabled, ...definitions].includes(keyword) && isJsonObject(value))
      for (const [name, item] of Object.entries(value)) yield [item, [keyword, name]];
  }
}

function unknownKeywords(schema: Json, path: KeyPath): Problem[] {
  if (!isJsonObject(schema)) return [];
  const own = Object.keys(schema)
    .filter((keyword) => !known.includes(keyword) && !keyword.startsWith("x-"))
    .map((keyword) =>
      problem(
        [...path, keyword],
        `unknown keyword ${JSON.stringify(keyword)} in the schema ${formatKeyPath(path)}`,
        { code: "config/unknown-key", at: "key", hint: suggestion(keyword, known, "keywords") },
      ),
    );
  const { format } = schema;
  if (typeof format === "string" && !formats.includes(format))
    own.push(
      problem(
        [...path, "format"],
        `no format is named ${JSON.stringify(format)}, in the schema ${formatKeyPath(path)}`,
        { code: "config/unknown-reference", hint: suggestion(format, formats, "formats") },
      ),
    );
  const inside = [...innerSchemas(schema)].flatMap(([each, keys]) =>
    unknownKeywords(each, [...path, ...keys]),
  );
  return [...own, ...inside];
}

/** A note about a place of a file. */
interface WeakPlace {
  readonly message: string;
  readonly path: KeyPath;
}

function weak(path: KeyPath, after: string): WeakPlace {
  return { message: afterPath(path, after), path };
}

/** Notes on arguments with a key of the step or test around them: they are probably indented too far. */
export function strayKeys(args: unknown, keys: readonly string[], path: KeyPath): WeakPlace[] {
  return keys
    .filter((key) => Object.hasOwn(asObject(args), key))
    .map((key) =>
      weak(
        [...path, key],
        `is an argument of the tool, and nothing is expected there; ${key} belongs beside args`,
      ),
    );
}

/** Notes on whole numbers in a JSON value that are too large to be exact. */
export function inexactNumbers(value: unknown, path: KeyPath): WeakPlace[] {
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value))
    return [weak(path, `: ${value} cannot be distinguished from its neighbours; such numbers lose digits`)];
  if (typeof value !== "object" || value === null) return [];
  const isItem = Array.isArray(value);
  return Object.entries(value).flatMap(([key, member]) =>
    inexactNumbers(member, [...path, isItem ? Number(key) : key]),
  );
}
