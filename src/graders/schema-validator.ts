import { Worker } from "node:worker_threads";
import type { Json } from "../core/formats/model.ts";
import type { SchemaCheck } from "../core/grade/grade.ts";
import type { SchemaRequest } from "./schema-worker.ts";

const defaultTimeoutMs = 5000;

interface Pending {
  readonly resolve: (check: SchemaCheck) => void;
  readonly timer: NodeJS.Timeout;
}

/**
 * Validates values against JSON Schemas that come from servers. Compiling such a schema generates code and its patterns
 * can run for ever, so both happen in a worker thread that is started on first use and ended when it takes too long.
 */
export class SchemaValidator implements AsyncDisposable {
  readonly #timeoutMs: number;
  readonly #pending = new Map<number, Pending>();
  #worker: Worker | undefined;
  #nextId = 1;

  constructor(timeoutMs: number = defaultTimeoutMs) {
    this.#timeoutMs = timeoutMs;
  }

  /** Gives the outcome; a schema that cannot be used, or takes longer than the limit, is `unusable`. */
  validate(schema: Json, value: Json): Promise<SchemaCheck> {
    const worker = (this.#worker ??= this.#start());
    const id = this.#nextId++;
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => this.#giveUp(worker, `validation took over ${this.#timeoutMs} ms`),
        this.#timeoutMs,
      );
      this.#pending.set(id, { resolve, timer });
      worker.ref();
      worker.postMessage({ id, schema, value } satisfies SchemaRequest);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#settleAll("validation was stopped");
    await this.#worker?.terminate();
    this.#worker = undefined;
  }

  #start(): Worker {
    const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
    const worker = new Worker(new URL(`./schema-worker.${extension}`, import.meta.url));
    worker.on("message", ({ id, check }: { readonly id: number; readonly check: SchemaCheck }) => {
      const pending = this.#pending.get(id);
      this.#pending.delete(id);
      clearTimeout(pending?.timer);
      pending?.resolve(check);
      if (this.#pending.size === 0) worker.unref();
    });
    worker.on("error", (error) => this.#giveUp(worker, `the validator failed: ${error.message}`));
    return worker;
  }

  /** All that waits goes through one thread, so whatever hangs it holds up the rest too. */
  #giveUp(worker: Worker, reason: string): void {
    if (this.#worker === worker) this.#worker = undefined;
    void worker.terminate();
    this.#settleAll(reason);
  }

  #settleAll(reason: string): void {
    for (const { resolve, timer } of this.#pending.values()) {
      clearTimeout(timer);
      resolve({ status: "unusable", reason });
    }
    this.#pending.clear();
  }
}
