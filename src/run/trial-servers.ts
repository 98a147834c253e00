import { McpvalsError } from "../core/errors/error.ts";
import type { Expander } from "../core/templates/expand.ts";
import type { Emit } from "../core/trace/events.ts";
import { abortWithAny, type DeadlineSignal } from "../process/deadline.ts";
import type { AgentDriver } from "../agents/driver.ts";
import type { GatewayEndpoint } from "../servers/gateway/endpoint.ts";
import type { ClientSide, ServerSession } from "../servers/session.ts";
import type { TrialServer } from "../servers/trial-server.ts";
import type { TrialPorts, TrialRun } from "./trial-ports.ts";

interface StartOptions {
  readonly signal: AbortSignal;
  readonly expander?: Expander;
  readonly releasePorts: (texts: Iterable<string>) => Promise<void>;
  readonly clientSide?: ClientSide;
}

/** The agent's ways to the servers: of the two lists one is empty. */
export interface AgentSide {
  readonly sessions: readonly ServerSession[];
  readonly endpoints: readonly GatewayEndpoint[];
}

/** The servers of one trial. */
export class TrialServers {
  /** In the order of the task, without those that did not start. */
  readonly #servers: TrialServer[] = [];
  /** Names of those that did not start. */
  readonly #absent: string[] = [];
  /** Those whose end is not held against them. */
  readonly #excused = new Set<TrialServer>();
  readonly #run: TrialRun;
  readonly #ports: TrialPorts;
  readonly #deferred: (() => Promise<void>)[] = [];
  /** Whether a program that is the agent has reached any of them. */
  #isReached = false;

  constructor(run: TrialRun, ports: TrialPorts) {
    this.#run = run;
    this.#ports = ports;
  }

  /** What steps talk over, in the order of the task. */
  get sessions(): readonly ServerSession[] {
    return this.#servers.map((server) => server.session);
  }

  /** Names of the task's servers that did not start, and that the trial does without. */
  get absent(): readonly string[] {
    return this.#absent;
  }

  /**
   * Opens the agent's ways to all servers, works with them, and closes them. Throws what the work throws, and McpvalsError
   * `agent/no-connection` when the agent is a program that used none of its ways: whatever it did, it did without the servers.
   */
  async forAgent(
    { reach }: AgentDriver,
    signal: AbortSignal,
    work: (side: AgentSide) => Promise<void>,
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
    if (reach === "endpoints" && servers.length > 0 && !this.#isReached) throw noConnection(servers);
  }

  /** Starts all servers of the task at once. Throws what the first of them that did not start throws. */
  async start(options: StartOptions): Promise<void> {
    const { task } = this.#run;
    const emit: Emit = (event) => {
      this.#isReached ||= event.type === "gateway.connected";
      return this.#run.emit(event);
    };
    const starts = task.servers.map((name) => this.#ports.startServer(this.#run, name, { emit, ...options }));
    const settled = await Promise.allSettled(starts);
    for (const [index, start] of settled.entries()) {
      if (start.status === "rejected") continue;
      if (start.value === undefined) this.#absent.push(task.servers[index] ?? "");
      else this.#servers.push(start.value);
    }
    const broken = settled.find((start) => start.status === "rejected");
    if (broken !== undefined) throw broken.reason;
  }

  /** A signal that aborts with the given one, and when one of the servers is lost. */
  whileAlive(signal: AbortSignal): DeadlineSignal {
    return abortWithAny([signal, ...this.#servers.map((server) => server.lost)]);
  }

  /** What is to be done once no server runs any more. */
  defer(work: () => Promise<void>): void {
    this.#deferred.push(work);
  }

  /** Settles when it is known which servers outlived their last answers. */
  async checkAlive(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.checkAlive()));
  }

  /** Servers that are gone by now may have been ended by the task's own steps, which is no fault of theirs. */
  async excuseLost(): Promise<void> {
    await this.checkAlive();
    for (const server of this.#servers.filter(({ lost }) => lost.aborted)) this.#excused.add(server);
  }

  /**
   * Ends all servers, then does what was deferred. Throws, when all of it was tried, how a server was lost before it was
   * to end, and what the deferred work throws.
   */
  async stop(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.stop()));
    const settled = await Promise.allSettled(this.#deferred.map((work) => work()));
    const lost = this.#servers.find((server) => server.lost.aborted && !this.#excused.has(server));
    if (lost !== undefined) throw lost.lost.reason;
    const broken = settled.find((work) => work.status === "rejected");
    if (broken !== undefined) throw broken.reason;
  }
}

function noConnection(servers: readonly TrialServer[]): McpvalsError {
  const names = servers.map(({ name }) => `"${name}"`).join(", ");
  return new McpvalsError("agent/no-connection", `the agent connected to none of its servers: ${names}`);
}
