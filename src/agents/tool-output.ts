import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject } from "../core/formats/model.ts";
import type { CallOutcome } from "../servers/client/session.ts";

/** What a model is told of a tool call, in the form of the AI SDK's tool results. */
export type ToolOutput =
  | { readonly type: "text" | "error-text"; readonly value: string }
  | { readonly type: "content"; readonly value: OutputPart[] };

interface FilePart {
  readonly type: "file";
  readonly mediaType: string;
  readonly data: { type: "data"; data: string };
}

type OutputPart = { readonly type: "text"; readonly text: string } | FilePart;

/**
 * Turns the outcome of a tool call into what the model is told. The texts of a result are passed on as one, since
 * Gemini wants one response a call; images follow it where the provider's tool results can carry them, and are
 * described where not. Errors, whether the tool's or the protocol's, and timeouts are told as errors.
 */
export function toolOutput(outcome: CallOutcome, options: { readonly images: boolean }): ToolOutput {
  switch (outcome.kind) {
    case "result":
      return resultOutput(outcome.result, options.images);
    case "error": {
      const code = outcome.code === undefined ? "" : ` ${outcome.code}`;
      return { type: "error-text", value: `MCP error${code}: ${outcome.message}` };
    }
    case "timeout":
      return { type: "error-text", value: outcome.message };
  }
}

function resultOutput(result: JsonObject, passImages: boolean): ToolOutput {
  const content = result["content"];
  const blocks = Array.isArray(content) ? content.filter(isJsonObject) : [];
  const isError = result["isError"] === true;
  const passed = new Map<JsonObject, OutputPart>();
  for (const block of passImages && !isError ? blocks : []) {
    const image = passableImage(block);
    if (image !== undefined) passed.set(block, image);
  }
  const texts = blocks.filter((block) => !passed.has(block)).map(describeBlock);
  const structured = result["structuredContent"];
  if (structured !== undefined && !blocks.some((block) => textOf(block) !== undefined)) {
    texts.push(JSON.stringify(structured));
  }
  const text = texts.join("\n") || emptyText(passed.size);
  if (isError) return { type: "error-text", value: text };
  if (passed.size === 0) return { type: "text", value: text };
  return { type: "content", value: [{ type: "text", text }, ...passed.values()] };
}

/** Providers refuse results without any text, or leave the call unanswered. */
function emptyText(images: number): string {
  if (images === 0) return "(empty result)";
  return images === 1 ? "(an image)" : `(${images} images)`;
}

function textOf(block: JsonObject): string | undefined {
  if (typeof block["text"] === "string") return block["text"];
  const resource = block["resource"];
  return isJsonObject(resource) && typeof resource["text"] === "string" ? resource["text"] : undefined;
}

/** A block of content in words: its text, or what it is. */
export function describeBlock(block: JsonObject): string {
  const text = textOf(block);
  if (text !== undefined) return text;
  const resource = isJsonObject(block["resource"]) ? block["resource"] : block;
  const kind = typeof block["type"] === "string" ? block["type"].replaceAll("_", " ") : "content";
  const details = [
    resource["name"],
    resource["uri"],
    resource["mimeType"],
    sizeOf(resource["blob"] ?? resource["data"]),
  ].filter((detail) => typeof detail === "string");
  return `[${[kind, ...details].join(" ")}]`;
}

function sizeOf(base64: Json | undefined): string | undefined {
  return typeof base64 === "string" ? `${Math.floor((base64.length * 3) / 4)} bytes` : undefined;
}

/** The image types that every provider takes. Anything else would make it refuse the whole conversation. */
const passableImages = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** An image that every provider takes; undefined for any other block. */
export function passableImage(block: JsonObject): FilePart | undefined {
  const { type, data, mimeType } = block;
  if (type !== "image" || typeof mimeType !== "string" || !passableImages.has(mimeType)) return undefined;
  if (typeof data !== "string" || data.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(data))
    return undefined;
  return { type: "file", mediaType: mimeType, data: { type: "data", data } };
}
