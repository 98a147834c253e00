import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cutToWidth, displayWidth, padToWidth, splitAtWidth, wrapText } from "./columns.ts";

const text = fc.oneof(fc.string({ unit: "grapheme" }), fc.string({ unit: "grapheme-ascii" }));

describe("displayWidth", () => {
  it.each([
    ["", 0],
    ["naïve › x", 9],
    ["e\u0301", 1],
    ["🎉", 2],
    ["👩‍👩‍👧", 2],
    ["⚠️", 2],
    ["한국", 4],
    ["✓ ok", 4],
  ])("%j is %d columns", (shown, width) => {
    expect(displayWidth(shown)).toBe(width);
  });
});

describe("cutToWidth", () => {
  it.each([
    ["too long", 5, "too …"],
    ["日本語", 5, "日本…"],
    ["anything", 1, "…"],
    ["anything", -3, ""],
  ])("%j to %d is %j", (shown, width, expected) => {
    expect(cutToWidth(shown, width)).toBe(expected);
  });

  it("never gives more columns than asked for, and leaves alone what fits", () => {
    fc.assert(
      fc.property(text, fc.nat(20), (shown, width) => {
        expect(displayWidth(cutToWidth(shown, width))).toBeLessThanOrEqual(width);
        expect(cutToWidth(shown, displayWidth(shown))).toBe(shown);
      }),
    );
  });
});

it("parts text without losing any", () => {
  fc.assert(
    fc.property(text, fc.nat(20), (shown, width) => {
      const [head, tail] = splitAtWidth(shown, width);
      expect(head + tail).toBe(shown);
      expect(displayWidth(head)).toBeLessThanOrEqual(width);
    }),
  );
});

it("pads to columns, not to characters", () => {
  expect(padToWidth("日本", 6)).toBe("日本  ");
  expect(padToWidth("longer", 3)).toBe("longer");
});

describe("wrapped text", () => {
  it.each([
    ["short", 10, ["short"]],
    ["one two three", 8, ["one two", "three"]],
    ["日本語日本語", 8, ["日本語日", "本語"]],
    ["    at Module.resolve (file)", 20, ["    at", "Module.resolve", "(file)"]],
    ["", 10, [""]],
    ["any width", Infinity, ["any width"]],
  ])("%j at %d", (line, width, expected) => {
    expect(wrapText(line, width)).toEqual(expected);
  });

  it("loses no word, and no piece is too wide", () => {
    const line = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "日", "é", "🎉"), maxLength: 12 }));
    fc.assert(
      fc.property(line, fc.integer({ min: 8, max: 30 }), (words, width) => {
        const pieces = wrapText(words.join(" "), width);
        for (const piece of pieces) expect(displayWidth(piece)).toBeLessThanOrEqual(width);
        expect(pieces.join("").replaceAll(" ", "")).toBe(words.join(""));
      }),
    );
  });
});
