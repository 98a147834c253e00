import { Ajv2020 } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import type { Json, JsonObject } from "../base/json.ts";
import { fitsPlainly } from "./plain-schema.ts";

const schema: JsonObject = {
  $schema: "http://json-schema.org/draft-07/schema#",
  type: "object",
  properties: {
    name: { type: "string", description: "Name." },
    kind: { enum: ["a", "b"] },
    count: { type: "integer", minimum: 1, maximum: 9 },
    tags: { type: "array", items: { type: "string" } },
  },
  required: ["name"],
  additionalProperties: false,
};

it.each<readonly [JsonObject, boolean]>([
  [{ name: "x" }, true],
  [{ name: "x", kind: "a", count: 9, tags: ["t"] }, true],
  [{}, false],
  [{ name: 1 }, false],
  [{ name: "x", kind: "c" }, false],
  [{ name: "x", count: 0 }, false],
  [{ name: "x", count: 1.5 }, false],
  [{ name: "x", tags: [1] }, false],
  [{ name: "x", other: 1 }, false],
])("%j: %s", (value, fits) => {
  expect(fitsPlainly(schema, value)).toBe(fits);
});

it("leaves to the validator what has another keyword, dialect or type", () => {
  for (const part of [
    { format: "uri" },
    { $ref: "#" },
    { anyOf: [true] },
    { $schema: "urn:x" },
    { type: ["string"] },
    { items: [true] },
  ])
    expect(fitsPlainly(part as JsonObject, ["x"])).toBe(false);
});

it.each<JsonObject>([
  { title: 1 },
  { deprecated: "yes" },
  { examples: "x" },
  { type: "text" },
  { enum: [] },
  { minimum: "1" },
  { required: ["a", "a"] },
  { required: [1] },
  { additionalProperties: {} },
  { items: [true] },
  { properties: { absent: { type: "text" } } },
  { properties: { a: { $schema: "https://json-schema.org/draft/2020-12/schema" } } },
  { items: { pattern: "a" } },
  { $schema: "urn:x" },
])("leaves to the validator a schema that it refuses, or has to read: %j", (part) => {
  expect(fitsPlainly(part, { a: 1 })).toBe(false);
});

it("is never true for what the validator refuses", () => {
  const scalar = fc.constantFrom<Json>(null, true, 0, 1.5, 3, "", "a", "b");
  const value = fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 2 },
      scalar,
      fc.array(tie("value"), { maxLength: 2 }),
      fc.dictionary(fc.constantFrom("a", "b"), tie("value")),
    ),
  })).value;
  const types = fc.constantFrom("object", "array", "string", "number", "integer", "boolean", "null");
  const schemas = fc.letrec<{ schema: Json }>((tie) => ({
    schema: fc.record(
      {
        title: fc.oneof({ arbitrary: fc.constant("t"), weight: 9 }, scalar),
        type: fc.oneof({ arbitrary: types, weight: 9 }, scalar),
        enum: fc.array(scalar, { maxLength: 2 }),
        properties: fc.dictionary(fc.constantFrom("a", "b"), tie("schema"), { maxKeys: 2 }),
        required: fc.oneof({ arbitrary: fc.subarray(["a", "b"]), weight: 9 }, fc.constant(["a", "a"])),
        additionalProperties: fc.boolean(),
        items: fc.oneof({ maxDepth: 2 }, fc.boolean(), tie("schema")),
        minimum: fc.integer({ min: 0, max: 2 }),
        maximum: fc.integer({ min: 0, max: 2 }),
      },
      { requiredKeys: [] },
    ),
  })).schema;
  const validity = (each: Json, of: Json): unknown => {
    try {
      return new Ajv2020({ strict: false, ownProperties: true, logger: false }).compile(each as object)(of);
    } catch {
      return "refused";
    }
  };
  fc.assert(
    fc.property(schemas, value, (each, of) => {
      if (fitsPlainly(each, of)) expect(validity(each, of)).toBe(true);
    }),
    { numRuns: 300 },
  );
});
