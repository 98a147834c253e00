import { isJsonObject, type Json, type JsonObject } from "../formats/json.ts";
import type { McpRequest } from "../formats/step.ts";

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

/** What the check `call` of a step expects of a call that must fail. */
export const anError = "an error";

/** Everything in a result that can be searched for a text: its text and its structured content as JSON. */
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

/** Of a block that says what it is; text beside a picture is no text of the result. */
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

/** The key that another one is but for its case and its underscores. */
function spelling(key: string): string {
  const plain = key.replaceAll("_", "").toLowerCase();
  return keys.find((each) => each.toLowerCase() === plain) ?? key;
}

/** What makes the content of a `CallToolResult` unusable for clients; undefined when nothing does. */
export function contentProblem(result: JsonObject): string | undefined {
  const { content, isError } = result;
  const odd = Object.keys(result).find((key) => !keys.includes(key) && keys.includes(spelling(key)));
  if (odd !== undefined)
    return `it has the key ${JSON.stringify(odd)}, which only some readers take for ${spelling(odd)}`;
  if (isError !== undefined && typeof isError !== "boolean") return "isError is neither true nor false";
  return content === undefined ? undefined : problemIn("content", content, blockProblem);
}

/** What makes the result of a request unusable for clients; undefined when nothing does. */
export function resultProblem(kind: "tool" | "resource" | "prompt", result: JsonObject): string | undefined {
  if (kind === "tool") return contentProblem(result);
  return kind === "resource" ? resourceContentsProblem(result) : promptMessagesProblem(result);
}

/** What makes the contents of a resource unusable for clients; undefined when nothing does. */
function resourceContentsProblem({ contents }: JsonObject): string | undefined {
  return problemIn("contents", contents, (each) =>
    isJsonObject(each) ? resourceProblem(each)?.replace("a resource", "an entry") : "is not an object",
  );
}

/** What makes the messages of a prompt unusable for clients; undefined when nothing does. A message may have several blocks. */
function promptMessagesProblem({ messages }: JsonObject): string | undefined {
  return problemIn("messages", messages, (each) => {
    if (!isJsonObject(each)) return "is not an object";
    const { content = null } = each;
    const blocks: readonly Json[] = Array.isArray(content) ? content : [content];
    return blocks.map(blockProblem).find((problem) => problem !== undefined);
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
  if (required === undefined) return `has a type that MCP does not know: ${JSON.stringify(type)}`;
  const missing = required.find((key) => typeof block[key] !== "string");
  if (missing !== undefined) return `is of type ${type} but has no ${missing}`;
  return type === "resource" ? resourceProblem(resource) : undefined;
}

function resourceProblem(resource: Json | undefined): string | undefined {
  if (!isJsonObject(resource)) return "is of type resource but has no resource";
  if (typeof resource["uri"] !== "string") return "has a resource without uri";
  const holds = typeof resource["text"] === "string" || typeof resource["blob"] === "string";
  return holds ? undefined : "has a resource with neither text nor blob";
}

/** What is wrong with a tool's result in view of the `outputSchema` that it declares, as the end of a sentence; undefined: nothing. */
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
  /** The schema itself could not be used, or validation took too long. */
  | { readonly status: "unusable"; readonly reason: string };

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

const longestPath = 200;

/** An error as a sentence. `subject` is what the whole value is called. */
export function formatSchemaError(
  { instancePath, message, actual }: SchemaError,
  subject = "the value",
): string {
  const path = instancePath.length > longestPath ? `${instancePath.slice(0, longestPath)}…` : instancePath;
  return `${path || subject} ${message}${actual === undefined ? "" : `, is ${actual}`}`;
}

/**
 * Whether a status says nothing about what was asked for: the server or something before it broke, was too slow or too busy
 * (408, 425, 429, 5xx).
 */
export function isNoAnswer(status: number): boolean {
  return status >= 500 || status === 408 || status === 425 || status === 429;
}
