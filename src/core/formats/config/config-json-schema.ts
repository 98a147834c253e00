import * as z from "zod";
import { configSchema } from "./config-schema.ts";
import { isJsonObject } from "../json.ts";
import type { JsonObject } from "../model.ts";
import { withMcpServers } from "../mcp-servers/mcp-server-json-schema.ts";
import { withServerOverlays } from "./server-overlay-json-schema.ts";

/** Of these a config has one. */
const tables = ["server", "servers", "mcp_servers"];
/** One of these will do as well. */
const mocks = ["mocks", "mcp_mocks"];

/** What needs a server of the config; tasks from files can have their own. */
const calling = ["workflows", "toolHealthSuites"];

function required(key: string): JsonObject {
  return { required: [key] };
}

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
  const { $defs = {}, ...root } = rest as JsonObject;
  return {
    $schema: $schema ?? "",
    $id: "urn:mcpvals:config",
    ...withMcpServers(root),
    $defs: withServerOverlays(isJsonObject($defs) ? $defs : {}),
    oneOf: [
      ...tables.map(required),
      { not: { anyOf: tables.map(required) }, anyOf: mocks.map(required) },
      { not: { anyOf: [...tables, ...mocks, ...calling].map(required) }, required: ["tasks"] },
    ],
  };
}
