import * as z from "zod";
import { withoutUndefined } from "../json.ts";
import type {
  Fault,
  HttpServerSpec,
  JsonObject,
  MockDefinition,
  MockResponse,
  MockTool,
  OAuthSpec,
  ServerLifetime,
  ServerSpec,
  StdioServerSpec,
} from "../model.ts";
import { defaultSandbox, laySandbox, sandboxLimits, sandboxSchema, unconfined } from "../sandbox.ts";
import { closedObject, duration, filledText, httpUrl } from "./config-fields.ts";
import { mockSchema, type ParsedMock, type ParsedMockTool } from "./mock.ts";

/** Lifetimes as they may be written; the last is another name of `per_run`. */
const lifetimes = ["per_trial", "per_task", "per_run", "per_benchmark"] as const;

/** How long one started server serves. */
export const lifetimeSchema = z
  .enum(lifetimes)
  .transform((written) => (written === "per_benchmark" ? ("per_run" as const) : written))
  .meta({ id: "Lifetime", title: "Lifetime", description: "How long one started server serves." });

const rateLimit = closedObject({
  requests: z.int().min(1).meta({ description: "Requests of agents that may go out in that time." }),
  per: duration.meta({ description: "The time." }),
}).meta({ id: "RateLimit", title: "Rate limit", description: "Requests over it wait." });

const befalls = {
  tool: filledText.optional().meta({
    description: "Name or glob of the tools that it befalls; only for `tools/call`.",
    defaultText: "any",
  }),
  method: filledText.default("tools/call").meta({ description: "Method that it befalls." }),
  probability: z.number().min(0).max(1).default(1).meta({ description: "0: never, 1: always." }),
  times: z.int().min(1).optional().meta({
    description: "How often it may happen in one trial.",
    defaultText: "without end",
  }),
};

const delayFault = closedObject({
  kind: z.literal("delay").meta({ description: "The request is held." }),
  ...befalls,
  delay: duration.meta({ description: "For how long." }),
}).meta({ id: "DelayFault", title: "Delay", description: "Holds a request back." });

const dropFault = closedObject({
  kind: z.literal("drop").meta({ description: "The request is never answered." }),
  ...befalls,
}).meta({ id: "DropFault", title: "Drop", description: "Loses a request." });

const errorFault = closedObject({
  kind: z.literal("error").meta({ description: "The answer is a JSON-RPC error of ours." }),
  ...befalls,
  code: z.int().optional().meta({ description: "Code of the error.", defaultText: "-32603" }),
  message: filledText.optional().meta({ description: "Its text.", defaultText: "one that says so" }),
}).meta({ id: "ErrorFault", title: "Error", description: "Answers with an error." });

const truncateFault = closedObject({
  kind: z.literal("truncate").meta({ description: "The texts of the result are cut." }),
  ...befalls,
  bytes: z.int().min(0).meta({ description: "What is left of each text, in bytes." }),
}).meta({ id: "TruncateFault", title: "Truncate", description: "Cuts a result." });

const disconnectFault = closedObject({
  kind: z.literal("disconnect").meta({ description: "The connection is cut." }),
  ...befalls,
}).meta({ id: "DisconnectFault", title: "Disconnect", description: "Cuts the connection." });

const fault = z
  .discriminatedUnion("kind", [delayFault, dropFault, errorFault, truncateFault, disconnectFault])
  .refine(({ tool, method }) => tool === undefined || method === "tools/call", {
    error: 'must not have tool, since its method is not "tools/call"',
  })
  .meta({
    id: "Fault",
    title: "Fault",
    description: "Something that goes wrong on purpose; `kind` says what.",
  });

