import { McpvalsError } from "../core/errors/error.ts";
import type { Emit } from "../core/trace/events.ts";
import { abortWithAny, type DeadlineSignal } from "../process/deadline.ts";
import type { AgentDriver } from "../agents/driver.ts";
import type { GatewayEndpoint } from "../servers/gateway/endpoint.ts";
import type { ServerSession } from "../servers/client/session.ts";
import type { TrialServer } from "../servers/trial-server.ts";
import type { ServerStart } from "./provisioning.ts";
import type { TrialServices } from "./trial-context.ts";
import type { TrialRun } from "./trial-run.ts";

/** How the agent reaches the servers: one of the two lists is empty. */
export interface AgentConnections {
  readonly sessions: readonly ServerSession[];
  readonly endpoints: readonly GatewayEndpoint[];
}

/** The servers of one trial. */
export class TrialServers {
  /** In the order of the task, without those that did not start. */
  readonly #servers: TrialServer[] = [];
  /** Those that cleanup may have ended. */
  readonly #excused = new Set<TrialServer>();
  readonly #run: TrialRun;
  readonly #services: TrialServices;
  readonly #deferred: (() => Promise<void>)[] = [];
  /** Whether an agent program connected to any of them. */
  #isConnected = false;

  constructor(run: TrialRun, services: TrialServices) {
    this.#run = run;
    this.#services = services;
  }

  /** What steps talk over, in the order of the task. */
  get sessions(): readonly ServerSession[] {
    return this.#servers.map((server) => server.session);
  }

  /** Names of the task's servers that did not start. */
  get absent(): readonly string[] {
    const started = new Set(this.#servers.map(({ name }) => name));
    return this.#run.task.servers.filter((name) => !started.has(name));
  }

  /**
   * Connects the agent to all servers, does the work, and disconnects. Throws what the work throws, and McpvalsError
   * `agent/no-connection` when the agent is a program that connected to none of its servers.
   */
  async forAgent(
    { reach }: AgentDriver,
    signal: AbortSignal,
    work: (connections: AgentConnections) => Promise<void>,
  ): Promise<void> {
    const servers = this.#servers;
    try {
      const endpoints =
        reach === "endpoints" ? await Promise.all(servers.map((each) => each.endpoint())) : [];
      const sessions =
        reach === "sessions" ? await Promise.all(servers.map((each) => each.agentSession({ signal }))) : [];
      await work({ sessions, endpoints });
    } finally {
      await Promise.all(servers.map((server) => server.closeAgentSide()));
    }
    if (reach === "endpoints" && servers.length > 0 && !this.#isConnected) throw noConnection(servers);
  }

  /** Starts all servers of the task at once. Throws the error of the first that did not start. */
  async start(options: Omit<ServerStart, "emit">): Promise<void> {
    const { task } = this.#run;
    const emit: Emit = (event) => {
      this.#isConnected ||= event.type === "gateway.connected";
      return this.#run.emit(event);
    };
    const starts = task.servers.map((name) =>
      this.#services.startServer(this.#run, name, { emit, ...options }),
    );
    const settled = await Promise.allSettled(starts);
    for (const start of settled)
      if (start.status === "fulfilled" && start.value !== undefined) this.#servers.push(start.value);
    const broken = settled.find((start) => start.status === "rejected");
    if (broken !== undefined) throw broken.reason;
  }

  /** A signal that aborts with the given one, and when one of the servers is lost. */
  whileAlive(signal: AbortSignal): DeadlineSignal {
    return abortWithAny([signal, ...this.#servers.map((server) => server.lost)]);
  }

  /** Has work done after the servers stopped, the last one first. */
  defer(work: () => Promise<void>): void {
    this.#deferred.push(work);
  }

  /** Settles when it is known which servers still run. */
  async checkAlive(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.checkAlive()));
  }

  /** Ignores that servers have ended by now: cleanup steps may have ended them. */
  async excuseLost(): Promise<void> {
    await this.checkAlive();
    for (const server of this.#servers.filter(({ lost }) => lost.aborted)) this.#excused.add(server);
  }

  /**
   * Stops all servers, then does the deferred work. Throws, after all of it, how a server was lost during the trial, or
   * the first error of the deferred work.
   */
  async stop(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.stop()));
    const errors: unknown[] = [];
    for (const work of this.#deferred.toReversed())
      await work().catch((error: unknown) => errors.push(error));
    const lost = this.#servers.find((server) => server.lost.aborted && !this.#excused.has(server));
    if (lost !== undefined) throw lost.lost.reason;
    if (errors.length > 0) throw errors[0];
  }
}

function noConnection(servers: readonly TrialServer[]): McpvalsError {
  const names = servers.map(({ name }) => `"${name}"`).join(", ");
  return new McpvalsError("agent/no-connection", `the agent connected to none of its servers: ${names}`);
}
