import { extname } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { formatKeyPath } from "../../core/formats/key-path.ts";
import { configExtensions } from "../find-config.ts";
import { loadModule } from "../module/load-module.ts";
import type { ConfigDocument } from "./document.ts";
import { jsonDocument } from "./json-document.ts";
import { readText } from "./read-text.ts";
import type { SourceText } from "./source-text.ts";
import { syntaxFailure, SyntaxProblems } from "./syntax-problems.ts";
import { yamlDocument, type YamlOptions } from "./yaml-document.ts";

/** Largest files that are read, in bytes: more would take longer than anyone wants to wait. */
const largest = { json: 4 * 1024 * 1024, yaml: 512 * 1024, program: 16 * 1024 * 1024 };

export interface ReadDocumentOptions {
  /** The file as messages name it. */
  readonly shown: string;
  /** Longest that a config that is a program may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/**
 * Reads a file of any kind that may hold a config, a task or an Eval. Throws McpvalsError: `config/unreadable`,
 * `config/syntax`, `config/invalid-value`.
 */
export async function readDocument(file: string, options: ReadDocumentOptions): Promise<ConfigDocument> {
  const { shown } = options;
  const ending = endingOf(file);
  switch (ending) {
    case "json":
    case "yaml":
    case "yml":
      return readData(file, shown);
    case "ts":
    case "mts":
    case "js":
    case "mjs":
      return {
        value: await loadModule(file, { ...options, source: readText(file, shown, largest.program) }),
        locate: ({ path }) => ({ file: shown, ...(path.length === 0 ? {} : { path: formatKeyPath(path) }) }),
      };
    default:
      throw new McpvalsError("config/unreadable", `${shown} has an ending that no config has`, {
        location: { file: shown },
        hint: `A config file ends in ${configExtensions.map((extension) => `.${extension}`).join(", ")}; a task or an Eval in .yaml, .yml or .json.`,
      });
  }
}

/** Reads a file of data: JSON when its name says so, else YAML. Throws as `readDocument` does. */
export async function readData(
  file: string,
  shown: string,
  options: YamlOptions = {},
): Promise<ConfigDocument> {
  return parseData(readDataText(file, shown), endingOf(file), options);
}

/** Reads the text of a file of data. Throws McpvalsError `config/unreadable`. */
export function readDataText(file: string, shown: string): SourceText {
  return readText(file, shown, endingOf(file) === "json" ? largest.json : largest.yaml);
}

/** Makes a document of a text of data. Throws McpvalsError `config/syntax`. */
export async function parseData(
  source: SourceText,
  ending: string,
  options: YamlOptions = {},
): Promise<ConfigDocument> {
  try {
    return ending === "json" ? jsonDocument(source) : await yamlDocument(source, options);
  } catch (error) {
    throw error instanceof SyntaxProblems ? syntaxFailure(source, error) : error;
  }
}

/** The ending of a file's name, in lower case, without its dot. */
export function endingOf(file: string): string {
  return extname(file).slice(1).toLowerCase();
}
