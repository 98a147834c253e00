import * as nodeModule from "node:module";
import { sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { McpvalsError, type SourceLocation } from "../../core/errors/error.ts";
import { withoutUndefined } from "../../core/formats/json.ts";
import { withDeadline } from "../../process/deadline.ts";
import { failureOf, type SourceText } from "./document.ts";
import { maskSecrets } from "../secrets.ts";

interface LoadModuleOptions {
  /** The file as messages name it. */
  readonly shown: string;
  readonly source: SourceText;
  /** Longest that loading and, for a function, calling may take together, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** What a config that is a program gives. */
export interface LoadedModule {
  readonly value: unknown;
  /** Absolute paths of the files that it imports, directly or not, except those of packages. */
  readonly imports: readonly string[];
}

/**
 * Runs a TypeScript or JavaScript config and gives what it exports: its default export, or the one named `config`; a
 * function is called. Node runs the file itself where it can; what it refuses (enums, imports without an ending) goes
 * through jiti. Throws `config/syntax` with the place, and `config/unreadable`.
 */
export async function loadModule(file: string, options: LoadModuleOptions): Promise<LoadedModule> {
  const { shown, timeoutMs: ms, signal, source } = options;
  const files = new Set([file]);
  const evaluate = async (): Promise<unknown> => {
    try {
      const exported = exportOf(await importModule(file, source.text, files));
      if (exported === undefined) {
        throw new McpvalsError("config/unreadable", `${shown} exports no config`, {
          location: { file: shown },
          hint: `Give it a default export: export default defineConfig({ … }). To check a server's program: mcpvals check -- node ${shown}`,
        });
      }
      return typeof exported === "function" ? ((await exported()) as unknown) : exported;
    } catch (cause) {
      throw cause instanceof McpvalsError ? cause : moduleFailure(cause, file, options);
    }
  };
  const value = await withDeadline(evaluate, {
    ms,
    ...withoutUndefined({ signal }),
    onTimeout: () =>
      new McpvalsError("config/unreadable", `${shown} did not give its config within ${ms / 1000} s`, {
        location: { file: shown },
        hint: "Something that the file waits for never ends.",
      }),
  });
  return { value, imports: [...files].filter((path) => path !== file) };
}

interface ConfigModule {
  readonly default?: unknown;
  readonly config?: unknown;
}

function exportOf(module: unknown): unknown {
  const { default: exported, config } = module as ConfigModule;
  const isCompiled = typeof exported === "object" && exported !== null && "__esModule" in exported;
  if (!isCompiled) return exported ?? config;
  // A module that was compiled to CommonJS has its default export one level deeper.
  const inner = exported as ConfigModule;
  return inner.default ?? inner.config ?? config;
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

/** By path of a config: how often it was imported, and the files that were, itself among them. */
const imported = new Map<string, { readonly version: number; readonly files: ReadonlySet<string> }>();

/**
 * Imports a module with Node, or else with jiti, which knows all of TypeScript and resolves imports as bundlers do. Adds the paths of the
 * files that it imports to `files`; those that have changed since an earlier import are read again.
 */
async function importModule(file: string, text: string, files: Set<string>): Promise<unknown> {
  const earlier = imported.get(file) ?? { version: 0, files };
  const version = earlier.version + 1;
  imported.set(file, { version, files });
  const { cache } = nodeModule.createRequire(import.meta.url);
  for (const path of earlier.files) delete cache[path];
  try {
    return await importFile(file, { text, version, files });
  } catch (error) {
    // Node says best which export is missing; to jiti it would only be undefined.
    if (!(error instanceof Error) || error.message.includes("does not provide an export")) throw error;
    if (error.name !== "SyntaxError" && !("code" in error && refusals.includes(error.code))) throw error;
  }
  const { createJiti } = await import("jiti");
  for (const path of files) delete cache[path];
  const others = new Set(Object.keys(cache));
  try {
    return await createJiti(import.meta.url, { fsCache: false }).import(file);
  } finally {
    for (const path of Object.keys(cache)) if (!others.has(path) && isOwn(path)) files.add(path);
  }
}

function isOwn(path: string): boolean {
  return !path.split(sep).includes("node_modules");
}

interface ImportOptions {
  readonly text: string;
  /** How often the file was imported, with this import. */
  readonly version: number;
  readonly files: Set<string>;
}

/**
 * Imports a module with Node's own loader. A file that is written as an ES module is taken for one whatever the
 * `package.json` above it says, so that a config works in any project and no warning about its type is printed.
 */
async function importFile(file: string, { text, version, files }: ImportOptions): Promise<unknown> {
  // Node imports a URL once; a file that may have changed since then needs another one.
  const versioned = (url: string): string => (version === 1 ? url : `${url}?version=${version}`);
  const root = versioned(pathToFileURL(file).href);
  // Node 22.13 and 22.14 do not have it; there the package.json decides, and imports are not known.
  if (!("registerHooks" in nodeModule)) return import(root);
  const isModule = /^\s*(?:import|export)\b/m.test(text);
  const format = /\.m?ts$/.test(file) ? "module-typescript" : "module";
  const hooks = nodeModule.registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      const path = pathOf(found.url);
      const importer = pathOf(context.parentURL);
      if (path === undefined || importer === undefined || !files.has(importer) || !isOwn(path)) return found;
      files.add(path);
      return { ...found, url: versioned(pathToFileURL(path).href) };
    },
    load: (target, context, next) =>
      next(target, isModule && target === root ? { ...context, format } : context),
  });
  try {
    return (await import(root)) as unknown;
  } finally {
    hooks.deregister();
  }
}

