import { pathToFileURL } from "node:url";
import { McpvalsError } from "../../core/errors/error.ts";
import { withDeadline } from "../../process/deadline.ts";
import { importFile, importWithJiti } from "./import-file.ts";
import { moduleFailure } from "./module-failure.ts";
import type { SourceText } from "../read/source-text.ts";

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
