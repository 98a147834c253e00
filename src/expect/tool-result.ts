import { secretMark } from "../base/secret-marks.ts";
import { containsText, statesText } from "./contains-text.ts";
import { isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import { previewJson, readJsonText } from "../base/read-json.ts";
import type { McpRequest } from "../model/step.ts";
import { dashes, plainText, shortened } from "../base/visible-text.ts";
import type { Check } from "../model/event.ts";
import { containsJson, jsonDifference, type JsonDifference, pointerTo } from "./json-difference.ts";

/**
 * The text of a `CallToolResult` (MCP 2025-11-25, tools): its text blocks and the text of embedded resources, joined
 * by newlines; the structured content as JSON when there is no text at all.
 */
export function resultText(result: JsonObject): string {
  const texts = listIn(result, "content").flatMap(blockTexts);
  return texts.length > 0 ? texts.join("\n") : structuredText(result);
}

/**
 * The text of what a request gave: of a tool see {@link resultText}, of a resource the texts of its contents, of a prompt
 * those of its messages, joined by newlines.
 */
export function answerText(kind: McpRequest["kind"], result: JsonObject): string {
  switch (kind) {
    case "tool":
      return resultText(result);
    case "resource":
      return listIn(result, "contents").flatMap(ownText).join("\n");
    case "prompt":
      return listIn(result, "messages").flatMap(messageBlocks).flatMap(blockTexts).join("\n");
  }
}

/** The `expected` of a step's check `call` for a call that must fail. */
export const anError = "an error";

/** The text of a result, and its structured content as JSON. */
export function searchableText(result: JsonObject): string {
  return `${resultText(result)}\n${structuredText(result)}`;
}

/** The structured content; undefined also where a server writes null for none. */
export function structuredContent(result: JsonObject): Json | undefined {
  return result["structuredContent"] ?? undefined;
}

function structuredText(result: JsonObject): string {
  const structured = structuredContent(result);
  return structured === undefined ? "" : writeJson(structured);
}

function writeJson(value: Json): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return "[nested too deeply to write]";
    throw error;
  }
}

function listIn(result: JsonObject, key: string): readonly Json[] {
  const list = result[key];
  return Array.isArray(list) ? list : [];
}

/** A message of a prompt has one block; some servers give a list of them. */
function messageBlocks(message: Json): readonly Json[] {
  if (!isJsonObject(message)) return [];
  const content = message["content"] ?? [];
  return Array.isArray(content) ? content : [content];
}

/** Only the text of blocks of the types `text` and `resource`. */
function blockTexts(block: Json): readonly string[] {
  if (!isJsonObject(block)) return [];
  if (block["type"] === "text") return ownText(block);
  return block["type"] === "resource" ? ownText(block["resource"] ?? null) : [];
}

function ownText(value: Json): readonly string[] {
  return isJsonObject(value) && typeof value["text"] === "string" ? [value["text"]] : [];
}

/** The texts that each type of content must have (MCP 2025-11-25, schema `ContentBlock`). */
const requiredTexts: Readonly<Record<string, readonly string[]>> = {
  text: ["text"],
  image: ["data", "mimeType"],
  audio: ["data", "mimeType"],
  resource_link: ["uri", "name"],
  resource: [],
};

const keys: readonly string[] = ["content", "structuredContent", "isError"];

/** The key of a result that has this name but for case and underscores; else the name itself. */
function spelling(key: string): string {
  const plain = key.replaceAll("_", "").toLowerCase();
  return keys.find((each) => each.toLowerCase() === plain) ?? key;
}

/** What makes the content of a `CallToolResult` unusable for clients; undefined: nothing. */
export function contentProblem(result: JsonObject): string | undefined {
  const { content, isError } = result;
  const odd = Object.keys(result).find((key) => !keys.includes(key) && keys.includes(spelling(key)));
  if (odd !== undefined)
    return `it has the key ${JSON.stringify(odd)}, which only some readers take for ${spelling(odd)}`;
  if (isError !== undefined && typeof isError !== "boolean") return "isError is neither true nor false";
  return content === undefined ? undefined : problemIn("content", content, blockProblem);
}

/** What makes the result of a request unusable for clients; undefined: nothing. */
export function resultProblem(kind: "tool" | "resource" | "prompt", result: JsonObject): string | undefined {
  if (kind === "tool") return contentProblem(result);
  return kind === "resource" ? resourceContentsProblem(result) : promptMessagesProblem(result);
}

