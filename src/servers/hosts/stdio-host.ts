import type { StdioServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import { settlesWithin } from "../../process/deadline.ts";
import type { ServerConnection } from "../connection.ts";
import { type Channel, type ChannelListener, type WireMessage, wireMessage } from "../wire.ts";
import { ChannelConnection } from "./channel-connection.ts";
import { discoverRequest, type Era, opensEra } from "./eras.ts";
import type { ConnectOptions, ServerHost } from "./host.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";
import { type Answered, type Processes, StdioClient } from "./stdio-client.ts";

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
