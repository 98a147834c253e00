import { maxPartBytes } from "../base/limits.ts";
import { isAscii } from "node:buffer";
import { closeSync, openSync, readSync, statSync, type Stats } from "node:fs";
import { join } from "node:path";
import { McpvalsError, messageOf } from "../base/error.ts";

const pieceBytes = 1024 * 1024;
const lineBreak = 0x0a;
const openBrace = 0x7b;

/** The file of a journal, opened for reading; it may still grow. */
export class JournalFile implements Disposable {
  readonly #folder: string;
  readonly #file: number;
  /** Whether the file ended within a line when it was read to its end. */
  isTorn = false;

  /** Throws `store/corrupt` when it cannot be read. */
  constructor(folder: string) {
    this.#folder = folder;
    try {
      sizeOf(statSync(pathIn(folder)));
      this.#file = openSync(pathIn(folder), "r");
    } catch (cause) {
      throw unreadable(cause);
    }
  }

  /** All whole lines from one position to another, in pieces of about a megabyte. Throws `store/corrupt` for a line that is too long. */
  *wholeLines(from = 0, to = Infinity): Generator<Buffer> {
    let position = from;
    let length = pieceBytes;
    while (position < to) {
      const bytes = this.#read(position, Math.min(length, to - position));
      const whole = bytes.subarray(0, bytes.lastIndexOf(lineBreak) + 1);
      if (whole.length > 0) {
        yield whole;
        position += whole.length;
        length = pieceBytes;
      } else if (bytes.length < length) {
        this.isTorn = bytes.length > 0;
        return;
      }
      // A line that is longer than what was read. Zeros that a full disk or a lost page left would be one of the whole file.
      else if (bytes[0] !== openBrace || length > maxPartBytes) throw corrupt(this.#folder);
      else length *= 2;
    }
  }

  /** The number of the line that begins at a position. */
  lineAt(position: number): number {
    let number = 1;
    for (const bytes of this.wholeLines(0, position))
      for (let at = bytes.indexOf(lineBreak); at !== -1; at = bytes.indexOf(lineBreak, at + 1)) number += 1;
    return number;
  }

  /** Fewer bytes at the end of the file. */
  #read(position: number, length: number): Buffer {
    const bytes = Buffer.allocUnsafeSlow(length);
    let filled = 0;
    while (filled < length) {
      const count = readSync(this.#file, bytes, filled, length - filled, position + filled);
      if (count === 0) break;
      filled += count;
    }
    return bytes.subarray(0, filled);
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
  }
}

/** Size of the journal of a run, in bytes; 0 when there is none. Throws `store/corrupt` for what is not a file. */
export function journalSize(folder: string): number {
  try {
    const stats = statSync(pathIn(folder), { throwIfNoEntry: false });
    return stats === undefined ? 0 : sizeOf(stats);
  } catch (cause) {
    throw unreadable(cause);
  }
}

/** Whether a journal is too large to look for all trials of a result in it whenever its run is shown. Throws `store/corrupt`. */
export function isLargeJournal(folder: string): boolean {
  return journalSize(folder) > 64 * 1024 * 1024;
}

/** In bytes: the last event of a trial is usually shorter. */
const tailBytes = 64 * 1024;

/**
 * Whether the journal ends with the end of a trial, as far as its last bytes show: that of a run which came to its end does. It takes as
 * long for a large journal as for a small one. Throws `store/corrupt` when it cannot be read.
 */
export function endsWithTrial(folder: string): boolean {
  using file = new JournalFile(folder);
  let last: Line | undefined;
  for (const bytes of file.wholeLines(Math.max(0, journalSize(folder) - tailBytes)))
    for (const line of linesOf(bytes)) last = line;
  return !file.isTorn && last?.stamp?.ends === true;
}

function pathIn(folder: string): string {
  return join(folder, "journal.jsonl");
}

/** Opening a pipe could block forever. */
function sizeOf(stats: Stats): number {
  if (stats.isFile()) return stats.size;
  throw new Error("it is not a regular file");
}

function unreadable(cause: unknown): McpvalsError {
  return new McpvalsError("store/corrupt", `the journal of the run cannot be read: ${messageOf(cause)}`, {
    cause,
  });
}

/** The error for a line that is not as it was written. */
export function corrupt(
  folder: string,
  line?: number,
  problem = "does not match its checksum",
  hint = "The file was changed or damaged after it was written; its totals would be wrong.",
): McpvalsError {
  const where = line === undefined ? "a line" : `line ${line}`;
  return new McpvalsError("store/corrupt", `${where} of the journal ${problem}`, {
    location: { file: pathIn(folder), ...(line === undefined ? {} : { line }) },
    hint,
  });
}

/** A line in whole lines that were read, from `start` to its line break at `end`. */
export interface Line {
  readonly start: number;
  readonly end: number;
  /** What its stamp says, unchecked; undefined where the line does not begin with it. */
  readonly stamp: Stamp | undefined;
  /** Its text, where that has only ASCII characters. */
  readonly text: string | undefined;
}

/** The beginning of a line. */
export interface Stamp {
  /** Checksum of the event that the line should have. */
  readonly crc: number;
  readonly trial: string;
  readonly begins: boolean;
  readonly ends: boolean;
}

/** Finds lines and their stamps, in one text in which a character is a byte: a hundred megabytes have a million lines. */
export function* linesOf(bytes: Buffer): Generator<Line> {
  const whole = bytes.toString("latin1");
  const isPlain = isAscii(bytes);
  let start = 0;
  for (let end = whole.indexOf("\n"); end !== -1; end = whole.indexOf("\n", start)) {
    stampFirst.lastIndex = start;
    const [, crc = "", first, trial, type] = stampFirst.exec(whole) ?? [];
    const stamp =
      trial === undefined
        ? undefined
        : { crc: Number.parseInt(crc, 16), trial, begins: first !== undefined, ends: type !== undefined };
    const text = isPlain || isAscii(bytes.subarray(start, end)) ? whole.slice(start, end) : undefined;
    yield { start, end, stamp, text };
    start = end + 1;
  }
}

/** Lines that were read, with their line breaks; those one after the other in the file as one. */
export function* joinLines([first, ...others]: readonly Buffer[]): Generator<Buffer> {
  if (first === undefined) return;
  let [begin, last] = [first, first];
  const joined = (): Buffer =>
    Buffer.from(begin.buffer, begin.byteOffset, last.byteOffset + last.length + 1 - begin.byteOffset);
  for (const line of others) {
    if (line.buffer !== last.buffer || line.byteOffset !== last.byteOffset + last.length + 1) {
      yield joined();
      begin = line;
    }
    last = line;
  }
  yield joined();
}

/** Events are written with their stamp first, but for those of which a secret was removed. Ids of trials are plain words. */
const stampFirst =
  /\{"crc":"([0-9a-f]{8})","event":\{"seq":(?:(1)|\d+),"at":[\d.e+-]+,"trial":"([\w-]+)","type":(?:"(trial\.(?:finished|graded))")?/y;
