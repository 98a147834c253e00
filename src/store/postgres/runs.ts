import { gunzip, gzip } from "node:zlib";
import { promisify } from "node:util";
import { PgBoss } from "pg-boss";
import { McpvalsError } from "../../base/error.ts";
import type { Budget } from "../../model/eval.ts";
import type { TraceEvent } from "../../model/event.ts";
import { type Plan, taskOf, type Trial } from "../../model/plan.ts";
import type { RunHead } from "../../model/result.ts";
import type { RateLimit } from "../../model/server.ts";
import type { BundledFile, BundleManifest } from "../bundle.ts";
import { Database, databaseError, isDriverError, persist, type Persistence, type Sql } from "./database.ts";
import { grantRoles, migrate, oneAtATime, queueSchema } from "./schema.ts";

const compress = promisify(gzip);
const decompress = promisify(gunzip);

/** A worker that does not say for so long that it runs a trial has ended, in seconds. pg-boss takes no less than 10. */
const heartbeatSeconds = 15;
export const lostAfterMs = heartbeatSeconds * 1000;
/** Longest that a trial may take: pg-boss takes no more. */
const longestTrialSeconds = 24 * 60 * 60;
/** Workers that end while they run a trial, until the trial is an error. */
export const maxLostWorkers = 3;
const jobsAtOnce = 5000;

/** A run as it is given to workers. */
export interface SubmittedRun {
  readonly head: RunHead & { readonly command: NonNullable<RunHead["command"]> };
  readonly plan: Plan;
  /** Absolute path of the folder whose files are in the bundle. */
  readonly folder: string;
  readonly bundle: BundleManifest;
  /** What a worker must have. */
  readonly labels: readonly string[];
  readonly version: string;
  /** System and processor. */
  readonly platform: string;
  /** Most trials at once, by what they share. */
  readonly limits: Readonly<Record<string, number>>;
  /** What is decided while it is followed. */
  readonly rules: {
    readonly budget?: Budget;
    /** Of costs. */
    readonly currency?: string;
    /** Stop after the first trial that does not pass. */
    readonly bail?: boolean;
  };
}

/** Why no further trial of a run begins. */
export interface Stop {
  readonly interrupted?: true;
  /** The budget that is used up. */
  readonly usedUp?: string;
  /** Everything is decided. */
  readonly isDecided?: true;
}

/**
 * `running`; `draining`: no further trial begins; `cancelled`: running trials end too; `ended`: nothing runs any more.
 */
export type RemoteState = "running" | "draining" | "cancelled" | "ended";

export interface TrialCounts {
  readonly waiting: number;
  readonly running: number;
  readonly ended: number;
  readonly cancelled: number;
}

/** A trial that a worker has taken. */
export interface Lease {
  readonly trial: string;
  /** Nobody has taken it since while this is its number. */
  readonly fence: number;
  /** Id of the job of the queue. */
  readonly job: string;
  /** How many workers ended while they ran it. With any, it is not begun yet: see {@link RemoteRuns.begin}. */
  readonly lostWorkers: number;
}

/** Lines of a journal, without checksums. */
export interface EventPart {
  readonly lease: Lease;
  /** Counts from 0. */
  readonly part: number;
  readonly lines: string;
}

/** A trial that has ended. */
export interface EndedTrial {
  readonly lease: Lease;
  /** What of its record is not written yet. */
  readonly parts: readonly EventPart[];
  /** All of its record. */
  readonly bytes: number;
  /** It did not come to its end, since the run was cancelled. */
  readonly isInterrupted: boolean;
}

/** What workers say of themselves. */
export interface WorkerRecord {
  readonly id: string;
  readonly version: string;
  readonly platform: string;
  readonly labels: readonly string[];
  readonly concurrency: number;
  /** Why it takes no trial of a run, by the run's id. */
  readonly refused: Readonly<Record<string, string>>;
}

export interface OpenOptions {
  /** Most connections at once. */
  readonly connections?: number;
  readonly waitMs?: number;
  /** Aborting it ends the waiting. */
  readonly signal?: AbortSignal | undefined;
  /** Called when it has to wait. */
  readonly onOutage?: (error: unknown) => void;
}

