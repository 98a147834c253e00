import { fileURLToPath } from "node:url";
import { McpvalsError, type SourceLocation } from "../../core/errors/error.ts";
import { withoutUndefined } from "../../core/formats/json.ts";
import { importModule } from "../../files/import-module.ts";
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
