import { expect, it } from "vitest";
import type { JsonObject } from "../base/json.ts";
import { type CheckedServer, schemaOf, testRules, tool, viewOf } from "../../test/support/rules.ts";
import { findDefects } from "./catalogue.ts";
import { OutOfTime } from "./check-view.ts";
import { toolSchemas } from "./schema-walk.ts";

const input = (inputSchema: JsonObject): CheckedServer => ({ tools: [tool({ inputSchema })] });
const output = (outputSchema: JsonObject): CheckedServer => ({ tools: [tool({ outputSchema })] });
/** A tool with one parameter, `value`. */
const parameter = (value: JsonObject, rest: JsonObject = {}): CheckedServer =>
  input(schemaOf({ value }, rest));
const text = { type: "string" };
/** A schema with so many parameters. */
const wide = (count: number): JsonObject =>
  schemaOf(Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, text])));

testRules({
  "schema/missing": {
    bad: {
      "no input schema": { tools: [{ name: "search", description: "Finds notes." }] },
      null: { tools: [tool({ inputSchema: null })] },
      true: { tools: [tool({ inputSchema: true })] },
    },
    good: { "no output schema": { tools: [tool()] } },
  },
  "schema/not-object": {
    bad: {
      "a text as input": input(text),
      "no type": input({ properties: {} }),
      "a list as output": output({ type: "array", items: text }),
    },
    good: {
      "an object": input({ type: "object" }),
      "a list as output since 2026-07-28": {
        ...output({ type: "array", items: text }),
        hello: { protocolVersion: "2026-07-28" },
      },
    },
  },
  "schema/invalid": {
    bad: {
      "an unknown type": parameter({ type: "date" }),
      "required as a boolean": parameter({ type: "string", required: true }),
      "a pattern that does not compile": parameter({ type: "string", pattern: "(" }),
      "a minimum as a text": parameter({ type: "integer", minimum: "1" }),
    },
    good: {
      "unknown keywords": parameter({ type: "string", "x-order": 1, widget: "text" }),
      "an unknown format": parameter({ type: "string", format: "color" }),
      "a union with null": parameter({ type: ["string", "null"] }),
      "an older dialect that is named": parameter(
        { type: "string" },
        { $schema: "http://json-schema.org/draft-07/schema#" },
      ),
      "one that is too large to be validated": input(wide(7000)),
      "an empty enum, of which schema/unsatisfiable speaks": parameter({ type: "string", enum: [] }),
      "the same in an older dialect": parameter(
        { type: "array", items: { type: "string", enum: [] } },
        { $schema: "http://json-schema.org/draft-07/schema#" },
      ),
      "a recursive schema": input(
        schemaOf(
          { tree: { $ref: "#/$defs/Tree" } },
          {
            $defs: { Tree: { type: "array", items: { $ref: "#/$defs/Tree" } } },
          },
        ),
      ),
    },
  },
  "schema/dangling-ref": {
    bad: {
      "no such definition": parameter({ $ref: "#/$defs/User" }),
      "an empty name": parameter({ $ref: "#/" }),
      "a member of every object": parameter({ $ref: "#/$defs/constructor" }, { $defs: {} }),
    },
    good: {
      "the whole schema": parameter({ $ref: "#" }),
      "a name with a slash and a space": parameter(
        { $ref: "#/$defs/a~1b%20c" },
        { $defs: { "a/b c": text } },
      ),
      "an anchor": parameter({ $ref: "#user" }, { $defs: { User: { $anchor: "user", ...text } } }),
      "a value that is called $ref": parameter({ type: "object", const: { $ref: "#/nowhere" } }),
    },
  },
  "schema/unsatisfiable": {
    bad: {
      "bounds in the wrong order": parameter({ type: "integer", minimum: 10, maximum: 1 }),
      "exclusive bounds that meet": parameter({ type: "number", exclusiveMinimum: 1, maximum: 1 }),
      "an empty enum": parameter({ type: "string", enum: [] }),
      "a length that cannot be": parameter({ type: "string", minLength: 5, maxLength: 2 }),
      "a required member that is forbidden": parameter(text, { required: ["value", "other"] }),
    },
    good: {
      "bounds that leave one value": parameter({ type: "integer", minimum: 1, maximum: 1 }),
      "an alternative that nothing fits": parameter({ anyOf: [text, { type: "string", enum: [] }] }),
      "a required member that a pattern allows": parameter(text, {
        required: ["x-other"],
        patternProperties: { "^x-": text },
      }),
    },
  },
  "schema/undeclared-required": {
    bad: { "a name that properties lacks": input({ type: "object", properties: {}, required: ["key"] }) },
    good: { "a declared one": parameter(text) },
  },
  "schema/example-violates": {
    bad: {
      "a default of another type": parameter({ type: "integer", default: "10" }),
      "a default outside the enum": parameter({ type: "string", enum: ["a"], default: "b" }),
      "the second example": parameter({ type: "integer", examples: [1, "2"] }),
    },
    good: {
      "a default that fits": parameter({ type: "integer", default: 10 }),
      "null for a type with null": parameter({ type: ["string", "null"], default: null }),
      "a reference beside the default": parameter({ $ref: "#/$defs/T", default: 1 }, { $defs: { T: text } }),
      "a parameter that is called default": parameter({ type: "object", properties: { default: text } }),
      "references inside": input(
        schemaOf(
          { list: { type: "array", items: { $ref: "#/$defs/T" }, default: ["a"] } },
          { $defs: { T: text } },
        ),
      ),
    },
  },
  "schema/duplicate-enum": {
    bad: { "a text": parameter({ type: "string", enum: ["a", "b", "a"] }) },
    good: { "a number and its text": parameter({ enum: [1, "1"] }) },
  },
  "schema/untyped-parameter": {
    bad: { "a description only": parameter({ description: "Most results." }) },
    good: {
      "an enum": parameter({ enum: ["a", 1] }),
      alternatives: parameter({ anyOf: [text, { type: "null" }] }),
    },
  },
  "schema/unchecked": {
    bad: {
      "more parts than are looked at": input(wide(20_001)),
      "more values than are validated": input(wide(7000)),
      "more texts than are looked at": input({ ...schemaOf({}), examples: Array(200_000).fill("a") }),
    },
    good: { "a large schema": input(wide(1000)) },
  },
});

