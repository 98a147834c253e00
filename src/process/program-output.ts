import { maxCheckedBytes } from "../base/limits.ts";
import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { setImmediate as turn } from "node:timers/promises";
import { settlesWithin, untilAborted } from "./deadline.ts";
import { closed } from "./process-tree.ts";
import type { ManagedProcess, ProcessExit } from "./spawn.ts";

/** Maximum number of turns of the event loop for reading data that has arrived. */
const readTurns = 16;

interface Streams {
  readonly stdout: Readable;
  readonly stderr: Readable;
}

type StreamName = keyof Streams;

/** What a program wrote on one stream. */
export interface KeptText {
  /** UTF-8; invalid bytes are replaced. */
  readonly text: string;
  /** Number of bytes dropped after the limit. */
  readonly omitted: number;
}

/** Collects the output of a program, each stream up to a limit, until it is stopped. */
export class ProgramOutput {
  readonly #limit: number;
  /** In order of arrival. */
  readonly #pieces: { readonly from: StreamName; readonly text: string }[] = [];
  readonly #counts = { stdout: 0, stderr: 0 };
  readonly #decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  readonly #detach: (() => unknown)[] = [];
  #ended: Promise<unknown> = Promise.resolve();

  /** `limit`: bytes of each stream. */
  constructor(limit: number = maxCheckedBytes) {
    this.#limit = limit;
  }

  /** Starts reading. Call it once, before anything reads the streams. */
  attach({ stdout, stderr }: Streams): void {
    this.#listen("stdout", stdout);
    this.#listen("stderr", stderr);
    this.#ended = Promise.all([closed(stdout), closed(stderr)]);
  }

