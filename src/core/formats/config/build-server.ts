import type { ServerSpec, StdioServerSpec } from "../model.ts";
import type { ParsedServer } from "./config-server-schema.ts";

/** A local server as a file gives it. */
export type ParsedStdioServer = Extract<ParsedServer, { transport: "stdio" }>;

/** What the world adds to a local server: where it starts, and in which environment. */
export type CompleteStdio = (server: ParsedStdioServer, name: string) => Pick<StdioServerSpec, "cwd" | "env">;

export interface BuildServerOptions {
  readonly completeStdio: CompleteStdio;
  /** Longest that the start may take, unless the server says. */
  readonly startupTimeoutMs: number;
}

/** Turns a valid server into the model's. */
export function buildServer(name: string, server: ParsedServer, options: BuildServerOptions): ServerSpec {
  const common = {
    startupTimeoutMs: server.startupTimeout ?? options.startupTimeoutMs,
    maxMessageBytes: server.maxMessageBytes,
  };
  if (server.transport !== "stdio") {
    return { transport: server.transport, url: server.url, headers: server.headers, ...common };
  }
  const { command, args } = server;
  return { transport: "stdio", command, args, ...options.completeStdio(server, name), ...common };
}
