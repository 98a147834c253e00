import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../base/json.ts";
import { fillDefaults, goDurationText, readInitializeResult, readOperationResult } from "./protocol.ts";

describe("readInitializeResult", () => {
  const base = { name: "e", version: "1", protocolVersion: "0.0.1" };

  it("gives the manifest", () => {
    const operations = {
      a: { description: "does a", params: { type: "object", properties: {} }, phases: ["verify", "setup"] },
      b: { params: { properties: { x: {} } } },
      c: { params: null },
    };
    expect(readInitializeResult({ ...base, description: "d", operations, more: 1 })).toEqual({
      ok: true,
      protocolVersion: "0.0.1",
      manifest: {
        name: "e",
        version: "1",
        description: "d",
        protocol: "json-rpc",
        operations: {
          a: {
            description: "does a",
            params: { type: "object", properties: {} },
            phases: ["setup", "verify"],
          },
          b: {
            params: { type: "object", properties: { x: {} } },
            phases: ["setup", "verify", "cleanup"],
          },
          c: { params: { type: "object" }, phases: ["setup", "verify", "cleanup"] },
        },
      },
    });
  });

  it.each<[Json, string]>([
    [[], "the result of initialize is not an object"],
    [{ name: "e", version: "1" }, "protocolVersion is missing, or is not a text"],
    [{ ...base, version: 1 }, "version is missing, or is not a text"],
    [{ name: "e", protocolVersion: "1" }, "version is missing, or is not a text"],
    [{ ...base, name: "" }, "name is missing, or is not a text"],
    [base, "operations is missing, or is not an object"],
    [{ ...base, operations: {} }, "operations is empty: the extension can do nothing"],
    [{ ...base, operations: { a: 1 } }, 'operations["a"] is not an object'],
    [
      { ...base, operations: { a: { params: { type: "array" } } } },
      'operations["a"].params must be a JSON Schema of type "object": arguments are an object',
    ],
    [
      { ...base, operations: { a: { params: true } } },
      'operations["a"].params must be a JSON Schema, an object',
    ],
    [
      { ...base, operations: { a: { phases: [] } } },
      'operations["a"].phases must be one or more of setup, verify, cleanup',
    ],
    [
      { ...base, operations: { a: { phases: "setup" } } },
      'operations["a"].phases must be a list of setup, verify, cleanup',
    ],
  ])("%j is refused", (value, message) => {
    expect(readInitializeResult(value)).toEqual({ ok: false, message });
  });
});

describe("readOperationResult", () => {
  it.each<[unknown, object]>([
    [{ success: true }, { success: true }],
    [
      { success: true, message: "m", outputs: { a: "1", b: { c: [null] } }, more: 1 },
      { success: true, message: "m", outputs: { a: "1", b: { c: [null] } } },
    ],
    [{ success: true, message: null, error: null, outputs: null }, { success: true }],
    [
      { success: true, error: "" },
      { success: true, error: "" },
    ],
  ])("%j is a result", (value, result) => {
    expect(readOperationResult(value)).toEqual({ ok: true, result });
  });

  it.each<[unknown, string]>([
    [undefined, "the result is not JSON: the result must be JSON, and undefined is not"],
    [null, "the result is null, not an object"],
    [[], "the result is a list, not an object"],
    ["ok", "the result is a text, not an object"],
    [{}, "success is missing; it must be true or false"],
    [{ success: 1 }, "success is a number; it must be true or false"],
    [{ success: true, message: 5 }, "message is a number, not a text"],
    [{ success: false, error: {} }, "error is an object, not a text"],
    [{ success: true, outputs: [] }, "outputs is a list, not an object"],
    [{ success: true, error: "no" }, "success is true, and yet there is an error"],
  ])("%j is none", (value, message) => {
    const read = readOperationResult(value);
    expect(read.ok).toBe(false);
    if (value !== undefined) expect(read).toEqual({ ok: false, message });
  });
});

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
});

describe("goDurationText", () => {
  it.each<[number, string]>([
    [90_000, "90s"],
    [1500, "1500ms"],
    [0.5, "500000ns"],
    [1e-9, "1ns"],
    [0, "0s"],
    [-5, "0s"],
  ])("%d ms is %j", (ms, text) => {
    expect(goDurationText(ms)).toBe(text);
  });
});
