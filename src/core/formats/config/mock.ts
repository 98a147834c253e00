import * as z from "zod";
import { asObject, formatKeyPath, isJsonObject, type Json, type JsonObject, type KeyPath } from "../json.ts";
import { type Problem, validate } from "../problem.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import {
  anyJson,
  anyObject,
  closedObject,
  duration,
  filledText,
  type Parsed,
  patternText,
} from "./config-fields.ts";

const answers = ["return", "error", "protocolError", "malformed", "silence"] as const;

/** Whether no key is given as both `camelCase` and `snake_case`. */
function isSpelledOnce(value: object): boolean {
  return Object.keys(value).every(
    (key) => !key.includes("_") || !(key.replace(/_./, ([, letter = ""]) => letter.toUpperCase()) in value),
  );
}

const bothSpellings = { error: "must not have a key in two spellings" };

const patterns = z.record(filledText, patternText);

const writtenResponse = closedObject({
  match: anyObject.optional().describe("The arguments must be exactly these."),
  matchSchema: anyObject.optional().describe("A JSON Schema that the arguments must match."),
  match_schema: anyObject.optional().describe("The same as `matchSchema`."),
  matchRegex: patterns
    .optional()
    .describe("Regular expressions (RE2) by argument; each must match a part of the value."),
  match_regex: patterns.optional().describe("The same as `matchRegex`."),
  when: anyObject.optional().describe("Values that the state must have."),
  set: anyObject.optional().describe("Values that the state gets."),
  latency: duration.optional().describe("How long the answer takes."),
  return: anyJson
    .optional()
    .describe("The result: a text, or any other JSON value, which is also the structured content."),
  error: z.string().optional().describe("The call fails with this text (`isError`)."),
  protocolError: closedObject({
    code: z.int().describe("Its code."),
    message: z.string().describe("Message of the error."),
  })
    .optional()
    .describe("The answer is this JSON-RPC error."),
  malformed: z
    .string()
    .optional()
    .describe("This text replaces the whole message; `{id}` is the request's id."),
  silence: z.literal(true).optional().describe("There is no answer."),
})
  .refine((value) => answers.filter((key) => key in value).length === 1, {
    error: `must have exactly one of ${answers.join(", ")}`,
  })
  .refine(isSpelledOnce, bothSpellings);

const response = writtenResponse
  .transform(({ matchSchema, match_schema, matchRegex, match_regex, latency, ...rest }) => {
    const { match, when, set } = rest;
    return {
      match,
      matchSchema: matchSchema ?? match_schema,
      matchRegex: matchRegex ?? match_regex,
      when,
      set,
      latencyMs: latency,
      answer: answerOf(rest),
    };
  })
  .meta({
    id: "MockResponse",
    title: "Mock response",
    description: "One response of a mock's tool: its conditions, and exactly one kind of answer.",
  });

type MockAnswer =
  | { readonly kind: "return"; readonly value: Json }
  /** An error of the tool (`isError`). */
  | { readonly kind: "error"; readonly message: string }
  /** A JSON-RPC error. */
  | { readonly kind: "protocol-error"; readonly code: number; readonly message: string }
  /** This text replaces the whole message; `{id}` is the request's id as JSON. */
  | { readonly kind: "malformed"; readonly text: string }
  | { readonly kind: "silence" };

function answerOf(written: Pick<z.output<typeof writtenResponse>, (typeof answers)[number]>): MockAnswer {
  const { error, protocolError, malformed, silence } = written;
  if (error !== undefined) return { kind: "error", message: error };
  if (protocolError !== undefined) return { kind: "protocol-error", ...protocolError };
  if (malformed !== undefined) return { kind: "malformed", text: malformed };
  return silence === true ? { kind: "silence" } : { kind: "return", value: written.return ?? null };
}

const toolSchema = anyObject.refine(({ type = "object" }) => type === "object", {
  error: 'must be a JSON Schema of type "object"',
});

function objectSchema(schema: JsonObject = {}): JsonObject {
  return { type: "object", ...schema };
}

const mockToolSchema = closedObject({
  description: z.string().optional().describe("Its description."),
  inputSchema: toolSchema.optional().meta({
    description: "JSON Schema of its arguments.",
    defaultText: "any object",
  }),
  input_schema: toolSchema.optional().describe("The same as `inputSchema`."),
  outputSchema: toolSchema.optional().describe("JSON Schema of its structured results."),
  output_schema: toolSchema.optional().describe("The same as `outputSchema`."),
  responses: z
    .array(response)
    .min(1)
    .describe("The first that matches is returned; if none does, the call fails."),
})
  .refine(isSpelledOnce, bothSpellings)
  .transform(({ description, inputSchema, input_schema, outputSchema, output_schema, responses }) => {
    const output = outputSchema ?? output_schema;
    return {
      description,
      inputSchema: objectSchema(inputSchema ?? input_schema),
      outputSchema: output && objectSchema(output),
      responses,
    };
  })
  .meta({ id: "MockTool", title: "Mock tool", description: "A tool with fixed responses." });

const mockResource = closedObject({
  uri: filledText.describe("Its address."),
  name: filledText.optional().meta({ description: "Its name.", defaultText: "its address" }),
  description: z.string().optional().describe("Its description."),
  mimeType: filledText.optional().describe("Its type."),
  text: z.string().describe("Its content."),
})
  .transform((resource) => ({ ...resource, name: resource.name ?? resource.uri }))
  .meta({ id: "MockResource", title: "Mock resource", description: "A resource with fixed contents." });

