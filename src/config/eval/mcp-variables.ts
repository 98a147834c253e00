import { McpvalsError } from "../../core/errors/error.ts";
import type { JsonObject } from "../../core/formats/model.ts";
import { variableNamed } from "../environment.ts";
import type { FileProblems } from "../file-problems.ts";
import type { Surroundings } from "../surroundings.ts";

type Read = (name: string) => string | undefined;

/**
 * The one server that variables describe, as a file with `mcpServers` would: `MCP_COMMAND` with `MCP_ARGS` and
 * `MCP_ENV`, else `MCP_URL`, else `MCP_HOST`, `MCP_PORT` and `MCP_PATH`. Undefined when none of them is set.
 */
export function mcpVariables(
  { overrides, environment }: Surroundings,
  problems: FileProblems,
): JsonObject | undefined {
  const read: Read = (name) =>
    variableNamed(name, overrides) ?? (variableNamed(name, environment) || undefined);
  try {
    const server = readServer(read);
    if (server === undefined) return undefined;
    const all = !["false", "0"].includes(read("MCP_ENABLE_ALL_TOOLS") ?? "true");
    return { mcpServers: { [read("MCP_SERVER_NAME") ?? "default"]: { ...server, enableAllTools: all } } };
  } catch (error) {
    problems.addError(error);
    return undefined;
  }
}

function readServer(read: Read): JsonObject | undefined {
  const command = read("MCP_COMMAND");
  if (command !== undefined) return { command, args: readArgs(read), env: readObject("MCP_ENV", read) };
  const url = read("MCP_URL") ?? addressOf(read);
  return url === undefined ? undefined : { url, headers: readObject("MCP_HEADERS", read) };
}

function addressOf(read: Read): string | undefined {
  const [host, port] = [read("MCP_HOST"), read("MCP_PORT")];
  if (host === undefined && port === undefined) return undefined;
  const path = read("MCP_PATH") ?? "/mcp";
  return `http://${host ?? "localhost"}${port === undefined ? "" : `:${port}`}${path.startsWith("/") ? "" : "/"}${path}`;
}

/** A JSON list, or texts with commas between them. */
function readArgs(read: Read): readonly string[] {
  const text = read("MCP_ARGS");
  if (text === undefined) return [];
  if (!text.trimStart().startsWith("[")) return text.split(",").map((arg) => arg.trim());
  const value = parseJson("MCP_ARGS", text);
  if (Array.isArray(value)) return value.map(String);
  throw wrong("MCP_ARGS", "a JSON list");
}

function readObject(name: string, read: Read): JsonObject {
  const text = read(name);
  if (text === undefined) return {};
  const value = parseJson(name, text);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  throw wrong(name, "a JSON object");
}

function parseJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw wrong(name, "JSON", cause);
  }
}

function wrong(name: string, wanted: string, cause?: unknown): McpvalsError {
  return new McpvalsError("config/invalid-value", `the variable ${name} must hold ${wanted}`, { cause });
}
