import type { Json, JsonObject } from "../../src/extension-sdk/index.ts";

/** Whether a JSON value is an object: neither a list nor null. */
export function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
