import { expect, it } from "vitest";
import { OutputTail } from "./output-tail.ts";

it("keeps the last 4 KiB of stderr, also of a flood", () => {
  const tail = new OutputTail();
  expect(tail.stderrTail).toBeUndefined();
  for (let block = 0; block < 100; block += 1) tail.stderr(Buffer.alloc(60_000, String(block % 10)));
  tail.stderr(Buffer.from("the last words\n"));
  expect(tail.stderrTail).toHaveLength(4095);
  expect(tail.stderrTail).toMatch(/^9+the last words$/);
});

it("keeps the first line that is no message, cut", () => {
  const tail = new OutputTail();
  expect(tail.firstInvalidLine).toBeUndefined();
  for (const number of [0, 1]) tail.invalidLine(Buffer.from(`${number} ${"é".repeat(3000)}`));
  expect(tail.firstInvalidLine).toBe(`0 ${"é".repeat(1998)}`);
});
