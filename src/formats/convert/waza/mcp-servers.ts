import * as z from "zod";
import { suggestion } from "../../../base/did-you-mean.ts";
import {
  asList,
  asObject,
  formatKeyPath,
  isJsonObject,
  type Json,
  type JsonObject,
  type KeyPath,
  mapValues,
} from "../../../base/json.ts";
import { type ParseResult, type Problem, problem, problemAt, validate } from "../../../base/problem.ts";
import { problemsOfIssues } from "../../../model/zod-problems.ts";
import { closedObject, filledText, optional } from "../../../model/fields.ts";
import {
  lifetimeSchema,
  mockResponseFields,
  mockResponses,
  mockToolFields,
  serverShapes,
  withOneAnswer,
} from "../../../model/server.ts";
import { asServers, type ServerOverlay } from "../../config/server-tables.ts";

// The servers and mocks of waza, converted to the keys of a config.

/** A lifetime of servers; `per_benchmark` is that tool's name of `per_run`. */
export const wazaLifetime = z
  .union([lifetimeSchema, z.literal("per_benchmark")])
  .transform((written) => (written === "per_benchmark" ? ("per_run" as const) : written));

/** Other names of keys in `mcp_servers`, with those of a config. */
const aliases: ReadonlyMap<string, string> = new Map([
  ["working_dir", "cwd"],
  ["workingDir", "cwd"],
  ["workdir", "cwd"],
  ["startup_timeout_ms", "startupTimeout"],
  ["capture_stderr", "captureStderr"],
  ["rate_limit", "rateLimit"],
  ["max_concurrent", "maxConcurrent"],
  ["inherit_env", "inheritEnv"],
  ["max_message_bytes", "maxMessageBytes"],
]);

/** The config's name of a key of `mcp_servers`. */
export function canonicalKey(key: string): string {
  return aliases.get(key) ?? key;
}

/** Names of transports in `type` and `transport` of `mcp_servers`, with those of a config; ignoring case, `-` and `_`. */
export const transports: ReadonlyMap<string, string> = new Map([
  ["stdio", "stdio"],
  ["local", "stdio"],
  ["http", "shttp"],
  ["streamablehttp", "shttp"],
  ["shttp", "shttp"],
  ["sse", "sse"],
  ["mock", "mock"],
]);

/** Names to suggest for an unknown type. */
export const typeNames: readonly string[] = "stdio local http streamable-http sse remote mock".split(" ");

const commonKeys =
  "type command args env cwd url transport headers tools startup_timeout_ms lifetime required capture_stderr";

/** Every key of an entry of `mcp_servers`, the usual ones first. */
export const entryKeys: readonly string[] = [
  ...new Set([...commonKeys.split(" "), ...Object.keys(serverShapes), ...aliases.keys()]),
];

/** Keys of other tools without an equivalent key, with what to write instead. */
const otherTools: ReadonlyMap<string, string> = new Map([
  ["timeout", "How long the start may take is startup_timeout_ms, in milliseconds."],
  ["disabled", "Leave the server out, or write null for it where it is inherited."],
  ["alwaysAllow", "The tools that an agent may use are tools."],
  ["allowedTools", "The tools that an agent may use are tools."],
  ["allowed_tools", "The tools that an agent may use are tools."],
]);

/** Names of servers. Objects do not keep the key `__proto__`. */
const namePattern = /^(?!__proto__$)[A-Za-z0-9_-]+$/;

