import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { structuredResult as structured, textResult as text } from "../../test/support/trial-events.ts";
import type { Json, JsonObject } from "../base/json.ts";
import { checkExpectedResult, numbersInText } from "./tool-result.ts";

/** An image, an error and a picture of a result that states nothing. */
const wordless: JsonObject = { content: [{ type: "image", data: "aGk=", mimeType: "image/png" }] };

function passes(expected: Json, result: JsonObject): boolean {
  return checkExpectedResult(expected, result).passed;
}

it.each<[Json, JsonObject, Json, string]>([
  ["HELLO", text("say hello, world"), "say hello, world", 'the text contains "HELLO"'],
  [8, text("5 + 3 = 8"), 8, "the last number in the text is 8, expected 8"],
  [8, structured({ result: 8 }, "9"), 8, "the number found is 8, expected 8"],
  [true, structured({ result: true }), true, "the result equals what was expected"],
  [null, structured({ result: null }), null, "the result equals what was expected"],
  ["", wordless, "", "the text is empty"],
])("%j is in %j", (expected, result, actual, message) => {
  const check = checkExpectedResult(expected, result);
  expect(check).toMatchObject({ name: "result", passed: true, expected, actual });
  if (expected !== "") expect(check.message).toBe(message);
});

it.each<[Json, JsonObject, Json, string]>([
  ["bye", text("hello"), "hello", 'the text does not contain "bye"'],
  ["", text("hello"), "hello", "the text is not empty"],
  [7, text("5 + 3 = 8"), 8, "the last number in the text is 8, expected 7"],
  [7, text("none"), "none", "expected the number 7, found no number"],
  [
    [1],
    structured({ result: [2] }),
    { result: [2] },
    "the result does not equal what was expected: /result/0 is 2, expected 1",
  ],
  [
    true,
    text("yes"),
    "yes",
    "the result has no structured content and its text is not JSON: Unexpected token 'y'",
  ],
  [{ $contains: "x" }, text("hello"), "hello", 'the text does not contain "x"'],
])("%j is not in %j", (expected, result, actual, message) => {
  expect(checkExpectedResult(expected, result)).toMatchObject({
    name: "result",
    passed: false,
    expected,
    actual,
    message,
  });
});

it("has nothing to compare with in a text that is not JSON, which proves no absence", () => {
  expect(checkExpectedResult({ a: 1 }, text("a"))).toMatchObject({ passed: false, evidence: "pathMissing" });
  expect(checkExpectedResult({ a: 1 }, text('{"a":2}'))).not.toHaveProperty("evidence");
});

describe("the result of a resource or prompt", () => {
  const page: JsonObject = { contents: [{ uri: "a:page", text: "the sum is 5" }], isError: true };
  const greeting: JsonObject = { messages: [{ role: "user", content: { type: "text", text: "hello" } }] };

  it.each<[Json, JsonObject, "resource" | "prompt", boolean]>([
    ["sum is 5", page, "resource", true],
    ["sum is 6", page, "resource", false],
    [5, page, "resource", true],
    [{ contents: [{ uri: "a:page" }] }, page, "resource", true],
    [{ contents: [{ uri: "a:other" }] }, page, "resource", false],
    [{ $equals: page }, page, "resource", true],
    ["Hello", greeting, "prompt", true],
    [{ messages: [{ role: "user" }] }, greeting, "prompt", true],
    [{ messages: [{ role: "assistant" }] }, greeting, "prompt", false],
  ])("is compared by its text, or as a whole: %j in %j of a %s is %s", (expected, result, kind, passed) => {
    expect(checkExpectedResult(expected, result, kind).passed).toBe(passed);
  });
});

