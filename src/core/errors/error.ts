import { type ErrorCode, errorKinds, type ErrorKind } from "./catalogue.ts";

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

/** An error as it stands in a trace or a result: plain JSON. */
export interface SerializedError {
  readonly code: ErrorCode;
  readonly kind: ErrorKind;
  readonly message: string;
  readonly hint?: string;
  readonly detail?: string;
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

const mostCauses = 5;

/** An error and what caused it, outermost first; causes can go in a circle. */
function causesOf(error: unknown): unknown[] {
  const chain: unknown[] = [];
  for (let cause = error; cause !== undefined && chain.length < mostCauses;) {
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
