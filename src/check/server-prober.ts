import { once } from "node:events";
import { availableParallelism } from "node:os";
import type { Server as HttpServer } from "node:http";
import { maxKeptBytes } from "../base/limits.ts";
import { McpvalsError, serializeError } from "../base/error.ts";
import { exact, isJsonObject, type JsonObject, mapValues } from "../base/json.ts";
import { version } from "../base/version.ts";
import type { CheckSpec, ConformanceSuite, ProbeName } from "../model/check.ts";
import type { Emit, EventOf } from "../model/event.ts";
import type { ServerSpec } from "../model/server.ts";
import { withDeadline } from "../process/deadline.ts";
import type { StopOptions } from "../process/spawn.ts";
import type { ServerHost } from "../servers/connections/host.ts";
import type { Filter, FilterContext } from "../servers/filters/filter-chain.ts";
import type { Gateway } from "../servers/gateway/gateway.ts";
import { openHost } from "../servers/server-pool.ts";
import { weightOf } from "../trace/recorder.ts";
import { runProbes } from "./catalogue.ts";
import { runScenario } from "./conformance-suite.ts";
import {
  type Answer,
  type ConformanceCheck,
  type ConnectOptions,
  type Credentials,
  type HttpRefusal,
  type ProbeClient,
  type ProbedServer,
  type Prober,
  type Session,
  type StartOptions,
  notTheServer,
} from "./prober.ts";
import { type Allowance, RawClient } from "./raw-client.ts";
import type { World } from "./world.ts";

export interface ProberOptions {
  readonly server: string;
  readonly spec: ServerSpec;
  readonly check: CheckSpec;
  readonly emit: Emit;
  readonly signal: AbortSignal;
  /** How long a request may take, in milliseconds. */
  readonly callMs: number;
}

/** Ends a probe: the server was gone, or gave no result. The messages on record show it, and `cause` what they do not. */
class ProbeEnded extends Error {
  readonly outcome: "lost" | "unanswered";
  override readonly cause: McpvalsError | undefined;

  constructor(outcome: "lost" | "unanswered", cause?: McpvalsError) {
    super(outcome);
    this.outcome = outcome;
    this.cause = cause;
  }
}

/** A lost connection, with the reason where one is known. */
interface Loss {
  readonly reason: McpvalsError | undefined;
}

/**
 * Runs one part of a check. What the server does wrong is on record and judged later. Throws the signal's reason, and McpvalsError
 * for what is not the server's fault, such as a command that cannot be started.
 */
export async function probeServer(options: ProberOptions): Promise<void> {
  await using prober = new ServerProber(options);
  await runProbes(options.check.kind, prober);
}

/** What the probers of a trial share. */
interface Shared {
  readonly allowance: Allowance;
  /** The last id of a request. */
  ids: number;
  /** Worlds in which nothing runs. */
  readonly free: World[];
}

/** Most servers that run at the same time, each with what watches it. */
const maxSeries = 4;

/** Starts and reaches the server of a trial of a check. Disposing of it stops everything that was started. */
class ServerProber implements Prober, AsyncDisposable {
  readonly server: string;
  readonly check: CheckSpec;
  readonly hasCredentials: boolean;
  readonly hasToken: boolean;
  readonly #options: ProberOptions;
  readonly #hosts = new Set<ServerHost>();
  readonly #stopped = new Set<ServerHost>();
  /** That a client was lost since the probe began. */
  #loss: Loss | undefined;
  readonly #shared: Shared;
  /** Whether a session was open before, so that the server can be reached. */
  #wasReached = false;
  #gateway: Gateway | undefined;
  #entering: Promise<World> | undefined;
  #world: World | undefined;
  #endpoint: HttpServer | undefined;

  constructor(
    options: ProberOptions,
    shared: Shared = { allowance: { left: maxKeptBytes }, ids: 0, free: [] },
  ) {
    this.#shared = shared;
    this.server = options.server;
    this.check = options.check;
    const { auth, headers } = { auth: undefined, headers: {}, ...options.spec };
    this.hasCredentials = auth !== undefined || Object.keys(headers).length > 0;
    this.hasToken = auth !== undefined || tokensOf(options.spec).length > 0;
    this.#options = options;
  }

  async start(options?: StartOptions): Promise<ProbedServer> {
    const host = await this.#startHost(options);
    return {
      transport: host.transport,
      open: (client) => this.#open(host, client),
      stop: (options) => this.#stop(host, options),
    };
  }

