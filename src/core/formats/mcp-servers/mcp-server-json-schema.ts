import { isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import { canonicalKey, entryKeys, transports, typeNames } from "./server-keys.ts";

/**
 * Definitions of a JSON Schema for `mcp_servers`: `McpServers` is the table, `McpServer` an entry. `keys` are the keys of
 * servers with what they may be, none of them required, as an entry may be a part that is laid over a server.
 */
export function mcpServerDefinitions(keys: JsonObject): JsonObject {
  return {
    McpServers: {
      title: "MCP servers",
      description:
        "Servers by name. In tasks and variants they are laid over others: null takes one away, `inherit: false` all.",
      type: "object",
      properties: { inherit },
      propertyNames: { pattern: "^[A-Za-z0-9_-]+$" },
      additionalProperties: { anyOf: [{ $ref: "#/$defs/McpServer" }, { type: "null" }] },
    },
    McpServer: {
      title: "MCP server",
      description:
        "A program (`command`) or a server with an address (`url`), or a part that is laid over one, where null takes a key away. It is `required` unless it says otherwise.",
      type: "object",
      properties: {
        ...Object.fromEntries(entryKeys.map((key): [string, Json] => [key, entryValue(key, keys)])),
        inherit,
      },
      additionalProperties: false,
    },
  };
}

/** An object's schema, with what the table in its `mcp_servers` is. */
export function withMcpServers(definition: JsonObject): JsonObject {
  const { properties } = definition;
  const table = isJsonObject(properties) ? properties["mcp_servers"] : undefined;
  if (!isJsonObject(properties) || !isJsonObject(table)) return definition;
  const { type: _, ...described } = table;
  const servers = { ...described, $ref: "#/$defs/McpServers" };
  return { ...definition, properties: { ...properties, mcp_servers: servers } };
}

const inherit: JsonObject = {
  description: "`false` takes nothing from below.",
  type: "boolean",
  default: true,
};

const types: JsonObject = {
  anyOf: [{ enum: [...new Set([...typeNames, ...transports.values()])] }, { type: "null" }],
};

function entryValue(key: string, keys: JsonObject): Json {
  if (key === "type")
    return { description: "Which kind of server it is, where `command` or `url` does not tell.", ...types };
  if (key === "transport") return { description: "Another name of `type`.", ...types };
  const name = canonicalKey(key);
  const value = keys[name];
  const known = isJsonObject(value) ? value : {};
  return name === key ? known : { ...known, description: `Another name of \`${name}\`.` };
}
