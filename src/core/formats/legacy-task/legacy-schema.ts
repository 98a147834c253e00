import * as z from "zod";
import { anyJson, anyObject, closedObject } from "../config/config-fields.ts";
import { goDuration, patternText, texts } from "../lenient-fields.ts";

const text = z.string().optional();

const head = {
  apiVersion: text,
  kind: text,
  metadata: closedObject({
    name: text,
    description: text,
    difficulty: text,
    labels: texts.optional(),
    parallel: z.boolean().optional(),
    runs: z.int().min(1).optional(),
  }).optional(),
};

const source = closedObject({ file: text, inline: text });

/** A task without apiVersion, or with `…/v1alpha1`. */
export const scriptFormSchema = closedObject({
  ...head,
  steps: closedObject({
    setup: source.optional(),
    prompt: source.optional(),
    verify: closedObject({ file: text, inline: text, contains: text, exact: text }).optional(),
    cleanup: source.optional(),
  }),
});

const stepList = z.array(z.record(z.string(), z.unknown())).optional();

/** A task with `…/v1alpha2`; the bodies of its steps have schemas of their own. */
export const stepFormSchema = closedObject({
  ...head,
  spec: closedObject({
    requires: z.array(z.unknown()).optional(),
    limits: closedObject({
      timeout: goDuration.optional(),
      cleanupTimeout: goDuration.optional(),
    }).optional(),
    setup: stepList,
    prompt: source.optional(),
    verify: stepList,
    cleanup: stepList,
  }),
});

/** One entry of `requires`; which of the keys are there decides. */
export const requirementSchema = closedObject({ extension: text, mcpServer: text, command: text, as: text });

/** Body of a `script` step. */
export const scriptSchema = closedObject({
  file: text,
  inline: text,
  env: texts.optional(),
  timeout: goDuration.optional(),
  continueOnError: z.boolean().optional(),
});

const fieldSchema = closedObject({
  path: z.string().optional(),
  equals: anyJson.optional(),
  type: z.enum(["string", "number", "bool", "array", "object", "null"]).optional(),
  match: patternText.optional(),
  exists: z.boolean().optional(),
});

const contentSchema = closedObject({
  match: patternText.optional(),
  fields: z.array(fieldSchema).optional(),
});

/** What a JSON text is to be: the same for HTTP bodies and for the content of MCP results. */
export type LegacyContent = z.output<typeof contentSchema>;
/** One expectation of a place in it. */
export type LegacyField = z.output<typeof fieldSchema>;

/** Body of an `http` step. */
export const httpSchema = closedObject({
  url: z.string(),
  method: text,
  headers: texts.optional(),
  body: closedObject({ raw: text, json: anyObject.optional() }).optional(),
  timeout: goDuration.optional(),
  expect: closedObject({ status: z.int().optional(), body: contentSchema.optional() }).optional(),
});

/** Body of an `llmJudge` step. */
export const judgeSchema = closedObject({ contains: text, exact: text });

/** Body of a `SERVER.TOOL` step. */
export const toolSchema = closedObject({
  args: anyObject.optional(),
  expect: closedObject({ isError: z.boolean().optional(), content: contentSchema.optional() }).optional(),
});
