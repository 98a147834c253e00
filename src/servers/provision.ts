import type { ServerSpec } from "../core/formats/model.ts";
import type { Emit } from "../core/trace/events.ts";
import { abortAfter, untilAborted } from "../process/deadline.ts";
import { ClientSession } from "./client/client-session.ts";
import type { ServerConnection } from "./connection.ts";
import { type Handshake, type HandshakeStep, shakeHands } from "./client/handshake.ts";
import { openHttpConnection } from "./http/http-connection.ts";
import { loadSdk, type Sdk } from "./client/sdk.ts";
import type { ClientSide, ServerSession } from "./session.ts";
import { explainStartFailure } from "./start-failure.ts";
import { openStdioConnection } from "./stdio/stdio-connection.ts";

export interface StartOptions {
  readonly emit: Emit;
  /** Aborts the start. */
  readonly signal: AbortSignal;
  /** Version of mcpvals, as the server is told. */
  readonly version: string;
  /** What the server can ask of us; absent: nothing. */
  readonly clientSide?: ClientSide;
}

/**
 * Starts or reaches a server and waits until it is healthy: handshake and all of `tools/list` within the startup timeout.
 * Throws McpvalsError (`server/spawn-failed`, `server/exited`, `server/handshake-timeout`, `server/protocol-error`,
 * `server/message-too-large`, `server/http-status`, `server/unreachable`) or the signal's reason; by then everything that
 * was started is gone.
 */
export async function startServer(
  name: string,
  spec: ServerSpec,
  options: StartOptions,
): Promise<ServerSession> {
  options.signal.throwIfAborted();
  const started = performance.now();
  const deadline = abortAfter(spec.startupTimeoutMs, () => timeUp, options.signal);
  try {
    const { connection, loading } = await open(name, spec, options.emit);
    const handshake = await greet(connection, { loading, spec, options, signal: deadline.signal });
    const { tools, server } = handshake;
    const durationMs = performance.now() - started;
    const { name: program, version, protocolVersion } = server;
    options.emit({
      type: "server.ready",
      server: name,
      name: program,
      version,
      protocolVersion,
      tools: tools.length,
      durationMs,
    });
    return new ClientSession(connection, handshake, await loading);
  } finally {
    deadline[Symbol.dispose]();
  }
}

/** The reason of the signal when the startup timeout is over. */
const timeUp = Symbol("startup timeout");

interface Opened {
  readonly connection: ServerConnection;
  readonly loading: Promise<Sdk>;
}

/** Starts a process first and loads the SDK then, which takes about as long as the process takes to start up. */
async function open(name: string, spec: ServerSpec, emit: Emit): Promise<Opened> {
  if (spec.transport === "mock") throw new Error("mock servers are not there yet");
  if (spec.transport !== "stdio") {
    const sdk = await loadSdk();
    return { connection: openHttpConnection(name, spec, { emit, sdk }), loading: Promise.resolve(sdk) };
  }
  const connection = await openStdioConnection(name, spec, emit);
  return { connection, loading: loadSdk() };
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
      shakeHands(connection, { sdk, version: options.version, signal: end, onStep }),
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
