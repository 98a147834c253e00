import { describe, expect, it } from "vitest";
import { McpvalsError } from "../base/error.ts";
import { compilePattern, isFoundInEveryText } from "./pattern.ts";

describe("isFoundInEveryText", () => {
  it.each(
    String.raw`.* ^ $ .*$ ^.*$ (?s)^.*$ (.*) .*? [\s\S]* a* (foo)? x| x|$ \s* () (?i) .{0,}`.split(" "),
  )("%s is", (source) => expect(isFoundInEveryText(source)).toBe(true));

  it.each(String.raw`. .+ ^$ \S a ^a*b ^[^x]*$ ^(?:[^E]|E[^R])*$ ^\s*$ \b ^\d*$ \Qa`.split(" "))(
    "%s is not",
    (source) => expect(isFoundInEveryText(source)).toBe(false),
  );
});

function refusal(source: string): McpvalsError {
  try {
    compilePattern(source);
  } catch (error) {
    if (error instanceof McpvalsError) return error;
  }
  throw new Error(`${source} was accepted`);
}

describe("a pattern", () => {
  it.each([
    ["b+", "aabbcc"],
    ["^b$", "b"],
    ["(?i)HELLO", "say hello"],
    ["(?m)^b$", "a\nb\nc"],
    ["(?s)a.b", "a\nb"],
    [String.raw`\bready\b: \d+/\d+`, "ready: 3/3"],
    [String.raw`\p{Greek}`, "an α"],
    ["🦊", "a 🦊"],
  ])("%s is found in %j", (source, text) => {
    expect(compilePattern(source).test(text)).toBe(true);
  });

  it.each([
    ["^b", "ab"],
    ["HELLO", "say hello"],
    ["^b$", "a\nb\nc"],
    ["a.b", "a\nb"],
  ])("%s is not found in %j", (source, text) => {
    expect(compilePattern(source).test(text)).toBe(false);
  });

  it.each([
    ["(?=x)", "`(?=`"],
    [String.raw`(a)\1`, String.raw`\1`],
    ["[a", "missing closing ]"],
    ["a{2000}", "invalid repeat count"],
    ["", "found in every text"],
  ])("%j is refused, with the reason", (source, reason) => {
    const error = refusal(source);
    expect(error).toMatchObject({ code: "task/pattern" });
    expect(error.message).toContain(JSON.stringify(source));
    expect(error.message).toContain(reason);
  });

  it("is forgotten after many others, so that memory stays bounded", () => {
    const first = compilePattern("first");
    for (let index = 0; index < 200; index += 1) compilePattern(`other${index}`);
    expect(compilePattern("first")).not.toBe(first);
  });

  it.each(["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*)(.*)(.*)(.*)x$", "(?i)(A+)+$"])(
    "%s takes time linear in the text",
    (source) => {
      const text = `${"a".repeat(100_000)}!`;
      expect(compilePattern(source).test(text)).toBe(false);
    },
  );
});