function resourceContentsProblem({ contents }: JsonObject): string | undefined {
  return problemIn("contents", contents, (each) =>
    isJsonObject(each) ? resourceProblem(each)?.replace("a resource", "an entry") : "is not an object",
  );
}

/** A message may have several blocks. */
function promptMessagesProblem({ messages }: JsonObject): string | undefined {
  return problemIn("messages", messages, (each) => {
    if (!isJsonObject(each)) return "is not an object";
    const { role, content = null } = each;
    const blocks: readonly Json[] = Array.isArray(content) ? content : [content];
    const problem = blocks.map(blockProblem).find((each) => each !== undefined);
    if (problem !== undefined || role === "user" || role === "assistant") return problem;
    return 'has a role that is not "user" or "assistant"';
  });
}

function problemIn(
  key: string,
  list: Json | undefined,
  problemOf: (each: Json) => string | undefined,
): string | undefined {
  if (!Array.isArray(list)) return `${key} is not a list`;
  for (const [index, each] of list.entries()) {
    const problem = problemOf(each as Json);
    if (problem !== undefined) return `${key}[${index}] ${problem}`;
  }
  return undefined;
}

function blockProblem(block: Json): string | undefined {
  if (!isJsonObject(block)) return "is not an object";
  const { type, resource } = block;
  if (typeof type !== "string") return "has no type";
  const required = Object.hasOwn(requiredTexts, type) ? requiredTexts[type] : undefined;
  if (required === undefined) return `has an unknown type: ${JSON.stringify(type)}`;
  const missing = required.find((key) => typeof block[key] !== "string");
  if (missing !== undefined) return `is of type ${type} but has no ${missing}`;
  const annotations = annotationsProblem(block["annotations"]);
  if (annotations !== undefined) return annotations;
  if ((type === "image" || type === "audio") && !isBase64(block["data"]))
    return `is of type ${type} and has data that is not Base64`;
  return type === "resource" ? resourceProblem(resource) : undefined;
}

/** What is wrong with the annotations of a content block (MCP 2025-11-25, schema `Annotations`). */
function annotationsProblem(annotations: Json | undefined): string | undefined {
  if (annotations === undefined) return undefined;
  if (!isJsonObject(annotations)) return "has annotations that are not an object";
  const { audience, priority } = annotations;
  const isAudience =
    audience === undefined ||
    (Array.isArray(audience) && audience.every((each) => each === "user" || each === "assistant"));
  if (!isAudience) return 'has an audience that is not a list of "user" and "assistant"';
  const isPriority =
    priority === undefined || (typeof priority === "number" && priority >= 0 && priority <= 1);
  return isPriority ? undefined : "has a priority that is not a number from 0 to 1";
}

/** Whether a text is Base64 (RFC 4648, section 4), with or without padding and white space, as `atob` takes it. */
function isBase64(text: Json | undefined): boolean {
  if (typeof text !== "string") return false;
  if (secretMark.test(text)) return true;
  const plain = text.replaceAll(/[\t\n\f\r ]/g, "");
  const padding = plain.indexOf("=");
  const length = padding === -1 ? plain.length : padding;
  // Without repetition in it, the pattern takes no stack however long the text is.
  if (/[^A-Za-z0-9+/]/.test(plain.slice(0, length)) || length % 4 === 1) return false;
  return padding === -1 || (/^(?:==?)$/.test(plain.slice(padding)) && plain.length % 4 === 0);
}

function resourceProblem(resource: Json | undefined): string | undefined {
  if (!isJsonObject(resource)) return "is of type resource but has no resource";
  if (typeof resource["uri"] !== "string") return "has a resource without uri";
  const { text, blob } = resource;
  if (typeof text !== "string" && typeof blob !== "string")
    return "has a resource with neither text nor blob";
  return typeof blob === "string" && !isBase64(blob)
    ? "has a resource with a blob that is not Base64"
    : undefined;
}

/** How a tool's result violates the `outputSchema` of the tool, as a predicate; undefined: it does not. */
export async function outputProblem(
  schema: Json,
  { structuredContent: structured }: JsonObject,
  validateSchema: ValidateSchema,
): Promise<string | undefined> {
  if (structured === undefined) return "declares an outputSchema but gave no structuredContent";
  const check = await validateSchema(schema, structured);
  switch (check.status) {
    case "valid":
      return undefined;
    case "invalid":
      return `violates its outputSchema: ${check.errors.map((error) => formatSchemaError(error)).join(", ")}`;
    case "unusable":
      return `has an outputSchema that cannot be used: ${check.reason}`;
  }
}

