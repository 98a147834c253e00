import { McpvalsError, serializeError } from "../../core/errors/error.ts";
import { lifetimeOf } from "../../core/plan/effective-servers.ts";
import type { Trial } from "../../core/plan/plan.ts";
import { untilAborted } from "../../process/deadline.ts";
import { createFilters, hasFilters } from "../filters/create-filters.ts";
import { RateLimiter } from "../filters/rate-limit.ts";
import type { Gateway } from "../gateway/endpoint.ts";
import { type HostOptions, openHost, type StartOptions } from "../provision.ts";
import { type Lease, serveTrial } from "../serve.ts";
import type { TrialServer } from "../trial-server.ts";
import type { ServerHost } from "./host.ts";
import { HostShelf, type ShelfPlace } from "./host-shelf.ts";
import { keyOf, type NamedServer, RequiredServers } from "./required-servers.ts";

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

export type { NamedServer } from "./required-servers.ts";
