import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseStrictJson, repeatedKey } from "./read-json.ts";

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
