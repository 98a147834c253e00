import type * as z from "zod";

export interface Validated<T> {
  /** Absent when there are issues. */
  readonly data?: T;
  readonly issues: readonly z.core.$ZodIssue[];
}

/** Problems that are told at once; a file with more is wrong in one way many times. */
export const mostProblems = 1000;

/** Checks a document, or a part of one, against a schema. Copes with documents that are wrong in a great many places. */
export function validate<S extends z.ZodType>(schema: S, document: unknown): Validated<z.output<S>> {
  try {
    return safeParse(schema, document);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    // zod overflows the stack on some 100,000 issues; the first ones say as much.
    const { issues } = safeParse(schema, beginningOf(document));
    return { issues: issues.length === 0 ? [tooMany] : issues };
  }
}

function safeParse<S extends z.ZodType>(schema: S, document: unknown): Validated<z.output<S>> {
  // A document is parsed once: compiling the schema first would cost more than it saves.
  const parsed = schema.safeParse(document, { jitless: true });
  return parsed.success ? { data: parsed.data, issues: [] } : { issues: parsed.error.issues };
}

const tooMany = {
  code: "custom",
  path: [],
  input: undefined,
  message: "has more mistakes than can be listed",
} satisfies z.core.$ZodIssue;

/** A copy of a document with only the first items of long lists and tables. */
function beginningOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.slice(0, mostProblems).map(beginningOf);
  const members = Object.entries(value).slice(0, mostProblems);
  return Object.fromEntries(members.map(([key, member]) => [key, beginningOf(member)]));
}
