import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonExcess, JsonMeter, mostMemory, parseStrictJson, previewJson, repeatedKey } from "./read-json.ts";

describe("parseStrictJson", () => {
  it("gives what JSON.parse gives", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value, undefined, 1);
        expect(parseStrictJson(text)).toEqual(JSON.parse(text));
      }),
    );
  });

  it.each([
    ['{"passed": false, "passed": true}', "passed"],
    ['{"p\\u0061ssed": false, "passed": true}', "passed"],
    ['{"a": {"a": [{"a": 1}]}, "b": "a", "a": 2}', "a"],
    ['[{"checks": [{"x": {"y": 1, "z": {}, "y": 1}}]}]', "y"],
    ['{"": 1, "": 1}', ""],
    ['{"__proto__": 1, "__proto__": 2}', "__proto__"],
    ['{"a\\"b": 1, "a\\"b": 2}', 'a"b'],
  ])("refuses %s", (text, key) => {
    const message = `duplicate key ${JSON.stringify(key)}`;
    expect(() => parseStrictJson(text)).toThrow(new SyntaxError(message));
  });

  it.each(["", "{", "{'a': 1}", '{"a": 1} // note', '{"a": 1}{"b": 1}'])(
    "refuses %j, which is no JSON",
    (text) => {
      expect(() => parseStrictJson(text)).toThrow(SyntaxError);
    },
  );

  it("follows any depth", () => {
    const depth = 100_000;
    const nested = (inner: string): string => `${'{"a":['.repeat(depth)}${inner}${"]}".repeat(depth)}`;
    expect(repeatedKey(nested("1"))).toBeUndefined();
    expect(repeatedKey(nested('{"b":1,"b":2}'))).toBe("b");
  });
});

it("is the beginning of the JSON, or all of a short one", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.integer({ min: 1, max: 60 }), (value, limit) => {
      const whole = JSON.stringify(value);
      expect(previewJson(value, limit)).toBe(
        whole.length > limit ? `${[...Array(limit).keys()].map((index) => whole[index]).join("")}…` : whole,
      );
    }),
  );
});

it("ends with values that are large or nested without end", () => {
  let deep: unknown = 1;
  for (let level = 0; level < 100_000; level += 1) deep = [{ deep }];
  expect(previewJson(deep, 10)).toBe('[{"deep":[…');
  expect(previewJson("x".repeat(10_000_000), 5)).toBe('"xxxx…');
});

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

it("measures any JSON, in pieces of any size, as it is nested", () => {
  fc.assert(
    fc.property(
      fc.jsonValue(),
      fc.integer({ min: 1, max: 7 }),
      fc.constantFrom(undefined, 2),
      (value, size, indent) => {
        const text = bytes(JSON.stringify(value, undefined, indent));
        const whole = new JsonMeter().push(text);
        expect(whole.deepest).toBe(depthOf(value));
        const pieces = new JsonMeter();
        for (let start = 0; start < text.length; start += size)
          pieces.push(text.subarray(start, start + size));
        expect([pieces.deepest, pieces.weight]).toEqual([whole.deepest, whole.weight]);
      },
    ),
  );
});

it("takes what stands in texts for nothing but text", () => {
  const text = String.raw`"[[{,\"[\\\",\\"`;
  expect(new JsonMeter().push(bytes(text))).toMatchObject({ deepest: 0, weight: text.length });
});

it("refuses what is nested too deeply and what would take too much memory, not a long text", () => {
  const levels = 400;
  const excess = (text: string): unknown => jsonExcess(bytes(text), { levels });
  expect(excess(`${"[".repeat(100_000)}${"]".repeat(100_000)}`)).toBe("deep");
  expect(excess(`[${"{},".repeat(mostMemory / 80)}0]`)).toBe("heavy");
  expect(excess(`"${"[".repeat(20_000_000)}"`)).toBeUndefined();
  expect(excess("[".repeat(500))).toBeUndefined();
});
