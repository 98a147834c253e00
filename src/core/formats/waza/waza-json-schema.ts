import * as z from "zod";
import { serverShapes } from "../config/config-server-schema.ts";
import { isJsonObject } from "../json.ts";
import { mcpServerDefinitions } from "../mcp-servers/mcp-server-json-schema.ts";
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
  const completed = complete({ ...root, $defs: { ...serverDefinitions(), ...own } });
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

/** What an `mcp_servers` table is, by the schema of servers, with all that this needs. */
function serverDefinitions(): JsonObject {
  const { $defs = {}, properties = {} } = generate(z.object(serverShapes));
  const keys = Object.entries(isJsonObject(properties) ? properties : {}).map(
    ([key, value]): [string, Json] => [key, { anyOf: [value, { type: "null" }] }],
  );
  return { ...(isJsonObject($defs) ? $defs : {}), ...mcpServerDefinitions(Object.fromEntries(keys)) };
}

/** Leaves out what is refused by name, and says what a table of servers is. */
function complete(value: Json): Json {
  if (Array.isArray(value)) return value.map(complete);
  if (!isJsonObject(value)) return value;
  if (value["servers"] === true) return { $ref: "#/$defs/McpServers" };
  const members = Object.entries(value)
    .filter(([, member]) => !(isJsonObject(member) && member["refused"] === true))
    .map(([key, member]): [string, Json] => [key, complete(member)]);
  return Object.fromEntries(members);
}
