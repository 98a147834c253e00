import * as z from "zod";
import type { JsonObject } from "../../src/base/json.ts";
import { taskExportSchema } from "../../src/formats/task/task-export.ts";
import { trajectoryRecordSchema } from "../../src/graders/programs/trajectory-record.ts";
import { traceEventSchema } from "../../src/model/event-schema.ts";
import { baselineSchema } from "../../src/model/baseline.ts";
import { comparisonSchema } from "../../src/model/comparison.ts";
import { planModel } from "../../src/model/plan.ts";
import { resultSchema, runHeadSchema } from "../../src/model/result.ts";

/** The schemas of what mcpvals writes, by the names of their files. */
const documents = {
  result: resultSchema,
  baseline: baselineSchema,
  comparison: comparisonSchema,
  "task-export": taskExportSchema,
  trajectory: trajectoryRecordSchema,
  run: runHeadSchema,
  plan: planModel,
  "trace-event": traceEventSchema,
} as const satisfies Readonly<Record<string, z.ZodType>>;

export const documentNames = Object.keys(documents) as (keyof typeof documents)[];

/** The JSON Schema (2020-12) of a document that mcpvals writes, as published in `schemas/NAME.schema.json`. */
export function documentJsonSchema(name: keyof typeof documents): JsonObject {
  const { $schema = "", ...rest } = z.toJSONSchema(documents[name], {
    target: "draft-2020-12",
    unrepresentable: "any",
    // Only reference pages of what users write have it.
    override: ({ jsonSchema }) => void delete jsonSchema["defaultText"],
  });
  return { $schema, $id: `urn:mcpvals:${name}`, ...(rest as JsonObject) };
}
