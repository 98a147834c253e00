import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { type Channel, type ChannelListener, type WireMessage, wireMessage } from "../wire.ts";

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
