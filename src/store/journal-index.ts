import { closeSync, openSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { McpvalsError, messageOf } from "../core/errors/error.ts";
import type { TraceEvent } from "../core/trace/events.ts";
import { corrupt, largestPart, linesOf, ReadBudget, readStored } from "./journal.ts";

const chunkBytes = 4 * 1024 * 1024;
const lineBreak = 0x0a;
/** Bytes of a line that are looked at to find its stamp: ids and names of types are short. */
const headBytes = 300;

/** What the lines that were added to a journal say of one trial. */
export interface TrialProgress {
  /** Its execution has ended, or it was graded, in these lines. */
  readonly ended: boolean;
}

/**
 * Where the events of each trial are in a journal that may still grow, so that one trial can be read without the others. The index is
 * made of the stamps, which need no parsing; a line is checked when its event is read. What is not in the index yet is searched for
 * the name of the trial, which takes a tenth of the time that it takes to put everything into the index.
 */
export class JournalIndex {
  readonly #folder: string;
  readonly #file: string;
  /** Begin and end of each range of bytes, by trial; adjacent lines of a trial are one range. */
  readonly #ranges = new Map<string, number[]>();
  /** Behind the last complete line. */
  #end = 0;
  #line = 0;
  /** The trial of the last line, and where it was noted as one that has grown. */
  #last: { readonly trial?: string; readonly ranges: number[]; added?: Map<string, TrialProgress> } = {
    ranges: [],
  };

  constructor(folder: string) {
    this.#folder = folder;
    this.#file = join(folder, "journal.jsonl");
  }

  /** Number of bytes at which the events of a trial end; 0 when it has none. It grows with each of them. */
  endOf(trial: string): number {
    return this.#ranges.get(trial)?.at(-1) ?? 0;
  }

  /**
   * Takes what was added to the journal, and says which trials it concerns. The next call goes on where this one ended. Throws `store/corrupt` for a journal that cannot be read, and for a line that is no event.
   */
  extend(): ReadonlyMap<string, TrialProgress> {
    const added = new Map<string, TrialProgress>();
    if (this.#size() <= this.#end) return added;
    this.#open((read) => {
      for (const bytes of this.#wholeLines(read, this.#end)) this.#addLines(bytes, added);
    });
    return added;
  }

  /** The events of a trial. Throws `store/corrupt`. */
  events(trial: string): TraceEvent[] {
    const budget = new ReadBudget();
    return this.#lines(trial)
      .map((line) => readStored(this.#folder, line, { file: this.#file }, budget).event)
      .filter((event) => event.trial === trial);
  }

  /** One event of a trial; undefined when it has none of that number. Throws `store/corrupt`. */
  event(trial: string, seq: number): TraceEvent | undefined {
    const budget = new ReadBudget();
    for (const line of this.#lines(trial)) {
      const [, number] = numberFirst.exec(line.toString("latin1", 0, headBytes)) ?? [];
      if (number !== undefined && Number(number) !== seq) continue;
      const { event } = readStored(this.#folder, line, { file: this.#file }, budget);
      if (event.seq === seq && event.trial === trial) return event;
    }
    return undefined;
  }

  /** The lines of a trial, and some that name it elsewhere. */
  #lines(trial: string): Buffer[] {
    const ranges = this.#ranges.get(trial) ?? [];
    const lines: Buffer[] = [];
    if (this.#size() === 0) return lines;
    this.#open((read) => {
      for (let index = 0; index < ranges.length; index += 2) {
        const [start = 0, end = 0] = ranges.slice(index, index + 2);
        for (const line of linesOf(read(start, end - start)).slice(0, -1)) lines.push(line);
      }
      const name = Buffer.from(`"trial":${JSON.stringify(trial)}`);
      for (const bytes of this.#wholeLines(read, this.#end)) {
        for (let at = bytes.indexOf(name); at !== -1;) {
          const end = bytes.indexOf(lineBreak, at);
          // A copy, since a part keeps all of the bytes in memory.
          lines.push(Buffer.from(bytes.subarray(bytes.lastIndexOf(lineBreak, at) + 1, end)));
          at = bytes.indexOf(name, end);
        }
      }
    });
    return lines;
  }

  /** What the file has from a position on, in pieces of whole lines. */
  *#wholeLines(read: (position: number, length: number) => Buffer, from: number): Generator<Buffer> {
    let position = from;
    let length = chunkBytes;
    for (;;) {
      const bytes = read(position, length);
      const whole = bytes.subarray(0, bytes.lastIndexOf(lineBreak) + 1);
      if (whole.length > 0) yield whole;
      // The end of the file, where a line may be incomplete.
      else if (bytes.length < length) return;
      else if (length > largestPart) throw corrupt({ file: this.#file });
      // A line longer than the piece.
      else length *= 2;
      position += whole.length;
    }
  }

  /** One text of all lines, in which a character is a byte: a hundred megabytes have a million lines. */
  #addLines(bytes: Buffer, added: Map<string, TrialProgress>): void {
    const text = bytes.toString("latin1");
    let start = 0;
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", start)) {
      this.#line += 1;
      stampFirst.lastIndex = start;
      const found = stampFirst.exec(text);
      if (found !== null) this.#add(found[1] ?? "", found[2] !== undefined, end + 1 - start, added);
      else {
        const event = eventIn(bytes.subarray(start, end));
        if (event === undefined) throw corrupt({ file: this.#file, line: this.#line });
        const ended = event.type === "trial.finished" || event.type === "trial.graded";
        this.#add(event.trial, ended, end + 1 - start, added);
      }
      start = end + 1;
    }
  }

  #add(trial: string, ended: boolean, length: number, added: Map<string, TrialProgress>): void {
    const start = this.#end;
    this.#end += length;
    // Most lines are of the same trial as the one before.
    if (trial !== this.#last.trial) {
      const ranges = this.#ranges.get(trial) ?? [];
      this.#ranges.set(trial, ranges);
      this.#last = { trial, ranges };
    }
    const { ranges } = this.#last;
    if (ranges.at(-1) === start) ranges[ranges.length - 1] = this.#end;
    else ranges.push(start, this.#end);
    if (ended || this.#last.added !== added) {
      added.set(trial, { ended: ended || added.get(trial)?.ended === true });
      this.#last.added = added;
    }
  }

  #size(): number {
    try {
      const stats = statSync(this.#file, { throwIfNoEntry: false });
      // It is written after the other files of a run.
      if (stats === undefined) return 0;
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

/** Events are written with their stamp first, but for those of which a secret was removed. Ids of trials are plain words. */
const stampFirst =
  /\{"crc":"[0-9a-f]{8}","event":\{"seq":\d+,"at":[\d.e+-]+,"trial":"([\w-]+)","type":(?:"(trial\.(?:finished|graded))")?/y;
const numberFirst = /^\{"crc":"[0-9a-f]{8}","event":\{"seq":(\d+),"at"/;

/** The event of a line, unchecked; undefined for a line that is none. */
function eventIn(line: Buffer): TraceEvent | undefined {
  try {
    const { event } = new ReadBudget().parse(line) as { readonly event: Partial<TraceEvent> };
    const isEvent =
      typeof event.seq === "number" && typeof event.trial === "string" && event.type !== undefined;
    return isEvent ? (event as TraceEvent) : undefined;
  } catch {
    return undefined;
  }
}
