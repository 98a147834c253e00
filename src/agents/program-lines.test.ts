import { array, assert, json, nat, oneof, property, string } from "fast-check";
import { describe, expect, it } from "vitest";
import { JsonLines } from "./program-lines.ts";

function read(chunks: readonly Buffer[], limit = 1000): { objects: unknown[]; others: string[] } {
  const objects: unknown[] = [];
  const others: string[] = [];
  const lines = new JsonLines({
    limit,
    onBroken: (problem) => expect.unreachable(problem),
    onObject: (line) => objects.push(line),
    onOther: (line) => others.push(line.toString()),
  });
  for (const chunk of chunks) lines.push(chunk);
  lines.finish();
  return { objects, others };
}

describe("JsonLines", () => {
  it("tells objects from all else, the last line without an end too", () => {
    expect(read([Buffer.from('{"a":1}\r\nhello\n[1]\n{"b":\n\n  {"c":"é"}')])).toEqual({
      objects: [{ a: 1 }, { c: "é" }],
      others: ["hello\n", "[1]\n", '{"b":\n', "\n"],
    });
  });

  it("leaves out a line that is too long and goes on", () => {
    const chunks = [`{"a":"${"x".repeat(50)}`, "x".repeat(50), '"}\n{"b":1}\n'].map((text) =>
      Buffer.from(text),
    );
    expect(read(chunks, 60)).toEqual({
      objects: [{ b: 1 }],
      others: ["[a line of 108 bytes was left out]\n"],
    });
  });

  it("reads the same however the output is cut", () => {
    assert(
      property(array(oneof(json({ depthSize: "small" }), string())), array(nat(9)), (texts, sizes) => {
        const whole = Buffer.from(texts.join("\n"));
        const chunks: Buffer[] = [];
        let start = 0;
        for (const size of sizes) chunks.push(whole.subarray(start, (start += size)));
        chunks.push(whole.subarray(start));
        expect(read(chunks, 1e6)).toEqual(read([whole], 1e6));
      }),
    );
  });
});
