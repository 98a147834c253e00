import { fileURLToPath } from "node:url";
import { McpvalsError, type SourceLocation } from "../../core/errors/error.ts";
import { failureOf } from "../failure.ts";
import { maskSecrets } from "../secrets/mask-secrets.ts";
import type { SourceText } from "../read/source-text.ts";

export interface FailedModule {
  /** Absolute path of the config. */
  readonly file: string;
  /** The same as messages name it. */
  readonly shown: string;
  readonly source: SourceText;
}

/** The error for a config that is a program and did not run to its end; `cause` is what it threw. */
export function moduleFailure(cause: unknown, failed: FailedModule): McpvalsError {
  if (cause instanceof McpvalsError) return cause;
  const syntax = syntaxErrorOf(cause);
  if (syntax !== undefined) return syntaxFailure(syntax, cause, failed);
  const { shown } = failed;
  const missing = missingPackage(cause);
  if (missing !== undefined) return missingFailure(missing, cause, shown);
  const location = thrownAt(cause, failed);
  return new McpvalsError("config/unreadable", `${shown} threw ${describe(cause)}`, { location, cause });
}

interface FoundSyntaxError {
  readonly message: string;
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** jiti's message: `ParseError: MESSAGE`, then `FILE:LINE:COLUMN` with columns that count from 0. */
function syntaxErrorOf(cause: unknown): FoundSyntaxError | undefined {
  if (!(cause instanceof Error)) return undefined;
  const found = /^ParseError: ([^\n]*)\n\s*(.+):(\d+):(\d+)\s*$/m.exec(cause.message);
  const [, message = "", file = "", line = "", column = ""] = found ?? [];
  return found === null
    ? undefined
    : { message: message.trim(), file, line: Number(line), column: Number(column) + 1 };
}

function syntaxFailure(error: FoundSyntaxError, cause: unknown, failed: FailedModule): McpvalsError {
  const isConfig = error.file === failed.file;
  const place = { line: error.line, column: error.column };
  const frame = isConfig ? failed.source.frame(place) : undefined;
  const diagnostic = {
    code: "config/syntax" as const,
    message: error.message,
    location: { file: isConfig ? failed.shown : error.file, ...place },
    ...(frame === undefined ? {} : { frame: maskSecrets(frame) }),
  };
  return failureOf([diagnostic], cause);
}

/** The package or file that an import did not find. */
function missingPackage(cause: unknown): string | undefined {
  if (!(cause instanceof Error) || !("code" in cause)) return undefined;
  if (cause.code !== "ERR_MODULE_NOT_FOUND" && cause.code !== "MODULE_NOT_FOUND") return undefined;
  return /Cannot find (?:package|module) '([^']+)'/.exec(cause.message)?.[1];
}

function missingFailure(name: string, cause: unknown, shown: string): McpvalsError {
  const isOurs = name === "mcpvals" || name.startsWith("mcpvals/");
  return new McpvalsError(
    "config/unreadable",
    `${shown} imports ${JSON.stringify(name)}, which was not found`,
    {
      location: { file: shown },
      cause,
      hint: isOurs
        ? "mcpvals is not installed beside the config: run npm install --save-dev mcpvals there, or leave out the import and export a plain object; defineConfig only helps editors."
        : `Install ${JSON.stringify(name)} beside the config, or mend the import.`,
    },
  );
}

/** The innermost place inside the config file that the error's stack names. */
function thrownAt(cause: unknown, failed: FailedModule): SourceLocation {
  const stack = cause instanceof Error ? (cause.stack ?? "") : "";
  for (const [, place = "", line = "", column = ""] of stack.matchAll(
    /^\s*at .*?((?:file:\/\/)?[^\s()]+):(\d+):(\d+)\)?$/gm,
  )) {
    if (pathOf(place) === failed.file)
      return { file: failed.shown, line: Number(line), column: Number(column) };
  }
  return { file: failed.shown };
}

function pathOf(place: string): string {
  return place.startsWith("file://") ? fileURLToPath(place) : place;
}

function describe(cause: unknown): string {
  if (cause instanceof Error) return `${cause.name}: ${cause.message}`;
  return typeof cause === "string" ? JSON.stringify(cause) : `a value that is no Error (${typeof cause})`;
}