/** What every kind of server may have, beside how it is reached. */
const sharedServerFields = {
  startupTimeout: duration.optional().meta({
    description: "Longest that the handshake and `tools/list` may take together.",
    defaultText: "`timeout`",
  }),
  maxMessageBytes: z
    .int()
    .min(1)
    .default(10 * 1024 * 1024)
    .meta({ description: "Largest single message accepted from the server, in bytes." }),
  lifetime: lifetimeSchema.optional().meta({
    description:
      "How long one started server serves: one trial, all trials of a task with one agent, or the run. `per_benchmark` is another name of `per_run`.",
    defaultText: "`serverLifetime`; else `per_trial`, for servers with an address `per_run`",
  }),
  required: z.boolean().optional().meta({
    description:
      "`true`: when it cannot start, nothing runs. `false`: a trial goes on without it. Otherwise that trial is an error.",
    defaultText: "neither",
  }),
  tools: z.array(filledText).optional().meta({
    description: "Tools that agents see and may call, by name or glob (`*`).",
    defaultText: "all",
  }),
  rateLimit: rateLimit.optional().meta({ description: "Most requests of agents in a time; others wait." }),
  faults: z.array(fault).optional().meta({
    description: "What goes wrong on purpose between agents and this server; steps are never touched.",
  }),
  protocol: z.enum(["auto", "legacy", "modern"]).optional().meta({
    description:
      "`legacy` begins with `initialize`, `modern` is 2026-07-28, `auto` tries `legacy`, then `modern` where that is refused.",
    defaultText: "`auto`",
  }),
  captureStderr: z.boolean().optional().meta({
    description: "Whether what a program writes to stderr is recorded.",
    defaultText: "`true`",
  }),
};

const bearer = closedObject({
  type: z.literal("bearer").meta({ description: "A token in the header `Authorization`." }),
  token: filledText.meta({ description: "The token; better written as `${VAR}`." }),
}).meta({ id: "BearerAuth", title: "Bearer token", description: "A token that is known." });

const clientCredentials = closedObject({
  type: z.literal("client-credentials").meta({ description: "OAuth 2.1, for programs." }),
  clientId: filledText.meta({ description: "Name of the client." }),
  clientSecret: filledText.meta({ description: "Its secret; better written as `${VAR}`." }),
  scope: filledText.optional().meta({ description: "What is asked for.", defaultText: "none" }),
  issuer: httpUrl.optional().meta({
    description: "The only authorization server that may see the secret.",
    defaultText: "none, so that no token can be had",
  }),
}).meta({
  id: "ClientCredentialsAuth",
  title: "Client credentials",
  description: "A token that is asked for with a client's own name and secret.",
});

const storedTokens = closedObject({
  type: z.literal("stored").meta({ description: "Tokens that were got before." }),
  file: filledText.meta({
    description:
      "JSON file with `access_token` and `refresh_token`, relative to this one; new tokens are written back.",
  }),
  clientId: filledText.optional().meta({ description: "Name of the client, for refreshing." }),
  clientSecret: filledText.optional().meta({ description: "Its secret, for refreshing." }),
  issuer: httpUrl.optional().meta({
    description: "The only authorization server that may see the refresh token.",
    defaultText: "the file's `issuer`, or none",
  }),
}).meta({ id: "StoredAuth", title: "Stored tokens", description: "Tokens in a file." });

/** How a server with an address is told who asks. */
const authSchema = z.discriminatedUnion("type", [bearer, clientCredentials, storedTokens]).meta({
  id: "Auth",
  title: "Auth",
  description: "How the server is told who asks; `type` says which way.",
});

const auth = authSchema
  .optional()
  .meta({ description: "How the server is told who asks.", defaultText: "not" });

const headers = z
  .record(filledText, z.string())
  .default({})
  .meta({ description: "HTTP headers sent with every request. Their values are kept out of traces." });

const stdioServer = closedObject({
  transport: z.literal("stdio").meta({ description: "A program that talks over stdin and stdout." }),
  command: filledText.meta({
    description: "The program to start. Those in `node_modules/.bin` above `cwd` are found by name.",
  }),
  args: z.array(z.string()).default([]).meta({ description: "Its arguments." }),
  env: z
    .record(z.string().regex(/^[^=\0]+$/, { error: "must be the name of a variable" }), z.string())
    .default({})
    .meta({ description: "Environment variables for the program, on top of a small safe set." }),
  cwd: filledText.optional().meta({
    description: "Folder that the program starts in, relative to the config file.",
    defaultText: "the config file's folder",
  }),
  inheritEnv: z
    .union([z.array(filledText), z.literal(true)])
    .default([])
    .meta({
      description:
        "Variables to pass on from your own environment, by name; `true` passes on all of them. Without it a server gets only what programs need to start (`PATH`, `HOME`, …).",
    }),
  sandbox: sandboxSchema.optional().meta({
    description: "What confines the program. Its other settings may stand here too.",
    defaultText: "`none`",
  }),
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
  transport: z.literal(["shttp", "http"]).meta({ description: "Streamable HTTP." }),
  url: httpUrl.meta({ description: "The server's MCP address." }),
  headers,
  auth,
  ...sharedServerFields,
}).meta({ id: "ShttpServer", title: "Server over Streamable HTTP", description: "A server with a URL." });

