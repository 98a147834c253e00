import { array, assert, nat, property, string } from "fast-check";
import { describe, expect, it } from "vitest";
import { LineReader } from "./program-output.ts";

interface Reading {
  readonly lines: string[];
  readonly tooLong: number;
}

function read(chunks: readonly (string | Buffer)[], limit = 1000): Reading {
  const lines: string[] = [];
  let tooLong = 0;
  const reader = new LineReader({
    limit,
    onLine: (line) => lines.push(line.toString()),
    onTooLong: () => (tooLong += 1),
  });
  for (const chunk of chunks) reader.push(Buffer.from(chunk));
  reader.end();
  return { lines, tooLong };
}

describe("LineReader", () => {
  it("cuts lines wherever the chunks are cut", () => {
    const line = string({ unit: "grapheme" }).map((text) => text.replaceAll(/[\r\n]/g, ""));
    assert(
      property(array(line), array(nat(20)), (lines, sizes) => {
        const bytes = Buffer.from(lines.map((text) => `${text}\n`).join(""));
        const chunks: Buffer[] = [];
        let start = 0;
        for (const size of sizes) chunks.push(bytes.subarray(start, (start += size)));
        chunks.push(bytes.subarray(start));
        expect(read(chunks)).toEqual({ lines, tooLong: 0 });
      }),
    );
  });

  it("takes CRLF, empty lines and a last line without an end", () => {
    expect(read(["a\r\n\nb\r", "\nc"]).lines).toEqual(["a", "", "b", "c"]);
  });

  it("refuses a line over the limit, in one chunk or many, once and for all", () => {
    expect(read(["12345\n", "123456\n", "1\n"], 5)).toEqual({ lines: ["12345"], tooLong: 1 });
    expect(read(["123", "45", "6", "\n1\n"], 5)).toEqual({ lines: [], tooLong: 1 });
    expect(read(["1\n2\n123456"], 5)).toEqual({ lines: ["1", "2"], tooLong: 1 });
  });

  it("gives no line after it was stopped from within one", () => {
    const lines: string[] = [];
    const reader = new LineReader({
      limit: 10,
      onLine(line) {
        lines.push(line.toString());
        reader.stop();
      },
      onTooLong: () => lines.push("too long"),
    });
    reader.push(Buffer.from("a\nb\n"));
    reader.push(Buffer.from("c\n"));
    reader.end();
    expect(lines).toEqual(["a"]);
  });
});
