import { expect, it } from "vitest";
import { clipLines, clipText } from "./clip.ts";

const limits = { lines: 2, characters: 10 } as const;

it.each([
  ["what is short", "a\nb\n", ["a", "b"]],
  ["too many lines", "a\nb\nc\nd", ["a", "b", "… 2 lines more"]],
  ["too many characters", "0123456789abc", ["0123456789", "… 3 characters more"]],
  ["nothing", "", [""]],
])("keeps the head of %s", (_, text, expected) => {
  expect(clipLines(text, limits)).toEqual(expected);
});

it.each([
  ["what is short", "a\nb\n", ["a", "b"]],
  ["too many lines", "a\nb\nc\nd", ["… 2 lines before", "c", "d"]],
  ["too many characters", "abc0123456789", ["… 3 characters before", "0123456789"]],
])("keeps the tail of %s", (_, text, expected) => {
  expect(clipLines(text, { ...limits, keep: "tail" })).toEqual(expected);
});

it("makes one line of text and says what is missing", () => {
  expect(clipText("a\nb", 10)).toBe("a\\nb");
  expect(clipText("0123456789ab", 10)).toBe("0123456789… (2 more characters)");
});
