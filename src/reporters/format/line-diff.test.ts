import * as fc from "fast-check";
import { expect, it } from "vitest";
import { diffLines } from "./evidence.ts";

function show(before: string, after: string): string[] {
  const marks = { same: " ", removed: "-", added: "+", gap: "~" } as const;
  return diffLines(before.split(""), after.split("")).map(({ kind, text }) => marks[kind] + text);
}

it.each([
  ["equal texts", "abc", "abc", []],
  ["a changed line", "abc", "axc", [" a", "-b", "+x", " c"]],
  ["an added line", "ac", "abc", [" a", "+b", " c"]],
  ["a removed line", "abc", "ac", [" a", "-b", " c"]],
  ["kept lines that are far away", "abcdefXg", "abcdefYg", ["~…", " e", " f", "-X", "+Y", " g"]],
  ["no gap for a single line", "XabcdeY", "abcde", ["-X", " a", " b", " c", " d", " e", "-Y"]],
  ["two changes apart", "XabcdefY", "abcdef", ["-X", " a", " b", "~…", " e", " f", "-Y"]],
  ["moved lines, matched as long as possible", "abcd", "bcda", ["-a", " b", " c", " d", "+a"]],
])("%s", (_, before, after, expected) => {
  expect(show(before, after)).toEqual(expected);
});

it("gives both texts back, however they differ", () => {
  const lines = fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 8 });
  fc.assert(
    fc.property(lines, lines, (before, after) => {
      const diff = diffLines(before, after);
      if (diff.some((line) => line.kind === "gap")) return;
      const take = (other: string): string[] =>
        diff.filter((line) => line.kind !== other).map((line) => line.text);
      if (diff.length === 0) expect(before).toEqual(after);
      else expect([take("added"), take("removed")]).toEqual([before, after]);
    }),
  );
});

it("stays quick on long texts that share nothing", () => {
  const before = Array.from({ length: 20_000 }, (_, index) => `a${index}`);
  const after = Array.from({ length: 20_000 }, (_, index) => `b${index}`);
  expect(diffLines(before, after)).toHaveLength(40_000);
});
