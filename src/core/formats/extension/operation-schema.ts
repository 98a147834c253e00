import { isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../json-value.ts";

export type OperationSchema =
  | { readonly ok: true; readonly schema: JsonObject }
  /** `message` is a predicate: `must be …`. */
  | { readonly ok: false; readonly message: string };

/** Reads the JSON Schema of an operation's arguments, which are an object. Without one there may be any arguments. */
export function readOperationSchema(value: Json | undefined): OperationSchema {
  if (value === undefined || value === null) return { ok: true, schema: { type: "object" } };
  if (!isJsonObject(value)) return { ok: false, message: "must be a JSON Schema, an object" };
  const { type } = value;
  if (type === undefined) return { ok: true, schema: { type: "object", ...value } };
  if (type === "object") return { ok: true, schema: value };
  return { ok: false, message: 'must be a JSON Schema of type "object": arguments are an object' };
}
