import * as fc from "fast-check";
import { expect, it } from "vitest";
import { visibleLines, visibleText } from "./visible-text.ts";

it.each([
  ["plain text stays", "añb 日本 👩‍👩‍👧 «x»", "añb 日本 👩‍👩‍👧 «x»"],
  ["escape sequences", "\u001b[31mred\u001b[0m", "\\x1b[31mred\\x1b[0m"],
  ["8-bit control sequences", "\u009b2J", "\\x9b2J"],
  ["line breaks and tabs", "a\nb\r\tc", "a\\nb\\r\\tc"],
  ["bell and backspace", "\u0007\b\u007f", "\\x07\\x08\\x7f"],
  ["text that would run backwards", "a\u202eb\u2066c", "a\\u202eb\\u2066c"],
  ["invisible tag characters", "a\u{e0041}", "a\\u{e0041}"],
  ["half a surrogate pair", "a\ud800", "a\\ud800"],
])("%s", (_, text, expected) => {
  expect(visibleText(text)).toBe(expected);
});

it("parts lines at line breaks only, and shows a lone carriage return", () => {
  expect(visibleLines("a\r\nb\n\tc\rd")).toEqual(["a", "b", "  c\\rd"]);
});

it("leaves nothing that can drive a terminal", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      // oxlint-disable-next-line no-control-regex
      expect(visibleText(text)).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/u);
    }),
  );
});
