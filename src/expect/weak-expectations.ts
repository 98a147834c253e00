import { isFoundInEveryText } from "../templates/pattern.ts";
import { selectJson } from "../templates/select-json.ts";
import { statesText } from "./contains-text.ts";
import { suggestion } from "../base/did-you-mean.ts";
import {
  asList,
  asObject,
  formatKeyPath,
  isJsonObject,
  type Json,
  type JsonObject,
  type KeyPath,
  valueAt,
} from "../base/json.ts";
import { afterPath, type Problem, problem, problemAt } from "../base/problem.ts";
import type { ProgramText } from "../model/step.ts";

// Expectations that nothing could fail to meet are refused at load, since what checks nothing cannot pass. Those that say
// less than their author may think are noted.

/** Whether an expected value is contained in every object: one without members. */
export function isContainedEverywhere(expected: unknown): boolean {
  return isJsonObject(expected as Json) && Object.keys(expected as JsonObject).length === 0;
}

/** Whether limits hold for every number that there can be, which is from 0 to `most`. */
export function holdsForAll(
  { min = 0, max = Infinity }: { readonly min?: number | undefined; readonly max?: number | undefined },
  most = Infinity,
): boolean {
  return min <= 0 && max >= most;
}

/** The problem of an expected value that every object contains; `path` is its place. */
export function emptyObjectProblem(path: KeyPath, hint: string): Problem {
  return problemAt(path, ": every object contains {}, so it could not fail", {
    code: "config/checks-nothing",
    hint,
  });
}

/** The members that some paths lead to, by the object or list that has them, and whether one leads to the value itself. */
function membersAt(
  value: Json,
  paths: readonly string[],
): { readonly isWhole: boolean; readonly isTaken: (holder: object, key: string | number) => boolean } {
  const places = paths.flatMap((path) => selectJson(value, path).places);
  const taken = Map.groupBy(places, (place) => valueAt(value, place.slice(0, -1)));
  const keys = new Map(
    [...taken].map(([holder, all]) => [holder, new Set(all.map((place) => place.at(-1)))]),
  );
  return {
    isWhole: places.some((place) => place.length === 0),
    isTaken: (holder, key) => keys.get(holder)?.has(Array.isArray(holder) ? Number(key) : key) === true,
  };
}

/**
 * A JSON value without the places that some paths (RFC 9535) lead to: members of objects and entries of lists are taken
 * out; the value itself cannot be. Throws `task/json-path`.
 */
export function withoutPaths(value: Json, paths: readonly string[]): Json {
  if (paths.length === 0) return value;
  const { isTaken } = membersAt(value, paths);
  const copy = (each: Json): Json => {
    if (typeof each !== "object" || each === null) return each;
    const rest = Object.entries(each).filter(([key]) => !isTaken(each, key));
    const members = rest.map(([key, member]) => [key, copy(member)] as const);
    return Array.isArray(each) ? members.map(([, member]) => member) : Object.fromEntries(members);
  };
  return copy(value);
}

/**
 * Whether some paths take out all that a value could be compared by: every text, number and empty list or object that is
 * in it. Of an empty list or object, whether they take out whatever such a one may have. Throws `task/json-path`.
 */
export function leavesNothing(value: Json, paths: readonly string[]): boolean {
  if (paths.length === 0) return false;
  const compared = hasMembers(value) || typeof value !== "object" || value === null ? value : filled(value);
  const { isWhole, isTaken } = membersAt(compared, paths);
  const isGone = (each: Json): boolean =>
    hasMembers(each) && Object.entries(each).every(([key, member]) => isTaken(each, key) || isGone(member));
  return isWhole || isGone(compared);
}

