import type { Json, JsonObject } from "../formats/model.ts";
import { isJsonObject } from "../formats/json.ts";
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
