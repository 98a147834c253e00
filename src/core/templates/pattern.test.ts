import { describe, expect, it } from "vitest";
import { McpvalsError } from "../errors/error.ts";
import { compilePattern, isFoundInEveryText } from "./pattern.ts";

it("finds a pattern anywhere in a text", () => {
  const pattern = compilePattern("b+(?i:C)$");
  expect([pattern.test("abbc"), pattern.test("abbC"), pattern.test("abbcd")]).toEqual([true, true, false]);
});

it("takes no longer for patterns that make others hang", () => {
  expect(compilePattern("^(a+)+$").test(`${"a".repeat(50_000)}!`)).toBe(false);
});

it.each(["(", "a{2,1}", "(?=x)", String.raw`\1`])("refuses %j with what is wrong", (text) => {
  const compile = (): unknown => compilePattern(text);
  expect(compile).toThrow(McpvalsError);
  expect(compile).toThrow(`${JSON.stringify(text)} is not a valid RE2 pattern: error parsing regexp: `);
});

describe("isFoundInEveryText", () => {
  it.each([
    ".*",
    "^",
    "$",
    "^.*",
    ".*$",
    "^.*$",
    "(?s)^.*$",
    "(.*)",
    "^(.*)$",
    ".*?",
    "[\\s\\S]*",
    "a*",
    "(foo)?",
    "x|",
    "x|$",
    "^b?",
    "\\s*",
    "()",
    "(?i)",
    ".{0,}",
  ])("%s is", (source) => expect(isFoundInEveryText(source)).toBe(true));

  it.each([
    ".",
    ".+",
    "^$",
    "\\S",
    "a",
    "^a*b",
    "^[^x]*$",
    "^(?:[^E]|E[^R])*$",
    "^\\s*$",
    "\\b",
    "^\\d*$",
    "\\Qa",
  ])("%s is not", (source) => expect(isFoundInEveryText(source)).toBe(false));
});