function pathOf(url: string | undefined): string | undefined {
  return url?.startsWith("file:") === true ? fileURLToPath(url) : undefined;
}

/** The error for a config that is a program and did not run to its end; `cause` is what it threw. */
function moduleFailure(cause: unknown, file: string, { shown, source }: LoadModuleOptions): McpvalsError {
  const error = cause instanceof Error ? cause : undefined;
  // jiti's message: `ParseError: MESSAGE`, then `FILE:LINE:COLUMN` with columns that count from 0.
  const syntax = /^ParseError: ([^\n]*)\n\s*(.+):(\d+):(\d+)\s*$/m.exec(error?.message ?? "");
  if (syntax !== null) {
    const [, message = "", place, line, column] = syntax;
    const at = { line: Number(line), column: Number(column) + 1 };
    const frame = place === file ? source.frame(at) : undefined;
    const location = { file: place === file ? shown : String(place), ...at };
    const masked = frame === undefined ? undefined : maskSecrets(frame);
    const diagnostic = { code: "config/syntax" as const, message: message.trim(), location, frame: masked };
    return failureOf([withoutUndefined(diagnostic)], cause);
  }
  const code = error !== undefined && "code" in error ? error.code : undefined;
  const missing =
    code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND"
      ? /Cannot find (?:package|module) '([^']+)'/.exec(error?.message ?? "")?.[1]
      : undefined;
  if (missing !== undefined) {
    const name = JSON.stringify(missing);
    return new McpvalsError("config/unreadable", `${shown} imports ${name}, which was not found`, {
      location: { file: shown },
      cause,
      hint: /^mcpvals(?:$|\/)/.test(missing)
        ? "mcpvals is not installed beside the config: run npm install --save-dev mcpvals there, or leave out the import and export a plain object; defineConfig only helps editors."
        : `Install ${name} beside the config, or fix the import.`,
    });
  }
  const text =
    typeof cause === "string" ? JSON.stringify(cause) : `a value that is not an Error (${typeof cause})`;
  const thrown = error === undefined ? text : `${error.name}: ${error.message}`;
  const location = { file: shown, ...placeIn(error?.stack ?? "", file) };
  return new McpvalsError("config/unreadable", `${shown} threw ${thrown}`, { location, cause });
}

/** The innermost place inside a file that a stack names. */
function placeIn(stack: string, file: string): Pick<SourceLocation, "line" | "column"> {
  const calls = stack.matchAll(/^\s*at .*?((?:file:\/\/)?[^\s()]+):(\d+):(\d+)\)?$/gm);
  for (const [, place = "", line, column] of calls) {
    const path = place.startsWith("file://") ? fileURLToPath(place) : place;
    if (path === file) return { line: Number(line), column: Number(column) };
  }
  return {};
}
