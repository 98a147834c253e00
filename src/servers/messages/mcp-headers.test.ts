import { describe, expect, it, test } from "vitest";
import type { JsonObject } from "../../core/formats/model.ts";
import { messageHeaders, paramHeaders } from "./json-rpc.ts";

const meta = { "io.modelcontextprotocol/protocolVersion": "2026-07-28" };
const headersOf = (method: string, params: Record<string, unknown>): unknown =>
  messageHeaders({ jsonrpc: "2.0", id: 1, method, params });

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
    expect(messageHeaders({ jsonrpc: "2.0", method: "x", params: { _meta: meta } })).toEqual({});
  });
});

const schema = {
  type: "object",
  properties: {
    region: { type: "string", "x-mcp-header": "Region" },
    dry: { type: "boolean", "x-mcp-header": "Dry-Run" },
    count: { type: "integer", "x-mcp-header": "Count" },
    text: { type: "string" },
    bad: { type: "string", "x-mcp-header": "not a name" },
    inner: { type: "object", properties: { id: { type: "string", "x-mcp-header": "Id" } } },
  },
};

test.each<[JsonObject, JsonObject]>([
  [{}, {}],
  [{ text: "no", bad: "no", region: null }, {}],
  [
    { region: "eu west", dry: false, count: 3 },
    { "Mcp-Param-Region": "eu west", "Mcp-Param-Dry-Run": "false", "Mcp-Param-Count": "3" },
  ],
  [{ inner: { id: "x" } }, { "Mcp-Param-Id": "x" }],
  [{ region: "" }, { "Mcp-Param-Region": "=?base64??=" }],
  [{ region: " eu" }, { "Mcp-Param-Region": "=?base64?IGV1?=" }],
  [{ region: "zürich" }, { "Mcp-Param-Region": "=?base64?esO8cmljaA==?=" }],
  [{ region: "a\r\nb" }, { "Mcp-Param-Region": "=?base64?YQ0KYg==?=" }],
  [{ region: "=?base64?x?=" }, { "Mcp-Param-Region": "=?base64?PT9iYXNlNjQ/eD89?=" }],
  [{ count: 2 ** 60, region: ["a"] }, {}],
])("parameter headers of %j", (args, headers) => {
  expect(paramHeaders(schema, args)).toEqual(headers);
});

test("a schema without properties has no parameter headers", () => {
  expect(paramHeaders({ type: "object" }, { a: "b" })).toEqual({});
});