/** Makes or changes the tables where this user may, and starts the queue. */
async function startQueue(database: Database): Promise<PgBoss> {
  const isOwner = await migrate(database);
  const queue = new PgBoss({
    db: { executeSql: (text, values) => database.raw(text, values) },
    schema: queueSchema,
    migrate: isOwner,
    createSchema: isOwner,
    schedule: false,
    supervise: false,
    monitorIntervalSeconds: Math.ceil(heartbeatSeconds / 5),
  });
  // What goes wrong in its background work shows in what is asked of it.
  queue.on("error", () => undefined);
  // Several that begin at once would make the same tables.
  if (isOwner) await oneAtATime(database, () => queue.start());
  else await queue.start();
  if (isOwner) await grantRoles(database);
  return queue;
}

/** The runs of a PostgreSQL database, and the queue of their trials. */
export class RemoteRuns implements AsyncDisposable {
  readonly #database: Database;
  readonly #queue: PgBoss;

  private constructor(database: Database, queue: PgBoss) {
    this.#database = database;
    this.#queue = queue;
  }

  /**
   * Opens a database, and makes or changes its tables where this user may. Throws `usage/invalid-option`, `store/unreachable`,
   * `store/no-access` and `store/other-schema`. Of a database that does not answer, it waits for `waitMs` milliseconds until it does.
   */
  static async open(
    url: string,
    { connections, waitMs: forMs = 0, onOutage, signal }: OpenOptions = {},
  ): Promise<RemoteRuns> {
    const database = new Database(url, connections);
    try {
      const queue = await persist(() => startQueue(database), {
        forMs,
        signal,
        ...(onOutage && { onOutage }),
      });
      return new RemoteRuns(database, queue);
    } catch (cause) {
      await database[Symbol.asyncDispose]();
      throw databaseError(cause, database.name);
    }
  }

