import { hostname } from "node:os";
import { mkdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { randomBytes } from "node:crypto";
import { McpvalsError, messageOf, renderError } from "../../base/error.ts";
import { version } from "../../base/version.ts";
import { countOf } from "../../base/visible-text.ts";
import { pause } from "../../process/deadline.ts";
import { ownMark, removeFolder, removeLeftovers } from "../../process/folders.ts";
import { unpackBundle } from "../../store/bundle.ts";
import { databaseError, persist } from "../../store/postgres/database.ts";
import { lostAfterMs, RemoteRuns, type SubmittedRun } from "../../store/postgres/runs.ts";
import { Places, WorkerSession } from "./worker-session.ts";

/** How a worker works. */
export interface WorkerOptions {
  /** Trials at once. */
  readonly concurrency: number;
  /** What it has, such as `gpu`: it takes the trials of runs that ask for no other. */
  readonly labels: readonly string[];
  /** Absolute path of the folder that bundles are unpacked in. */
  readonly folder: string;
  /** Aborting it lets no further trial begin; the worker ends when those that run have ended. */
  readonly draining: AbortSignal;
  /** Aborting it ends the running trials, and gives them back. */
  readonly ending: AbortSignal;
  /** End when there has been nothing to do, or no answer of the database, for so long, in milliseconds. Absent: never. */
  readonly idleMs?: number;
  /** Runs the trials of a session with the files in a folder. Throws what keeps it from running any. */
  readonly execute: (
    run: SubmittedRun,
    session: WorkerSession,
    at: { readonly folder: string; readonly ending: AbortSignal },
  ) => Promise<void>;
  /** What it does, a line each. */
  readonly onNote: (note: string) => void;
}

/** Times in milliseconds. */
const lookEveryMs = 500;
const reportEveryMs = 4000;
const aliveEveryMs = 3000;
/** For a database that does not answer yet, as when both are started together. */
export const longestWaitMs = 60_000;

/** The system and processor of this machine. */
export function platformHere(): string {
  return `${process.platform}-${process.arch}`;
}

/**
 * Takes trials of the runs in a database and runs them, until it is told to end. Throws, when it begins, `usage/invalid-option`,
 * `store/no-access` and `store/other-schema`, and `store/unreachable` also later.
 */
export async function runWorker(url: string, options: WorkerOptions): Promise<void> {
  using _ = await showAlive(options.folder);
  await using runs = await RemoteRuns.open(url, {
    connections: 6,
    waitMs: Math.min(longestWaitMs, options.idleMs ?? Infinity),
    signal: options.draining,
    onOutage: (error) => options.onNote(`${messageOf(error)}; trying again`),
  });
  await removeLeftovers(options.folder, /^run-/);
  await new Worker(runs, options).work();
}

/** Touches the file `alive` in a folder again and again, for who looks whether this process hangs. */
async function showAlive(folder: string): Promise<Disposable> {
  const file = join(folder, "alive");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeFile(file, "");
  const timer = setInterval(() => {
    const now = new Date();
    // Whoever looks sees that it is old.
    utimes(file, now, now).catch(() => undefined);
  }, aliveEveryMs);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

class Worker {
  readonly #runs: RemoteRuns;
  readonly #options: WorkerOptions;
  readonly #id = `${hostname()}-${process.pid}-${randomBytes(2).toString("hex")}`;
  readonly #places: Places;
  readonly #sessions = new Map<string, Promise<void>>();
  readonly #joined = new Set<WorkerSession>();
  /** Why it takes no trial of a run, by id. */
  readonly #refused = new Map<string, string>();
  readonly #lost = new AbortController();
  /** When the database answered last. */
  #heardAt = performance.now();
  #isAway = false;

  constructor(runs: RemoteRuns, options: WorkerOptions) {
    this.#runs = runs;
    this.#options = options;
    this.#places = new Places(options.concurrency);
  }

  async work(): Promise<void> {
    const { draining, idleMs = Infinity, onNote, concurrency, labels } = this.#options;
    let outage: unknown;
    const having = labels.length === 0 ? "" : `, labels ${labels.join(", ")}`;
    onNote(`worker ${this.#id} takes trials from ${this.#runs.name}: ${concurrency} at once${having}`);
    let reported = -Infinity;
    let busy = performance.now();
    while (!draining.aborted) {
      try {
        if (performance.now() - reported > reportEveryMs) {
          await this.#report();
          await this.#runs.superviseAll();
          reported = performance.now();
        }
        for (const run of await this.#runs.openRuns()) {
          if (this.#sessions.has(run.id) || this.#refused.has(run.id)) continue;
          const reason = this.#unfit(run);
          if (reason !== undefined) await this.#refuse(run.id, reason);
          else
            this.#sessions.set(
              run.id,
              this.#join(run.id).finally(() => this.#sessions.delete(run.id)),
            );
        }
        if (this.#isAway) onNote(`the database ${this.#runs.name} answers again`);
        this.#isAway = false;
        this.#heardAt = performance.now();
      } catch (error) {
        this.#onOutage(error);
        outage = error;
      }
      const now = performance.now();
      if (this.#sessions.size > 0) busy = now;
      if (!this.#isAway && now - busy > idleMs) break;
      // What runs is lost to other workers only after a while.
      const isIdle = [...this.#joined].every((session) => session.isIdle);
      const patienceMs = isIdle ? idleMs : Math.max(idleMs, lostAfterMs);
      if (now - this.#heardAt > patienceMs) {
        this.#lost.abort(databaseError(outage, this.#runs.name));
        break;
      }
      await pause(lookEveryMs, draining).catch(() => undefined);
    }
    await Promise.all(this.#sessions.values());
    this.#lost.signal.throwIfAborted();
  }

  /** Those that it is given, and that of a database that is gone. */
  get #signals(): Pick<WorkerOptions, "draining" | "ending"> {
    const { draining, ending } = this.#options;
    const { signal } = this.#lost;
    return { draining: AbortSignal.any([draining, signal]), ending: AbortSignal.any([ending, signal]) };
  }

  #onOutage(error: unknown): void {
    if (!this.#isAway) this.#options.onNote(messageOf(databaseError(error, this.#runs.name)));
    this.#isAway = true;
  }

  async #report(): Promise<void> {
    const { labels, concurrency } = this.#options;
    const refused = Object.fromEntries(this.#refused);
    await this.#runs.report({
      id: this.#id,
      version,
      platform: platformHere(),
      labels,
      concurrency,
      refused,
    });
  }

  /** Why it cannot run a run, as far as that can be told without its files. */
  #unfit({
    version: needed,
    platform,
    labels,
  }: Pick<SubmittedRun, "version" | "platform" | "labels">): string | undefined {
    const missing = labels.filter((label) => !this.#options.labels.includes(label));
    if (needed !== version) return `it is of mcpvals ${needed}, this worker is ${version}`;
    if (platform !== platformHere()) return `it is for ${platform}, this worker is ${platformHere()}`;
    return missing.length === 0
      ? undefined
      : `it asks for ${missing.join(", ")}, which this worker does not have`;
  }

  async #refuse(run: string, reason: string): Promise<void> {
    this.#refused.set(run, reason);
    this.#options.onNote(`takes no trial of the run ${run}: ${reason}`);
    await this.#report();
  }

  /** Runs trials of a run as long as there are some. Never throws. */
  async #join(id: string): Promise<void> {
    const { execute, folder: root, onNote, concurrency } = this.#options;
    const { draining, ending } = this.#signals;
    let folder: string | undefined;
    let session: WorkerSession | undefined;
    try {
      const again = { signal: draining, onOutage: (error: unknown) => this.#onOutage(error) };
      const run = await persist(() => this.#runs.read(id), again);
      const { bundle } = run;
      // Of its own: a trial may change its files, and the next run must not have those.
      folder = join(root, `run-${ownMark()}-${id}`);
      await unpackBundle(bundle, (sha256) => persist(() => this.#runs.readFile(sha256), again), folder);
      session = new WorkerSession(this.#runs, run, {
        worker: this.#id,
        folder,
        concurrency,
        places: this.#places,
        draining,
        ending,
        onOutage: again.onOutage,
        onNote,
      });
      this.#joined.add(session);
      try {
        await execute(run, session, { folder, ending });
      } finally {
        this.#joined.delete(session);
        await session[Symbol.asyncDispose]();
      }
      onNote(`ran ${countOf(session.counted, "trial")} of the run ${id}`);
    } catch (error) {
      if (draining.aborted) return;
      const text = error instanceof McpvalsError ? renderError(error) : messageOf(error);
      const reason = text.replaceAll(/\s*\n\s*/g, "; ");
      if (session === undefined || session.taken === 0)
        await this.#refuse(id, reason).catch((cause: unknown) => this.#onOutage(cause));
      else onNote(`the run ${id}: ${reason}`);
    } finally {
      if (folder !== undefined)
        await removeFolder(folder).catch((error: unknown) => onNote(messageOf(error)));
    }
  }
}