const mockArgument = closedObject({
  name: filledText.describe("Its name."),
  required: z.boolean().default(false).describe("Whether it is required."),
  description: z.string().optional().describe("Its description."),
}).meta({ id: "MockArgument", title: "Mock argument", description: "An argument of a prompt." });

const mockMessage = closedObject({
  role: z.enum(["user", "assistant"]).default("user").describe("The role."),
  text: z.string().describe("The text; `{NAME}` is replaced by the argument."),
}).meta({ id: "MockMessage", title: "Mock message", description: "A message of a prompt." });

const mockPrompt = closedObject({
  name: filledText.describe("Its name."),
  description: z.string().optional().describe("Its description."),
  arguments: z.array(mockArgument).default([]).describe("Its arguments."),
  messages: z.array(mockMessage).min(1).describe("Its messages."),
}).meta({ id: "MockPrompt", title: "Mock prompt", description: "A prompt with fixed messages." });

const mockTools = z.record(filledText, mockToolSchema);

/** What a mock offers and answers. */
export const mockSchema = closedObject({
  instructions: z.string().optional().describe("The server's instructions."),
  tools: mockTools.default({}).describe("Its tools, by name."),
  resources: z.array(mockResource).prefault([]).describe("Its resources."),
  prompts: z.array(mockPrompt).default([]).describe("Its prompts."),
  state: anyObject
    .default({})
    .describe("Initial state of each server; responses test it (`when`) and change it (`set`)."),
})
  .refine(
    ({ tools, resources, prompts }) => Object.keys(tools).length + resources.length + prompts.length > 0,
    { error: "must offer something: tools, resources or prompts" },
  )
  .meta({ id: "Mock", title: "Mock", description: "A server with fixed responses." });

/** A mock in the spelling of others: a list, each with its server's name. */
export const mcpMockSchema = closedObject({
  name: filledText.describe("Name of the server that it replaces."),
  fixtures: filledText
    .optional()
    .describe(
      "Folder with JSON files, relative to this file: each contains `tools`, or is the tool with the file's name. `tools` takes precedence.",
    ),
  tools: mockTools.optional().describe("Its tools, by name."),
})
  .refine(({ fixtures, tools = {} }) => fixtures !== undefined || Object.keys(tools).length > 0, {
    error: "must have tools or fixtures",
  })
  .meta({ id: "McpMock", title: "MCP mock", description: "A mock, by the name of its server." });

/** What a mock server offers and answers. */
export type MockDefinition = Parsed<typeof mockSchema>;
/** The first response of a tool whose conditions are met is given; if none is, the call is an error of the tool. */
export type MockResponse = Parsed<typeof response>;

/** The tools in a folder of fixtures, by name; or why they cannot be read. */
export type Fixtures =
  | { readonly ok: true; readonly tools: JsonObject }
  | { readonly ok: false; readonly reason: string };

export interface MockOptions {
  /** Path of the object that has `mocks` and `mcp_mocks`. */
  readonly path: KeyPath;
  /** Reads a folder of fixtures. Absent: they are refused. */
  readonly readFixtures?: ((path: string) => Fixtures) | undefined;
}

/**
 * The mocks of a config as servers by name: those of `mocks`, and those of `mcp_mocks`. The problems are those of fixtures
 * and names; the schema of the config finds the others.
 */
export function mockServers(
  { mocks, mcp_mocks: list }: JsonObject,
  { path, readFixtures }: MockOptions,
): { readonly servers: JsonObject; readonly problems: readonly Problem[] } {
  const servers = new Map<string, Json>(Object.entries(isJsonObject(mocks) ? mocks : {}));
  const problems: Problem[] = [];
  for (const [index, mock] of (Array.isArray(list) ? (list as readonly Json[]) : []).entries()) {
    const at = [...path, "mcp_mocks", index];
    const { data } = validate(mcpMockSchema, mock);
    if (data === undefined || !isJsonObject(mock)) continue;
    const found =
      data.fixtures === undefined ? {} : readTools(data.fixtures, [...at, "fixtures"], readFixtures);
    if (Array.isArray(found)) problems.push(...found);
    else if (servers.has(data.name)) {
      const message = `two mocks are named ${JSON.stringify(data.name)}`;
      problems.push({ code: "config/duplicate-name", message, path: [...at, "name"], at: "value" });
    } else servers.set(data.name, { tools: { ...found, ...asObject(mock["tools"]) } as JsonObject });
  }
  const entries = [...servers].map(([name, mock]) => [name, { transport: "mock", mock }]);
  return { servers: Object.fromEntries(entries), problems };
}

/** The tools of a folder of fixtures, or what is wrong with them. */
function readTools(
  folder: string,
  path: KeyPath,
  readFixtures: MockOptions["readFixtures"],
): JsonObject | Problem[] {
  const refuse = (reason: string): Problem => ({
    code: "config/invalid-value",
    message: `${formatKeyPath(path)}: ${reason}`,
    path,
    at: "value",
  });
  const found = readFixtures?.(folder) ?? { ok: false, reason: "files cannot be read here" };
  if (!found.ok) return [refuse(found.reason)];
  if (Object.keys(found.tools).length === 0) return [refuse("no JSON file there has a tool")];
  const { issues } = validate(mockTools, found.tools);
  const problems = problemsOfIssues(issues, found.tools).map(({ message, hint }) =>
    refuse(`${message}${hint === undefined ? "" : ` (${hint})`}`),
  );
  return problems.length > 0 ? problems : found.tools;
}
