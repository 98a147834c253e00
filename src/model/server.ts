import { maxMessageBytes } from "../base/limits.ts";
import * as z from "zod";
import { exact, mapValues, withoutUndefined } from "../base/json.ts";
import {
  defaultSandbox,
  mergeSandbox,
  sandboxLimits,
  sandboxModel,
  sandboxSchema,
  unconfined,
} from "./sandbox.ts";
import {
  anyJson,
  anyObject,
  closedObject,
  duration,
  filledText,
  argumentText,
  httpUrl,
  named,
  optional,
  milliseconds,
  type Model,
  type Parsed,
  patternText,
  text,
  texts,
  variableNames,
  variables,
} from "./fields.ts";

const answers = ["return", "error", "protocolError", "malformed", "silence"] as const;

const patterns = z.record(filledText, patternText);

/** The keys of a response of a mock's tool: its conditions, and one answer. */
export const mockResponseFields = {
  match: optional(anyObject, "The arguments must be exactly these."),
  matchSchema: optional(anyObject, "A JSON Schema that the arguments must match."),
  matchRegex: optional(
    patterns,
    "Regular expressions (RE2) by argument; each must match a part of the value.",
  ),
  when: optional(anyObject, "Values that the state must have."),
  set: optional(anyObject, "Values that the state gets."),
  latency: optional(duration, "How long the answer takes."),
  return: optional(
    anyJson,
    "The result: a text, or any other JSON value, which is also the structured content.",
  ),
  error: optional(z.string(), "The call fails with this text (`isError`)."),
  protocolError: optional(
    closedObject({
      code: z.int().describe("Its code."),
      message: z.string().describe("Message of the error."),
    }),
    "The answer is this JSON-RPC error.",
  ),
  malformed: optional(z.string(), "This text replaces the whole message; `{id}` is the request's id."),
  silence: optional(z.literal(true), "There is no answer."),
};

/** Refuses a response without exactly one answer. */
export function withOneAnswer<S extends z.ZodType<object>>(schema: S): S {
  return schema
    .refine((value) => answers.filter((key) => key in value).length === 1, {
      error: `must have exactly one of ${answers.join(", ")}`,
    })
    .meta({
      id: "MockResponse",
      title: "Mock response",
      description: "One response of a mock's tool: its conditions, and exactly one kind of answer.",
    });
}

const response = withOneAnswer(closedObject(mockResponseFields));

const toolSchema = anyObject.refine(({ type = "object" }) => type === "object", {
  error: 'must be a JSON Schema of type "object"',
});

/** The keys of a mock's tool besides its responses. */
export const mockToolFields = {
  description: optional(z.string(), "Its description."),
  inputSchema: optional(toolSchema, "JSON Schema of its arguments.", "any object"),
  outputSchema: optional(toolSchema, "JSON Schema of its structured results."),
};

/** The responses of a mock's tool. */
export function mockResponses<S extends z.ZodType>(one: S): z.ZodArray<S> {
  return z.array(one).min(1).describe("The first that matches is returned; if none does, the call fails.");
}

const mockToolSchema = closedObject({ ...mockToolFields, responses: mockResponses(response) }).meta({
  id: "MockTool",
  title: "Mock tool",
  description: "A tool with fixed responses.",
});

const mockResource = closedObject({
  uri: filledText.describe("Its address."),
  name: optional(filledText, "Its name.", "its address"),
  description: optional(z.string(), "Its description."),
  mimeType: optional(filledText, "Its type."),
  text: z.string().describe("Its content."),
})
  .transform((resource) => ({ ...resource, name: resource.name ?? resource.uri }))
  .meta({ id: "MockResource", title: "Mock resource", description: "A resource with fixed contents." });

const mockArgument = closedObject({
  name: filledText.describe("Its name."),
  required: z.boolean().default(false).describe("Whether it is required."),
  description: optional(z.string(), "Its description."),
}).meta({ id: "MockArgument", title: "Mock argument", description: "An argument of a prompt." });

const mockMessage = closedObject({
  role: z.enum(["user", "assistant"]).default("user").describe("The role."),
  text: z.string().describe("The text; `{NAME}` is replaced by the argument."),
}).meta({ id: "MockMessage", title: "Mock message", description: "A message of a prompt." });

const mockPrompt = closedObject({
  name: filledText.describe("Its name."),
  description: optional(z.string(), "Its description."),
  arguments: z.array(mockArgument).default([]).describe("Its arguments."),
  messages: z.array(mockMessage).min(1).describe("Its messages."),
}).meta({ id: "MockPrompt", title: "Mock prompt", description: "A prompt with fixed messages." });

