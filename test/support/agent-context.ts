import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { AgentContext, AgentDriver } from "../../src/agents/driver.ts";
import type { Emit, EventBody } from "../../src/model/event.ts";
import type { ServerSession } from "../../src/servers/client/session.ts";
import type { GatewayEndpoint } from "../../src/servers/gateway/endpoint.ts";
import { createGateway } from "../../src/servers/gateway/gateway.ts";
import { openStdioHost } from "../../src/servers/stdio/stdio-host.ts";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";
import { builtMain } from "./cli.ts";
import { keepIn } from "./records.ts";

export interface RecordedContext extends AgentContext {
  readonly events: readonly EventBody[];
}

/** What an agent gets for one trial, with everything that it emits kept in `events`. */
export function recordedContext(options: {
  readonly users: readonly string[];
  readonly sessions?: readonly ServerSession[];
  readonly task?: string;
  readonly signal?: AbortSignal;
}): RecordedContext {
  const events: EventBody[] = [];
  return {
    events,
    task: options.task ?? "task",
    turns: options.users.map((user) => ({ user })),
    sessions: options.sessions ?? [],
    endpoints: [],
    workspace: "",
    defer: () => undefined,
    emit: keepIn(events),
    signal: options.signal ?? new AbortController().signal,
    callTimeoutMs: 10_000,
    hold: (waiting) => waiting,
  };
}

/** What the user says in all turns. */
export async function toldIn({ turns }: Pick<AgentContext, "turns">): Promise<readonly string[]> {
  const told: string[] = [];
  for await (const { user } of turns) told.push(user);
  return told;
}

/** The events of one type. */
export function eventsOf<T extends EventBody["type"]>(
  events: readonly EventBody[],
  type: T,
): Extract<EventBody, { readonly type: T }>[] {
  return events.filter((event): event is Extract<EventBody, { readonly type: T }> => event.type === type);
}

const fixtureServer = fileURLToPath(new URL("../fixtures/servers/fixture-server.mjs", import.meta.url));

export interface TestEndpoint extends GatewayEndpoint {
  /** Method and path of what came over HTTP. */
  readonly requests: readonly string[];
}

/** A way to a server with the tool `echo`, over both of its doors. It ends with the test. */
export async function openTestEndpoint(server: string): Promise<TestEndpoint> {
  const http = await startHttpFixture();
  onTestFinished(() => http.close());
  return {
    server,
    url: http.url,
    requests: http.requests,
    bridge: { command: process.execPath, args: [fixtureServer], env: { BRIDGED: "yes" } },
    close: () => Promise.resolve(),
  };
}

/** A way through the gateway to a real server. To be closed before its events are looked at. */
export async function openGatewayEndpoint(
  emit: Emit,
): Promise<{ readonly endpoint: GatewayEndpoint; readonly close: () => Promise<void> }> {
  const host = await openStdioHost("files", {
    transport: "stdio",
    command: process.execPath,
    args: [fixtureServer],
    env: {},
    cwd: process.cwd(),
    startupTimeoutMs: 20_000,
    maxMessageBytes: 10_000_000,
  });
  const gateway = createGateway({ main: builtMain });
  const close = async (): Promise<void> => {
    await gateway.close();
    await host.stop();
  };
  onTestFinished(close);
  return { endpoint: await gateway.open({ host, emit, filters: () => [] }), close };
}

export interface PlayOptions {
  readonly users: readonly string[];
  readonly endpoints?: readonly GatewayEndpoint[];
  readonly signal?: AbortSignal;
  /** Called with each event as it is emitted. */
  readonly onEvent?: (event: EventBody) => void;
}

export interface PlayedProgram {
  readonly events: readonly EventBody[];
  /** What `run` threw. */
  readonly thrown: unknown;
  readonly workspace: string;
}

/** Has an agent play some turns in a fresh folder. */
export async function playProgram(agent: AgentDriver, options: PlayOptions): Promise<PlayedProgram> {
  const workspace = await mkdtemp(join(tmpdir(), "mcpvals-agent-"));
  onTestFinished(() => rm(workspace, { recursive: true, force: true }));
  const base = recordedContext({
    users: options.users,
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
  const emit = (event: EventBody): number => {
    const number = base.emit(event);
    options.onEvent?.(event);
    return number;
  };
  const context = { ...base, emit, workspace, endpoints: options.endpoints ?? [] };
  const thrown = await agent.run(context).then(
    () => undefined,
    (error: unknown) => error ?? new Error("nothing was thrown"),
  );
  return { events: base.events, thrown, workspace };
}
