import type { Diagnostic, McpvalsError } from "../../core/errors/error.ts";
import { failureOf } from "../failure.ts";
import { maskSecrets } from "../secrets/mask-secrets.ts";
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

/** The error for a text that is not well-formed, with the places of its problems. */
export function syntaxFailure(source: SourceText, { problems }: SyntaxProblems): McpvalsError {
  return failureOf(problems.map((problem) => syntaxDiagnostic(source, problem)));
}

function syntaxDiagnostic(source: SourceText, problem: SyntaxProblem): Diagnostic {
  const { offset, message, hint } = problem;
  const location = source.location(offset);
  const frame = source.frame(location);
  return {
    code: "config/syntax",
    message,
    location,
    ...(hint === undefined ? {} : { hint }),
    ...(frame === undefined ? {} : { frame: maskSecrets(frame) }),
  };
}
