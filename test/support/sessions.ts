import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type { JsonObject } from "../../src/core/formats/model.ts";
import type { Emit } from "../../src/core/trace/events.ts";
import { startServer } from "../../src/servers/server-pool.ts";
import type { TrialServer } from "../../src/servers/trial-server.ts";
import type {
  CallOptions,
  CallOutcome,
  ClientSide,
  ServerSession,
  ToolDefinition,
} from "../../src/servers/client/session.ts";

/** Starts the official `everything` server over stdio; what happens on the wire is emitted. */
export async function startEverything(
  emit: Emit = () => 0,
  clientSide: ClientSide = {},
): Promise<ServerSession> {
  const entry = createRequire(import.meta.url).resolve(
    "@modelcontextprotocol/server-everything/dist/index.js",
  );
  return startServer(
    "everything",
    {
      transport: "stdio",
      command: process.execPath,
      args: [entry, "stdio"],
      env: {},
      cwd: fileURLToPath(new URL(".", import.meta.url)),
      startupTimeoutMs: 20_000,
      maxMessageBytes: 10_000_000,
    },
    { emit, signal: new AbortController().signal, version: "0.0.0", clientSide },
  );
}

export interface StubSessionOptions {
  readonly name: string;
  readonly tools: readonly ToolDefinition[];
  readonly call: (tool: string, args: JsonObject, options: CallOptions) => CallOutcome | Promise<CallOutcome>;
  /** What a resource gives; without it there are no resources. */
  readonly read?: (uri: string, options: CallOptions) => CallOutcome | Promise<CallOutcome>;
  /** What a prompt gives; without it there are no prompts. */
  readonly prompt?: StubSessionOptions["call"];
  readonly stop?: () => Promise<void>;
}

/** A session whose tools, resources and prompts are functions of the test. */
export function stubSession(options: StubSessionOptions): ServerSession {
  const stop = options.stop ?? (() => Promise.resolve());
  return {
    name: options.name,
    tools: options.tools,
    toolsNamed: async (name) => options.tools.filter((tool) => tool.name === name),
    expireTools: () => undefined,
    checkAlive: () => Promise.resolve(),
    abilities: { tools: true, resources: options.read !== undefined, prompts: options.prompt !== undefined },
    list: async (kind) => noMethod(kind),
    callTool: async (tool, args, callOptions) => options.call(tool, args, callOptions),
    readResource: async (uri, callOptions) => options.read?.(uri, callOptions) ?? noMethod("resources/read"),
    getPrompt: async (name, args, callOptions) =>
      options.prompt?.(name, args, callOptions) ?? noMethod("prompts/get"),
    lost: new AbortController().signal,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** A session as a trial has it, without a gateway. */
export function trialServer(session: ServerSession): TrialServer {
  return {
    name: session.name,
    session,
    lost: session.lost,
    agentSession: () => Promise.resolve(session),
    endpoint: () => Promise.reject(new Error("this server has no gateway")),
    closeAgentSide: () => Promise.resolve(),
    checkAlive: () => session.checkAlive(),
    stop: () => session.stop(),
  };
}

function noMethod(method: string): CallOutcome {
  return { kind: "error", code: -32601, message: `no method ${method}`, latencyMs: 1 };
}

/** A tool that takes any object. */
export function anyTool(name: string): ToolDefinition {
  return { name, description: `Does ${name}.`, inputSchema: { type: "object" } };
}

/** A tool result with one text. */
export function textResult(text: string): CallOutcome {
  return { kind: "result", result: { content: [{ type: "text", text }] }, latencyMs: 1 };
}
