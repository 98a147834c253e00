import { withoutUndefined } from "../json.ts";
import { laySandbox } from "../lay-sandbox.ts";
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
import { defaultSandbox } from "../sandbox-model.ts";
import type { ParsedServer } from "./config-server-schema.ts";
import type { ParsedMock, ParsedMockTool } from "./mock-schema.ts";

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
