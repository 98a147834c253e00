import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../base/json.ts";
import { messageHeaders, paramHeaders, parseMessage, readBody, replaceInJson } from "./json-rpc.ts";

describe("parseMessage", () => {
  it.each([
    '{"jsonrpc":"2.0","method":"ping","id":1}',
    '{"jsonrpc":"2.0","method":"notifications/anything"}',
    '{"jsonrpc":"2.0","id":"a","result":{}}',
    '{"jsonrpc":"2.0","id":1,"error":"odd"}',
    ' \t{"jsonrpc":"2.0","id":1,"result":null,"new":"key"} ',
  ])("takes %s", (text) => {
    const isUsual = text.startsWith(" ") ? undefined : true;
    expect(parseMessage(Buffer.from(text))).toEqual({ message: JSON.parse(text) as unknown, text, isUsual });
  });

  it.each([
    "",
    "   ",
    "Listening on port 3000",
    "{ not json",
    "[]",
    '[{"jsonrpc":"2.0","method":"ping","id":1}]',
    '"text"',
    "null",
    "{}",
    '{"id":1,"result":{}}',
    '{"jsonrpc":"1.0","id":1,"result":{}}',
    '{"jsonrpc":"2.0","id":1}',
    '{"jsonrpc":"2.0","method":5}',
    '{"level":"info","msg":"started"}',
  ])("does not take %s", (text) => {
    expect(parseMessage(Buffer.from(text))).toBeUndefined();
  });
});

describe("a body", () => {
  it("is one message, in one line", () => {
    const body = readBody(`\n{\r\n"jsonrpc":"2.0",\n"id":1.0, "method":"\\n"}\n`);
    expect(body).toEqual({
      kind: "message",
      wires: [
        {
          message: { jsonrpc: "2.0", id: 1, method: "\n" },
          text: `{ "jsonrpc":"2.0", "id":1.0, "method":"\\n"}`,
        },
      ],
    });
  });

  it.each([
    "",
    "{",
    "[",
    "[]",
    "null",
    "5",
    `"x"`,
    "[1]",
    `[{"jsonrpc":"2.0","method":"a"},{}]`,
    "{}",
    "[{]}",
  ])("that is not a message is none: %j", (text) =>
    expect(readBody(text)).toEqual({ kind: "other", wires: [] }),
  );

  it("is a batch, whose messages keep their own texts", () => {
    const texts = [
      `{"jsonrpc":"2.0","id":1,"method":"a","params":[[1.0,{"b":"],[\\"{"}],{}]}`,
      `{ "jsonrpc":"2.0","result":{"x":"\\\\"},"id":2}`,
    ];
    const body = readBody(` [ ${texts.join(" ,\n")}\t] `);
    expect(body.kind).toBe("batch");
    expect(body.wires.map(({ text }) => text)).toEqual(texts);
  });
});

describe("replacing in JSON", () => {
  it("replaces one value and nothing else, wherever it is", () => {
    const ids = fc.constantFrom("1", '"a"', "1.50", '"}\\""');
    fc.assert(
      fc.property(fc.jsonValue(), ids, fc.constantFrom("", " ", "\n\t"), (before, old, space) => {
        const text = (id: string): string =>
          [
            `${space}{"a":${JSON.stringify(before)}`,
            `"p":{"id":1,"n":1.00e+400,"\\u0071":${space}${id}${space}}`,
            `"big":12345678901234567890${space}}`,
          ].join(`,${space}`);
        expect(replaceInJson(text(old), ["p", "q"], '"new"')).toBe(text('"new"'));
      }),
    );
  });

  it("takes the last of two, as JSON.parse does", () => {
    expect(replaceInJson('{"id":1,"x":"}\\"{","id":2}', ["id"], "3")).toBe('{"id":1,"x":"}\\"{","id":3}');
  });

  it.each(['{"a":{"id":1}}', '{"p":[{"id":1}]}', '{"p":{"id":[1]}}', "[]", "{}"])(
    "changes nothing when there is no such value: %s",
    (text) => expect(replaceInJson(text, ["p", "id"], "3")).toBe(text),
  );
});

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

it.each<[JsonObject, JsonObject]>([
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

it("a schema without properties has no parameter headers", () => {
  expect(paramHeaders({ type: "object" }, { a: "b" })).toEqual({});
});
