import type { Json, JsonObject } from "../../core/formats/model.ts";
import { parseTemplate } from "../../core/templates/parse-template.ts";

/** Stands where a template stood: what it will be is not known yet. No file can have this text. */
export const unknownValue = "\u0000template\u0000";

/** Arguments as an operation will get them, as far as that is known before a trial: templates become `unknownValue`. */
export function knownArguments(args: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(args).map(([name, value]) => [name, knownValue(value)]));
}

/** Whether a value has a place in it that is not known yet. */
export function hasUnknown(value: Json | undefined): boolean {
  if (value === unknownValue) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnknown);
}

function knownValue(value: Json): Json {
  if (typeof value === "string") return knownText(value);
  if (typeof value !== "object" || value === null) return value;
  return Array.isArray(value)
    ? value.map((item: Json) => knownValue(item))
    : knownArguments(value as JsonObject);
}

/** Which names in braces are roots depends on the `foreach` around the step; here each of them could be one. */
function knownText(text: string): string {
  const parts = parseTemplate(text, () => true);
  return parts.every((part) => typeof part === "string") ? parts.join("") : unknownValue;
}
