import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseMessage, readBody, replaceInJson } from "./json-rpc.ts";

describe("parseMessage", () => {
  it.each([
    '{"jsonrpc":"2.0","method":"ping","id":1}',
    '{"jsonrpc":"2.0","method":"notifications/anything"}',
    '{"jsonrpc":"2.0","id":"a","result":{}}',
    '{"jsonrpc":"2.0","id":1,"error":"odd"}',
    ' \t{"jsonrpc":"2.0","id":1,"result":null,"new":"key"} ',
  ])("takes %s", (text) => {
    expect(parseMessage(Buffer.from(text))).toEqual({ message: JSON.parse(text) as unknown, text });
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
  ])("that is no message is none: %j", (text) =>
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
