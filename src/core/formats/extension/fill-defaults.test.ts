import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../json.ts";
import { fillDefaults } from "./protocol.ts";

const schema: JsonObject = {
  type: "object",
  default: { never: 1 },
  properties: {
    a: { type: "number", default: 1 },
    nothing: { default: null },
    deep: { type: "object", default: {}, properties: { b: { default: [2] } } },
    given: { type: "object", properties: { c: { default: 3 } } },
    list: { items: { properties: { d: { default: 4 } } } },
    pair: { prefixItems: [{}, { properties: { e: { default: 5 } } }] },
    other: { $ref: "#/$defs/other" },
    $ref: { type: "string" },
  },
  anyOf: [{ properties: { f: { default: 6 } } }],
  $defs: { other: { default: { g: {} }, properties: { g: { properties: { h: { default: 7 } } } } } },
};

describe("defaults", () => {
  it("are filled in where members of properties are absent", () => {
    expect(fillDefaults(schema, { given: {}, list: [{}, { d: 0 }, 8], pair: [{}, {}] })).toEqual({
      a: 1,
      nothing: null,
      deep: { b: [2] },
      given: { c: 3 },
      list: [{ d: 4 }, { d: 0 }, 8],
      pair: [{}, { e: 5 }],
      other: { g: { h: 7 } },
    });
  });

  it("leave what is there, null and what is of another type included", () => {
    const args = { a: null, nothing: 0, deep: "text", given: [], list: {}, other: false, more: { x: 1 } };
    expect(fillDefaults(schema, args)).toEqual(args);
  });

  it("come to an end where a schema refers to itself or to nothing", () => {
    const self = { properties: { next: { $ref: "#", default: {} }, lost: { $ref: "#/none" } } };
    expect(fillDefaults(self, {})).toEqual({ next: {} });
    expect(fillDefaults(self, { next: { next: {} } })).toEqual({ next: { next: { next: {} } } });
    expect(fillDefaults({ $ref: "#" }, { a: 1 })).toEqual({ a: 1 });
  });

  it("never overwrite anything, and filling twice changes nothing", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom(...Object.keys(schema["properties"] ?? {})), fc.jsonValue()),
        (args) => {
          const given = args as JsonObject;
          const filled = fillDefaults(schema, given);
          expect(fillDefaults(schema, filled)).toEqual(filled);
          expect(Object.keys(filled)).toEqual(expect.arrayContaining(Object.keys(given)));
          for (const [key, value] of Object.entries(given)) {
            if (typeof value !== "object" || value === null) expect(filled[key]).toBe(value);
          }
        },
      ),
    );
  });

  it("keep members of any name", () => {
    const args = JSON.parse('{"__proto__": {"a": 1}, "toString": 2}') as JsonObject;
    expect(JSON.stringify(fillDefaults({ properties: { constructor: { default: 3 } } }, args))).toBe(
      '{"__proto__":{"a":1},"toString":2,"constructor":3}',
    );
  });
});
