import { messageOf } from "../../base/error.ts";
import { asObject, valueAt } from "../../base/json.ts";
import type { StdioServerSpec } from "../../model/server.ts";
import type { Emit } from "../../model/event.ts";
import { settlesWithin } from "../../process/deadline.ts";
import type { StopOptions } from "../../process/spawn.ts";
import {
  type Channel,
  type ChannelListener,
  type ConnectOptions,
  ServerConnection,
  type ServerHost,
} from "../connections/host.ts";
import {
  answeredId,
  type Era,
  eraOf,
  errorAnswer,
  idAt,
  type MessageId,
  methodOf,
  type WireMessage,
  wireMessage,
  withIdAt,
} from "../messages/json-rpc.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";
import { errorCodes } from "../../model/error-codes.ts";

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
  readonly isProgram = true;
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

  connect(emit: Emit, { agent = false, filters }: ConnectOptions = {}): ServerConnection {
    return new ServerConnection({
      name: this.name,
      emit,
      open: (listener) => new StdioChannel(this, listener, !agent),
      hostLost: this.lost,
      evidence: () => this.first.evidence(),
      filters,
    });
  }

  open(listener: ChannelListener): Channel {
    return new StdioChannel(this, listener, false);
  }

  stop(options?: StopOptions): Promise<void> {
    this.#stopping ??= Promise.all([this.first.stop(options), this.#second?.stop(options)]).then(() =>
      this.#watchers.clear(),
    );
    return this.#stopping;
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
    const opens = opensEra(wire);
    const answer = await ask(
      second,
      opens ? wire : discoverRequest(wire),
      listener,
      this.#spec.startupTimeoutMs,
    );
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
    const lose = (): void => this.#lost.abort(lost.reason);
    if (lost.aborted) lose();
    lost.addEventListener("abort", lose, { once: true });
  }
}

function speaks({ era }: ServerProcess, wanted: Era): boolean {
  return era === undefined || era === wanted;
}

/** Whether a request asks a server if it speaks an era at all. */
function opensEra({ message }: WireMessage): boolean {
  return ["server/discover", "initialize"].includes(methodOf(message) ?? "");
}

/** The request with which a client of the modern era would begin. */
function discoverRequest({ message }: WireMessage): WireMessage {
  const meta = { ...asObject(valueAt(message, ["params", "_meta"])) };
  return wireMessage({
    jsonrpc: "2.0",
    id: "mcpvals:discover",
    method: "server/discover",
    params: { _meta: meta },
  });
}

/** Sends a request to a process; no answer, or the end of the process, is a refusal. Other messages go to the listener. */
async function ask(
  process: ServerProcess,
  wire: WireMessage,
  listener: ChannelListener,
  timeoutMs: number,
): Promise<WireMessage> {
  const id = idAt(wire.message, ["id"]) ?? 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  let answer = errorAnswer(id, errorCodes.methodNotFound, "the server gave no answer");
  const channel = process.open(
    {
      onMessage: (received) => {
        if (answeredId(received.message) !== id) return listener.onMessage(received);
        answer = received;
        resolve();
      },
      onClosed: () => resolve(),
    },
    {},
  );
  channel.send(wire).catch(() => resolve());
  await settlesWithin(promise, timeoutMs);
  await channel.close();
  return answer;
}

/** One client's channel to a program: connected to the process that speaks the client's era. */
class StdioChannel implements Channel {
  readonly #host: StdioHost;
  readonly #listener: ChannelListener;
  readonly #yields: boolean;
  #process: ServerProcess;
  #channel: Channel;
  #closed = false;
  /** The era that the client has asked for last. */
  #wanted: Era | undefined;
  /** The request that decides which era the process speaks. */
  #opening: MessageId | undefined;
  /** Settles when the process for the next message is known; absent when it is. */
  #switching: Promise<void> | undefined;

  constructor(host: StdioHost, listener: ChannelListener, yields: boolean) {
    this.#host = host;
    this.#listener = listener;
    this.#yields = yields;
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
      const ready = answer ?? (opensEra(wire) ? refusal : undefined);
      if (ready === undefined) await this.#channel.send(wire);
      else this.#receive(withIdAt(ready, ["id"], id));
    } catch (error) {
      const message = messageOf(error);
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
    return process.open(
      {
        onMessage: (wire) => {
          if (!isCurrent()) return;
          if (this.#opening !== undefined && answeredId(wire.message) === this.#opening) {
            this.#opening = undefined;
            if (!("result" in wire.message)) process.era = undefined;
          }
          this.#receive(wire);
        },
        onClosed: () => {
          if (isCurrent()) this.#listener.onClosed();
        },
      },
      { yields: this.#yields },
    );
  }

  #receive(wire: WireMessage): void {
    if (!this.#closed) this.#listener.onMessage(wire);
  }
}
