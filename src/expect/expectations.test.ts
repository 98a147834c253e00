import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../base/json.ts";
import type { JsonExpectation, TextExpectation } from "../model/step.ts";
import { expanderOf } from "../templates/expand.ts";
import { resolveIn, type Scope } from "../templates/template.ts";
import type { Check } from "../model/event.ts";
import { checkJson, checkText, expandTextExpectation } from "./expectations.ts";

function onlyText(expectation: TextExpectation, text: string): Check {
  const [check, ...others] = checkText("stdout", expectation, text);
  if (check === undefined || others.length > 0) throw new Error("not one check");
  return check;
}

describe("equals", () => {
  it.each([
    ["a", "a"],
    ["a\n", "a"],
    ["a", "a\r\n\n"],
    ["a\nb\n\n", "a\nb"],
  ])("%j is as good as %j", (equals, text) => {
    expect(onlyText({ equals }, text).passed).toBe(true);
  });

  it.each([
    ["a", "A"],
    ["a", "ab"],
    ["", "a"],
    ["a", ""],
    ["a\nb", "a\n\nb"],
  ])("%j is not %j", (equals, text) => {
    expect(onlyText({ equals }, text).passed).toBe(false);
  });

  it("is one check, with both sides", () => {
    expect(onlyText({ equals: "a\n" }, "a")).toEqual({
      name: "stdout equals",
      passed: true,
      expected: "a",
      actual: "a",
      message: "it is as expected",
    });
    expect(onlyText({ equals: "one" }, "two\n")).toEqual({
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
    expect(onlyText({ equals }, text).message).toBe(message);
  });

  it("shows both sides of long texts around the difference", () => {
    const words = "word ".repeat(20_000);
    const { expected, actual } = onlyText({ equals: `${words}RIGHT ${words}` }, `${words}WRONG ${words}`);
    expect(expected).toMatch(/^… ?(word )+RIGHT (word )+…$/);
    expect(actual).toMatch(/^… ?(word )+WRONG (word )+…$/);
    expect(JSON.stringify(actual).length).toBeLessThan(1100);
  });
});

describe("contains", () => {
  it.each([
    ["b", true, 'it contains "b"'],
    ["x", false, 'it does not contain "x"'],
    ["B", false, 'it does not contain "B", only in another case'],
  ])("%j in a text: %j", (wanted, passed, message) => {
    const check = { name: "stdout contains", passed, expected: wanted, actual: "abc", message };
    expect(onlyText({ contains: [wanted] }, "abc")).toEqual(check);
  });

  it("finds nothing in the empty text, and the empty text in no other", () => {
    expect(onlyText({ contains: ["a"] }, "").message).toBe('it is empty, expected it to contain "a"');
    expect(onlyText({ contains: [""] }, "").passed).toBe(true);
    expect(onlyText({ contains: [""] }, "a")).toMatchObject({
      passed: false,
      message: "it is not empty, expected nothing",
    });
  });

  it("shows a long text around what was found, or its beginning, and no word in half", () => {
    const words = "word ".repeat(1000);
    expect(onlyText({ contains: ["HERE"] }, `${words}HERE ${words}`).actual).toMatch(
      /^… ?(word )+HERE (word )+…$/,
    );
    expect(onlyText({ contains: ["HERE"] }, `start ${words}`).actual).toMatch(/^start (word )+…$/);
    expect(onlyText({ contains: ["HERE"] }, `${words}here ${words}`).actual).toContain("here");
    const endless = onlyText({ contains: ["HERE"] }, "x".repeat(5000)).actual;
    expect(endless).toBe(`${"x".repeat(1000)}…`);
  });
});

describe("matches", () => {
  it.each([
    [String.raw`\d/\d$`, true, String.raw`it matches "\\d/\\d$"`],
    ["^3", false, 'it does not match "^3"'],
  ])("%s in a text: %j", (pattern, passed, message) => {
    const text = "ready: 3/3";
    const check = { name: "stdout matches", passed, expected: pattern, actual: text, message };
    expect(onlyText({ matches: [pattern] }, text)).toEqual(check);
    expect(onlyText({ matches: ["a"] }, "").message).toBe('it is empty and does not match "a"');
  });

  it("refuses what is not a pattern", () => {
    expect(() => checkText("stdout", { matches: ["(?=a)"] }, "a")).toThrow("is not a valid RE2 pattern");
  });

  it("does not hang", () => {
    expect(onlyText({ matches: ["(a+)+$"] }, `${"a".repeat(100_000)}!`).passed).toBe(false);
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
    const check = onlyText({ json }, "a: 1");
    expect(check).toMatchObject({ name: "stdout json", passed: false, expected: "JSON", actual: "a: 1" });
    expect(check.message).toMatch(/^it is not JSON: Unexpected token .[^"]*$/);
    expect(onlyText({ json }, " \n").message).toBe("it is not JSON: it is empty");
  });

  it("without places is a check that the text is JSON", () => {
    expect(onlyText({ json: [] }, "null")).toMatchObject({ passed: true, message: "it is JSON" });
    expect(onlyText({ json: [] }, "nil")).toMatchObject({ passed: false });
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

const value: JsonObject = {
  name: "web",
  ready: true,
  replicas: 3,
  nothing: null,
  labels: { app: "web", tier: "front", "a/b": { c: [1, 2] } },
  items: [
    { id: 1, name: "a", at: "10:00", meta: { at: 1, by: "x" } },
    { id: 2, name: "b", at: "11:00", meta: { at: 2, by: "y" } },
  ],
  tags: ["x", "y"],
  empty: [],
};

function only(expectation: JsonExpectation, from: Json = value): Check {
  const [check, ...others] = checkJson("json", [expectation], from);
  if (check === undefined || others.length > 0) throw new Error("not one check");
  return check;
}

/** Whether it holds and what is said of it. */
function told(expectation: JsonExpectation, from?: Json): readonly [boolean, string] {
  const { passed, message } = only(expectation, from);
  return [passed, message];
}

describe("a place", () => {
  it("must exist when nothing else is expected", () => {
    expect(only({ path: "$.name" })).toEqual({
      name: "json $.name exists",
      passed: true,
      expected: true,
      actual: true,
      message: '$.name is there: "web"',
    });
    expect(told({ path: "nothing" })).toEqual([true, "$.nothing is there: null"]);
    expect(told({ path: "$.other" })).toEqual([false, "$.other leads to nothing, expected something there"]);
    expect(told({ path: "$.empty[*]" })[0]).toBe(false);
    expect(told({ path: "$.tags[*]", exists: true })).toEqual([true, '$.tags[*] is there: ["x","y"]']);
  });

  it("must not exist when that is expected", () => {
    expect(told({ path: "$.other", exists: false })).toEqual([true, "$.other leads to nothing"]);
    expect(told({ path: "$.empty[*]", exists: false })[0]).toBe(true);
    expect(told({ path: "$.nothing", exists: false })).toEqual([
      false,
      "$.nothing is there: null, expected nothing there",
    ]);
  });

  it("is refused when its path is none", () => {
    expect(() => only({ path: "$.[" })).toThrow("is not a valid JSON path");
  });
});

describe("equals", () => {
  it.each<[string, Json]>([
    ["$.name", "web"],
    ["$.nothing", null],
    ["$.labels", { tier: "front", "a/b": { c: [1, 2] }, app: "web" }],
    ["$.items[-1].id", 2],
    ["$.items[*].name", ["a", "b"]],
    ["$.items[?@.id > 1].name", ["b"]],
    ["$.items[?@.id > 5].name", []],
  ])("%s is %j", (path, equals) => {
    expect(told({ path, equals })).toEqual([true, `${path} is as expected`]);
  });

  it.each<[string, Json, string]>([
    ["$.name", "db", '$.name is "web", expected "db"'],
    ["$.other", null, "$.other leads to nothing, expected null"],
    ["$.tags", ["y", "x"], '$.tags[0] is "x", expected "y"'],
    [
      "$.labels",
      { app: "web", tier: "front", "a/b": { c: [1, 3] } },
      '$.labels["a/b"].c[1] is 2, expected 3',
    ],
    ["$.items[*].name", ["a", "c"], '[1] of $.items[*].name is "b", expected "c"'],
    ["$.items[*].name", "a", '$.items[*].name is ["a","b"], expected "a"'],
  ])("%s is not %j", (path, equals, message) => {
    expect(told({ path, equals })).toEqual([false, message]);
  });

  it("shows both sides, cut when they are large", () => {
    expect(only({ path: "$.tags", equals: [1] })).toMatchObject({
      name: "json $.tags equals",
      expected: [1],
      actual: ["x", "y"],
    });
    expect(only({ path: "$.other", equals: 1 })).toMatchObject({ expected: 1, actual: { name: "web" } });
    const large = only({ path: "$", equals: "y".repeat(5000) }, Array(5000).fill(1));
    expect(large.actual).toMatch(/^\[1,1,.*…$/);
    expect(JSON.stringify(large.actual).length).toBeLessThan(1100);
    expect(JSON.stringify(large.expected).length).toBeLessThan(1100);
  });
});

describe("loose", () => {
  it.each<[Json, Json, boolean]>([
    [5, "5", true],
    ["5", 5, true],
    [true, "true", true],
    [5, "6", false],
    [{ a: 5 }, { a: "5" }, false],
    [[5], "5", false],
  ])("%j equals %j: %j", (actual, equals, passed) => {
    expect(only({ path: "$", equals, loose: true }, actual).passed).toBe(passed);
  });
});

describe("contains", () => {
  it.each<[string, Json]>([
    ["$.name", "eb"],
    ["$.tags", "y"],
    ["$.tags", ["y", "x"]],
    ["$.items", { name: "b" }],
    ["$.items", [{ id: 2 }, { id: 1 }]],
    ["$.labels", { tier: "front" }],
    ["$.labels", {}],
  ])("%s contains %j", (path, contains) => {
    expect(told({ path, contains })[0]).toBe(true);
  });

  it.each<[string, Json, string]>([
    ["$.name", "WEB", '$.name is "web", which does not contain "WEB"'],
    ["$.name", "", '$.name is "web", which does not contain ""'],
    ["$.replicas", "3", '$.replicas is 3, expected "3"'],
    ["$.tags", "z", 'no entry of $.tags (2 in all) contains "z"'],
    ["$.tags", ["x", "z"], 'no entry of $.tags (2 in all) contains "z"'],
    ["$.tags", [], "no entry of $.tags (2 in all) contains []"],
    ["$.empty", "x", '$.empty has no entries, expected one that contains "x"'],
    ["$.items", { name: "b", id: 1 }, 'no entry of $.items (2 in all) contains {"name":"b","id":1}'],
    ["$.labels", { zone: "x" }, "$.labels.zone is missing"],
    ["$.other", "x", '$.other leads to nothing, expected "x"'],
  ])("%s does not contain %j", (path, contains, message) => {
    expect(told({ path, contains })).toEqual([false, message]);
  });
});

describe("the number of places", () => {
  it.each<[string, number, boolean, string]>([
    ["$.items[*]", 2, true, "$.items[*] leads to 2 places"],
    ["$.items", 2, false, "$.items leads to 1 place, expected 2"],
    ["$.empty[*]", 0, true, "$.empty[*] leads to 0 places"],
  ])("of %s with count %d: %j", (path, count, passed, message) => {
    expect(told({ path, count })).toEqual([passed, message]);
  });
});

describe("matches", () => {
  it("looks at texts, at every one of several", () => {
    expect(only({ path: "$.name", matches: "^w" })).toEqual({
      name: "json $.name matches",
      passed: true,
      expected: "^w",
      actual: "web",
      message: '$.name is a text that matches "^w"',
    });
    expect(told({ path: "$.name", matches: "^b" })).toEqual([false, '$.name: "web" does not match "^b"']);
    expect(told({ path: "$.replicas", matches: "3" })).toEqual([false, "$.replicas: 3 is not a string"]);
    expect(told({ path: "$.items[*].name", matches: "^[ab]$" })[0]).toBe(true);
    expect(told({ path: "$.items[*].name", matches: "a" })).toEqual([
      false,
      '$.items[*].name: "b" does not match "a"',
    ]);
    expect(told({ path: "$.empty[*]", matches: "a" })).toEqual([
      false,
      '$.empty[*] leads to nothing, expected it to be a text that matches "a"',
    ]);
  });
});

describe("type", () => {
  it.each([
    ["$.name", "string"],
    ["$.replicas", "number"],
    ["$.ready", "boolean"],
    ["$.tags", "array"],
    ["$.labels", "object"],
    ["$.nothing", "null"],
  ] as const)("%s is of type %s and of no other", (path, type) => {
    expect(told({ path, type })).toEqual([true, `${path} is of type ${type}`]);
    const types = ["string", "number", "boolean", "array", "object", "null"] as const;
    for (const other of types.filter((each) => each !== type)) {
      expect(only({ path, type: other }).passed, other).toBe(false);
    }
  });

  it("tells what is there instead", () => {
    expect(told({ path: "$.tags", type: "object" })).toEqual([
      false,
      '$.tags: ["x","y"] is of type array, expected object',
    ]);
    expect(told({ path: "$.items[*].none", type: "null" })[0]).toBe(false);
  });
});

describe("what is there instead", () => {
  it.each<[JsonExpectation, Json]>([
    [{ path: "$.labels.zone" }, { app: "web", tier: "front", "a/b": { c: [1, 2] } }],
    [
      { path: "$.labels.zone.name", equals: "x" },
      { app: "web", tier: "front", "a/b": { c: [1, 2] } },
    ],
    [{ path: "$.name.first", matches: "x" }, "web"],
    [{ path: "$.items[5].id", type: "number" }, value["items"] ?? null],
    [{ path: "$.items[*].none", type: "number" }, value["items"] ?? null],
    [{ path: "$.tags", count: 2 }, ["x", "y"]],
    [{ path: "$.tags[*]", count: 3 }, ["x", "y"]],
    [{ path: "$.none", count: 3 }, value],
  ])("of %j is shown, as far as the way leads", (expectation, actual) => {
    expect(only(expectation)).toMatchObject({ passed: false, actual });
  });

  it("is the document, with its keys, where nothing of the way is there", () => {
    const document = {
      title: "t".repeat(500),
      list: Array(300).fill(1),
      object: { text: "x".repeat(100) },
      size: 3,
    };
    expect(only({ path: "$.titel", equals: "x" }, document).actual).toEqual({
      title: "a text of 500 characters",
      list: "a list of 300",
      object: "an object of 1",
      size: 3,
    });
    const wide = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`k${index}`, "v".repeat(20)]));
    const { actual } = only({ path: "$.none" }, wide);
    expect(Object.keys(actual ?? {})).toHaveLength(13);
    expect(actual).toMatchObject({ k11: "v".repeat(20), "…": "28 more" });
  });
});

describe("ignorePaths", () => {
  const expected = [
    { id: 1, name: "a", meta: { by: "x" } },
    { id: 2, name: "b", meta: { by: "y" }, at: "never" },
  ];

  it("are left out on both sides of equals", () => {
    const ignorePaths = ["$[*].at", "$[*].meta.at"];
    expect(only({ path: "$.items", equals: expected }).passed).toBe(false);
    expect(only({ path: "$.items", equals: expected, ignorePaths: ["$[*].at"] }).passed).toBe(false);
    expect(only({ path: "$.items", equals: expected, ignorePaths }).passed).toBe(true);
    expect(only({ path: "$.items", equals: expected, ignorePaths: ["$..at"] }).passed).toBe(true);
    expect(only({ path: "$.items", equals: expected, ignorePaths: ["[*].at", "[*].meta"] }).passed).toBe(
      true,
    );
    expect(told({ path: "$.items", equals: [expected[0] ?? null, { id: 3 }], ignorePaths })).toEqual([
      false,
      "$.items[1].id is 2, expected 3",
    ]);
  });

  it("leave the value itself where it is, and are refused when they are none", () => {
    expect(only({ path: "$.name", equals: "db", ignorePaths: ["$"] }).passed).toBe(false);
    expect(() => only({ path: "$.name", equals: "web", ignorePaths: ["$["] })).toThrow(
      "is not a valid JSON path",
    );
  });
});

const scope: Scope = new Map([["env", resolveIn({ A: "x", N: "5", EMPTY: "" })]]);
const expander = expanderOf(scope);

it("replaces templates in every part, and nothing else", () => {
  const partsOf = (x: string, n: Json): JsonExpectation => ({
    path: `$.${x}`,
    exists: true,
    equals: { a: x, n },
    contains: [x, { b: 1 }],
    matches: `^${x}$`,
    ignorePaths: [`$.${x}.at`],
    loose: true,
  });
  const textOf = (x: string, n: Json): TextExpectation => ({
    equals: x,
    contains: [`a${x}`],
    matches: [`b${x}`, "a{2}"],
    json: [partsOf(x, n), { path: "$" }],
  });
  expect(expandTextExpectation(textOf("{env.A}", "{env.N | json}"), expander)).toStrictEqual(textOf("x", 5));
  expect(expandTextExpectation({}, expander)).toStrictEqual({});
  const containing = (contains: Json): TextExpectation => ({ json: [{ path: "$", contains }] });
  expect(expandTextExpectation(containing("{env.A}"), expander)).toStrictEqual(containing("x"));
  for (const contains of ["{env.EMPTY}", { a: ["b", "{env.EMPTY}"] }])
    expect(() => expandTextExpectation(containing(contains), expander)).toThrow("is empty");
});
