import { closeSync, openSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { McpvalsError, messageOf } from "../core/errors/error.ts";
import type { TraceEvent } from "../core/trace/events.ts";
import { corrupt, largestPart, linesOf, ReadBudget, readStored } from "./journal.ts";

const chunkBytes = 4 * 1024 * 1024;
/** Bytes of a line that are looked at to find its stamp: ids and names of types are short. */
const headBytes = 300;

/** What the lines that were added to a journal say of one trial. */
export interface TrialProgress {
  /** Its execution has ended, or it was graded, in these lines. */
  readonly ended: boolean;
}

/**
 * Where the events of each trial are in a journal that may still grow, so that one trial can be read without the others. The index is
 * made of the stamps, which need no parsing; a line is checked when its event is read.
 */
export class JournalIndex {
  readonly #folder: string;
  readonly #file: string;
  /** Begin and end of each range of bytes, by trial; adjacent lines of a trial are one range. */
  readonly #ranges = new Map<string, number[]>();
  /** Behind the last complete line. */
  #end = 0;
  #line = 0;

  constructor(folder: string) {
    this.#folder = folder;
    this.#file = join(folder, "journal.jsonl");
  }

  /** Bytes of the journal that are in the index. */
  get bytes(): number {
    return this.#end;
  }

  /** Number of bytes at which the events of a trial end; 0 when it has none. It grows with each of them. */
  endOf(trial: string): number {
    return this.#ranges.get(trial)?.at(-1) ?? 0;
  }

  /**
   * Takes what was added to the journal, at most about `most` bytes, and says which trials it concerns. Nothing is lost: the next call
   * goes on where this one ended. Throws `store/corrupt` for a journal that is missing, and for a line without a stamp.
   */
  extend(most = Infinity): ReadonlyMap<string, TrialProgress> {
    const added = new Map<string, TrialProgress>();
    const until = Math.min(this.#size(), this.#end + most);
    if (until <= this.#end) return added;
    this.#open((read) => {
      let chunk = chunkBytes;
      while (this.#end < until) {
        const bytes = read(this.#end, chunk);
        const lines = linesOf(bytes).slice(0, -1);
        for (const line of lines) this.#add(line, added);
        if (lines.length > 0) continue;
        // A line longer than the chunk, or the incomplete last one.
        if (bytes.length < chunk) break;
        if (chunk > largestPart) throw corrupt({ file: this.#file, line: this.#line + 1 });
        chunk *= 2;
      }
    });
    return added;
  }

  /** The events of a trial, as far as the index has them. Throws `store/corrupt`. */
  events(trial: string): TraceEvent[] {
    const budget = new ReadBudget();
    const lines = this.#lines(trial);
    return lines.map((line) => readStored(this.#folder, line, { file: this.#file }, budget).event);
  }

  /** One event of a trial; undefined when it has none of that number. Throws `store/corrupt`. */
  event(trial: string, seq: number): TraceEvent | undefined {
    const budget = new ReadBudget();
    for (const line of this.#lines(trial)) {
      const stamp = stampOf(line);
      if (stamp?.seq !== undefined && stamp.seq !== seq) continue;
      const event = readStored(this.#folder, line, { file: this.#file }, budget).event;
      if (event.seq === seq) return event;
    }
    return undefined;
  }

  #lines(trial: string): Buffer[] {
    const ranges = this.#ranges.get(trial) ?? [];
    const lines: Buffer[] = [];
    this.#open((read) => {
      for (let index = 0; index < ranges.length; index += 2) {
        const [start = 0, end = 0] = ranges.slice(index, index + 2);
        for (const line of linesOf(read(start, end - start)).slice(0, -1)) lines.push(line);
      }
    });
    return lines;
  }

  #add(line: Buffer, added: Map<string, TrialProgress>): void {
    this.#line += 1;
    const stamp = stampOf(line);
    if (stamp === undefined) throw corrupt({ file: this.#file, line: this.#line });
    const { trial, type } = stamp;
    const start = this.#end;
    this.#end += line.length + 1;
    const ranges = this.#ranges.get(trial);
    if (ranges === undefined) this.#ranges.set(trial, [start, this.#end]);
    else if (ranges.at(-1) === start) ranges[ranges.length - 1] = this.#end;
    else ranges.push(start, this.#end);
    const ended = type === "trial.finished" || type === "trial.graded";
    if (ended || !added.has(trial)) added.set(trial, { ended: ended || added.get(trial)?.ended === true });
  }

  #size(): number {
    try {
      const stats = statSync(this.#file);
      // Reading a pipe could block forever.
      if (stats.isFile()) return stats.size;
      throw new Error("it is not a regular file");
    } catch (cause) {
      throw this.#unreadable(cause);
    }
  }

  /** Calls back with a function that reads bytes at a position: fewer at the end of the file. */
  #open(use: (read: (position: number, length: number) => Buffer) => void): void {
    let file: number;
    try {
      file = openSync(this.#file, "r");
    } catch (cause) {
      throw this.#unreadable(cause);
    }
    try {
      use((position, length) => {
        const bytes = Buffer.allocUnsafe(length);
        let filled = 0;
        while (filled < length) {
          const count = readSync(file, bytes, filled, length - filled, position + filled);
          if (count === 0) break;
          filled += count;
        }
        return bytes.subarray(0, filled);
      });
    } finally {
      closeSync(file);
    }
  }

  #unreadable(cause: unknown): McpvalsError {
    return new McpvalsError("store/corrupt", `the journal of the run cannot be read: ${messageOf(cause)}`, {
      cause,
    });
  }
}

interface Stamp {
  readonly trial: string;
  readonly seq: number;
  readonly type: string;
}

/** Events are written with their stamp first, but for those of which a secret was removed. */
const stampFirst =
  /^\{"crc":"[0-9a-f]{8}","event":\{"seq":(\d+),"at":[\d.e+-]+,"trial":"([^"\\]*)","type":"([^"\\]*)"/;

/** Who and what an event is about; undefined for a line that is none. */
function stampOf(line: Buffer): Stamp | undefined {
  const [, seq, trial, type] = stampFirst.exec(line.toString("latin1", 0, headBytes)) ?? [];
  if (seq !== undefined && trial !== undefined && type !== undefined && /^[ -~]*$/.test(trial))
    return { seq: Number(seq), trial, type };
  try {
    const { event } = new ReadBudget().parse(line) as { readonly event: Partial<TraceEvent> };
    const { seq: number, trial: id, type: name } = event;
    if (typeof number !== "number" || typeof id !== "string" || typeof name !== "string") return undefined;
    return { seq: number, trial: id, type: name };
  } catch {
    return undefined;
  }
}
