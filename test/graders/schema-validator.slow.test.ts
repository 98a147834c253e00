import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import type { Json } from "../../src/base/json.ts";
import { formatSchemaError, type SchemaCheck } from "../../src/expect/tool-result.ts";
import { OutOfTime } from "../../src/check/check-view.ts";
import { SchemaValidator, validateOfServer } from "../../src/graders/schema-validator.ts";

const limitMs = 400;
const shared = new SchemaValidator();
afterAll(() => shared[Symbol.asyncDispose]());

const valid: SchemaCheck = { status: "valid" };
/** Not a plain schema, which would need no thread. */
const sum: Json = {
  type: "object",
  maxProperties: 9,
  properties: { sum: { type: "number" } },
  required: ["sum"],
  additionalProperties: false,
};
/** A pattern that V8 tries for years. */
const manyWays = `^${"a*".repeat(12)}$`;
const endless: Json = { type: "string", pattern: manyWays };
const letters = `${"a".repeat(64)}!`;

function check(schema: Json, value: Json, validator = shared): Promise<SchemaCheck> {
  return validator.validate(schema, value);
}

/** The formatted errors of an invalid value. */
async function errorsOf(schema: Json, value: Json, validator = shared): Promise<readonly string[]> {
  const found = await check(schema, value, validator);
  return found.status === "invalid" ? found.errors.map((error) => formatSchemaError(error)) : [found.status];
}

describe("a usable schema", () => {
  it("accepts valid values and reports the errors of others", async () => {
    expect(await check(sum, { sum: 5 })).toEqual(valid);
    expect(await errorsOf(sum, { sum: "5", more: 1 })).toEqual([
      `the value must NOT have additional properties ("more")`,
      `/sum must be number, is "5"`,
    ]);
    expect(
      await errorsOf({ properties: { unit: { enum: ["C", "F"] }, n: { const: 1 } } }, { unit: "K", n: 2 }),
    ).toEqual([
      `/unit must be equal to one of the allowed values (["C","F"]), is "K"`,
      "/n must be equal to constant (1), is 2",
    ]);
    expect(await check(sum, { sum: "5" })).toEqual({
      status: "invalid",
      errors: [
        {
          instancePath: "/sum",
          keyword: "type",
          params: { type: "number" },
          message: "must be number",
          actual: '"5"',
        },
      ],
    });
  });

  it("reports at most five errors", async () => {
    expect(await errorsOf({ items: { type: "string" } }, [1, 2, 3, 4, 5, 6])).toEqual(
      [0, 1, 2, 3, 4].map((index) => `/${index} must be string, is ${index + 1}`),
    );
  });

  it("truncates long member names in errors", async () => {
    const name = "k".repeat(1_000_000);
    expect(await errorsOf({ additionalProperties: { type: "string" } }, { [name]: 1 })).toEqual([
      `/${"k".repeat(199)}… must be string, is 1`,
    ]);
    expect(await errorsOf({ additionalProperties: false }, { [name]: 1 })).toEqual([
      `the value must NOT have additional properties ("${"k".repeat(199)}…)`,
    ]);
  });

  it.each([
    ["nothing", undefined],
    ["2020-12", "https://json-schema.org/draft/2020-12/schema"],
    ["2019-09", "https://json-schema.org/draft/2019-09/schema"],
    ["draft 7", "http://json-schema.org/draft-07/schema#"],
    ["draft 4", "http://json-schema.org/draft-04/schema#"],
  ])("can declare its dialect: %s", async (_, $schema) => {
    const schema = $schema === undefined ? sum : { ...sum, $schema };
    expect(await check(schema, { sum: 5 })).toEqual(valid);
    expect(await errorsOf(schema, {})).toEqual(["the value must have required property 'sum'"]);
  });

  it("is validated in its dialect: draft 7 has positional items, 2020-12 prefixItems", async () => {
    const items = [{ type: "number" }];
    expect(await check({ $schema: "http://json-schema.org/draft-07/schema#", items }, ["x"])).toMatchObject({
      status: "invalid",
    });
    expect(await check({ prefixItems: items }, ["x"])).toMatchObject({ status: "invalid" });
    expect(await check({ items }, ["x"])).toMatchObject({ status: "unusable" });
  });

  it("can refer to itself and to its definitions", async () => {
    const tree: Json = {
      $ref: "#/$defs/node",
      $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" } } } },
    };
    expect(await check(tree, { next: { next: {} } })).toEqual(valid);
    expect(await errorsOf(tree, { next: { next: 1 } })).toEqual(["/next/next must be object, is 1"]);
  });

  it("checks known formats and ignores unknown ones, without output on the terminal", async () => {
    expect(await errorsOf({ format: "date" }, "2026-02-30")).toEqual([
      `the value must match format "date", is "2026-02-30"`,
    ]);
    const script = `
      import { SchemaValidator } from ${JSON.stringify(new URL("../../src/graders/schema-validator.ts", import.meta.url).href)};
      await using validator = new SchemaValidator();
      process.stdout.write(JSON.stringify(await validator.validate({ format: "path", "x-own": 1 }, "a")));
    `;
    const node = promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
    expect(await node).toEqual({ stdout: '{"status":"valid"}', stderr: "" });
  });

  it("does not treat inherited members of objects as members of the value", async () => {
    expect(await check({ type: "object", required: ["constructor"] }, {})).toMatchObject({
      status: "invalid",
    });
    const hostile: unknown = JSON.parse(
      '{"properties":{"__proto__":{"type":"string"}},"additionalProperties":true}',
    );
    expect(await check(hostile as Json, { a: 1 })).toEqual(valid);
    expect(Object.prototype).not.toHaveProperty("type");
  });

  it("can be true or false", async () => {
    expect(await check(true, 1)).toEqual(valid);
    expect(await errorsOf(false, 1)).toEqual(["the value boolean schema is false"]);
  });
});

