import { isUtf8 } from "node:buffer";
import { extname } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { formatKeyPath } from "../../core/formats/json.ts";
import { FileTooLargeError, readRegularFile } from "../../files/read-file.ts";
import { configExtensions } from "../sources/find-sources.ts";
import { loadModule } from "./load-module.ts";
import type { ConfigDocument } from "./document.ts";
import { jsonDocument } from "./json-document.ts";
import { SourceText, syntaxFailure, SyntaxProblems } from "./source-text.ts";
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

/** Reads a text file of at most `limit` bytes; `shown` is its name in messages. Throws McpvalsError `config/unreadable`. */
function readText(file: string, shown: string, limit: number): SourceText {
  const bytes = readBytes(file, shown, limit);
  try {
    return new SourceText(shown, new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    const location = { file: shown, ...placeOfBadByte(bytes) };
    throw new McpvalsError("config/unreadable", `${shown} is not UTF-8 text`, { location, cause });
  }
}

function readBytes(file: string, shown: string, limit: number): Uint8Array {
  try {
    return readRegularFile(file, limit);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const hint = "Split it, or make it with a program in a .ts or .js file; JSON may be larger than YAML.";
    throw new McpvalsError("config/unreadable", `${shown} cannot be read: ${reason}`, {
      location: { file: shown },
      cause,
      ...(cause instanceof FileTooLargeError ? { hint } : {}),
    });
  }
}

const lineFeed = 0x0a;

/** Line and column, in bytes, of the first byte that belongs to no character. */
function placeOfBadByte(bytes: Uint8Array): { readonly line: number; readonly column: number } {
  let line = 1;
  let start = 0;
  for (let end = bytes.indexOf(lineFeed); end !== -1; end = bytes.indexOf(lineFeed, start)) {
    if (!isUtf8(bytes.subarray(start, end))) break;
    start = end + 1;
    line += 1;
  }
  const next = bytes.indexOf(lineFeed, start);
  return { line, column: validLength(bytes.subarray(start, next === -1 ? undefined : next)) + 1 };
}

/** Bytes up to which a line is UTF-8. */
function validLength(bytes: Uint8Array): number {
  // The replacement characters of a lenient reading begin at the first bad byte, if none was written there.
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  let length = 0;
  for (const character of text) {
    const encoded = new TextEncoder().encode(character);
    if (!encoded.every((byte, index) => bytes[length + index] === byte)) return length;
    length += encoded.length;
  }
  return length;
}
