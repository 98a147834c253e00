import { codeFrame } from "../../core/errors/render.ts";
import type { Diagnostic, McpvalsError, SourceLocation } from "../../core/errors/error.ts";
import { failureOf } from "../file-problems.ts";
import { maskSecrets } from "../secrets/secret-names.ts";

/** The text of a file, and where its lines are. */
export class SourceText {
  /** The file as messages name it. */
  readonly file: string;
  readonly text: string;
  #lineStarts: readonly number[] | undefined;

  constructor(file: string, text: string) {
    this.file = file;
    this.text = text;
  }

  /** The place of an offset, with the key path when one is given. Columns count UTF-16 units. */
  location(offset: number, path = ""): SourceLocation {
    const starts = this.#starts();
    const index = lastAtMost(starts, offset);
    const column = offset - (starts[index] ?? 0) + 1;
    return { file: this.file, line: index + 1, column, ...(path === "" ? {} : { path }) };
  }

  /** The lines around a place, ready to print. */
  frame(location: Pick<SourceLocation, "line" | "column">): string | undefined {
    return codeFrame((line) => this.#line(line), location);
  }

  #line(line: number): string | undefined {
    const starts = this.#starts();
    const start = starts[line - 1];
    if (start === undefined || (start === this.text.length && line > 1)) return undefined;
    const next = starts[line];
    const text = this.text.slice(start, next === undefined ? undefined : next - 1);
    return text.endsWith("\r") ? text.slice(0, -1) : text;
  }

  #starts(): readonly number[] {
    this.#lineStarts ??= findLineStarts(this.text);
    return this.#lineStarts;
  }
}

function findLineStarts(text: string): readonly number[] {
  const starts = [0];
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}

/** Index of the last number that is not above the limit, in a sorted list. */
function lastAtMost(sorted: readonly number[], limit: number): number {
  let low = 0;
  let high = sorted.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((sorted[middle] ?? 0) <= limit) low = middle;
    else high = middle - 1;
  }
  return low;
}

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