  /** Does something with the database. Throws its errors as `store/unreachable` and `store/no-access`. */
  async use<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (cause) {
      throw isDriverError(cause) ? databaseError(cause, this.name) : cause;
    }
  }

  /** As {@link persist} and {@link use}. */
  persist<T>(work: () => Promise<T>, options: Persistence): Promise<T> {
    return this.use(() => persist(work, options));
  }

  /** Of the database, as messages name it. */
  get name(): string {
    return this.#database.name;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue.stop({ graceful: false, close: false }).catch(() => undefined);
    await this.#database[Symbol.asyncDispose]();
  }

  /** Stores a run, all of it or nothing. Of the files of its bundle those that are not there yet are read. */
  async submit(run: SubmittedRun, read: (file: BundledFile) => Promise<Uint8Array>): Promise<void> {
    const { head, plan, bundle } = run;
    await this.#storeFiles(bundle, read);
    await this.#queue.createQueue(head.id, {
      retryLimit: 1_000_000,
      expireInSeconds: longestTrialSeconds,
      heartbeatSeconds,
      deleteAfterSeconds: longestTrialSeconds,
    });
    const text = await compress(JSON.stringify(plan));
    await this.#database.transaction(async (sql) => {
      await sql.query(
        `INSERT INTO mcpvals.runs (id, version, platform, labels, head, plan, folder, bundle, limits, rules)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
        [
          head.id,
          run.version,
          run.platform,
          run.labels,
          JSON.stringify(head),
          text,
          run.folder,
          JSON.stringify(bundle),
          JSON.stringify(run.limits),
          JSON.stringify(run.rules),
        ],
      );
      const slots = plan.trials.map((trial) => slotsOf(plan, trial));
      await sql.query(
        `INSERT INTO mcpvals.trials (run, id, place, slots)
         SELECT $1, id, place, ARRAY(SELECT jsonb_array_elements_text(slots))
         FROM jsonb_to_recordset($2::jsonb) AS given(id text, place int, slots jsonb)`,
        [head.id, JSON.stringify(plan.trials.map(({ id }, place) => ({ id, place, slots: slots[place] })))],
      );
      await this.#enqueue(
        sql,
        run,
        plan.trials.map(({ id }, place) => ({ id, place, slots: slots[place] ?? [] })),
      );
    });
  }

  async #storeFiles(bundle: BundleManifest, read: (file: BundledFile) => Promise<Uint8Array>): Promise<void> {
    const hashes = [...new Set(bundle.files.flatMap((file) => file.sha256 ?? []))];
    const known = await this.#database.query<{ sha256: string }>(
      // One that is damaged is stored again.
      "SELECT sha256 FROM mcpvals.files WHERE sha256 = ANY($1) AND sha256 = encode(sha256(content), 'hex')",
      [hashes],
    );
    const stored = new Set(known.map(({ sha256 }) => sha256));
    for (const file of bundle.files) {
      if (file.sha256 === undefined || stored.has(file.sha256)) continue;
      stored.add(file.sha256);
      await this.#database.query(
        "INSERT INTO mcpvals.files (sha256, content) VALUES ($1, $2) ON CONFLICT (sha256) DO UPDATE SET content = excluded.content",
        [file.sha256, await read(file)],
      );
    }
  }

  async #enqueue(
    sql: Sql,
    { head: { id: run }, limits }: Pick<SubmittedRun, "head" | "limits">,
    trials: readonly { readonly id: string; readonly place: number; readonly slots: readonly string[] }[],
  ): Promise<void> {
    for (let start = 0; start < trials.length; start += jobsAtOnce)
      await this.#queue.insert(
        run,
        trials.slice(start, start + jobsAtOnce).map(({ id, place, slots }) => {
          const [narrowest] = slots.toSorted((a, b) => (limits[a] ?? Infinity) - (limits[b] ?? Infinity));
          // In the order of the plan. Groups keep most trials in the queue that would have to wait; `take` is what makes sure.
          const group =
            narrowest === undefined ? {} : { group: { id: narrowest, tier: `${limits[narrowest] ?? 1}` } };
          return { priority: -place, data: { trial: id }, ...group };
        }),
        { db: asQueueDatabase(sql), returnId: false },
      );
  }

  /** A run, with its plan. Throws `store/not-found`. */
  async read(id: string): Promise<SubmittedRun> {
    const [row] = await this.#database.query<
      Pick<
        SubmittedRun,
        "head" | "folder" | "bundle" | "labels" | "version" | "platform" | "limits" | "rules"
      > & {
        readonly plan: Uint8Array;
      }
    >(
      "SELECT head, plan, folder, bundle, labels, version, platform, limits, rules FROM mcpvals.runs WHERE id = $1",
      [id],
    );
    if (row === undefined) throw this.#notFound(id);
    return { ...row, plan: JSON.parse((await decompress(row.plan)).toString()) as Plan };
  }

  #notFound(id: string): McpvalsError {
    return new McpvalsError("store/not-found", `there is no run "${id}" in ${this.name}`);
  }

  /** Content of a file of a bundle. Throws `store/corrupt` when it is not there. */
  async readFile(sha256: string): Promise<Uint8Array> {
    const [row] = await this.#database.query<{ content: Uint8Array }>(
      "SELECT content FROM mcpvals.files WHERE sha256 = $1",
      [sha256],
    );
    if (row !== undefined) return row.content;
    throw new McpvalsError("store/corrupt", `a file of the run is not in ${this.name}: ${sha256}`);
  }

  /** Ids of all runs, oldest first, and whether they go on; `version` changes whenever the run's state does. */
  list(): Promise<readonly { readonly id: string; readonly state: RemoteState; readonly version: string }[]> {
    return this.#database.query(
      "SELECT id, state, xmin::text AS version FROM mcpvals.runs ORDER BY submitted_at, id",
    );
  }

  /** Runs of which trials can be taken, oldest first. */
  openRuns(): Promise<
    readonly (Pick<SubmittedRun, "version" | "platform" | "labels"> & { readonly id: string })[]
  > {
    return this.#database.query(
      `SELECT id, version, platform, labels FROM mcpvals.runs WHERE state = 'running'
         AND EXISTS (SELECT FROM ${queueSchema}.job WHERE name = runs.id AND state IN ('created', 'retry'))
       ORDER BY submitted_at, id`,
    );
  }

  /** Whether the queue has a trial of a run. */
  async hasQueued(run: string): Promise<boolean> {
    const rows = await this.#database.query(
      `SELECT FROM ${queueSchema}.job WHERE name = $1 AND state IN ('created', 'retry') LIMIT 1`,
      [run],
    );
    return rows.length > 0;
  }

  /** What is known of how far a run is. Throws `store/not-found`. */
  async state(
    id: string,
  ): Promise<{ readonly state: RemoteState; readonly stop: Stop | null; readonly trials: TrialCounts }> {
    // Before the run is looked for: one that is deleted in between has not ended without trials.
    const rows = await this.#database.query<{ state: keyof TrialCounts; count: number }>(
      "SELECT state, count(*)::int AS count FROM mcpvals.trials WHERE run = $1 GROUP BY state",
      [id],
    );
    const [run] = await this.#database.query<{ state: RemoteState; stop: Stop | null }>(
      "SELECT state, stop FROM mcpvals.runs WHERE id = $1",
      [id],
    );
    if (run === undefined) throw this.#notFound(id);
    const counts = Object.fromEntries(rows.map(({ state, count }) => [state, count]));
    return { ...run, trials: { waiting: 0, running: 0, ended: 0, cancelled: 0, ...counts } };
  }

  /**
   * Trials that have ended, in any order, with how many bytes their events have: those that ended since what `next` was, some of them
   * once more.
   */
  async endedSince(
    run: string,
    since: string,
  ): Promise<{
    readonly next: string;
    readonly trials: readonly { readonly id: string; readonly bytes: number }[];
  }> {
    const rows = await this.#database.query<{ next: string; id: string | null; bytes: string }>(
      `SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS next, id, bytes
       FROM (SELECT 1) AS one LEFT JOIN mcpvals.trials
         ON run = $1 AND state = 'ended' AND ended_xid >= $2::xid8`,
      [run, since],
    );
    return {
      next: rows[0]?.next ?? since,
      trials: rows.flatMap(({ id, bytes }) => (id === null ? [] : { id, bytes: Number(bytes) })),
    };
  }

  /** Whether a worker said lately that it runs a trial of a run, or one of these. */
  async isWorkedOn(run: string, trials?: readonly string[]): Promise<boolean> {
    const rows = await this.#database.query(
      `SELECT FROM ${queueSchema}.job WHERE name = $1 AND state = 'active'
         AND heartbeat_on > now() - interval '${heartbeatSeconds} seconds'
         AND ($2::text[] IS NULL OR data->>'trial' = ANY($2)) LIMIT 1`,
      [run, trials],
    );
    return rows.length > 0;
  }

  /** Whether some of these trials are yet to end in a run that goes on. */
  async areToEnd(run: string, trials: readonly string[]): Promise<boolean> {
    const rows = await this.#database.query(
      `SELECT FROM mcpvals.trials WHERE run = $1 AND id = ANY($2) AND state IN ('waiting', 'running')
         AND EXISTS (SELECT FROM mcpvals.runs WHERE id = $1 AND state = 'running') LIMIT 1`,
      [run, trials],
    );
    return rows.length > 0;
  }

  /** Ids of the trials that run, also of those whose worker has ended since. */
  async running(run: string): Promise<readonly string[]> {
    const rows = await this.#database.query<{ id: string }>(
      "SELECT id FROM mcpvals.trials WHERE run = $1 AND state = 'running'",
      [run],
    );
    return rows.map(({ id }) => id);
  }

  /** The events of trials as lines of JSON, by trial: those of who took it last. */
  async events(run: string, trials: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const rows = await this.#database.query<{ trial: string; lines: Buffer }>(
      `SELECT trial, lines FROM mcpvals.events JOIN mcpvals.trials USING (run, fence)
       WHERE run = $1 AND id = trial AND trial = ANY($2) ORDER BY trial, part`,
      [run, trials],
    );
    const byTrial = Map.groupBy(rows, ({ trial }) => trial);
    return new Map(
      [...byTrial].map(([id, parts]) => [id, Buffer.concat(parts.map(({ lines }) => lines)).toString()]),
    );
  }

  /** Lets no further trial of a run begin, with `cancelled` none go on. One that has ended stays. */
  async stop(run: string, state: "draining" | "cancelled", stop: Stop): Promise<void> {
    await this.#database.transaction(async (sql) => {
      await sql.query(
        "UPDATE mcpvals.runs SET state = $2, stop = coalesce(stop, $3) WHERE id = $1 AND state <> 'ended'",
        [run, state, JSON.stringify(stop)],
      );
      await sql.query("UPDATE mcpvals.trials SET state = 'cancelled' WHERE run = $1 AND state = 'waiting'", [
        run,
      ]);
    });
    await this.#queue.deleteQueuedJobs(run);
  }

  /** Of a run in which no further trial is to begin: those that no worker runs any more are cancelled, too. */
  async settle(run: string): Promise<void> {
    await this.#queue.supervise(run);
    await this.#database.query(
      `UPDATE mcpvals.trials SET state = 'cancelled'
       WHERE run = $1 AND state IN ('waiting', 'running')
         AND EXISTS (SELECT FROM mcpvals.runs WHERE id = $1 AND state <> 'running')
         AND NOT EXISTS (SELECT FROM ${queueSchema}.job
           WHERE name = $1 AND state = 'active' AND data->>'trial' = trials.id)`,
      [run],
    );
  }

  /** A run whose trials have all ended or been cancelled needs its queue no longer. */
  async close(run: string): Promise<void> {
    const rows = await this.#database.query(
      `UPDATE mcpvals.runs SET state = 'ended' WHERE id = $1 AND state <> 'ended'
         AND NOT EXISTS (SELECT FROM mcpvals.trials WHERE run = $1 AND state IN ('waiting', 'running')) RETURNING id`,
      [run],
    );
    if (rows.length > 0) await this.#queue.deleteQueue(run);
  }

  /** Lets the trials of a run that did not run, or were interrupted, run after all. Returns how many. */
  async reopen(run: SubmittedRun): Promise<number> {
    const { id } = run.head;
    await this.#queue.createQueue(id, {
      retryLimit: 1_000_000,
      expireInSeconds: longestTrialSeconds,
      heartbeatSeconds,
      deleteAfterSeconds: longestTrialSeconds,
    });
    return this.#database.transaction(async (sql) => {
      const trials = await sql.query<{ id: string; place: number; slots: string[] }>(
        `UPDATE mcpvals.trials SET state = 'waiting', ended_xid = NULL, interrupted = false, released = fence
         WHERE run = $1 AND (state = 'cancelled' OR interrupted) RETURNING id, place, slots`,
        [id],
      );
      await sql.query("UPDATE mcpvals.runs SET state = 'running', stop = NULL WHERE id = $1", [id]);
      await this.#enqueue(sql, run, trials);
      return trials.length;
    });
  }

  /** Says that a worker is there, and what it refuses. */
  async report({ id, version, platform, labels, concurrency, refused }: WorkerRecord): Promise<void> {
    await this.#database.query(
      `INSERT INTO mcpvals.workers (id, version, platform, labels, concurrency, refused) VALUES ($1, $2, $3, $4, $5, $6)
       ON CONFLICT (id) DO UPDATE SET seen_at = now(), refused = excluded.refused`,
      [id, version, platform, labels, concurrency, JSON.stringify(refused)],
    );
  }

  /** The workers that said lately that they are there. */
  workers(): Promise<readonly WorkerRecord[]> {
    return this.#database.query(
      `SELECT id, version, platform, labels, concurrency, refused FROM mcpvals.workers
       WHERE seen_at > now() - interval '${heartbeatSeconds} seconds' ORDER BY id`,
    );
  }

  /** Takes up to `count` trials of a run that goes on. One that cannot be run yet, since others have what it shares, goes back to the queue. */
  async take(
    run: string,
    worker: string,
    { count, limits }: { readonly count: number; readonly limits: SubmittedRun["limits"] },
  ): Promise<readonly Lease[]> {
    const isLimited = Object.keys(limits).length > 0;
    return this.#database.transaction(async (sql) => {
      const db = asQueueDatabase(sql);
      if (isLimited) await sql.query("SELECT pg_advisory_xact_lock(hashtext($1))", [`mcpvals ${run}`]);
      const free = isLimited ? await this.#room(sql, run, limits) : undefined;
      if (free !== undefined && free.total <= 0) return [];
      const jobs = await this.#queue.fetch<{ trial: string }>(run, {
        db,
        batchSize: Math.min(count, free?.total ?? count),
        ...(isLimited && { groupConcurrency: { default: 1, tiers: tiersOf(limits) } }),
      });
      if (jobs.length === 0) return [];
      const rows = await sql.query<{ id: string; fence: number; released: number; slots: string[] }>(
        `UPDATE mcpvals.trials SET state = 'running', fence = fence + 1, worker = $3
         WHERE run = $1 AND id = ANY($2) AND state IN ('waiting', 'running')
           AND EXISTS (SELECT FROM mcpvals.runs WHERE id = $1 AND state = 'running')
         RETURNING id, fence, released, slots`,
        [run, jobs.map(({ data }) => data.trial), worker],
      );
      const taken = new Map(rows.map((row) => [row.id, row]));
      const leases: Lease[] = [];
      const stale: string[] = [];
      for (const { id: job, data } of jobs) {
        const row = taken.get(data.trial);
        if (row === undefined) stale.push(job);
        else leases.push({ trial: row.id, fence: row.fence, job, lostWorkers: row.fence - 1 - row.released });
      }
      const apart = leases.filter(({ lostWorkers }) => lostWorkers > 0).map(({ trial }) => trial);
      // That its worker ends is not counted until it begins.
      if (apart.length > 0)
        await sql.query("UPDATE mcpvals.trials SET released = released + 1 WHERE run = $1 AND id = ANY($2)", [
          run,
          apart,
        ]);
      // Their trials have ended or been cancelled.
      if (stale.length > 0) await this.#queue.complete(run, stale, null, { db });
      const over =
        free === undefined ? [] : leases.filter((lease) => !free.admit(taken.get(lease.trial)?.slots ?? []));
      if (over.length > 0) await this.#giveBack(sql, run, over);
      return leases.filter((lease) => !over.includes(lease));
    });
  }

  /** How many more trials may run. */
  async #room(
    sql: Sql,
    run: string,
    limits: SubmittedRun["limits"],
  ): Promise<{ readonly total: number; admit(slots: readonly string[]): boolean }> {
    const rows = await sql.query<{ slot: string; count: number }>(
      `SELECT slot, count(*)::int AS count FROM mcpvals.trials, unnest(slots || ARRAY['']) AS slot
       WHERE run = $1 AND state = 'running' GROUP BY slot`,
      [run],
    );
    const used = new Map(rows.map(({ slot, count }) => [slot, count]));
    const isFree = (slot: string): boolean => (used.get(slot) ?? 0) < (limits[slot] ?? Infinity);
    return {
      // A trial whose worker has ended still counts, until another takes it.
      total: Math.max(limits[""] === undefined ? Infinity : limits[""] - (used.get("") ?? 0), 0),
      admit(slots) {
        const all = [...slots, ""];
        if (!all.every(isFree)) return false;
        for (const slot of all) used.set(slot, (used.get(slot) ?? 0) + 1);
        return true;
      },
    };
  }

  /** Adds to the record of running trials. Returns the trials that somebody else has taken since, of which nothing was added. */
  async write(run: string, parts: readonly EventPart[]): Promise<readonly string[]> {
    if (parts.length === 0) return [];
    const rows = await this.#database.query<{ trial: string }>(
      `${insertEvents} RETURNING trial`,
      eventValues(run, parts),
    );
    const kept = new Set(rows.map(({ trial }) => trial));
    // What was written before an outage is no loss.
    const missing = parts.filter(({ lease }) => !kept.has(lease.trial)).map(({ lease }) => lease);
    return missing.length === 0 ? [] : this.#lost(run, missing);
  }

  async #lost(run: string, leases: readonly Lease[]): Promise<readonly string[]> {
    const rows = await this.#database.query<{ id: string; fence: number }>(
      "SELECT id, fence FROM mcpvals.trials WHERE run = $1 AND id = ANY($2) AND state = 'running'",
      [run, leases.map(({ trial }) => trial)],
    );
    const held = new Map(rows.map(({ id, fence }) => [id, fence]));
    return leases.filter(({ trial, fence }) => held.get(trial) !== fence).map(({ trial }) => trial);
  }

  /**
   * Ends trials with the last of their events: record and queue in one transaction. Of a trial that somebody else has taken since,
   * nothing is written. May be repeated. Returns how many it ended that were not interrupted.
   */
  async end(run: string, ended: readonly EndedTrial[]): Promise<number> {
    return this.#database.transaction(async (sql) => {
      const parts = ended.flatMap((each) => each.parts);
      if (parts.length > 0) await sql.query(insertEvents, eventValues(run, parts));
      const counted = await sql.query<{ interrupted: boolean }>(
        `UPDATE mcpvals.trials SET state = 'ended', ended_xid = pg_current_xact_id(), bytes = given.bytes, interrupted = given.interrupted
         FROM unnest($2::text[], $3::int[], $4::bigint[], $5::bool[]) AS given(trial, fence, bytes, interrupted)
         WHERE run = $1 AND id = given.trial AND trials.fence = given.fence AND state = 'running'
         RETURNING trials.interrupted`,
        [
          run,
          ended.map(({ lease }) => lease.trial),
          ended.map(({ lease }) => lease.fence),
          ended.map(({ bytes }) => bytes),
          ended.map(({ isInterrupted }) => isInterrupted),
        ],
      );
      // Also those that were given back meanwhile: who takes such a job finds that its trial has ended.
      const jobs = ended.map(({ lease }) => lease.job);
      await this.#queue.complete(run, jobs, null, { db: asQueueDatabase(sql), includeQueued: true });
      return counted.filter(({ interrupted }) => !interrupted).length;
    });
  }

  /**
   * Begins a trial in which workers have ended before: if this one ends too, that counts. Returns false when somebody else has
   * taken it since.
   */
  async begin(run: string, { trial, fence }: Lease): Promise<boolean> {
    const rows = await this.#database.query(
      `UPDATE mcpvals.trials SET released = released - 1
       WHERE run = $1 AND id = $2 AND fence = $3 AND state = 'running' RETURNING id`,
      [run, trial, fence],
    );
    return rows.length > 0;
  }

  /** Gives trials back that did not run to their end, since the worker is to end. */
  async release(run: string, leases: readonly Lease[]): Promise<void> {
    if (leases.length > 0) await this.#database.transaction((sql) => this.#giveBack(sql, run, leases));
  }

  async #giveBack(sql: Sql, run: string, leases: readonly Lease[]): Promise<void> {
    const rows = await sql.query<{ id: string }>(
      `UPDATE mcpvals.trials SET state = 'waiting', released = released + 1
       FROM unnest($2::text[], $3::int[]) AS given(trial, fence)
       WHERE run = $1 AND id = given.trial AND trials.fence = given.fence AND state = 'running' RETURNING id`,
      [run, leases.map(({ trial }) => trial), leases.map(({ fence }) => fence)],
    );
    const given = new Set(rows.map(({ id }) => id));
    const jobs = leases.filter(({ trial }) => given.has(trial)).map(({ job }) => job);
    if (jobs.length > 0) await this.#queue.fail(run, jobs, null, { db: asQueueDatabase(sql) });
  }

  /** Says that trials still run, and gives those of dead workers back. Returns the trials that somebody else has taken since, and the state of the run. */
  async heartbeat(
    run: string,
    leases: readonly Lease[],
  ): Promise<{ readonly lost: readonly string[]; readonly state: RemoteState }> {
    if (leases.length > 0)
      await this.#queue.touch(
        run,
        leases.map(({ job }) => job),
      );
    await this.#queue.supervise(run);
    const [row] = await this.#database.query<{ state: RemoteState }>(
      "SELECT state FROM mcpvals.runs WHERE id = $1",
      [run],
    );
    return { lost: leases.length === 0 ? [] : await this.#lost(run, leases), state: row?.state ?? "ended" };
  }

  /** How long a pause of a run still is, in milliseconds. */
  async pauseLeft(run: string, name: string): Promise<number> {
    const [row] = await this.#database.query<{ ms: number }>(
      `SELECT free[1] - ${clockMs} AS ms FROM mcpvals.limits WHERE run = $1 AND name = $2`,
      [run, name],
    );
    return row?.ms ?? 0;
  }

  /** Begins a pause, or makes it longer. */
  async pause(run: string, name: string, ms: number): Promise<void> {
    await this.#database.query(
      `INSERT INTO mcpvals.limits (run, name, free) VALUES ($1, $2, ARRAY[${clockMs} + $3::float8])
       ON CONFLICT (run, name) DO UPDATE SET free = ARRAY[greatest(limits.free[1], excluded.free[1])]`,
      [run, name, ms],
    );
  }

  /**
   * Takes the next free places of a rate, up to `count`: in how many milliseconds each begins. At most `requests` begin or are used in any
   * span of `perMs`, when none is used later than `validMs` after its beginning.
   */
  async reserve(
    run: string,
    name: string,
    { requests, perMs, count, validMs }: RateLimit & { readonly count: number; readonly validMs: number },
  ): Promise<readonly number[]> {
    // A large limit is kept in parts of its span, so that the row stays small.
    const parts = Math.ceil(requests / maxPlaces);
    const places = Math.floor(requests / parts);
    const [row] = await this.#database.query<{ next: readonly number[]; now: number }>(
      `INSERT INTO mcpvals.limits (run, name, free)
       VALUES ($1, $2, array_fill(0::float8, ARRAY[$3::int - $4::int]) || array_fill(${clockMs} + $5::float8, ARRAY[$4::int]))
       ON CONFLICT (run, name) DO UPDATE SET free = limits.free[$4::int + 1:] ||
         ARRAY(SELECT greatest(at, ${clockMs}) + $5 FROM unnest(limits.free[1:$4]) WITH ORDINALITY AS place(at, n) ORDER BY n)
       RETURNING free[$3::int - $4::int + 1:] AS next, ${clockMs} AS now`,
      [run, name, places, Math.min(count, places), perMs / parts + validMs],
    );
    if (row === undefined) throw this.#notFound(run);
    return row.next.map((at) => Math.max(at - row.now - perMs / parts - validMs, 0));
  }

  /** Gives the trials of dead workers back, in all runs. */
  async superviseAll(): Promise<void> {
    for (const { id, state } of await this.list()) if (state !== "ended") await this.#queue.supervise(id);
  }
}

/** The clock of the database, which is the same for all. */
const clockMs = "(extract(epoch FROM clock_timestamp()) * 1000)::float8";
const maxPlaces = 1000;

/** Events of those trials only that are still taken under their number. */
const insertEvents = `
  INSERT INTO mcpvals.events (run, trial, fence, part, lines)
  SELECT $1, given.trial, given.fence, given.part, given.lines
  FROM unnest($2::text[], $3::int[], $4::int[], $5::bytea[]) AS given(trial, fence, part, lines)
  JOIN mcpvals.trials ON trials.run = $1 AND trials.id = given.trial AND trials.fence = given.fence AND trials.state = 'running'
  ON CONFLICT DO NOTHING`;

function eventValues(run: string, parts: readonly EventPart[]): readonly unknown[] {
  return [
    run,
    parts.map(({ lease }) => lease.trial),
    parts.map(({ lease }) => lease.fence),
    parts.map(({ part }) => part),
    parts.map(({ lines }) => Buffer.from(lines)),
  ];
}

/** What a trial shares with others of which there is only so much: a lane, and servers with a limit. */
function slotsOf(plan: Plan, trial: Trial): readonly string[] {
  const limited = taskOf(trial, plan).servers.filter((name) => Object.hasOwn(plan.maxConcurrent ?? {}, name));
  return [...(trial.lane === undefined ? [] : [laneSlot(trial.lane)]), ...limited.map(serverSlot)];
}

const laneSlot = (lane: string): string => `lane ${lane}`;
const serverSlot = (server: string): string => `server ${server}`;

/** Most trials of a plan at once, by slot; by the empty text, of all. `atOnce`: what the eval says; undefined: nothing. */
export function limitsOf(
  { maxConcurrent = {}, trials }: Plan,
  atOnce: number | undefined,
): SubmittedRun["limits"] {
  const lanes = new Set(trials.flatMap(({ lane }) => lane ?? []));
  return Object.fromEntries([
    ...(atOnce === undefined ? [] : [["", atOnce] as const]),
    ...[...lanes].map((lane) => [laneSlot(lane), 1] as const),
    ...Object.entries(maxConcurrent).map(([name, most]) => [serverSlot(name), most] as const),
  ]);
}

/** Each number as the tier of its name. */
function tiersOf(limits: SubmittedRun["limits"]): Record<string, number> {
  return Object.fromEntries(Object.values(limits).map((most) => [`${most}`, most]));
}

/** The events of a trial, of their lines. */
export function eventsIn(lines: string): readonly TraceEvent[] {
  return lines.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as TraceEvent]));
}

function asQueueDatabase(sql: Sql): {
  executeSql(text: string, values?: unknown[]): Promise<{ rows: object[] }>;
} {
  return { executeSql: async (text, values) => ({ rows: [...(await sql.query<object>(text, values))] }) };
}
