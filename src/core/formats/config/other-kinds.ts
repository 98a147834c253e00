import { isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import { serverShapes, shapesOfKinds } from "./config-server-schema.ts";

/**
 * A table of servers without what could not be meant any more when `overlay` is laid over it: where an entry of the overlay
 * says what kind of server it is, keys that only other kinds have, and their transport. Both tables have the keys of a config.
 */
export function withoutOtherKinds(base: JsonObject, overlay: JsonObject): JsonObject {
  const servers = Object.entries(base).map(([name, server]): [string, Json] => {
    const above = Object.hasOwn(overlay, name) ? overlay[name] : undefined;
    const kinds = isJsonObject(above) ? kindsSaid(above) : undefined;
    return [name, kinds === undefined || !isJsonObject(server) ? server : fitting(server, kinds)];
  });
  return Object.fromEntries(servers);
}

type Kind = keyof typeof shapesOfKinds;

function isKind(value: Json | undefined): value is Kind {
  return typeof value === "string" && Object.hasOwn(shapesOfKinds, value);
}

/** The kinds that an entry can be by what it says; undefined when it leaves that open, or says what is none. */
function kindsSaid({ transport, command, url, mock }: JsonObject): readonly Kind[] | undefined {
  if (isKind(transport)) return [transport];
  if (isSaid(transport)) return undefined;
  if (isSaid(command)) return ["stdio"];
  if (isSaid(url)) return ["shttp", "sse"];
  return isSaid(mock) ? ["mock"] : undefined;
}

/** Null takes a key away. */
function isSaid(value: Json | undefined): boolean {
  return value !== undefined && value !== null;
}

function fitting(server: JsonObject, kinds: readonly Kind[]): JsonObject {
  const members = Object.entries(server).filter(([key, value]) => {
    if (key === "transport") return !isKind(value) || kinds.includes(value);
    return !Object.hasOwn(serverShapes, key) || kinds.some((kind) => Object.hasOwn(shapesOfKinds[kind], key));
  });
  return Object.fromEntries(members);
}
