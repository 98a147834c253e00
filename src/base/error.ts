import { type ErrorCode, type ErrorKind, errorKinds } from "./catalogue.ts";
import type { SerializedError } from "./serialized-error.ts";
import { quotedLines, visibleColumns, visibleLines, visibleText } from "./visible-text.ts";

/** Where in a user's file something is. Lines and columns count from 1. */
export interface SourceLocation {
  readonly file: string;
  readonly line?: number;
  readonly column?: number;
  /** Path of keys inside the document, such as `workflows[0].steps[1].user`. */
  readonly path?: string;
}

/** One thing that is wrong with a file; a file's problems are reported all at once. */
export interface Diagnostic {
  readonly code: ErrorCode;
  readonly message: string;
  readonly location?: SourceLocation;
  readonly hint?: string;
  /** The lines around the place, with a marker, ready to print. */
  readonly frame?: string;
}

/** What an {@link McpvalsError} carries besides its message. */
export interface ErrorDetails {
  /** What the reader can do about it. */
  readonly hint?: string;
  readonly location?: SourceLocation;
  /** Supporting text, such as the tail of a server's stderr. */
  readonly detail?: string;
  /** All problems of a file, when the error stands for several. */
  readonly diagnostics?: readonly Diagnostic[];
  readonly cause?: unknown;
}

/**
 * The one error class of mcpvals. Its code is permanent and listed in the catalogue; the code's kind
 * says who has to act: the user (`usage`), the environment (`environment`), time (`timeout`), or us (`bug`).
 */
export class McpvalsError extends Error {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = "McpvalsError";
    this.code = code;
    this.details = details;
  }

  get kind(): ErrorKind {
    return errorKinds[this.code];
  }
}

/**
 * Turns anything thrown into the JSON form; what is not ours becomes `internal/unexpected`, with its stack and those of
 * its causes as the detail.
 */
export function serializeError(error: unknown): SerializedError {
  if (error instanceof McpvalsError) {
    const { hint, detail } = error.details;
    return {
      code: error.code,
      kind: error.kind,
      message: error.message,
      ...(hint === undefined ? {} : { hint }),
      ...(detail === undefined ? {} : { detail }),
    };
  }
  const stacks = causesOf(error).flatMap((cause) => stackOf(cause) ?? []);
  return {
    code: "internal/unexpected",
    kind: "bug",
    message: messageOf(error),
    ...(stacks.length === 0 ? {} : { detail: stacks.join("\ncaused by: ") }),
  };
}

/** The code of an error of Node, such as `ENOENT`. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}

const maxCauses = 5;

/** An error and what caused it, outermost first; causes can go in a circle. */
export function causesOf(error: unknown): readonly unknown[] {
  const chain: unknown[] = [];
  for (let cause = error; cause !== undefined && chain.length < maxCauses;) {
    chain.push(cause);
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return chain;
}

function stackOf(error: unknown): string | undefined {
  return error instanceof Error ? (error.stack ?? messageOf(error)) : undefined;
}

/** Anything can be thrown, also what cannot be made a text. */
export function messageOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error);
  } catch {
    return "something was thrown that cannot be written as text";
  }
}

const maxShown = 100;

/**
 * Writes an error for people: where it is as `FILE:LINE:COLUMN`, what is wrong, the lines around it, what to do. An
 * error that stands for several problems of a file shows them all.
 */
export function renderError(error: McpvalsError): string {
  const diagnostics = error.details.diagnostics ?? [];
  if (diagnostics.length === 0)
    return renderOne({ code: error.code, message: error.message, ...error.details });
  const shown = diagnostics.slice(0, maxShown).map(renderOne);
  const more = diagnostics.length - shown.length;
  const total = diagnostics.length === 1 ? [] : [`${diagnostics.length} problems`];
  return [...shown, ...(more > 0 ? [`… and ${more} more`] : []), ...total].join("\n\n");
}

function renderOne(problem: Diagnostic & Pick<ErrorDetails, "detail">): string {
  const { code, message, location, hint, frame, detail } = problem;
  const where = location === undefined ? "" : `${visibleText(formatLocation(location))}: `;
  const [first = "", ...others] = withoutColors(withoutEnd(message)).split("\n");
  const head = `${where}error ${visibleText(first)} (${code})`;
  const lines = [
    ...(others.length === 0 ? [] : quotedLines(others.join("\n"))),
    ...(frame === undefined ? [] : visibleLines(frame)),
    ...(detail === undefined || detail === "" ? [] : quotedLines(withoutColors(detail.trimEnd()))),
    ...(hint === undefined ? [] : [`hint: ${visibleText(hint)}`]),
  ];
  return [head, ...lines.map((line) => `  ${line}`.trimEnd())].join("\n");
}

/** The code follows the message, so that one sentence has no full stop. */
function withoutEnd(message: string): string {
  return message.trimEnd().replace(/(?<!\.)\.$/, "");
}

/** Colours of what was copied from elsewhere say nothing where they are written out. */
function withoutColors(text: string): string {
  // eslint-disable-next-line no-control-regex -- these characters are what is looked for
  return text.replaceAll(/\u001b\[[0-?]*[ -/]*[@-~]/g, "");
}

const widest = 100;
const contextBefore = 40;

/**
 * Shows the line of a place, the lines before and after it, and a marker under the place; what does not fit is cut off.
 * `lineAt` gives the text of a line, counting from 1. Gives undefined when the place has no line.
 */
export function codeFrame(
  lineAt: (line: number) => string | undefined,
  place: Pick<SourceLocation, "line" | "column">,
): string | undefined {
  const { line, column = 1 } = place;
  if (line === undefined) return undefined;
  const start = column > widest - 20 ? column - contextBefore : 0;
  const width = String(line + 1).length;
  const rows = [line - 1, line, line + 1].flatMap((number) => {
    const text = number < 1 ? undefined : lineAt(number);
    if (text === undefined) return [];
    const row = `${number === line ? ">" : " "} ${String(number).padStart(width)} | ${cut(text, start)}`;
    if (number !== line) return [row.trimEnd()];
    return [row.trimEnd(), `${" ".repeat(width + 2)} | ${marker(text, column, start)}`];
  });
  return rows.join("\n");
}

function cut(line: string, start: number): string {
  const shown = visibleColumns(line.slice(start, start + widest).replaceAll("\t", " "));
  const hasMore = line.length > start + widest;
  return `${start > 0 ? "…" : ""}${shown}${hasMore ? "…" : ""}`;
}

function marker(line: string, column: number, start: number): string {
  const indent = column - 1 - start + (start > 0 ? 1 : 0);
  const length = Math.min(tokenLength(line, column), Math.max(1, widest - indent));
  return " ".repeat(indent) + "^".repeat(length);
}

/** Length of the variable, quoted text or word at a column; 1 for anything else. */
function tokenLength(line: string, column: number): number {
  const token = /^(?:\$\{[^}]*\}|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,:{}[\]"']+)/.exec(
    line.slice(column - 1, column + 199),
  );
  return token?.[0].length ?? 1;
}

/** Writes a place as compilers do: `FILE:LINE:COLUMN`, as far as it is known. */
export function formatLocation(location: SourceLocation): string {
  const { file, line, column } = location;
  return [file, line, column].filter((part) => part !== undefined).join(":");
}
