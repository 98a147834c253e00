import type { Transport } from "@modelcontextprotocol/client";
import type { McpvalsError } from "../../core/errors/error.ts";
import type { Emit } from "../../core/trace/events.ts";
import type { Evidence, ServerConnection } from "../connection.ts";
import { RecordingTransport } from "../recording.ts";
import type { Channel, ChannelListener } from "../wire.ts";
import { ChannelTransport } from "./channel-transport.ts";
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
