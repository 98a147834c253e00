import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { previewJson } from "../../core/formats/read-json.ts";
import { abortAfter, settlesWithin, untilAborted } from "../../process/deadline.ts";
import { LineReader } from "../../process/program-output.ts";
import { closed } from "../../process/process-tree.ts";
import { readRpcAnswer, readRpcMessage, rpcErrorText } from "../host/rpc-message.ts";
import type { Subject } from "./contract-report.ts";
import { type Faults, WatchedProcess } from "./watched-process.ts";

/** What came back for a request. */
export type Reply =
  | { readonly kind: "result"; readonly result: Json }
  | { readonly kind: "error"; readonly code: Json | undefined; readonly text: string }
  /** No usable answer; the conversation is of no use any more. */
  | { readonly kind: "none"; readonly message: string };

interface Waiting {
  readonly id: number;
  readonly settle: (reply: Reply) => void;
}

/** How long what was written before the end may take to arrive, in milliseconds. */
const drainMs = 100;

/** A process that JSON-RPC is spoken with. Everything that it does wrong on the side goes into the faults. */
export class Conversation {
  readonly #subject: Subject;
  readonly #faults: Faults;
  readonly #process: WatchedProcess;
  readonly #scanner: OutputScanner;
  readonly #answered = new Set<Json>();
  #waiting: Waiting[] = [];
  #lastId = 0;
  #trouble: string | undefined;

  /** Starts the program. Throws McpvalsError `server/spawn-failed`. */
  static async start(subject: Subject, faults: Faults): Promise<Conversation> {
    return new Conversation(subject, faults, await WatchedProcess.start(subject));
  }

  constructor(subject: Subject, faults: Faults, process: WatchedProcess) {
    this.#subject = subject;
    this.#faults = faults;
    this.#process = process;
    this.#scanner = new OutputScanner({
      faults,
      onAnswer: (id, body) => this.#take(id, body),
      onBroken: (reason) => this.#break(reason),
    });
    process.stdout.on("data", (chunk: Buffer) => this.#scanner.push(chunk));
    void process.exited.then(() => this.#ended());
  }

  /** Whether it can still be asked. */
  get isHealthy(): boolean {
    return this.#trouble === undefined && this.#process.exit === undefined;
  }

  get process(): WatchedProcess {
    return this.#process;
  }

  /** Asks, and waits for the answer until the time is up. Rejects only with the signal's reason. */
  async request(method: string, params: JsonObject): Promise<Reply> {
    if (this.#trouble !== undefined) return { kind: "none", message: this.#trouble };
    this.#lastId += 1;
    const id = this.#lastId;
    this.#scanner.expectAnswer();
    const reply = new Promise<Reply>((settle) => {
      this.#waiting.push({ id, settle });
    });
    this.#process.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    const { timeoutMs, signal } = this.#subject;
    using limit = abortAfter(timeoutMs, () => tooLate, signal);
    try {
      return await untilAborted(reply, limit.signal);
    } catch (error) {
      if (error !== tooLate) throw error;
      return this.#noAnswer(method);
    }
  }

  /** Closes stdin and waits for the end, so many milliseconds. */
  async endsWithin(ms: number): Promise<boolean> {
    return settlesWithin(this.#process.exited, ms);
  }

  /** Ends it and all that it has started; what has lived on is a fault. */
  async finish(): Promise<void> {
    this.#scanner.end();
    await this.#process.finish(this.#faults);
  }

  #noAnswer(method: string): Reply {
    const { unfinished } = this.#scanner;
    if (unfinished !== undefined) this.#scanner.end();
    const half = unfinished === undefined ? "" : `; there is only a line without its end: ${unfinished}`;
    // The most frequent mistake of the first hour.
    const flush = method === "initialize" ? "; does the program flush its stdout after each line?" : "";
    const message = `no answer to ${method} within ${this.#subject.timeoutMs} ms${half || flush}${this.#process.stderrTail}`;
    this.#trouble = message;
    return { kind: "none", message };
  }

  #take(id: Json, body: JsonObject): void {
    const waiting = this.#waiting.find((each) => each.id === id);
    if (waiting !== undefined) {
      this.#waiting = this.#waiting.filter((each) => each !== waiting);
      this.#answered.add(id);
      waiting.settle(replyOf(body));
    } else if (this.#answered.has(id)) {
      this.#faults.add("answers once", `request ${JSON.stringify(id)} was answered more than once`);
    } else this.#unasked(id);
  }

  #unasked(id: Json): void {
    const asked = this.#waiting.map((each) => each.id).join(" and ");
    const given = previewJson(id, 40);
    if (asked === "")
      this.#faults.add("answers once", `an answer with the id ${given}, which nobody asked for`);
    else this.#break(`the answer has the id ${given} instead of ${asked}`);
  }

  async #ended(): Promise<void> {
    const { stdout, stderr } = this.#process;
    await settlesWithin(Promise.all([closed(stdout), closed(stderr)]), drainMs);
    const { unfinished } = this.#scanner;
    const half = unfinished === undefined ? "" : `, in the middle of the line ${unfinished}`;
    const how = this.#process.howItEnded ?? "ended";
    this.#break(`the program ${how} before it had answered${half}${this.#process.stderrTail}`);
  }

  #break(message: string): void {
    this.#trouble ??= message;
    for (const { settle } of this.#waiting.splice(0)) settle({ kind: "none", message });
  }
}

const tooLate = new Error("no answer in time");

function replyOf(body: JsonObject): Reply {
  const answer = readRpcAnswer(body);
  switch (answer.kind) {
    case "result":
      return { kind: "result", result: answer.result };
    case "error":
      return { kind: "error", code: answer.error["code"], text: rpcErrorText(answer.error) };
    case "broken":
      return { kind: "none", message: `the answer is ${answer.problem}` };
  }
}

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
