import { expect, it } from "vitest";
import { cutText, launchOf } from "./extension-process.ts";

it("cuts a text, but no word", () => {
  expect(cutText("one two", 7)).toBe("one two");
  expect(cutText("one two", 6)).toBe("one …");
  expect(cutText('{"key":"tok-abc"}', 12)).toBe('{"key":"…');
  expect(cutText("word".repeat(10), 8)).toBe("…");
});

it.each([".js", ".mjs", ".cjs", ".ts", ".mts", ".JS"])("has Node run a program that ends in %s", (ending) => {
  expect(launchOf({ program: `/x/p${ending}` })).toEqual({
    command: process.execPath,
    args: [`/x/p${ending}`],
  });
});

it.each(["/x/p", "/x/p.py", "/x/p.exe"])("starts %s itself", (program) => {
  expect(launchOf({ program })).toEqual({ command: program, args: [] });
});
