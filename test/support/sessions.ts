import { createRequire } from "node:module";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import type { JsonObject } from "../../src/core/formats/model.ts";
import type { CallOptions, CallOutcome, ServerSession, ToolDefinition } from "../../src/servers/session.ts";

/** Starts the official `everything` server over stdio. */
export async function startEverything(name = "everything"): Promise<ServerSession> {
  const entry = createRequire(import.meta.url).resolve(
    "@modelcontextprotocol/server-everything/dist/index.js",
  );
  const client = new Client({ name: "mcpvals-test", version: "0.0.0" });
  await client.connect(
    new StdioClientTransport({ command: process.execPath, args: [entry, "stdio"], stderr: "ignore" }),
  );
  const { tools } = await client.listTools();
  return stubSession({
    name,
    tools: tools as unknown as ToolDefinition[],
    async call(tool, args, { signal, timeoutMs }) {
      const result = await client.callTool({ name: tool, arguments: args }, { signal, timeout: timeoutMs });
      return { kind: "result", result: result as unknown as JsonObject, latencyMs: 0 };
    },
    stop: () => client.close(),
  });
}

export interface StubSessionOptions {
  readonly name: string;
  readonly tools: readonly ToolDefinition[];
  readonly call: (tool: string, args: JsonObject, options: CallOptions) => CallOutcome | Promise<CallOutcome>;
  readonly stop?: () => Promise<void>;
}

/** A session whose tools are functions of the test. */
export function stubSession(options: StubSessionOptions): ServerSession {
  const stop = options.stop ?? (() => Promise.resolve());
  return {
    name: options.name,
    tools: options.tools,
    callTool: async (tool, args, callOptions) => options.call(tool, args, callOptions),
    lost: new AbortController().signal,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** A tool that takes any object. */
export function anyTool(name: string): ToolDefinition {
  return { name, description: `Does ${name}.`, inputSchema: { type: "object" } };
}

/** A tool result with one text. */
export function textResult(text: string): CallOutcome {
  return { kind: "result", result: { content: [{ type: "text", text }] }, latencyMs: 1 };
}
