import * as fc from "fast-check";
import { expect, it } from "vitest";
import { randomSequence, truncateResult, truncateText } from "./faults.ts";

const first = (seed: string, count: number): number[] => {
  const next = randomSequence(seed);
  return Array.from({ length: count }, () => next());
};

it("gives the same numbers for the same seed, and different ones for another", () => {
  expect(first("0/s/0", 3)).toEqual(first("0/s/0", 3));
  expect(first("0/s/0", 3)).not.toEqual(first("0/s/1", 3));
});

it("gives fixed numbers for a seed", () => {
  expect(first("seed", 3)).toEqual([0.5276006809435785, 0.45600148756057024, 0.6399091784842312]);
});

it("gives numbers from 0 to below 1 that are spread evenly", () => {
  const numbers = first("spread", 100_000);
  expect(Math.min(...numbers.slice(0, 50_000))).toBeGreaterThanOrEqual(0);
  expect(Math.max(...numbers.slice(0, 50_000))).toBeLessThan(1);
  for (let tenth = 0; tenth < 10; tenth += 1) {
    const share = numbers.filter((number) => Math.floor(number * 10) === tenth).length;
    expect(share).toBeGreaterThan(9500);
    expect(share).toBeLessThan(10_500);
  }
});

const bytesOf = (text: string): number => Buffer.byteLength(text, "utf8");

it("truncates a text at the last whole character that fits", () => {
  expect(truncateText("añb", 2)).toBe("a");
  expect(truncateText("añb", 3)).toBe("añ");
  expect(truncateText("😀😀", 7)).toBe("😀");
  expect(truncateText("abc", 3)).toBe("abc");
  expect(truncateText("abc", 0)).toBe("");
});

it("keeps the longest beginning of each text that fits", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.nat(40), (text, bytes) => {
      const cut = truncateText(text, bytes);
      expect(text.startsWith(cut)).toBe(true);
      expect(bytesOf(cut)).toBeLessThanOrEqual(bytes);
      const [next = ""] = text.slice(cut.length);
      if (next !== "") expect(bytesOf(cut + next)).toBeGreaterThan(bytes);
    }),
  );
});

it("truncates every text that a model reads, and leaves out the structured content", () => {
  const result = {
    content: [
      { type: "text", text: "abcdef", annotations: { audience: ["user"] } },
      { type: "image", data: "abcdef", mimeType: "image/png" },
      { type: "resource", resource: { uri: "text:abcdef", text: "abcdef" } },
      { type: "text", text: "ab" },
    ],
    structuredContent: { text: "abcdef" },
    isError: false,
    _meta: { text: "abcdef" },
  };
  expect(truncateResult(result, 3)).toEqual({
    content: [
      { type: "text", text: "abc", annotations: { audience: ["user"] } },
      { type: "image", data: "abcdef", mimeType: "image/png" },
      { type: "resource", resource: { uri: "text:abcdef", text: "abc" } },
      { type: "text", text: "ab" },
    ],
    isError: false,
    _meta: { text: "abcdef" },
  });
  expect(truncateResult({ contents: [{ uri: "x:", text: "abcd" }] }, 1)).toEqual({
    contents: [{ uri: "x:", text: "a" }],
  });
  const messages = [{ role: "user", content: { type: "text", text: "abcd" } }];
  expect(truncateResult({ messages }, 1)).toEqual({
    messages: [{ role: "user", content: { type: "text", text: "a" } }],
  });
});

it("gives undefined when no text is longer", () => {
  const result = { content: [{ type: "text", text: "abc" }], structuredContent: { a: 1 } };
  expect(truncateResult(result, 3)).toBeUndefined();
  expect(truncateResult({ tools: [{ name: "a", text: "long text" }] }, 3)).toBeUndefined();
});
