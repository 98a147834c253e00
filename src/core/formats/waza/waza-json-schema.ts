import * as z from "zod";
import { serverShapes } from "../config/config-server-schema.ts";
import { isJsonObject } from "../json.ts";
import { canonicalKey, entryKeys, typeNames } from "../mcp-servers/server-keys.ts";
import type { Json, JsonObject } from "../model.ts";
import { wazaEvalSchema, wazaTaskSchema } from "./waza-schema.ts";

/** The JSON Schema of an `eval.yaml` of waza (draft 2020-12): what this version runs. */
export function wazaEvalJsonSchema(): JsonObject {
  return jsonSchema(wazaEvalSchema, "urn:mcpvals:waza-eval");
}

/** The JSON Schema of a task file of waza (draft 2020-12): what this version runs. */
export function wazaTaskJsonSchema(): JsonObject {
  return jsonSchema(wazaTaskSchema, "urn:mcpvals:waza-task");
}

function jsonSchema(schema: z.ZodType, id: string): JsonObject {
  const { $schema = "", $defs = {}, ...root } = generate(schema);
  const own = isJsonObject($defs) ? $defs : {};
  const { definitions, entry } = serverEntry();
  const all = { ...definitions, ...own, McpServer: entry };
  const completed = complete({ ...root, $defs: all });
  return { $schema, $id: id, ...(isJsonObject(completed) ? completed : {}) };
}

function generate(schema: z.ZodType): JsonObject {
  return z.toJSONSchema(schema, {
    io: "input",
    target: "draft-2020-12",
    unrepresentable: "any",
    override: ({ jsonSchema: made }) => {
      // Any text may hold a ${VAR}, so a format can only be checked after it was replaced.
      delete made.format;
      delete made["defaultText"];
    },
  }) as JsonObject;
}

/** An entry of `mcp_servers`, by the schema of servers; in overlays any part of it may be left out, or null. */
function serverEntry(): { readonly definitions: JsonObject; readonly entry: JsonObject } {
  const { $defs = {}, properties } = generate(z.object(serverShapes));
  const known = isJsonObject(properties) ? properties : {};
  const type: JsonObject = { enum: typeNames };
  const members = entryKeys.map((key): [string, Json] => {
    const value = key === "type" || key === "transport" ? type : (known[canonicalKey(key)] ?? true);
    return [key, { anyOf: [value, { type: "null" }] }];
  });
  return {
    definitions: isJsonObject($defs) ? $defs : {},
    entry: {
      title: "MCP server",
      description:
        "A program (`command`) or a server with an address (`url`), or a part that is laid over one.",
      type: "object",
      properties: { ...Object.fromEntries(members), inherit: { type: "boolean" } },
      additionalProperties: false,
    },
  };
}

const serverTable: JsonObject = {
  description:
    "Servers by name; in tasks and variants laid over others: null takes one away, `inherit: false` all.",
  type: "object",
  properties: { inherit: { type: "boolean" } },
  propertyNames: { pattern: "^[A-Za-z0-9_-]+$" },
  additionalProperties: { anyOf: [{ $ref: "#/$defs/McpServer" }, { type: "null" }] },
};

/** Leaves out what is refused by name, and says what a table of servers is. */
function complete(value: Json): Json {
  if (Array.isArray(value)) return value.map(complete);
  if (!isJsonObject(value)) return value;
  if (value["servers"] === true) return serverTable;
  const members = Object.entries(value)
    .filter(([, member]) => !(isJsonObject(member) && member["refused"] === true))
    .map(([key, member]): [string, Json] => [key, complete(member)]);
  return Object.fromEntries(members);
}
