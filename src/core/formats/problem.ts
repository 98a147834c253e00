import type { ErrorCode } from "../errors/catalogue.ts";
import type { Diagnostic, SourceLocation } from "../errors/error.ts";
import { formatLocation } from "../errors/format-location.ts";
import type { KeyPath } from "./key-path.ts";

/** Something wrong with a document, placed by its key path; a {@link Diagnostic} before it has a file and a line. */
export interface Problem {
  readonly code: ErrorCode;
  readonly message: string;
  readonly path: KeyPath;
  /** What the message points at: the key that ends the path, or the value behind it. */
  readonly at: "key" | "value";
  /** The text inside the value that the message is about. */
  readonly text?: string;
  /** Another place that has to do with it, such as the first of two equal names. */
  readonly alsoAt?: KeyPath;
  readonly hint?: string;
  /** Problems that have this in common are told once, with the places of all. */
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
