import { type Diagnostic, McpvalsError, type SourceLocation } from "../core/errors/error.ts";
import { withoutUndefined } from "../core/formats/json.ts";
import type { Json } from "../core/formats/model.ts";
import { type Locate, placeProblems, type Problem } from "../core/formats/problem.ts";
import { readJson } from "../core/formats/read-json.ts";
import { createRedactor, type Secret } from "../core/trace/redact.ts";
import { type ConfigDocument, failureOf, type SourceText } from "./read/document.ts";
import { maskSecrets } from "./secrets.ts";

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

  /** Adds what an error of kind `usage` stands for, at `place` if it does not say where. Throws any other one. */
  addError(error: unknown, place?: SourceLocation): void {
    if (!(error instanceof McpvalsError) || error.kind !== "usage") throw error;
    const { code, message, details } = error;
    this.#cause ??= error.cause;
    const {
      location = place,
      hint,
      diagnostics = [withoutUndefined({ code, message, location, hint })],
    } = details;
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

/**
 * A document's value as plain JSON of a size and depth that can be worked with; undefined, with the reason among the
 * problems, when it is not. `subject` is what the document is, for messages.
 */
export function plainDocument(
  document: ConfigDocument,
  subject: string,
  problems: FileProblems,
): Json | undefined {
  const found: Problem[] = [];
  const json = readJson(document.value, { subject, problems: found, text: (text) => text });
  problems.addPlaced(found, document);
  return found.length === 0 ? json : undefined;
}
