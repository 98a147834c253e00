import type { StandardSchemaV1 } from "@modelcontextprotocol/client";
import type { JsonObject } from "../../core/formats/model.ts";

/** A result that was looked at: usable, or not and why. */
export type Reading<T> = { readonly value: T } | { readonly problem: string };

/**
 * Makes of a function what the SDK takes as the schema of a result. Unlike the SDK's own schemas it can hand on the result
 * as it came, with everything that no schema knows. The SDK has checked that the result is an object.
 */
export function resultSchema<T>(read: (result: JsonObject) => Reading<T>): StandardSchemaV1<unknown, T> {
  return {
    "~standard": {
      version: 1,
      vendor: "mcpvals",
      validate(result) {
        const reading = read(result as JsonObject);
        return "problem" in reading ? { issues: [{ message: reading.problem }] } : { value: reading.value };
      },
    },
  };
}
