import { expect, it } from "vitest";
import { launchOf } from "./extension-process.ts";

it.each([".js", ".mjs", ".cjs", ".ts", ".mts", ".JS"])("has Node run a program that ends in %s", (ending) => {
  expect(launchOf({ program: `/x/p${ending}` })).toEqual({
    command: process.execPath,
    args: [`/x/p${ending}`],
  });
});

it.each(["/x/p", "/x/p.py", "/x/p.exe"])("starts %s itself", (program) => {
  expect(launchOf({ program })).toEqual({ command: program, args: [] });
});
