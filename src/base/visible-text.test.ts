import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { visibleLines, visibleOnPage, visibleText } from "./visible-text.ts";

describe("visibleText", () => {
  it.each([
    ["words of any language", "añb 日本 نص می‌خواهم 👩‍👩‍👧 «x»", "añb 日本 نص می‌خواهم 👩‍👩‍👧 «x»"],
    ["a way that looks written out already", String.raw`\x1b`, String.raw`\x1b`],
    ["escape sequences", "\u001b[31mred\u001b[0m", String.raw`\x1b[31mred\x1b[0m`],
    ["8-bit control sequences", "\u009b2J\u0085", String.raw`\x9b2J\x85`],
    ["line breaks and tabs", "a\nb\r\tc\u2028d\u2029", String.raw`a\nb\r\tc\u2028d\u2029`],
    ["bell, backspace, delete", "\u0007\b\u007f", String.raw`\x07\x08\x7f`],
    ["text that would run backwards", "a\u202eb\u2066c\u200f", String.raw`a\u202eb\u2066c\u200f`],
    ["characters that show nothing", "a\u200bb\u00adc\ufeff", String.raw`a\u200bb\xadc\ufeff`],
    ["tags and selectors that hide text", "a\u{e0041}\u{e0100}", String.raw`a\u{e0041}\u{e0100}`],
    ["half a surrogate pair", "a\ud800b\udc00", String.raw`a\ud800b\udc00`],
    ["a whole one", "𝕏", "𝕏"],
  ])("shows %s", (_, text, shown) => {
    expect(visibleText(text)).toBe(shown);
  });

  it("leaves nothing that can drive a terminal, and nothing that cannot be written as UTF-8", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const shown = visibleText(text);
        expect(shown).not.toMatch(/\p{Cc}|\p{Zl}|\p{Zp}|\p{Bidi_Control}/u);
        expect(shown.isWellFormed()).toBe(true);
        expect(visibleText(shown)).toBe(shown);
      }),
    );
  });
});

it("parts lines at line breaks only, and shows a lone carriage return", () => {
  expect(visibleLines("a\r\nb\n\tc\rd\u2028e")).toEqual(["a", "b", String.raw`  c\rd\u2028e`]);
});

it("leaves line breaks, tabs and what looks like a command of a CI system on a page, and nothing else", () => {
  expect(visibleOnPage("a\r\nb\n\tc\rd\u202e\n::error::e\u001b[0m")).toBe(
    "a\r\nb\n\tc\\rd\\u202e\n::error::e\\x1b[0m",
  );
});
