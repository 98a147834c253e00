import { McpvalsError } from "../../core/errors/error.ts";
import type { ServerSpec } from "../../core/formats/model.ts";
import { type HostOptions, openHost, openSession } from "../provision.ts";
import type { ServerHost } from "./host.ts";

export interface NamedServer {
  readonly name: string;
  readonly spec: ServerSpec;
}

export interface RequiredServersOptions extends HostOptions {
  /** Version of mcpvals, as servers are told. */
  readonly version: string;
}

/** Servers that were started before anybody needs them, so that a run which cannot have one does not begin. */
export class RequiredServers {
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
export function keyOf({ name, spec }: NamedServer): string {
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