/** Reads `mcp_servers`: `workingDir` is `cwd`, `type: http` is `transport: shttp`, and so on. */
export function readMcpServers(document: Json, path: KeyPath): ServerOverlay {
  const problems: Problem[] = [];
  const table: Record<string, Json> = {};
  /** Keys as written, by server and the config's name. */
  const renamed = new Map<string | number, ReadonlyMap<string | number, string>>();
  const place = ([name, key, ...rest]: KeyPath): KeyPath => {
    if (name === undefined || key === undefined) return [...path, ...(name === undefined ? [] : [name])];
    return [...path, name, renamed.get(name)?.get(key) ?? key, ...rest];
  };
  if (document !== null && !isJsonObject(document))
    problems.push(problemAt(path, "must be an object: servers by name"));
  for (const [name, entry] of Object.entries(isJsonObject(document) ? document : {})) {
    const at = [...path, name];
    if (name === "inherit") {
      if (typeof entry === "boolean") table[name] = entry;
      else problems.push(problemAt(at, "must be true or false; no server can have this name"));
    } else if (!namePattern.test(name)) {
      const message = `the name of a server must be of letters, digits, _ and -, not ${JSON.stringify(name.slice(0, 80))}`;
      problems.push(problem(at, message, { at: "key" }));
    } else if (isJsonObject(entry)) {
      const { members, keys } = readEntry(entry, at, problems);
      table[name] = members;
      renamed.set(name, keys);
    } else if (entry === null) table[name] = null;
    else problems.push(problemAt(at, "must be an object, or null to remove the server"));
  }
  return { table, problems, place, isRequired: true };
}

/** An entry of `mcp_servers` with the keys of a config, and the keys as written. */
function readEntry(
  entry: JsonObject,
  path: KeyPath,
  problems: Problem[],
): { readonly members: JsonObject; readonly keys: ReadonlyMap<string, string> } {
  const where = formatKeyPath(path);
  const keys = new Map<string, string>();
  const members: Record<string, Json> = {};
  const transport = readTransport(entry, path, problems);
  if (transport !== undefined) {
    members["transport"] = transport;
    keys.set("transport", entry["type"] === undefined ? "transport" : "type");
  }
  for (const [key, value] of Object.entries(entry)) {
    if (key === "type" || key === "transport") continue;
    const canonical = canonicalKey(key);
    const first = keys.get(canonical);
    const at = [...path, key];
    if (key !== "inherit" && !entryKeys.includes(key)) {
      const message = `unknown key ${JSON.stringify(key.slice(0, 80))} in ${where}`;
      const hint = otherTools.get(key) ?? suggestion(key, entryKeys, "keys");
      problems.push(problem(at, message, { code: "config/unknown-key", at: "key", hint }));
    } else if (first !== undefined) {
      const message = `${key} and ${first} in ${where} are the same setting`;
      const hint = "Keep one of them.";
      problems.push(problem(at, message, { code: "config/duplicate-name", at: "key", hint }));
    } else {
      members[canonical] = canonical === "lifetime" && value === "per_benchmark" ? "per_run" : value;
      keys.set(canonical, key);
    }
  }
  return { members, keys };
}

/** What `type` and `transport` say together; `type: remote` leaves it to `transport`. Undefined: neither says anything. */
function readTransport(entry: JsonObject, path: KeyPath, problems: Problem[]): Json | undefined {
  let isRemote = false;
  const said: Json[] = [];
  for (const key of ["type", "transport"] as const) {
    const value = entry[key];
    const name = typeof value === "string" ? value : "";
    const transport = value === null ? null : transports.get(name.toLowerCase().replaceAll(/[-_\s]/g, ""));
    if (key === "type" && name.toLowerCase() === "remote") isRemote = true;
    else if (transport !== undefined) said.push(transport);
    else if (value !== undefined)
      problems.push(
        problemAt([...path, key], "is not a type of server", { hint: suggestion(name, typeNames, "types") }),
      );
  }
  const [first = isRemote ? "shttp" : undefined, second = first] = said;
  if (first !== second) {
    const message = `type and transport in ${formatKeyPath(path)} contradict each other`;
    problems.push(problem([...path, "transport"], message));
  }
  return first;
}

/** The tools in a folder of fixtures, by name; or why they cannot be read. */
export type Fixtures = ParseResult<{ readonly tools: JsonObject }, { readonly reason: string }>;

type ReadFixtures = (path: string) => Fixtures;

