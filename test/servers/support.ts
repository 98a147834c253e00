import { onTestFinished } from "vitest";
import { McpvalsError } from "../../src/base/error.ts";
import type { HttpServerSpec, ServerSpec, StdioServerSpec } from "../../src/model/server.ts";
import type { Emit, EventBody } from "../../src/model/event.ts";
import { localBinPath } from "../../src/process/environment.ts";
import { type HostOptions, startServer } from "../../src/servers/server-pool.ts";
import type { CallOptions, ServerSession } from "../../src/servers/client/session.ts";
import { fixtureServer } from "../process/support.ts";
import { keepIn } from "../support/records.ts";

/** What a test sees of a trace. */
export interface Record {
  readonly events: EventBody[];
  readonly emit: Emit;
  /** The events of one type, in order. */
  of<T extends EventBody["type"]>(type: T): Extract<EventBody, { type: T }>[];
}

export function createRecord(): Record {
  const events: EventBody[] = [];
  return {
    events,
    emit: keepIn(events),
    of: <T extends EventBody["type"]>(type: T) =>
      events.filter((event): event is Extract<EventBody, { type: T }> => event.type === type),
  };
}

export function stdioSpec(
  command: string,
  args: string[],
  changes: Partial<StdioServerSpec> = {},
): StdioServerSpec {
  return {
    transport: "stdio",
    command,
    args,
    env: { PATH: localBinPath(process.cwd(), process.env["PATH"]) },
    cwd: process.cwd(),
    startupTimeoutMs: 20_000,
    maxMessageBytes: 10_000_000,
    ...changes,
  };
}

/** The fixture server with some flags. */
export function fixtureSpec(flags: string[] = [], changes: Partial<StdioServerSpec> = {}): StdioServerSpec {
  return stdioSpec(process.execPath, [fixtureServer, ...flags], changes);
}

export function httpSpec(url: string, changes: Partial<HttpServerSpec> = {}): HttpServerSpec {
  return {
    transport: "shttp",
    url,
    headers: {},
    startupTimeoutMs: 20_000,
    maxMessageBytes: 10_000_000,
    ...changes,
  };
}

export interface Started {
  readonly session: ServerSession;
  readonly record: Record;
}

/** Starts a server that is stopped when the test ends. */
export async function startSession(spec: ServerSpec, options: HostOptions = {}): Promise<Started> {
  const record = createRecord();
  const { signal } = new AbortController();
  const session = await startServer("s", spec, { ...options, emit: record.emit, signal, version: "9.9.9" });
  onTestFinished(() => session.stop());
  return { session, record };
}

export interface FailedStart {
  readonly error: McpvalsError;
  readonly record: Record;
}

/** Starts a server that has to fail. */
export async function failToStart(
  spec: ServerSpec,
  signal = new AbortController().signal,
): Promise<FailedStart> {
  const record = createRecord();
  try {
    const session = await startServer("s", spec, { emit: record.emit, signal, version: "9.9.9" });
    await session.stop();
  } catch (error) {
    if (error instanceof McpvalsError) return { error, record };
    throw error;
  }
  throw new Error("the server started");
}

export function callOptions(changes: Partial<CallOptions> = {}): CallOptions {
  return { timeoutMs: 20_000, signal: new AbortController().signal, ...changes };
}

/** The error that something has to reject with. */
export async function rejection(work: Promise<unknown>): Promise<McpvalsError> {
  const error = await work.then(
    (value) => new Error(`no rejection but ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  if (error instanceof McpvalsError) return error;
  throw error;
}
