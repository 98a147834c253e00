import { McpvalsError, serializeError } from "../core/errors/error.ts";
import type { ServerSpec } from "../core/formats/model.ts";
import { lifetimeOf, type Trial } from "../core/plan/plan.ts";
import { untilAborted } from "../process/deadline.ts";
import { createFilters, hasFilters, RateLimiter } from "./filters/filters.ts";
import type { Gateway } from "./gateway/endpoint.ts";
import { openSession, type StartOptions } from "./client/open-session.ts";
import { type HostOptions, openHost } from "./start-server.ts";
import { type Lease, serveTrial, type TrialServer } from "./trial-server.ts";
import type { ServerHost } from "./connections/host.ts";

export interface ServerPoolOptions extends HostOptions {
  /** Version of mcpvals, as servers are told. */
  readonly version: string;
  /** Everything that will run. */
  readonly trials: readonly Trial[];
  /** Creates the gateway for agents outside this process; called once, when the first of them needs it. */
  readonly createGateway: () => Promise<Gateway>;
  /** Seed of the random numbers of faults. Default: 0. */
  readonly seed?: number;
}

/** A server that a trial needs, without templates. */
export interface ServeRequest extends NamedServer {
  readonly trial: Trial;
}

/** Owns every server of a run, and knows which trial shares which. */
export interface ServerPool extends AsyncDisposable {
  /**
   * Starts every server that has to start before anything runs, and keeps it for the trial that asks for it first.
   * Throws one McpvalsError `server/required` for all that do not start. An aborted signal only ends it early.
   */
  startRequired(servers: readonly NamedServer[], signal: AbortSignal): Promise<void>;
  /**
   * Starts a server for a trial, or takes the one that it shares. Undefined, with `server.failed` on record, when it does
   * not start and is not required. Throws as `startServer` does.
   */
  serve(
    request: ServeRequest,
    start: Omit<StartOptions, "version" | "validateSchema">,
  ): Promise<TrialServer | undefined>;
  /** To be called at the end of each trial, also of one that never ran: stops servers that no later trial shares. */
  trialEnded(trial: Trial): Promise<void>;
}

/** Creates a pool that has started nothing yet; its disposal stops everything and never throws. */
export function createServerPool(options: ServerPoolOptions): ServerPool {
  return new Pool(options);
}

class Pool implements ServerPool {
  readonly #options: ServerPoolOptions;
  readonly #cache = new ServerCache();
  /** Hosts of one trial each that are not stopped yet. */
  readonly #own = new Set<ServerHost>();
  readonly #required: RequiredServers;
  /** Trials to come, by group. */
  readonly #pending = new Map<string, number>();
  #gateway: Promise<Gateway> | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: ServerPoolOptions) {
    this.#options = options;
    this.#required = new RequiredServers(options);
    for (const trial of options.trials) {
      const group = groupOf(trial);
      this.#pending.set(group, (this.#pending.get(group) ?? 0) + 1);
    }
  }

  startRequired(servers: readonly NamedServer[], signal: AbortSignal): Promise<void> {
    return this.#required.start(servers, signal);
  }

  async serve(
    request: ServeRequest,
    start: Omit<StartOptions, "version" | "validateSchema">,
  ): Promise<TrialServer | undefined> {
    start.signal.throwIfAborted();
    try {
      return await this.#serve(request, start);
    } catch (error) {
      const { name, spec } = request;
      if (spec.required !== false || start.signal.aborted || !isServerError(error)) throw error;
      start.emit({ type: "server.failed", server: name, error: serializeError(error) });
      return undefined;
    }
  }

  async trialEnded(trial: Trial): Promise<void> {
    const group = groupOf(trial);
    const left = (this.#pending.get(group) ?? 0) - 1;
    this.#pending.set(group, left);
    if (left === 0) await this.#cache.endGroup(group);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const [gateway] = await Promise.allSettled([this.#gateway]);
    if (gateway.status === "fulfilled") await gateway.value?.close();
    const own = [...this.#own].map((host) => host.stop());
    await Promise.all([this.#cache.close(), this.#required.close(), ...own]);
  }

  async #serve(
    request: ServeRequest,
    start: Omit<StartOptions, "version" | "validateSchema">,
  ): Promise<TrialServer> {
    const { spec, trial } = request;
    const started = performance.now();
    const { limiter, ...lease } = await this.#lease(request, start.signal);
    const seed = JSON.stringify([
      this.#options.seed ?? 0,
      trial.task,
      trial.agent,
      trial.variant,
      trial.attempt,
    ]);
    return serveTrial(lease, {
      ...start,
      version: this.#options.version,
      spec,
      started,
      gateway: () => this.#openGateway(),
      ...(hasFilters(spec) ? { filters: createFilters(spec, { seed, limiter }) } : {}),
    });
  }

  async #lease(
    request: ServeRequest,
    signal: AbortSignal,
  ): Promise<Lease & { readonly limiter: RateLimiter | undefined }> {
    const { spec } = request;
    const key = cacheKeyOf(request);
    if (key === undefined) {
      const host = await this.#open(request);
      this.#own.add(host);
      const end = (): Promise<void> => host.stop().finally(() => this.#own.delete(host));
      return { host, shared: false, limiter: undefined, end };
    }
    const shared = this.#cache.take(key, () => ({
      opening: this.#open(request),
      limiter: spec.rateLimit === undefined ? undefined : new RateLimiter(spec.rateLimit),
    }));
    try {
      const host = await untilAborted(shared.opening, signal);
      return {
        host,
        shared: true,
        limiter: shared.limiter,
        end: async ({ broken = false } = {}) => {
          if (broken) this.#cache.drop(shared);
          await this.#cache.release(shared);
        },
      };
    } catch (error) {
      await this.#cache.release(shared);
      throw error;
    }
  }

  async #open(server: NamedServer): Promise<ServerHost> {
    return this.#required.take(server) ?? openHost(server.name, server.spec, this.#options);
  }

  #openGateway(): Promise<Gateway> {
    this.#gateway ??= this.#options.createGateway();
    return this.#gateway;
  }
}

