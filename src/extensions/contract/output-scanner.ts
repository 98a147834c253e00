import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { LineReader } from "../../process/line-reader.ts";
import { readRpcMessage } from "../host/rpc-message.ts";
import type { Faults } from "./faults.ts";

/** Largest answer, in bytes. */
const largestAnswer = 10 * 1024 * 1024;
/** Most logs before an answer, in bytes, and in one second. */
const mostLogBytes = 1024 * 1024;
const mostLogsPerSecond = 10_000;
/** Shown of a line. */
const shownLength = 120;
const newline = 0x0a;
const levels = ["debug", "info", "warn", "error"];

export interface ScannerOptions {
  readonly faults: Faults;
  readonly onAnswer: (id: Json, body: JsonObject) => void;
  /** Called when nothing can be read any more, with the reason. */
  readonly onBroken: (reason: string) => void;
}

/** Reads what a program writes on stdout, and notes what is wrong with it. */
export class OutputScanner {
  readonly #options: ScannerOptions;
  readonly #reader: LineReader;
  #lines = 0;
  #logs = { count: 0, bytes: 0, since: 0 };
  /** The beginning of the line that has no end yet. */
  #unfinished = Buffer.alloc(0);
  #broken = false;

  constructor(options: ScannerOptions) {
    this.#options = options;
    this.#reader = new LineReader({
      limit: largestAnswer,
      onLine: (line) => this.#take(line),
      onTooLong: () => this.#tooLong(),
    });
  }

  /** What stands on the line that has no end yet; undefined when there is none. */
  get unfinished(): string | undefined {
    return this.#unfinished.length === 0 ? undefined : shown(this.#unfinished);
  }

  push(chunk: Buffer): void {
    if (this.#broken) return;
    const last = chunk.lastIndexOf(newline);
    const begun =
      last === -1
        ? Buffer.concat([this.#unfinished, chunk.subarray(0, shownLength * 4)])
        : chunk.subarray(last + 1);
    this.#unfinished = Buffer.from(begun.subarray(0, shownLength * 4));
    this.#reader.push(chunk);
  }

  /** From now on it is counted anew how much is logged before an answer. */
  expectAnswer(): void {
    this.#logs = { count: 0, bytes: 0, since: performance.now() };
  }

  /** Notes the line that was never finished. */
  end(): void {
    if (this.#broken || this.unfinished === undefined) return;
    this.#options.faults.add("unfinished line", `a line without its end on stdout: ${this.unfinished}`);
  }

  #take(line: Buffer): void {
    if (this.#broken) return;
    this.#lines += 1;
    if (line.length === 0) return;
    const message = readRpcMessage(line);
    if (message?.kind === "answer") this.#options.onAnswer(message.id, message.body);
    else if (message?.kind === "notification" && message.method === "log") this.#log(message.params, line);
    else this.#options.faults.add("stdout", `line ${this.#lines} of stdout is no message: ${shown(line)}`);
  }

  #log(params: Json | undefined, line: Buffer): void {
    const { level, message } = isJsonObject(params) ? params : {};
    if (typeof message !== "string" || typeof level !== "string" || !levels.includes(level)) {
      const problem = `a log needs a message and a level, one of ${levels.join(", ")}: ${shown(line)}`;
      this.#options.faults.add("logs", problem);
    }
    this.#logs.count += 1;
    this.#logs.bytes += line.length + 1;
    const seconds = Math.max(1, (performance.now() - this.#logs.since) / 1000);
    if (this.#logs.bytes <= mostLogBytes && this.#logs.count <= mostLogsPerSecond * seconds) return;
    const { count, bytes } = this.#logs;
    const storm = `a storm of logs: ${count} of them with ${bytes} bytes before an answer; the limits are ${mostLogsPerSecond} a second and ${mostLogBytes} bytes`;
    this.#break("logs", storm);
  }

  #tooLong(): void {
    this.#break("answer size", `a line of stdout is longer than ${largestAnswer / 1024 / 1024} MB`);
  }

  #break(name: "logs" | "answer size", reason: string): void {
    this.#broken = true;
    this.#reader.stop();
    this.#options.faults.add(name, reason);
    this.#options.onBroken(reason);
  }
}

/** The beginning of a line, in one line. */
export function shown(line: Buffer): string {
  const text = line.toString("utf8", 0, shownLength * 4);
  return JSON.stringify(text.length > shownLength ? `${text.slice(0, shownLength)}…` : text);
}