function hasMembers(value: Json): value is Json & object {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

/** A list, or an object, with what no path can name but by chance. */
function filled(value: object): Json {
  const names = Array.from({ length: 20 }, (_, index) => `\uE000${index}`);
  return Array.isArray(value) ? names : Object.fromEntries(names.map((name) => [name, name]));
}

/** What is wrong with a JSON Schema that is an expectation: keywords that do not exist, and that it accepts everything. */
export function schemaProblems(schema: Json, path: KeyPath): Problem[] {
  const unknown = unknownKeywords(schema, path);
  if (unknown.length > 0 || canRefuse(schema, { root: schema, seen: [] })) return unknown;
  const hint = "Say what the value must be, such as {type: object, required: [id]}.";
  const message = "accepts every value, so it could not fail";
  return [problemAt(path, message, { code: "config/checks-nothing", hint })];
}

function words(text: string): readonly string[] {
  return text.split(" ");
}

/** Keywords that a value may fail whatever they say. */
const strong = words(
  "const enum maximum exclusiveMaximum minimum exclusiveMinimum maxLength maxItems maxProperties",
);
/** Keywords that a value may fail by themselves, unless they are empty, 0 or false. */
const assertions = words(
  "multipleOf minLength format minItems uniqueItems minProperties required dependentRequired dependencies $dynamicRef $recursiveRef",
);
/** Keywords with one schema, with a list of them, and with a table of them; `items` may be a schema or a list. */
const single = words(
  "additionalItems additionalProperties unevaluatedItems unevaluatedProperties if then else contains propertyNames not",
);
const listed = words("allOf anyOf oneOf prefixItems items");
const tabled = words("properties patternProperties dependentSchemas");
const definitions = words("$defs definitions");
const known = [
  ...strong,
  ...assertions,
  ...single,
  ...listed,
  ...tabled,
  ...definitions,
  ...words("type pattern minContains maxContains $ref"),
  ...words(
    "$schema $id id $anchor $dynamicAnchor $recursiveAnchor $vocabulary $comment title description default",
  ),
  ...words("deprecated readOnly writeOnly examples contentEncoding contentMediaType contentSchema"),
];
/** Those that the validator looks at; it takes any text for one of another. */
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

/** The schema that references lead into, and those that led here. */
interface Whole {
  readonly root: Json;
  readonly seen: readonly string[];
}

/** Whether there may be a value that a schema refuses. */
function canRefuse(schema: Json, whole: Whole): boolean {
  if (!isJsonObject(schema)) return schema === false;
  const refuses = (inside: Json | undefined): boolean => inside !== undefined && canRefuse(inside, whole);
  const { anyOf, oneOf, not, pattern, type, contains, minContains = 1, maxContains } = schema;
  return (
    strong.some((keyword) => schema[keyword] !== undefined) ||
    assertions.some((keyword) => saysSomething(schema[keyword])) ||
    (not !== undefined && canAccept(not, whole)) ||
    (typeof pattern === "string" && !isEverywhere(pattern)) ||
    namesSomeTypes([type]) ||
    refuses(schema["propertyNames"]) ||
    // These two say something only of `contains`.
    (contains !== undefined && (minContains !== 0 || maxContains !== undefined)) ||
    referenceRefuses(schema["$ref"], whole) ||
    // Several of them refuse what fits two.
    (Array.isArray(oneOf) && oneOf.length > 1) ||
    (isList(anyOf) && anyOf.every(refuses) && !isEveryType(anyOf)) ||
    [...innerSchemas(schema)].some(([each, [keyword]]) => {
      if (keyword === "then" || keyword === "else") return schema["if"] !== undefined && refuses(each);
      const isApart = ["anyOf", "if", "not", "contains", "propertyNames", ...definitions].some(
        (name) => name === keyword,
      );
      return !isApart && refuses(each);
    })
  );
}

/** Whether there may be a value that a schema accepts; only what is plain counts. */
function canAccept(schema: Json, whole: Whole): boolean {
  if (!isJsonObject(schema)) return schema !== false;
  return schema["not"] === undefined || canRefuse(schema["not"], whole);
}

/** A reference into the schema refuses what its target refuses; other references are unknown. */
function referenceRefuses(reference: Json | undefined, { root, seen }: Whole): boolean {
  if (typeof reference !== "string" || seen.includes(reference)) return false;
  if (reference !== "#" && !reference.startsWith("#/")) return true;
  let target: Json | undefined = root;
  for (const key of reference.split("/").slice(1)) {
    const name = key.replaceAll("~1", "/").replaceAll("~0", "~");
    target = isJsonObject(target) && Object.hasOwn(target, name) ? target[name] : undefined;
  }
  return target === undefined || canRefuse(target, { root, seen: [...seen, reference] });
}

const everyType = words("string number boolean object array null");

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

/** A note about a place of a file. */
interface WeakPlace {
  readonly message: string;
  readonly path: KeyPath;
}

function weak(path: KeyPath, after: string): WeakPlace {
  return { message: afterPath(path, after), path };
}

/** Of an expected text that has no more than one letter, and no digit: almost every text has it. */
export function shortTexts(text: unknown, path: KeyPath): WeakPlace[] {
  if (typeof text !== "string" || text === "") return [];
  // A sign of Chinese, Japanese or Korean is a word.
  const signs = text.match(/[\p{L}\p{N}]/gu) ?? [];
  const isShort = signs.length < 2 && signs.every((sign) => /[a-z]/i.test(sign));
  return isShort ? [weak(path, `: almost every text has ${JSON.stringify(text)}`)] : [];
}

/** Of arguments that have a key of the step or test around them, which is not looked at there: they are indented too far. */
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

/** Tools that are there to repeat what they are given. */
const echoing = /(?:^|[^a-z])(?:echo|repeat|mirror)/i;

/** Of an expectation of which every text and number stands in the arguments: a tool that only repeats those meets it. */
export function echoedArguments(
  expected: unknown,
  { tool, args }: { readonly tool: string; readonly args: unknown },
  path: KeyPath,
): WeakPlace[] {
  const [wanted, given] = [scalarsOf(expected), scalarsOf(args)];
  const isGiven = (value: unknown): boolean =>
    (typeof value === "number" || (typeof value === "string" && value.trim() !== "")) &&
    given.some((each) => each === value || statesText(String(each), String(value)));
  if (wanted.length === 0 || echoing.test(tool) || !wanted.every(isGiven)) return [];
  return [
    weak(
      path,
      "is also in the arguments, so a tool that only repeats them passes; expect something that only the tool can know",
    ),
  ];
}

function scalarsOf(value: unknown): readonly unknown[] {
  if (value === undefined) return [];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(scalarsOf) : [value];
}

/** Of whole numbers in a JSON value that are too large to be told from their neighbours. */
export function inexactNumbers(value: unknown, path: KeyPath): WeakPlace[] {
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value))
    return [weak(path, `: ${value} cannot be distinguished from its neighbours; such numbers lose digits`)];
  if (typeof value !== "object" || value === null) return [];
  const isItem = Array.isArray(value);
  return Object.entries(value).flatMap(([key, member]) =>
    inexactNumbers(member, [...path, isItem ? Number(key) : key]),
  );
}

