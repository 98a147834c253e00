import * as z from "zod";
import { McpvalsError } from "../base/error.ts";
import { compilePattern } from "../templates/pattern.ts";
import { isTooLong, parseDuration, parseGoDuration } from "../base/duration.ts";
import type { Exact, Json, JsonObject, ReadonlyDeep } from "../base/json.ts";

/** What a schema gives, as the model has it. */
export type Parsed<S extends z.ZodType> = Exact<z.output<S>>;

/** The type of a value of the model: as its schema says, and read-only. */
export type Model<S extends z.ZodType> = ReadonlyDeep<z.output<S>>;

/**
 * An object that refuses keys it does not know; the message of that issue, and of the one for what is not an object, lists the
 * keys that it has.
 */
export function closedObject<S extends z.core.$ZodShape>(shape: S): z.ZodObject<S, z.core.$strict> {
  const keys = Object.keys(shape).join(", ");
  return z.strictObject(shape, {
    error: ({ code }) => (code === "unrecognized_keys" || code === "invalid_type" ? keys : undefined),
  });
}

/** A field that may be absent; `absent` says in the reference what then holds. */
export function optional<S extends z.ZodType>(
  field: S,
  description: string,
  absent?: string,
): z.ZodOptional<S> {
  return field.optional().meta({ description, ...(absent === undefined ? {} : { defaultText: absent }) });
}

/** What the JSON Schema and the reference call a part of a format. */
export function named(
  id: string,
  title: string,
  description: string,
): Record<"id" | "title" | "description", string> {
  return { id, title, description };
}

/** Text that may become the name of a file or an argument of a program, which cannot have NUL characters. */
export const argumentText = z
  .string()
  .refine((text) => !text.includes("\0"), { error: "must not contain a NUL character" });

/** Text with at least one character that is not white space. */
export const filledText = argumentText.regex(/\S/, { error: "must not be blank" });

/** Key of a table whose keys are names. */
export const nameKey = z.string().regex(/\S/, { error: "must not be a blank name" });

/** An address that starts with `http://` or `https://`. */
export const httpUrl = z
  .url({
    protocol: /^https?$/,
    error: (issue) =>
      issue.code === "invalid_format" ? "must be a URL that starts with http:// or https://" : undefined,
  })
  .refine((url) => !hasCredentials(url), {
    error: "must not have a user name or a password: give them in headers or auth",
  });

/** Whether a URL has a user name or a password, with which `fetch` sends nothing. */
export function hasCredentials(url: string): boolean {
  return /^https?:[/\\]*[^/?#\\]*@/i.test(url);
}

/** A length of time: milliseconds, or a text with a unit; parses to milliseconds. */
export const duration = z
  .custom<number | string>((value) => parseDuration(value) !== undefined, {
    error: ({ input }) =>
      isTooLong(input)
        ? "must be at most 24 days"
        : 'must be a duration above zero: milliseconds, or a text such as "500ms", "2s", "5m", "1h"',
  })
  .transform((value) => parseDuration(value) ?? 0)
  .meta({
    id: "Duration",
    title: "Duration",
    description:
      'A duration above zero: a number of milliseconds, or a text with a unit such as `"500ms"`, `"2s"`, `"5m"`, `"1h"`. At most 24 days.',
    type: ["number", "string"],
    examples: ["500ms", "30s", "5m"],
  });

/** Lowest score with which something passes; with 0 nothing could fail. */
export const passingScore = z.number().positive().max(1);

export const anyJson = z.custom<Json>();

/** The same with a JSON Schema of what JSON is. */
export const json: z.ZodType<Json> = z
  .lazy(() =>
    z.union([z.null(), z.boolean(), z.number(), z.string(), z.array(json), z.record(z.string(), json)]),
  )
  .meta({ id: "Json", description: "Any JSON value." });

/** A JSON object whose members are up to the reader. */
export const anyObject = z
  .custom<JsonObject>((value) => typeof value === "object" && value !== null && !Array.isArray(value), {
    error: "must be an object",
  })
  .meta({ type: "object" });

export const variableName = z
  .string()
  .regex(/^[^\s=\0][^=\0]*$/, { error: "must be the name of a variable" });

export const variables = z.record(variableName, argumentText);

/** Names of variables of the environment that a program gets; `true`: all. */
export const variableNames = z.union([z.array(variableName), z.literal(true)]);

/** A length of time with a unit, as Go writes it; parses to milliseconds. */
export const goDuration = z
  .string()
  .refine((text) => parseGoDuration(text) !== undefined, {
    error: 'must be a duration above zero with its unit, such as "300ms", "90s", "1h30m"',
  })
  .transform((text) => parseGoDuration(text) ?? 0)
  .meta({
    id: "GoDuration",
    title: "Duration",
    description: 'A duration above zero with its unit, such as `"300ms"`, `"90s"`, `"1h30m"`.',
    examples: ["30s", "5m", "1h30m"],
  });

/** A regular expression of RE2's syntax. */
export const patternText = z.string().refine((text) => reasonAgainst(text) === undefined, {
  error: (issue) => `is not a valid RE2 pattern: ${reasonAgainst(issue.input) ?? ""}`,
});

function reasonAgainst(pattern: unknown): string | undefined {
  if (typeof pattern !== "string") return undefined;
  try {
    compilePattern(pattern);
    return undefined;
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    const { cause } = error;
    return cause instanceof Error ? cause.message : error.message;
  }
}

/** What an agent's answer or a tool's result must be at the end of a turn. */
export const expectedStateSchema = closedObject({
  contains: optional(
    filledText,
    "Text that it contains, ignoring case; a number at its start or end must be a whole number.",
  ),
  equals: optional(filledText, "The whole text, without white space at its ends."),
  matches: optional(patternText, "A regular expression (RE2) found anywhere in it."),
  wholeWord: optional(z.boolean(), "Whether `contains` must not be a part of longer words.", "`false`"),
  in: optional(
    z.enum(["answer", "toolResult", "any"]),
    "Where: the turn's last assistant message, its last tool result, or either of them.",
    "`any`, with a warning if only the tool result has it",
  ),
})
  .refine(({ contains, equals, matches }) => (contains ?? equals ?? matches) !== undefined, {
    error: "must have contains, equals or matches",
  })
  .refine(({ contains, wholeWord }) => wholeWord === undefined || contains !== undefined, {
    error: "has wholeWord, which needs contains",
  })
  .meta({
    id: "ExpectedState",
    title: "Expected state",
    description: "What must hold at the end of a turn; all parts that are given, of one text.",
  });

/** What a text at the end of a turn must be; all parts must hold. */
export type ExpectedState = Parsed<typeof expectedStateSchema>;

// Parts of the schemas of the model.

export const text = z.string();
export const texts = z.record(text, text);
export const milliseconds = z.number().min(0);
export const turnEnd = z
  .enum(["done", "max-steps", "max-tokens", "context-overflow", "limit", "refused", "cancelled"])
  .describe("How the turn ended: only `done` is the agent's own decision to be finished.");
export const jsonObject: z.ZodType<JsonObject> = z.record(text, json);