const sseServer = closedObject({
  transport: z.literal("sse").meta({ description: "The older HTTP+SSE transport." }),
  url: httpUrl.meta({ description: "The address of the event stream." }),
  headers,
  auth,
  reconnect: z
    .boolean()
    .optional()
    .meta({ description: "Accepted so that older configs stay valid; has no effect." }),
  reconnectInterval: duration
    .optional()
    .meta({ description: "Accepted so that older configs stay valid; has no effect." }),
  maxReconnectAttempts: z
    .int()
    .min(0)
    .optional()
    .meta({ description: "Accepted so that older configs stay valid; has no effect." }),
  ...sharedServerFields,
}).meta({
  id: "SseServer",
  title: "Server over HTTP+SSE",
  description: "A server that speaks only the older HTTP+SSE transport.",
});

const mockServer = closedObject({
  transport: z.literal("mock").meta({ description: "Written answers in the place of a server." }),
  mock: mockSchema.meta({ description: "What it offers and answers." }),
  ...sharedServerFields,
}).meta({ id: "MockServer", title: "Mock server", description: "A server that is only written answers." });

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
  ...stdioServer.shape,
  ...shttpServer.shape,
  ...mockServer.shape,
};

/** How to start or reach one MCP server. */
export const serverSchema = z
  .discriminatedUnion("transport", [stdioServer, shttpServer, sseServer, mockServer])
  .meta({ id: "Server", title: "Server", description: "One MCP server; `transport` says which kind." });

/** A server as parsed: defaults filled in, durations in milliseconds. */
export type ParsedServer = z.output<typeof serverSchema>;

/** A local server as a file gives it. */
export type ParsedStdioServer = Extract<ParsedServer, { transport: "stdio" }>;

type ParsedHttpServer = Extract<ParsedServer, { transport: "shttp" | "http" | "sse" }>;
type ParsedFault = NonNullable<ParsedServer["faults"]>[number];

/** What the world adds to a local server: where it starts, and in which environment. */
export type CompleteStdio = (server: ParsedStdioServer, name: string) => Pick<StdioServerSpec, "cwd" | "env">;

export interface BuildServerOptions {
  readonly completeStdio: CompleteStdio;
  /** Longest that the start may take, unless the server says. */
  readonly startupTimeoutMs: number;
  /** Lifetime of servers that have none of their own. */
  readonly lifetime?: ServerLifetime | undefined;
  /** Makes the path of a file absolute. Default: it is left as written. */
  readonly resolvePath?: ((path: string) => string) | undefined;
}

/** Makes the model's server of one that is valid. */
export type BuildServer = (name: string, server: ParsedServer) => ServerSpec;

/** Builds all servers of a table. */
export function buildServers(
  servers: Readonly<Record<string, ParsedServer>>,
  build: BuildServer,
): Readonly<Record<string, ServerSpec>> {
  return Object.fromEntries(Object.entries(servers).map(([name, server]) => [name, build(name, server)]));
}

/** Turns a valid server into the model's. */
export function buildServer(name: string, server: ParsedServer, options: BuildServerOptions): ServerSpec {
  const common = commonParts(server, options);
  switch (server.transport) {
    case "stdio": {
      const { command, args } = server;
      const complete = options.completeStdio(server, name);
      return { transport: "stdio", command, args, ...complete, ...sandboxPart(server, options), ...common };
    }
    case "shttp":
    case "http":
    case "sse": {
      const transport = server.transport === "sse" ? "sse" : "shttp";
      return { transport, url: server.url, ...credentials(server, options), ...common };
    }
    case "mock":
      return { transport: "mock", mock: buildMock(server.mock), ...common };
  }
}

