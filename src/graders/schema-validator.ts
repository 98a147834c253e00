import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import type { Json } from "../core/formats/model.ts";
import type { SchemaCheck } from "../core/checks/tool-result.ts";
import type { SchemaRequest, WorkerMessage } from "./schema-worker.ts";

const defaultTimeoutMs = 5000;
/** Longest that the thread may take to start, on a machine with much else to do. */
const startupMs = 30_000;
const memoryMb = 384;
/**
 * Most that a schema may have of lists, objects and other values: one of three times as many takes 400 MB and ten seconds
 * to compile.
 */
const mostParts = 20_000;

/** Calls back after so many milliseconds, unless the returned function is called before. */
type StartTimer = (callback: () => void, milliseconds: number) => () => void;

function startRealTimer(callback: () => void, milliseconds: number): () => void {
  const timer = setTimeout(callback, milliseconds);
  return () => clearTimeout(timer);
}

interface Job extends SchemaRequest {
  readonly resolve: (check: SchemaCheck) => void;
}

/**
 * Validates values against JSON Schemas that come from servers. Compiling such a schema generates code and its patterns
 * can run for ever, so both happen in a worker thread that is started on first use and ended when it takes too long.
 * One validation runs at a time, so that a schema that hangs affects no other verdict.
 */
export class SchemaValidator implements AsyncDisposable {
  readonly #timeoutMs: number;
  readonly #startTimer: StartTimer;
  readonly #waiting: Job[] = [];
  /** Schemas, as JSON, that once took too long: trying them again for every call would stop the run. */
  readonly #hanging = new Set<string>();
  #worker: Worker | undefined;
  #isReady = false;
  #current: Job | undefined;
  #stopTimer: (() => void) | undefined;

  /** @param timeoutMs Longest that one validation may take, in milliseconds. */
  constructor(timeoutMs: number = defaultTimeoutMs, startTimer: StartTimer = startRealTimer) {
    this.#timeoutMs = timeoutMs;
    this.#startTimer = startTimer;
  }

  /** Gives the outcome; a schema that cannot be used, or takes longer than the limit, is `unusable`. Never rejects. */
  validate(schema: Json, value: Json): Promise<SchemaCheck> {
    if (hasMoreParts(schema, mostParts))
      return Promise.resolve(unusable(`it has more than ${mostParts.toLocaleString("en")} parts`));
    if (this.#hanging.size > 0 && this.#hanging.has(JSON.stringify(schema))) {
      return Promise.resolve(this.#tooLong());
    }
    return new Promise((resolve) => {
      this.#waiting.push({ schema, value, resolve });
      this.#next();
    });
  }

  /** Ends the thread; what still waits is `unusable`. */
  async [Symbol.asyncDispose](): Promise<void> {
    const stopped: SchemaCheck = { status: "unusable", reason: "the validation was stopped" };
    for (const job of this.#waiting.splice(0)) job.resolve(stopped);
    const worker = this.#worker;
    this.#worker = undefined;
    this.#finish(stopped);
    await worker?.terminate();
  }

  #next(): void {
    if (this.#current !== undefined) return;
    this.#current = this.#waiting.shift();
    if (this.#current === undefined) {
      this.#worker?.unref();
      return;
    }
    const { schema, value } = this.#current;
    this.#worker ??= this.#start();
    this.#worker.ref();
    this.#worker.postMessage({ schema, value } satisfies SchemaRequest);
    this.#limit(this.#isReady ? this.#timeoutMs : startupMs);
  }

  #start(): Worker {
    this.#isReady = false;
    const url = new URL(`./schema-worker${extname(import.meta.url)}`, import.meta.url);
    // Without the options of this process, some of which (--eval, --inspect-brk) would stop the thread.
    const worker = new Worker(url, { execArgv: [], resourceLimits: { maxOldGenerationSizeMb: memoryMb } });
    worker.on("message", (message: WorkerMessage) => {
      if (worker !== this.#worker) return;
      if (message !== "ready") this.#finish(message);
      else {
        this.#isReady = true;
        this.#limit(this.#timeoutMs);
      }
    });
    worker.on("error", (error) => this.#giveUp(worker, unusable(`checking it failed: ${error.message}`)));
    worker.on("exit", () => this.#giveUp(worker, unusable("the validator ended by itself")));
    return worker;
  }

  #limit(milliseconds: number): void {
    this.#stopTimer?.();
    const { schema } = this.#current ?? {};
    const worker = this.#worker;
    if (schema === undefined || worker === undefined) return;
    this.#stopTimer = this.#startTimer(() => {
      this.#hanging.add(JSON.stringify(schema));
      this.#giveUp(worker, this.#tooLong());
    }, milliseconds);
  }

  #tooLong(): SchemaCheck {
    return unusable(`checking a value against it takes over ${this.#timeoutMs} ms`);
  }

  #giveUp(worker: Worker, check: SchemaCheck): void {
    if (worker !== this.#worker) return;
    this.#worker = undefined;
    void worker.terminate();
    this.#finish(check);
  }

  #finish(check: SchemaCheck): void {
    this.#stopTimer?.();
    const job = this.#current;
    this.#current = undefined;
    job?.resolve(check);
    this.#next();
  }
}

function hasMoreParts(schema: Json, most: number): boolean {
  let parts = 0;
  const open: Json[] = [schema];
  for (let next = open.pop(); next !== undefined && parts <= most; next = open.pop()) {
    parts += 1;
    if (typeof next !== "object" || next === null) continue;
    for (const item of Object.values(next)) open.push(item);
  }
  return parts > most;
}

function unusable(reason: string): SchemaCheck {
  return { status: "unusable", reason };
}
