import type { WireObject } from "../../core/formats/presets/preset.ts";
import { JsonMeter, mostMemory, repeatedKey } from "../../core/formats/read-json.ts";
import type { Emit } from "../../core/trace/events.ts";
import { ByteStore, TextTail, WholeLines } from "../../process/program-output.ts";

export interface JsonLinesOptions {
  /** Longest line, in bytes; longer ones are left out. */
  readonly limit: number;
  /** Hears, as what the program did, why no line is read any more. */
  readonly onBroken: (problem: string) => void;
  readonly onObject: (line: WireObject) => void;
  /** Gets what is no object of JSON, with its line end. */
  readonly onOther: (line: Buffer) => void;
}

const newline = 0x0a;

/** Cuts what a program prints into lines of JSON. */
export class JsonLines {
  readonly #options: JsonLinesOptions;
  readonly #unfinished = new ByteStore();
  /** What was left out included. */
  #length = 0;
  readonly #budget = new SaidBudget();
  #isBroken = false;

  constructor(options: JsonLinesOptions) {
    this.#options = options;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      this.#hold(chunk.subarray(start, end));
      this.#finish();
      start = end + 1;
    }
    this.#hold(chunk.subarray(start));
  }

  /** Takes the last line, if it has no end. */
  finish(): void {
    if (this.#length > 0) this.#finish();
  }

  #hold(piece: Buffer): void {
    this.#length += piece.length;
    if (this.#length > this.#options.limit || this.#isBroken) this.#unfinished.clear();
    else this.#unfinished.push(piece);
  }

  #finish(): void {
    const line = this.#unfinished.take();
    const length = this.#length;
    this.#length = 0;
    if (this.#isBroken) return;
    const { limit, onObject, onOther } = this.#options;
    if (length > limit) {
      onOther(Buffer.from(`[a line of ${length} bytes was left out]\n`));
      return;
    }
    const problem = mayBeObject(line) ? this.#budget.problemOf(line) : undefined;
    if (problem !== undefined) {
      this.#breakOff(problem);
      return;
    }
    const object = parseObject(line);
    if (object === undefined) {
      onOther(Buffer.concat([line, Buffer.from("\n")]));
      return;
    }
    const doubt = ambiguity(line.toString("utf8"));
    if (doubt === undefined) onObject(object);
    else this.#breakOff(doubt);
  }

  #breakOff(problem: string): void {
    this.#isBroken = true;
    this.#options.onBroken(problem);
  }
}

/** An object begins with a brace; most other output need not be parsed to see that it is none. */
function mayBeObject(line: Buffer): boolean {
  return /^\s*\{/.test(line.toString("latin1", 0, 64));
}

function parseObject(line: Buffer): WireObject | undefined {
  if (!mayBeObject(line)) return undefined;
  try {
    return JSON.parse(line.toString("utf8")) as WireObject;
  } catch {
    return undefined;
  }
}

/** Longest message of a program, in bytes. */
export const longestMessage: number = 10 * 1024 * 1024;
const deepest = 400;
/** Most memory that all messages of a program may take in one trial, read one after the other, in bytes. */
const mostSaid = 2 * mostMemory;
/** Requests that a program may make in one trial: each waits for an answer, which the program need not read. */
const mostAsked = 20_000;

/**
 * What a program may still say in a trial. Not all of it is recorded, but whoever reads it keeps some of it: names of its uses of
 * tools, words that are not at their end.
 */
export class SaidBudget {
  #left = mostSaid;
  #asked = 0;

  /** Why a message is better not read, as what the program did; undefined when it may be. */
  problemOf(line: Uint8Array): string | undefined {
    if (line.length > longestMessage) return `wrote a message of more than ${longestMessage} bytes`;
    const { deepest: levels, weight } = new JsonMeter().push(line);
    if (levels > deepest) return `wrote a message nested more than ${deepest} levels deep`;
    if (weight > mostMemory)
      return `wrote a message of so many values that it would take more than ${inMebibytes(mostMemory)} of memory`;
    this.#left -= weight;
    return this.#left < 0 ? `wrote more than ${inMebibytes(mostSaid)} in one trial` : undefined;
  }

  /** Why a further request is better not answered; undefined when it may be. */
  problemOfRequest(): string | undefined {
    this.#asked += 1;
    return this.#asked > mostAsked
      ? `asked for something more than ${mostAsked} times in one trial`
      : undefined;
  }
}

/** Why a message that was parsed is better not used, as what the program did: readers differ on which of two equal keys counts. */
export function ambiguity(text: string): string | undefined {
  const key = repeatedKey(text);
  return key === undefined
    ? undefined
    : `wrote a message with the key ${JSON.stringify(key.slice(0, 80))} twice`;
}

function inMebibytes(bytes: number): string {
  return `${bytes / 1024 / 1024} MiB`;
}

export interface ProgramLinesOptions {
  readonly stream: "stdout" | "stderr";
  readonly emit: Emit;
}

/** Records what a program writes as `agent.output`: whole lines up to a limit, then only how much more there was. */
export class ProgramLines {
  readonly #record: (text: string) => void;
  readonly #lines: WholeLines;
  readonly #tail = new TextTail();

  constructor({ stream, emit }: ProgramLinesOptions) {
    this.#record = (text) => void emit({ type: "agent.output", stream, text });
    this.#lines = new WholeLines(this.#record);
  }

  /** The last 4 KiB; undefined when there is nothing. */
  get tail(): string | undefined {
    return this.#tail.text;
  }

  push(chunk: Buffer): void {
    this.#tail.push(chunk);
    this.#lines.push(chunk);
  }

  /** Records what has no line end yet, and how much was left out. */
  finish(): void {
    const omitted = this.#lines.finish();
    if (omitted > 0) this.#record(`[${omitted} more bytes were left out]\n`);
  }
}