function sandboxPart(
  { sandbox, network, read, write, memory, processes, image }: ParsedStdioServer,
  { resolvePath = (path) => path }: BuildServerOptions,
): Pick<StdioServerSpec, "sandbox"> {
  const own = laySandbox(defaultSandbox, sandbox, resolvePath);
  const spec = laySandbox(own, { network, read, write, memory, processes, image }, resolvePath);
  return spec.kind === "none" ? {} : { sandbox: spec };
}

type Common = Omit<
  ServerSpec,
  "transport" | "command" | "args" | "env" | "cwd" | "sandbox" | "url" | "headers" | "auth" | "mock"
>;

function commonParts(server: ParsedServer, options: BuildServerOptions): Common {
  const { rateLimit, protocol } = server;
  return withoutUndefined({
    startupTimeoutMs: server.startupTimeout ?? options.startupTimeoutMs,
    maxMessageBytes: server.maxMessageBytes,
    lifetime: server.lifetime ?? options.lifetime,
    required: server.required,
    tools: server.tools?.includes("*") === true ? undefined : server.tools,
    rateLimit: rateLimit === undefined ? undefined : { requests: rateLimit.requests, perMs: rateLimit.per },
    faults: server.faults?.map(buildFault),
    protocol: protocol === "auto" ? undefined : protocol,
    captureStderr: server.captureStderr,
  });
}

function buildFault(fault: ParsedFault): Fault {
  if (fault.kind !== "delay") return withoutUndefined(fault);
  const { delay, ...rest } = fault;
  return withoutUndefined({ ...rest, ms: delay });
}

/** A token that is known is a header like others. */
function credentials(
  { headers, auth }: ParsedHttpServer,
  { resolvePath = (path) => path }: BuildServerOptions,
): Pick<HttpServerSpec, "headers" | "auth"> {
  if (auth === undefined) return { headers };
  if (auth.type === "bearer") return { headers: { ...headers, Authorization: `Bearer ${auth.token}` } };
  return { headers, auth: oauth(auth, resolvePath) };
}

function oauth(
  auth: Exclude<NonNullable<ParsedHttpServer["auth"]>, { type: "bearer" }>,
  resolvePath: (path: string) => string,
): OAuthSpec {
  if (auth.type === "stored") {
    const { type: kind, file, ...client } = auth;
    return withoutUndefined({ kind, file: resolvePath(file), ...client });
  }
  const { type: kind, ...client } = auth;
  return withoutUndefined({ kind, ...client });
}

type ParsedResponse = ParsedMockTool["responses"][number];

/** Turns a valid mock into the model's. */
function buildMock({ instructions, tools, resources, prompts, state }: ParsedMock): MockDefinition {
  return withoutUndefined({
    instructions,
    tools: Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, buildTool(tool)])),
    resources: resources.map((resource) =>
      withoutUndefined({ ...resource, name: resource.name ?? resource.uri }),
    ),
    prompts: prompts.map((prompt) =>
      withoutUndefined({ ...prompt, arguments: prompt.arguments.map((each) => withoutUndefined(each)) }),
    ),
    state,
  });
}

function buildTool(tool: ParsedMockTool): MockTool {
  const outputSchema = tool.outputSchema ?? tool.output_schema;
  return withoutUndefined({
    description: tool.description,
    inputSchema: ofObjects(tool.inputSchema ?? tool.input_schema ?? {}),
    outputSchema: outputSchema === undefined ? undefined : ofObjects(outputSchema),
    responses: tool.responses.map(buildResponse),
  });
}

function ofObjects(schema: JsonObject): JsonObject {
  return { type: "object", ...schema };
}

function buildResponse(response: ParsedResponse): MockResponse {
  return withoutUndefined({
    match: response.match,
    matchSchema: response.matchSchema ?? response.match_schema,
    matchRegex: response.matchRegex ?? response.match_regex,
    when: response.when,
    set: response.set,
    latencyMs: response.latency,
    answer: answerOf(response),
  });
}

function answerOf({
  error,
  protocolError,
  malformed,
  silence,
  ...rest
}: ParsedResponse): MockResponse["answer"] {
  if (error !== undefined) return { kind: "error", message: error };
  if (protocolError !== undefined) return { kind: "protocol-error", ...protocolError };
  if (malformed !== undefined) return { kind: "malformed", text: malformed };
  return silence === true ? { kind: "silence" } : { kind: "return", value: rest.return ?? null };
}
