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
import { defaultSandbox, mergeSandbox, sandboxLimits, sandboxSchema, unconfined } from "../sandbox.ts";
import { closedObject, duration, filledText, httpUrl } from "./config-fields.ts";
import { mockSchema, type ParsedMock, type ParsedMockTool } from "./mock.ts";

/** Lifetimes as they may be written; the last is another name of `per_run`. */
const lifetimes = ["per_trial", "per_task", "per_run", "per_benchmark"] as const;

/** How long one started server serves. */
export const lifetimeSchema = z
  .enum(lifetimes)
  .transform((written) => (written === "per_benchmark" ? ("per_run" as const) : written))
  .meta({ id: "Lifetime", title: "Lifetime", description: "How long one server process is used." });

const rateLimit = closedObject({
  requests: z.int().min(1).meta({ description: "Maximum number of requests in the period." }),
  per: duration.meta({ description: "The period." }),
}).meta({ id: "RateLimit", title: "Rate limit", description: "Limits the rate of requests; others wait." });

const faultTarget = {
  tool: filledText.optional().meta({
    description: "Name or glob of the affected tools; only for `tools/call`.",
    defaultText: "any",
  }),
  method: filledText.default("tools/call").meta({ description: "The affected method." }),
  probability: z.number().min(0).max(1).default(1).meta({ description: "0: never, 1: always." }),
  times: z.int().min(1).optional().meta({
    description: "Maximum number of times in one trial.",
    defaultText: "no limit",
  }),
};

const delayFault = closedObject({
  kind: z.literal("delay").meta({ description: "The request is delayed." }),
  ...faultTarget,
  delay: duration.meta({ description: "The delay." }),
}).meta({ id: "DelayFault", title: "Delay", description: "Delays a request." });

const dropFault = closedObject({
  kind: z.literal("drop").meta({ description: "The request is never answered." }),
  ...faultTarget,
}).meta({ id: "DropFault", title: "Drop", description: "Drops a request." });

const errorFault = closedObject({
  kind: z.literal("error").meta({ description: "mcpvals answers with a JSON-RPC error." }),
  ...faultTarget,
  code: z.int().optional().meta({ description: "Code of the error.", defaultText: "-32603" }),
  message: filledText
    .optional()
    .meta({ description: "Message of the error.", defaultText: "a default message" }),
}).meta({ id: "ErrorFault", title: "Error", description: "Answers with an error." });

const truncateFault = closedObject({
  kind: z.literal("truncate").meta({ description: "The texts of the result are cut." }),
  ...faultTarget,
  bytes: z.int().min(0).meta({ description: "Length that is kept of each text, in bytes." }),
}).meta({ id: "TruncateFault", title: "Truncate", description: "Truncates a result." });

const disconnectFault = closedObject({
  kind: z.literal("disconnect").meta({ description: "The connection is closed." }),
  ...faultTarget,
}).meta({ id: "DisconnectFault", title: "Disconnect", description: "Closes the connection." });

const fault = z
  .discriminatedUnion("kind", [delayFault, dropFault, errorFault, truncateFault, disconnectFault])
  .refine(({ tool, method }) => tool === undefined || method === "tools/call", {
    error: 'must not have tool, since its method is not "tools/call"',
  })
  .meta({
    id: "Fault",
    title: "Fault",
    description: "An injected fault; `kind` is its type.",
  });

