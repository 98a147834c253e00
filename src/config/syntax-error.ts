import type { Diagnostic } from "../core/errors/error.ts";
import type { SourceText } from "./source-text.ts";

/** Something in a text that breaks its format. */
export interface SyntaxProblem {
  readonly offset: number;
  readonly message: string;
  readonly hint?: string;
}

/** A text that is not well-formed; it carries everything that is wrong with it. */
export class SyntaxProblems extends Error {
  readonly problems: readonly SyntaxProblem[];

  constructor(problems: readonly SyntaxProblem[]) {
    super(problems[0]?.message ?? "syntax error");
    this.problems = problems;
  }
}

/** Gives a syntax problem its place in the file. */
export function syntaxDiagnostic(source: SourceText, problem: SyntaxProblem): Diagnostic {
  const { offset, message, hint } = problem;
  const location = source.location(offset);
  return { code: "config/syntax", message, location, ...(hint === undefined ? {} : { hint }) };
}
