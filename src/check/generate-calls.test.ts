import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import * as fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import type { PlannedCall } from "../model/check.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import { generateCalls } from "./generate-calls.ts";

const validator = new SchemaValidator();
afterAll(() => validator[Symbol.asyncDispose]());

function generate(schema: Json): ReturnType<typeof generateCalls> {
  return generateCalls("tool", schema, validator.validate.bind(validator));
}

/** The arguments that are expected to be accepted, or refused. */
async function argumentsOf(
  properties: JsonObject,
  expects: PlannedCall["expects"] = "result",
  rest: JsonObject = { required: Object.keys(properties) },
): Promise<readonly JsonObject[]> {
  const calls = await generate({ type: "object", properties, additionalProperties: false, ...rest });
  return calls.filter((call) => call.expects === expects).map(({ args }) => args);
}

/** The first valid value of a required parameter with a schema. */
async function valueOf(schema: Json, rest: JsonObject = {}): Promise<Json | undefined> {
  const [first] = await argumentsOf({ value: schema }, "result", { required: ["value"], ...rest });
  return first?.["value"];
}

const lowest = fc.integer({ min: -50, max: 50 });
const size = fc.integer({ min: 0, max: 5 });

/** Schemas that some value fits, of the keywords that servers use. */
const { schema: satisfiable } = fc.letrec<{ schema: JsonObject }>((tie) => ({
  schema: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.record({ type: fc.constant("boolean") }),
    fc
      .tuple(fc.constantFrom("integer", "number"), lowest, size)
      .map(([type, minimum, more]) => ({ type, minimum, maximum: minimum + more })),
    fc
      .tuple(lowest, fc.integer({ min: 1, max: 9 }))
      .map(([minimum, multipleOf]) => ({ type: "integer", minimum, multipleOf })),
    fc.tuple(lowest, fc.integer({ min: 2, max: 9 })).map(([exclusiveMinimum, more]) => ({
      type: "number",
      exclusiveMinimum,
      exclusiveMaximum: exclusiveMinimum + more,
    })),
    fc
      .tuple(size, size)
      .map(([minLength, more]) => ({ type: "string", minLength, maxLength: minLength + more })),
    fc
      .constantFrom("date", "date-time", "email", "uri", "uuid", "ipv4", "hostname", "unknown")
      .map((format) => ({ type: "string", format })),
    fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 4 }).map((values) => ({ enum: values })),
    fc
      .jsonValue({ maxDepth: 1 })
      // Ajv calls these members of the objects that it compares.
      .filter((value) => !/"(?:valueOf|toString)":/.test(JSON.stringify(value)))
      .map((value) => ({ const: value as Json })),
    fc
      .tuple(tie("schema"), size, size)
      .map(([items, minItems, more]) => ({ type: "array", items, minItems, maxItems: minItems + more })),
    fc.tuple(tie("schema"), tie("schema")).map((anyOf) => ({ anyOf })),
    fc
      .tuple(fc.dictionary(fc.string({ minLength: 1 }), tie("schema"), { maxKeys: 3 }), fc.boolean())
      .map(([properties, isClosed]) => ({
        type: "object",
        properties,
        required: Object.keys(properties).slice(0, 2),
        ...(isClosed ? { additionalProperties: false } : {}),
      })),
  ),
}));

