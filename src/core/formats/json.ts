import type { Json, JsonObject } from "./model.ts";

/** Whether a JSON value is an object: not null, not an array. */
export function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