/** What a mock offers and answers. */
export const mockSchema = closedObject({
  instructions: optional(z.string(), "The server's instructions."),
  tools: z.record(filledText, mockToolSchema).default({}).describe("Its tools, by name."),
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

/** What a mock server offers and answers. */
export type MockDefinition = Parsed<typeof mockSchema>;
/** The first response of a tool whose conditions are met is given; if none is, the call is an error of the tool. */
export type MockResponse = Parsed<typeof response>;

/** How long one started server serves. */
export const lifetimeSchema = z
  .enum(["per_trial", "per_task", "per_run"])
  .meta({ id: "Lifetime", title: "Lifetime", description: "How long one server process is used." });

const rateLimit = closedObject({
  requests: z.int().min(1).describe("Maximum number of requests in the period."),
  per: duration.describe("The period."),
})
  .transform(({ requests, per }) => ({ requests, perMs: per }))
  .meta({ id: "RateLimit", title: "Rate limit", description: "Limits the rate of requests; others wait." });

const faultTarget = {
  tool: optional(filledText, "Name or glob of the affected tools; only for `tools/call`.", "any"),
  method: filledText.default("tools/call").describe("The affected method."),
  probability: z.number().min(0).max(1).default(1).describe("0: never, 1: always."),
  times: optional(z.int().min(1), "Maximum number of times in one trial.", "no limit"),
};

const delayFault = closedObject({
  kind: z.literal("delay").describe("The request is delayed."),
  ...faultTarget,
  delay: duration.describe("The delay."),
})
  .transform(({ delay, ...fault }) => ({ ...fault, ms: delay }))
  .meta({ id: "DelayFault", title: "Delay", description: "Delays a request." });

const dropFault = closedObject({
  kind: z.literal("drop").describe("The request is never answered."),
  ...faultTarget,
}).meta({ id: "DropFault", title: "Drop", description: "Drops a request." });

const errorFault = closedObject({
  kind: z.literal("error").describe("mcpvals answers with a JSON-RPC error."),
  ...faultTarget,
  code: optional(z.int(), "Code of the error.", "-32603"),
  message: optional(filledText, "Message of the error.", "a default message"),
}).meta({ id: "ErrorFault", title: "Error", description: "Answers with an error." });

const truncateFault = closedObject({
  kind: z.literal("truncate").describe("The texts of the result are cut."),
  ...faultTarget,
  bytes: z.int().min(0).describe("Length that is kept of each text, in bytes."),
}).meta({ id: "TruncateFault", title: "Truncate", description: "Truncates a result." });

const disconnectFault = closedObject({
  kind: z.literal("disconnect").describe("The connection is closed."),
  ...faultTarget,
}).meta({ id: "DisconnectFault", title: "Disconnect", description: "Closes the connection." });

const fault = z
  .discriminatedUnion("kind", [delayFault, dropFault, errorFault, truncateFault, disconnectFault])
  .refine(({ tool, method }) => tool === undefined || method === "tools/call", {
    error: 'must not have tool, since its method is not "tools/call"',
  })
  .meta(named("Fault", "Fault", "An injected fault; `kind` is its type."));

const protocol = z
  .enum(["auto", "legacy", "modern"])
  .transform((name) => (name === "auto" ? undefined : name));

/** Without names where `*` names all. */
const toolNames = z.array(filledText).transform((names) => (names.includes("*") ? undefined : names));

/** What every kind of server may have, beside how it is reached. */
const sharedServerFields = {
  startupTimeout: optional(duration, "Time limit of `initialize` and `tools/list` together.", "`timeout`"),
  maxMessageBytes: z
    .int()
    .min(1)
    .default(maxMessageBytes)
    .describe("Largest single message accepted from the server, in bytes."),
  lifetime: optional(
    lifetimeSchema,
    "How long one server process is used: for one trial, for all trials of a task with one agent, or for the run.",
    "`serverLifetime`; else `per_trial`, for servers with a URL `per_run`",
  ),
  required: optional(
    z.boolean(),
    "If it cannot start: `true`: nothing runs; `false`: trials run without it; not set: the trial is an error.",
    "neither",
  ),
  tools: optional(toolNames, "Tools that agents see and may call, by name or glob (`*`).", "all"),
  rateLimit: optional(
    rateLimit,
    "Maximum number of requests in a period, of agents, steps and checks; others wait.",
  ),
  maxConcurrent: optional(
    z.int().min(1),
    "Most trials at once that use this server, in the whole run; the others wait.",
    "no limit but `concurrency`",
  ),
  faults: optional(
    z.array(fault),
    "Faults that are injected between agents and this server. Steps are not affected.",
  ),
  protocol: optional(
    protocol,
    "`legacy`: starts with `initialize`; `modern`: protocol 2026-07-28; `auto`: `legacy`, or `modern` if the server refuses that.",
    "`auto`",
  ),
  captureStderr: optional(z.boolean(), "Whether what a program writes to stderr is recorded.", "`true`"),
};

const bearer = closedObject({
  type: z.literal("bearer").describe("A bearer token in the header `Authorization`."),
  token: filledText.describe("The token; use `${VAR}` to keep it out of the file."),
})
  .transform(({ type: kind, token }) => ({ kind, token }))
  .meta({ id: "BearerAuth", title: "Bearer token", description: "A fixed token." });

const clientCredentials = closedObject({
  type: z.literal("client-credentials").describe("OAuth 2.1 client credentials."),
  clientId: filledText.describe("The client id."),
  clientSecret: filledText.describe("The client secret; use `${VAR}` to keep it out of the file."),
  scope: optional(filledText, "The requested scopes.", "none"),
  issuer: optional(
    httpUrl,
    "The only authorization server that gets the secret.",
    "none; then no token is requested",
  ),
})
  .transform(({ type: kind, ...client }) => ({ kind, ...client }))
  .meta({
    id: "ClientCredentialsAuth",
    title: "Client credentials",
    description: "A token that is requested with client id and secret.",
  });

const storedTokens = closedObject({
  type: z.literal("stored").describe("Tokens of an earlier login."),
  file: filledText.describe(
    "JSON file with `access_token` and `refresh_token`, relative to this one; new tokens are written back.",
  ),
  clientId: optional(filledText, "The client id, for refreshing."),
  clientSecret: optional(filledText, "The client secret, for refreshing."),
  issuer: optional(
    httpUrl,
    "The only authorization server that gets the refresh token.",
    "the file's `issuer`, or none",
  ),
})
  .transform(({ type: kind, ...client }) => ({ kind, ...client }))
  .meta({ id: "StoredAuth", title: "Stored tokens", description: "Tokens in a file." });

const authSchema = z
  .discriminatedUnion("type", [bearer, clientCredentials, storedTokens])
  .meta({ id: "Auth", title: "Auth", description: "Authentication; `type` is the method." });
const auth = optional(authSchema, "Authentication.", "none");

const headers = z
  .record(filledText, z.string())
  .default({})
  .describe("HTTP headers sent with every request. Their values are not recorded.");

const args = z.array(argumentText);
const argsText = "Its arguments.";
const envText = "Environment variables for the program, on top of a small safe set.";
const inheritText =
  "Variables to pass on from your own environment, by name; `true` passes on all of them. Without it a server gets only what programs need to start (`PATH`, `HOME`, …).";
const cwd = optional(
  filledText,
  "Folder that the program starts in, relative to the config file.",
  "the config file's folder",
);

/** Of a server with a URL: the program that serves there. */
const listeningFields = {
  command: optional(
    filledText,
    "Program that serves at `url`. It is started, used when `url` answers, and stopped at the end.",
    "none: the server runs already",
  ),
  args: optional(args, argsText),
  env: optional(variables, envText),
  cwd,
  inheritEnv: optional(variableNames, inheritText),
};

export const programKeys: readonly string[] = Object.keys(listeningFields);

/** A server with a URL has settings of a program only together with its command. */
function checkProgram(server: Readonly<Record<string, unknown>>, context: z.RefinementCtx): void {
  const given = server["command"] === undefined ? programKeys.filter((key) => server[key] !== undefined) : [];
  for (const key of given)
    context.addIssue({ code: "custom", path: [key], message: "must not be given without command" });
}

const stdioServer = closedObject({
  transport: z.literal("stdio").describe("A program that talks over stdin and stdout."),
  command: filledText.describe(
    "The program to start. Those in `node_modules/.bin` above `cwd` are found by name.",
  ),
  args: args.default([]).describe(argsText),
  env: variables.default({}).describe(envText),
  cwd,
  inheritEnv: variableNames.default([]).describe(inheritText),
  sandbox: optional(
    sandboxSchema,
    "The sandbox of the program. Its other settings may also be given here.",
    "`none`",
  ),
  ...sandboxLimits(),
  ...sharedServerFields,
})
  .superRefine((server, context) => {
    const [key] = unconfined(server);
    if (key === undefined) return;
    const message = `has ${JSON.stringify(key)}, but nothing says which sandbox confines it: write sandbox: process, or sandbox: none`;
    context.addIssue({ code: "custom", message });
  })
  .meta({ id: "StdioServer", title: "Server over stdio", description: "A local program." });

const shttpServer = closedObject({
  transport: z.literal(["shttp", "http"]).describe("Streamable HTTP."),
  url: httpUrl.describe("The server's MCP address."),
  ...listeningFields,
  headers,
  auth,
  ...sharedServerFields,
})
  .superRefine(checkProgram)
  .meta({ id: "ShttpServer", title: "Server over Streamable HTTP", description: "A server with a URL." });

const sseServer = closedObject({
  transport: z.literal("sse").describe("The older HTTP+SSE transport."),
  url: httpUrl.describe("The address of the event stream."),
  ...listeningFields,
  headers,
  auth,
  reconnect: optional(z.boolean(), "Accepted for older configs; has no effect."),
  reconnectInterval: optional(duration, "Accepted for older configs; has no effect."),
  maxReconnectAttempts: optional(z.int().min(0), "Accepted for older configs; has no effect."),
  ...sharedServerFields,
})
  .superRefine(checkProgram)
  .meta({
    id: "SseServer",
    title: "Server over HTTP+SSE",
    description: "A server that speaks only the older HTTP+SSE transport.",
  });

const mockServer = closedObject({
  transport: z.literal("mock").describe("A server with fixed responses."),
  mock: mockSchema.describe("Its tools, resources, prompts and responses."),
  ...sharedServerFields,
}).meta({ id: "MockServer", title: "Mock server", description: "A mock server." });

/** The keys that each kind of server has. */
export const shapesOfKinds = {
  stdio: stdioServer.shape,
  shttp: shttpServer.shape,
  sse: sseServer.shape,
  mock: mockServer.shape,
};

/** Every key that some kind of server has. */
export const serverShapes = {
  ...sseServer.shape,
  ...shttpServer.shape,
  ...mockServer.shape,
  ...stdioServer.shape,
};

/** How to start or reach one MCP server. */
export const serverSchema = z
  .discriminatedUnion("transport", [stdioServer, shttpServer, sseServer, mockServer])
  .meta({ id: "Server", title: "Server", description: "One MCP server; `transport` says which kind." });

/** A server as parsed: defaults filled in, durations in milliseconds. */
export type ParsedServer = z.output<typeof serverSchema>;

/** A local server as a file gives it. */
export type ParsedStdioServer = Extract<ParsedServer, { transport: "stdio" }>;

/** How long one started server serves; see docs/architecture.md, "Servers". */
export type ServerLifetime = z.output<typeof lifetimeSchema>;

/** At most `requests` of the client's requests in any `perMs`; others wait. */
export type RateLimit = Parsed<typeof rateLimit>;

/** How to get an access token by OAuth 2.1. The file of stored tokens is an absolute path. */
export type OAuthSpec = Exclude<Parsed<typeof authSchema>, { readonly kind: "bearer" }>;

export const faultModel = z
  .strictObject({
    kind: z.enum(["delay", "drop", "error", "truncate", "disconnect"]),
    tool: text.describe("Name or glob; only for `tools/call`. Absent: any tool.").exactOptional(),
    method: text.describe("Absent: `tools/call`.").exactOptional(),
    probability: z.number().min(0).max(1),
    times: z.int().min(1).describe("Maximum number of times in one trial. Absent: no limit.").exactOptional(),
    ms: milliseconds.describe("Of `delay`.").exactOptional(),
    bytes: z.int().min(0).describe("Of `truncate`.").exactOptional(),
    code: z.int().describe("Of `error`, like `message`.").exactOptional(),
    message: text.exactOptional(),
  })
  .meta({ id: "Fault", description: "A fault that is injected between agents and a server." });

/** A fault that is injected between agents and a server. */
export type Fault = Model<typeof faultModel>;

/** Where the text of an attack stands in what the agent gets of a server. */
export const attackChannels = {
  result: "a block of text after those of each result of a tool",
  "embedded-resource": "an embedded resource after the blocks of each result of a tool",
  error: "an error in place of the first call's result; the server does not get that call",
  resource: "the end of each resource that is read",
  prompt: "a message after those of each prompt that is got",
  instructions: "the end of the server's instructions",
  description: "the end of the description of each tool",
  "changed-description":
    "the same, but only in lists after the first result of a tool, which announces that the list has changed",
  parameter: "the description of a further parameter of each tool, which is kept from the server",
  tool: "the end of the description of the further tool",
} as const;

export const channelNames = Object.keys(attackChannels) as (keyof typeof attackChannels)[];

/** Name of the variant that the others are compared with: it has the canary, and nothing that tells the agent to do something. */
export const noAttack = "no-attack";

export const attackModel = z
  .strictObject({
    id: text.describe("Its name, unique."),
    class: text.describe("What kind of attack it is; reports count by class."),
    channel: z
      .enum([...channelNames, "none"])
      .describe("Where its text stands; `none`: the trial without an attack."),
    text: text.describe("What the agent reads."),
    tool: z
      .strictObject({
        name: text.describe("Its name."),
        description: text.describe("What it says that it does."),
        parameters: texts.describe("What they are for, by name."),
      })
      .describe("A tool that is added to the list of the server.")
      .exactOptional(),
    calls: text.describe("Name of a tool of the server that the text asks for.").exactOptional(),
    parameter: text.describe("Name of a parameter that is added to each tool.").exactOptional(),
    source: z
      .strictObject({
        name: text.describe("A paper, a tool or a report."),
        url: text.describe("Its address."),
      })
      .describe("Where attacks of its class are described.")
      .exactOptional(),
    variant: text.describe("The variant of the eval that is attacked. Absent: it has none.").exactOptional(),
  })
  .meta({ id: "AgentAttack", description: "What is injected between agents and servers." });

/** An attack on agents; that of the channel `none` is the trial without one. */
export type Attack = Model<typeof attackModel>;

/** Whether an attack asks for this tool of a server; null: a server has none of that name. */
export function asksFor(
  { calls = "" }: Attack,
  { server, tool }: { readonly server: string | null; readonly tool: string },
): boolean {
  return server !== null && [tool, `${server}.${tool}`].includes(calls);
}

const sharedModel = {
  startupTimeoutMs: milliseconds.describe("Time limit of handshake and `tools/list` together."),
  maxMessageBytes: z.int(),
  lifetime: lifetimeSchema.exactOptional(),
  required: z.boolean().exactOptional(),
  tools: z.array(text).describe("Absent: all.").exactOptional(),
  rateLimit: z.strictObject({ requests: z.int(), perMs: milliseconds }).exactOptional(),
  maxConcurrent: z.int().min(1).describe("Most trials at once that use it.").exactOptional(),
  faults: z.array(faultModel).exactOptional(),
  attack: attackModel.exactOptional(),
  protocol: z.enum(["legacy", "modern"]).exactOptional(),
  captureStderr: z.boolean().exactOptional(),
};

const programModel = {
  command: text,
  args: z.array(text),
  env: texts.describe("The complete environment of the process."),
  cwd: text.describe("Absolute path."),
};

const stdioModel = z.strictObject({
  transport: z.literal("stdio"),
  ...programModel,
  sandbox: sandboxModel.describe("Absent: no sandbox.").exactOptional(),
  ...sharedModel,
});

const httpModel = z.strictObject({
  transport: z
    .enum(["shttp", "sse"])
    .describe("`shttp` is Streamable HTTP; `sse` is the older HTTP+SSE transport."),
  url: text,
  program: z
    .strictObject(programModel)
    .describe("Serves at the URL. Absent: the server runs already.")
    .exactOptional(),
  headers: texts,
  auth: z
    .custom<OAuthSpec>()
    .meta({ description: "How to get an access token.", type: "object" })
    .exactOptional(),
  ...sharedModel,
});

const mockModel = z.strictObject({
  transport: z.literal("mock"),
  mock: z.custom<MockDefinition>().meta({ description: "What it offers and answers.", type: "object" }),
  ...sharedModel,
});

/** How to start or reach a server, with everything that a file leaves out. */
export const serverModel = z
  .discriminatedUnion("transport", [stdioModel, httpModel, mockModel])
  .meta({ id: "Server", description: "A server; its texts may contain templates." });

export type ServerProgramSpec = Pick<StdioServerSpec, keyof typeof programModel>;
export type StdioServerSpec = Model<typeof stdioModel>;
export type HttpServerSpec = Model<typeof httpModel>;
export type MockServerSpec = Model<typeof mockModel>;
export type ServerSpec = StdioServerSpec | HttpServerSpec | MockServerSpec;

/**
 * The server with each text changed that says how it is started or reached. Variables of its program are changed by
 * `variable`, which also gets their names.
 */
export function mapServerTexts(
  server: ServerSpec,
  text: (text: string) => string,
  variable: (value: string, name: string) => string = text,
): ServerSpec {
  if (server.transport === "mock") return server;
  const inProgram = ({ command, args, cwd, env }: ServerProgramSpec): ServerProgramSpec => ({
    command: text(command),
    args: args.map(text),
    cwd: text(cwd),
    env: mapValues(env, variable),
  });
  if (server.transport === "stdio") {
    const { sandbox: { read = [], write = [] } = {} } = server;
    const sandbox = server.sandbox && { ...server.sandbox, read: read.map(text), write: write.map(text) };
    return { ...server, ...withoutUndefined({ sandbox }), ...inProgram(server) };
  }
  const { url, headers, program, auth } = server;
  return {
    ...server,
    url: text(url),
    headers: mapValues(headers, text),
    ...(program === undefined ? {} : { program: inProgram(program) }),
    ...(auth === undefined
      ? {}
      : { auth: { ...mapValues(withoutUndefined(auth), text), kind: auth.kind } as OAuthSpec }),
  };
}

/** Where a file says that a server's program starts, and with which variables. */
export type ParsedProgram = Pick<ParsedStdioServer, "cwd" | "env" | "inheritEnv">;

/** What the loader adds to the program of a server: where it starts, and in which environment. */
export type CompleteStdio = (program: ParsedProgram, name: string) => Pick<ServerProgramSpec, "cwd" | "env">;

export interface BuildServerOptions {
  readonly completeStdio: CompleteStdio;
  /** For servers that set none. */
  readonly startupTimeoutMs: number;
  /** For servers that set none. */
  readonly lifetime?: ServerLifetime | undefined;
  /** Makes the path of a file absolute. Default: it is left as written. */
  readonly resolvePath?: ((path: string) => string) | undefined;
}

/** Converts a valid server to the model. */
export type BuildServer = (name: string, server: ParsedServer) => ServerSpec;

/** Builds all servers of a table. */
export function buildServers(
  servers: Readonly<Record<string, ParsedServer>>,
  build: BuildServer,
): Readonly<Record<string, ServerSpec>> {
  return mapValues(servers, (server, name) => build(name, server));
}

/** Converts a valid server to the model. */
export function buildServer(name: string, server: ParsedServer, options: BuildServerOptions): ServerSpec {
  const { resolvePath = (path) => path } = options;
  const common = exact({
    startupTimeoutMs: server.startupTimeout ?? options.startupTimeoutMs,
    maxMessageBytes: server.maxMessageBytes,
    lifetime: server.lifetime ?? options.lifetime,
    required: server.required,
    tools: server.tools,
    rateLimit: server.rateLimit,
    maxConcurrent: server.maxConcurrent,
    faults: server.faults,
    protocol: server.protocol,
    captureStderr: server.captureStderr,
  });
  if (server.transport === "mock") return { transport: "mock", mock: exact(server.mock), ...common };
  if (server.transport === "stdio") {
    const { transport, command, args, network, read, write, memory, processes, image } = server;
    const own = mergeSandbox(defaultSandbox, server.sandbox, resolvePath);
    const sandbox = mergeSandbox(own, { network, read, write, memory, processes, image }, resolvePath);
    return {
      transport,
      command,
      args,
      ...options.completeStdio(server, name),
      ...(sandbox.kind === "none" ? {} : { sandbox }),
      ...common,
    };
  }
  const { url, headers, auth: given, command, args = [], env = {}, cwd, inheritEnv = [] } = server;
  const place = (): ReturnType<CompleteStdio> => options.completeStdio({ env, cwd, inheritEnv }, name);
  const program = command === undefined ? {} : { program: { command, args, ...place() } };
  const transport = server.transport === "sse" ? "sse" : "shttp";
  const http = { transport, url, ...program, headers, ...common } as const;
  if (given === undefined) return http;
  if (given.kind === "bearer")
    return { ...http, headers: { ...headers, Authorization: `Bearer ${given.token}` } };
  return {
    ...http,
    auth: exact(given.kind === "stored" ? { ...given, file: resolvePath(given.file) } : given),
  };
}
