import type { ServerSpec } from "../core/formats/model.ts";
import type { ServerSession } from "./client/session.ts";
import type { ServerHost } from "./connections/host.ts";
import type { TrialFilters } from "./filters/create-filters.ts";
import { FilterTransport } from "./filters/filter-chain.ts";
import type { Gateway, GatewayEndpoint } from "./gateway/endpoint.ts";
import { openSession, type StartOptions } from "./start-server.ts";

/** One server as one trial has it. */
export interface TrialServer {
  readonly name: string;
  /** What steps talk over. */
  readonly session: ServerSession;
  /** Aborts with an McpvalsError when the server is lost without our asking. */
  readonly lost: AbortSignal;
  /**
   * What an agent in this process talks over: `session`, or a client of its own where filters stand between the agent and
   * the server.
   */
  agentSession(options: { readonly signal: AbortSignal }): Promise<ServerSession>;
  /** Where an agent outside this process reaches the server; the same one each time. */
  endpoint(): Promise<GatewayEndpoint>;
  /** Ends the agent's ways to the server, so that nothing of an agent that lingers on gets there. Never throws. */
  closeAgentSide(): Promise<void>;
  /**
   * Settles when a program has shown that it outlived its last answer, or is lost; see `ServerSession.checkAlive`. Never
   * throws.
   */
  checkAlive(): Promise<void>;
  /** Ends the trial's part; the server itself when it serves no other trial. Never throws. */
  stop(): Promise<void>;
}

/** A host as one trial gets it. */
export interface Lease {
  readonly host: ServerHost;
  /** The host's end is not this trial's to decide. */
  readonly shared: boolean;
  /** Gives the host back; `spoilt`: it is of no use to anyone. Ends it when nobody else needs it. Never throws. */
  end(options?: { readonly spoilt?: boolean }): Promise<void>;
}

export interface ServeOptions extends StartOptions {
  readonly spec: ServerSpec;
  /** Makes what stands between the agent and the server; absent: nothing does. */
  readonly filters?: TrialFilters;
  readonly gateway: () => Promise<Gateway>;
  /** When the start began, by `performance.now()`. */
  readonly started: number;
}

/** Has a host serve one trial: recorded there, and healthy. Throws as `openSession`; by then the lease has ended. */
export async function serveTrial(lease: Lease, options: ServeOptions): Promise<TrialServer> {
  const { host } = lease;
  const { spec, emit, signal } = options;
  const unwatch = host.watch(emit);
  const part = new TrialPart(lease, { emit, unwatch });
  try {
    const session = await openSession(host, spec, {
      ...options,
      // The server's last words belong to the record of the one trial that it served.
      ...(lease.shared ? {} : { end: () => lease.end() }),
    });
    return new ServedServer(session, part, { host, options });
  } catch (error) {
    await part.end({ spoilt: !signal.aborted });
    throw error;
  }
}

interface PartOptions {
  readonly emit: StartOptions["emit"];
  readonly unwatch: () => void;
}

/** A trial's part in a host. */
class TrialPart {
  readonly #lease: Lease;
  readonly #options: PartOptions;

  constructor(lease: Lease, options: PartOptions) {
    this.#lease = lease;
    this.#options = options;
  }

  /** Ends it, after `last` has been done. */
  async end(
    { spoilt = false }: { readonly spoilt?: boolean } = {},
    last?: () => Promise<void>,
  ): Promise<void> {
    const { host, shared } = this.#lease;
    const { emit, unwatch } = this.#options;
    const started = performance.now();
    await last?.();
    if (shared) {
      unwatch();
      const durationMs = performance.now() - started;
      emit({ type: "server.stopped", server: host.name, by: "disconnect", durationMs });
    }
    await this.#lease.end({ spoilt });
    unwatch();
  }
}

interface Serving {
  readonly host: ServerHost;
  readonly options: ServeOptions;
}

class ServedServer implements TrialServer {
  readonly name: string;
  readonly session: ServerSession;
  readonly #part: TrialPart;
  readonly #serving: Serving;
  readonly #lost = new AbortController();
  #agentSession: Promise<ServerSession> | undefined;
  #endpoint: Promise<GatewayEndpoint> | undefined;
  #stopping: Promise<void> | undefined;
  #told = false;

  constructor(session: ServerSession, part: TrialPart, serving: Serving) {
    this.name = session.name;
    this.session = session;
    this.#part = part;
    this.#serving = serving;
    const { lost } = session;
    lost.addEventListener("abort", () => this.#lost.abort(lost.reason), { once: true });
    if (lost.aborted) this.#lost.abort(lost.reason);
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  agentSession({ signal }: { readonly signal: AbortSignal }): Promise<ServerSession> {
    const { host, options } = this.#serving;
    const { emit, filters } = options;
    if (filters === undefined) return Promise.resolve(this.session);
    this.#agentSession ??= openSession(host, options.spec, {
      ...options,
      signal,
      connect: {
        agent: true,
        between: (inner) => new FilterTransport(inner, filters.of({ server: host.name, emit })),
      },
    });
    return this.#agentSession;
  }

  endpoint(): Promise<GatewayEndpoint> {
    this.#endpoint ??= this.#openEndpoint();
    return this.#endpoint;
  }

  async closeAgentSide(): Promise<void> {
    this.#tellUnmetFaults();
    if (this.#endpoint !== undefined || this.#agentSession !== undefined) this.session.expireTools();
    const [endpoint, session] = await Promise.allSettled([this.#endpoint, this.#agentSession]);
    await Promise.all([
      endpoint.status === "fulfilled" ? endpoint.value?.close() : undefined,
      session.status === "fulfilled" ? session.value?.stop() : undefined,
    ]);
  }

  /** Once, when the agent has acted: a fault that nothing met has tested nothing. */
  #tellUnmetFaults(): void {
    if (this.#told || (this.#endpoint === undefined && this.#agentSession === undefined)) return;
    this.#told = true;
    const { host, options } = this.#serving;
    for (const { kind, method = "tools/call", tool } of options.filters?.unmetFaults() ?? []) {
      const what = { method, ...(tool === undefined ? {} : { tool }) };
      options.emit({ type: "fault.unmet", server: host.name, fault: kind, ...what });
    }
  }

  async checkAlive(): Promise<void> {
    const { host, options } = this.#serving;
    if (host.transport === "stdio" && !options.signal.aborted) await this.session.checkAlive();
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    await this.closeAgentSide();
    // A program that ends right after its last answer would else be taken for one that we ended.
    await this.checkAlive();
    await this.#part.end({}, () => this.session.stop());
  }

  async #openEndpoint(): Promise<GatewayEndpoint> {
    const { host, options } = this.#serving;
    const { emit } = options;
    const filters = options.filters?.of ?? (() => []);
    const gateway = await options.gateway();
    // What an agent outside loses is lost to the trial.
    return gateway.open({ host, emit, filters, onLost: (error) => this.#lost.abort(error) });
  }
}
