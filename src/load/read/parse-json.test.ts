import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type JsonPosition, parseJson } from "./json-document.ts";
import { SyntaxProblems } from "./source-text.ts";

/** Problems as `OFFSET MESSAGE`; the offset is that of `▶` in the text, which is taken out first. */
function problems(text: string): readonly { offset: number; message: string; hint?: string }[] {
  try {
    parseJson(text);
    return [];
  } catch (error) {
    if (!(error instanceof SyntaxProblems)) throw error;
    return error.problems;
  }
}

it.each([
  ["▶", "the file is empty"],
  ["  \n▶", "the file is empty"],
  ['{▶// note\n"a": 1}', "a comment"],
  ["▶# note\n{}", "a comment"],
  ['{"a": 1 ▶/* x */}', "a comment"],
  ['{"a": 1▶,}', 'a comma before the closing "}"'],
  ["[1, 2▶,\n]", 'a comma before the closing "]"'],
  ["[▶,]", "expected a value"],
  ["{▶,}", "a comma without a value"],
  ["{▶a: 1}", "keys need double quotes"],
  ["{▶'a': 1}", "keys need double quotes"],
  ["[▶'a']", "strings need double quotes"],
  ['{"a" ▶1}', 'expected ":" after the key'],
  ['{"a": 1 ▶"b": 2}', 'expected "," or "}"'],
  ["[1 ▶2]", 'expected "," or "]"'],
  ["▶[1, [2]", 'the file ends, but this list is not closed with "]"'],
  ['▶{"a": {}', 'the file ends, but this object is not closed with "}"'],
  ["[1,▶", "the file ends too early"],
  ["{▶", "the file ends inside an object"],
  ['{"a":▶', "the file ends too early"],
  ['["abc▶', "the file ends inside a string"],
  ['["abc▶\n"]', "a string must end on the line that it begins on; write \\n for a line break"],
  ['["a▶\tb"]', "a control character in a string; write it as an escape such as \\t"],
  ['["a▶\\x"]', 'after a backslash JSON wants one of " \\ / b f n r t uXXXX'],
  ['["a▶\\u12g4"]', 'after a backslash JSON wants one of " \\ / b f n r t uXXXX'],
  ["[▶01]", "this is not a number that JSON has"],
  ["[▶+1]", "this is not a number that JSON has"],
  ["[▶.5]", "this is not a number that JSON has"],
  ["[▶0x10]", "this is not a number that JSON has"],
  ["[▶-]", "this is not a number that JSON has"],
  ["[▶NaN]", "expected a value, such as a string in double quotes, a number, true, false or null"],
  ["[▶True]", "expected a value, such as a string in double quotes, a number, true, false or null"],
  ["{} ▶{}", "something follows the end of the document"],
  ["[]▶]", "something follows the end of the document"],
])("refuses %j", (marked, message) => {
  const offset = marked.indexOf("▶");
  expect(problems(marked.replace("▶", ""))).toMatchObject([{ offset, message }]);
});

it("tells every key that is there twice", () => {
  const text = '{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}';
  expect(problems(text)).toEqual([
    { offset: 23, message: 'the key "c" is there twice', hint: "Remove one of them." },
    { offset: 32, message: 'the key "a" is there twice', hint: "Remove one of them." },
  ]);
});

it("refuses deep nesting without overflowing", () => {
  expect(problems("[".repeat(1_000_000))).toEqual([
    { offset: 200, message: "nested deeper than 200 levels" },
  ]);
  expect(problems("[".repeat(200) + "]".repeat(200))).toEqual([]);
});

describe("beside JSON.parse", () => {
  it("gives the same values", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), fc.constantFrom(0, 2), (json, indent) => {
        const expected: unknown = JSON.parse(json);
        expect(parseJson(json).value).toEqual(expected);
        expect(parseJson(JSON.stringify(expected, undefined, indent)).value).toEqual(expected);
      }),
    );
  });

  it("accepts and refuses the same texts", () => {
    const part = fc.constantFrom(
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      '"a"',
      '"b"',
      '"\\u0041"',
      '"\\q"',
      "1",
      "-0.5e3",
      "01",
      "true",
      "nul",
      " ",
      "\n",
      "\t",
      "\u00a0",
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 9 }), (parts) => {
        const text = parts.join("");
        const mine = problems(text);
        const duplicate = mine.some((problem) => problem.message.includes("twice"));
        if (!duplicate) expect(mine.length === 0).toBe(accepts(text));
      }),
      { numRuns: 5000 },
    );
  });

  it("keeps __proto__ as a plain member", () => {
    const { value } = parseJson('{"__proto__": {"x": 1}}');
    expect(JSON.stringify(value)).toBe('{"__proto__":{"x":1}}');
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  });
});

it("knows where every value stands", () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 4 }), fc.constantFrom(0, 2), (json, indent) => {
      const text = JSON.stringify(JSON.parse(json), undefined, indent);
      const { value, position } = parseJson(text);
      checkPositions(text, value, position);
    }),
  );
});

function checkPositions(text: string, value: unknown, position: JsonPosition): void {
  const start = typeof position === "number" ? position : position.start;
  expect(text.slice(start).replaceAll(/\s/g, "")).toSatisfy((rest: string) =>
    rest.startsWith(JSON.stringify(value).replaceAll(/\s/g, "")),
  );
  if (typeof position === "number") return;
  if ("items" in position) {
    position.items.forEach((item, index) => checkPositions(text, (value as unknown[])[index], item));
    return;
  }
  for (const [key, member] of position.members) {
    expect(text.slice(member.key).startsWith(JSON.stringify(key))).toBe(true);
    checkPositions(text, (value as Record<string, unknown>)[key], member.value);
  }
}

function accepts(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
