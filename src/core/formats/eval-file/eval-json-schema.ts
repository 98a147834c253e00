import * as z from "zod";
import { withServerOverlays } from "../config/server-overlay-json-schema.ts";
import { isJsonObject } from "../json.ts";
import type { JsonObject } from "../model.ts";
import { evalSchema } from "./eval-schema.ts";

/** The JSON Schema of eval files (draft 2020-12), made from the schema that validates them. */
export function evalJsonSchema(): JsonObject {
  const { $schema, ...rest } = z.toJSONSchema(evalSchema, {
    io: "input",
    target: "draft-2020-12",
    unrepresentable: "any",
    override: ({ jsonSchema }) => {
      // Any text may hold a ${VAR}, so a format can only be checked after it was replaced.
      delete jsonSchema.format;
      delete jsonSchema["defaultText"];
    },
  });
  const { $defs = {}, ...root } = rest as JsonObject;
  const definitions = withServerOverlays(isJsonObject($defs) ? $defs : {});
  return { $schema: $schema ?? "", $id: "urn:mcpvals:eval", ...root, $defs: definitions };
}