/** The outcome of validating a value against a JSON Schema. */
export type SchemaCheck =
  | { readonly status: "valid" }
  | { readonly status: "invalid"; readonly errors: readonly SchemaError[] }
  /** The schema could not be used; with `isLimit` because of a limit of mcpvals, so that the schema may be valid. */
  | { readonly status: "unusable"; readonly reason: string; readonly isLimit?: true };

/** Validates a value against a JSON Schema, 2020-12 unless the schema names another dialect. Never rejects. */
export type ValidateSchema = (schema: Json, value: Json) => Promise<SchemaCheck>;

/** One way in which a value violates its schema. */
export interface SchemaError {
  /** JSON pointer of the violating part; empty for the whole value. */
  readonly instancePath: string;
  /** The violated keyword, such as `required`. */
  readonly keyword: string;
  /** Details of the keyword as Ajv gives them, such as `missingProperty`. */
  readonly params: JsonObject;
  /** A predicate, such as `must be string`. */
  readonly message: string;
  /** Preview of the violating part; absent where the message says it all. */
  readonly actual?: string;
}

const maxPathLength = 200;

/** An error as a sentence. `subject` names the whole value. */
export function formatSchemaError(
  { instancePath, message, actual }: SchemaError,
  subject = "the value",
): string {
  const path =
    instancePath.length > maxPathLength ? `${instancePath.slice(0, maxPathLength)}…` : instancePath;
  return `${path || subject} ${message}${actual === undefined ? "" : `, is ${actual}`}`;
}

/** Whether an HTTP status means that the server, or a proxy, broke or was too slow or busy (408, 425, 429, 5xx): not an answer. */
export function isNoAnswer(status: number): boolean {
  return status >= 500 || status === 408 || status === 425 || status === 429;
}

const numberTolerance = 1e-4;

/** A tenth of small numbers: else 0 would match each of them. */
function toleranceOf(expected: number): number {
  return Math.min(numberTolerance, Math.abs(expected) / 10);
}

/** The result of a request as it is compared with what is expected. */
interface Compared {
  readonly text: string;
  /** The structured content of a tool; of a resource or prompt the whole result. */
  readonly structured: Json | undefined;
  readonly whole: JsonObject;
}

/**
 * Compares the result of a request with an expected one; one with `isError` only when that, or the whole result,
 * is expected. The value of a result is its structured content,
 * or the only member of that, since servers must wrap plain values (`{"result": 8}`); without structured content it is
 * the text read as JSON. The value of a resource or prompt is the whole result. Expected is a
 *
 * - text: the result's text contains it, ignoring case, a number at its ends as a whole (see `statesText`); the empty text:
 *   there is none;
 * - number: the structured value, or else the last number in the text (see `numbersInText`), within 0.0001, and within a
 *   tenth of it, so that 0 is exactly 0;
 * - boolean, null or list: the value equals it;
 * - object: the value contains it: every key given is there with a value that contains the expected one; lists inside
 *   must have equal length. An object with a list `content`, `structuredContent` or `isError` may also be contained in
 *   the whole result;
 * - `{$equals: VALUE}`: the value, or the text, is exactly that, nothing more; `{$contains: VALUE}`: the text, the list
 *   or the object contains it.
 */
export function checkExpectedResult(
  expected: Json,
  whole: JsonObject,
  kind: McpRequest["kind"] = "tool",
): Check {
  const text = answerText(kind, whole);
  const isFailure =
    kind === "tool" && whole["isError"] === true && !(isJsonObject(expected) && isWholeResult(expected));
  const structured = kind === "tool" ? structuredContent(whole) : whole;
  const outcome = isFailure ? failed(text) : compare(expected, { text, structured, whole });
  return { name: "result", expected, ...outcome };
}

/** An expected result is not searched in the text of an error. */
function failed(actual: string): Outcome {
  return {
    passed: false,
    actual,
    message: `the call failed${actual === "" ? "" : `: ${shortened(actual, 300)}`}`,
  };
}

type Outcome = Pick<Check, "passed" | "actual" | "message" | "evidence">;

