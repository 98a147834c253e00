import { describe, expect, it } from "vitest";
import type { TextExpectation } from "../formats/step.ts";
import type { Check } from "../trace/events.ts";
import { checkText } from "./text-expectation.ts";

function only(expectation: TextExpectation, text: string): Check {
  const [check, ...others] = checkText("stdout", expectation, text);
  if (check === undefined || others.length > 0) throw new Error("not one check");
  return check;
}

describe("equals", () => {
  it.each([
    ["a", "a"],
    ["a\n", "a"],
    ["a", "a\r\n\n"],
    ["", "\n"],
    ["a\nb\n\n", "a\nb"],
  ])("%j is as good as %j", (equals, text) => {
    expect(only({ equals }, text).passed).toBe(true);
  });

  it.each([
    ["a", "A"],
    ["a", "a "],
    ["a", "\na"],
    ["a", "ab"],
    ["", "a"],
    ["a", ""],
    ["a\nb", "a\n\nb"],
    ["a\rb", "ab"],
  ])("%j is not %j", (equals, text) => {
    expect(only({ equals }, text).passed).toBe(false);
  });

  it("is one check, with both sides", () => {
    expect(only({ equals: "a\n" }, "a")).toEqual({
      name: "stdout equals",
      passed: true,
      expected: "a",
      actual: "a",
      message: "it is as expected",
    });
    expect(only({ equals: "one" }, "two\n")).toEqual({
      name: "stdout equals",
      passed: false,
      expected: "one",
      actual: "two",
      message: 'it is "two", expected "one"',
    });
  });

  it.each([
    ["a\nbcd\ne", "a\nbxd\ne", 'line 2 is "bxd", expected "bcd"'],
    ["a\nb\nc", "a\nb", 'it ends before line 3, expected "c" (it has 2 lines, expected 3)'],
    ["a\nb", "a\nb\nc", 'line 3 is "c", expected the end (it has 3 lines, expected 2)'],
    ["done", "a\nb\nc", 'line 1 is "a", expected "done" (it has 3 lines, expected 1)'],
    ["a\nb\nc", "a", 'it ends before line 2, expected "b" (it has 1 line, expected 3)'],
    [
      `x\n${"y".repeat(100)}z`,
      `x\n${"y".repeat(100)}`,
      'line 2 differs at column 101: there is its end, expected "z"',
    ],
  ])("names the first line where %j is not %j", (equals, text, message) => {
    expect(only({ equals }, text).message).toBe(message);
  });

  it("shows both sides of long texts around the difference", () => {
    const words = "word ".repeat(20_000);
    const { expected, actual } = only({ equals: `${words}RIGHT ${words}` }, `${words}WRONG ${words}`);
    expect(expected).toMatch(/^… ?(word )+RIGHT (word )+…$/);
    expect(actual).toMatch(/^… ?(word )+WRONG (word )+…$/);
    expect(JSON.stringify(actual).length).toBeLessThan(1100);
  });

  it("takes time linear in the text", () => {
    expect(only({ equals: "a" }, `${"\n".repeat(1_000_000)}b`).passed).toBe(false);
  });
});

describe("contains", () => {
  it("is one check for each text", () => {
    expect(checkText("stdout", { contains: ["b", "x", "B"] }, "abc")).toEqual([
      {
        name: "stdout contains",
        passed: true,
        expected: "b",
        actual: "abc",
        message: 'it contains "b"',
      },
      {
        name: "stdout contains",
        passed: false,
        expected: "x",
        actual: "abc",
        message: 'it does not contain "x"',
      },
      {
        name: "stdout contains",
        passed: false,
        expected: "B",
        actual: "abc",
        message: 'it does not contain "B", only in another case',
      },
    ]);
  });

  it("finds nothing in the empty text, and the empty text in no other", () => {
    expect(only({ contains: ["a"] }, "").message).toBe('it is empty, expected it to contain "a"');
    expect(only({ contains: [""] }, "").passed).toBe(true);
    expect(only({ contains: [""] }, "a")).toMatchObject({
      passed: false,
      message: "it is not empty, expected nothing",
    });
  });

  it("shows a long text around what was found, or its beginning, and no word in half", () => {
    const words = "word ".repeat(1000);
    expect(only({ contains: ["HERE"] }, `${words}HERE ${words}`).actual).toMatch(
      /^… ?(word )+HERE (word )+…$/,
    );
    expect(only({ contains: ["HERE"] }, `start ${words}`).actual).toMatch(/^start (word )+…$/);
    expect(only({ contains: ["HERE"] }, `${words}here ${words}`).actual).toContain("here");
    const endless = only({ contains: ["HERE"] }, "x".repeat(5000)).actual;
    expect(endless).toBe(`${"x".repeat(1000)}…`);
  });
});

describe("matches", () => {
  it("is one check for each pattern", () => {
    const text = "ready: 3/3";
    expect(checkText("stdout", { matches: [String.raw`\d/\d$`, "^3"] }, text)).toEqual([
      {
        name: "stdout matches",
        passed: true,
        expected: String.raw`\d/\d$`,
        actual: text,
        message: String.raw`it matches "\\d/\\d$"`,
      },
      {
        name: "stdout matches",
        passed: false,
        expected: "^3",
        actual: text,
        message: 'it does not match "^3"',
      },
    ]);
    expect(only({ matches: ["a"] }, "").message).toBe('it is empty and does not match "a"');
  });

  it("refuses what is no pattern", () => {
    expect(() => checkText("stdout", { matches: ["(?=a)"] }, "a")).toThrow("is not a valid RE2 pattern");
  });

  it("does not hang", () => {
    expect(only({ matches: ["(a+)+$"] }, `${"a".repeat(100_000)}!`).passed).toBe(false);
  });
});

describe("json", () => {
  it("looks at places in a text that is JSON", () => {
    expect(checkText("stdout", { json: [{ path: "$.a", equals: 1 }, { path: "b" }] }, '{"a": 1}\n')).toEqual([
      { name: "stdout json $.a equals", passed: true, expected: 1, actual: 1, message: "$.a is as expected" },
      {
        name: "stdout json $.b exists",
        passed: false,
        expected: true,
        actual: { a: 1 },
        message: "$.b leads to nothing, expected something there",
      },
    ]);
  });

  it("is one failed check for a text that is none", () => {
    const json = [{ path: "$.a" }, { path: "$.b", exists: false }];
    const check = only({ json }, "a: 1");
    expect(check).toMatchObject({ name: "stdout json", passed: false, expected: "JSON", actual: "a: 1" });
    expect(check.message).toMatch(/^it is not JSON: Unexpected token .[^"]*$/);
    expect(only({ json }, " \n").message).toBe("it is not JSON: it is empty");
  });

  it("without places is a check that the text is JSON", () => {
    expect(only({ json: [] }, "null")).toMatchObject({ passed: true, message: "it is JSON" });
    expect(only({ json: [] }, "nil")).toMatchObject({ passed: false });
  });
});

it("every part must hold, and each is a check", () => {
  const parts = { equals: "1", contains: ["1"], matches: ["1"], json: [{ path: "$", equals: 1 }] };
  expect(checkText("it", parts, "1").map(({ name, passed }) => [name, passed])).toEqual([
    ["it equals", true],
    ["it contains", true],
    ["it matches", true],
    ["it json $ equals", true],
  ]);
  expect(checkText("it", {}, "1")).toEqual([]);
});
