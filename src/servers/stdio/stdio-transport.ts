import type { Readable, Writable } from "node:stream";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { McpvalsError } from "../../core/errors/error.ts";
import { parseMessage } from "../json-rpc.ts";
import { LineReader } from "./line-reader.ts";

export interface StdioTransportOptions {
  /** Name of the server, for messages. */
  readonly server: string;
  /** Largest message accepted, in bytes. */
  readonly maxMessageBytes: number;
  /** Gets every line on stdout that is not a message. */
  readonly onInvalidLine: (line: Buffer) => void;
  /** Called once when the server broke the rules so badly that nothing more can be read. */
  readonly onBroken: (error: McpvalsError) => void;
}

/** MCP over the pipes of a process: one JSON-RPC message a line. It does not own the process; closing it only ends the talk. */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #stdin: Writable;
  readonly #stdout: Readable;
  readonly #reader: LineReader;
  readonly #options: StdioTransportOptions;
  readonly #texts = new WeakMap<JSONRPCMessage, string>();
  readonly #closing = new AbortController();
  /** Settles when stdin takes more again; shared by everyone who waits. */
  #drained: Promise<void> | undefined;

  constructor(stdin: Writable, stdout: Readable, options: StdioTransportOptions) {
    this.#stdin = stdin;
    this.#stdout = stdout;
    this.#options = options;
    this.#reader = new LineReader({
      limit: options.maxMessageBytes,
      onLine: (line) => this.#receive(line),
      onTooLong: () => this.#refuse(),
    });
  }

  start(): Promise<void> {
    this.#stdout.on("data", (chunk: Buffer) => this.#reader.push(chunk));
    this.#stdout.once("end", () => this.#reader.end());
    return Promise.resolve();
  }

  /**
   * Settles when the message was handed to the pipe. Waits while the server reads too slowly, and on a broken pipe until
   * the transport is closed, since only the owner of the process can tell what has happened.
   */
  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#closing.signal.aborted)
      throw new Error(`the talk with server "${this.#options.server}" has ended`);
    const accepted = this.#stdin.writable && this.#stdin.write(`${JSON.stringify(message)}\n`);
    if (!accepted) await this.#drain();
  }

  close(): Promise<void> {
    if (!this.#closing.signal.aborted) {
      this.#closing.abort();
      this.#reader.stop();
      this.onclose?.();
    }
    return Promise.resolve();
  }

  /** The line that a received message was read from, if writing the message again would not give the same text. */
  rawText(message: JSONRPCMessage): string | undefined {
    const text = this.#texts.get(message);
    return text === JSON.stringify(message) ? undefined : text;
  }

  #drain(): Promise<void> {
    this.#drained ??= new Promise<void>((resolve) => {
      const done = (): void => {
        this.#drained = undefined;
        this.#stdin.off("drain", done);
        this.#closing.signal.removeEventListener("abort", done);
        resolve();
      };
      this.#stdin.once("drain", done);
      this.#closing.signal.addEventListener("abort", done);
    });
    return this.#drained;
  }

  #receive(line: Buffer): void {
    if (line.length === 0) return;
    const parsed = parseMessage(line);
    if (parsed === undefined) {
      if (line.some(isVisible)) this.#options.onInvalidLine(line);
      return;
    }
    const { message, text } = parsed;
    this.#texts.set(message, text);
    this.onmessage?.(message);
  }

  #refuse(): void {
    const { server, maxMessageBytes, onBroken } = this.#options;
    onBroken(
      new McpvalsError(
        "server/message-too-large",
        `server "${server}" sent a message of more than ${maxMessageBytes} bytes`,
        { hint: "Answer with less, or raise maxMessageBytes for that server." },
      ),
    );
  }
}

function isVisible(byte: number): boolean {
  return byte !== 0x20 && byte !== 0x09;
}
