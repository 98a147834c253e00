import * as z from "zod";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject } from "../core/formats/json-value.ts";

/**
 * The JSON Schema (draft 2020-12) of what an operation takes, before defaults are filled in. It always says that it is an
 * object. Throws an Error for what is none or cannot be said.
 */
export function paramsSchema(params: z.ZodType): JsonObject {
  const schema = z.toJSONSchema(params, { io: "input", target: "draft-2020-12", override: withoutSafeRange });
  // What zod hangs on it besides, such as functions, is not JSON.
  const { $schema: _dialect, ...plain } = JSON.parse(JSON.stringify(schema)) as JsonObject;
  if (plain["type"] === "object") return plain;
  if (saysObject(plain)) return { type: "object", ...plain };
  throw new Error(`params must be an object, such as z.object({ … }), but is ${JSON.stringify(plain)}`);
}

/** The limits of whole numbers that a program can tell apart say nothing to those who write tasks. */
function withoutSafeRange({ jsonSchema }: { readonly jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
}

/** Whether all that a schema allows are objects, as far as it says so itself. */
function saysObject(schema: Json): boolean {
  if (!isJsonObject(schema)) return false;
  if (schema["type"] === "object") return true;
  const { anyOf, oneOf, allOf } = schema;
  const every = [anyOf, oneOf].some((list) => isFilled(list) && list.every(saysObject));
  return every || (isFilled(allOf) && allOf.some(saysObject));
}

function isFilled(list: Json | undefined): list is readonly Json[] {
  return Array.isArray(list) && list.length > 0;
}
