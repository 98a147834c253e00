import * as z from "zod";
import { expect, test } from "vitest";
import { paramsSchema } from "./operation.ts";

test("an object becomes JSON Schema as it is written, without a dialect", () => {
  const params = z.strictObject({
    name: z.string().min(1).describe("Who."),
    times: z.int().default(2),
    where: z.record(z.string(), z.union([z.string(), z.null()])).optional(),
  });
  expect(paramsSchema(params)).toEqual({
    type: "object",
    properties: {
      name: { type: "string", minLength: 1, description: "Who." },
      times: { type: "integer", default: 2 },
      where: {
        type: "object",
        propertyNames: { type: "string" },
        additionalProperties: { type: ["string", "null"] },
      },
    },
    required: ["name"],
    additionalProperties: false,
  });
});

test("limits of whole numbers that were asked for stay", () => {
  expect(paramsSchema(z.object({ row: z.int().min(1) }))["properties"]).toEqual({
    row: { type: "integer", minimum: 1 },
  });
});

test("either of several objects is an object too", () => {
  const params = z.union([z.object({ a: z.string() }), z.object({ b: z.string() })]);
  expect(paramsSchema(params)).toMatchObject({ type: "object", anyOf: [{}, {}] });
});

test("what is no object, or is not JSON, is refused where it is defined", () => {
  expect(() => paramsSchema(z.string())).toThrow("params must be an object");
  expect(() => paramsSchema(z.union([z.object({}), z.string()]))).toThrow("params must be an object");
  expect(() => paramsSchema(z.object({ at: z.date() }))).toThrow("Date cannot be represented");
});
