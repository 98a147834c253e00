import { type Diagnostic, McpvalsError, type SourceLocation } from "../core/errors/error.ts";
import { codeFrame, formatLocation } from "../core/errors/render.ts";
import { withoutUndefined } from "../core/formats/json.ts";
import { type Locate, placeProblems, type Problem } from "../core/formats/problem.ts";
import { createRedactor, type Secret } from "../core/trace/redact.ts";
import { maskSecrets } from "./secrets.ts";

/** The text of a file, and where its lines are. */
export class SourceText {
  /** The file as messages name it. */
  readonly file: string;
  readonly text: string;
  #lineStarts: number[] | undefined;

  constructor(file: string, text: string) {
    this.file = file;
    this.text = text;
  }

  /** The place of an offset, with the key path when one is given. Columns count UTF-16 units. */
  location(offset: number, path = ""): SourceLocation {
    const starts = this.#starts();
    let [low, high] = [0, starts.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((starts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    const column = offset - (starts[low] ?? 0) + 1;
    return { file: this.file, line: low + 1, column, ...(path === "" ? {} : { path }) };
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
    return this.text.slice(start, next === undefined ? undefined : next - 1).replace(/\r$/, "");
  }

  #starts(): readonly number[] {
    this.#lineStarts ??= [0, ...Array.from(this.text.matchAll(/\n/g), ({ index }) => index + 1)];
    return this.#lineStarts;
  }
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

  /** The same with places in the text. */
  in(source: SourceText): McpvalsError {
    return failureOf(
      this.problems.map(({ offset, message, hint }) => {
        const location = source.location(offset);
        const frame = source.frame(location);
        const masked = frame === undefined ? undefined : maskSecrets(frame);
        return withoutUndefined({ code: "config/syntax" as const, message, location, hint, frame: masked });
      }),
    );
  }
}

/** One error for all problems of a file. Its code is that of the first problem. */
export function failureOf(diagnostics: readonly Diagnostic[], cause?: unknown): McpvalsError {
  const [first] = diagnostics;
  if (first === undefined) throw new Error("a failure without a problem", { cause });
  const { code, message, location, hint } = first;
  const where = location === undefined ? "" : `${formatLocation(location)}: `;
  const more = diagnostics.length === 1 ? "" : ` (and ${diagnostics.length - 1} more)`;
  const details = withoutUndefined({ diagnostics, location, hint, cause });
  return new McpvalsError(code, `${where}${message}${more}`, details);
}

/** An error for one problem of a file, with the lines around it. */
export function fileError(problem: Problem, { locate, source }: Placed, file: string): McpvalsError {
  const { code, message, hint } = problem;
  const location = locate(problem) ?? { file };
  const diagnostic = withoutUndefined({ code, message, location, hint, frame: source?.frame(location) });
  return new McpvalsError(code, message, { diagnostics: [diagnostic] });
}

/** A document whose parts have places. */
interface Placed {
  readonly locate: Locate;
  /** Absent when a program made the document, so that no text stands for its parts. */
  readonly source?: SourceText;
}

/** Maximum number of problems that are shown with the lines around them. */
const mostFrames = 100;

/** The problems of all files that were read, in the order in which they were found. */
export class FileProblems {
  /** By what they say of which place: what is wrong with one place for several tasks is reported once. */
  readonly #diagnostics = new Map<unknown, Diagnostic>();
  readonly #sources = new Map<string, SourceText>();
  #cause: unknown;

  get found(): boolean {
    return this.#diagnostics.size > 0;
  }

  /** Adds problems; the lines around those in its file are taken from the text, also of later ones. */
  add(diagnostics: readonly Diagnostic[], source?: SourceText): void {
    if (source !== undefined) this.#sources.set(source.file, source);
    for (const diagnostic of diagnostics) {
      const { code, message, location } = diagnostic;
      const key = location === undefined ? diagnostic : JSON.stringify([code, message, location]);
      if (!this.#diagnostics.has(key)) this.#diagnostics.set(key, diagnostic);
    }
  }

  /** Adds problems of a document. */
  addPlaced(problems: readonly Problem[], { locate, source }: Placed): void {
    this.add(placeProblems(problems, locate), source);
  }

  /** Adds what an error of kind `usage` stands for. Throws any other one. */
  addError(error: unknown): void {
    if (!(error instanceof McpvalsError) || error.kind !== "usage") throw error;
    const { code, message, details } = error;
    this.#cause ??= error.cause;
    const { location, hint, diagnostics = [withoutUndefined({ code, message, location, hint })] } = details;
    this.add(diagnostics);
  }

  /** Throws one McpvalsError for all problems, without anything secret; returns when there are none. */
  throwIfAny(secrets: readonly Secret[] = []): void {
    const error = this.asError(secrets);
    if (error !== undefined) throw error;
  }

  /** One McpvalsError for all problems, without anything secret; undefined when there are none. */
  asError(secrets: readonly Secret[]): McpvalsError | undefined {
    if (!this.found) return undefined;
    const redact = createRedactor(secrets);
    const values = secrets.map((secret) => secret.value);
    const framed = [...this.#diagnostics.values()].map((diagnostic, index) => {
      const { location, frame = location && this.#sources.get(location.file)?.frame(location) } = diagnostic;
      const shown = frame === undefined || index >= mostFrames ? undefined : maskSecrets(frame, values);
      return withoutUndefined({ ...redact(diagnostic), frame: shown });
    });
    return failureOf(framed, this.#cause);
  }
}
