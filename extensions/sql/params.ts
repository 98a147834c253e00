import { isJsonObject } from "./json-object.ts";
import type { Json } from "../../src/extension-sdk/index.ts";

/** A value as both drivers take it. */
export type Bound = string | number | bigint | boolean | Uint8Array | null;

/**
 * What is sent for a parameter: bytes for `{base64: TEXT}`, the JSON text of any other object and of a list, and the value
 * itself otherwise.
 */
export function bound(value: Json): Bound {
  if (value === null || typeof value !== "object") return value;
  const bytes = isJsonObject(value) ? bytesOf(value) : undefined;
  return bytes ?? JSON.stringify(value);
}

function bytesOf(value: Readonly<Record<string, Json | undefined>>): Uint8Array | undefined {
  const { base64, ...rest } = value;
  if (typeof base64 !== "string" || Object.keys(rest).length > 0) return undefined;
  return Uint8Array.from(Buffer.from(base64, "base64"));
}
