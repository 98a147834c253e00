import * as z from "zod";
import { anyJson, closedObject, duration, filledText } from "./config/config-fields.ts";
import { type Json, type JsonObject, withoutUndefined } from "./json.ts";

// Fields that several kinds of steps share, each as a task's file writes it and as it is in the model. The model is also
// the format of exported tasks.

/** The type of a value of the model: as its schema says, and read-only. */
export type Model<S extends z.ZodType> = Frozen<z.output<S>>;

type Frozen<T> = [Json] extends [T]
  ? T
  : T extends readonly (infer U)[]
    ? readonly Frozen<U>[]
    : T extends object
      ? { readonly [K in keyof T]: Frozen<T[K]> }
      : T;

export const text = z.string();
export const texts = z.record(z.string(), z.string());
export const milliseconds = z.number().min(0);

export const json: z.ZodType<Json> = z
  .lazy(() =>
    z.union([z.null(), z.boolean(), z.number(), z.string(), z.array(json), z.record(z.string(), json)]),
  )
  .meta({ id: "Json", description: "Any JSON value." });

export const jsonObject: z.ZodType<JsonObject> = z.record(z.string(), json);

/** What every step has in the model, besides its type. */
export const stepModel = {
  id: text.describe("Id for `{steps.ID.outputs.NAME}`, unique in the task."),
  name: text.describe("Name of the step.").exactOptional(),
  timeoutMs: milliseconds.describe("Time limit of one attempt."),
  continueOnError: z.boolean().describe("Its failure is recorded but not counted.").exactOptional(),
  outputs: texts.describe("Templates by output name.").exactOptional(),
  retry: z
    .strictObject({ forMs: milliseconds, everyMs: milliseconds })
    .describe("Repeat until it passes; no attempt starts later than `forMs` after the first.")
    .exactOptional(),
  retries: z
    .int()
    .min(0)
    .describe("Number of attempts after a failed one, without a pause; only in tool tests.")
    .exactOptional(),
  stableForMs: milliseconds.describe("After it passes, it must keep passing for this long.").exactOptional(),
  if: text.describe("The step is skipped unless this holds.").exactOptional(),
  failure: z
    .enum(["hard", "soft"])
    .describe(
      "Only in older formats. `hard`: a failure ends the phase, also in verify. `soft`: a failure, but not an error, does not end setup. Absent: a failure ends only setup.",
    )
    .exactOptional(),
};

/** What a place in a JSON document must be, in the model. */
export const jsonExpectationModel = z
  .strictObject({
    path: text.describe("RFC 9535; a leading `.` or none is taken as `$.`."),
    exists: z.boolean().describe("Whether the path selects anything.").exactOptional(),
    equals: json
      .describe("The expected JSON value; for a path that selects several values, their list.")
      .exactOptional(),
    contains: json.describe("A part of a text, members of a list or an object.").exactOptional(),
    matches: text.describe("A regular expression (RE2) found anywhere in a text.").exactOptional(),
    type: z.enum(["string", "number", "boolean", "array", "object", "null"]).exactOptional(),
    count: z.int().min(0).describe("Number of values that the path selects.").exactOptional(),
    ignorePaths: z.array(text).describe("What `equals` and `contains` ignore.").exactOptional(),
    loose: z.literal(true).describe('Values with equal texts are equal, such as 5 and "5".').exactOptional(),
  })
  .meta({ id: "JsonExpectation", description: "Expectations of a value in a JSON document." });

/** What a text must be, in the model. */
export const textExpectationModel = z
  .strictObject({
    equals: text.describe("The whole text; line ends after the last line are ignored.").exactOptional(),
    contains: z.array(text).exactOptional(),
    matches: z.array(text).describe("Regular expressions (RE2), found anywhere.").exactOptional(),
    json: z
      .array(jsonExpectationModel)
      .describe("The text must be JSON that meets these conditions.")
      .exactOptional(),
  })
  .meta({ id: "TextExpectation", description: "Expectations of a text; all that are given must hold." });

/**
 * What a place in a JSON document must be; every part that is given must hold. Without any, the place must exist. Of a path
 * that can lead to several places, `equals` and `contains` look at the list of the values, `matches` and `type` at each value.
 */
export type JsonExpectation = Model<typeof jsonExpectationModel>;

/** What a text must be; every part that is given must hold. */
export type TextExpectation = Model<typeof textExpectationModel>;

/** Text with at least one character. */
const someText = z.string().regex(/[^]/, { error: "must not be empty" });

/** A name that templates can refer to. */
export const templateName = z.string().regex(/^[A-Za-z_][\w-]*$/, {
  error: "must begin with a letter or _, and go on with letters, digits, _ and -",
});

const outputs = z.record(
  z.string().regex(/^[\w-]+$/, { error: "must be a name of letters, digits, _ and -" }),
  z.string(),
);

/** Environment variables by name. */
export const variables = z.record(
  z.string().regex(/^[A-Za-z_]\w*$/, { error: "must be the name of a variable" }),
  z.string(),
);

