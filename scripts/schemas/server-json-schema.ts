import { isJsonObject, type Json, type JsonObject } from "../../src/base/json.ts";
import { canonicalKey, entryKeys, transports, typeNames } from "../../src/formats/convert/waza/mcp-servers.ts";

/**
 * Definitions of a JSON Schema for `mcp_servers`: `McpServers` is a table of whole servers, `McpServerChanges` one that is laid over it,
 * `McpServer` an entry. `keys` are the keys of servers with what they may be, none of them required.
 */
export function mcpServerDefinitions(keys: JsonObject): JsonObject {
  const table = { type: "object", propertyNames: { pattern: "^[A-Za-z0-9_-]+$" } };
  const mock = { enum: ["mock"] };
  return {
    McpServers: {
      title: "MCP servers",
      description: "Servers by name.",
      ...table,
      additionalProperties: {
        $ref: "#/$defs/McpServer",
        anyOf: [
          { type: "object", required: ["command"] },
          { type: "object", required: ["url"] },
          { type: "object", required: ["type"], properties: { type: mock } },
          { type: "object", required: ["transport"], properties: { transport: mock } },
        ],
      },
    },
    McpServerChanges: {
      title: "MCP server changes",
      description:
        "Servers by name, merged over those of the eval: null removes one, `inherit: false` all. One with a new name is a whole server.",
      ...table,
      properties: { inherit },
      additionalProperties: { anyOf: [{ $ref: "#/$defs/McpServer" }, { type: "null" }] },
    },
    McpServer: {
      title: "MCP server",
      description:
        "A program (`command`) or a server with a URL (`url`), or changes that are merged over one, where null removes a key. `required` is true by default.",
      type: "object",
      properties: {
        ...Object.fromEntries(entryKeys.map((key): [string, Json] => [key, entryValue(key, keys)])),
        inherit,
      },
      additionalProperties: false,
    },
  };
}

const inherit: JsonObject = {
  description: "`false`: starts empty.",
  type: "boolean",
  default: true,
};

const types: JsonObject = {
  anyOf: [{ enum: [...new Set([...typeNames, ...transports.values()])] }, { type: "null" }],
};

function entryValue(key: string, keys: JsonObject): Json {
  if (key === "type")
    return { description: "The kind of server, if `command` or `url` does not determine it.", ...types };
  if (key === "transport") return { description: "Another name of `type`.", ...types };
  const name = canonicalKey(key);
  const value = keys[name];
  const known = isJsonObject(value) ? value : {};
  return name === key ? known : { ...known, description: `Another name of \`${name}\`.` };
}

const kinds = ["StdioServer", "ShttpServer", "SseServer", "MockServer"];

/**
 * The definitions of a JSON Schema with those of servers that are laid over others: `ServerOverlay` has every key of some
 * kind of server, none required, and null to take one away.
 */
export function withServerOverlays(definitions: JsonObject): JsonObject {
  const shapes = kinds.flatMap((kind) => Object.entries(propertiesOf(definitions[kind])));
  const keys = overlayKeys(Object.fromEntries(shapes.toReversed()));
  const variant = definitions["Variant"];
  const all = { ...definitions, ...(isJsonObject(variant) ? { Variant: withTable(variant) } : {}) };
  return {
    ...all,
    ServerOverlays: {
      title: "Server overrides",
      description: "By name: changes of a server, or null to remove it.",
      type: "object",
      properties: { inherit },
      additionalProperties: { anyOf: [{ $ref: "#/$defs/ServerOverlay" }, { type: "null" }] },
    },
    ServerOverlay: {
      title: "Server overlay",
      description:
        "Changes that are merged over the server of this name: maps are merged, lists replaced, and null removes a key. With a new name it is a whole server.",
      type: "object",
      properties: { inherit, ...keys },
      additionalProperties: false,
    },
  };
}

function overlayKeys(properties: JsonObject): JsonObject {
  const keys = Object.entries(properties).toReversed();
  return Object.fromEntries(keys.map(([key, value]): [string, Json] => [key, optional(key, value)]));
}

const described: Readonly<Record<string, string>> = { transport: "Which kind of server it is." };

function optional(key: string, property: Json): JsonObject {
  const { default: _, defaultText: __, description = "", ...type } = isJsonObject(property) ? property : {};
  const own = key === "transport" ? { enum: ["stdio", "shttp", "http", "sse", "mock"] } : partOf(key, type);
  return { description: described[key] ?? description, anyOf: [own, { type: "null" }] };
}

/** The schema of a variant, whose servers are laid over others. */
function withTable(variant: JsonObject): JsonObject {
  const properties = propertiesOf(variant);
  const { type: _, ...servers } = propertiesOf({ properties: properties["servers"] ?? {} });
  return {
    ...variant,
    properties: { ...properties, servers: { ...servers, $ref: "#/$defs/ServerOverlays" } },
  };
}

function propertiesOf(definition: Json | undefined): JsonObject {
  const properties = isJsonObject(definition) ? definition["properties"] : undefined;
  return isJsonObject(properties) ? properties : {};
}

/** Of a map whose members take each other's place, a part may stand there, and null for a member that is taken away. */
function partOf(key: string, type: JsonObject): JsonObject {
  if (key === "auth" || key === "rateLimit") return { type: "object" };
  const { additionalProperties } = type;
  if (!isJsonObject(additionalProperties)) return type;
  return { ...type, additionalProperties: { anyOf: [additionalProperties, { type: "null" }] } };
}