describe("an expected number", () => {
  it.each<[number, string]>([
    [8, "5 + 3 = 8"],
    [5, "The sum of 2 and 3 is 5."],
    [1234.5, "1,234.5"],
    [1000, "1e3"],
    [-4, "-4"],
    [0.3, "0.30004"],
    [200, "[1,200]"],
    [2, '{"items":[1,2]}'],
    [1234, '{"a":[1,200],"b\\",":"1,234"}'],
    [8, "8 is the 3rd, see v1.2.3 of 2024-01-15"],
  ])("%d is the last one in %j", (expected, said) => {
    expect(passes(expected, text(said))).toBe(true);
  });

  it.each<[number, string]>([
    [5, "5 + 3 = 8"],
    [8, "18"],
    [8, "-8"],
    [0.3, "0.3002"],
    [2, "v1.2"],
    [15, "2024-01-15"],
    [8, "eight"],
    [0, "0.00009"],
    [0, "-1e-9"],
    [234, "1\u202f234"],
    [31, "\u001b[31mred"],
  ])("%d is not the last one in %j", (expected, said) => {
    expect(passes(expected, text(said))).toBe(false);
  });

  it("is found in JSON that is nested or quoted without end", () => {
    const levels = 100_000;
    expect(passes(8, text(`${"[".repeat(levels)}8${"]".repeat(levels)}`))).toBe(true);
    expect(passes(8, text(JSON.stringify(['\\",'.repeat(300_000), 8])))).toBe(true);
  });

  it("is not looked for in an error", () => {
    const failed = { ...text("MCP error -32602: no such city"), isError: true };
    for (const expected of [-32_602, "MCP error", { $contains: "city" }, true, [1]])
      expect(checkExpectedResult(expected, failed)).toMatchObject({
        passed: false,
        actual: "MCP error -32602: no such city",
        message: "the call failed: MCP error -32602: no such city",
      });
    expect(passes(0, text("0"))).toBe(true);
  });

  it("is the structured value, whatever the text says", () => {
    expect(passes(8, structured({ result: 8 }, "call 4711"))).toBe(true);
    expect(passes(4711, structured({ result: 8 }, "call 4711"))).toBe(false);
    expect(passes(8, structured({ sum: 8 }, "call 4711"))).toBe(true);
    expect(passes(8, structured(8))).toBe(true);
    expect(checkExpectedResult(8, structured({ result: 8 }, "8"))).toMatchObject({
      message: "the number found is 8, expected 8",
    });
  });

  it("is looked for in the text where the structured content has several values or none", () => {
    expect(passes(8, structured({ a: 5, sum: 8 }))).toBe(true);
    expect(passes(8, structured({ result: "8" }))).toBe(true);
    expect(passes(8, { ...text("8"), structuredContent: null })).toBe(true);
  });
});

describe("an expected boolean, null or list", () => {
  it.each<[Json]>([[true], [false], [null], [[1, "a", { b: null }]], [[]]])(
    "%j equals the value of a result",
    (value) => {
      expect(passes(value, structured({ result: value }))).toBe(true);
      expect(passes(value, structured({ anything: value }, "told in words"))).toBe(true);
      expect(passes(value, text(JSON.stringify(value)))).toBe(true);
      expect(passes(value, text(` ${JSON.stringify(value)}\n`))).toBe(true);
    },
  );

  it.each<[Json, JsonObject]>([
    [true, structured({ result: false }, "true")],
    [true, structured({ result: "true" })],
    [true, structured({ a: true, b: true })],
    [true, text("truely")],
    [null, structured({})],
    [null, text("")],
    [[1, 2], structured({ result: [2, 1] })],
    [[1, 2], structured({ result: [1, 2, 3] })],
    [[{ a: 1 }], text('[{"a":1,"b":2}]')],
  ])("%j does not equal %j", (expected, result) => {
    expect(passes(expected, result)).toBe(false);
  });
});

