import type { Readable, Writable } from "node:stream";
import { McpvalsError } from "../../core/errors/error.ts";
import { jsonExcess } from "../../core/formats/read-json.ts";
import { deepestMessage, mayBeMessage, parseMessage } from "../json-rpc.ts";
import { excessive } from "../recording.ts";
import type { WireMessage } from "../wire.ts";
import { LineReader } from "../../process/line-reader.ts";

export interface MessagePipeOptions {
  /** Name of the server, for messages. */
  readonly server: string;
  /** Largest message accepted, in bytes. */
  readonly maxMessageBytes: number;
  readonly onMessage: (wire: WireMessage) => void;
  /** Gets every line on stdout that is not a message. */
  readonly onInvalidLine: (line: Buffer) => void;
  /** Called once when the server broke the rules so badly that nothing more can be read. */
  readonly onBroken: (error: McpvalsError) => void;
}

/** MCP over the pipes of a process: one JSON-RPC message a line. It does not own the process; closing it only ends the talk. */
export class MessagePipe {
  readonly #stdin: Writable;
  readonly #stdout: Readable;
  readonly #reader: LineReader;
  readonly #options: MessagePipeOptions;
  readonly #closing = new AbortController();
  #started = false;
  /** Settles when stdin takes more again; shared by everyone who waits. */
  #drained: Promise<void> | undefined;

  constructor(stdin: Writable, stdout: Readable, options: MessagePipeOptions) {
    this.#stdin = stdin;
    this.#stdout = stdout;
    this.#options = options;
    this.#reader = new LineReader({
      limit: options.maxMessageBytes,
      onLine: (line) => this.#receive(line),
      onTooLong: () => this.#refuse(),
    });
  }

  get closed(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Begins to read, once somebody listens; calling it again does nothing. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#stdout.on("data", (chunk: Buffer) => this.#reader.push(chunk));
    this.#stdout.once("end", () => this.#reader.end());
  }

  /**
   * Writes a message in one line; settles when it was handed to the pipe. Waits while the server reads too slowly, and on
   * a broken pipe until this is closed, since only the owner of the process can tell what has happened.
   */
  send(text: string): Promise<void> {
    const accepted = this.#stdin.writable && this.#stdin.write(`${inOneLine(text)}\n`);
    return accepted ? Promise.resolve() : this.#drain();
  }

  close(): void {
    this.#closing.abort();
    this.#reader.stop();
  }

  #drain(): Promise<void> {
    this.#drained ??= new Promise<void>((resolve) => {
      const done = (): void => {
        this.#drained = undefined;
        this.#stdin.off("drain", done);
        this.#closing.signal.removeEventListener("abort", done);
        resolve();
      };
      if (this.closed) return done();
      this.#stdin.once("drain", done);
      this.#closing.signal.addEventListener("abort", done);
    });
    return this.#drained;
  }

  #receive(line: Buffer): void {
    if (line.length === 0 || this.closed) return;
    const excess = jsonExcess(line, { levels: deepestMessage });
    if (excess !== undefined && mayBeMessage(line)) {
      this.#options.onBroken(excessive(this.#options.server, excess));
      return;
    }
    const parsed = parseMessage(line);
    if (parsed !== undefined) this.#options.onMessage(parsed);
    else if (line.some(isVisible)) this.#options.onInvalidLine(line);
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

/** A line break in a JSON text stands between its parts, never in a string, so that a space says the same. */
function inOneLine(text: string): string {
  return /[\r\n]/.test(text) ? text.replaceAll(/[\r\n]/g, " ") : text;
}

function isVisible(byte: number): boolean {
  return byte !== 0x20 && byte !== 0x09;
}
