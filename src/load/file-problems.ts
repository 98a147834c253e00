import { type Diagnostic, McpvalsError } from "../core/errors/error.ts";
import { formatLocation } from "../core/errors/render.ts";
import { createRedactor, type Secret } from "../core/trace/redact.ts";
import type { SourceText } from "./read/source-text.ts";
import { maskSecrets } from "./secrets/secret-names.ts";

/** One error for all problems of a file. Its code is that of the first problem. */
export function failureOf(diagnostics: readonly Diagnostic[], cause?: unknown): McpvalsError {
  const [first] = diagnostics;
  if (first === undefined)
    return new McpvalsError("internal/unexpected", "a failure without a problem", { cause });
  const where = first.location === undefined ? "" : `${formatLocation(first.location)}: `;
  const more = diagnostics.length === 1 ? "" : ` (and ${diagnostics.length - 1} more)`;
  return new McpvalsError(first.code, `${where}${first.message}${more}`, {
    diagnostics,
    ...(first.location === undefined ? {} : { location: first.location }),
    ...(first.hint === undefined ? {} : { hint: first.hint }),
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Problems that get the lines around them; a file with more is not mended by reading on. */
const mostFrames = 100;

/** The problems of all files that were read, in the order in which they were found. */
export class FileProblems {
  readonly #diagnostics: Diagnostic[] = [];
  readonly #reported = new Set<string>();
  readonly #sources = new Map<string, SourceText>();
  #cause: unknown;

  get found(): boolean {
    return this.#diagnostics.length > 0;
  }

  /**
   * Adds problems; the lines around those in its file are taken from the text, also of later ones. What is wrong with one place
   * for several tasks is reported once.
   */
  add(diagnostics: readonly Diagnostic[], source?: SourceText): void {
    if (source !== undefined) this.#sources.set(source.file, source);
    for (const diagnostic of diagnostics) {
      const { code, message, location } = diagnostic;
      const what = JSON.stringify([code, message, location]);
      if (location !== undefined && this.#reported.has(what)) continue;
      this.#reported.add(what);
      this.#diagnostics.push(diagnostic);
    }
  }

  /** Adds what an error of kind `usage` stands for. Throws any other one. */
  addError(error: unknown): void {
    if (!(error instanceof McpvalsError) || error.kind !== "usage") throw error;
    const { code, message, details } = error;
    const { location, hint } = details;
    this.#cause ??= error.cause;
    const own: Diagnostic = {
      code,
      message,
      ...(location === undefined ? {} : { location }),
      ...(hint === undefined ? {} : { hint }),
    };
    this.add(details.diagnostics ?? [own]);
  }

  /** Adds all problems of another collection. */
  addAll(others: FileProblems): void {
    this.add(others.#diagnostics);
    for (const source of others.#sources.values()) this.add([], source);
    this.#cause ??= others.#cause;
  }

  /** Throws one McpvalsError for all problems, without anything secret; returns when there are none. */
  throwIfAny(secrets: readonly Secret[]): void {
    const error = this.asError(secrets);
    if (error !== undefined) throw error;
  }

  /** One McpvalsError for all problems, without anything secret; undefined when there are none. */
  asError(secrets: readonly Secret[]): McpvalsError | undefined {
    if (!this.found) return undefined;
    const redact = createRedactor(secrets);
    const values = secrets.map((secret) => secret.value);
    const framed = this.#diagnostics.map((diagnostic, index) => {
      const frame = index < mostFrames ? this.#frameOf(diagnostic) : undefined;
      return { ...redact(diagnostic), ...(frame === undefined ? {} : { frame: maskSecrets(frame, values) }) };
    });
    return failureOf(framed, this.#cause);
  }

  #frameOf({ location, frame }: Diagnostic): string | undefined {
    if (frame !== undefined || location === undefined) return frame;
    return this.#sources.get(location.file)?.frame(location);
  }
}
