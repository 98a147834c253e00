import { McpvalsError, serializeError } from "../core/errors/error.ts";
import type { ServerSpec } from "../core/formats/model.ts";
import { lifetimeOf } from "../core/plan/effective-servers.ts";
import type { Trial } from "../core/plan/plan.ts";
import { untilAborted } from "../process/deadline.ts";
import { createFilters, hasFilters } from "./filters/create-filters.ts";
import { RateLimiter } from "./filters/rate-limit.ts";
import type { Gateway } from "./gateway/endpoint.ts";
import { type HostOptions, openHost, openSession, type StartOptions } from "./start-server.ts";
import { type Lease, serveTrial, type TrialServer } from "./trial-server.ts";
import type { ServerHost } from "./connections/host.ts";

export interface ServerPoolOptions extends HostOptions {
  /** Version of mcpvals, as servers are told. */
  readonly version: string;
  /** Everything that will run. */
  readonly trials: readonly Trial[];
  /** Makes the way to the servers for agents outside this process; called once, when the first of them needs it. */
  readonly createGateway: () => Promise<Gateway>;
  /** Begins the random numbers of faults. Default: 0. */
  readonly seed?: number;
}

/** A server that a trial asks for, with nothing left to replace in it. */
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
  /** To be told of the end of each trial, also of one that never ran: servers that no trial to come shares are stopped. */
  trialEnded(trial: Trial): Promise<void>;
}

/** Makes a pool that has started nothing yet; its disposal ends whatever is left, and never throws. */
export function createServerPool(options: ServerPoolOptions): ServerPool {
  return new Pool(options);
}

