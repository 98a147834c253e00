import { requestOf } from "../filters/messages.ts";
import type { WireMessage } from "../wire.ts";
import { methodOf, valueAt } from "../hosts/message-parts.ts";

/** The member of a request's params that the `mcp-name` header repeats, by method. */
const named: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
  "tasks/get": "taskId",
  "tasks/update": "taskId",
  "tasks/cancel": "taskId",
};

/** The version that a message itself names, as every one of 2026-07-28 does; undefined for an older one. */
export function versionIn(wire: WireMessage): string | undefined {
  const version = valueAt(wire.message, ["params", "_meta", "io.modelcontextprotocol/protocolVersion"]);
  return typeof version === "string" ? version : undefined;
}

/** The headers that repeat what a request says, as 2026-07-28 wants them; none for an older one. */
export function messageHeaders(wire: WireMessage): Readonly<Record<string, string>> {
  const version = versionIn(wire);
  const method = requestOf(wire.message)?.method;
  if (version === undefined || method === undefined) return {};
  const name = namedMember(wire.message);
  return {
    "mcp-protocol-version": version,
    "mcp-method": method,
    ...(name === undefined ? {} : { "mcp-name": headerValue(name) }),
  };
}

/** What the `mcp-name` header of a request repeats; undefined for one that has none. */
export function namedMember(message: WireMessage["message"]): string | undefined {
  const method = methodOf(message) ?? "";
  const member = Object.hasOwn(named, method) ? named[method] : undefined;
  const name = member === undefined ? undefined : valueAt(message, ["params", member]);
  return typeof name === "string" ? name : undefined;
}

/** A header holds visible ASCII; anything else travels in Base64. */
function headerValue(value: string): string {
  const isPlain =
    /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/.test(value) && !/^=\?base64\?.*\?=$/.test(value);
  return isPlain ? value : `=?base64?${Buffer.from(value, "utf8").toString("base64")}?=`;
}
