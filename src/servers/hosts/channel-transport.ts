import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { type Channel, type ChannelListener, wireMessage } from "../wire.ts";

/** The SDK's view of one client's exchange with a server, which begins when the transport is started. */
export class ChannelTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #open: (listener: ChannelListener) => Channel;
  readonly #texts = new WeakMap<JSONRPCMessage, string>();
  #channel: Channel | undefined;
  #closed = false;

  constructor(open: (listener: ChannelListener) => Channel) {
    this.#open = open;
  }

  start(): Promise<void> {
    if (this.#closed) return Promise.reject(new Error("the exchange has ended before it began"));
    this.#channel = this.#open({
      onMessage: ({ message, text }) => {
        if (this.#closed) return;
        this.#texts.set(message, text);
        this.onmessage?.(message);
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

  /** The text that a received message was read from, if writing the message again would not give the same text. */
  rawText(message: JSONRPCMessage): string | undefined {
    const text = this.#texts.get(message);
    return text === JSON.stringify(message) ? undefined : text;
  }

  #end(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onclose?.();
  }
}
