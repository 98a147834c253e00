import { PassThrough } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { array, assert, nat, property, string } from "fast-check";
import { describe, expect, it } from "vitest";
import { LineReader, ProgramOutput, TextTail } from "./program-output.ts";

interface Program {
  readonly stdout: PassThrough;
  readonly stderr: PassThrough;
  readonly output: ProgramOutput;
}

function program(limit?: number): Program {
  const [stdout, stderr, output] = [new PassThrough(), new PassThrough(), new ProgramOutput(limit)];
  output.attach({ stdout, stderr });
  return { stdout, stderr, output };
}

async function finished({ stdout, stderr, output }: Program): Promise<ProgramOutput> {
  stdout.end();
  stderr.end();
  await output.settle(5000);
  output.stop();
  return output;
}

describe("what a program writes", () => {
  it("is kept apart, and together in the order in which it came", async () => {
    const started = program();
    started.stdout.write("one ");
    await turn();
    started.stderr.write("two ");
    await turn();
    started.stdout.write("three");
    const output = await finished(started);
    expect([output.stdout, output.stderr, output.together]).toEqual([
      { text: "one three", omitted: 0 },
      { text: "two ", omitted: 0 },
      "one two three",
    ]);
  });

  it("has whole characters however the chunks are split, and a replacement for half ones", async () => {
    const started = program();
    for (const byte of Buffer.from("é🦊")) started.stdout.write(Buffer.of(byte));
    started.stderr.write(Buffer.from("é").subarray(0, 1));
    const output = await finished(started);
    expect([output.stdout.text, output.stderr.text]).toEqual(["é🦊", "\uFFFD"]);
  });

  it.each([
    [4, "abcd", 3],
    [7, "abcdefg", 0],
    [0, "", 7],
  ])("is kept up to %i bytes", async (limit, text, omitted) => {
    const started = program(limit);
    for (const piece of ["ab", "cde", "fg"]) started.stdout.write(piece);
    expect((await finished(started)).stdout).toEqual({ text, omitted });
  });

  it("loses the character that the limit splits", async () => {
    const started = program(3);
    started.stdout.write("a🦊");
    expect((await finished(started)).stdout).toEqual({ text: "a", omitted: 2 });
  });

  it("is still read after stop, and no longer kept", async () => {
    const started = program();
    started.stdout.write("now");
    await started.output.settle(10);
    started.output.stop();
    for (let piece = 0; piece < 50; piece += 1) {
      if (!started.stdout.write("x".repeat(10_000))) await turn();
    }
    await turn();
    expect(started.stdout.readableLength + started.stdout.writableLength).toBe(0);
    expect(started.output.together).toBe("now");
  });

  it("is read while there is more, although the time is up", async () => {
    const started = program();
    const settled = started.output.settle(0);
    let left = 8;
    const write = (): void => {
      started.stdout.write("x");
      left -= 1;
      if (left > 0) setImmediate(write);
    };
    setImmediate(write);
    // Blocks the event loop until the time is up.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    await settled;
    started.output.stop();
    expect(started.output.stdout.text).toBe("xxxxxxxx");
  });
});

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
  it("splits lines wherever the chunks are split", () => {
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

  it("accepts CRLF, empty lines and a last line without an end", () => {
    expect(read(["a\r\n\nb\r", "\nc"]).lines).toEqual(["a", "", "b", "c"]);
  });

  it("refuses a line over the limit, in one chunk or many, and reads nothing more", () => {
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

function tailOf(...texts: readonly string[]): string | undefined {
  const tail = new TextTail();
  for (const text of texts) tail.push(Buffer.from(text));
  return tail.text;
}

it("keeps what is short", () => {
  expect(tailOf("one\n", "two\n")).toBe("one\ntwo");
  expect(tailOf(" \n")).toBeUndefined();
});

it("begins with a whole line or word where it was truncated, so that no secret is split", () => {
  const filler = "x".repeat(4086);
  expect(tailOf("secret-12345\n", `${filler}\n`, "last\n")).toBe(`${filler}\nlast`);
  expect(tailOf(`secret-12345 ${filler}\nlast`)).toBe("last");
  expect(tailOf(`secret-12345 ${filler}`, "\n")).toBe(`… ${filler}`);
  expect(tailOf(`secret-12345${filler}`, "\n")).toBe("…");
});
