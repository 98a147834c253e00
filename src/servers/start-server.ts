import type { ServerSpec } from "../core/formats/model.ts";
import type { Emit } from "../core/trace/events.ts";
import { abortAfter, untilAborted } from "../process/deadline.ts";
import { ClientSession } from "./client/client-session.ts";
import type { ConnectOptions, ServerConnection, ServerHost } from "./connections/host.ts";
import { type Handshake, type HandshakeOptions, type HandshakeStep, shakeHands } from "./client/handshake.ts";
import { type ClientSide, loadSdk, type Sdk, type ServerSession } from "./client/session.ts";
import { openHttpHost } from "./http/http-host.ts";
import { openStdioHost } from "./stdio/stdio-host.ts";
import type { ValidateSchema } from "../core/checks/schema-check.ts";
import { explainStartFailure } from "./client/start-failure.ts";

export interface HostOptions {
  /** For mocks with `matchSchema`. */
  readonly validateSchema?: ValidateSchema;
}

export interface StartOptions extends HostOptions {
  readonly emit: Emit;
  /** Aborts the start. */
  readonly signal: AbortSignal;
  /** Version of mcpvals, for `clientInfo`. */
  readonly version: string;
  /** What the server can ask of the client; absent: nothing. */
  readonly clientSide?: ClientSide;
}

export interface SessionOptions extends StartOptions {
  readonly connect?: ConnectOptions;
  /** Called before the connection ends, also when the session does not start. Never throws. */
  readonly end?: () => Promise<void>;
  /** When the start began, by `performance.now()`; absent: now. */
  readonly started?: number;
}

/**
 * Starts or reaches a server and waits until it is healthy; stopping the session stops the server. Throws as `openHost` and
 * `openSession` do, after everything that was started has been stopped.
 */
export async function startServer(
  name: string,
  spec: ServerSpec,
  options: StartOptions,
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
  switch (spec.transport) {
    case "stdio":
      return openStdioHost(name, spec);
    case "mock": {
      // Loaded only when it is used.
      const { openMockHost } = await import("./mock/mock-host.ts");
      return openMockHost(name, spec, { validateSchema });
    }
    case "shttp":
    case "sse":
      return openHttpHost(name, spec);
  }
}

/**
 * Opens a session with a server and waits until it is healthy: handshake and all of `tools/list` within the startup timeout. Throws McpvalsError (`server/exited`, `server/handshake-timeout`, `server/protocol-error`,
 * `server/message-too-large`, `server/http-status`, `server/unreachable`) or the signal's reason; the session has ended by
 * then.
 */
export async function openSession(
  host: ServerHost,
  spec: ServerSpec,
  options: SessionOptions,
): Promise<ServerSession> {
  const { emit, signal, started = performance.now() } = options;
  const deadline = abortAfter(spec.startupTimeoutMs, () => timeUp, signal);
  try {
    const connection = endingWith(host.connect(emit, options.connect), options.end);
    // A process takes about as long to start up as the SDK takes to load.
    const loading = loadSdk();
    const handshake = await greet(connection, { loading, spec, options, signal: deadline.signal });
    const { tools, server } = handshake;
    const durationMs = performance.now() - started;
    // Recorded once, with the session of the trial.
    if (options.connect?.agent !== true)
      emit({ type: "server.ready", server: host.name, ...server, tools: tools.length, durationMs });
    return new ClientSession(connection, handshake, await loading);
  } finally {
    deadline[Symbol.dispose]();
  }
}

function noValidator(): Promise<never> {
  return Promise.reject(new Error("no schema validator was given for the mock server"));
}

/** The reason of the signal when the startup timeout is over. */
const timeUp = Symbol("startup timeout");

/** The same connection, with `end` before its own end. */
function endingWith(connection: ServerConnection, end: (() => Promise<void>) | undefined): ServerConnection {
  if (end === undefined) return connection;
  const { name, transport, lost } = connection;
  return {
    name,
    transport,
    lost,
    evidence: () => connection.evidence(),
    async stop() {
      await end();
      await connection.stop();
    },
  };
}

function handshakeOptions(
  { protocol }: ServerSpec,
  { clientSide }: StartOptions,
): Pick<HandshakeOptions, "protocol" | "clientSide"> {
  return {
    ...(protocol === undefined ? {} : { protocol }),
    ...(clientSide === undefined ? {} : { clientSide }),
  };
}

interface GreetOptions {
  readonly loading: Promise<Sdk>;
  readonly spec: ServerSpec;
  readonly options: StartOptions;
  /** Aborts with the options' signal and when the time is up. */
  readonly signal: AbortSignal;
}

async function greet(
  connection: ServerConnection,
  { loading, spec, options, signal }: GreetOptions,
): Promise<Handshake> {
  let step: HandshakeStep = "initialize";
  const onStep = (next: HandshakeStep): void => {
    step = next;
  };
  const end = AbortSignal.any([signal, connection.lost]);
  try {
    const sdk = await untilAborted(loading, end);
    return await untilAborted(
      shakeHands(connection, {
        sdk,
        version: options.version,
        signal: end,
        onStep,
        ...handshakeOptions(spec, options),
      }),
      end,
    );
  } catch (error) {
    await connection.stop();
    options.signal.throwIfAborted();
    const timedOut = signal.reason === timeUp;
    const { startupTimeoutMs: timeoutMs, transport } = spec;
    const sdk = await loading;
    throw explainStartFailure(error, { connection, transport, step, sdk, timedOut, timeoutMs });
  }
}
