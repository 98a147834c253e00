import type { Duplex } from "node:stream";
import { McpvalsError } from "../../core/errors/error.ts";
import { jsonExcess } from "../../core/formats/json-meter.ts";
import { deepestMessage } from "../json-rpc.ts";
import { requestOf, answeredId } from "../filters/messages.ts";
import type { ServerHost } from "../hosts/host.ts";
import { readBody, wiresOf } from "../http/body-messages.ts";
import { LineReader } from "../../process/line-reader.ts";
import type { Channel, WireMessage } from "../wire.ts";
import type { AgentLink } from "./agent-link.ts";

export interface BridgeEndOptions {
  readonly link: AgentLink;
  readonly host: ServerHost;
  /** Longest line of an agent's, in bytes. */
  readonly limit: number;
  /** The server did what no exchange with it survives. */
  readonly onLost: (error: McpvalsError) => void;
}

/** Messages that may be on their way to the server before the agent has to wait. */
const mostUnsent = 64;
/** How long an agent that says no more may wait for what it has asked, in milliseconds. */
const lingerMs = 1000;

/** Our end of a bridge: one message a line, both ways, over one exchange with the server. */
export class BridgeEnd {
  readonly #socket: Duplex;
  readonly #options: BridgeEndOptions;
  readonly #channel: Channel;
  readonly #reader: LineReader;
  readonly #waiting = new Set<string | number>();
  #unsent = 0;
  #linger: NodeJS.Timeout | undefined;
  #isEnded = false;

  constructor(socket: Duplex, head: Buffer, options: BridgeEndOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#reader = new LineReader({
      limit: options.limit,
      onLine: (line) => this.#fromAgent(line),
      onTooLong: () => this.end(),
    });
    this.#channel = options.host.open({
      onMessage: (wire) => this.#fromServer(wire),
      onClosed: (reason) => this.#lose(reason),
    });
    options.link.holds(() => this.end());
    socket.on("data", (chunk: Buffer) => this.#reader.push(chunk));
    socket.once("end", () => this.#agentIsDone());
    socket.once("close", () => this.end());
    socket.once("error", () => this.end());
    if (head.length > 0) this.#reader.push(head);
  }

  /** Ends the exchange and lets the bridge go, after what has been written. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearTimeout(this.#linger);
    this.#reader.stop();
    void this.#channel.close();
    this.#options.link.end();
    this.#socket.end(() => this.#socket.destroy());
  }

  /** Ends the exchange, whatever has not been read. */
  cut(): void {
    this.end();
    this.#socket.destroy();
  }

  #lose(reason: unknown): void {
    if (reason instanceof McpvalsError && !this.#isEnded) this.#options.onLost(reason);
    this.end();
  }

  #agentIsDone(): void {
    this.#reader.end();
    if (this.#waiting.size === 0) this.end();
    else this.#linger = setTimeout(() => this.end(), lingerMs);
  }

  #fromAgent(line: Buffer): void {
    const excess = jsonExcess(line, { levels: deepestMessage });
    if (excess !== undefined) {
      const error = { code: -32600, message: `the message is too ${excess} to be read` };
      this.#socket.write(`${JSON.stringify({ jsonrpc: "2.0", id: null, error })}\n`);
      return;
    }
    // What is no message goes nowhere, as with any server: there is nothing to answer to. Bytes that are no UTF-8 become
    // characters that say so, here and for the server.
    for (const wire of wiresOf(readBody(line.toString("utf8")))) this.#pass(wire);
  }

  #pass(wire: WireMessage): void {
    const request = requestOf(wire.message);
    if (request !== undefined) this.#waiting.add(request.id);
    this.#unsent += 1;
    if (this.#unsent >= mostUnsent) this.#socket.pause();
    const passing = this.#options.link.fromAgent(wire, (passage) => {
      if (passage.kind === "pass") return this.#channel.send(passage.wire);
      if (passage.kind === "answer") this.#write(passage.wire);
      else if (passage.kind === "disconnect") this.end();
    });
    passing
      .catch((error: unknown) => this.#lose(error))
      .finally(() => {
        this.#unsent -= 1;
        if (this.#unsent < mostUnsent) this.#socket.resume();
      });
  }

  #fromServer(wire: WireMessage): void {
    const passing = this.#options.link.fromServer(wire, (passage) => {
      if (passage.kind === "pass" || passage.kind === "answer") this.#write(passage.wire);
      else if (passage.kind === "disconnect") this.end();
    });
    passing.catch(() => this.end());
  }

  #write(wire: WireMessage): void {
    this.#options.link.delivers(wire);
    this.#socket.write(`${wire.text}\n`);
    const id = answeredId(wire.message);
    if (id !== undefined) this.#waiting.delete(id);
    if (this.#linger !== undefined && this.#waiting.size === 0) this.end();
  }
}
