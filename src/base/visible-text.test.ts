import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  clipLines,
  clipText,
  countOf,
  formatInteger,
  formatScore,
  visibleLines,
  visibleOnPage,
  visibleText,
} from "./visible-text.ts";

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

describe("shortened text", () => {
  const limits = { lines: 2, characters: 10 } as const;

  it.each([
    ["too many lines", "a\nb\nc\nd", ["a", "b", "… 2 lines more"]],
    ["too many characters", "0123456789abc", ["0123456789", "… 3 characters more"]],
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

  it.each([["characters", { lines: 3, characters: 4 }, ["Error: Cannot find module 'x'", "…", "c", "d"]]])(
    "leads a tail with the error that too many %s would hide",
    (_, most, expected) => {
      const text = "node:internal/loader:1\n  throw err;\nError: Cannot find module 'x'\n    at a\nb\nc\nd";
      expect(clipLines(text, { ...most, keep: "tail" })).toEqual(expected);
    },
  );

  it("leaves a tail alone that holds the error", () => {
    const lines = clipLines("a\nb\nfatal: no such branch: x\nd", { lines: 2, characters: 100, keep: "tail" });
    expect(lines).toEqual(["… 2 lines before", "fatal: no such branch: x", "d"]);
  });

  it("makes one line of text and says what is missing", () => {
    expect(clipText("a\nb", 10)).toBe("a\\nb");
    expect(clipText("0123456789ab", 10)).toBe("0123456789… (2 more characters)");
  });
});

describe("numbers", () => {
  it("parts thousands", () => {
    expect([0, 999, 1000, 1_234_567].map(formatInteger)).toEqual(["0", "999", "1,000", "1,234,567"]);
  });

  it("agrees in number", () => {
    expect([countOf(1, "trial"), countOf(0, "trial"), countOf(12_000, "trial")]).toEqual([
      "1 trial",
      "0 trials",
      "12,000 trials",
    ]);
  });

  it("never shows a score as perfect that is not", () => {
    expect([0, 0.999, 1, 0.29, 2 / 3].map(formatScore)).toEqual(["0.00", "0.99", "1.00", "0.29", "0.67"]);
  });
});