const retry = closedObject({
  for: duration.meta({
    description: "How long to repeat after a failed attempt, including attempts that could not run.",
  }),
  every: duration.prefault("1s").meta({ description: "Pause between two attempts." }),
})
  .transform((value) => ({ forMs: value.for, everyMs: value.every }))
  .meta({
    id: "Retry",
    title: "Retry",
    description: "Repeats a step until it passes or the time is up.",
  });

/** What every step may have in a file, but for `timeout`, whose default differs. */
export const commonFields = {
  id: templateName.optional().meta({
    description: "Name for `{steps.ID.outputs.NAME}`; unique in the task.",
    defaultText: "its place, such as `verify[2]`",
  }),
  name: filledText.optional().meta({ description: "Name in reports.", defaultText: "its `id`" }),
  if: filledText.optional().meta({
    description:
      "The step is skipped unless this holds: a text that is not empty, `false` or `0`, or `A == B`, or `A != B`, with spaces around the sign and texts without quotes. There are no other operators.",
    defaultText: "always run",
  }),
  continueOnError: z.boolean().optional().meta({
    description: "`true`: its failure or error is recorded but not counted.",
    defaultText: "`false`; `true` in cleanup",
  }),
  outputs: outputs.optional().meta({
    description: "Values for later steps: templates by name.",
    defaultText: "none",
  }),
  retry: retry.optional().meta({ description: "Try again until it passes.", defaultText: "one attempt" }),
  stableFor: duration.optional().meta({
    description:
      "After it passes, it must keep passing for this time, polled every second or every `retry.every`. If it stops passing, it has failed, or starts again while `retry.for` lasts.",
    defaultText: "passing once is enough",
  }),
};

/** The field `timeout` of a step that has a limit of its own. */
export function timeoutField(limit: string): z.ZodPrefault<typeof duration> {
  return duration.prefault(limit).meta({ description: "Time limit of one attempt." });
}

/** One, or a list with at least one; parses to a list. */
function oneOrMore<S extends z.ZodType>(one: S): z.ZodType<z.output<S>[], z.input<S> | z.input<S>[]> {
  return z.union([one, z.array(one).min(1)]).transform((value) => (Array.isArray(value) ? value : [value]));
}

const jsonExpectation = closedObject({
  path: filledText.meta({
    description: "JSON path (RFC 9535), such as `$.items[0].name`; `.name` and `name` mean `$.name`.",
  }),
  exists: z.boolean().optional().meta({
    description: "Whether the path selects anything.",
    defaultText: "`true`",
  }),
  equals: anyJson.optional().meta({
    description:
      "The expected JSON value. The order of keys does not matter, and numbers are compared by value.",
  }),
  contains: anyJson.optional().meta({
    description: "A part of a text, a member of a list, or members of an object.",
  }),
  matches: someText.optional().meta({
    description: "A regular expression (RE2) found anywhere in the text.",
  }),
  type: z.enum(["string", "number", "boolean", "array", "object", "null"]).optional().meta({
    description: "The type of the value.",
  }),
  count: z.int().min(0).optional().meta({ description: "Number of values that the path selects." }),
  ignorePaths: z.array(filledText).min(1).optional().meta({
    description: "Paths inside the value that `equals` and `contains` ignore on both sides.",
  }),
})
  .refine(
    (value) => value.exists !== false || Object.keys(value).length === 2,
    asWhole("must not have anything beside path when exists is false"),
  )
  .refine(
    (value) => value.ignorePaths === undefined || "equals" in value || "contains" in value,
    asWhole("has ignorePaths, which needs equals or contains"),
  )
  .transform((value): JsonExpectation => withoutUndefined(value))
  .meta({
    id: "JsonExpectation",
    title: "JSON expectation",
    description:
      "Expectations of a value in a JSON document; all that are given must hold. With only the path, the value must exist.",
  });

/** One JSON expectation, or several. */
export const jsonExpectations = oneOrMore(jsonExpectation);

/** The keys of a text expectation. */
export const textParts = {
  equals: z.string().optional().meta({
    description: "The whole text, without trailing line ends.",
  }),
  contains: oneOrMore(someText).optional().meta({ description: "A text that it contains, or several." }),
  matches: oneOrMore(someText).optional().meta({
    description: "A regular expression (RE2) found anywhere in it, or several.",
  }),
  json: jsonExpectations.optional().meta({
    description: "It must be JSON that meets these conditions.",
  }),
};

const textObject = closedObject(textParts)
  .refine((value) => Object.keys(value).length > 0, asWhole("must have equals, contains, matches or json"))
  .transform((value): TextExpectation => withoutUndefined(value))
  .meta({
    minProperties: 1,
    id: "TextExpectation",
    title: "Text expectation",
    description: "Expectations of a text; all that are given must hold.",
  });

/** What a text must be; a text alone is what it must equal. */
export const textExpectation = z
  .union([z.string(), textObject])
  .transform((value): TextExpectation => (typeof value === "string" ? { equals: value } : value));

/**
 * The parameters of a rule about a whole object, which is checked only when every part is valid and all keys are known. The
 * error may depend on the object.
 */
export function asWhole(error: string | ((value: unknown) => string)): z.core.$ZodCustomParams {
  const message =
    typeof error === "string" ? error : ({ input }: { readonly input?: unknown }) => error(input);
  return { error: message, when: ({ issues }) => issues.length === 0 };
}
