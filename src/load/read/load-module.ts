import * as nodeModule from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { McpvalsError, type SourceLocation } from "../../core/errors/error.ts";
import { withDeadline } from "../../process/deadline.ts";
import { failureOf } from "../file-problems.ts";
import { maskSecrets } from "../secrets/secret-names.ts";
import type { SourceText } from "./source-text.ts";

export interface LoadModuleOptions {
  /** The file as messages name it. */
  readonly shown: string;
  readonly source: SourceText;
  /** Longest that loading and, for a function, calling may take together, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/**
 * Runs a TypeScript or JavaScript config and gives what it exports: its default export, or the one named `config`; a
 * function is called. Node runs the file itself where it can; what it refuses (enums, imports without an ending) goes
 * through jiti. Throws `config/syntax` with the place, and `config/unreadable`.
 */
export async function loadModule(file: string, options: LoadModuleOptions): Promise<unknown> {
  const { shown, timeoutMs: ms, signal } = options;
  return withDeadline(() => evaluate(file, options), {
    ms,
    ...(signal === undefined ? {} : { signal }),
    onTimeout: () =>
      new McpvalsError("config/unreadable", `${shown} did not give its config within ${ms / 1000} s`, {
        location: { file: shown },
        hint: "Something that the file waits for never ends.",
      }),
  });
}

async function evaluate(file: string, options: LoadModuleOptions): Promise<unknown> {
  const exported = exportOf(await importAnyhow(file, options));
  if (exported === undefined) {
    throw new McpvalsError("config/unreadable", `${options.shown} exports no config`, {
      location: { file: options.shown },
      hint: "Give it a default export: export default defineConfig({ … }).",
    });
  }
  if (typeof exported !== "function") return exported;
  try {
    return (await exported()) as unknown;
  } catch (cause) {
    throw moduleFailure(cause, { file, ...options });
  }
}

async function importAnyhow(file: string, options: LoadModuleOptions): Promise<unknown> {
  try {
    return await importFile(pathToFileURL(file).href, options.source.text);
  } catch (cause) {
    if (!mayBeJitis(cause)) throw moduleFailure(cause, { file, ...options });
  }
  try {
    return await importWithJiti(file);
  } catch (cause) {
    throw moduleFailure(cause, { file, ...options });
  }
}

/** Codes of what Node refuses before a module runs, and jiti may accept. */
const refusals: readonly unknown[] = [
  "ERR_UNKNOWN_FILE_EXTENSION",
  "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX",
  "ERR_INVALID_TYPESCRIPT_SYNTAX",
  "ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING",
  "ERR_MODULE_NOT_FOUND",
  "ERR_UNSUPPORTED_DIR_IMPORT",
  "ERR_IMPORT_ATTRIBUTE_MISSING",
];

function mayBeJitis(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  // Node says best which export is missing; to jiti it would only be undefined.
  if (error.message.includes("does not provide an export")) return false;
  return error.name === "SyntaxError" || ("code" in error && refusals.includes(error.code));
}

function exportOf(module: unknown): unknown {
  if (typeof module !== "object" || module === null) return undefined;
  const { default: byDefault, config } = module as { readonly default?: unknown; readonly config?: unknown };
  return unwrap(byDefault) ?? config;
}

/** A module that was compiled to CommonJS has its default export one level deeper. */
function unwrap(exported: unknown): unknown {
  if (typeof exported !== "object" || exported === null || !("__esModule" in exported)) return exported;
  const { default: inner, config } = exported as { readonly default?: unknown; readonly config?: unknown };
  return inner ?? config;
}

/**
 * Imports a module by URL with Node's own loader. A file that is written as an ES module is taken for one whatever the
 * `package.json` above it says, so that a config works in any project and no warning about its type is printed.
 */
async function importFile(url: string, text: string): Promise<unknown> {
  // Node 22.13 and 22.14 do not have it; there the package.json decides.
  if (!("registerHooks" in nodeModule) || !/^\s*(?:import|export)\b/m.test(text)) return import(url);
  const format = /\.m?ts$/.test(url) ? "module-typescript" : "module";
  const hooks = nodeModule.registerHooks({
    load: (target, context, next) => next(target, target === url ? { ...context, format } : context),
  });
  try {
    return (await import(url)) as unknown;
  } finally {
    hooks.deregister();
  }
}

/** Imports a module with jiti, which knows all of TypeScript and resolves imports as bundlers do. */
async function importWithJiti(file: string): Promise<unknown> {
  const { createJiti } = await import("jiti");
  return createJiti(import.meta.url, { fsCache: false }).import(file);
}

export interface FailedModule {
  /** Absolute path of the config. */
  readonly file: string;
  /** The same as messages name it. */
  readonly shown: string;
  readonly source: SourceText;
}

/** The error for a config that is a program and did not run to its end; `cause` is what it threw. */
function moduleFailure(cause: unknown, failed: FailedModule): McpvalsError {
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
        : `Install ${JSON.stringify(name)} beside the config, or fix the import.`,
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
  return typeof cause === "string" ? JSON.stringify(cause) : `a value that is not an Error (${typeof cause})`;
}
