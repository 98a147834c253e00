import { isDeepStrictEqual } from "node:util";
import { applyEdits, type JSONPath, modify, parse, type ParseError, printParseErrorCode } from "jsonc-parser";
import { parse as parseToml, stringify as writeToml, TomlError } from "smol-toml";
import type { JsonObject, McpClient } from "../../core/formats/model.ts";
import { type ClientAdapter, program, typedHttp, typedProgram } from "../../core/formats/presets/preset.ts";
import { type AgentPreset, presets } from "../../core/formats/presets/presets.ts";
import type { GatewayEndpoint } from "../gateway/endpoint.ts";

const ofPresets = Object.fromEntries(
  Object.entries(presets).map(([name, { clientFile }]) => [name, clientFile]),
) as Record<AgentPreset, ClientAdapter>;

/**
 * The clients that config files are written for. Some read theirs only in a trusted folder: Codex, Copilot and Gemini ask
 * their user first, or need an argument or a variable.
 */
export const clientAdapters: Readonly<Record<McpClient, ClientAdapter>> = {
  ...ofPresets,
  vscode: {
    file: ".vscode/mcp.json",
    format: "json",
    key: "servers",
    http: typedHttp,
    bridge: typedProgram,
  },
  cursor: {
    file: ".cursor/mcp.json",
    format: "json",
    key: "mcpServers",
    http: (url) => ({ url }),
    bridge: program,
  },
};

export type Entries = Readonly<Record<string, JsonObject>>;

/**
 * Puts servers into a client's file, in the place of those with the same names; all else in it stays. `text` is empty for
 * a file that is not there. Throws an Error that says what is wrong with the text.
 */
export function mergeServers(text: string, entries: Entries, { format, key }: ClientAdapter): string {
  return format === "json" ? mergeJson(text, entries, key) : mergeToml(text, entries, key);
}

const byteOrderMark = /^\uFEFF/;

function mergeJson(written: string, entries: Entries, key: string): string {
  const text = written.replace(byteOrderMark, "");
  const start = text.trim() === "" ? "{}\n" : text;
  const problems: ParseError[] = [];
  const document: unknown = parse(start, problems, { allowTrailingComma: true });
  const [problem] = problems;
  if (problem !== undefined) {
    const before = start.slice(0, problem.offset).split("\n");
    const column = (before.at(-1) ?? "").length + 1;
    throw new Error(`${printParseErrorCode(problem.error)} at line ${before.length}, column ${column}`);
  }
  requireObject(document, "the file");
  const servers = Object.hasOwn(document, key) ? document[key] : {};
  requireObject(servers, JSON.stringify(key));
  return Object.entries(entries).reduce((edited, [name, entry]) => set(edited, [key, name], entry), start);
}

function set(text: string, path: JSONPath, value: JsonObject): string {
  // Formatting takes time by the square of what is in the line, and a line as long as that is no text for readers anyway.
  const isForReaders = text.split("\n").every(({ length }) => length <= longestLine);
  const formattingOptions = { insertSpaces: true, tabSize: 2, eol: "\n" };
  return applyEdits(text, modify(text, path, value, isForReaders ? { formattingOptions } : {}));
}

const longestLine = 10_000;

type Table = Record<string, unknown>;

function requireObject(value: unknown, what: string): asserts value is Table {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return;
  throw new Error(`${what} is not an object`);
}

/** Whole numbers are kept apart from others, since they are different things in TOML. */
const numbers = { integersAsBigInt: true } as const;

function mergeToml(written: string, entries: Entries, key: string): string {
  const text = written.replace(byteOrderMark, "");
  const document: Table = readToml(text);
  const servers = Object.hasOwn(document, key) ? document[key] : {};
  requireObject(servers, key);
  const others = Object.entries(document).filter(([name]) => name !== key);
  const merged: Table = Object.fromEntries([...others, [key, { ...servers, ...entries }]]);
  const ours = writeToml({ [key]: entries });
  const appended = text === "" ? ours : `${text.replace(/\n?$/, "\n")}\n${ours}`;
  return means(appended, merged) ? appended : writeToml(merged, { numbersAsFloat: true });
}

/** The error's own message shows lines of the file, which can have secrets. */
function readToml(text: string): Table {
  try {
    return parseToml(text, numbers);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const [what = "it is not TOML"] = error.message.split("\n");
    throw new Error(`${what} at line ${error.line}, column ${error.column}`, { cause: error });
  }
}

/** Text that is added keeps comments, but it cannot replace a table, nor add to one that is written in one line. */
function means(text: string, document: Table): boolean {
  try {
    // Clones are without the differences that prototypes make.
    return isDeepStrictEqual(structuredClone(parseToml(text, numbers)), structuredClone(document));
  } catch {
    return false;
  }
}

/** How a client's file declares servers, by name. */
export function serverEntries(
  endpoints: readonly GatewayEndpoint[],
  adapter: Pick<ClientAdapter, "http" | "bridge">,
  connect: "http" | "bridge",
): Entries {
  return Object.fromEntries(
    endpoints.map(({ server, url, bridge }) => [
      server,
      connect === "http" ? adapter.http(url) : adapter.bridge(bridge),
    ]),
  );
}
