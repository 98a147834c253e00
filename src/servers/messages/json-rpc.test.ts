import { describe, expect, it } from "vitest";
import { parseMessage } from "./json-rpc.ts";

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
