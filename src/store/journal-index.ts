import type { TraceEvent } from "../model/event.ts";
import { type KnownLine, parseStored, readStored } from "./journal.ts";
import { corrupt, JournalFile, journalSize, linesOf } from "./journal-file.ts";

/** Bytes of a line that are looked at to find its stamp: ids and names of types are short. */
const headBytes = 300;

/**
 * Where the events of each trial are in a journal that may still grow, so that one trial can be read without the others. The index is
 * made of the stamps, which need no parsing; a line is checked when its event is read. What is not in the index yet is searched for
 * the name of the trial, which takes a tenth of the time that it takes to put everything into the index.
 */
export class JournalIndex {
  readonly #folder: string;
  /** Begin and end of each range of bytes, by trial; adjacent lines of a trial are one range. */
  readonly #ranges = new Map<string, number[]>();
  /** Trials with an event that their execution ended, or that they were graded. */
  readonly #ended = new Set<string>();
  /** Behind the last complete line. */
  #end = 0;
  #line = 0;
  /** The trial of the last line, and where it was noted as one that has grown. */
  #last: { readonly trial?: string; readonly ranges: number[]; added?: Set<string> } = { ranges: [] };

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Number of bytes at which the events of a trial end; 0 when it has none. It grows with each of them. */
  endOf(trial: string): number {
    return this.#ranges.get(trial)?.at(-1) ?? 0;
  }

  /** Whether an event says that the execution of a trial ended, or that it was graded. */
  hasEnd(trial: string): boolean {
    return this.#ended.has(trial);
  }

  /**
   * Takes what was added to the journal, and says which trials it concerns. The next call goes on where this one ended. Throws `store/corrupt` for a journal that cannot be read, and for a line that is not an event.
   */
  extend(): ReadonlySet<string> {
    const added = new Set<string>();
    if (journalSize(this.#folder) <= this.#end) return added;
    using file = new JournalFile(this.#folder);
    for (const bytes of file.wholeLines(this.#end)) this.#addLines(bytes, added);
    return added;
  }

  /** The events of a trial. Throws `store/corrupt`. */
  events(trial: string): TraceEvent[] {
    return this.#lines(trial)
      .map(({ bytes, ...known }) => readStored(this.#folder, bytes, known).event)
      .filter((event) => event.trial === trial);
  }

  /** One event of a trial; undefined when it has none of that number. Throws `store/corrupt`. */
  event(trial: string, seq: number): TraceEvent | undefined {
    for (const { bytes } of this.#lines(trial)) {
      const [, number] = numberFirst.exec(bytes.toString("latin1", 0, headBytes)) ?? [];
      if (number !== undefined && Number(number) !== seq) continue;
      const { event } = readStored(this.#folder, bytes);
      if (event.seq === seq && event.trial === trial) return event;
    }
    return undefined;
  }

  /** The lines of a trial, and some that name it elsewhere. */
  #lines(trial: string): TrialLine[] {
    const ranges = this.#ranges.get(trial) ?? [];
    const lines: TrialLine[] = [];
    // It is written after the other files of a run.
    if (journalSize(this.#folder) === 0) return lines;
    using file = new JournalFile(this.#folder);
    for (let index = 0; index < ranges.length; index += 2) {
      const [from = 0, to = 0] = ranges.slice(index, index + 2);
      for (const bytes of file.wholeLines(from, to))
        for (const { start, end, stamp, text } of linesOf(bytes))
          lines.push({ bytes: bytes.subarray(start, end), stamp, text });
    }
    const name = Buffer.from(`"trial":${JSON.stringify(trial)}`);
    for (const bytes of file.wholeLines(this.#end)) {
      for (let at = bytes.indexOf(name); at !== -1;) {
        const end = bytes.indexOf("\n", at);
        // A copy, since a part keeps all of the bytes in memory.
        lines.push({ bytes: Buffer.from(bytes.subarray(bytes.lastIndexOf("\n", at) + 1, end)) });
        at = bytes.indexOf(name, end);
      }
    }
    return lines;
  }

  #addLines(bytes: Buffer, added: Set<string>): void {
    for (const { start, end, stamp } of linesOf(bytes)) {
      this.#line += 1;
      if (stamp !== undefined) this.#add(stamp.trial, stamp.ends, end + 1 - start, added);
      else {
        const event = eventIn(bytes.subarray(start, end));
        if (event === undefined) throw corrupt(this.#folder, this.#line);
        const ended = event.type === "trial.finished" || event.type === "trial.graded";
        this.#add(event.trial, ended, end + 1 - start, added);
      }
    }
  }

  #add(trial: string, ended: boolean, length: number, added: Set<string>): void {
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
    if (ended) this.#ended.add(trial);
    if (this.#last.added === added) return;
    added.add(trial);
    this.#last.added = added;
  }
}

/** A line that names a trial, with what is known of it. */
interface TrialLine extends KnownLine {
  readonly bytes: Buffer;
}

const numberFirst = /^\{"crc":"[0-9a-f]{8}","event":\{"seq":(\d+),"at"/;

/** The event of a line, unchecked; undefined for a line that is none. */
function eventIn(line: Buffer): TraceEvent | undefined {
  try {
    const { event } = parseStored(line) as { readonly event: Partial<TraceEvent> };
    const isEvent =
      typeof event.seq === "number" && typeof event.trial === "string" && event.type !== undefined;
    return isEvent ? (event as TraceEvent) : undefined;
  } catch {
    return undefined;
  }
}
