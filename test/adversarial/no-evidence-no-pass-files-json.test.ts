import { describe, expect, it } from "vitest";
import { checkExpectedResult } from "../../src/core/checks/expected-result.ts";
import { checkText } from "../../src/core/checks/text-expectation.ts";
import { readRpcMessage } from "../../src/extensions/host/rpc-message.ts";

// docs/guide.md, "Tool tests", and docs/tasks.md, "Steps": JSON that has a key twice says nothing.
describe("JSON that has a key twice proves nothing", () => {
  const ambiguous = '{"ok":false,"ok":true}';
  const result = { content: [{ type: "text", text: ambiguous }] };

  it.each([{ ok: true }, { ok: false }, {}, { $contains: { ok: true } }, { $equals: { ok: true } }])(
    "as the text of a result of which %j is expected",
    (expected) => {
      expect(checkExpectedResult(expected, result)).toMatchObject({
        passed: false,
        message: expect.stringContaining('duplicate key "ok"') as string,
      });
    },
  );

  it.each([
    { path: "$.ok", equals: true },
    { path: "$.ok", equals: false },
    { path: "$.other", exists: false },
  ])("as a text that is looked at with %j", (json) => {
    expect(checkText("body", { json: [json] }, ambiguous)).toMatchObject([
      { passed: false, message: 'it is not JSON: duplicate key "ok"' },
    ]);
  });

  it("as the answer of an extension", () => {
    const line = '{"jsonrpc":"2.0","id":1,"result":{"success":false,"success":true}}';
    expect(readRpcMessage(Buffer.from(line))).toMatchObject({ kind: "broken" });
  });
});