describe("an unusable schema", () => {
  it("is found to be so again", async () => {
    const first = await check({ type: "strng" }, 1);
    expect(first.status).toBe("unusable");
    expect(await check({ type: "strng" }, 1)).toEqual(first);
  });

  it.each([
    ["has a wrong keyword", { type: "objekt" }, /^schema is invalid: data\/type must be equal to one of/],
    ["is a text", "sum", /^a schema is an object or a boolean, not "sum"$/],
    ["has an invalid pattern", { pattern: "(" }, /Invalid regular expression/],
    [
      "needs another file",
      { $ref: "https://example.com/schema.json" },
      /can't resolve reference https:\/\/example.com/,
    ],
    ["has an unknown dialect", { $schema: "urn:mine" }, /^its \$schema names no known dialect: "urn:mine"$/],
    ["consists only of a reference to itself", { $ref: "#" }, /^it refers to itself without end$/],
    [
      "has a cycle of references",
      { $ref: "#/$defs/a", $defs: { a: { allOf: [{ $ref: "#" }] } } },
      /^it refers to/,
    ],
  ])("that %s is reported with the reason", async (_, schema, reason) => {
    expect(await check(schema, { sum: 5 })).toEqual({
      status: "unusable",
      reason: expect.stringMatching(reason),
    });
    expect(await check(sum, { sum: 5 })).toEqual(valid);
  });

  /** A validator in which only the validations with these numbers time out, and at once. */
  function validatorWithTimeouts(...numbers: readonly number[]): SchemaValidator {
    let count = 0;
    return new SchemaValidator(limitMs, (callback, milliseconds) => {
      if (milliseconds === limitMs && numbers.includes((count += 1))) setImmediate(callback);
      return () => undefined;
    });
  }
  const reason = `checking a value against it takes over ${limitMs} ms; its patterns: "${manyWays}"`;
  const tooLong = { status: "unusable", reason, isLimit: true };

  it("that takes too long is reported, and other schemas still get their verdict", async () => {
    await using validator = validatorWithTimeouts(2);
    const all = [
      [sum, { sum: 1 }] as const,
      [endless, letters] as const,
      [sum, { sum: 2 }] as const,
      [sum, { sum: "2" }] as const,
    ];
    expect(await Promise.all(all.map(([schema, value]) => check(schema, value, validator)))).toEqual([
      valid,
      tooLong,
      valid,
      { status: "invalid", errors: [expect.objectContaining({ instancePath: "/sum", actual: '"2"' })] },
    ]);
  });

  it("that takes too long for one of several values leaves the others their verdict", async () => {
    await using validator = validatorWithTimeouts(2, 4);
    const values = ["a", "aa", letters, "aaa"];
    expect(await Promise.all(values.map((value) => check(endless, value, validator)))).toEqual([
      valid,
      valid,
      tooLong,
      valid,
    ]);
    expect(await check(sum, { sum: 5 }, validator)).toEqual(valid);
  });

  it("that took too long for three values is not tried again", async () => {
    await using validator = validatorWithTimeouts(1, 2, 3);
    for (let call = 0; call < 100; call += 1)
      expect(await check(structuredClone(endless), letters, validator)).toEqual(tooLong);
  });

  it("with references that double its errors at each level takes too long, in bounded memory", async () => {
    const bomb: Json = {
      $ref: "#/$defs/d0",
      $defs: Object.fromEntries(
        Array.from({ length: 40 }, (_, level) => [
          `d${level}`,
          level === 39
            ? { type: "string" }
            : { allOf: [{ $ref: `#/$defs/d${level + 1}` }, { $ref: `#/$defs/d${level + 1}` }] },
        ]),
      ),
    };
    let limitMs = 1500;
    await using validator = new SchemaValidator(limitMs, (callback) => {
      const timer = setTimeout(callback, limitMs);
      return () => clearTimeout(timer);
    });
    expect(await check(bomb, 1, validator)).toMatchObject({ status: "unusable" });
    limitMs = 30_000;
    expect(await check(sum, { sum: 5 }, validator)).toEqual(valid);
  });
});

