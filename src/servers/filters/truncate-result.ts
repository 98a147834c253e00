import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";

/** Members of results that hold what a model reads: of tools, of resources, of prompts. */
const readable = ["content", "contents", "messages"];

/**
 * Cuts each text of a result to so many bytes of UTF-8, at the end of a character. `structuredContent`, which says the
 * same again, is left out. Undefined when no text is longer.
 */
export function truncateResult(result: JsonObject, bytes: number): JsonObject | undefined {
  let isShorter = false;
  const cut = (value: Json): Json => {
    if (Array.isArray(value)) return (value as readonly Json[]).map(cut);
    if (!isJsonObject(value)) return value;
    const members = Object.entries(value).map(([key, member]) => {
      if (key !== "text" || typeof member !== "string") return [key, cut(member)] as const;
      const text = truncateText(member, bytes);
      isShorter ||= text !== member;
      return [key, text] as const;
    });
    return Object.fromEntries(members);
  };
  const members = Object.entries(result).map(
    ([key, member]) => [key, readable.includes(key) ? cut(member) : member] as const,
  );
  if (!isShorter) return undefined;
  return Object.fromEntries(members.filter(([key]) => key !== "structuredContent"));
}

/** The longest beginning of a text that has no more than so many bytes of UTF-8 and ends with a whole character. */
export function truncateText(text: string, bytes: number): string {
  const encoded = Buffer.from(text, "utf8");
  if (encoded.length <= bytes) return text;
  let end = bytes;
  while (end > 0 && isInsideCharacter(encoded[end])) end -= 1;
  return encoded.toString("utf8", 0, end);
}

function isInsideCharacter(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
