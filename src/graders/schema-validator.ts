import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import type { Json } from "../core/formats/model.ts";
import type { SchemaCheck, ValidateSchema } from "../core/checks/tool-result.ts";
import { OutOfTime } from "../core/lint/rule.ts";
import { untilAborted } from "../process/deadline.ts";
import type { SchemaRequest, WorkerMessage } from "./schema-worker.ts";

const defaultTimeoutMs = 5000;
/** Startup limit of the thread, for a busy machine. */
const startupMs = 30_000;
const memoryMb = 384;
/**
 * Maximum number of values in a schema: compiling one with three times as many takes 400 MB and ten seconds.
 */
const mostParts = 20_000;

/** Time for all validations of one check of a server, in milliseconds: more than a thousand ordinary schemas take. */
const mostTogetherMs = 30_000;

/**
 * Validates what one server declares. Throws OutOfTime once that has taken long, and the signal's reason as soon as it aborts, also
 * while a validation goes on.
 */
export function validateOfServer(
  validateSchema: ValidateSchema,
  signal: AbortSignal,
  togetherMs: number = mostTogetherMs,
): ValidateSchema {
  let leftMs = togetherMs;
  return async (...about) => {
    signal.throwIfAborted();
    if (leftMs <= 0) throw new OutOfTime();
    const started = performance.now();
    try {
      return await untilAborted(validateSchema(...about), signal);
    } finally {
      leftMs -= performance.now() - started;
    }
  };
}

/** Calls `callback` after some milliseconds, unless the returned function cancels it. */
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
 * can run forever, so both happen in a worker thread that is started on first use and terminated after a timeout.
 * One validation runs at a time, so that a schema that hangs affects no other verdict.
 */
export class SchemaValidator implements AsyncDisposable {
  readonly #timeoutMs: number;
  readonly #startTimer: StartTimer;
  readonly #waiting: Job[] = [];
  /** Schemas, as JSON, that have timed out once; trying them again for every call would delay the run. */
  readonly #hanging = new Set<string>();
  #worker: Worker | undefined;
  #isReady = false;
  #current: Job | undefined;
  #stopTimer: (() => void) | undefined;

  /** @param timeoutMs Time limit of one validation, in milliseconds. */
  constructor(timeoutMs: number = defaultTimeoutMs, startTimer: StartTimer = startRealTimer) {
    this.#timeoutMs = timeoutMs;
    this.#startTimer = startTimer;
  }

  /** Validates; a schema that is invalid, or takes longer than the limit, is `unusable`. Never rejects. */
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

  /** Terminates the thread; pending validations become `unusable`. */
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
    // Without the Node options of this process, some of which (--eval, --inspect-brk) would block the thread.
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