/** The cache key of a shared server; undefined for one that is the trial's own. */
function cacheKeyOf({ name, spec, trial }: ServeRequest): CacheKey | undefined {
  const lifetime = lifetimeOf(spec);
  if (lifetime === "per_trial") return undefined;
  const server = JSON.stringify([trial.variant ?? null, hostKeyOf({ name, spec })]);
  if (lifetime === "per_run") return { key: server };
  const group = groupOf(trial);
  return { key: `${group} ${server}`, group };
}

/** Trials that differ in their number only. */
function groupOf({ task, agent, variant }: Trial): string {
  return JSON.stringify([task, agent, variant ?? null]);
}

/** Whether an error is about the server, so that a trial may do without it. */
function isServerError(error: unknown): boolean {
  return error instanceof McpvalsError && (error.kind === "environment" || error.kind === "timeout");
}

/** A host that serves more than one trial. */
interface SharedHost {
  /** Rejects when it cannot be opened. */
  readonly opening: Promise<ServerHost>;
  /** Counts the requests of all agents that the host serves; absent: nothing is limited. */
  readonly limiter: RateLimiter | undefined;
}

interface CacheKey {
  /** Trials with the same key share a host. */
  readonly key: string;
  /** Hosts of a group are stopped when the group has ended; absent: all at the end. */
  readonly group?: string;
}

interface CacheEntry extends SharedHost, CacheKey {
  users: number;
  /** It is given to nobody any more. */
  dropped: boolean;
}

/** The shared hosts: each is opened once, by the first trial that needs it. */
class ServerCache {
  readonly #current = new Map<string, CacheEntry>();
  readonly #all = new Set<CacheEntry>();

  /** Takes the host of a key, or opens one; it has to be released. One that is lost is replaced for the next trial. */
  take({ key, ...group }: CacheKey, open: () => SharedHost): CacheEntry {
    const entry = this.#current.get(key) ?? this.#add({ ...open(), key, ...group, users: 0, dropped: false });
    entry.users += 1;
    return entry;
  }

