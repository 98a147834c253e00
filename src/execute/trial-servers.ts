import type { Expander } from "../core/templates/expand.ts";
import { abortWithAny, type DeadlineSignal } from "../process/deadline.ts";
import type { ServerSession } from "../servers/session.ts";
import type { TrialPorts, TrialRun } from "./trial-ports.ts";

interface StartOptions {
  readonly signal: AbortSignal;
  readonly expander?: Expander;
  readonly releasePorts: (texts: Iterable<string>) => Promise<void>;
}

/** The servers of one trial. */
export class TrialServers {
  /** In the order of the task, without those that did not start. */
  readonly sessions: ServerSession[] = [];
  readonly #run: TrialRun;
  readonly #ports: TrialPorts;
  readonly #deferred: (() => Promise<void>)[] = [];

  constructor(run: TrialRun, ports: TrialPorts) {
    this.#run = run;
    this.#ports = ports;
  }

  /** Starts all servers of the task at once. Throws what the first of them that did not start throws. */
  async start(options: StartOptions): Promise<void> {
    const { task, emit } = this.#run;
    const starts = task.servers.map((name) => this.#ports.startServer(task, name, { emit, ...options }));
    const settled = await Promise.allSettled(starts);
    for (const start of settled) {
      if (start.status === "fulfilled") this.sessions.push(start.value);
    }
    const broken = settled.find((start) => start.status === "rejected");
    if (broken !== undefined) throw broken.reason;
  }

  /** A signal that aborts with the given one, and when one of the servers is lost. */
  whileAlive(signal: AbortSignal): DeadlineSignal {
    return abortWithAny([signal, ...this.sessions.map((session) => session.lost)]);
  }

  /** What is to be done once no server runs any more. */
  defer(work: () => Promise<void>): void {
    this.#deferred.push(work);
  }

  /** Ends all servers, then does what was deferred. Throws what that throws, when all of it was tried. */
  async stop(): Promise<void> {
    await Promise.all(this.sessions.map((session) => session.stop()));
    const settled = await Promise.allSettled(this.#deferred.map((work) => work()));
    const broken = settled.find((work) => work.status === "rejected");
    if (broken !== undefined) throw broken.reason;
  }
}
