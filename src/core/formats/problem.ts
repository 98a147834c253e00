import type * as z from "zod";
import type { ErrorCode } from "../errors/catalogue.ts";
import type { Diagnostic, SourceLocation } from "../errors/error.ts";
import { formatLocation } from "../errors/render.ts";
import { listNames } from "./did-you-mean.ts";
import type { KeyPath } from "./json.ts";

/** A problem of a document at a key path; a {@link Diagnostic} before it has a file and a line. */
export interface Problem {
  readonly code: ErrorCode;
  readonly message: string;
  readonly path: KeyPath;
  /** What the message points at: the key that ends the path, or the value behind it. */
  readonly at: "key" | "value";
  /** The text inside the value that the message is about. */
  readonly text?: string;
  /** A related place, such as the first of two equal names. */
  readonly alsoAt?: KeyPath;
  readonly hint?: string;
  /** Problems with the same value are reported once, with all places. */
  readonly sameAs?: string;
}

/** Finds a place in the text that a document was read from. */
export type Locate = (place: Pick<Problem, "path" | "at" | "text">) => SourceLocation | undefined;

/** Gives a problem its place in the file. */
export function placeProblem(problem: Problem, locate: Locate): Diagnostic {
  const { code, message, alsoAt } = problem;
  const location = locate(problem);
  const other = alsoAt === undefined ? undefined : locate({ path: alsoAt, at: "value" });
  const otherPlace = other?.line === undefined ? undefined : `The other is at ${formatLocation(other)}.`;
  const hint = [otherPlace, problem.hint].filter((part) => part !== undefined).join(" ");
  return {
    code,
    message,
    ...(location === undefined ? {} : { location }),
    ...(hint === "" ? {} : { hint }),
  };
}

/** Gives problems their places, and puts them in the order of the file when `locate` knows lines. */
export function placeProblems(problems: readonly Problem[], locate: Locate): Diagnostic[] {
  const placed = problems
    .map((problem): Placed => ({ diagnostic: placeProblem(problem, locate), sameAs: problem.sameAs }))
    .toSorted(
      ({ diagnostic: a }, { diagnostic: b }) =>
        (a.location?.line ?? 0) - (b.location?.line ?? 0) ||
        (a.location?.column ?? 0) - (b.location?.column ?? 0),
    );
  return mergeSame(placed);
}

interface Placed {
  readonly diagnostic: Diagnostic;
  readonly sameAs: string | undefined;
}

function mergeSame(placed: readonly Placed[]): Diagnostic[] {
  const groups = new Map<string | Placed, Diagnostic[]>();
  for (const each of placed) {
    const key = each.sameAs ?? each;
    groups.set(key, [...(groups.get(key) ?? []), each.diagnostic]);
  }
  return [...groups.values()].flatMap(([first, ...others]) =>
    first === undefined ? [] : [others.length === 0 ? first : withOthers(first, others)],
  );
}

function withOthers(first: Diagnostic, others: readonly Diagnostic[]): Diagnostic {
  const lines = new Set(others.flatMap(({ location }) => location?.line ?? []));
  const where =
    lines.size === 0 ? "" : `, on line${lines.size === 1 ? "" : "s"} ${listNames([...lines].map(String))}`;
  const also = `It is the same in ${others.length} other place${others.length === 1 ? "" : "s"}${where}.`;
  return { ...first, hint: first.hint === undefined ? also : `${first.hint} ${also}` };
}

export interface Validated<T> {
  /** Absent when there are issues. */
  readonly data?: T;
  readonly issues: readonly z.core.$ZodIssue[];
}

/** Maximum number of problems reported at once; a file with more has the same mistake many times. */
export const mostProblems = 1000;

/** Checks a document, or a part of one, against a schema. Works for documents with very many mistakes too. */
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
