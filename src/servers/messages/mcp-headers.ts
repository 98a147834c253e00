import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { isJsonObject, valueAt } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { methodOf, requestOf, versionIn } from "./json-rpc.ts";

// Headers that repeat, over HTTP and since 2026-07-28, what a request says, so that proxies can route by them.

/** The member of a request's params that the `mcp-name` header repeats, by method. */
const named: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
  "tasks/get": "taskId",
  "tasks/update": "taskId",
  "tasks/cancel": "taskId",
};

/** The headers that repeat what a message says; none for a notification and for an older request. */
export function messageHeaders(message: JSONRPCMessage): Readonly<Record<string, string>> {
  const version = versionIn(message);
  const method = requestOf(message)?.method;
  if (version === undefined || method === undefined) return {};
  const name = namedMember(message);
  return {
    "mcp-protocol-version": version,
    "mcp-method": method,
    ...(name === undefined ? {} : { "mcp-name": headerValue(name) }),
  };
}

/** What the `mcp-name` header of a request repeats; undefined for one that has none. */
export function namedMember(message: JSONRPCMessage): string | undefined {
  const method = methodOf(message) ?? "";
  const member = Object.hasOwn(named, method) ? named[method] : undefined;
  const name = member === undefined ? undefined : valueAt(message, ["params", member]);
  return typeof name === "string" ? name : undefined;
}

/** What may be the name of an HTTP header (RFC 9110, token). */
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** The `Mcp-Param-NAME` headers of a call: the arguments whose schema has `x-mcp-header`. Servers refuse a call without them. */
export function paramHeaders(inputSchema: JsonObject, args: JsonObject): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  const { properties } = inputSchema;
  for (const [key, schema] of Object.entries(isJsonObject(properties) ? properties : {})) {
    const value = Object.hasOwn(args, key) ? args[key] : undefined;
    if (!isJsonObject(schema)) continue;
    const name = schema["x-mcp-header"];
    const text = textOf(value);
    if (typeof name === "string" && headerName.test(name) && text !== undefined)
      headers[`Mcp-Param-${name}`] = headerValue(text);
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

/** What a header can carry as it is: printable ASCII without blanks at its ends. */
const plainValue = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;
const encodedValue = /^=\?base64\?(.*)\?=$/i;

function headerValue(text: string): string {
  return plainValue.test(text) && !encodedValue.test(text)
    ? text
    : `=?base64?${Buffer.from(text, "utf8").toString("base64")}?=`;
}

/** The text that a header carries. */
export function decodedHeader(value: string): string {
  const [, base64] = encodedValue.exec(value) ?? [];
  return base64 === undefined ? value : Buffer.from(base64, "base64").toString("utf8");
}
