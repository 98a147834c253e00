import { fdatasync, openSync, closeSync, writeSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";
import type { TraceEvent } from "../core/trace/events.ts";
import { Attachments } from "./attachments.ts";

const dataSync = promisify(fdatasync);
const flushBytes = 64 * 1024;
const flushMs = 100;

/**
 * The append-only record of a run: JSON Lines, each `{"crc":"<CRC-32 of the event's text>","event":{…}}`. Large messages
 * are kept apart, see {@link Attachments}. Read it with `readJournal`.
 */
export class Journal implements AsyncDisposable {
  readonly #file: number;
  readonly #attachments: Attachments;
  #pending: string[] = [];
  #pendingBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  /** The next sync, which covers all commits until it starts. */
  #nextSync: Promise<void> | undefined;
  #lastSync: Promise<void> = Promise.resolve();
  /** What broke the first write; nothing is written after it, since that would leave a gap in the record. */
  #failure: { readonly error: unknown } | undefined;
  #failureTold = false;
  #closed = false;

  /** Opens `journal.jsonl` in an existing folder. Throws what the file system throws. */
  constructor(folder: string) {
    this.#file = openSync(join(folder, "journal.jsonl"), "a");
    this.#attachments = new Attachments(folder);
  }

  /**
   * Adds an event, given with its JSON; it is on disk after the next {@link commit}, or within a moment. Never throws: a
   * write that fails ends the record and is told by `commit`. What comes after the journal was closed belongs to no
   * trial and is left out.
   */
  append(event: TraceEvent, json: string): void {
    if (this.#closed || this.#failure !== undefined) return;
    try {
      this.#add(this.#attachments.detach(event, json));
    } catch (error) {
      this.flush();
      this.#failure ??= { error };
    }
  }

  /** Hands everything to the operating system: from here on a killed process loses nothing. Never throws. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const bytes = Buffer.from(this.#pending.join(""));
    this.#pending = [];
    this.#pendingBytes = 0;
    if (this.#failure !== undefined) return;
    try {
      for (let offset = 0; offset < bytes.length;) offset += writeSync(this.#file, bytes, offset);
    } catch (error) {
      this.#failure = { error };
    }
  }

  /**
   * Makes what was appended so far survive a power loss. The write itself happens at once; the wait for the disk is
   * shared by all commits that fall into it, and need not be awaited between trials. Rejects when any write has failed.
   */
  commit(): Promise<void> {
    this.flush();
    this.#nextSync ??= this.#lastSync.then(() => {
      this.#nextSync = undefined;
      return this.#sync();
    });
    // A failed sync rejects for its own callers and must not fail later syncs.
    this.#lastSync = this.#nextSync.catch(() => undefined);
    return this.#nextSync;
  }

  /** Commits and closes. Rejects when that fails, unless a commit already rejected. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const told = this.#failureTold;
    try {
      await this.commit();
    } catch (error) {
      if (!told) throw error;
    } finally {
      closeSync(this.#file);
    }
  }

  async #sync(): Promise<void> {
    try {
      if (this.#failure !== undefined) throw this.#failure.error;
      await Promise.all([this.#attachments.sync(), dataSync(this.#file)]);
    } catch (error) {
      this.#failureTold = true;
      throw error;
    }
  }

  #add(text: string): void {
    const crc = crc32(text).toString(16).padStart(8, "0");
    this.#pending.push(`{"crc":"${crc}","event":${text}}\n`);
    this.#pendingBytes += text.length;
    if (this.#pendingBytes >= flushBytes) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), flushMs).unref();
  }
}
