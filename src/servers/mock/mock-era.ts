import { isJsonObject } from "../../core/formats/json.ts";
import type { JsonObject } from "../../core/formats/model.ts";

const newestLegacyVersion = "2025-11-25";

/** The versions of the era that begins with `initialize`, the newest first. */
export const legacyVersions = [newestLegacyVersion, "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];

/** What 2026-07-28 lets clients keep for a while, and so has to say for how long. */
const cacheable = new Set([
  "server/discover",
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
  "resources/read",
]);

/** The version that a request says it is in; undefined for one of the legacy era. */
export function requestVersion(params: JsonObject): string | undefined {
  const meta = params["_meta"];
  const version = isJsonObject(meta) ? meta["io.modelcontextprotocol/protocolVersion"] : undefined;
  return typeof version === "string" ? version : undefined;
}

/** The version that a handshake ends with: the one that is asked for, where it is known. */
export function agreedVersion({ protocolVersion }: JsonObject): string {
  return legacyVersions.find((version) => version === protocolVersion) ?? newestLegacyVersion;
}

/** A result with what every result has in 2026-07-28; what it says itself is kept. */
export function modernResult(method: string, result: JsonObject, server: JsonObject): JsonObject {
  const meta = result["_meta"];
  return {
    resultType: "complete",
    ...(cacheable.has(method) ? { ttlMs: 0, cacheScope: "private" } : {}),
    ...result,
    _meta: { "io.modelcontextprotocol/serverInfo": server, ...(isJsonObject(meta) ? meta : {}) },
  };
}
