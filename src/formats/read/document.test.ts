import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { valueAt } from "../../base/json.ts";
import { jsonDocument, parseJson, SourceText, SyntaxProblems } from "./document.ts";

function problems(text: string): readonly { offset: number; message: string; hint?: string }[] {
  try {
    parseJson(text);
    return [];
  } catch (error) {
    if (!(error instanceof SyntaxProblems)) throw error;
    return error.problems;
  }
}

const aValue = "expected a value, such as a string in double quotes, a number, true, false or null";

// The place of the problem is marked with ▶.
it.each([
  ["▶", "the file is empty"],
  ['{▶// note\n"a": 1}', "a comment"],
  ["▶# note\n{}", "a comment"],
  ['{"a": 1,▶}', "expected a key in double quotes"],
  ["[1, 2,▶]", aValue],
  ["{▶a: 1}", "keys and strings need double quotes"],
  ['{"a" ▶1}', 'expected ":" after the key'],
  ['{"a": 1 ▶"b": 2}', 'expected "," before the next value'],
  ["[1 ▶2]", 'expected "," before the next value'],
  ["[1, [2]▶", 'expected "," or "]"'],
  ['{"a": {}▶', 'expected "," or "}"'],
  ['[▶"abc', "a string must end on the line that it begins on; write \\n for a line break"],
  ['[▶"a\tb"]', "a control character in a string; write it as an escape such as \\t"],
  ['[▶"a\\x"]', 'after a backslash JSON wants one of " \\ / b f n r t uXXXX'],
  ['[▶"a\\u12g4"]', "after \\u JSON wants four hexadecimal digits"],
  ["[▶+1]", "this is not a number that JSON has"],
  ["{} ▶{}", "something follows the end of the document"],
])("refuses %j", (marked, message) => {
  const offset = marked.indexOf("▶");
  expect(problems(marked.replace("▶", ""))).toMatchObject([{ offset, message }]);
});

it("lists all duplicate keys", () => {
  expect(problems('{"a": 1, "b": {"c": 1, "\\u0063": 2}, "a": 3}')).toEqual([
    { offset: 23, message: 'duplicate key "c"', hint: "Remove one of them." },
    { offset: 37, message: 'duplicate key "a"', hint: "Remove one of them." },
  ]);
});

it("refuses deep nesting without a stack overflow", () => {
  expect(problems("[".repeat(1_000_000))).toEqual([
    { offset: 200, message: "nested deeper than 200 levels" },
  ]);
  expect(problems("[".repeat(200) + "]".repeat(200))).toEqual([]);
});

describe("compared with JSON.parse", () => {
  it("gives the same values, __proto__ included", () => {
    expect(JSON.stringify(parseJson('{"__proto__": {"x": 1}}'))).toBe('{"__proto__":{"x":1}}');
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), fc.constantFrom(0, 2), (json, indent) => {
        const expected: unknown = JSON.parse(json);
        expect(parseJson(JSON.stringify(expected, undefined, indent))).toEqual(expected);
      }),
    );
  });

  it("accepts and refuses the same texts", () => {
    const texts = '{ } [ ] , : "a" "b" "\\u0041" "\\q" 1 -0.5e3 01 true nul . - e 1e \u2028'.split(" ");
    const part = fc.constantFrom(...texts, " ", "\n", "\t", "\u00a0", "\ufeff", "\f", "//", "/**/");
    fc.assert(
      fc.property(fc.array(part, { maxLength: 9 }), (parts) => {
        const text = parts.join("");
        const found = problems(text);
        if (!found.some(({ message }) => message.startsWith("duplicate")))
          expect(found.length === 0).toBe(accepts(text));
      }),
      { numRuns: 10_000 },
    );
  });
});

function accepts(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

it("finds the place of every value and key", () => {
  const text = '{"a": [1, {"b c": "x"}], "d": null}';
  const { value, locate } = jsonDocument(new SourceText("f", text));
  const at = (path: readonly (string | number)[], of: "key" | "value", inner?: string) =>
    text.slice((locate({ path, at: of, ...(inner === undefined ? {} : { text: inner }) })?.column ?? 0) - 1);
  expect(valueAt(value, ["a", 1, "b c"])).toBe("x");
  expect(at(["a", 1, "b c"], "value")).toMatch(/^"x"/);
  expect(at(["a", 1, "b c"], "value", "x")).toMatch(/^x"/);
  expect(at(["a", 1, "b c"], "key")).toMatch(/^"b c"/);
  expect(at(["a", 1], "key")).toMatch(/^\{"b c"/);
  expect(at(["a", 5, "z"], "value")).toMatch(/^\[1/);
  expect(at(["d", "none"], "key")).toMatch(/^null/);
  expect(at([], "value")).toBe(text);
});
