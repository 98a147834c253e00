import type { Json, JsonObject } from "../formats/model.ts";
import { isJsonObject } from "../formats/json.ts";

/**
 * The text of a `CallToolResult` (MCP 2025-11-25, tools): its text blocks and the text of embedded resources, joined
 * by newlines; the structured content as JSON when there is no text at all.
 */
export function resultText(result: JsonObject): string {
  const content = Array.isArray(result["content"]) ? result["content"] : [];
  const texts = content.map(blockText).filter((text) => text !== undefined);
  if (texts.length > 0) return texts.join("\n");
  const structured = result["structuredContent"];
  return structured === undefined ? "" : JSON.stringify(structured);
}

/** Everything in a result that can be searched for a text: its text and its structured content as JSON. */
export function searchableText(result: JsonObject): string {
  const structured = result["structuredContent"];
  const text = resultText(result);
  return structured === undefined ? text : `${text}\n${JSON.stringify(structured)}`;
}

function blockText(block: Json): string | undefined {
  if (!isJsonObject(block)) return undefined;
  if (typeof block["text"] === "string") return block["text"];
  const resource = block["resource"];
  return isJsonObject(resource) && typeof resource["text"] === "string" ? resource["text"] : undefined;
}
