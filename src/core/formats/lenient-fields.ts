import * as z from "zod";
import { McpvalsError } from "../errors/error.ts";
import { compilePattern } from "../templates/pattern.ts";
import { parseGoDuration } from "./duration.ts";

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
    description: 'A length of time above zero with its unit, such as `"300ms"`, `"90s"`, `"1h30m"`.',
    examples: ["30s", "5m", "1h30m"],
  });

/** A regular expression of RE2's syntax. */
export const patternText = z.string().refine((text) => reasonAgainst(text) === undefined, {
  error: (issue) => `is no regular expression (RE2): ${reasonAgainst(issue.input) ?? ""}`,
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

/** Texts by name. */
export const texts = z.record(z.string(), z.string());
