import type { StdioServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import { settlesWithin } from "../../process/deadline.ts";
import type {
  Channel,
  ChannelListener,
  ConnectOptions,
  ServerConnection,
  ServerHost,
} from "../connections/host.ts";
import { ChannelConnection } from "../connections/transports.ts";
import {
  type Era,
  eraOf,
  errorAnswer,
  errorCodes,
  idAt,
  kindOf,
  type MessageId,
  opensEra,
  valueAt,
  type WireMessage,
  wireMessage,
} from "../messages/json-rpc.ts";
import { type ClientOptions, withId } from "./multiplexer.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";

/**
 * Starts a program that serves MCP over its pipes. The process exists when this function returns, before its promise
 * settles. Throws McpvalsError `server/spawn-failed`.
 */
export async function openStdioHost(name: string, spec: StdioServerSpec): Promise<ServerHost> {
  return new StdioHost(name, spec, await startServerProcess(name, spec));
}

/** The process that speaks an era. */
interface FoundProcess {
  readonly process: ServerProcess;
  /** The answer to the message that the process was looked for with, if it has been sent that message. */
  readonly answer?: WireMessage;
  /** How the program refused the era. */
  readonly refusal?: WireMessage;
}

/** A program: its process and, where clients of both eras use it, a second process for the other era. */
class StdioHost implements ServerHost {
  readonly name: string;
  readonly transport = "stdio";
  readonly address = undefined;
  /** The process that every client begins with. */
  readonly first: ServerProcess;
  readonly #spec: StdioServerSpec;
  readonly #lost = new AbortController();
  /** Each watcher, with a function that ends its record for each process. */
  readonly #watchers = new Map<Emit, (() => void)[]>();
  #second: ServerProcess | undefined;
  /** How the program refused the other era. */
  #refusal: WireMessage | undefined;
  #starting: Promise<unknown> | undefined;
  #stopping: Promise<void> | undefined;

  constructor(name: string, spec: StdioServerSpec, first: ServerProcess) {
    this.name = name;
    this.#spec = spec;
    this.first = first;
    this.#follow(first);
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  watch(emit: Emit): () => void {
    const processes = [this.first, ...(this.#second === undefined ? [] : [this.#second])];
    const stops = processes.map((process) => process.watch(emit));
    this.#watchers.set(emit, stops);
    return () => {
      this.#watchers.delete(emit);
      for (const stop of stops) stop();
    };
  }

  connect(emit: Emit, { agent = false, between }: ConnectOptions = {}): ServerConnection {
    return new ChannelConnection({
      name: this.name,
      emit,
      open: (listener) => new StdioChannel(this, listener, { yields: !agent }),
      hostLost: this.lost,
      evidence: () => this.first.evidence(),
      ...(between === undefined ? {} : { between }),
    });
  }

  open(listener: ChannelListener): Channel {
    return new StdioChannel(this, listener, { yields: false });
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    await Promise.all([this.first.stop(), this.#second?.stop()]);
    this.#watchers.clear();
  }

  /**
   * Finds the process that speaks an era, or the first one with how the program refused the era. Starts the program again
   * where needed, and lets the new process answer `wire`, the message that needs the era; its other messages go to the
   * listener. Throws McpvalsError when it cannot be started.
   */
  async processFor(era: Era, wire: WireMessage, listener: ChannelListener): Promise<FoundProcess> {
    while (this.#starting !== undefined) await this.#starting;
    const process = [this.first, this.#second].find((each) => each !== undefined && speaks(each, era));
    if (process !== undefined) return { process };
    if (this.#stopping !== undefined) return { process: this.first };
    if (this.#refusal !== undefined) return { process: this.first, refusal: this.#refusal };
    const starting = this.#startSecond(era, wire, listener);
    this.#starting = starting.catch(() => undefined);
    try {
      return await starting;
    } finally {
      this.#starting = undefined;
    }
  }

  async #startSecond(era: Era, wire: WireMessage, listener: ChannelListener): Promise<FoundProcess> {
    const second = await startServerProcess(this.name, this.#spec);
    this.#second = second;
    // A stop that began during the start did not include this process.
    if (this.#stopping !== undefined) await second.stop();
    for (const [emit, stops] of this.#watchers) stops.push(second.watch(emit));
    const opens = opensEra(wire.message);
    const question = opens ? wire : discoverRequest(wire);
    const answer = await ask(second, question, { listener, timeoutMs: this.#spec.startupTimeoutMs });
    if ("result" in answer.message) {
      second.era = era;
      this.#follow(second);
      return { process: second, ...(opens ? { answer } : {}) };
    }
    this.#refusal = answer;
    await second.stop();
    this.#second = undefined;
    return { process: this.first, refusal: answer };
  }

  #follow({ lost }: ServerProcess): void {
    const lose = (): void => {
      if (!this.#lost.signal.aborted) this.#lost.abort(lost.reason);
    };
    if (lost.aborted) lose();
    lost.addEventListener("abort", lose, { once: true });
  }
}

function speaks({ era }: ServerProcess, wanted: Era): boolean {
  return era === undefined || era === wanted;
}

/** The request with which a client of the modern era would begin. */
function discoverRequest({ message }: WireMessage): WireMessage {
  const meta = valueAt(message, ["params", "_meta"]);
  return wireMessage({
    jsonrpc: "2.0",
    id: "mcpvals:discover",
    method: "server/discover",
    params: { _meta: typeof meta === "object" && meta !== null ? { ...meta } : {} },
  });
}

/** Sends a request to a process; no answer, or the end of the process, is a refusal. */
async function ask(
  process: ServerProcess,
  wire: WireMessage,
  { listener, timeoutMs }: { readonly listener: ChannelListener; readonly timeoutMs: number },
): Promise<WireMessage> {
  const id = idAt(wire.message, ["id"]) ?? 0;
  let answer = errorAnswer(id, errorCodes.methodNotFound, "the server gave no answer");
  const answered = Promise.withResolvers<void>();
  const channel = process.open(
    {
      onMessage: (received) => {
        if (kindOf(received.message) !== "answer" || idAt(received.message, ["id"]) !== id)
          return listener.onMessage(received);
        answer = received;
        answered.resolve();
      },
      onClosed: () => answered.resolve(),
    },
    {},
  );
  channel.send(wire).catch(() => answered.resolve());
  await settlesWithin(answered.promise, timeoutMs);
  await channel.close();
  return answer;
}

/** One client's channel to a program: connected to the process that speaks the client's era. */
class StdioChannel implements Channel {
  readonly #host: StdioHost;
  readonly #listener: ChannelListener;
  readonly #options: ClientOptions;
  #process: ServerProcess;
  #channel: Channel;
  #closed = false;
  /** The era that the client has asked for last. */
  #wanted: Era | undefined;
  /** The request that decides which era the process speaks. */
  #opening: MessageId | undefined;
  /** Settles when the process for the next message is known; absent when it is. */
  #switching: Promise<void> | undefined;

  constructor(host: StdioHost, listener: ChannelListener, options: ClientOptions) {
    this.#host = host;
    this.#listener = listener;
    this.#options = options;
    this.#process = host.first;
    this.#channel = this.#connect(host.first);
  }

  send(wire: WireMessage): Promise<void> {
    const era = eraOf(wire.message);
    // A client that begins anew in the era of the first process does not wait for the other one.
    if (this.#switching !== undefined && era !== undefined && speaks(this.#host.first, era))
      return this.#sendAs(era, wire, this.#host.first);
    if (this.#switching !== undefined) return this.#switching.then(() => this.send(wire));
    if (era === undefined) return this.#channel.send(wire);
    if (speaks(this.#process, era)) return this.#sendAs(era, wire, this.#process);
    this.#switching = this.#switchTo(era, wire).finally(() => (this.#switching = undefined));
    return Promise.resolve();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#channel.close();
  }

  #sendAs(era: Era, wire: WireMessage, process: ServerProcess): Promise<void> {
    this.#wanted = era;
    this.#use(process);
    if (process.era === undefined) {
      process.era = era;
      this.#opening = idAt(wire.message, ["id"]);
    }
    return this.#channel.send(wire);
  }

  /** Goes to the process of another era, with the request that needs it. Never throws: a failure becomes the answer. */
  async #switchTo(era: Era, wire: WireMessage): Promise<void> {
    const id = idAt(wire.message, ["id"]) ?? 0;
    this.#wanted = era;
    try {
      const { process, answer, refusal } = await this.#host.processFor(era, wire, {
        onMessage: (other) => this.#receive(other),
        onClosed: () => undefined,
      });
      if (this.#closed || this.#wanted !== era) return;
      this.#use(process);
      const ready = answer ?? (opensEra(wire.message) ? refusal : undefined);
      if (ready === undefined) await this.#channel.send(wire);
      else this.#receive(withId(ready, id));
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#receive(errorAnswer(id, errorCodes.internal, message));
    }
  }

  #use(process: ServerProcess): void {
    if (process === this.#process) return;
    void this.#channel.close();
    this.#process = process;
    this.#channel = this.#connect(process);
  }

  #connect(process: ServerProcess): Channel {
    const isCurrent = (): boolean => this.#process === process && !this.#closed;
    const listener: ChannelListener = {
      onMessage: (wire) => {
        if (isCurrent()) this.#receiveFrom(process, wire);
      },
      onClosed: () => {
        if (isCurrent()) this.#listener.onClosed();
      },
    };
    return process.open(listener, this.#options);
  }

  #receiveFrom(process: ServerProcess, wire: WireMessage): void {
    const { message } = wire;
    const isOpening =
      this.#opening !== undefined && kindOf(message) === "answer" && idAt(message, ["id"]) === this.#opening;
    if (isOpening) {
      this.#opening = undefined;
      if (!("result" in message)) process.era = undefined;
    }
    this.#receive(wire);
  }

  #receive(wire: WireMessage): void {
    if (!this.#closed) this.#listener.onMessage(wire);
  }
}
