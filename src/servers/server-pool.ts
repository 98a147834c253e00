import { createHash, randomUUID } from "node:crypto";
import type { ValidateSchema } from "../expect/tool-result.ts";
import { McpvalsError, serializeError } from "../base/error.ts";
import { withoutUndefined } from "../base/json.ts";
import type { RateLimit, ServerSpec } from "../model/server.ts";
import { lifetimeOf, type Trial } from "../model/plan.ts";
import { sharedLimit, type SharedLimits } from "../process/adaptive-limit.ts";
import { untilAborted } from "../process/deadline.ts";
import { openSession, type ServerSession, type StartOptions } from "./client/session.ts";
import type { ServerHost } from "./connections/host.ts";
import type { FiltersOptions, ReserveSlots, TrialFilters } from "./filters/filters.ts";
import type { Gateway } from "./gateway/gateway.ts";
import { openStdioHost } from "./stdio/stdio-host.ts";
import type { GatewayEndpoint } from "./gateway/endpoint.ts";

export interface ServerPoolOptions extends HostOptions {
  /** Version of mcpvals, for servers. */
  readonly version: string;
  /** Everything that will run. */
  readonly trials: readonly Trial[];
  /** Creates the gateway for agents outside this process; called once, when the first of them needs it. */
  readonly createGateway: () => Promise<Gateway>;
  /** Seed of the random numbers of faults. Default: 0. */
  readonly seed?: number;
  /** Gives the server of a trial in place of one that is started; undefined for one that is. Absent: all are started. */
  readonly replay?: ((request: ServeRequest) => Promise<ServerHost> | undefined) | undefined;
}

export interface NamedServer {
  readonly name: string;
  readonly spec: ServerSpec;
}

/** A server that a trial needs, without templates. */
export interface ServeRequest extends NamedServer {
  readonly trial: Trial;
}

/** A host that one trial uses, or several. */
interface Entry {
  /** Trials with the same key share a host; undefined: it is one trial's own. */
  readonly key: string | undefined;
  /** It ends with the last trial of the group; undefined: with the run. */
  readonly group: string | undefined;
  /** Rejects when it cannot be opened. */
  readonly opening: Promise<ServerHost>;
  users: number;
  /** It is not shared any more, and is stopped after its last use. */
  isDropped: boolean;
  readonly isReplayed: boolean;
}

/**
 * Owns every server of a run, and knows which trial shares which. Has started nothing at first; its disposal stops everything and
 * never throws.
 */
