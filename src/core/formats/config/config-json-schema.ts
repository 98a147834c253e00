import * as z from "zod";
import { configSchema } from "./config-schema.ts";
import type { JsonObject } from "../model.ts";

export interface ConfigJsonSchemaOptions {
  /** Keeps `defaultText`, the words for defaults that are no fixed value; only the reference page wants them. */
  readonly defaultTexts?: boolean;
}

/** The JSON Schema of config files (draft 2020-12), made from the schema that validates them. */
export function configJsonSchema({ defaultTexts = false }: ConfigJsonSchemaOptions = {}): JsonObject {
  const { $schema, ...rest } = z.toJSONSchema(configSchema, {
    io: "input",
    target: "draft-2020-12",
    unrepresentable: "any",
    override: ({ jsonSchema }) => {
      // Any text may hold a ${VAR}, so a format can only be checked after it was replaced.
      delete jsonSchema.format;
      if (!defaultTexts) delete jsonSchema["defaultText"];
    },
  });
  return {
    $schema: $schema ?? "",
    $id: "urn:mcpvals:config",
    ...(rest as JsonObject),
    oneOf: [{ required: ["server"] }, { required: ["servers"] }],
  };
}
