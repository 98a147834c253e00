import { maxMemory, maxMessageBytes, maxMessageDepth } from "../base/limits.ts";
import type { WireObject } from "./programs/preset.ts";
import { JsonMeter, repeatedKey } from "../base/read-json.ts";
import type { Emit } from "../model/event.ts";
import { ByteStore, TextTail, WholeLines } from "../process/program-output.ts";

/** Records program output as `agent.output`: complete lines up to a limit, then only the number of dropped bytes. */
export class ProgramLines {
  readonly #record: (text: string) => void;
  readonly #lines: WholeLines;
  readonly #tail = new TextTail();

  constructor(stream: "stdout" | "stderr", emit: Emit) {
    this.#record = (text) => void emit({ type: "agent.output", stream, text });
    this.#lines = new WholeLines(this.#record);
  }

  /** The last 4 KiB; undefined when empty. */
  get tail(): string | undefined {
    return this.#tail.text;
  }

  push(chunk: Buffer): void {
    this.#tail.push(chunk);
    this.#lines.push(chunk);
  }

  /** Records an unfinished line, and the number of dropped bytes. */
  finish(): void {
    const omitted = this.#lines.finish();
    if (omitted > 0) this.#record(`[${omitted} more bytes were left out]\n`);
  }
}

export interface JsonLinesOptions {
  /** Maximum line length in bytes; longer lines are dropped. */
  readonly limit: number;
  /** Called with a violation of the limits or of JSON; no further line is read. */
  readonly onBroken: (problem: string) => void;
  readonly onObject: (line: WireObject) => void;
  /** Called with each line that is not a JSON object, with its line end. */
  readonly onOther: (line: Buffer) => void;
}

const newline = 0x0a;

export class JsonLines {
  readonly #options: JsonLinesOptions;
  readonly #unfinished = new ByteStore();
  /** Length of the unfinished line, including dropped bytes. */
  #length = 0;
  readonly #budget = new MessageBudget();
  #isBroken = false;

  constructor(options: JsonLinesOptions) {
    this.#options = options;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      this.#hold(chunk.subarray(start, end));
      this.#readLine();
      start = end + 1;
    }
    this.#hold(chunk.subarray(start));
  }

  /** Reads the last line, if it has no line end. */
  finish(): void {
    if (this.#length > 0) this.#readLine();
  }

  #hold(piece: Buffer): void {
    this.#length += piece.length;
    if (this.#length > this.#options.limit || this.#isBroken) this.#unfinished.clear();
    else this.#unfinished.push(piece);
  }

  #readLine(): void {
    const { limit, onBroken, onObject, onOther } = this.#options;
    const [line, length] = [this.#unfinished.take(), this.#length];
    this.#length = 0;
    if (this.#isBroken) return;
    if (length > limit) return onOther(Buffer.from(`[a line of ${length} bytes was left out]\n`));
    // An object begins with a brace; other output need not be parsed.
    const isCandidate = /^\s*\{/.test(line.toString("latin1", 0, 64));
    let problem = isCandidate ? this.#budget.problemOf(line) : undefined;
    if (problem === undefined) {
      const text = line.toString("utf8");
      const object = isCandidate ? parseObject(text) : undefined;
      if (object === undefined) return onOther(Buffer.concat([line, Buffer.from("\n")]));
      problem = repeatedKeyProblem(text);
      if (problem === undefined) return onObject(object);
    }
    this.#isBroken = true;
    onBroken(problem);
  }
}

/** Parses a JSON object; undefined for any other text. */
export function parseObject(text: string): WireObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as WireObject)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Maximum memory, in bytes, for parsing all messages of a program in one trial. */
const maxTotalMemory = 2 * maxMemory;
/** Maximum requests of a program in one trial; responses are buffered if the program does not read them. */
const maxRequests = 20_000;

/**
 * Limits the messages of a program in one trial, since part of each stays in memory, such as names of tools and the text of
 * an unfinished message. Problems are phrases that follow the program's name.
 */
export class MessageBudget {
  #left = maxTotalMemory;
  #requests = 0;

  /** Why a message must not be parsed; undefined if it may. */
  problemOf(line: Uint8Array): string | undefined {
    if (line.length > maxMessageBytes) return `wrote a message of more than ${maxMessageBytes} bytes`;
    const { deepest, weight } = new JsonMeter().push(line);
    if (deepest > maxMessageDepth) return `wrote a message nested more than ${maxMessageDepth} levels deep`;
    if (weight > maxMemory)
      return `wrote a message of so many values that it would take more than ${inMebibytes(maxMemory)} of memory`;
    this.#left -= weight;
    return this.#left < 0 ? `wrote more than ${inMebibytes(maxTotalMemory)} in one trial` : undefined;
  }

  /** Why another request must not be answered; undefined if it may. */
  problemOfRequest(): string | undefined {
    this.#requests += 1;
    return this.#requests > maxRequests
      ? `asked for something more than ${maxRequests} times in one trial`
      : undefined;
  }
}

/** Why a parsed message must not be used: JSON parsers differ on which of two duplicate keys wins. */
export function repeatedKeyProblem(text: string): string | undefined {
  const key = repeatedKey(text);
  return key === undefined
    ? undefined
    : `wrote a message with the key ${JSON.stringify(key.slice(0, 80))} twice`;
}

function inMebibytes(bytes: number): string {
  return `${bytes / 1024 / 1024} MiB`;
}