/** Keywords of JSON Schema that say nothing of values of other types, by the type. */
const typed: Readonly<Record<string, readonly string[]>> = {
  string: words("minLength maxLength pattern"),
  number: words("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
  array: words("items prefixItems contains minItems maxItems uniqueItems"),
  object: words(
    "properties required additionalProperties patternProperties propertyNames minProperties maxProperties",
  ),
};

/**
 * Of a JSON Schema, and of those of its members and items, that accept values of other types than they are about, and of one
 * whose properties may all be missing.
 */
export function looseSchemas(schema: unknown, path: KeyPath): WeakPlace[] {
  const own = asObject(schema);
  const has = (keyword: string): boolean => Object.hasOwn(own, keyword);
  const [type, ...others] = Object.keys(typed).filter((each) => typed[each]?.some(has));
  const isOpen = !["type", "const", "enum", "$ref"].some(has);
  const properties = Object.entries(asObject(own["properties"]));
  const isOptional =
    properties.length > 0 && asList(own["required"]).length === 0 && own["minProperties"] === undefined;
  const { items } = own;
  return [
    ...(type !== undefined && others.length === 0 && isOpen
      ? [
          weak(
            path,
            `has no type, so that every value that is not of type ${type} fits it; add type: ${type}`,
          ),
        ]
      : []),
    ...(isOptional
      ? [weak(path, "requires none of its properties, so that {} fits it; name them in required")]
      : []),
    ...properties.flatMap(([name, each]) => looseSchemas(each, [...path, "properties", name])),
    ...(items === undefined || Array.isArray(items) ? [] : looseSchemas(items, [...path, "items"])),
  ];
}

/**
 * `idle`: there is nothing in it that does anything. `constant`: it writes the same text, always. `cannot-fail`: it does
 * something, but ends with a command that always succeeds, and with nothing before it that could end it.
 */
export type Idleness = "idle" | "constant" | "cannot-fail";

/**
 * Whether a program, by its exit code alone, could say that something does not hold; undefined: it may, as far as this can
 * tell. Only shells are looked into, and only for what people write there. Templates are unknown text.
 */
export function idlenessOf({ text, shell = "sh" }: ProgramText): Idleness | undefined {
  const [, first] =
    /^\s*#!\s*(?:\S*\/)?(?:env\s+(?:-S\s+)?)?(?:\S*\/)?(\S+)/.exec(text.slice(0, longestFirstLine)) ?? [];
  const interpreter = first ?? shell.split("/").at(-1) ?? "";
  if (noShell.test(interpreter)) return "idle";
  const comment = javaScript.test(interpreter) ? /^\s*(?:\/\/|#!|$)/ : /^\s*(?:#|$)/;
  const lines = text.split(/\r?\n/).filter((line) => !comment.test(line));
  if (lines.length === 0) return "idle";
  return shells.test(interpreter) ? idlenessOfShell(lines.join("\n").replaceAll("\\\n", " ")) : undefined;
}

const longestFirstLine = 1000;
const shells = /^(?:ba|da|z|k|mk|a)?sh$/;
/** These run nothing of what they are given. */
const noShell = /^(?:true|false|nologin)$/;
const javaScript = /^(?:node|bun|deno|tsx|ts-node)/;

/** Commands that do nothing and succeed. */
const idle =
  /^(?:(?:(?:command|builtin)\s+)?(?:(?:\/usr)?\/bin\/)?(?:true|:)(?:\s[^<>$`]*)?|exit(?:\s+0)?|set\s[^<>$`]*)$/;
/** One text, without anything that a shell or a template puts into it. */
const constant = /^(?:echo|printf)\s+(?:'(?:[^'{]|\{(?!\w))*'|"(?:[^"$`\\{]|\{(?!\w))*"|[\w.,:/-]+)$/;
/** Those, others that always succeed, and those that only make or remove something. */
const succeeding =
  /^(?:(?:true|:|pwd|date|sleep|export)(?:\s[^<>]*)?|(?:echo|printf)(?:\s[^<>]*)?(?:>{1,2}[^<>]*)?|(?:mkdir\s+-\w*p|rm\s+-\w*f|touch)\w*\s[^<>]*|exit\s+0|\w+=[^\s$`(]*)$/;
/** What may end a shell, or decide with what it ends, before its last command. */
const ending =
  /\b(?:exit\s+(?!0\b)\S|exec|eval|source|trap|kill|return)\b|\bset\s+[-+]|\$\{\w*:?\?|^\s*\.\s|[;&|\n]\s*\.\s/;
/** Writing errors, or nothing, does not fail. */
const harmless = /\d?>&\d|[\d&]?>\s*\/dev\/null/g;

function idlenessOfShell(text: string): Idleness | undefined {
  const plain = text
    .replaceAll(harmless, "")
    .replaceAll(/\s#.*$/gm, "")
    .trim();
  const commands = plain.split(/[;&|\n(){}]+/).map((command) => command.trim());
  if (commands.every((command) => command === "" || idle.test(command))) return "idle";
  if (constant.test(plain)) return "constant";
  if (ending.test(plain)) return undefined;
  // Whoever starts something in the background has succeeded.
  if (/[^&]&$/.test(plain)) return "cannot-fail";
  return lastCommands(plain).every(isSucceeding) ? "cannot-fail" : undefined;
}

/** Of `a && b` the first counts too; of `a || b`, `a; b` and `a | b` only the last. */
function isSucceeding(command: string): boolean {
  if (command.includes("&")) return false;
  return succeeding.test((command.split("|").at(-1) ?? "").trim());
}

const mostParts = 1000;

/** The commands of which one decides how a shell ends: the last one, of a loop the last inside, of a condition the last of each branch. */
function lastCommands(text: string): readonly string[] {
  const parts = text.split(/;|\n|\|\|/).map((part) => part.trim());
  if (parts.length > mostParts) return [parts.at(-1) ?? ""];
  const ends = parts.pop() ?? "";
  if (ends === "done") return [(parts.pop() ?? "").replace(/^do\s+/, "")];
  if (ends !== "fi" || !parts[0]?.startsWith("if ")) return [ends];
  const isBranch = parts.map((part) => /^(?:then|else)\b/.test(part));
  // Nested conditions are not analysed.
  if (
    parts.some((part, index) => index > 0 && /^(?:then\s+|else\s+)?(?:if|case|for|while|until)\b/.test(part))
  )
    return [ends];
  if (parts.some((part) => part.startsWith("elif"))) return [ends];
  const begins = isBranch.flatMap((is, index) => (is ? [index] : []));
  if (begins.length === 0) return [ends];
  return begins.map((_, index) =>
    (parts[(begins[index + 1] ?? parts.length) - 1] ?? "").replace(/^(?:then|else)\s+/, ""),
  );
}