  /** Waits until both streams have ended, or `ms` milliseconds have passed and all data that had arrived is read. */
  async settle(ms: number): Promise<void> {
    if (await settlesWithin(this.#ended, ms)) return;
    // In a busy process the timer can fire before the first read.
    for (let round = 0, seen = -1; round < readTurns && seen !== this.#total; round += 1) {
      seen = this.#total;
      await turn();
    }
  }

  /** Drops all later data. The streams are still drained, since their writers would block otherwise. */
  stop(): void {
    for (const detach of this.#detach.splice(0)) detach();
    for (const from of ["stdout", "stderr"] as const) {
      if (this.#counts[from] <= this.#limit) this.#keep(from, this.#decoders[from].end());
    }
  }

  get stdout(): KeptText {
    return this.#kept("stdout");
  }

  get stderr(): KeptText {
    return this.#kept("stderr");
  }

  /** The text of both streams in order of arrival. */
  get together(): string {
    return this.#pieces.map(({ text }) => text).join("");
  }

  get #total(): number {
    return this.#counts.stdout + this.#counts.stderr;
  }

  #listen(from: StreamName, stream: Readable): void {
    const take = (chunk: Buffer): void => {
      const room = Math.max(0, this.#limit - this.#counts[from]);
      this.#counts[from] += chunk.length;
      if (room > 0) this.#keep(from, this.#decoders[from].write(chunk.subarray(0, room)));
    };
    stream.on("data", take);
    // Without a listener, a stream still flows.
    this.#detach.push(() => stream.off("data", take));
  }

  #keep(from: StreamName, text: string): void {
    if (text !== "") this.#pieces.push({ from, text });
  }

  #kept(from: StreamName): KeptText {
    const text = this.#pieces
      .filter((piece) => piece.from === from)
      .map((piece) => piece.text)
      .join("");
    return { text, omitted: Math.max(0, this.#counts[from] - this.#limit) };
  }
}

/** Default length of the end of a text, in characters. */
const defaultTailLength = 2000;

/** The end of a text, without the line ends after it. */
export function tailOf(text: string, characters: number = defaultTailLength): string {
  const trimmed = text.trimEnd();
  return trimmed.length <= characters ? trimmed : `…${trimmed.slice(-characters)}`;
}

/** The ends of a program's output, as the detail of an error; absent without output. */
export function outputDetails(output: Readonly<Record<StreamName, KeptText>>): { readonly detail?: string } {
  const streams = ["stdout", "stderr"] as const;
  const tails = streams.map((stream) => [stream, tailOf(output[stream].text)] as const);
  const parts = tails.flatMap(([stream, tail]) => (tail === "" ? [] : [`${stream}:\n${tail}`]));
  return parts.length === 0 ? {} : { detail: parts.join("\n") };
}

/** Length of the tail kept for error messages, in bytes. */
const tailLength = 4096;

/** Keeps the end of a program's output. */
export class TextTail {
  #bytes: Buffer = Buffer.alloc(0);
  #isCut = false;

  /**
   * The complete lines of the last 4 KiB, or the complete words of a single line, so that redaction never sees half a secret;
   * undefined when empty.
   */
  get text(): string | undefined {
    let text = this.#bytes.toString("utf8").trimEnd();
    if (this.#isCut) text = text.includes("\n") ? text.replace(/^.*\n/, "") : text.replace(/^\S*/, "…");
    return text.trim() || undefined;
  }

  push(chunk: Buffer): void {
    this.#isCut ||= this.#bytes.length + chunk.length > tailLength;
    const last = chunk.subarray(-tailLength);
    this.#bytes = Buffer.concat([this.#bytes.subarray(last.length - tailLength), last]).subarray(-tailLength);
  }
}

/** Recording limit of one stream, in bytes. */
const recordedLimit = 256 * 1024;
const newline = 0x0a;

/** Passes on program output in complete lines, so that redaction never sees half a secret. After a limit it only counts bytes. */
export class WholeLines {
  readonly #give: (text: string) => void;
  #taken = 0;
  #omitted = 0;
  readonly #unfinished = new ByteStore();

  /** `give` gets one or more lines at a time, never an empty text. */
  constructor(give: (text: string) => void) {
    this.#give = give;
  }

  push(chunk: Buffer): void {
    const taken = chunk.subarray(0, recordedLimit - this.#taken);
    this.#taken += taken.length;
    this.#omitted += chunk.length - taken.length;
    const end = taken.lastIndexOf(newline) + 1;
    this.#unfinished.push(taken.subarray(0, end));
    if (end > 0) this.flush();
    this.#unfinished.push(taken.subarray(end));
    if (taken.length === chunk.length) return;
    // The line that the limit cuts is dropped completely.
    this.#omitted += this.#unfinished.length;
    this.#unfinished.clear();
  }

  /** Passes on an unfinished line. */
  flush(): void {
    if (this.#unfinished.length > 0) this.#give(this.#unfinished.take().toString("utf8"));
  }

  /** Passes on the rest; returns the number of bytes dropped since the last call. */
  finish(): number {
    this.flush();
    const omitted = this.#omitted;
    this.#omitted = 0;
    return omitted;
  }
}

const minCapacity = 1024;

/** Collects bytes in one buffer: ten million separate pieces of one byte would take a gigabyte. */
export class ByteStore {
  #bytes: Buffer = Buffer.alloc(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(piece: Uint8Array): void {
    const length = this.#length + piece.length;
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(length, this.#bytes.length * 2, minCapacity));
      larger.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = larger;
    }
    this.#bytes.set(piece, this.#length);
    this.#length = length;
  }

  /** Gives all bytes and forgets them. */
  take(): Buffer {
    const all = this.#bytes.subarray(0, this.#length);
    this.clear();
    return all;
  }

  clear(): void {
    this.#bytes = Buffer.alloc(0);
    this.#length = 0;
  }
}

const carriageReturn = 0x0d;

export interface LineReaderOptions {
  /** Maximum length of a line, in bytes. */
  readonly limit: number;
  readonly onLine: (line: Buffer) => void;
  /** Called once, for a line over the limit; later data is ignored. */
  readonly onTooLong: () => void;
}

/** Splits a byte stream into lines without line ends; buffers at most `limit` bytes of an unfinished line. */
export class LineReader {
  readonly #options: LineReaderOptions;
  readonly #unfinished = new ByteStore();
  #stopped = false;

  constructor(options: LineReaderOptions) {
    this.#options = options;
  }

  push(chunk: Buffer): void {
    let start = 0;
    while (!this.#stopped) {
      const end = chunk.indexOf(newline, start);
      const piece = chunk.subarray(start, end === -1 ? undefined : end);
      if (this.#unfinished.length + piece.length > this.#options.limit) {
        this.stop();
        this.#options.onTooLong();
      } else if (end === -1) {
        this.#unfinished.push(piece);
        return;
      } else {
        this.#finish(piece);
        start = end + 1;
      }
    }
  }

  /** Passes on the last line if it has no line end. */
  end(): void {
    if (!this.#stopped && this.#unfinished.length > 0) this.#finish(Buffer.alloc(0));
    this.stop();
  }

  stop(): void {
    this.#stopped = true;
    this.#unfinished.clear();
  }

  #finish(piece: Buffer): void {
    let line = piece;
    if (this.#unfinished.length > 0) {
      this.#unfinished.push(piece);
      line = this.#unfinished.take();
    }
    this.#options.onLine(line.at(-1) === carriageReturn ? line.subarray(0, -1) : line);
  }
}

/** How long output of background processes is read after the program's end, in milliseconds. */
const drainMs = 200;
/** Time between SIGTERM and SIGKILL, in milliseconds. */
const termMs = 200;

export interface RunToEndOptions {
  readonly output: ProgramOutput;
  readonly stdin: string;
  /** Kills it with everything that it started; its reason is then thrown. */
  readonly signal: AbortSignal;
  /** Takes charge of a program that has ended and left processes running. Default: they are killed. */
  readonly adopt?: (child: ManagedProcess) => void;
}

/** Waits until a program that was just started ends by itself. */
export async function runToEnd(
  child: ManagedProcess,
  { output, stdin, signal, adopt }: RunToEndOptions,
): Promise<ProcessExit> {
  try {
    output.attach(child);
    child.stdin.end(stdin);
    const exit = await untilAborted(child.exited, signal);
    await untilAborted(output.settle(drainMs), signal);
    output.stop();
    if (await child.release()) return exit;
    if (adopt === undefined) await child.stop({ stdinMs: 0, termMs });
    else adopt(child);
    return exit;
  } catch (error) {
    await child.stop({ stdinMs: 0, termMs });
    throw error;
  }
}
