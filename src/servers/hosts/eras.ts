import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { kindOf, methodOf, valueAt } from "./message-parts.ts";

/** `legacy` begins with `initialize`; `modern` (2026-07-28) has no handshake, and every request names its version. */
export type Era = "legacy" | "modern";

/** The era that a client's message belongs to; undefined for one that could be of either. */
export function eraOf(message: JSONRPCMessage): Era | undefined {
  if (kindOf(message) !== "request") return undefined;
  const names = typeof valueAt(message, ["params", "_meta", versionKey]) === "string";
  if (names || methodOf(message) === "server/discover") return "modern";
  return methodOf(message) === "initialize" ? "legacy" : undefined;
}

/** Whether a request asks a server if it speaks an era at all. */
export function opensEra(message: JSONRPCMessage): boolean {
  const method = methodOf(message);
  return method === "server/discover" || method === "initialize";
}

/** What a client of the modern era would begin with. */
export function discoverRequest(asked: JSONRPCMessage): JSONRPCMessage {
  const meta = valueAt(asked, ["params", "_meta"]);
  return {
    jsonrpc: "2.0",
    id: "mcpvals:discover",
    method: "server/discover",
    params: { _meta: typeof meta === "object" && meta !== null ? { ...meta } : {} },
  };
}

const versionKey = "io.modelcontextprotocol/protocolVersion";
