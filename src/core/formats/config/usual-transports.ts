import { isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";

/**
 * A server with the transport in the words of a config: `http`, as other tools call Streamable HTTP, is `shttp`; and `type`
 * is another name of `transport`. Whatever else it says is left to its schema.
 */
export function usualTransport(server: Json): Json {
  if (!isJsonObject(server)) return server;
  const { type, transport, ...rest } = server;
  if (transport === "http" && type === undefined) return { ...server, transport: "shttp" };
  if (transport !== undefined || typeof type !== "string" || !types.includes(type)) return server;
  return { transport: type === "http" ? "shttp" : type, ...rest };
}

const types = ["stdio", "http", "shttp", "sse"];

/** An object with `server` or `servers`, in which every server says its transport in the words of a config. */
export function withUsualTransports(container: Json): Json {
  if (!isJsonObject(container)) return container;
  const { server, servers } = container;
  return {
    ...container,
    ...(server === undefined ? {} : { server: usualTransport(server) }),
    ...(isJsonObject(servers) ? { servers: usualTable(servers) } : {}),
  };
}

function usualTable(servers: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(servers).map(([name, server]) => [name, usualTransport(server)]));
}