export class ServerPool implements AsyncDisposable {
  readonly #options: ServerPoolOptions;
  /** Begins the canaries of this run. */
  readonly #secret = randomUUID();
  /** Hosts that later trials can share, by key: each is opened once, by the first trial that needs it. */
  readonly #shared = new Map<string, Entry>();
  /** All hosts that are not stopped. */
  readonly #entries = new Set<Entry>();
  /** Healthy servers that were started before the first trial and that no trial has taken. */
  readonly #ready = new Map<string, ServerHost>();
  /** Trials to come, by group. */
  readonly #pending = new Map<string, number>();
  #gateway: Promise<Gateway> | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: ServerPoolOptions) {
    this.#options = options;
    for (const trial of options.trials) {
      const group = groupOf(trial);
      this.#pending.set(group, (this.#pending.get(group) ?? 0) + 1);
    }
  }

  /**
   * Starts every server that has to start before anything runs, all at once, and keeps it for the trial that asks for it first.
   * Throws one McpvalsError `server/required` for all that do not start. An aborted signal only ends it early.
   */
  async startRequired(servers: readonly NamedServer[], signal: AbortSignal): Promise<void> {
    const different = [...new Map(servers.map((server) => [hostKeyOf(server), server])).values()];
    const settled = await Promise.allSettled(
      different.map((server) => startedAgain(server.spec, signal, () => this.#makeReady(server, signal))),
    );
    const errors = settled.flatMap((start) => (start.status === "rejected" ? [start.reason as unknown] : []));
    if (errors.length > 0 && !signal.aborted) throw missingServers(errors);
  }

  async #makeReady(server: NamedServer, signal: AbortSignal): Promise<void> {
    const host = await openHost(server.name, server.spec, this.#options);
    try {
      const { version } = this.#options;
      const session = await openSession(host, server.spec, { emit: () => 0, signal, version });
      await session.stop();
      this.#ready.set(hostKeyOf(server), host);
    } catch (error) {
      await host.stop();
      throw error;
    }
  }

  /**
   * Starts a server for a trial, or takes the one that it shares. Undefined, with `server.failed` on record, when it does
   * not start and is not required. A program that is not healthy in time is started once more (`server.late`). Throws as `openHost` and `openSession` do.
   */
  async serve(request: ServeRequest, start: Omit<StartOptions, "version">): Promise<TrialServer | undefined> {
    start.signal.throwIfAborted();
    const { name, spec } = request;
    try {
      return await startedAgain(
        spec,
        start.signal,
        () => this.#serve(request, start),
        (error) => start.emit({ type: "server.late", server: name, error: serializeError(error) }),
      );
    } catch (error) {
      const isAboutServer =
        error instanceof McpvalsError && (error.kind === "environment" || error.kind === "timeout");
      if (spec.required !== false || start.signal.aborted || !isAboutServer) throw error;
      start.emit({ type: "server.failed", server: name, error: serializeError(error) });
      return undefined;
    }
  }

  /** To be called at the end of each trial, also of one that never ran: stops servers that no later trial shares. */
  async trialEnded(trial: Trial): Promise<void> {
    const group = groupOf(trial);
    const left = (this.#pending.get(group) ?? 0) - 1;
    this.#pending.set(group, left);
    if (left !== 0) return;
    const ending = [...this.#entries].filter((entry) => entry.group === group);
    for (const entry of ending) this.#drop(entry);
    await Promise.all(ending.filter(({ users }) => users === 0).map((entry) => this.#stop(entry)));
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const [gateway] = await Promise.allSettled([this.#gateway]);
    if (gateway.status === "fulfilled") await gateway.value?.close();
    this.#shared.clear();
    const ready = [...this.#ready.values()].map((host) => host.stop());
    await Promise.all([...ready, ...[...this.#entries].map((entry) => this.#stop(entry))]);
  }

  async #serve(request: ServeRequest, start: Omit<StartOptions, "version">): Promise<TrialServer> {
    const { spec, trial } = request;
    const { version, seed = 0 } = this.#options;
    const started = performance.now();
    const entry = this.#take(request);
    const end = async ({ broken = false } = {}): Promise<void> => {
      if (broken) this.#drop(entry);
      entry.users -= 1;
      if (entry.isDropped && entry.users === 0) await this.#stop(entry);
    };
    const host = await untilAborted(entry.opening, start.signal).catch(async (error: unknown) => {
      await end();
      throw error;
    });
    const seeds = JSON.stringify([seed, trial.task, trial.agent, trial.variant, trial.attempt]);
    const canary = spec.attack && this.#canary(seeds);
    const filters = entry.isReplayed
      ? withoutFilters(spec)
      : await createFiltersOf(spec, { seed: seeds, limiter: host.limiter, ...withoutUndefined({ canary }) });
    if (spec.attack !== undefined && canary !== undefined)
      start.emit({ type: "attack.prepared", server: request.name, attack: spec.attack, canary });
    const lease = { host, shared: entry.key !== undefined, end };
    return serveTrial(lease, {
      ...start,
      version,
      spec,
      started,
      gateway: () => (this.#gateway ??= this.#options.createGateway()),
      ...(filters === undefined ? {} : { filters }),
    });
  }

  /** The secret of a trial, the same for all of its servers. */
  #canary(trial: string): string {
    return createHash("sha256").update(this.#secret).update(trial).digest("hex").slice(0, 24);
  }

  /** Takes the host of a request, or opens one. */
  #take(request: ServeRequest): Entry {
    const { spec, trial } = request;
    const replayed = this.#options.replay?.(request);
    const lifetime = replayed === undefined ? lifetimeOf(spec) : "per_trial";
    const group = lifetime === "per_task" ? groupOf(trial) : undefined;
    // An attack changes nothing of the server.
    const variant = spec.attack === undefined ? trial.variant : spec.attack.variant;
    const key =
      lifetime === "per_trial"
        ? undefined
        : JSON.stringify([group ?? null, variant ?? null, hostKeyOf(request)]);
    const known = key === undefined ? undefined : this.#shared.get(key);
    if (known !== undefined) {
      known.users += 1;
      return known;
    }
    const entry: Entry = {
      key,
      group,
      opening: replayed ?? this.#open(request),
      users: 1,
      isDropped: key === undefined,
      isReplayed: replayed !== undefined,
    };
    this.#entries.add(entry);
    if (key !== undefined) this.#shared.set(key, entry);
    // One that is lost is replaced for the next trial.
    entry.opening.then(
      ({ lost }) => lost.addEventListener("abort", () => this.#drop(entry), { once: true }),
      () => this.#drop(entry),
    );
    return entry;
  }

  async #open(server: NamedServer): Promise<ServerHost> {
    const key = hostKeyOf(server);
    const host = this.#ready.get(key);
    this.#ready.delete(key);
    if (host?.lost.aborted === false) return host;
    await host?.stop();
    return openHost(server.name, server.spec, this.#options);
  }

  #drop(entry: Entry): void {
    entry.isDropped = true;
    if (entry.key !== undefined && this.#shared.get(entry.key) === entry) this.#shared.delete(entry.key);
  }

  async #stop(entry: Entry): Promise<void> {
    const [opened] = await Promise.allSettled([entry.opening]);
    // The trial that asked for a host which did not open got the error.
    if (opened.status === "fulfilled") await opened.value.stop();
    this.#entries.delete(entry);
  }
}

/** Starts a server once more when it is a program that was not healthy in time, as on a busy machine. Throws what `start` throws. */
async function startedAgain<T>(
  spec: ServerSpec,
  signal: AbortSignal,
  start: () => Promise<T>,
  onLate?: (error: McpvalsError) => void,
): Promise<T> {
  try {
    return await start();
  } catch (error) {
    const isProgram = spec.transport === "stdio" || ("program" in spec && spec.program !== undefined);
    const isLate = error instanceof McpvalsError && error.code === "server/handshake-timeout";
    if (!isProgram || !isLate || signal.aborted) throw error;
    onLate?.(error);
    return start();
  }
}

/** What filters did happens again with the server; the agent has a session of its own where it had one because of them. */
function withoutFilters({ tools, faults = [], rateLimit }: ServerSpec): TrialFilters | undefined {
  const hadSome = tools !== undefined || faults.length > 0 || rateLimit !== undefined;
  return hadSome ? { of: () => [], unmetFaults: () => [] } : undefined;
}

/** The filters of a trial's server, which are loaded only when they are used; undefined: none. */
async function createFiltersOf(spec: ServerSpec, options: FiltersOptions): Promise<TrialFilters | undefined> {
  const { tools, faults = [], attack } = spec;
  const hasOwn = tools !== undefined || faults.length > 0 || attack !== undefined;
  if (!hasOwn && options.limiter === undefined) return undefined;
  const { createFilters } = await import("./filters/filters.ts");
  return createFilters(spec, options);
}

/** Trials that differ in their number only. */
function groupOf({ task, agent, variant }: Trial): string {
  return JSON.stringify([task, agent, variant ?? null]);
}

/** The same for specs that one host can serve: filters are each trial's own, and how many trials run at once is the run's matter. */
function hostKeyOf({ name, spec }: NamedServer): string {
  const {
    tools: _tools,
    faults: _faults,
    attack: _attack,
    required: _required,
    maxConcurrent: _most,
    ...host
  } = spec;
  return JSON.stringify([name, host]);
}

/** One error for all; an error that is not about a server is thrown unchanged. */
function missingServers(errors: readonly unknown[]): unknown {
  const known = errors.filter((error) => error instanceof McpvalsError);
  if (known.length < errors.length) return errors.find((error) => !(error instanceof McpvalsError));
  const [first] = known;
  const isOne = known.length === 1;
  const details = known.flatMap(({ details }) => details.detail ?? []);
  return new McpvalsError(
    "server/required",
    `nothing was run: ${isOne ? "a required server does" : "required servers do"} not start: ${known
      .map(({ message }) => message)
      .join("; ")}`,
    withoutUndefined({
      hint: isOne ? first?.details.hint : undefined,
      detail: details.length === 0 ? undefined : details.join("\n"),
      cause: isOne ? first : new AggregateError(known),
    }),
  );
}

export interface HostOptions {
  /** What servers with an address allow, found out by their refusals. Absent: each host finds out by itself. */
  readonly rateLimits?: SharedLimits;
  /** Present: servers that live for a run keep their `rateLimit` over all machines of the run. */
  readonly reserve?:
    | ((name: string, limit: RateLimit, ...slots: Parameters<ReserveSlots>) => ReturnType<ReserveSlots>)
    | undefined;
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
 * Starts a server, without a client, or prepares for reaching it. A process over stdio exists when this function returns, before its
 * promise settles. Throws McpvalsError `server/spawn-failed` and, for an invalid url, `server/unreachable`.
 */
export async function openHost(
  name: string,
  spec: ServerSpec,
  options: HostOptions = {},
): Promise<ServerHost> {
  const { rateLimit } = spec;
  if (rateLimit === undefined) return openHostOf(name, spec, options);
  const host = openHostOf(name, spec, options);
  const { OwnRateLimiter, SharedRateLimiter } = await import("./filters/filters.ts");
  const { reserve } = options;
  const limiter =
    reserve === undefined || lifetimeOf(spec) !== "per_run"
      ? new OwnRateLimiter(rateLimit)
      : new SharedRateLimiter((...slots) => reserve(name, rateLimit, ...slots));
  return Object.assign(await host, { limiter });
}

async function openHostOf(
  name: string,
  spec: ServerSpec,
  { validateSchema = noValidator, rateLimits }: HostOptions,
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
      const { url, headers, auth } = spec;
      const limit = rateLimits && sharedLimit(rateLimits, JSON.stringify([url, headers, auth]));
      return openHttpHost(name, spec, limit);
    }
  }
}

function noValidator(): Promise<never> {
  return Promise.reject(new Error("no schema validator was given for the mock server"));
}

export type TrialServer = Pick<ServedServer, keyof ServedServer>;

/** A host as one trial gets it. */
export interface Lease {
  readonly host: ServerHost;
  /** Whether other trials use it too. */
  readonly shared: boolean;
  /** Gives the host back; `broken`: no other trial may get it. Stops it when no other trial needs it. Never throws. */
  end(options?: { readonly broken?: boolean }): Promise<void>;
}

export interface ServeOptions extends StartOptions {
  readonly spec: ServerSpec;
  /** Filters between the agent and the server; absent: none. */
  readonly filters?: TrialFilters;
  readonly gateway: () => Promise<Gateway>;
  /** When the start began, by `performance.now()`. */
  readonly started: number;
}

/** Gives a trial its server: recorded there, and healthy. Throws as `openSession`; by then the lease has ended. */
async function serveTrial(lease: Lease, options: ServeOptions): Promise<TrialServer> {
  const { host } = lease;
  const unwatch = host.watch(options.emit);
  /** Ends the trial's use of the host, after the session. */
  const end = async (broken: boolean, session?: ServerSession): Promise<void> => {
    const started = performance.now();
    await session?.stop();
    if (lease.shared) {
      unwatch();
      const durationMs = performance.now() - started;
      options.emit({ type: "server.stopped", server: host.name, by: "disconnect", durationMs });
    }
    await lease.end({ broken });
    unwatch();
  };
  try {
    const session = await openSession(host, options.spec, {
      ...options,
      // The end of a server that serves one trial belongs to the record of that trial.
      ...(lease.shared ? {} : { end: () => lease.end() }),
    });
    return new ServedServer(session, host, options, () => end(false, session));
  } catch (error) {
    await end(!options.signal.aborted);
    throw error;
  }
}

class ServedServer {
  readonly name: string;
  /** The session of the trial's steps. */
  readonly session: ServerSession;
  readonly #host: ServerHost;
  readonly #options: ServeOptions;
  /** Stops the session and ends the trial's use of the host. */
  readonly #end: () => Promise<void>;
  readonly #lost = new AbortController();
  #agentSession: Promise<ServerSession> | undefined;
  #endpoint: Promise<GatewayEndpoint> | undefined;
  #stopping: Promise<void> | undefined;
  #hasReportedFaults = false;

  constructor(session: ServerSession, host: ServerHost, options: ServeOptions, end: () => Promise<void>) {
    this.name = session.name;
    this.session = session;
    this.#host = host;
    this.#options = options;
    this.#end = end;
    const { lost } = session;
    lost.addEventListener("abort", () => this.#lost.abort(lost.reason), { once: true });
    if (lost.aborted) this.#lost.abort(lost.reason);
  }

  /** Aborts with an McpvalsError when the server is lost without being stopped. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** The session of an agent in this process: `session`, or one of its own where filters stand before the server. */
  async agentSession({ signal }: { readonly signal: AbortSignal }): Promise<ServerSession> {
    const { filters, spec } = this.#options;
    if (filters === undefined) return this.session;
    this.#agentSession ??= openSession(this.#host, spec, {
      ...this.#options,
      signal,
      agent: { filters: filters.of },
    });
    return this.#agentSession;
  }

  /** Where an agent outside this process reaches the server; the same one each time. */
  endpoint(): Promise<GatewayEndpoint> {
    const { emit, filters, gateway } = this.#options;
    this.#endpoint ??= gateway().then((opened) =>
      opened.open({
        host: this.#host,
        emit,
        filters: filters?.of ?? (() => []),
        // What an agent outside loses is lost to the trial.
        onLost: (error) => this.#lost.abort(error),
      }),
    );
    return this.#endpoint;
  }

  /** Ends the agent's connections, so that an agent that goes on running cannot reach the server. Never throws. */
  async closeAgentSide(): Promise<void> {
    if (this.#endpoint === undefined && this.#agentSession === undefined) return;
    this.#reportUnmetFaults();
    this.session.expireTools();
    const [endpoint, session] = await Promise.allSettled([this.#endpoint, this.#agentSession]);
    await Promise.all([
      endpoint.status === "fulfilled" ? endpoint.value?.close() : undefined,
      session.status === "fulfilled" ? session.value?.stop() : undefined,
    ]);
  }

  /** Settles when a program has shown that it outlived its last answer, or is lost. Never throws. */
  async checkAlive(): Promise<void> {
    if (this.#host.isProgram && !this.#options.signal.aborted) await this.session.checkAlive();
  }

  /** Ends the trial's use; stops the server when it serves no other trial. Never throws. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    await this.closeAgentSide();
    // Otherwise a program that exits right after its last answer would look as if it had been stopped.
    await this.checkAlive();
    await this.#end();
  }

  /** A fault that no request has met has tested nothing. */
  #reportUnmetFaults(): void {
    if (this.#hasReportedFaults) return;
    this.#hasReportedFaults = true;
    const { emit, filters } = this.#options;
    for (const { kind, method = "tools/call", tool } of filters?.unmetFaults() ?? [])
      emit({
        type: "fault.unmet",
        server: this.#host.name,
        fault: kind,
        ...withoutUndefined({ method, tool }),
      });
  }
}
