import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cutToWidth, displayWidth, padToWidth, splitAtWidth } from "./text.ts";

const text = fc.oneof(fc.string({ unit: "grapheme" }), fc.string({ unit: "grapheme-ascii" }));

describe("displayWidth", () => {
  it.each([
    ["", 0],
    ["echo", 4],
    ["naïve › x", 9],
    ["日本語", 6],
    ["e\u0301", 1],
    ["🎉", 2],
    ["👩‍👩‍👧", 2],
    ["⚠️", 2],
    ["ｆｕｌｌ", 8],
    ["한국", 4],
    ["✓ ok", 4],
  ])("%j is %d columns", (shown, width) => {
    expect(displayWidth(shown)).toBe(width);
  });
});

describe("cutToWidth", () => {
  it.each([
    ["fits", 4, "fits"],
    ["too long", 5, "too …"],
    ["日本語", 5, "日本…"],
    ["日本語", 4, "日…"],
    ["anything", 1, "…"],
    ["anything", 0, ""],
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
