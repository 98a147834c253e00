import { maxSchemaParts } from "../base/limits.ts";
import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import { type Json, asObject } from "../base/json.ts";
import { fitsPlainly } from "../expect/plain-schema.ts";
import type { SchemaCheck, ValidateSchema } from "../expect/tool-result.ts";
import { listed } from "./grader.ts";
import { OutOfTime } from "../check/check-view.ts";
import { shortened } from "../base/visible-text.ts";
import { untilAborted } from "../process/deadline.ts";
import type { SchemaRequest, WorkerMessage } from "./schema-worker.ts";

const defaultTimeoutMs = 5000;
/** Time limit for the start of the thread, for a busy machine. */
const startupMs = 30_000;
const memoryMb = 384;
/** Time for all validations of one check of a server, in milliseconds: more than a thousand ordinary schemas take. */
const maxTogetherMs = 30_000;

/**
 * Validates by the schemas of one server. Throws OutOfTime once all validations together have exceeded a time limit, and the signal's
 * reason as soon as it aborts.
 */
export function validateOfServer(
  validateSchema: ValidateSchema,
  signal: AbortSignal,
  togetherMs: number = maxTogetherMs,
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

interface Job {
  readonly schema: Json;
  readonly value: Json;
  readonly resolve: (check: SchemaCheck) => void;
}

/**
 * Values that time out before a schema is no longer tried, so that a server with a bad one cannot delay a run by hours, or use the whole time of
 * a check. One value must not take the verdict from others.
 */
const maxHangs = 3;

/** Maximum number of values in one message: a message to a thread takes longer than most validations. */
const maxBatch = 50;

/**
 * Validates values against JSON Schemas that come from servers. Compiling such a schema generates code, and its patterns
 * can run forever, so both happen in a worker thread, which is started on first use and terminated after a timeout. A value that
 * fits a plain schema needs no thread.
 *
 * Values for the same schema are sent together; if one gets no verdict, each is tried alone.
 */
export class SchemaValidator implements AsyncDisposable {
  readonly #timeoutMs: number;
  readonly #startTimer: StartTimer;
  #waiting: Job[] = [];
  /** By schema, as JSON, how many values have timed out. */
  readonly #hangs = new Map<string, number>();
  #worker: Worker | undefined;
  #isReady = false;
  /** Jobs with the same schema. */
  #current: readonly Job[] = [];
  /** How many of the waiting jobs are sent alone. */
  #alone = 0;
  #stopTimer: (() => void) | undefined;

  /** @param timeoutMs Time limit of one validation, in milliseconds. */
  constructor(timeoutMs: number = defaultTimeoutMs, startTimer: StartTimer = startRealTimer) {
    this.#timeoutMs = timeoutMs;
    this.#startTimer = startTimer;
  }

  /** Validates; a schema that is invalid, or takes longer than the limit, is `unusable`. Never rejects. */
  validate(schema: Json, value: Json): Promise<SchemaCheck> {
    if (hasMoreParts(schema, maxSchemaParts))
      return Promise.resolve(ended(`it has more than ${maxSchemaParts.toLocaleString("en")} parts`));
    if (fitsPlainly(schema, value)) return Promise.resolve({ status: "valid" });
    if (this.#isHanging(schema)) return Promise.resolve(this.#tooLong(schema));
    return new Promise((resolve) => {
      this.#waiting.push({ schema, value, resolve });
      this.#next();
    });
  }

  /** Terminates the thread; pending validations become `unusable`. */
  async [Symbol.asyncDispose](): Promise<void> {
    const stopped = ended("the validation was stopped");
    for (const job of this.#waiting.splice(0)) job.resolve(stopped);
    const worker = this.#worker;
    this.#worker = undefined;
    this.#finish(this.#current.map(() => stopped));
    await worker?.terminate();
  }

  #next(): void {
    if (this.#current.length > 0) return;
    let [first] = this.#waiting;
    for (; first !== undefined && this.#isHanging(first.schema); [first] = this.#waiting) {
      this.#waiting.shift();
      this.#alone = Math.max(0, this.#alone - 1);
      first.resolve(this.#tooLong(first.schema));
    }
    if (first === undefined) {
      this.#worker?.unref();
      return;
    }
    const { schema } = first;
    const others = this.#waiting.findIndex((job) => job.schema !== schema);
    const together = Math.min(others === -1 ? this.#waiting.length : others, maxBatch);
    this.#current = this.#waiting.splice(0, this.#alone > 0 ? 1 : together);
    this.#alone = Math.max(0, this.#alone - 1);
    const values = this.#current.map(({ value }) => value);
    this.#worker ??= this.#start();
    this.#worker.ref();
    this.#worker.postMessage({ schema, values } satisfies SchemaRequest);
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
    worker.on("error", (error) => this.#giveUp(worker, ended(`checking it failed: ${error.message}`)));
    worker.on("exit", () => this.#giveUp(worker, ended("the validator ended by itself")));
    return worker;
  }

  #limit(milliseconds: number): void {
    this.#stopTimer?.();
    const [first] = this.#current;
    const worker = this.#worker;
    if (first === undefined || worker === undefined) return;
    this.#stopTimer = this.#startTimer(() => {
      const key = JSON.stringify(first.schema);
      if (this.#current.length === 1) this.#hangs.set(key, (this.#hangs.get(key) ?? 0) + 1);
      this.#giveUp(worker, this.#tooLong(first.schema));
    }, milliseconds);
  }

  #isHanging(schema: Json): boolean {
    return this.#hangs.size > 0 && (this.#hangs.get(JSON.stringify(schema)) ?? 0) >= maxHangs;
  }

  #tooLong(schema: Json): SchemaCheck {
    const patterns = patternsOf(schema).map((pattern) => shortened(JSON.stringify(pattern), 80));
    const named = patterns.length === 0 ? "" : `; its patterns: ${listed(patterns, 3)}`;
    return ended(`checking a value against it takes over ${this.#timeoutMs} ms${named}`);
  }

  /** Ends the only current job with `check`; of several, each is tried alone. */
  #giveUp(worker: Worker, check: SchemaCheck): void {
    if (worker !== this.#worker) return;
    this.#worker = undefined;
    void worker.terminate();
    if (this.#current.length > 1) {
      this.#waiting = [...this.#current, ...this.#waiting];
      this.#alone += this.#current.length;
      this.#current = [];
    }
    this.#finish([check]);
  }

  /** `checks` are those of the current jobs. */
  #finish(checks: readonly SchemaCheck[]): void {
    this.#stopTimer?.();
    const jobs = this.#current;
    this.#current = [];
    for (const [index, check] of checks.entries()) jobs[index]?.resolve(check);
    this.#next();
  }
}

function hasMoreParts(schema: Json, max: number): boolean {
  let parts = 0;
  for (const _ of partsOf(schema)) if (++parts > max) return true;
  return false;
}

/** The patterns of a schema, each once. */
function patternsOf(schema: Json): readonly string[] {
  const patterns = [...partsOf(schema)].flatMap((part) => {
    const { pattern, patternProperties } = asObject(part);
    return [...(typeof pattern === "string" ? [pattern] : []), ...Object.keys(asObject(patternProperties))];
  });
  return [...new Set(patterns)];
}

function* partsOf(value: Json): Generator<Json> {
  const open = [value];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    yield next;
    if (typeof next !== "object" || next === null) continue;
    for (const item of Object.values(next)) open.push(item);
  }
}

/** The result of a validation that a limit ended. */
function ended(reason: string): SchemaCheck {
  return { status: "unusable", reason, isLimit: true };
}