describe("an expected object", () => {
  const weather = { city: "Oslo", now: { temp: -4, wind: 7 }, days: [{ max: 1, min: -5 }] };

  it.each<[Json]>([
    [{ city: "Oslo" }],
    [{ now: { wind: 7 } }],
    [{ days: [{ max: 1 }] }],
    [{ now: { wind: 7, temp: -4 }, city: "Oslo" }],
    [{}],
  ])("%j is contained in the value", (expected) => {
    expect(passes(expected, structured(weather, "in words"))).toBe(true);
    expect(passes(expected, structured({ result: weather }))).toBe(true);
    expect(passes(expected, text(JSON.stringify(weather)))).toBe(true);
  });

  it.each<[Json]>([[{ city: "Rome" }], [{ days: [] }], [{ now: {}, then: 1 }], [{ city: { name: "Oslo" } }]])(
    "%j is not",
    (expected) => {
      expect(passes(expected, structured(weather))).toBe(false);
      expect(passes(expected, text(JSON.stringify(weather)))).toBe(false);
      expect(passes(expected, text("Oslo"))).toBe(false);
    },
  );

  it("with content, structuredContent or isError may be the whole result", () => {
    const result = structured({ sum: 8 }, "8");
    expect(passes({ content: [{ type: "text", text: "8" }] }, result)).toBe(true);
    expect(passes({ content: [{ text: "8" }], structuredContent: { sum: 8 } }, result)).toBe(true);
    expect(passes({ isError: true }, { ...text("no"), isError: true })).toBe(true);
    expect(passes({ content: [] }, result)).toBe(false);
    expect(checkExpectedResult({ content: [{ type: "text", text: "9" }] }, result)).toMatchObject({
      passed: false,
      actual: result,
      message: 'the result does not contain what was expected: /content/0/text is "8", expected "9"',
    });
  });

  it("with a member called content may also be the value", () => {
    expect(passes({ content: ["a"] }, structured({ content: ["a"], more: 1 }))).toBe(true);
    expect(passes({ content: "a" }, structured({ content: "a" }))).toBe(true);
  });
});

describe("$equals", () => {
  it.each<[Json, JsonObject]>([
    [{ a: 1 }, structured({ a: 1 })],
    [{ a: 1 }, text('{"a":1}')],
    [8, structured({ result: 8 })],
    [8, text("8")],
    ["hello", text("hello")],
    ["hello", structured({ result: "hello" }, "in words")],
    ["", wordless],
    [{ $equals: 1 }, text('{"$equals":1}')],
  ])("%j is exactly the value of %j", (value, result) => {
    expect(passes({ $equals: value }, result)).toBe(true);
  });

  it.each<[Json, JsonObject]>([
    [{ a: 1 }, structured({ a: 1, b: 2 })],
    [8, text("5 + 3 = 8")],
    ["hello", text("Hello")],
    ["hello", text("hello, world")],
  ])("%j is not all of %j", (value, result) => {
    expect(passes({ $equals: value }, result)).toBe(false);
  });

  it("beside other keys is a key like them", () => {
    expect(passes({ $equals: 1, a: 2 }, text('{"$equals":1,"a":2}'))).toBe(true);
    expect(passes({ $equals: 1, a: 2 }, text("1"))).toBe(false);
  });
});

describe("$contains", () => {
  it.each<[Json, JsonObject]>([
    ["ELL", text("hello")],
    ["b", structured({ result: ["a", "b"] }, "in words")],
    [{ id: 2 }, structured({ items: [{ id: 1 }, { id: 2, name: "x" }] })],
    [2, text("[1,2]")],
    [null, text("[null]")],
    [{ a: 1 }, text('{"a":1,"b":2}')],
  ])("finds %j in %j", (value, result) => {
    expect(passes({ $contains: value }, result)).toBe(true);
  });

  it.each<[Json, JsonObject]>([
    ["x", text("hello")],
    ["c", structured({ result: ["a", "b"] }, "in words")],
    [{ id: 3 }, structured({ items: [{ id: 1 }] })],
    [3, text("[1,2]")],
    [3, text("3 of them")],
  ])("does not find %j in %j", (value, result) => {
    expect(passes({ $contains: value }, result)).toBe(false);
  });
});

describe("a structure that is not as expected", () => {
  const entries = Array.from({ length: 50 }, (_, id) => ({ id }));

  it.each<[Json, JsonObject, string]>([
    [{ items: [{ id: 0 }] }, structured({ items: entries }), "/items has 50 entries, expected 1"],
    [[], structured({ items: [1] }), "/items has 1 entry, expected 0"],
    [{ city: "Oslo" }, structured({ place: { city: "Rome" } }), '/place/city is "Rome", expected "Oslo"'],
    [{ price: 1 }, structured({ city: "Rome" }), "/price is missing"],
    [true, text("1"), "the value is 1, expected true"],
    [{ content: [] }, structured({ sum: 8 }), "/content has 1 entry, expected 0"],
    [{ $equals: { a: 1 } }, structured({ a: 1, b: 2 }), "/b is not expected"],
    [{ $equals: "a" }, structured({ result: "b" }, "in words"), '/result is "b", expected "a"'],
    [
      { $contains: { id: 3 } },
      structured({ items: [{ id: 1 }] }),
      'no entry of /items (1 in all) contains {"id":3}',
    ],
    [{ $contains: 3 }, text("[]"), "the value has no entries"],
  ])("is told by its first difference: %j", (expected, result, difference) => {
    const { passed, message } = checkExpectedResult(expected, result);
    expect(passed).toBe(false);
    expect(message).toMatch(/^the result does not (contain|equal) what was expected: /);
    expect(message.slice(message.indexOf(": ") + 2)).toBe(difference);
  });
});

