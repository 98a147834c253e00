import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";

/** What may be the name of an HTTP header (RFC 9110, token). */
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** What a header can carry as it is: printable ASCII without blanks at its ends. */
const plainValue = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;

/**
 * The `Mcp-Param-NAME` headers of one call over HTTP since 2026-07-28: those arguments whose schema says `x-mcp-header`, so
 * that proxies can route by them. Servers refuse a call without them.
 */
export function paramHeaders(inputSchema: JsonObject, args: JsonObject): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  const { properties } = inputSchema;
  for (const [key, schema] of Object.entries(isJsonObject(properties) ? properties : {})) {
    const value = Object.hasOwn(args, key) ? args[key] : undefined;
    if (!isJsonObject(schema)) continue;
    const name = schema["x-mcp-header"];
    const text = textOf(value);
    if (typeof name === "string" && headerName.test(name) && text !== undefined)
      headers[`Mcp-Param-${name}`] = encoded(text);
    if (isJsonObject(value)) Object.assign(headers, paramHeaders(schema, value));
  }
  return headers;
}

function textOf(value: Json | undefined): string | undefined {
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return String(value);
  const isPrecise = typeof value === "number" && (!Number.isInteger(value) || Number.isSafeInteger(value));
  return isPrecise ? String(value) : undefined;
}

function encoded(text: string): string {
  const isAmbiguous = text.startsWith("=?base64?") && text.endsWith("?=");
  return plainValue.test(text) && !isAmbiguous
    ? text
    : `=?base64?${Buffer.from(text, "utf8").toString("base64")}?=`;
}
