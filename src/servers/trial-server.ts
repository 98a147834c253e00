import { withoutUndefined } from "../core/formats/json.ts";
import type { ServerSpec } from "../core/formats/model.ts";
import { openSession, type ServerSession, type StartOptions } from "./client/session.ts";
import type { ServerHost } from "./connections/host.ts";
import type { TrialFilters } from "./filters/filters.ts";
import type { GatewayEndpoint } from "./gateway/endpoint.ts";
import type { Gateway } from "./gateway/gateway.ts";

/** One server as one trial has it. */
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
export async function serveTrial(lease: Lease, options: ServeOptions): Promise<TrialServer> {
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
    const { emit, filters, spec } = this.#options;
    if (filters === undefined) return this.session;
    this.#agentSession ??= import("./filters/filter-chain.ts").then(({ FilterChain }) =>
      openSession(this.#host, spec, {
        ...this.#options,
        signal,
        connect: { agent: true, filters: new FilterChain(filters.of({ server: this.#host.name, emit })) },
      }),
    );
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