describe("generated calls", () => {
  it("are valid and invalid as they say, the same each time, and there is a valid one", async () => {
    const ajv = formats.default(new Ajv2020({ strict: false, logger: false, ownProperties: true }));
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(fc.string({ minLength: 1 }), satisfiable, { maxKeys: 4 }),
        fc.boolean(),
        async (properties, isClosed) => {
          const schema = {
            type: "object",
            properties,
            required: Object.keys(properties).slice(0, 2),
            ...(isClosed ? { additionalProperties: false } : {}),
          };
          const isValid = ajv.compile(schema);
          const generated = await generateCalls("tool", schema, async (_, args) =>
            isValid(args) ? { status: "valid" } : { status: "invalid", errors: [] },
          );
          expect(generated[0]?.expects).toBe("result");
          for (const { args, expects } of generated)
            expect({ args, valid: isValid(args) }).toEqual({ args, valid: expects === "result" });
          // In the thread that runs use, and again.
          expect(await generate(schema)).toEqual(generated);
        },
      ),
      { numRuns: 40 },
    );
  });

  it("are few and small, whatever stands in the place of a schema", async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue({ maxDepth: 4 }), async (schema) => {
        const calls = await generate(schema as Json);
        expect(calls.length).toBeLessThanOrEqual(14);
      }),
      { numRuns: 100 },
    );
  });

  it("come from what the schema says: examples, defaults, enums, formats", async () => {
    expect(
      await argumentsOf({
        city: { type: "string", examples: ["Oslo"] },
        unit: { type: "string", default: "km", enum: ["m", "km"] },
        mode: { type: "string", enum: ["fast", "slow"] },
        day: { type: "string", format: "date" },
        code: { type: "string", pattern: "^[A-Z]{3}$" },
        kind: { const: "x" },
      }),
    ).toContainEqual({
      city: "Oslo",
      unit: "km",
      mode: "fast",
      day: "2026-01-15",
      code: "EUR",
      kind: "x",
    });
  });

  it("reach the bounds", async () => {
    const values = await argumentsOf({ n: { type: "integer", minimum: 3, maximum: 9 } });
    expect(values.map(({ n }) => n)).toEqual([3, 9]);
    const texts = await argumentsOf({ s: { type: "string", minLength: 1, maxLength: 100_000 } });
    expect(texts.map(({ s }) => typeof s === "string" && s.length)).toEqual([4, 1, 200]);
  });

  it("leave out, replace and add arguments where that is invalid", async () => {
    const calls = await generate({
      type: "object",
      properties: { word: { type: "string" }, mode: { type: "string", enum: ["a", "b"] } },
      required: ["word"],
      additionalProperties: false,
    });
    expect(calls.filter(({ expects }) => expects === "refusal").map(({ why }) => why)).toEqual([
      "word is missing",
      "word is of another type",
      "mode is of another type",
      "mode is not in the enum",
      "an unknown argument",
    ]);
  });

  it("follow references, also of recursive schemas", async () => {
    const node = {
      type: "object",
      properties: { name: { type: "string" }, next: { $ref: "#/$defs/Node" } },
      required: ["name"],
    };
    const list = { type: "array", items: { $ref: "#/$defs/Node" }, minItems: 1 };
    expect(await valueOf(list, { $defs: { Node: node } })).toEqual([{ name: "text" }]);
    expect(await valueOf({ $ref: "#/$defs/a%20b" }, { $defs: { "a b": { type: "null" } } })).toBe(null);
    expect(await valueOf({ allOf: [{ type: "string", minLength: 6 }, { maxLength: 8 }] })).toBe("textte");
  });

  it.each<[string, Json, JsonObject?]>([
    ["a reference to itself", { $ref: "#/$defs/A" }, { $defs: { A: { $ref: "#/$defs/A" } } }],
    ["an object that has to have itself", { $ref: "#" }],
    ["a pattern that nothing likely fits", { type: "string", pattern: "^q{40}$" }],
    ["bounds that contradict each other", { type: "integer", minimum: 2, maximum: 1 }],
    ["an invalid schema", { type: "date" }],
    ["a reference that points to nothing", { $ref: "#/$defs/Missing" }],
  ])("are none for %s", async (_, schema, rest = {}) => {
    expect(
      await generate({ type: "object", properties: { value: schema }, required: ["value"], ...rest }),
    ).toEqual([]);
  });

  it("make a list of different items where they have to differ", async () => {
    const value = await valueOf({
      type: "array",
      items: { type: "integer", minimum: 0 },
      uniqueItems: true,
      minItems: 3,
    });
    expect(new Set(Array.isArray(value) ? value : []).size).toBe(3);
  });

  it("keep to an object whose arguments depend on each other", async () => {
    const calls = await generate({
      type: "object",
      properties: { id: { type: "string" }, name: { type: "string" } },
      oneOf: [{ required: ["id"] }, { required: ["name"] }],
    });
    expect(calls.some(({ args }) => isJsonObject(args) && Object.keys(args).length === 1)).toBe(true);
  });
});

it("tries invalid values for a bounded number of parameters, the required ones first", async () => {
  const names = Array.from({ length: 400 }, (_, index) => `value_${index}`);
  const properties = Object.fromEntries(names.map((name) => [name, { type: "string" }]));
  let validations = 0;
  const schema = { type: "object", properties, required: ["value_399"] };
  const calls = await generateCalls("tool", schema, (...args) => {
    validations += 1;
    return validator.validate(...args);
  });
  expect(validations).toBeLessThan(150);
  expect(calls.map(({ why }) => why)).toContain("value_399 is missing");
});
