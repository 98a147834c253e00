import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { setImmediate as turn } from "node:timers/promises";
import { settlesWithin } from "./deadline.ts";
import { closed } from "./stop-tree.ts";

/** Kept of each stream, in bytes. */
const defaultLimit = 10_000_000;
/** Turns of the event loop that reading what is there already may take. */
const readTurns = 16;

interface Streams {
  readonly stdout: Readable;
  readonly stderr: Readable;
}

type StreamName = keyof Streams;

/** What a program wrote on one stream. */
export interface KeptText {
  /** UTF-8; what is none is replaced. */
  readonly text: string;
  /** Bytes over the limit, which were dropped; the text has the first ones. */
  readonly omitted: number;
}

/** Collects what a program writes, each stream up to a limit, until it is told to stop. */
export class ProgramOutput {
  readonly #limit: number;
  /** In the order in which they came. */
  readonly #pieces: { readonly from: StreamName; readonly text: string }[] = [];
  readonly #counts = { stdout: 0, stderr: 0 };
  readonly #decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  readonly #detach: (() => unknown)[] = [];
  #ended: Promise<unknown> = Promise.resolve();

  constructor(limit: number = defaultLimit) {
    this.#limit = limit;
  }

  /** Begins to read. To be called once, before anything was read. */
  attach({ stdout, stderr }: Streams): void {
    this.#listen("stdout", stdout);
    this.#listen("stderr", stderr);
    this.#ended = Promise.all([closed(stdout), closed(stderr)]);
  }

  /** Waits until both streams have ended, or `ms` milliseconds have passed and all that is there already was read. */
  async settle(ms: number): Promise<void> {
    if (await settlesWithin(this.#ended, ms)) return;
    // In a busy process the time can be up before anything was read.
    for (let round = 0, seen = -1; round < readTurns && seen !== this.#total; round += 1) {
      seen = this.#total;
      await turn();
    }
  }

  /** Keeps nothing from now on. Streams that go on are still read, since their writers would hang otherwise. */
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

  /** What both streams have, in the order in which it came. */
  get together(): string {
    return this.#pieces.map(({ text }) => text).join("");
  }

  get #total(): number {
    return this.#counts.stdout + this.#counts.stderr;
  }

  #listen(from: StreamName, stream: Readable): void {
    const take = (chunk: Buffer): void => this.#take(from, chunk);
    stream.on("data", take);
    // A stream goes on to flow when nobody listens any more.
    this.#detach.push(() => stream.off("data", take));
  }

  #take(from: StreamName, chunk: Buffer): void {
    const room = Math.max(0, this.#limit - this.#counts[from]);
    this.#counts[from] += chunk.length;
    if (room > 0) this.#keep(from, this.#decoders[from].write(chunk.subarray(0, room)));
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
