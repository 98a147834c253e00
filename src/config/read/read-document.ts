import { readFile, stat } from "node:fs/promises";
import { extname } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { formatKeyPath } from "../../core/formats/key-path.ts";
import type { ConfigDocument } from "./document.ts";
import { configExtensions } from "../find-config.ts";
import { jsonDocument } from "./json-document.ts";
import { loadModule } from "../module/load-module.ts";
import { SourceText } from "./source-text.ts";
import { syntaxFailure, SyntaxProblems } from "./syntax-problems.ts";
import { yamlDocument } from "./yaml-document.ts";

/** Largest files that are read, in bytes: more would take longer than anyone wants to wait. */
const largest = { json: 4 * 1024 * 1024, yaml: 512 * 1024 };

export interface ReadDocumentOptions {
  /** The file as messages name it. */
  readonly shown: string;
  /** Longest that a config that is a program may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** Reads a config file of any kind. Throws McpvalsError: `config/unreadable`, `config/syntax`, `config/invalid-value`. */
export async function readDocument(file: string, options: ReadDocumentOptions): Promise<ConfigDocument> {
  const { shown } = options;
  switch (extname(file).slice(1).toLowerCase()) {
    case "json":
      return parseWith(jsonDocument, await readSource(file, shown, largest.json));
    case "yaml":
    case "yml":
      return parseWith(yamlDocument, await readSource(file, shown, largest.yaml));
    case "ts":
    case "mts":
    case "js":
    case "mjs":
      return {
        value: await loadModule(file, { ...options, source: await readSource(file, shown, Infinity) }),
        locate: ({ path }) => ({ file: shown, ...(path.length === 0 ? {} : { path: formatKeyPath(path) }) }),
      };
    default:
      throw new McpvalsError("config/unreadable", `${shown} has an ending that no config has`, {
        location: { file: shown },
        hint: `A config file ends in ${configExtensions.map((extension) => `.${extension}`).join(", ")}.`,
      });
  }
}

async function parseWith(
  parse: (source: SourceText) => ConfigDocument | Promise<ConfigDocument>,
  source: SourceText,
): Promise<ConfigDocument> {
  try {
    return await parse(source);
  } catch (error) {
    throw error instanceof SyntaxProblems ? syntaxFailure(source, error) : error;
  }
}

async function readSource(file: string, shown: string, limit: number): Promise<SourceText> {
  const location = { file: shown };
  const bytes = await readBytes(file, shown, limit);
  try {
    return new SourceText(shown, new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new McpvalsError("config/unreadable", `${shown} is not UTF-8 text`, { location, cause });
  }
}

async function readBytes(file: string, shown: string, limit: number): Promise<Uint8Array> {
  const location = { file: shown };
  try {
    const stats = await stat(file);
    // Reading a pipe could wait without end, and no signal would stop it.
    if (!stats.isFile()) throw new Error("it is not a regular file");
    if (stats.size <= limit) return await readFile(file);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("config/unreadable", `${shown} cannot be read: ${reason}`, { location, cause });
  }
  const message = `${shown} is larger than ${limit / 1024} KiB, the most that such a file may have`;
  throw new McpvalsError("config/unreadable", message, {
    location,
    hint: "Split it, or make it with a program in a .ts or .js file; JSON may be larger than YAML.",
  });
}