it("looks at a part of the schemas of a server that has very many", () => {
  const { surface } = viewOf(input(wide(19_998)));
  const tools = Array(11).fill(surface.tools).flat() as typeof surface.tools;
  const complete = toolSchemas({ ...surface, tools }).map(({ hasAllParts }) => hasAllParts);
  expect(complete).toEqual([...Array<boolean>(10).fill(true), false]);
});

it("a rule that runs out of time keeps what it found, and is named", async () => {
  const server = { tools: [tool({ inputSchema: schemaOf({ a: text }) }), tool({ inputSchema: wide(2) })] };
  const findings = await findDefects(viewOf(server), {
    validateSchema(schema) {
      const text = JSON.stringify(schema);
      if (text === JSON.stringify(wide(2))) return Promise.reject(new OutOfTime());
      const isFirst = text === JSON.stringify(schemaOf({ a: { type: "string" } }));
      return Promise.resolve(isFirst ? { status: "unusable", reason: "no schema" } : { status: "valid" });
    },
  });
  const about = findings.filter(({ code }) => ["schema/invalid", "schema/unchecked"].includes(code));
  expect(about.map(({ code, message }) => `${code}: ${message}`)).toEqual([
    "schema/invalid: it cannot be used: no schema",
    "schema/unchecked: schema/invalid ended early: validating took too long",
  ]);
});

it("equal schemas of several tools are validated once", async () => {
  const asked: string[] = [];
  await findDefects(viewOf({ tools: ["a", "b", "c"].map((name) => tool({ name })) }), {
    validateSchema(schema) {
      asked.push(JSON.stringify(schema));
      return Promise.resolve({ status: "valid" });
    },
  });
  expect(asked.filter((schema) => schema === JSON.stringify(schemaOf({})))).toHaveLength(1);
});
