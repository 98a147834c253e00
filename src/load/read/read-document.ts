import { extname } from "node:path";
import { McpvalsError, messageOf } from "../../core/errors/error.ts";
import { FileTooLargeError, readRegularFile } from "../../files/files.ts";
import { configExtensions } from "../sources.ts";
import { type ConfigDocument, jsonDocument, SourceText, SyntaxProblems, valueDocument } from "./document.ts";
import type { YamlOptions } from "./yaml-document.ts";

/** Largest files that are read, in bytes: more would take longer than anyone wants to wait. */
const largest = { json: 4 * 1024 * 1024, yaml: 512 * 1024, program: 16 * 1024 * 1024 };

export interface ReadDocumentOptions {
  /** The file as messages name it. */
  readonly shown: string;
  /** Longest that a config that is a program may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Reads a file of any kind that may hold a config, a task or an Eval. Throws McpvalsError: `config/unreadable`,
 * `config/syntax`, `config/invalid-value`.
 */
export async function readDocument(file: string, options: ReadDocumentOptions): Promise<ConfigDocument> {
  const { shown } = options;
  const ending = endingOf(file);
  if (["json", "yaml", "yml"].includes(ending)) return readData(file, shown);
  if (configExtensions.every((extension) => extension !== ending)) {
    const endings = configExtensions.map((extension) => `.${extension}`).join(", ");
    throw new McpvalsError("config/unreadable", `${shown} has an ending that no config has`, {
      location: { file: shown },
      hint: `A config file ends in ${endings}; a task or an Eval in .yaml, .yml or .json.`,
    });
  }
  const source = readText(file, shown, largest.program);
  const { loadModule } = await import("./load-module.ts");
  const { value, imports } = await loadModule(file, { ...options, source });
  return { ...valueDocument(value, shown), imports };
}

/** Reads a file of data: JSON or TOML when its name says so, else YAML. Throws as `readDocument` does. */
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
    if (ending === "json") return jsonDocument(source, options);
    if (ending === "toml") return (await import("./toml-document.ts")).tomlDocument(source);
    const { yamlDocument } = await import("./yaml-document.ts");
    return yamlDocument(source, options);
  } catch (error) {
    throw error instanceof SyntaxProblems ? error.in(source) : error;
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
    const reason = messageOf(cause);
    const hint = "Split it, or make it with a program in a .ts or .js file; JSON may be larger than YAML.";
    throw new McpvalsError("config/unreadable", `${shown} cannot be read: ${reason}`, {
      location: { file: shown },
      cause,
      ...(cause instanceof FileTooLargeError ? { hint } : {}),
    });
  }
}

/** Line and column, in bytes, of the first byte that a lenient reading replaces. */
function placeOfBadByte(bytes: Uint8Array): { readonly line: number; readonly column: number } {
  const replaced = Buffer.from(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
  const before = bytes.subarray(
    0,
    replaced.findIndex((byte, index) => byte !== bytes[index]),
  );
  const lines = Buffer.from(before).toString("latin1").split("\n");
  return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
}
