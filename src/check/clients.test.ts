import { expect, it } from "vitest";
import type { JsonObject } from "../base/json.ts";
import { findDefects } from "./catalogue.ts";
import { type CheckedServer, schemaOf, testRules, tool, viewOf } from "../../test/support/rules.ts";

const named = (name: string): CheckedServer => ({ tools: [tool({ name })] });
const input = (inputSchema: JsonObject): CheckedServer => ({ tools: [tool({ inputSchema })] });
const output = (outputSchema: JsonObject): CheckedServer => ({ tools: [tool({ outputSchema })] });
const property = (value: JsonObject | boolean, rest: JsonObject = {}): CheckedServer =>
  input(schemaOf({ value }, rest));
const text = { type: "string" };

testRules({
  "client/name-characters": {
    bad: { "a dot": named("files.read") },
    good: {
      "letters, digits, - and _": named("files_read-2"),
      "a name that is not allowed at all": named("files. read"),
    },
  },
  "client/long-name": {
    bad: {
      "65 characters": named("a".repeat(65)),
      "61 characters with the server's name": named("a".repeat(61 - "notes".length)),
    },
    good: { "60 characters with the server's name": named("a".repeat(60 - "notes".length)) },
  },
  "client/parameter-name": {
    bad: {
      brackets: input(schemaOf({ "created[after]": text })),
      "65 characters": input(schemaOf({ ["a".repeat(65)]: text })),
    },
    good: {
      "a dot": input(schemaOf({ "user.name": text })),
      "a name inside a parameter": property({ type: "object", properties: { "a b": text } }),
    },
  },
  "client/boolean-subschema": {
    bad: {
      "true as a property": property(true),
      "true inside a list": property({ type: "array", items: schemaOf({ any: true }) }),
    },
    good: {
      "false as items": property({ type: "array", items: false }),
      additionalProperties: property({ type: "object", additionalProperties: true }),
      "an enum with true": property({ type: "boolean", const: true }),
      "a default of true": property({ type: "boolean", default: true }),
    },
  },
  "client/root-combinator": {
    bad: { "oneOf at the root": input({ ...schemaOf({ a: text }), oneOf: [{ required: ["a"] }] }) },
    good: {
      "anyOf in a property": property({ anyOf: [text, { type: "null" }] }),
      "a property that is called oneOf": input(schemaOf({ oneOf: text })),
      "anyOf in a result": output({ type: "object", anyOf: [{ required: ["a"] }] }),
    },
  },
  "client/old-dialect": {
    bad: {
      "draft-07 in a result": output({ $schema: "http://json-schema.org/draft-07/schema#", type: "object" }),
    },
    good: {
      "draft-07 in arguments": input({
        ...schemaOf({}),
        $schema: "http://json-schema.org/draft-07/schema#",
      }),
      "2020-12": output({ $schema: "https://json-schema.org/draft/2020-12/schema", type: "object" }),
      "no dialect": output({ type: "object" }),
    },
  },
  "client/array-without-items": {
    bad: {
      "a list of anything": property({ type: "array" }),
      "one inside an object": property({ type: "object", properties: { tags: { type: "array" } } }),
    },
    good: {
      "a list of texts": property({ type: "array", items: text }),
      "a tuple": property({ type: "array", prefixItems: [text] }),
      "one in a result": output({ type: "object", properties: { tags: { type: "array" } } }),
    },
  },
  "client/tuple": {
    bad: {
      "a list of schemas, in an older dialect": property(
        { type: "array", items: [text, text] },
        { $schema: "http://json-schema.org/draft-07/schema#" },
      ),
      "a result that is closed": output({ type: "array", prefixItems: [text], items: false }),
    },
    good: {
      "a result that is open": output({ type: "array", prefixItems: [text] }),
      "arguments of 2020-12": property({ type: "array", prefixItems: [text], items: false }),
    },
  },
  "client/object-without-properties": {
    bad: { "an object and nothing else": input({ type: "object" }) },
    good: { "no properties": input({ type: "object", properties: {} }) },
  },
  "client/openai-strict": {
    bad: {
      "an optional parameter": property(text, { required: [] }),
      "an open object": input({ type: "object", properties: {} }),
      "an open object inside": property({ type: "object", properties: {} }),
    },
    good: { "all required and closed": property(text) },
  },
  "client/gemini-object-keywords": {
    bad: {
      "properties without a type": property({ properties: { a: text } }),
      "required in an alternative": property({ type: "object", anyOf: [{ required: ["a"] }] }),
    },
    good: {
      "an object": property({ type: "object", properties: { a: text } }),
      "an object or null": property({ type: ["object", "null"], properties: { a: text } }),
      "a property that is called required": input(schemaOf({ required: text })),
    },
  },
  "client/gemini-array-items": {
    bad: { "items of two types": property({ type: "array", items: { type: ["string", "number"] } }) },
    good: {
      "items of one type": property({ type: "array", items: text }),
      "two types that are not items": property({ type: ["string", "null"] }),
    },
  },
  "client/gemini-refs": {
    bad: { "a reference": property({ $ref: "#/$defs/T" }, { $defs: { T: text } }) },
    good: {
      "definitions that nothing uses": property(text, { $defs: { T: text, U: { $ref: "#/$defs/T" } } }),
      "a reference that leads nowhere": property({ $ref: "#/$defs/T" }),
      "a reference in a result": output({
        type: "object",
        properties: { a: { $ref: "#/$defs/T" } },
        $defs: { T: text },
      }),
    },
  },
  "client/gemini-enum": {
    bad: {
      numbers: property({ type: "integer", enum: [0, 1] }),
      "a boolean": property({ enum: [true] }),
      "texts without a type": property({ enum: ["a", "b"] }),
    },
    good: {
      texts: property({ type: "string", enum: ["a", "b"] }),
      "texts and null": property({ type: ["string", "null"], enum: ["a", null] }),
      "a property that is called enum": input(schemaOf({ enum: { type: "integer" } })),
    },
  },
  "client/codex-any-of": {
    bad: { "a number or a list": property({ anyOf: [{ type: "number" }, { type: "array", items: text }] }) },
    good: {
      "a text or null": property({ anyOf: [text, { type: "null" }] }),
      "alternatives of one type": property({ anyOf: [{ const: "a", ...text }, text] }),
    },
  },
});

it("client/old-dialect names the versions of the client, and is info, since version 1 of the SDK writes the dialect", async () => {
  const view = viewOf(output({ $schema: "http://json-schema.org/draft-07/schema#", type: "object" }));
  const findings = await findDefects(view, { validateSchema: () => Promise.resolve({ status: "valid" }) });
  const found = findings.find(({ code }) => code === "client/old-dialect");
  expect(found).toMatchObject({
    severity: "info",
    clients: { "Claude Desktop 1.28929.0, 2.2553.1": "refused" },
    message: expect.stringContaining("version 1 of the official TypeScript SDK writes it"),
  });
});

it.each([
  ["client/root-combinator", { ...schemaOf({ a: text }), anyOf: [{ required: ["a"] }] }],
  ["schema/not-object", { properties: { a: text } }],
])("%s says what Gemini does, too", async (code, schema) => {
  const findings = await findDefects(viewOf(input(schema)), {
    validateSchema: () => Promise.resolve({ status: "valid" }),
  });
  const ofGemini = findings.filter(({ clients = {} }) => clients["Gemini"] === "refused");
  expect(ofGemini.map((finding) => finding.code)).toEqual([code]);
});