  /** Gives a host to no further trial. */
  drop(entry: CacheEntry): void {
    entry.dropped = true;
    if (this.#current.get(entry.key) === entry) this.#current.delete(entry.key);
  }

  /** Ends a use; a host that was dropped is stopped with its last use. Never throws. */
  async release(entry: CacheEntry): Promise<void> {
    entry.users -= 1;
    if (entry.dropped && entry.users === 0) await this.#stop(entry);
  }

  /** Stops the hosts of a group that are not in use; the others stop with their last use. Never throws. */
  async endGroup(group: string): Promise<void> {
    const ending = [...this.#all].filter((entry) => entry.group === group);
    for (const entry of ending) this.drop(entry);
    await Promise.all(ending.filter(({ users }) => users === 0).map((entry) => this.#stop(entry)));
  }

  /** Stops all hosts. Never throws. */
  async close(): Promise<void> {
    this.#current.clear();
    await Promise.all([...this.#all].map((entry) => this.#stop(entry)));
  }

  #add(entry: CacheEntry): CacheEntry {
    this.#current.set(entry.key, entry);
    this.#all.add(entry);
    entry.opening.then(
      ({ lost }) => lost.addEventListener("abort", () => this.drop(entry), { once: true }),
      () => this.drop(entry),
    );
    return entry;
  }

  async #stop(entry: CacheEntry): Promise<void> {
    if (!this.#all.delete(entry)) return;
    const [opened] = await Promise.allSettled([entry.opening]);
    // The trial that asked for a host which did not open got the error.
    if (opened.status === "fulfilled") await opened.value.stop();
  }
}

export interface NamedServer {
  readonly name: string;
  readonly spec: ServerSpec;
}

interface RequiredServersOptions extends HostOptions {
  /** Version of mcpvals, as servers are told. */
  readonly version: string;
}

/** Servers that are started before the first trial, so that a run without one of them does not begin. */
class RequiredServers {
  readonly #options: RequiredServersOptions;
  /** Healthy servers that no trial has taken. */
  readonly #ready = new Map<string, ServerHost>();
  readonly #ending = new Set<Promise<void>>();

  constructor(options: RequiredServersOptions) {
    this.#options = options;
  }

  /** Starts all at once. Throws one McpvalsError `server/required` for those that do not start. */
  async start(servers: readonly NamedServer[], signal: AbortSignal): Promise<void> {
    const different = [...new Map(servers.map((server) => [hostKeyOf(server), server])).values()];
    const settled = await Promise.allSettled(different.map((server) => this.#start(server, signal)));
    const errors = settled.flatMap((start) => (start.status === "rejected" ? [start.reason as unknown] : []));
    if (errors.length > 0 && !signal.aborted) throw missingServers(errors);
  }

  /** Gives a server that was started, once. */
  take(server: NamedServer): ServerHost | undefined {
    const key = hostKeyOf(server);
    const host = this.#ready.get(key);
    this.#ready.delete(key);
    if (host?.lost.aborted !== true) return host;
    this.#end(host);
    return undefined;
  }

  /** Stops those that no trial has taken. Never throws. */
  async close(): Promise<void> {
    for (const host of this.#ready.values()) this.#end(host);
    this.#ready.clear();
    await Promise.all(this.#ending);
  }

  async #start(server: NamedServer, signal: AbortSignal): Promise<void> {
    const { name, spec } = server;
    const { version } = this.#options;
    const host = await openHost(name, spec, this.#options);
    try {
      const session = await openSession(host, spec, { emit: () => 0, signal, version });
      await session.stop();
      this.#ready.set(hostKeyOf(server), host);
    } catch (error) {
      await host.stop();
      throw error;
    }
  }

  #end(host: ServerHost): void {
    const ending = host.stop().finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }
}

/** The same for specs that one host can serve: filters are each trial's own. */
function hostKeyOf({ name, spec }: NamedServer): string {
  const { tools: _tools, faults: _faults, required: _required, ...host } = spec;
  return JSON.stringify([name, host]);
}

/** One error for all; an error that is not about a server is thrown unchanged. */
function missingServers(errors: readonly unknown[]): unknown {
  const known = errors.filter((error) => error instanceof McpvalsError);
  if (known.length < errors.length) return errors.find((error) => !(error instanceof McpvalsError));
  const [first] = known;
  const details = known.flatMap(({ details }) => details.detail ?? []);
  const hint = known.length === 1 ? first?.details.hint : undefined;
  return new McpvalsError(
    "server/required",
    `nothing was run: ${known.length === 1 ? "a required server does" : "required servers do"} not start: ${known
      .map(({ message }) => message)
      .join("; ")}`,
    {
      ...(hint === undefined ? {} : { hint }),
      ...(details.length === 0 ? {} : { detail: details.join("\n") }),
      cause: known.length === 1 ? first : new AggregateError(known),
    },
  );
}