function compare(expected: Json, result: Compared): Outcome {
  if (typeof expected === "string") return compareText(expected, result);
  if (typeof expected === "number") return compareNumber(expected, result);
  const values = candidatesOf(result);
  if (!isJsonObject(expected)) return compareValues(values, result, isEqualTo(expected));
  const operator = operatorOf(expected);
  if (operator?.name === "$equals") return compareExactly(operator.value, result);
  if (operator?.name === "$contains") return compareContains(operator.value, result);
  const candidates = isWholeResult(expected) ? [...values, candidate(result.whole)] : values;
  return compareValues(candidates, result, {
    ...containing,
    differenceOf: (value) => jsonDifference(value, expected, "contain"),
  });
}

function operatorOf(expected: JsonObject): { name: string; value: Json } | undefined {
  const [entry, ...others] = Object.entries(expected);
  if (entry === undefined || others.length > 0) return undefined;
  const [name, value] = entry;
  return name === "$equals" || name === "$contains" ? { name, value } : undefined;
}

function isWholeResult(expected: JsonObject): boolean {
  return Array.isArray(expected["content"]) || "structuredContent" in expected || "isError" in expected;
}

function compareText(expected: string, { text: actual }: Compared): Outcome {
  if (expected === "") {
    const passed = actual === "";
    return { passed, actual, message: passed ? "the text is empty" : "the text is not empty" };
  }
  const passed = statesText(actual, expected);
  const does = passed ? "contains" : "does not contain";
  const inNumber = !passed && containsText(actual, expected) ? ", only as a part of another number" : "";
  return { passed, actual, message: `the text ${does} ${JSON.stringify(expected)}${inNumber}` };
}

function compareNumber(expected: number, result: Compared): Outcome {
  const numbers = numbersOf(result);
  const found = numbers.at(-1);
  if (found === undefined) {
    return {
      passed: false,
      actual: result.text,
      message: `expected the number ${expected}, found no number`,
    };
  }
  const passed = Math.abs(found - expected) <= toleranceOf(expected);
  const where = numbers.length > 1 ? "the last number in the text" : "the number found";
  return { passed, actual: found, message: `${where} is ${found}, expected ${expected}` };
}

/** The structured value when that is a number, else every number in the text, in order. */
function numbersOf(result: Compared): number[] {
  const structured = structuredCandidates(result).find(({ value }) => typeof value === "number")?.value;
  return typeof structured === "number" ? [structured] : numbersInText(spacedText(result.text));
}

/** Adds spaces after commas in compact JSON, where they would be read as separators of thousands. */
function spacedText(text: string): string {
  if (readJsonText(text).reason !== undefined) return text;
  let quoted = false;
  return text.replaceAll(/\\.|"|,/g, (token) => {
    if (token === '"') quoted = !quoted;
    return token === "," && !quoted ? ", " : token;
  });
}

/** A value of a result that is compared. */
interface Candidate {
  readonly value: Json;
  /** The value itself, or the object that it is a member of. */
  readonly whole: Json;
  /** JSON pointer of the value in the whole. */
  readonly pointer: string;
  /** The name of the whole in messages. */
  readonly label: string;
}

function candidate(value: Json, label = "the value"): Candidate {
  return { value, whole: value, pointer: "", label };
}

interface Condition {
  readonly claim: string;
  readonly denial: string;
  readonly differenceOf: (value: Json) => JsonDifference | undefined;
}

const containing = {
  claim: "the result contains what was expected",
  denial: "the result does not contain what was expected",
};

function isEqualTo(expected: Json): Condition {
  return {
    claim: "the result equals what was expected",
    denial: "the result does not equal what was expected",
    differenceOf: (value) => jsonDifference(value, expected, "equal"),
  };
}

function compareValues(candidates: readonly Candidate[], { text }: Compared, condition: Condition): Outcome {
  let nearest: { readonly tried: Candidate; readonly difference: JsonDifference } | undefined;
  for (const tried of candidates) {
    const difference = condition.differenceOf(tried.value);
    if (difference === undefined) return { passed: true, actual: tried.value, message: condition.claim };
    if (nearest === undefined || difference.depth >= nearest.difference.depth)
      nearest = { tried, difference };
  }
  if (nearest === undefined) {
    const message = `the result has no structured content and its text is not JSON: ${readJsonText(text).reason}`;
    return { passed: false, actual: text, message, evidence: "pathMissing" };
  }
  const { tried, difference } = nearest;
  const place = `${tried.pointer}${difference.pointer}`;
  const message = `${condition.denial}: ${difference.messageFor(place === "" ? tried.label : place)}`;
  return { passed: false, actual: tried.whole, message };
}

