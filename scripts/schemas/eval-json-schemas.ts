import * as z from "zod";
import { serverShapes } from "../../src/model/server.ts";
import { evalSchema } from "../../src/formats/convert/eval/eval-file.ts";
import { isJsonObject, type Json, type JsonObject } from "../../src/base/json.ts";
import { attacksSchema } from "../../src/model/attack.ts";
import { pricesSchema } from "../../src/model/prices.ts";
import { triggerTestsSchema } from "../../src/formats/convert/waza/task-rows.ts";
import { differences, settingsBeside, wazaEvalSchema, wazaTaskSchema } from "../../src/formats/convert/waza/waza-schema.ts";
import { inputJsonSchema } from "../../src/graders/settings.ts";
import { settingsJsonSchema, withGraderTypes } from "./grader-json-schemas.ts";
import { mcpServerDefinitions, withServerOverlays } from "./server-json-schema.ts";

/** The JSON Schema of eval files (draft 2020-12). */
export function evalJsonSchema(): JsonObject {
  const { $schema = "", $defs = {}, ...root } = inputJsonSchema(evalSchema);
  const definitions = withServerOverlays(isJsonObject($defs) ? $defs : {});
  return { $schema, $id: "urn:mcpvals:eval", ...root, $defs: withGraderTypes(definitions) };
}

/** The JSON Schema of an `eval.yaml` of waza (draft 2020-12): what this version runs. */
export function wazaEvalJsonSchema(): JsonObject {
  return wazaJsonSchema(wazaEvalSchema, "urn:mcpvals:waza-eval");
}

/** The JSON Schema of a task file of waza (draft 2020-12): what this version runs. */
export function wazaTaskJsonSchema(): JsonObject {
  return wazaJsonSchema(wazaTaskSchema, "urn:mcpvals:waza-task");
}

/** The JSON Schema of the `trigger_tests.yaml` of a waza eval (draft 2020-12). */
export function wazaTriggerTestsJsonSchema(): JsonObject {
  return plainJsonSchema(triggerTestsSchema, "urn:mcpvals:waza-trigger-tests");
}

/** The JSON Schema of files of prices (draft 2020-12). */
export function pricesJsonSchema(): JsonObject {
  return plainJsonSchema(pricesSchema, "urn:mcpvals:prices");
}

/** The JSON Schema of files of attacks (draft 2020-12). */
export function attacksJsonSchema(): JsonObject {
  return plainJsonSchema(attacksSchema, "urn:mcpvals:attacks");
}

function plainJsonSchema(schema: z.ZodType, id: string): JsonObject {
  const { $schema = "", ...root } = inputJsonSchema(schema);
  return { $schema, $id: id, ...root };
}

const wazaGraders = {
  name: "WazaGrader",
  settings: Object.fromEntries(Object.entries(differences).map(([type, { settings }]) => [type, settings])),
  beside: settingsBeside,
};

function wazaJsonSchema(schema: z.ZodType, id: string): JsonObject {
  const { $schema = "", $defs = {}, ...root } = inputJsonSchema(schema);
  const own = isJsonObject($defs) ? $defs : {};
  const definitions = withGraderTypes({ ...serverDefinitions(), ...own }, wazaGraders);
  const completed = complete({ ...root, $defs: definitions });
  return { $schema, $id: id, ...(isJsonObject(completed) ? completed : {}) };
}

/** What an `mcp_servers` table is, by the schema of servers, with all that this needs. */
function serverDefinitions(): JsonObject {
  const { $defs = {}, properties = {} } = inputJsonSchema(z.object(serverShapes));
  const keys = Object.entries(isJsonObject(properties) ? properties : {}).map(
    ([key, value]): [string, Json] => [key, { anyOf: [value, { type: "null" }] }],
  );
  return { ...(isJsonObject($defs) ? $defs : {}), ...mcpServerDefinitions(Object.fromEntries(keys)) };
}

/** Leaves out what is refused by name, and says what a table of servers and what settings of graders are. */
function complete(value: Json): Json {
  if (Array.isArray(value)) return value.map(complete);
  if (!isJsonObject(value)) return value;
  if (typeof value["settingsOf"] === "string") {
    const { definitions: _, ...settings } = settingsJsonSchema(value["settingsOf"], wazaGraders);
    return settings;
  }
  if (value["servers"] === "whole") return { $ref: "#/$defs/McpServers" };
  if (value["servers"] === "changed") return { $ref: "#/$defs/McpServerChanges" };
  const members = Object.entries(value)
    .filter(([, member]) => !(isJsonObject(member) && member["refused"] !== undefined))
    .map(([key, member]): [string, Json] => [key, complete(member)]);
  return Object.fromEntries(members);
}
