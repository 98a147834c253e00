import type * as z from "zod";
import type { ErrorCode } from "./catalogue.ts";
import { type Diagnostic, formatLocation, type SourceLocation } from "./error.ts";
import { listNames } from "./did-you-mean.ts";
import { formatKeyPath, type KeyPath, withoutUndefined } from "./json.ts";

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

/** What was read, or why it was refused. */
export type ParseResult<T, Why = { readonly diagnostics: readonly Diagnostic[] }> =
  | ({ readonly ok: true } & T)
  | ({ readonly ok: false } & Why);

/** What a problem has besides its message and place. Defaults: the code `config/invalid-value`, at the value. */
export type ProblemDetails = {
  readonly [K in Exclude<keyof Problem, "message" | "path">]?: Problem[K] | undefined;
};

export function problem(path: KeyPath, message: string, details: ProblemDetails = {}): Problem {
  const { code = "config/invalid-value", at = "value", ...rest } = details;
  return { code, message, path, at, ...withoutUndefined(rest) };
}

/** A problem whose message begins with its path, and goes on with `after`. */
export function problemAt(path: KeyPath, after: string, details?: ProblemDetails): Problem {
  return problem(path, afterPath(path, after), details);
}

export interface NamePlace {
  readonly name: string;
  readonly path: KeyPath;
}

/** The names that stand at an earlier place too, with that of the first. */
export function repeatedNames(
  places: readonly NamePlace[],
): readonly (NamePlace & { readonly first: KeyPath })[] {
  const known = new Map<string, KeyPath>();
  return places.flatMap(({ name, path }) => {
    const first = known.get(name);
    if (first === undefined) known.set(name, path);
    return first === undefined ? [] : [{ name, path, first }];
  });
}

/** A sentence that begins with a path. */
export function afterPath(path: KeyPath, after: string): string {
  return `${formatKeyPath(path)}${after.startsWith(":") ? "" : " "}${after}`;
}

/** A syntax error in a text. */
export interface SyntaxProblem {
  readonly offset: number;
  readonly message: string;
  readonly hint?: string;
}

/** Offsets of a value in a text, and of the key in front of it. */
export interface Offsets {
  readonly key?: number | undefined;
  readonly value: number;
  /** Where the value ends, when that is known. */
  readonly end?: number | undefined;
}

/** Offsets of what a path leads to, or of the innermost thing around it that exists. */
export type FindOffsets = (path: KeyPath) => Offsets & { readonly found: boolean };

/** Finds a place in the text that a document was read from. */
export type Locate = (place: Pick<Problem, "path" | "at" | "text">) => SourceLocation | undefined;

/** Gives a problem its place in the file. */
function placeProblem(found: Problem, locate: Locate): Diagnostic {
  const { code, message, alsoAt } = found;
  const location = locate(found);
  const other = alsoAt === undefined ? undefined : locate({ path: alsoAt, at: "value" });
  const otherPlace = other?.line === undefined ? [] : [`The other is at ${formatLocation(other)}.`];
  const hint = [...otherPlace, ...(found.hint === undefined ? [] : [found.hint])].join(" ") || undefined;
  return withoutUndefined({ code, message, location, hint });
}

/** Gives problems their places, and puts them in the order of the file when `locate` knows lines. */
export function placeProblems(problems: readonly Problem[], locate: Locate): Diagnostic[] {
  const placed = problems
    .map((each) => ({ diagnostic: placeProblem(each, locate), key: each.sameAs ?? each }))
    .toSorted(
      ({ diagnostic: { location: a } }, { diagnostic: { location: b } }) =>
        (a?.line ?? 0) - (b?.line ?? 0) || (a?.column ?? 0) - (b?.column ?? 0),
    );
  return [...Map.groupBy(placed, ({ key }) => key).values()].map(withOthers);
}

/** The first of some equal problems, with the places of the others. */
function withOthers(same: readonly { readonly diagnostic: Diagnostic }[]): Diagnostic {
  const [first, ...others] = same.map(({ diagnostic }) => diagnostic) as [Diagnostic, ...Diagnostic[]];
  if (others.length === 0) return first;
  const lines = [...new Set(others.flatMap(({ location }) => location?.line ?? []))].map(String);
  const where = lines.length === 0 ? "" : `, on line${lines.length === 1 ? "" : "s"} ${listNames(lines)}`;
  const also = `It is the same in ${others.length} other place${others.length === 1 ? "" : "s"}${where}.`;
  return { ...first, hint: first.hint === undefined ? also : `${first.hint} ${also}` };
}

export interface Validated<T> {
  /** Absent when there are issues. */
  readonly data?: T;
  readonly issues: readonly z.core.$ZodIssue[];
}

/** Maximum number of problems reported at once; a file with more has the same mistake many times. */
export const maxProblems = 1000;

/** Checks a document, or a part of one, against a schema. */
export function validate<S extends z.ZodType>(schema: S, document: unknown): Validated<z.output<S>> {
  // A document is parsed once: compiling the schema first would cost more than it saves.
  const parsed = schema.safeParse(document, { jitless: true });
  return parsed.success ? { data: parsed.data, issues: [] } : { issues: parsed.error.issues };
}