class Pool implements ServerPool {
  readonly #options: ServerPoolOptions;
  readonly #shelf = new HostShelf();
  /** Hosts of one trial each that are not stopped yet. */
  readonly #own = new Set<ServerHost>();
  readonly #required: RequiredServers;
  /** Trials to come, by group. */
  readonly #waiting = new Map<string, number>();
  #gateway: Promise<Gateway> | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: ServerPoolOptions) {
    this.#options = options;
    this.#required = new RequiredServers(options);
    for (const trial of options.trials) {
      const group = groupOf(trial);
      this.#waiting.set(group, (this.#waiting.get(group) ?? 0) + 1);
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
      if (spec.required !== false || start.signal.aborted || !isTheServers(error)) throw error;
      start.emit({ type: "server.failed", server: name, error: serializeError(error) });
      return undefined;
    }
  }

  async trialEnded(trial: Trial): Promise<void> {
    const group = groupOf(trial);
    const left = (this.#waiting.get(group) ?? 0) - 1;
    this.#waiting.set(group, left);
    if (left === 0) await this.#shelf.endGroup(group);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const [gateway] = await Promise.allSettled([this.#gateway]);
    if (gateway.status === "fulfilled") await gateway.value?.close();
    const own = [...this.#own].map((host) => host.stop());
    await Promise.all([this.#shelf.close(), this.#required.close(), ...own]);
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
    const place = placeOf(request);
    if (place === undefined) {
      const host = await this.#open(request);
      this.#own.add(host);
      const end = (): Promise<void> => host.stop().finally(() => this.#own.delete(host));
      return { host, shared: false, limiter: undefined, end };
    }
    const shelf = this.#shelf;
    const shared = shelf.take(place, () => ({
      opening: this.#open(request),
      limiter: spec.rateLimit === undefined ? undefined : new RateLimiter(spec.rateLimit),
    }));
    try {
      const host = await untilAborted(shared.opening, signal);
      return {
        host,
        shared: true,
        limiter: shared.limiter,
        end: async ({ spoilt = false } = {}) => {
          if (spoilt) shelf.drop(shared);
          await shelf.giveBack(shared);
        },
      };
    } catch (error) {
      await shelf.giveBack(shared);
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

/** Where a server stands that is shared; undefined for one that is the trial's own. */
function placeOf({ name, spec, trial }: ServeRequest): ShelfPlace | undefined {
  const lifetime = lifetimeOf(spec);
  if (lifetime === "per_trial") return undefined;
  const server = JSON.stringify([trial.variant ?? null, keyOf({ name, spec })]);
  if (lifetime === "per_run") return { key: server };
  const group = groupOf(trial);
  return { key: `${group} ${server}`, group };
}

/** Trials that differ in their number only. */
function groupOf({ task, agent, variant }: Trial): string {
  return JSON.stringify([task, agent, variant ?? null]);
}

/** Whether an error is about the server, so that a trial may do without it. */
function isTheServers(error: unknown): boolean {
  return error instanceof McpvalsError && (error.kind === "environment" || error.kind === "timeout");
}

/** A host that serves more than one trial. */
export interface SharedHost {
  /** Rejects when it cannot be opened. */
  readonly opening: Promise<ServerHost>;
  /** Counts the requests of all agents that the host serves; absent: nothing is limited. */
  readonly limiter: RateLimiter | undefined;
}

/** Where a host stands: who asks with the same key gets the same one. */
export interface ShelfPlace {
  readonly key: string;
  /** Those of a group are stopped when the group has ended; absent: all at the end. */
  readonly group?: string;
}

interface Shelved extends SharedHost {
  readonly place: ShelfPlace;
  users: number;
  /** Nobody gets it any more. */
  dropped: boolean;
}

/** Keeps hosts that are shared: each is opened once, by who asks first, and goes when the last one has given it back. */
class HostShelf {
  readonly #current = new Map<string, Shelved>();
  readonly #all = new Set<Shelved>();

  /** Takes the host of a place, or opens one; it has to be given back. One that is lost is replaced for who asks next. */
  take(place: ShelfPlace, open: () => SharedHost): SharedHost {
    const there = this.#current.get(place.key);
    const shelved = there ?? this.#put(place, open());
    shelved.users += 1;
    return shelved;
  }

  /** Gives a host to nobody any more, because it is of no use. */
  drop(shared: SharedHost): void {
    const shelved = this.#find(shared);
    if (shelved === undefined) return;
    shelved.dropped = true;
    if (this.#current.get(shelved.place.key) === shelved) this.#current.delete(shelved.place.key);
  }

  /** Ends a use; the host ends with the last use when it was dropped. Never throws. */
  async giveBack(shared: SharedHost): Promise<void> {
    const shelved = this.#find(shared);
    if (shelved === undefined) return;
    shelved.users -= 1;
    if (shelved.dropped && shelved.users === 0) await this.#stop(shelved);
  }

  /** Ends the hosts of a group that nobody uses, and lets the others end with their last use. Never throws. */
  async endGroup(group: string): Promise<void> {
    const ending = [...this.#all].filter((shelved) => shelved.place.group === group);
    for (const shelved of ending) this.drop(shelved);
    await Promise.all(ending.filter(({ users }) => users === 0).map((shelved) => this.#stop(shelved)));
  }

  /** Ends all hosts. Never throws. */
  async close(): Promise<void> {
    this.#current.clear();
    await Promise.all([...this.#all].map((shelved) => this.#stop(shelved)));
  }

  #put(place: ShelfPlace, shared: SharedHost): Shelved {
    const shelved: Shelved = { ...shared, place, users: 0, dropped: false };
    this.#current.set(place.key, shelved);
    this.#all.add(shelved);
    shared.opening.then(
      ({ lost }) => lost.addEventListener("abort", () => this.drop(shelved), { once: true }),
      () => this.drop(shelved),
    );
    return shelved;
  }

  async #stop(shelved: Shelved): Promise<void> {
    this.#all.delete(shelved);
    const [opened] = await Promise.allSettled([shelved.opening]);
    // Who asked for one that did not open was told why.
    if (opened.status === "fulfilled") await opened.value.stop();
  }

  #find(shared: SharedHost): Shelved | undefined {
    return [...this.#all].find((shelved) => shelved === shared);
  }
}

export interface NamedServer {
  readonly name: string;
  readonly spec: ServerSpec;
}

export interface RequiredServersOptions extends HostOptions {
  /** Version of mcpvals, as servers are told. */
  readonly version: string;
}

/** Servers that were started before anybody needs them, so that a run which cannot have one does not begin. */
class RequiredServers {
  readonly #options: RequiredServersOptions;
  /** Healthy ones that nobody has taken. */
  readonly #ready = new Map<string, ServerHost>();
  /** Whatever is being ended. */
  readonly #ending = new Set<Promise<void>>();

  constructor(options: RequiredServersOptions) {
    this.#options = options;
  }

  /** Starts all at once. Throws one McpvalsError `server/required` for those that do not start. */
  async start(servers: readonly NamedServer[], signal: AbortSignal): Promise<void> {
    const different = [...new Map(servers.map((server) => [keyOf(server), server])).values()];
    const settled = await Promise.allSettled(different.map((server) => this.#start(server, signal)));
    const errors = settled.flatMap((start) => (start.status === "rejected" ? [start.reason as unknown] : []));
    if (errors.length > 0 && !signal.aborted) throw missingServers(errors);
  }

  /** Gives a server that was started, once. */
  take(server: NamedServer): ServerHost | undefined {
    const key = keyOf(server);
    const host = this.#ready.get(key);
    this.#ready.delete(key);
    if (host?.lost.aborted !== true) return host;
    this.#end(host);
    return undefined;
  }

  /** Ends those that nobody has taken. Never throws. */
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
      this.#ready.set(keyOf(server), host);
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

/** The same for servers that one host can be: what stands between it and agents is each trial's own. */
function keyOf({ name, spec }: NamedServer): string {
  const { tools: _tools, faults: _faults, required: _required, ...host } = spec;
  return JSON.stringify([name, host]);
}

/** One error for all; what is none of the servers' is thrown as it is. */
function missingServers(errors: readonly unknown[]): unknown {
  const known = errors.filter((error) => error instanceof McpvalsError);
  if (known.length < errors.length) return errors.find((error) => !(error instanceof McpvalsError));
  const [first] = known;
  const details = known.flatMap(({ details }) => details.detail ?? []);
  const hint = known.length === 1 ? first?.details.hint : undefined;
  return new McpvalsError(
    "server/required",
    `nothing was run, because ${known.length === 1 ? "a required server does" : "required servers do"} not start: ${known
      .map(({ message }) => message)
      .join("; ")}`,
    {
      ...(hint === undefined ? {} : { hint }),
      ...(details.length === 0 ? {} : { detail: details.join("\n") }),
      cause: known.length === 1 ? first : new AggregateError(known),
    },
  );
}