const response = withOneAnswer(
  closedObject({
    ...mockResponseFields,
    match_schema: mockResponseFields.matchSchema.meta({ description: "The same as `matchSchema`." }),
    match_regex: mockResponseFields.matchRegex.meta({ description: "The same as `matchRegex`." }),
  }),
);

const mockTools = z.record(
  filledText,
  closedObject({
    ...mockToolFields,
    input_schema: mockToolFields.inputSchema.meta({ description: "The same as `inputSchema`." }),
    output_schema: mockToolFields.outputSchema.meta({ description: "The same as `outputSchema`." }),
    responses: mockResponses(response),
  }).meta({ id: "MockTool", title: "Mock tool", description: "A tool with fixed responses." }),
);

/** A mock, with the name of the server that it replaces. */
export const mcpMockSchema = closedObject({
  name: filledText.describe("Name of the server that it replaces."),
  fixtures: optional(
    filledText,
    "Folder with JSON files, relative to this file: each contains `tools`, or is the tool with the file's name. `tools` takes precedence.",
  ),
  tools: optional(mockTools, "Its tools, by name."),
})
  .refine(({ fixtures, tools = {} }) => fixtures !== undefined || Object.keys(tools).length > 0, {
    error: "must have tools or fixtures",
  })
  .meta({ id: "McpMock", title: "MCP mock", description: "A mock, by the name of its server." });

/** `mcp_mocks` as servers by name. The problems are those of fixtures and names; {@link mcpMockSchema} finds the others. */
export function readMcpMocks(
  list: unknown,
  readFixtures: ReadFixtures,
): { readonly servers: JsonObject; readonly problems: readonly Problem[] } {
  const mocks = new Map<string, Json>();
  const problems: Problem[] = [];
  for (const [index, mock] of asList(list).entries()) {
    const at = ["mcp_mocks", index];
    const { data } = validate(mcpMockSchema, mock as Json);
    if (data === undefined) continue;
    const found =
      data.fixtures === undefined ? {} : readTools(data.fixtures, [...at, "fixtures"], readFixtures);
    if (Array.isArray(found)) problems.push(...found);
    else if (mocks.has(data.name)) {
      const message = `two mocks are named ${JSON.stringify(data.name)}`;
      problems.push(problem([...at, "name"], message, { code: "config/duplicate-name" }));
    } else {
      const tools = { ...found, ...asObject(asObject(mock)["tools"]) } as JsonObject;
      mocks.set(data.name, { tools: mapValues(tools, toolOfConfig) });
    }
  }
  return { servers: asServers(Object.fromEntries(mocks)), problems };
}

/** Keys of mocks, with those of a config; where both are given, the config's wins. */
const mockKeys: Readonly<Record<string, string>> = {
  input_schema: "inputSchema",
  output_schema: "outputSchema",
  match_schema: "matchSchema",
  match_regex: "matchRegex",
};

function toolOfConfig(tool: Json): Json {
  const { responses, ...rest } = asObject(tool);
  return { ...renamed(rest), responses: asList(responses).map((each) => renamed(asObject(each))) };
}

function renamed(object: object): JsonObject {
  return Object.fromEntries(
    Object.entries(object).map(([key, value]) => [mockKeys[key] ?? key, value as Json]),
  );
}

/** The tools of a folder of fixtures, or what is wrong with them. */
function readTools(folder: string, path: KeyPath, readFixtures: ReadFixtures): JsonObject | Problem[] {
  const refuse = (reason: string): Problem => problemAt(path, `: ${reason}`);
  const found = readFixtures(folder);
  if (!found.ok) return [refuse(found.reason)];
  if (Object.keys(found.tools).length === 0) return [refuse("no JSON file there has a tool")];
  const { issues } = validate(mockTools, found.tools);
  const problems = problemsOfIssues(issues, found.tools).map(({ message, hint }) =>
    refuse(`${message}${hint === undefined ? "" : ` (${hint})`}`),
  );
  return problems.length > 0 ? problems : found.tools;
}
