import { expect, test } from "vitest";
import type { JsonObject } from "../../core/formats/model.ts";
import { paramHeaders } from "./server-caller.ts";

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
])("%j", (args, headers) => {
  expect(paramHeaders(schema, args)).toEqual(headers);
});

test("a schema without properties", () => {
  expect(paramHeaders({ type: "object" }, { a: "b" })).toEqual({});
});