  async #startHost({ credentials = "own" }: StartOptions = {}): Promise<ServerHost> {
    const { server, spec, emit, signal } = this.#options;
    signal.throwIfAborted();
    const confined = (await this.#enter())?.spec ?? spec;
    const host = await openHost(server, specWith(credentials, confined));
    this.#hosts.add(host);
    host.watch(emit);
    return host;
  }

  /** What a confined server sees; undefined: it is not confined. */
  async #enter(): Promise<World | undefined> {
    const { spec, check, signal } = this.#options;
    if (check.confined !== true || spec.transport !== "stdio") return undefined;
    const options = { traces: check.watched === "all", answers: check.answers === true, signal };
    // A trial may start several at the same time.
    this.#entering ??= Promise.resolve(
      this.#shared.free.pop() ?? import("./world.ts").then(({ World }) => World.create(spec, options)),
    );
    return (this.#world = await this.#entering);
  }

  async plant(): Promise<void> {
    await this.#end();
    await (await this.#enter())?.plant();
  }

  /** Ends all servers at once: nobody looks at how they end. */
  async #end(): Promise<void> {
    await Promise.all([...this.#hosts].map((host) => this.#stop(host, { stdinMs: 0, termMs: 0 })));
    this.#hosts.clear();
  }

  /** Gives its world to the next that needs one. */
  async #release(): Promise<void> {
    await this.#end();
    if (this.#world !== undefined) this.#shared.free.push(this.#world);
    this.#world = this.#entering = undefined;
  }

  async sideBySide<T>(
    items: readonly T[],
    work: (prober: Prober, item: T, index: number) => Promise<boolean>,
  ): Promise<void> {
    const { emit, check } = this.#options;
    await this.#release();
    let [next, isOver] = [0, false];
    const workOff = async (): Promise<void> => {
      while (!isOver && next < items.length) {
        const index = next;
        next += 1;
        const ownEmit: Emit = (event) => emit({ ...event, series: index + 1 });
        const own = new ServerProber({ ...this.#options, emit: ownEmit }, this.#shared);
        try {
          if (!(await work(own, items[index] as T, index))) isOver = true;
        } catch (error) {
          isOver = true;
          throw error;
        } finally {
          await own.#release();
        }
      }
    };
    const count = check.runsOnce === true ? 1 : Math.min(availableParallelism(), maxSeries);
    const workers = await Promise.allSettled(Array.from({ length: count }, workOff));
    const failure = workers.find(({ status }) => status === "rejected");
    if (failure?.status === "rejected") throw failure.reason;
  }

  /** Records what the server has touched since the last time. */
  async #look(probe: ProbeName): Promise<void> {
    const { server, emit, check } = this.#options;
    if (check.kind !== "security") return;
    const quick = probe === "attack";
    for (const seen of (await this.#world?.look({ quick })) ?? [])
      emit({ type: "server.access", server, ...seen });
    for (const sent of this.#world?.takeSent() ?? []) emit({ type: "secret.sent", server, ...sent });
  }

  #open(host: ServerHost, client?: string): RawClient {
    const { emit, signal, callMs: timeoutMs, spec } = this.#options;
    const { startupTimeoutMs: startMs } = spec;
    const { allowance } = this.#shared;
    const nextId = (): number => (this.#shared.ids += 1);
    const onLost = (reason: McpvalsError | undefined): void => {
      if (!this.#stopped.has(host)) this.#loss = { reason };
    };
    const limits = { signal, timeoutMs, startMs, allowance };
    return new RawClient(host, { emit, ...limits, onLost, nextId, version, client });
  }

  /** Never throws; disposal waits for it. */
  #stop(host: ServerHost, options?: StopOptions): Promise<void> {
    this.#stopped.add(host);
    return host.stop(options);
  }

  record(event: Parameters<Prober["record"]>[0]): void {
    this.#options.emit(event);
  }

  async preflight(origin: string): Promise<void> {
    const { server, spec, emit, signal } = this.#options;
    const { address } = await this.#startHost({ credentials: "none" });
    if (address === undefined || spec.transport === "stdio") return;
    const asked = {
      "access-control-request-method": "POST",
      "access-control-request-headers": "content-type",
    };
    const response = await withDeadline(
      (limit) =>
        address.send(address.url, { method: "OPTIONS", headers: { origin, ...asked }, signal: limit }),
      { ms: preflightMs, signal, onTimeout: () => new Error("no answer") },
    ).catch(() => signal.throwIfAborted());
    if (response === undefined) return;
    response.cancel();
    const { status, headers } = response;
    const header = (name: string): string | undefined => headers[`access-control-allow-${name}`];
    emit({
      type: "http.preflight",
      server,
      origin,
      status,
      ...exact({
        allowOrigin: header("origin"),
        allowHeaders: header("headers"),
        allowCredentials: header("credentials"),
      }),
    });
  }

  async listen(): Promise<string> {
    const { server, spec, emit } = this.#options;
    const tokens = tokensOf(spec);
    const { createServer } = await import("node:http");
    this.#endpoint ??= createServer((request, response) => {
      const sent = JSON.stringify(request.headersDistinct);
      const { method = "", url: target = "" } = request;
      const hasToken = tokens.some((token) => sent.includes(token));
      emit({ type: "endpoint.requested", server, method, target, hasToken });
      response.setHeader("content-type", "text/plain").end("mcpvals");
    });
    const endpoint = this.#endpoint;
    if (!endpoint.listening) {
      endpoint.listen(0, "127.0.0.1");
      await once(endpoint, "listening");
    }
    const address = endpoint.address();
    return `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}/`;
  }

  async runScenario(
    suite: ConformanceSuite,
    scenario: string,
  ): Promise<readonly ConformanceCheck[] | undefined> {
    const { signal, callMs } = this.#options;
    const host = await this.#startHost();
    const url = await this.#expose(host);
    const checks = await runScenario(suite, scenario, { url, ms: callMs * maxCallsOfScenario, signal });
    await this.#stop(host);
    return checks;
  }

  /** Opens a host to a program outside this process, at the URL that it gives. A flood ends the connection. */
  async #expose(host: ServerHost): Promise<string> {
    const emit: Emit = (event) => {
      if (event.type === "mcp.message" && event.direction === "server-to-client") {
        const { allowance } = this.#shared;
        allowance.left -= weightOf(event.message, JSON.stringify(event.message));
        if (allowance.left < 0) void this.#stop(host);
      }
      return this.#options.emit(event);
    };
    // Only the conformance suite needs these, and loading them is slow.
    const [{ createGateway }, { limitFilters }] = await Promise.all([
      import("../servers/gateway/gateway.ts"),
      import("../servers/filters/filters.ts"),
    ]);
    this.#gateway ??= createGateway();
    const filters = (context: FilterContext): readonly Filter[] => limitFilters(host.limiter, context);
    return (await this.#gateway.open({ host, emit, filters })).url;
  }

  async connect(options?: ConnectOptions): Promise<Session> {
    const server = await this.start(options);
    const client = server.open();
    const { capabilities } = this.hello(await client.connect(undefined, options));
    return { server, client, capabilities: isJsonObject(capabilities) ? capabilities : {} };
  }

  hello(answer: Answer): JsonObject {
    if (answer.kind === "result") {
      this.#wasReached = true;
      return answer.result;
    }
    const cause =
      answer.kind === "lost"
        ? answer.reason
        : answer.kind === "refused"
          ? (answer.failure.statusError ?? unusable(this.#options.server, answer.failure))
          : undefined;
    const status = answer.kind === "refused" ? answer.failure.status : undefined;
    const isElsewhere =
      cause !== undefined &&
      (["server/unreachable", "server/unauthorized"].includes(cause.code) ||
        (status !== undefined && notTheServer.includes(status)) ||
        (answer.kind === "refused" && answer.failure.isForeign));
    if (isElsewhere && !this.#wasReached) throw cause;
    throw new ProbeEnded(answer.kind === "lost" ? "lost" : "unanswered", cause);
  }

  async probe<T>(
    probe: ProbeName,
    work: () => Promise<T>,
    about: Pick<EventOf<"probe.started">, "call" | "read"> = {},
  ): Promise<T | undefined> {
    const { server, emit, signal } = this.#options;
    const started = performance.now();
    this.#takeLoss();
    emit({ type: "probe.started", server, probe, ...about });
    const finish = (outcome: EventOf<"probe.finished">["outcome"], error?: unknown): void => {
      const durationMs = performance.now() - started;
      const why = error === undefined ? {} : { error: serializeError(error) };
      emit({ type: "probe.finished", server, probe, outcome, durationMs, ...why });
    };
    try {
      const value = await work();
      await this.#look(probe);
      const loss = this.#takeLoss();
      finish(loss === undefined ? "done" : "lost", loss?.reason);
      return value;
    } catch (error) {
      signal.throwIfAborted();
      await this.#look(probe);
      if (!(error instanceof ProbeEnded)) {
        finish("lost", error);
        throw error;
      }
      finish(error.outcome, error.cause ?? this.#takeLoss()?.reason);
      return undefined;
    }
  }

  #takeLoss(): Loss | undefined {
    const loss = this.#loss;
    this.#loss = undefined;
    return loss;
  }

  async list(client: ProbeClient, method: string): Promise<void> {
    const end = performance.now() + maxListMs;
    let cursor: string | undefined;
    const seen = new Set<string>();
    do {
      const answer = await client.request(method, cursor === undefined ? undefined : { cursor });
      if (answer.kind === "lost") throw new ProbeEnded("lost", answer.reason);
      if (answer.kind !== "result") return;
      const { nextCursor } = answer.result;
      cursor = typeof nextCursor === "string" && !seen.has(nextCursor) ? nextCursor : undefined;
      if (cursor !== undefined) seen.add(cursor);
    } while (cursor !== undefined && seen.size < maxPages && performance.now() < end);
  }

  async listAll({ client, capabilities }: Session): Promise<void> {
    for (const [capability, methods] of Object.entries(listMethods))
      if (capabilities[capability] !== undefined)
        for (const method of methods) await this.list(client, method);
  }

  /** Stops everything that was started. Never throws. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#gateway?.close();
    this.#endpoint?.close();
    this.#endpoint?.closeAllConnections();
    await Promise.all([...this.#hosts].map((host) => host.stop()));
    await this.#release();
    await Promise.all(this.#shared.free.map((world) => world[Symbol.asyncDispose]()));
  }
}

/** How many limits of a request a scenario may take; the suite's own limit of a request is a minute. */
const maxCallsOfScenario = 6;

/** Pages of a list that are read, and how long, in milliseconds. */
const maxPages = 100;
const maxListMs = 30_000;

/** A header whose value lets its sender in. */
const credentialHeader = /authorization|cookie|token|secret|api-?key/i;

const isCookie = (header: string): boolean => /^cookie$/i.test(header);

/** Tokens that nobody gave out, with the scheme or the names of the right ones; for a JSON Web Token the same with a made-up signature. */
function wrongValue(value: string, header: string): string {
  return value.replace(
    isCookie(header) ? /(?<==)[^;]+|(?<=^|;)[^;=]+(?=;|$)/g : /\S+$/,
    (token) => /^(eyJ[^.]*\.[^.]+\.)[^.]+$/.exec(token)?.[1]?.concat("A".repeat(86)) ?? "mcpvals-wrong-token",
  );
}

/** The tokens in the headers of a server; a cookie with its name, since one such as `lang=en` is short. */
function tokensOf(spec: ServerSpec): readonly string[] {
  if (spec.transport === "stdio" || spec.transport === "mock") return [];
  return Object.entries(spec.headers).flatMap(([name, value]) =>
    credentialHeader.test(name) ? (value.match(isCookie(name) ? /[^;\s][^;]*/g : /\S+$/) ?? []) : [],
  );
}

/** A server as it is reached with other credentials. Its program is not started for them. */
function specWith(credentials: Credentials, spec: ServerSpec): ServerSpec {
  if (credentials === "own" || spec.transport === "stdio" || spec.transport === "mock") return spec;
  const { auth, headers, program: _, ...rest } = spec;
  if (credentials === "none") return { ...rest, headers: {} };
  const changed = mapValues(headers, (value, name) =>
    credentialHeader.test(name) ? wrongValue(value, name) : value,
  );
  const login = auth === undefined ? {} : { authorization: wrongValue("Bearer token", "authorization") };
  return { ...rest, headers: { ...changed, ...login } };
}

/** How long a server may take to answer a browser that asks what it allows, in milliseconds. */
const preflightMs = 5000;

const listMethods = {
  tools: ["tools/list"],
  resources: ["resources/list", "resources/templates/list"],
  prompts: ["prompts/list"],
} as const;

function unusable(server: string, { message }: HttpRefusal): McpvalsError {
  return new McpvalsError("server/protocol-error", `server "${server}": ${message}`, {
    hint: "Check the url: MCP servers answer with application/json or text/event-stream.",
  });
}
