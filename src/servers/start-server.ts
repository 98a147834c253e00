import type { ValidateSchema } from "../core/checks/tool-result.ts";
import type { ServerSpec } from "../core/formats/model.ts";
import { openSession, type StartOptions } from "./client/open-session.ts";
import type { ServerSession } from "./client/session.ts";
import type { ServerHost } from "./connections/host.ts";
import { openStdioHost } from "./stdio/stdio-host.ts";

export interface HostOptions {
  /** For mocks with `matchSchema`. */
  readonly validateSchema?: ValidateSchema;
}

/**
 * Starts or reaches a server and waits until it is healthy; stopping the session stops the server. Throws as `openHost` and
 * `openSession` do, after everything that was started has been stopped.
 */
export async function startServer(
  name: string,
  spec: ServerSpec,
  options: StartOptions & HostOptions,
): Promise<ServerSession> {
  options.signal.throwIfAborted();
  const started = performance.now();
  const host = await openHost(name, spec, options);
  host.watch(options.emit);
  return openSession(host, spec, { ...options, started, end: () => host.stop() });
}

/**
 * Starts a server, without a client, or prepares for reaching it. A process exists when this function returns, before its
 * promise settles. Throws McpvalsError `server/spawn-failed` and, for an invalid url, `server/unreachable`.
 */
export async function openHost(
  name: string,
  spec: ServerSpec,
  { validateSchema = noValidator }: HostOptions = {},
): Promise<ServerHost> {
  // The others are loaded only when they are used.
  switch (spec.transport) {
    case "stdio":
      return openStdioHost(name, spec);
    case "mock": {
      const { openMockHost } = await import("./mock/mock-host.ts");
      return openMockHost(name, spec, { validateSchema });
    }
    case "shttp":
    case "sse": {
      const { openHttpHost } = await import("./http/http-host.ts");
      return openHttpHost(name, spec);
    }
  }
}

function noValidator(): Promise<never> {
  return Promise.reject(new Error("no schema validator was given for the mock server"));
}
