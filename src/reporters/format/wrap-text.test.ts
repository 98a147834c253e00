import * as fc from "fast-check";
import { expect, it } from "vitest";
import { displayWidth, wrapText } from "./text.ts";

it.each([
  ["short", 10, ["short"]],
  ["one two three", 9, ["one two", "three"]],
  ["one two three", 8, ["one two", "three"]],
  ["unbreakable-word", 10, ["unbreakabl", "e-word"]],
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
