import { type Channel, type ChannelListener, type WireMessage, wireMessage } from "../wire.ts";
import { type Era, eraOf, opensEra } from "./eras.ts";
import { idAt, kindOf, type MessageId } from "./message-parts.ts";
import { type ClientOptions, withId } from "./multiplexer.ts";
import type { ServerProcess } from "./server-process.ts";

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
export class StdioClient implements Channel {
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
