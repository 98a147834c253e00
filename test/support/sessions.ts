import { fileURLToPath } from "node:url";
import { McpvalsError } from "../../src/base/error.ts";
import type { JsonObject } from "../../src/base/json.ts";
import type { McpStep } from "../../src/model/step.ts";
import type { Emit } from "../../src/model/event.ts";
import type {
  CallOptions,
  CallOutcome,
  ClientSide,
  ServerSession,
  ToolDefinition,
} from "../../src/servers/client/session.ts";
import { startServer, type TrialServer } from "../../src/servers/server-pool.ts";
import { everythingServer } from "./programs.ts";

/** Starts the official `everything` server over stdio; what happens on the wire is emitted. */
export async function startEverything(
  emit: Emit = () => 0,
  clientSide: ClientSide = {},
): Promise<ServerSession> {
  return startServer(
    "everything",
    {
      transport: "stdio",
      command: process.execPath,
      args: [everythingServer, "stdio"],
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
  readonly instructions?: string;
  readonly stop?: () => Promise<void>;
}

/** A session whose tools, resources and prompts are functions of the test. */
export function stubSession(options: StubSessionOptions): ServerSession {
  const stop = options.stop ?? (() => Promise.resolve());
  return {
    name: options.name,
    tools: options.tools,
    toolsNamed: async (name) => options.tools.filter((tool) => tool.name === name),
    toolsMayDiffer: false,
    listTools: () => Promise.resolve(),
    expireTools: () => undefined,
    checkAlive: () => Promise.resolve(),
    abilities: { tools: true, resources: options.read !== undefined, prompts: options.prompt !== undefined },
    list: async (kind) => noMethod(kind),
    callTool: async (tool, args, callOptions) => options.call(tool, args, callOptions),
    readResource: async (uri, callOptions) => options.read?.(uri, callOptions) ?? noMethod("resources/read"),
    getPrompt: async (name, args, callOptions) =>
      options.prompt?.(name, args, callOptions) ?? noMethod("prompts/get"),
    instructions: options.instructions,
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

/** How a leaf ends: as expected, otherwise, it cannot act, not before it is told to stop. */
export type LeafEnd = "pass" | "fail" | "error" | "hang";

/** A step that calls a tool of the server of {@link leafServer}; the call's `id` says which one it is. */
export function leaf(id: string, end: LeafEnd, parts: Partial<McpStep> = {}): McpStep {
  return {
    type: "mcp",
    id,
    request: { kind: "tool", tool: end, args: { id } },
    expect: { result: "ok" },
    timeoutMs: 60_000,
    ...parts,
  };
}

/** A server whose tools end as they are called; `onCall` hears of every call before it is answered. */
export function leafServer(onCall: (id: string) => void): ServerSession {
  return stubSession({
    name: "leaves",
    tools: ["pass", "fail", "error", "hang"].map(anyTool),
    call(tool, args, { signal }) {
      const id = typeof args["id"] === "string" ? args["id"] : "";
      onCall(id);
      if (signal.aborted) throw signal.reason;
      if (tool === "error") throw new McpvalsError("server/unreachable", `${id} cannot act`);
      if (tool !== "hang") return textResult(tool === "pass" ? "ok" : "no");
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      });
    },
  });
}
