import { formatKeyPath, isJsonObject, type KeyPath } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import type { Problem } from "../problem.ts";
import { validate } from "../validate.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import { mcpMockSchema, mockToolSchema } from "./mock-schema.ts";

/** The tools in a folder of fixtures, by name; or why there are none. */
export type Fixtures =
  | { readonly ok: true; readonly tools: JsonObject }
  | { readonly ok: false; readonly reason: string };

export interface MockOptions {
  /** Path of the object that has `mocks` and `mcp_mocks`. */
  readonly path: KeyPath;
  /** Reads a folder of fixtures. Absent: they are refused. */
  readonly readFixtures?: ((path: string) => Fixtures) | undefined;
}

export interface MockTables {
  /** Servers of a config, by name. */
  readonly servers: JsonObject;
  /** What is wrong with fixtures and names; the rest is left to the schema of the config. */
  readonly problems: readonly Problem[];
}

/** The mocks of a config as servers: those of `mocks`, and those of `mcp_mocks`. */
export function mockServers({ mocks, mcp_mocks: list }: JsonObject, options: MockOptions): MockTables {
  const own = isJsonObject(mocks) ? Object.entries(mocks) : [];
  const read = (Array.isArray(list) ? list : []).map((mock: Json, index) =>
    readMcpMock(mock, { ...options, path: [...options.path, "mcp_mocks", index] }),
  );
  const names = own.map(([name]) => name);
  const doubled = read.flatMap(({ entry, path }): Problem[] => {
    const [name] = entry ?? [];
    if (name === undefined || names.push(name) === new Set(names).size) return [];
    const message = `two mocks are named ${JSON.stringify(name)}`;
    return [{ code: "config/duplicate-name", message, path: [...path, "name"], at: "value" }];
  });
  const entries = [...own, ...read.flatMap(({ entry }) => (entry === undefined ? [] : [entry]))];
  return {
    servers: Object.fromEntries(entries.map(([name, mock]) => [name, { transport: "mock", mock }])),
    problems: [...read.flatMap(({ problems }) => problems), ...doubled],
  };
}

interface ReadMock {
  readonly path: KeyPath;
  readonly entry?: readonly [name: string, mock: Json];
  readonly problems: readonly Problem[];
}

function readMcpMock(mock: Json, options: MockOptions): ReadMock {
  const { path } = options;
  const { data } = validate(mcpMockSchema, mock);
  if (data === undefined || !isJsonObject(mock)) return { path, problems: [] };
  const fixtures =
    data.fixtures === undefined ? { tools: {}, problems: [] } : readTools(data.fixtures, options);
  const { problems } = fixtures;
  if (problems.length > 0) return { path, problems };
  const own = isJsonObject(mock["tools"]) ? mock["tools"] : {};
  return { path, entry: [data.name, { tools: { ...fixtures.tools, ...own } }], problems };
}

function readTools(
  folder: string,
  { path, readFixtures }: MockOptions,
): { readonly tools: JsonObject; readonly problems: readonly Problem[] } {
  const at = [...path, "fixtures"];
  const found = readFixtures?.(folder) ?? { ok: false, reason: "files cannot be read here" };
  if (!found.ok) return { tools: {}, problems: [refusal(found.reason, at)] };
  const problems = Object.entries(found.tools).flatMap(([name, tool]) => {
    const { issues } = validate(mockToolSchema, tool);
    return place(issues, tool, [name]).map((problem) =>
      refusal(`${problem.message}${problem.hint === undefined ? "" : ` (${problem.hint})`}`, at),
    );
  });
  const isEmpty = Object.keys(found.tools).length === 0;
  return {
    tools: found.tools,
    problems: isEmpty ? [refusal("no JSON file there has a tool", at)] : problems,
  };
}

function refusal(reason: string, path: KeyPath): Problem {
  return { code: "config/invalid-value", message: `${formatKeyPath(path)}: ${reason}`, path, at: "value" };
}

type Issues = ReturnType<typeof validate>["issues"];

/** Problems of a part of a document, with whole paths. */
function place(issues: Issues, part: Json, path: KeyPath): Problem[] {
  const document = path.reduceRight<Json>((inner, key) => ({ [key]: inner }), part);
  return problemsOfIssues(
    issues.map((issue) => ({ ...issue, path: [...path, ...issue.path] })),
    document,
  );
}
