import { Ajv2020 } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { documentJsonSchema } from "../../scripts/schemas/document-json-schemas.ts";
import { visibleJson } from "../base/visible-text.ts";
import { jsonPieces } from "../base/json-pieces.ts";
import { resultSchema, type RunResult } from "./result.ts";

const result: RunResult = {
  schema: "mcpvals.result/1",
  id: "20261121-101500-4f2a",
  name: "quickstart",
  verdict: "incomplete",
  startedAt: "2026-11-21T10:15:00.000Z",
  durationMs: 12.5,
  summary: { total: 1, pass: 0, fail: 0, error: 1, timeout: 0, skip: 0 },
  trials: [
    {
      id: "t1",
      task: "task",
      form: "tool-test",
      suite: "suite",
      agent: null,
      attempt: 1,
      verdict: "error",
      score: null,
      durationMs: 3,
      grades: [{ grader: "judge", verdict: "error", score: null, reason: "no verdict", evidence: [1, 2] }],
      error: { code: "judge/no-verdict", kind: "environment", message: "no verdict" },
      usage: { inputTokens: 1, outputTokens: 2, requests: 1 },
      warnings: ["look"],
    },
  ],
  environment: {
    mcpvals: "0.1.0",
    node: "24.0.0",
    platform: "linux",
    agents: [{ name: "scripted", type: "scripted" }],
    servers: { one: { transport: "stdio", nested: [1, null, { deep: true }] } },
  },
};

describe("the schema of results", () => {
  it("accepts a result, in zod and as JSON Schema", () => {
    expect(resultSchema.parse(result)).toEqual(result);
    const validate = new Ajv2020({ strict: true, strictTypes: false }).compile(documentJsonSchema("result"));
    expect(validate(result) || validate.errors).toBe(true);
  });

  it.each([
    ["an unknown key", { ...result, extra: 1 }],
    ["another version", { ...result, schema: "mcpvals.result/2" }],
    ["a score over 1", { ...result, trials: [{ ...result.trials[0], score: 1.5 }] }],
    ["an unknown error code", { ...result, trials: [{ ...result.trials[0], error: { code: "x/y" } }] }],
    ["a missing summary", { ...result, summary: undefined }],
  ])("refuses %s", (_, wrong) => {
    expect(resultSchema.safeParse(wrong).success).toBe(false);
    const validate = new Ajv2020({ strictTypes: false }).compile(documentJsonSchema("result"));
    expect(validate(JSON.parse(JSON.stringify(wrong)))).toBe(false);
  });
});

function whole(document: object): string {
  return [...jsonPieces(document)].join("");
}

it("gives the document as JSON that is safe to print", () => {
  const member = fc.oneof(fc.jsonValue(), fc.array(fc.jsonValue()), fc.constant(undefined));
  fc.assert(
    fc.property(fc.dictionary(fc.string(), member), (document) => {
      const text = whole(document);
      expect(visibleJson(text)).toBe(text);
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(document)));
    }),
    { numRuns: 500 },
  );
});

it("is indented by two, with each item of its lists on one line", () => {
  const document = {
    id: "r",
    trials: [{ id: "t1", grades: [{ score: 1 }] }, { id: "t2" }],
    none: [],
    rate: { low: 0 },
  };
  expect(whole(document)).toBe(`{
  "id": "r",
  "trials": [
    {"id":"t1","grades":[{"score":1}]},
    {"id":"t2"}
  ],
  "none": [],
  "rate": {
    "low": 0
  }
}
`);
});

it("leaves alone what looks like layout inside texts", () => {
  const document = { text: "a\n  b", list: ["x\ny", { z: "\n\n" }], nested: { deep: ["\n"] } };
  expect(JSON.parse(whole(document))).toEqual(document);
});

it("writes lists item by item, so that no piece is larger than one of them", () => {
  const items = Array.from({ length: 1000 }, (_, index) => ({ index, text: "x".repeat(100) }));
  const longest = Math.max(...[...jsonPieces({ items })].map((piece) => piece.length));
  expect(longest).toBeLessThan(200);
});
