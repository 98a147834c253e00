import type { Json, JsonObject } from "../formats/model.ts";
import { isJsonObject } from "../formats/json.ts";

/**
 * The text of a `CallToolResult` (MCP 2025-11-25, tools): its text blocks and the text of embedded resources, joined
 * by newlines; the structured content as JSON when there is no text at all.
 */
export function resultText(result: JsonObject): string {
  const content = Array.isArray(result["content"]) ? result["content"] : [];
  const texts = content.map(blockText).filter((text) => text !== undefined);
  return texts.length > 0 ? texts.join("\n") : structuredText(result);
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

function blockText(block: Json): string | undefined {
  if (!isJsonObject(block)) return undefined;
  if (typeof block["text"] === "string") return block["text"];
  const resource = block["resource"];
  return isJsonObject(resource) && typeof resource["text"] === "string" ? resource["text"] : undefined;
}