/** What every kind of server may have, beside how it is reached. */
const sharedServerFields = {
  startupTimeout: duration.optional().meta({
    description: "Time limit of `initialize` and `tools/list` together.",
    defaultText: "`timeout`",
  }),
  maxMessageBytes: z
    .int()
    .min(1)
    .default(10 * 1024 * 1024)
    .meta({ description: "Largest single message accepted from the server, in bytes." }),
  lifetime: lifetimeSchema.optional().meta({
    description:
      "How long one server process is used: for one trial, for all trials of a task with one agent, or for the run. `per_benchmark` is another name of `per_run`.",
    defaultText: "`serverLifetime`; else `per_trial`, for servers with a URL `per_run`",
  }),
  required: z.boolean().optional().meta({
    description:
      "If it cannot start: `true`: nothing runs; `false`: trials run without it; not set: the trial is an error.",
    defaultText: "neither",
  }),
  tools: z.array(filledText).optional().meta({
    description: "Tools that agents see and may call, by name or glob (`*`).",
    defaultText: "all",
  }),
  rateLimit: rateLimit
    .optional()
    .meta({ description: "Maximum number of requests of agents in a period; others wait." }),
  faults: z.array(fault).optional().meta({
    description: "Faults that are injected between agents and this server. Steps are not affected.",
  }),
  protocol: z.enum(["auto", "legacy", "modern"]).optional().meta({
    description:
      "`legacy`: starts with `initialize`; `modern`: protocol 2026-07-28; `auto`: `legacy`, or `modern` if the server refuses that.",
    defaultText: "`auto`",
  }),
  captureStderr: z.boolean().optional().meta({
    description: "Whether what a program writes to stderr is recorded.",
    defaultText: "`true`",
  }),
};

const bearer = closedObject({
  type: z.literal("bearer").meta({ description: "A bearer token in the header `Authorization`." }),
  token: filledText.meta({ description: "The token; use `${VAR}` to keep it out of the file." }),
}).meta({ id: "BearerAuth", title: "Bearer token", description: "A fixed token." });

const clientCredentials = closedObject({
  type: z.literal("client-credentials").meta({ description: "OAuth 2.1 client credentials." }),
  clientId: filledText.meta({ description: "The client id." }),
  clientSecret: filledText.meta({
    description: "The client secret; use `${VAR}` to keep it out of the file.",
  }),
  scope: filledText.optional().meta({ description: "The requested scopes.", defaultText: "none" }),
  issuer: httpUrl.optional().meta({
    description: "The only authorization server that gets the secret.",
    defaultText: "none; then no token is requested",
  }),
}).meta({
  id: "ClientCredentialsAuth",
  title: "Client credentials",
  description: "A token that is requested with client id and secret.",
});

const storedTokens = closedObject({
  type: z.literal("stored").meta({ description: "Tokens of an earlier login." }),
  file: filledText.meta({
    description:
      "JSON file with `access_token` and `refresh_token`, relative to this one; new tokens are written back.",
  }),
  clientId: filledText.optional().meta({ description: "The client id, for refreshing." }),
  clientSecret: filledText.optional().meta({ description: "The client secret, for refreshing." }),
  issuer: httpUrl.optional().meta({
    description: "The only authorization server that gets the refresh token.",
    defaultText: "the file's `issuer`, or none",
  }),
}).meta({ id: "StoredAuth", title: "Stored tokens", description: "Tokens in a file." });

/** How a server with an address is told who asks. */
const authSchema = z.discriminatedUnion("type", [bearer, clientCredentials, storedTokens]).meta({
  id: "Auth",
  title: "Auth",
  description: "Authentication; `type` is the method.",
});

const auth = authSchema.optional().meta({ description: "Authentication.", defaultText: "none" });

const headers = z
  .record(filledText, z.string())
  .default({})
  .meta({ description: "HTTP headers sent with every request. Their values are not recorded." });

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
    description: "The sandbox of the program. Its other settings may also be given here.",
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
  reconnect: z.boolean().optional().meta({ description: "Accepted for older configs; has no effect." }),
  reconnectInterval: duration.optional().meta({ description: "Accepted for older configs; has no effect." }),
  maxReconnectAttempts: z
    .int()
    .min(0)
    .optional()
    .meta({ description: "Accepted for older configs; has no effect." }),
  ...sharedServerFields,
}).meta({
  id: "SseServer",
  title: "Server over HTTP+SSE",
  description: "A server that speaks only the older HTTP+SSE transport.",
});

const mockServer = closedObject({
  transport: z.literal("mock").meta({ description: "A server with fixed responses." }),
  mock: mockSchema.meta({ description: "Its tools, resources, prompts and responses." }),
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

/** What the loader adds to a local server: where it starts, and in which environment. */
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
  const own = mergeSandbox(defaultSandbox, sandbox, resolvePath);
  const spec = mergeSandbox(own, { network, read, write, memory, processes, image }, resolvePath);
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
