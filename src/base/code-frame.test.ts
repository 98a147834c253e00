import * as fc from "fast-check";
import { expect, it } from "vitest";
import { codeFrame } from "./error.ts";

function frame(text: string, line: number, column: number): string | undefined {
  const lines = text.split("\n");
  return codeFrame((number) => lines[number - 1], { line, column });
}

it.each([
  ['{"name": "a b"}', 10, "^^^^^"],
  ["a: ${TOKEN}-x", 4, "^^^^^^^^"],
  ["a: 'b c'", 4, "^^^^^"],
  ["a: []", 4, "^"],
  ["a:", 3, "^"],
])("marks what stands in %j at column %d", (text, column, marker) => {
  expect(frame(text, 1, column)).toBe(`> 1 | ${text}\n    | ${" ".repeat(column - 1)}${marker}`);
});

it("aligns line numbers of different widths", () => {
  const text = Array.from({ length: 11 }, (_, index) => `l${index + 1}`).join("\n");
  expect(frame(text, 10, 1)).toBe("   9 | l9\n> 10 | l10\n     | ^^^\n  11 | l11");
});

it("cuts long lines around the place", () => {
  const text = `${"a".repeat(500)} HERE ${"b".repeat(500)}`;
  const [shown = "", marker = ""] = (frame(text, 1, 502) ?? "").split("\n");
  expect(shown.length).toBeLessThan(120);
  expect(shown).toMatch(/^> 1 \| …a+ HERE b+…$/);
  expect(marker.indexOf("^")).toBe(shown.indexOf("HERE"));
  expect(marker.replaceAll(/[ |]/g, "")).toBe("^^^^");
});

it("gives nothing for a place without a line", () => {
  expect(codeFrame(() => "text", {})).toBeUndefined();
});

it("puts the marker under the character of the place, wherever it is", () => {
  fc.assert(
    fc.property(fc.nat(400), (before) => {
      const [shown = "", marker = ""] = (frame(`${"a ".repeat(before)}X`, 1, before * 2 + 1) ?? "").split(
        "\n",
      );
      expect(shown.charAt(marker.indexOf("^"))).toBe("X");
    }),
  );
});
