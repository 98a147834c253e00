import { expect, it } from "vitest";
import { clipLines, clipText } from "./text.ts";

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

it.each([
  ["lines", { lines: 3, characters: 100 }, ["Error: Cannot find module 'x'", "…", "c", "d"]],
  ["characters", { lines: 3, characters: 4 }, ["Error: Cannot find module 'x'", "…", "c", "d"]],
])("leads a tail with the error that too many %s would hide", (_, most, expected) => {
  const text = "node:internal/loader:1\n  throw err;\nError: Cannot find module 'x'\n    at a\nb\nc\nd";
  expect(clipLines(text, { ...most, keep: "tail" })).toEqual(expected);
});

it("leaves a tail alone that holds the error", () => {
  const text = "a\nb\nfatal: no such branch: x\nd";
  expect(clipLines(text, { lines: 2, characters: 100, keep: "tail" })).toEqual([
    "… 2 lines before",
    "fatal: no such branch: x",
    "d",
  ]);
});

it("makes one line of text and says what is missing", () => {
  expect(clipText("a\nb", 10)).toBe("a\\nb");
  expect(clipText("0123456789ab", 10)).toBe("0123456789… (2 more characters)");
});
