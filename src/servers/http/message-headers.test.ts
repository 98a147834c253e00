import { describe, expect, it } from "vitest";
import { wireMessage } from "../wire.ts";
import { messageHeaders } from "./message-headers.ts";

const meta = { "io.modelcontextprotocol/protocolVersion": "2026-07-28" };
const headersOf = (method: string, params: Record<string, unknown>): unknown =>
  messageHeaders(wireMessage({ jsonrpc: "2.0", id: 1, method, params }));

describe("headers of a message", () => {
  it("repeat what a request of 2026-07-28 says", () => {
    const version = { "mcp-protocol-version": "2026-07-28" };
    expect(headersOf("tools/list", { _meta: meta })).toEqual({ ...version, "mcp-method": "tools/list" });
    const named = (name: string): unknown => headersOf("tools/call", { _meta: meta, name });
    expect(named("echo it")).toEqual({ ...version, "mcp-method": "tools/call", "mcp-name": "echo it" });
    for (const name of ["é", "", " a", "a\n", "=?base64?YQ==?="])
      expect(named(name)).toMatchObject({
        "mcp-name": `=?base64?${Buffer.from(name).toString("base64")}?=`,
      });
    expect(headersOf("resources/read", { _meta: meta, uri: "a:b" })).toMatchObject({ "mcp-name": "a:b" });
  });

  it("are none for older messages and for notifications", () => {
    expect(headersOf("tools/call", { name: "echo" })).toEqual({});
    expect(messageHeaders(wireMessage({ jsonrpc: "2.0", method: "x", params: { _meta: meta } }))).toEqual({});
  });
});
