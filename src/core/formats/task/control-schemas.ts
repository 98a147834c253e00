import * as z from "zod";
import { anyJson, closedObject } from "../config/config-fields.ts";
import { commonFields, innerTimeout } from "./step-fields.ts";

/** A step inside a schema; what is in it is checked by itself, see `readSteps`. */
export const stepItem = z.custom<unknown>().meta({ $ref: "#/$defs/Step" });

/** At least one step. */
export const stepList = z.array(stepItem).min(1);

const inner = { timeout: innerTimeout, ...commonFields };

const itemsText = z.string().refine((text) => text.includes("{") || isJsonList(text), {
  error: "must be a list, or a template that gives a JSON list",
});

/** What a `foreach` goes through. */
export const items = z.union([itemsText, z.array(anyJson).min(1)]);

/** `foreach`. */
export const foreachSchema = closedObject({
  var: z
    .string()
    .regex(/^[A-Za-z_][\w-]*$/, {
      error: "must begin with a letter or _, and go on with letters, digits, _ and -",
    })
    .meta({ description: "Name of the variable: `{NAME}`, or `{NAME.KEY}` for what is in an item." }),
  in: items.meta({ description: "The items: a list, or a template that gives a JSON list." }),
  steps: stepList.meta({ description: "What to do for each item." }),
  ...inner,
}).meta({
  id: "ForeachStep",
  title: "Step foreach",
  description:
    "Runs its steps for every item; all must pass. An output of a step inside is afterwards that of the last item. An empty list fails.",
});

/** The long form of `anyOf`. */
export const anyOfSchema = closedObject({
  steps: stepList.meta({ description: "The alternatives." }),
  ...inner,
}).meta({
  id: "AnyOfStep",
  title: "Step anyOf",
  description:
    "Passes with the first of its steps that passes; the others are then not run. When none passes and one could not act, it is an error.",
});

/** The long form of `allOf`. */
export const allOfSchema = closedObject({
  steps: stepList.meta({ description: "All that must pass." }),
  ...inner,
}).meta({
  id: "AllOfStep",
  title: "Step allOf",
  description:
    "Passes when all of its steps pass; all are run, but for those after one that could not act, which is an error.",
});

/** The long form of `not`. */
export const notSchema = closedObject({
  steps: stepList.meta({ description: "What must not all pass." }),
  ...inner,
}).meta({
  id: "NotStep",
  title: "Step not",
  description:
    "Passes when not all of its steps pass. As soon as one of them cannot act it is an error, not a pass.",
});

/** `group`. */
export const groupSchema = closedObject({
  setup: z
    .array(stepItem)
    .default([])
    .meta({ description: "Steps before. One that fails makes the group an error." }),
  steps: stepList.meta({ description: "What the group does, or checks." }),
  cleanup: z.array(stepItem).default([]).meta({
    description: "Steps after, the last one first; always run, their failures change nothing.",
  }),
  ...inner,
}).meta({ id: "GroupStep", title: "Step group", description: "Steps with their own setup and cleanup." });

function isJsonList(text: string): boolean {
  try {
    return Array.isArray(JSON.parse(text));
  } catch {
    return false; // what is no JSON is no list
  }
}
