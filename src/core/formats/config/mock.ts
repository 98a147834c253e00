import * as z from "zod";
import { formatKeyPath, isJsonObject, type KeyPath } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import { type Problem, validate } from "../problem.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import { anyJson, anyObject, closedObject, duration, filledText, patternText } from "./config-fields.ts";

const answers = ["return", "error", "protocolError", "malformed", "silence"] as const;

/** Two spellings of one key; an object may have one of them. */
function spelledOnce(pairs: readonly (readonly [string, string])[]): (value: object) => boolean {
  return (value) => pairs.every(([ours, theirs]) => !(ours in value && theirs in value));
}

const bothSpellings = { error: "must not have a key in two spellings" };

const schemaText = "A JSON Schema that the arguments must match.";
const regexText = "Regular expressions (RE2) by argument; each must match a part of the value.";

const response = closedObject({
  match: anyObject.optional().meta({ description: "The arguments must be exactly these." }),
  matchSchema: anyObject.optional().meta({ description: schemaText }),
  match_schema: anyObject.optional().meta({ description: "The same as `matchSchema`." }),
  matchRegex: z.record(filledText, patternText).optional().meta({ description: regexText }),
  match_regex: z
    .record(filledText, patternText)
    .optional()
    .meta({ description: "The same as `matchRegex`." }),
  when: anyObject.optional().meta({ description: "Values that the state must have." }),
  set: anyObject.optional().meta({ description: "Values that the state gets." }),
  latency: duration.optional().meta({ description: "How long the answer takes." }),
  return: anyJson.optional().meta({
    description: "The result: a text, or any other JSON value, which is also the structured content.",
  }),
  error: z.string().optional().meta({ description: "The call fails with this text (`isError`)." }),
  protocolError: closedObject({
    code: z.int().meta({ description: "Its code." }),
    message: z.string().meta({ description: "Message of the error." }),
  })
    .optional()
    .meta({ description: "The answer is this JSON-RPC error." }),
  malformed: z.string().optional().meta({
    description: "This text replaces the whole message; `{id}` is the request's id.",
  }),
  silence: z.literal(true).optional().meta({ description: "There is no answer." }),
})
  .refine((value) => answers.filter((key) => key in value).length === 1, {
    error: `must have exactly one of ${answers.join(", ")}`,
  })
  .refine(
    spelledOnce([
      ["matchSchema", "match_schema"],
      ["matchRegex", "match_regex"],
    ]),
    bothSpellings,
  )
  .meta({
    id: "MockResponse",
    title: "Mock response",
    description: "One response of a mock's tool: its conditions, and exactly one kind of answer.",
  });

const toolSchema = anyObject.refine(({ type = "object" }) => type === "object", {
  error: 'must be a JSON Schema of type "object"',
});

const sameAsInput = "The same as `inputSchema`.";

/** A tool of a mock. */
export const mockToolSchema = closedObject({
  description: z.string().optional().meta({ description: "Its description." }),
  inputSchema: toolSchema.optional().meta({
    description: "JSON Schema of its arguments.",
    defaultText: "any object",
  }),
  input_schema: toolSchema.optional().meta({ description: sameAsInput }),
  outputSchema: toolSchema.optional().meta({ description: "JSON Schema of its structured results." }),
  output_schema: toolSchema.optional().meta({ description: "The same as `outputSchema`." }),
  responses: z.array(response).min(1).meta({
    description: "The first that matches is returned; if none does, the call fails.",
  }),
})
  .refine(
    spelledOnce([
      ["inputSchema", "input_schema"],
      ["outputSchema", "output_schema"],
    ]),
    bothSpellings,
  )
  .meta({ id: "MockTool", title: "Mock tool", description: "A tool with fixed responses." });

const mockResource = closedObject({
  uri: filledText.meta({ description: "Its address." }),
  name: filledText.optional().meta({ description: "Its name.", defaultText: "its address" }),
  description: z.string().optional().meta({ description: "Its description." }),
  mimeType: filledText.optional().meta({ description: "Its type." }),
  text: z.string().meta({ description: "Its content." }),
}).meta({ id: "MockResource", title: "Mock resource", description: "A resource with fixed contents." });

const mockArgument = closedObject({
  name: filledText.meta({ description: "Its name." }),
  required: z.boolean().default(false).meta({ description: "Whether it is required." }),
  description: z.string().optional().meta({ description: "Its description." }),
}).meta({ id: "MockArgument", title: "Mock argument", description: "An argument of a prompt." });

const mockMessage = closedObject({
  role: z.enum(["user", "assistant"]).default("user").meta({ description: "The role." }),
  text: z.string().meta({ description: "The text; `{NAME}` is replaced by the argument." }),
}).meta({ id: "MockMessage", title: "Mock message", description: "A message of a prompt." });

const mockPrompt = closedObject({
  name: filledText.meta({ description: "Its name." }),
  description: z.string().optional().meta({ description: "Its description." }),
  arguments: z.array(mockArgument).default([]).meta({ description: "Its arguments." }),
  messages: z.array(mockMessage).min(1).meta({ description: "Its messages." }),
}).meta({ id: "MockPrompt", title: "Mock prompt", description: "A prompt with fixed messages." });

const mockTools = z.record(filledText, mockToolSchema);

const offersSomething = {
  error: "must offer something: tools, resources or prompts",
};

/** What a mock offers and answers. */
export const mockSchema = closedObject({
  instructions: z.string().optional().meta({ description: "The server's instructions." }),
  tools: mockTools.default({}).meta({ description: "Its tools, by name." }),
  resources: z.array(mockResource).default([]).meta({ description: "Its resources." }),
  prompts: z.array(mockPrompt).default([]).meta({ description: "Its prompts." }),
  state: anyObject.default({}).meta({
    description: "Initial state of each server; responses test it (`when`) and change it (`set`).",
  }),
})
  .refine(
    ({ tools, resources, prompts }) => Object.keys(tools).length + resources.length + prompts.length > 0,
    offersSomething,
  )
  .meta({ id: "Mock", title: "Mock", description: "A server with fixed responses." });

/** A mock in the spelling of others: a list, each with its server's name. */
export const mcpMockSchema = closedObject({
  name: filledText.meta({ description: "Name of the server that it replaces." }),
  fixtures: filledText.optional().meta({
    description:
      "Folder with JSON files, relative to this file: each contains `tools`, or is the tool with the file's name. `tools` takes precedence.",
  }),
  tools: mockTools.optional().meta({ description: "Its tools, by name." }),
})
  .refine(({ fixtures, tools = {} }) => fixtures !== undefined || Object.keys(tools).length > 0, {
    error: "must have tools or fixtures",
  })
  .meta({ id: "McpMock", title: "MCP mock", description: "A mock, by the name of its server." });

/** A mock as parsed. */
export type ParsedMock = z.output<typeof mockSchema>;
/** A mock's tool as parsed. */
export type ParsedMockTool = z.output<typeof mockToolSchema>;

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