describe("disposing", () => {
  it("ends pending validations at once", async () => {
    const validator = new SchemaValidator();
    const waiting = [check(endless, letters, validator), check(sum, { sum: 5 }, validator)];
    await validator[Symbol.asyncDispose]();
    expect(await Promise.all(waiting)).toEqual([
      { status: "unusable", reason: "the validation was stopped", isLimit: true },
      { status: "unusable", reason: "the validation was stopped", isLimit: true },
    ]);
  });

  it("is not needed for the process to exit", async () => {
    const script = `
      import { SchemaValidator } from ${JSON.stringify(new URL("../../src/graders/schema-validator.ts", import.meta.url).href)};
      process.stdout.write((await new SchemaValidator().validate({ minLength: 1 }, "a")).status);
    `;
    const node = promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], {
      timeout: 60_000,
    });
    expect(await node).toEqual({ stdout: "valid", stderr: "" });
  });
});

describe("the validations of one server", () => {
  const never = (): Promise<SchemaCheck> => new Promise(() => undefined);

  it("end when the time for all of them is spent", async () => {
    const validate = validateOfServer(() => Promise.resolve(valid), new AbortController().signal, 0);
    await expect(validate(sum, {})).rejects.toThrow(OutOfTime);
  });

  it("end with the signal, also while one goes on", async () => {
    const stop = new AbortController();
    const validate = validateOfServer(never, stop.signal);
    const going = validate(sum, {});
    stop.abort(new Error("stopped"));
    await expect(going).rejects.toThrow("stopped");
    await expect(validate(sum, {})).rejects.toThrow("stopped");
  });
});

it("a name that two schemas share reaches neither from the other", async () => {
  const named = (type: string): Json => ({
    properties: { a: { $id: "http://example.test/a", type } },
  });
  expect(await check(named("string"), { a: "x" })).toEqual(valid);
  expect(await check(named("number"), { a: 1 })).toEqual(valid);
  expect(await check({ $ref: "http://example.test/a" }, {})).toMatchObject({ status: "unusable" });
});