function compareExactly(expected: Json, result: Compared): Outcome {
  const values = candidatesOf(result);
  const text = typeof expected === "string" ? [candidate(result.text, "the text")] : [];
  return compareValues([...text, ...values], result, isEqualTo(expected));
}

function compareContains(expected: Json, result: Compared): Outcome {
  const values = candidatesOf(result);
  if (typeof expected === "string") {
    const text = compareText(expected, result);
    if (text.passed || !values.some(({ value }) => Array.isArray(value))) return text;
  }
  return compareValues(values, result, {
    ...containing,
    differenceOf: (value) => itemDifference(value, expected),
  });
}

function itemDifference(value: Json, expected: Json): JsonDifference | undefined {
  if (!Array.isArray(value)) return jsonDifference(value, expected, "contain");
  if (value.some((item: Json) => containsJson(item, expected))) return undefined;
  const messageFor = (place: string): string =>
    value.length === 0
      ? `${place} has no entries`
      : `no entry of ${place} (${value.length} in all) contains ${previewJson(expected)}`;
  return { pointer: "", depth: 1, messageFor };
}

/** The values of a result that are compared, the likeliest last. */
function candidatesOf(result: Compared): Candidate[] {
  const structured = structuredCandidates(result);
  if (structured.length > 0) return structured;
  const parsed = readJsonText(result.text);
  return parsed.reason === undefined ? [candidate(parsed.value)] : [];
}

function structuredCandidates({ structured }: Compared): Candidate[] {
  return structured === undefined ? [] : [candidate(structured), ...onlyMember(structured)];
}

function onlyMember(whole: Json): Candidate[] {
  const [entry, ...others] = isJsonObject(whole) ? Object.entries(whole) : [];
  if (entry === undefined || others.length > 0) return [];
  const [key, value] = entry;
  return value === undefined ? [] : [{ value, whole, pointer: pointerTo(key), label: "the value" }];
}

/**
 * The numbers in a text, in order: `8`, `-4`, `1,234.5`, `.5`, `1e3`, `$3`, `50%`, in the digits 0 to 9. Not those that are part of
 * something else: `v1.2.3`, `gpt-4`, `3rd`, `2024-01-15`, `10:30`, `3/4`, `10.0.0.1`, `5²`. Numbers with a unit
 * that touches them, such as `5ms`, count only where there are no others. Terminal colours and invisible characters are ignored.
 */
export function numbersInText(text: string): number[] {
  const plain = plainText(text);
  const bare = parse(plain.matchAll(bareNumber));
  return bare.length > 0 ? bare : parse(plain.matchAll(numberWithUnit));
}

/** Decimal points and separators that are not supported: an apostrophe, a middle dot, fullwidth and Arabic ones. */
const points = String.raw`:'\u2019\u00b7\uff0c\uff0e\u066b\u066c`;
/** Characters that join a number to the text beside it. */
const joint = String.raw`[${dashes}/.${points}]`;
/** Not after a letter or digit, nor after one and a joint; a colon, an apostrophe or a point joins digits only: `sum:8`. */
const free = String.raw`(?<![\w.\p{N}]|[\w\p{N}][${dashes}/]|\p{N}[${points}])`;
// No loop without bounds: over a text of megabytes it would exhaust the stack.
/** Separators of thousands: a comma, and non-breaking spaces. */
const separator = String.raw`[,\u00a0\u2009\u202f]`;
const grouped = String.raw`\d{1,3}(?:${separator}\d{3}){1,110}(?!\d)`;
const number = String.raw`([+${dashes}]?(?:(?:${grouped}|(?!${grouped})\d{1,400})(?:\.\d{1,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,4})?)`;
const bareNumber = new RegExp(`${free}${number}(?![\\w\\p{N}]|${joint}\\p{N})`, "gu");
const numberWithUnit = new RegExp(`${free}${number}(?=[A-Za-z]{1,5}(?![\\w\\p{N}]))`, "gu");

const separators = new RegExp(separator, "gu");
const sign = new RegExp(`^[${dashes}]`, "u");

function parse(matches: Iterable<RegExpExecArray>): number[] {
  return [...matches]
    .map(([, digits = ""]) => Number(digits.replaceAll(separators, "").replace(sign, "-")))
    .filter(Number.isFinite);
}
