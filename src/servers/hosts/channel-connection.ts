import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { McpvalsError } from "../../core/errors/error.ts";
import type { Emit } from "../../core/trace/events.ts";
import type { Evidence, ServerConnection } from "../connection.ts";
import { RecordingTransport } from "../recording.ts";
import { type Channel, type ChannelListener, type WireMessage, wireMessage } from "../wire.ts";
import type { ConnectOptions } from "./host.ts";

export interface ChannelConnectionOptions {
  readonly name: string;
  readonly emit: Emit;
  readonly open: (listener: ChannelListener) => Channel;
  /** Aborts when the server itself is lost. */
  readonly hostLost: AbortSignal;
  readonly evidence: () => Evidence;
  readonly between?: ConnectOptions["between"];
}

/** A recorded connection over an exchange that its host gives; ending it leaves the server alone. */
export class ChannelConnection implements ServerConnection {
  readonly name: string;
  readonly transport: Transport;
  readonly #options: ChannelConnectionOptions;
  readonly #channel: ChannelTransport;
  readonly #lost = new AbortController();
  readonly #follow = (): void => this.#lose(this.#options.hostLost.reason);
  #stopped = false;

  constructor(options: ChannelConnectionOptions) {
    const { name, emit, open, hostLost, between = (inner) => inner } = options;
    this.name = name;
    this.#options = options;
    this.#channel = new ChannelTransport(open);
    this.transport = new RecordingTransport(between(this.#channel), {
      server: name,
      emit: (event) => (this.#stopped ? 0 : emit(event)),
      rawText: (message) => this.#channel.rawText(message),
      onBroken: (error) => this.#break(error),
    });
    if (hostLost.aborted) this.#follow();
    hostLost.addEventListener("abort", this.#follow, { once: true });
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  evidence(): Evidence {
    return this.#options.evidence();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#options.hostLost.removeEventListener("abort", this.#follow);
    await this.#channel.close();
  }

  /** What came is so bad that this client cannot go on, though the server may. */
  #break(error: McpvalsError): void {
    this.#lose(error);
    void this.#channel.close();
  }

  #lose(reason: unknown): void {
    if (!this.#stopped && !this.#lost.signal.aborted) this.#lost.abort(reason);
  }
}

/** The SDK's view of one client's exchange with a server, which begins when the transport is started. */
export class ChannelTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #open: (listener: ChannelListener) => Channel;
  /** The message that is being handed over, with its text. */
  #received: WireMessage | undefined;
  #channel: Channel | undefined;
  #closed = false;

  constructor(open: (listener: ChannelListener) => Channel) {
    this.#open = open;
  }

  start(): Promise<void> {
    if (this.#closed) return Promise.reject(new Error("the exchange has ended before it began"));
    this.#channel = this.#open({
      onMessage: (wire) => {
        if (this.#closed) return;
        this.#received = wire;
        this.onmessage?.(wire.message);
        this.#received = undefined;
      },
      onClosed: () => this.#end(),
    });
    return Promise.resolve();
  }

  send(message: JSONRPCMessage): Promise<void> {
    if (this.#closed || this.#channel === undefined)
      return Promise.reject(new Error("the exchange with the server has ended"));
    return this.#channel.send(wireMessage(message));
  }

  async close(): Promise<void> {
    this.#end();
    await this.#channel?.close();
  }

  /**
   * The text that a message was read from, if writing the message again would not give the same text; to be asked for while
   * the message is handed over.
   */
  rawText(message: JSONRPCMessage): string | undefined {
    const received = this.#received;
    if (received?.message !== message) return undefined;
    return received.text === JSON.stringify(message) ? undefined : received.text;
  }

  #end(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onclose?.();
  }
}
