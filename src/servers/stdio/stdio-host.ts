import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import type { StdioServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import { settlesWithin } from "../../process/deadline.ts";
import type {
  ServerConnection,
  Channel,
  ChannelListener,
  ConnectOptions,
  ServerHost,
} from "../connections/host.ts";
import {
  type WireMessage,
  wireMessage,
  type Era,
  eraOf,
  opensEra,
  idAt,
  kindOf,
  type MessageId,
  valueAt,
} from "../messages/json-rpc.ts";
import { ChannelConnection } from "../connections/transports.ts";
import { type ClientOptions, withId } from "./multiplexer.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";

/**
 * Starts a program that serves MCP over its pipes. The process exists when this function returns, before its promise
 * settles. Throws McpvalsError `server/spawn-failed`.
 */
export async function openStdioHost(name: string, spec: StdioServerSpec): Promise<ServerHost> {
  return new StdioHost(name, spec, await startServerProcess(name, spec));
}

class StdioHost implements ServerHost, Processes {
  readonly name: string;
  readonly transport = "stdio";
  readonly address = undefined;
  readonly first: ServerProcess;
  readonly #spec: StdioServerSpec;
  readonly #lost = new AbortController();
  /** Who watches, with how to stop it for each process. */
  readonly #watchers = new Map<Emit, (() => void)[]>();
  /** The same program again, for the other era. */
  #sibling: ServerProcess | undefined;
  /** How the program refused the other era. */
  #refusal: WireMessage | undefined;
  #asking: Promise<unknown> | undefined;
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
    const stops = [this.first, ...(this.#sibling === undefined ? [] : [this.#sibling])].map((each) =>
      each.watch(emit),
    );
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
      open: (listener) => new StdioClient(this, listener, { yields: !agent }),
      hostLost: this.lost,
      evidence: () => this.first.evidence(),
      ...(between === undefined ? {} : { between }),
    });
  }

  open(listener: ChannelListener): Channel {
    return new StdioClient(this, listener, { yields: false });
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    await Promise.all([this.first.stop(), this.#sibling?.stop()]);
    this.#watchers.clear();
  }

  async speaking(era: Era, asked: WireMessage, listener: ChannelListener): Promise<Answered> {
    while (this.#asking !== undefined) await this.#asking;
    const fitting = [this.first, this.#sibling].find((each) => each !== undefined && speaks(each, era));
    if (fitting !== undefined) return { process: fitting };
    if (this.#refusal !== undefined || this.#stopping !== undefined)
      return { process: this.first, ...(this.#refusal === undefined ? {} : { refusal: this.#refusal }) };
    const asking = this.#askSibling(era, asked, listener);
    this.#asking = asking.catch(() => undefined);
    try {
      return await asking;
    } finally {
      this.#asking = undefined;
    }
  }

  /** Starts the program again and lets it say whether it speaks an era. */
  async #askSibling(era: Era, asked: WireMessage, listener: ChannelListener): Promise<Answered> {
    const sibling = await startServerProcess(this.name, this.#spec);
    this.#sibling = sibling;
    // Whoever stops the host in this moment does not know of it yet.
    if (this.#stopping !== undefined) await sibling.stop();
    for (const [emit, stops] of this.#watchers) stops.push(sibling.watch(emit));
    const own = opensEra(asked.message);
    const question = own ? asked : wireMessage(discoverRequest(asked.message));
    const timeoutMs = this.#spec.startupTimeoutMs;
    const answer = await ask(sibling, question, { listener, timeoutMs });
    if ("result" in answer.message) {
      sibling.era = era;
      this.#follow(sibling);
      return { process: sibling, ...(own ? { answer } : {}) };
    }
    this.#refusal = answer;
    await sibling.stop();
    this.#sibling = undefined;
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

/** Asks a process something; no answer, or the end of the process, is a refusal. */
async function ask(
  process: ServerProcess,
  { message, text }: WireMessage,
  { listener, timeoutMs }: { readonly listener: ChannelListener; readonly timeoutMs: number },
): Promise<WireMessage> {
  const id = "id" in message && message.id !== undefined ? message.id : 0;
  const refusal = wireMessage({
    jsonrpc: "2.0",
    id,
    error: { code: methodNotFound, message: "the server gave no answer" },
  });
  let answer: WireMessage | undefined;
  let channel: Channel | undefined;
  const answered = new Promise<void>((resolve) => {
    const onMessage = (wire: WireMessage): void => {
      const isAnswer = !("method" in wire.message) && wire.message.id === id;
      if (isAnswer) answer ??= wire;
      if (isAnswer) resolve();
      else listener.onMessage(wire);
    };
    channel = process.open({ onMessage, onClosed: () => resolve() }, {});
    channel.send({ message, text }).catch(() => resolve());
  });
  await settlesWithin(answered, timeoutMs);
  await channel?.close();
  return answer ?? refusal;
}

const methodNotFound = -32601;

/** The processes of one program. */
export interface Processes {
  /** The one that every client begins with. */
  readonly first: ServerProcess;
  /**
   * Gives the process that speaks an era, or the first one with how the program refused that era. Starts the program
   * again when it has to, and then lets it answer `asked`, the message that the era is wanted for. What else the new
   * process says meanwhile goes to the listener. Throws McpvalsError when it cannot be started.
   */
  speaking(era: Era, asked: WireMessage, listener: ChannelListener): Promise<Answered>;
}

export interface Answered {
  readonly process: ServerProcess;
  /** The answer to what was asked, when it was asked as it is. */
  readonly answer?: WireMessage;
  readonly refusal?: WireMessage;
}

/** JSON-RPC's code for an error on the side that answers. */
const internalError = -32603;

/** A place of a client at one process. */
interface Seat {
  readonly process: ServerProcess;
  readonly channel: Channel;
}

/** One client's exchange with a program; finds the process that speaks the client's era. */
class StdioClient implements Channel {
  readonly #processes: Processes;
  readonly #listener: ChannelListener;
  readonly #options: ClientOptions;
  #seat: Seat;
  #closed = false;
  /** The era that the client has asked for last. */
  #wanted: Era | undefined;
  /** The request that decides on the era that the seat's process speaks. */
  #opening: MessageId | undefined;
  /** Settles when the way for the next message is known; absent when it is. */
  #moving: Promise<void> | undefined;

  constructor(processes: Processes, listener: ChannelListener, options: ClientOptions) {
    this.#processes = processes;
    this.#listener = listener;
    this.#options = options;
    this.#seat = this.#sitAt(processes.first);
  }

  send(wire: WireMessage): Promise<void> {
    const era = eraOf(wire.message);
    // Who begins anew in the era of the process that is there gives up what it has waited for.
    if (this.#moving !== undefined && era !== undefined && this.#fits(this.#processes.first, era))
      return this.#sendAs(era, wire, this.#processes.first);
    if (this.#moving !== undefined) return this.#moving.then(() => this.send(wire));
    const { process } = this.#seat;
    if (era === undefined) return this.#seat.channel.send(wire);
    if (this.#fits(process, era)) return this.#sendAs(era, wire, process);
    this.#moving = this.#move(era, wire).finally(() => (this.#moving = undefined));
    return Promise.resolve();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#seat.channel.close();
  }

  #fits({ era }: ServerProcess, wanted: Era): boolean {
    return era === undefined || era === wanted;
  }

  #sendAs(era: Era, wire: WireMessage, process: ServerProcess): Promise<void> {
    this.#wanted = era;
    this.#change(process);
    if (process.era === undefined) {
      process.era = era;
      this.#opening = idAt(wire.message, ["id"]);
    }
    return this.#seat.channel.send(wire);
  }

  /** Goes to the process of another era, with the request that wants it. Never throws: what goes wrong is its answer. */
  async #move(era: Era, wire: WireMessage): Promise<void> {
    const id = idAt(wire.message, ["id"]) ?? 0;
    this.#wanted = era;
    try {
      const { process, answer, refusal } = await this.#processes.speaking(era, wire, {
        onMessage: (other) => this.#receive(other),
        onClosed: () => undefined,
      });
      if (this.#closed || this.#wanted !== era) return;
      this.#change(process);
      const ready = answer ?? (opensEra(wire.message) ? refusal : undefined);
      if (ready === undefined) await this.#seat.channel.send(wire);
      else this.#receive(withId(ready, id));
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#receive(wireMessage({ jsonrpc: "2.0", id, error: { code: internalError, message } }));
    }
  }

  #change(process: ServerProcess): void {
    if (process === this.#seat.process) return;
    void this.#seat.channel.close();
    this.#seat = this.#sitAt(process);
  }

  #sitAt(process: ServerProcess): Seat {
    const isHere = (): boolean => this.#seat.process === process && !this.#closed;
    const channel = process.open(
      {
        onMessage: (wire) => {
          if (isHere()) this.#hear(wire, process);
        },
        onClosed: () => {
          if (isHere()) this.#listener.onClosed();
        },
      },
      this.#options,
    );
    return { process, channel };
  }

  #hear(wire: WireMessage, process: ServerProcess): void {
    const { message } = wire;
    if (
      this.#opening !== undefined &&
      kindOf(message) === "answer" &&
      idAt(message, ["id"]) === this.#opening
    ) {
      this.#opening = undefined;
      if (!("result" in message)) process.era = undefined;
    }
    this.#receive(wire);
  }

  #receive(wire: WireMessage): void {
    if (!this.#closed) this.#listener.onMessage(wire);
  }
}

/** What a client of the modern era would begin with. */
function discoverRequest(asked: JSONRPCMessage): JSONRPCMessage {
  const meta = valueAt(asked, ["params", "_meta"]);
  return {
    jsonrpc: "2.0",
    id: "mcpvals:discover",
    method: "server/discover",
    params: { _meta: typeof meta === "object" && meta !== null ? { ...meta } : {} },
  };
}