describe("numbersInText", () => {
  it.each<[string, number[]]>([
    ["5 + 3 = 8", [5, 3, 8]],
    ["The sum of 2 and 3 is 5.", [2, 3, 5]],
    ["[8]", [8]],
    ['"8"', [8]],
    ["结果是8。", [8]],
    ["-4", [-4]],
    ["−4", [-4]],
    ["－4", [-4]],
    ["5 - -3 = 8", [5, -3, 8]],
    ["1\u202f234,5", [1234, 5]],
    ["1\u00a0234 and 5\u00a06", [1234, 5, 6]],
    ["3\u200b4", [34]],
    ["3\u00ad4", [34]],
    ["3\u00854", [34]],
    ["\u001b[31mred\u001b[0m", []],
    ["\u001b[31m5\u001b[0m", [5]],
    ["\u009b31m5", [5]],
    ["\u001b]8;;http://127.0.0.1/31\u001b\\5\u001b]8;;\u001b\\", [5]],
    ["+8", [8]],
    ["1,234.5", [1234.5]],
    ["1,234,567", [1_234_567]],
    ["1,2345", [1, 2345]],
    ["1000,200", [1000, 200]],
    ["1, 2, 3", [1, 2, 3]],
    [".5 or -.5", [0.5, -0.5]],
    ["1e3", [1000]],
    ["1.5E-3", [0.0015]],
    ["1e999", []],
    ["$3.50, 4 € and 50%", [3.5, 4, 50]],
    ["issue #12", [12]],
    ["", []],
  ])("finds those in %j", (text, numbers) => {
    expect(numbersInText(text)).toEqual(numbers);
  });

  it.each(
    `v1.2.3 10.0.0.1 2024-01-15 10:30 1/2/2024 8/10 5-3 3٤ ３4 5½ 3.٤ 3·5 gpt-4 utf8 8_000 0x1F 550e8400-e29b-41d4-a716-446655440000 https://example.com/items/8`.split(
      " ",
    ),
  )("finds none in %j", (text) => {
    expect(numbersInText(text)).toEqual([]);
  });

  it.each<[string, number[]]>([
    ["took 5ms", [5]],
    ["1,234.5kg", [1234.5]],
    ["22C", [22]],
    ["8 took 5ms", [8]],
    ["8 is the 3rd result of v1.2.3 on 2024-01-15", [8]],
  ])("counts a unit that touches its number only without others: %j", (text, numbers) => {
    expect(numbersInText(text)).toEqual(numbers);
  });

  it("finds any number as JavaScript writes it, between words", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(numbersInText(`The result is ${value}.`)).toEqual([Number(String(value))]);
        expect(numbersInText(`The result is ${value}, says the tool`)).toEqual([Number(String(value))]);
      }),
    );
  });

  it("finds whole numbers with their thousands set apart", () => {
    fc.assert(
      fc.property(fc.integer(), (value) => {
        expect(numbersInText(`total ${value.toLocaleString("en")} items`)).toEqual([value]);
      }),
    );
  });

  it("gets to an end with numbers of megabytes", () => {
    const digits = "1".repeat(1_000_000);
    expect(numbersInText(`${digits} 0.${digits} 1e${digits} 8`)).toEqual([8]);
    expect(numbersInText(`1${",111".repeat(300_000)} 8`).at(-1)).toBe(8);
  });

  it.each(["1", "1,", "1.", "1e", "1-", "1,111", ".", "-", "1,111,"])(
    "takes time in proportion to many %j",
    (piece) => {
      numbersInText(piece.repeat(Math.ceil(300_000 / piece.length)));
    },
  );
});
