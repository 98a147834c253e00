import { expect, it } from "vitest";
import { cutText } from "./extension-process.ts";

it("cuts a text, but no word", () => {
  expect(cutText("one two", 7)).toBe("one two");
  expect(cutText("one two", 6)).toBe("one …");
  expect(cutText('{"key":"tok-abc"}', 12)).toBe('{"key":"…');
  expect(cutText("word".repeat(10), 8)).toBe("…");
});
