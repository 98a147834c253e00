import { McpvalsError, serializeError } from "../core/errors/error.ts";
import type { CheckSpec, JsonObject, ServerSpec } from "../core/formats/model.ts";
import type { Emit, EventOf } from "../core/trace/events.ts";
import { version } from "../core/version.ts";
import type { ServerHost } from "../servers/connections/host.ts";
import { openHost } from "../servers/server-pool.ts";
import { type Answer, RawClient } from "./raw-client.ts";

export interface ProberOptions {
  readonly server: string;
  readonly spec: ServerSpec;
  readonly check: CheckSpec;
  readonly emit: Emit;
  readonly signal: AbortSignal;
  /** How long a request may take, in milliseconds. */
  readonly callMs: number;
}

/** Ends a probe: the server was gone, or did not answer in time. The messages on record show it. */
class ProbeEnded extends Error {
  readonly outcome: "lost" | "unanswered";

  constructor(outcome: "lost" | "unanswered") {
    super(outcome);
    this.outcome = outcome;
  }
}

/** A server of a trial of a check, with what probes need: starting it, connecting to it, marking what belongs to which probe. */
export class Prober implements AsyncDisposable {
  readonly check: CheckSpec;
  readonly signal: AbortSignal;
  readonly #options: ProberOptions;
  readonly #hosts = new Set<ServerHost>();
  #ids = 0;

  constructor(options: ProberOptions) {
    this.check = options.check;
    this.signal = options.signal;
    this.#options = options;
  }

  /** Starts the server once more, or prepares for reaching it. Throws as `openHost`. */
  async start(): Promise<ServerHost> {
    const { server, spec, emit, signal } = this.#options;
    signal.throwIfAborted();
    const host = await openHost(server, spec);
    this.#hosts.add(host);
    host.watch(emit);
    return host;
  }

  /** A client of a host; it has sent nothing. */
  open(host: ServerHost): RawClient {
    const { emit, signal, callMs: timeoutMs } = this.#options;
    return new RawClient(host, { emit, signal, timeoutMs, nextId: () => (this.#ids += 1), version });
  }

  /** Starts the server and begins a session. Throws as `openHost`; within a probe, ends it where there is no session. */
  async connect(): Promise<{ readonly host: ServerHost; readonly client: RawClient }> {
    const host = await this.start();
    const client = this.open(host);
    resultOrEnd(await client.connect());
    return { host, client };
  }

  /**
   * Marks what happens during `work` as a probe. Returns what `work` gives; undefined when the server was lost, or did not answer
   * something that the probe needs. Throws the signal's reason, and what is not the server's fault.
   */
  async probe<T>(
    probe: string,
    work: () => Promise<T>,
    about: Pick<EventOf<"probe.started">, "call"> = {},
  ): Promise<T | undefined> {
    const { server, emit, signal } = this.#options;
    const started = performance.now();
    emit({ type: "probe.started", server, probe, ...about });
    const finish = (outcome: EventOf<"probe.finished">["outcome"], error?: unknown): void => {
      const durationMs = performance.now() - started;
      const why = error === undefined ? {} : { error: serializeError(error) };
      emit({ type: "probe.finished", server, probe, outcome, durationMs, ...why });
    };
    try {
      const value = await work();
      finish("done");
      return value;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ProbeEnded) finish(error.outcome);
      else finish("lost", error);
      if (error instanceof ProbeEnded) return undefined;
      if (error instanceof McpvalsError && error.code !== "server/spawn-failed") return undefined;
      throw error;
    }
  }

  /** All pages of a list; undefined where the server does not give it. Pages that do not end are cut off. */
  async list(client: RawClient, method: string): Promise<void> {
    let cursor: string | undefined;
    const seen = new Set<string>();
    do {
      const answer = await client.request(method, cursor === undefined ? undefined : { cursor });
      if (answer.kind !== "result") return;
      const { nextCursor } = answer.result;
      cursor = typeof nextCursor === "string" && !seen.has(nextCursor) ? nextCursor : undefined;
      if (cursor !== undefined) seen.add(cursor);
    } while (cursor !== undefined && seen.size < mostPages);
  }

  /** Lists everything that the server's capabilities promise. */
  async listAll(client: RawClient, capabilities: JsonObject): Promise<void> {
    for (const [capability, methods] of Object.entries(listMethods))
      if (capabilities[capability] !== undefined)
        for (const method of methods) await this.list(client, method);
  }

  /** Stops everything that was started. Never throws. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#hosts].map((host) => host.stop()));
  }
}

/** Pages of a list that are read. */
const mostPages = 100;

const listMethods = {
  tools: ["tools/list"],
  resources: ["resources/list", "resources/templates/list"],
  prompts: ["prompts/list"],
} as const;

/** The result of an answer. Ends the probe where there is none. */
export function resultOrEnd(answer: Answer): JsonObject {
  if (answer.kind === "result") return answer.result;
  throw new ProbeEnded(answer.kind === "lost" ? "lost" : "unanswered");
}
