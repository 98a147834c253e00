import type { Json, JsonObject } from "../../core/formats/model.ts";
import { previewJson } from "../../core/formats/preview-json.ts";
import { abortAfter, settlesWithin, untilAborted } from "../../process/deadline.ts";
import { closed } from "../../process/stop-tree.ts";
import { readRpcAnswer, rpcErrorText } from "../host/rpc-message.ts";
import type { Faults } from "./faults.ts";
import { OutputScanner } from "./output-scanner.ts";
import type { Subject } from "./subject.ts";
import { WatchedProcess } from "./watched-process.ts";

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
