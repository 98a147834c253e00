import { expect, it } from "vitest";
import { OutputTail } from "./output-recorder.ts";

it("keeps the last 4 KiB of stderr, also of a flood", () => {
  const tail = new OutputTail();
  expect(tail.stderrTail).toBeUndefined();
  for (let block = 0; block < 100; block += 1) tail.stderr(Buffer.alloc(60_004, `line ${block % 10}\n`));
  tail.stderr(Buffer.from("the last words\n"));
  expect(tail.stderrTail?.length).toBeGreaterThan(4080);
  expect(tail.stderrTail).toMatch(/^(?:line 9\n)+the last words$/);
});

it("keeps the first line that is no message, cut", () => {
  const tail = new OutputTail();
  expect(tail.firstInvalidLine).toBeUndefined();
  for (const number of [0, 1]) tail.invalidLine(Buffer.from(`${number} ${"é".repeat(3000)}`));
  expect(tail.firstInvalidLine).toBe(`0 ${"é".repeat(1998)}…`);
});
