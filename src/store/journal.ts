import { maxPartBytes, maxRecordDepth } from "../base/limits.ts";
import { McpvalsError } from "../base/error.ts";
import { createHash } from "node:crypto";
import {
  closeSync,
  constants,
  copyFileSync,
  fdatasync,
  openSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { basename, join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { promisify } from "node:util";
import { getHeapStatistics } from "node:v8";
import { crc32 } from "node:zlib";
import { asObject, hasMoreLevels, isJsonObject, type Json } from "../base/json.ts";
import { type Check, type EventOf, type EventStamp, isEventType, type TraceEvent } from "../model/event.ts";
import { makeFolder, readRegularFile } from "../base/files.ts";
import { corrupt, JournalFile, journalSize, type Line, linesOf } from "./journal-file.ts";

const dataSync = promisify(fdatasync);
const flushLength = 64 * 1024;
const flushMs = 100;
/** In characters of JSON; the message of a longer event is stored in a separate file. */
const maxEventLength = 256 * 1024;
const attachmentsFolder = "attachments";

/**
 * The append-only record of a run: JSON Lines, each `{"crc":"<CRC-32 of the event's text>","event":{…}}`. Each
 * large message is stored once, in a file of the folder `attachments` that is named after its SHA-256; in the journal
 * `{"$attachment": "<SHA-256>"}` replaces it. Read it with {@link readJournal}.
 */
export class Journal implements AsyncDisposable {
  readonly #file: number;
  readonly #attachments: string;
  readonly #written = new Set<string>();
  /** Attachments not yet synced to disk. */
  #unsynced: string[] = [];
  /** Lines that are not written yet. */
  #pending = "";
  #timer: NodeJS.Timeout | undefined;
  /** The next sync, which covers all commits until it starts. */
  #nextSync: Promise<void> | undefined;
  #lastSync: Promise<void> = Promise.resolve();
  /** The first write error; nothing is written after it, since the record would have a gap. */
  #failure: { readonly error: unknown } | undefined;
  #failureReported = false;
  #closed = false;

  /** Opens `journal.jsonl` in an existing folder. Throws what the file system throws. */
  constructor(folder: string) {
    this.#file = openSync(join(folder, "journal.jsonl"), "a");
    this.#attachments = join(folder, attachmentsFolder);
  }

  /**
   * Adds an event, given with its JSON; it is written at the next {@link commit}, or within 100 ms. Never throws: a write
   * error ends the record and is reported by `commit`. Events after the journal was closed belong to no trial and are dropped.
   */
  append(event: TraceEvent, json: string): void {
    if (this.#closed || this.#failure !== undefined) return;
    try {
      this.#pending += `${lineOf(this.#detach(event, json))}\n`;
      if (this.#pending.length >= flushLength) this.flush();
      else this.#timer ??= setTimeout(() => this.flush(), flushMs).unref();
    } catch (error) {
      this.flush();
      this.#failure ??= { error };
    }
  }

  /** Writes everything to the operating system, so that a killed process loses nothing. Never throws. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const lines = this.#pending;
    this.#pending = "";
    if (lines !== "") this.#writeNow(Buffer.from(lines));
  }

  /**
   * Makes all appended events survive a power loss. The write happens at once; the sync is shared by concurrent commits and
   * need not be awaited between trials. Rejects when any write has failed.
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
    const reported = this.#failureReported;
    try {
      await this.commit();
    } catch (error) {
      if (!reported) throw error;
    } finally {
      closeSync(this.#file);
    }
  }

  async #sync(): Promise<void> {
    try {
      if (this.#failure !== undefined) throw this.#failure.error;
      await Promise.all([this.#syncAttachments(), dataSync(this.#file)]);
    } catch (error) {
      this.#failure ??= { error };
      this.#failureReported = true;
      throw error;
    }
  }

  /**
   * Adds lines of another journal as they are, with their line breaks, and copies of the attachments that they refer to. Never
   * throws, as {@link append}.
   */
  copy(parts: Iterable<Uint8Array>, attachments: readonly string[]): void {
    if (this.#closed || this.#failure !== undefined) return;
    try {
      for (const path of attachments)
        this.#attach(basename(path), (part) => copyFileSync(path, part, constants.COPYFILE_FICLONE));
      this.flush();
      for (const lines of parts) this.#writeNow(lines);
    } catch (error) {
      this.flush();
      this.#failure ??= { error };
    }
  }

  #writeNow(bytes: Uint8Array): void {
    if (this.#failure !== undefined) return;
    try {
      for (let offset = 0; offset < bytes.length;) offset += writeSync(this.#file, bytes, offset);
    } catch (error) {
      this.#failure = { error };
    }
  }

  async #syncAttachments(): Promise<void> {
    for (const path of this.#unsynced.splice(0)) {
      await using file = await open(path, "r+");
      await file.datasync();
    }
  }

  /**
   * Returns the JSON of an event for the journal. A large message is written to its file first, so that the journal never
   * refers to a missing file. A message that looks like a reference is always stored in a file, so that references cannot be
   * forged.
   */
  #detach(event: TraceEvent, json: string): string {
    if (event.type !== "mcp.message") return json;
    if (json.length <= maxEventLength && referenceOf(event.message) === undefined) return json;
    const { message, raw, ...rest } = event;
    const content = JSON.stringify(raw === undefined ? { message } : { message, raw });
    const sha256 = hash(content);
    this.#attach(`${sha256}.json`, (part) => writeFileSync(part, content));
    return JSON.stringify({ ...rest, message: { $attachment: sha256 } });
  }

  /** Writes an attachment that is not there yet. */
  #attach(name: string, write: (path: string) => void): void {
    if (this.#written.has(name)) return;
    makeFolder(this.#attachments);
    const path = join(this.#attachments, name);
    // Under another name first: a killed process must not leave a partial file under the final name.
    const partial = `${path}.part`;
    write(partial);
    renameSync(partial, path);
    this.#written.add(name);
    this.#unsynced.push(path);
  }
}

/** The line of an event, without its line break, given the event's JSON. */
function lineOf(json: string): string {
  const crc = crc32(json).toString(16).padStart(8, "0");
  return `{"crc":"${crc}","event":${json}}`;
}

const outOfOrder = "is not the next of its trial";
const head = /^\{"crc":"([0-9a-f]{8})","event":$/;
const headBytes = '{"crc":"00000000","event":'.length;
const closeBrace = 0x7d;

/** The checksum that a line has; NaN where it does not begin as a line does. */
function crcIn(line: Buffer): number {
  const [, crc = ""] = head.exec(line.toString("latin1", 0, headBytes)) ?? [];
  return Number.parseInt(crc, 16);
}

function referenceOf(message: Json): string | undefined {
  const sha256 = isJsonObject(message) ? message["$attachment"] : undefined;
  return typeof sha256 === "string" && /^[0-9a-f]{64}$/.test(sha256) ? sha256 : undefined;
}

function hash(content: string | Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}

/** A journal as read back. */
export interface JournalContent {
  readonly events: readonly TraceEvent[];
  /** True when the last line is incomplete, as after a killed process. */
  readonly torn: boolean;
}

/**
 * Reads a run folder's journal and checks every line. Throws `store/corrupt` for a journal that is missing or has a line
 * that does not match its checksum or is not the next of its trial, unless it is an incomplete last line; also for one that is
 * larger than the memory.
 */
export async function readJournal(folder: string): Promise<JournalContent> {
  // Events take about twice the memory of their text.
  if (journalSize(folder) > getHeapStatistics().heap_size_limit / 4)
    throw new McpvalsError("store/corrupt", "the run is too large to read into memory", {
      hint: "Give Node more: NODE_OPTIONS=--max-old-space-size=MEGABYTES.",
    });
  const events: TraceEvent[] = [];
  const last = new Map<string, number>();
  using file = new JournalFile(folder);
  for await (const bytes of inTurns(file.wholeLines())) {
    for (const { start, end, stamp, text } of linesOf(bytes)) {
      const known = { stamp, text, number: () => events.length + 1 };
      const { event } = readStored(folder, bytes.subarray(start, end), known);
      const { trial, seq } = event;
      if (seq !== (last.get(trial) ?? 0) + 1) throw corrupt(folder, known.number(), outOfOrder);
      last.set(trial, seq);
      events.push(event);
    }
  }
  return { events, torn: file.isTorn };
}

/** Lets other work go on before each item. */
async function* inTurns<T>(items: Iterable<T>): AsyncGenerator<T> {
  for (const item of items) {
    await nextTurn();
    yield item;
  }
}

/** An event as a journal has it. */
export interface StoredEvent {
  readonly event: TraceEvent;
  /** Its line, without the line break. */
  readonly line: Buffer;
  /** Path of the file that has its message, where that is not in the line. */
  readonly attachment?: string;
}

/** The events of one trial, up to its grades. */
export interface StoredTrial {
  readonly id: string;
  readonly events: readonly StoredEvent[];
}

/**
 * Reads the trials of a run folder's journal, each as soon as its grades are read; at the end those that have none. Throws as
 * {@link readJournal} does. What a trial recorded after its grades is left out.
 *
 * With `onDamage`, a line that is damaged or not the next of its trial is reported there instead, and the trials that lack a line are left out.
 */
export async function* readTrials(
  folder: string,
  onDamage?: (error: McpvalsError) => void,
): AsyncGenerator<StoredTrial> {
  const open = new Map<string, StoredEvent[]>();
  const graded = new Set<string>();
  const damaged = new Set<string>();
  let position = 0;
  using file = new JournalFile(folder);
  for await (const bytes of inTurns(file.wholeLines())) {
    for (const { start, end, stamp, text } of linesOf(bytes)) {
      const at = position + start;
      let stored: StoredEvent;
      try {
        stored = readStored(folder, bytes.subarray(start, end), {
          stamp,
          text,
          number: () => file.lineAt(at),
        });
      } catch (error) {
        if (onDamage === undefined || !(error instanceof McpvalsError)) throw error;
        onDamage(error);
        continue;
      }
      const { trial: id, type, seq } = stored.event;
      if (damaged.has(id)) continue;
      if (stamp !== undefined && stamp.trial !== id) throw corrupt(folder, file.lineAt(at));
      if (graded.has(id) && seq > 1) continue;
      const events = open.get(id) ?? [];
      if (graded.has(id) || seq !== events.length + 1) {
        const error = corrupt(folder, file.lineAt(at), outOfOrder);
        if (onDamage === undefined) throw error;
        onDamage(error);
        damaged.add(id);
        open.delete(id);
        continue;
      }
      open.set(id, events);
      events.push(stored);
      if (type !== "trial.graded") continue;
      open.delete(id);
      graded.add(id);
      yield { id, events };
    }
    position += bytes.length;
  }
  for (const [id, events] of open) yield { id, events };
}

/** What is known of a line. */
export interface KnownLine extends Partial<Pick<Line, "stamp" | "text">> {
  /** Its number, for an error. */
  readonly number?: () => number;
}

/** Reads a line of a run folder's journal, without its line break. Throws `store/corrupt`. */
export function readStored(folder: string, line: Buffer, known: KnownLine = {}): StoredEvent {
  const failed = (): McpvalsError => corrupt(folder, known.number?.());
  const json = line.subarray(headBytes, -1);
  const crc = known.stamp?.crc ?? crcIn(line);
  if (line.at(-1) !== closeBrace || crc !== crc32(json)) throw failed();
  const parsed = parseStored(json, known.text?.slice(headBytes, -1));
  if (!isStamped(parsed)) throw failed();
  // With a matching checksum, the rest of the event is trusted.
  const written = inCurrentForm(parsed as TraceEvent);
  if (!isEventType(written.type)) throw unknownType(folder, written.type, known.number?.());
  const attachment = attachmentOf(folder, written);
  if (attachment === undefined) return { event: written, line };
  const event = { ...written, ...readAttachment(attachment) } as TraceEvent;
  return { event, line, attachment: attachment.path };
}

/** Whether a value has what every event has. */
function isStamped(value: unknown): value is Pick<TraceEvent, keyof EventStamp | "type"> {
  const { seq, at, trial, type } = asObject(value);
  const isOrdered = Number.isSafeInteger(seq) && typeof at === "number";
  return isOrdered && typeof trial === "string" && typeof type === "string";
}

function unknownType(folder: string, type: string, line?: number): McpvalsError {
  const named = `has an event of an unknown type, ${JSON.stringify(type.slice(0, 100))}`;
  return corrupt(folder, line, named, "Another version of mcpvals may have written it: use that one.");
}

/** An event as it is recorded now, of one that an earlier version recorded. */
function inCurrentForm(event: TraceEvent): TraceEvent {
  const { type }: { readonly type: string } = event;
  if (type === "agent.told") return { ...event, type: "agent.reported" };
  const isStep = event.type === "step.finished" && Array.isArray(event.checks);
  return isStep ? { ...event, checks: event.checks.map(currentCheck) } : event;
}

/** A check with the flags of earlier versions has `evidence` in their place. */
function currentCheck(check: Check & EarlierFlags): Check {
  // What is no check is found where it is used.
  if (typeof check !== "object" || (check as unknown) === null) return check;
  const { acted, untried, unplaced, ...rest } = check;
  if (untried === true) return { ...rest, evidence: "notRun" };
  if (unplaced === true) return { ...rest, evidence: "pathMissing" };
  return acted === true ? { ...rest, evidence: "sideEffect" } : check;
}

interface EarlierFlags {
  readonly acted?: true;
  readonly untried?: true;
  readonly unplaced?: true;
}

interface Attachment {
  readonly path: string;
  readonly sha256: string;
}

/** The file with the message of an event; undefined where the event has it itself. */
function attachmentOf(folder: string, event: TraceEvent): Attachment | undefined {
  const sha256 = event.type === "mcp.message" ? referenceOf(event.message) : undefined;
  return sha256 === undefined
    ? undefined
    : { sha256, path: join(folder, attachmentsFolder, `${sha256}.json`) };
}

/** The large message of an event. Throws `store/corrupt` when its file is missing or was changed. */
function readAttachment({ path, sha256 }: Attachment): Pick<EventOf<"mcp.message">, "message" | "raw"> {
  let content: Buffer;
  try {
    content = readRegularFile(path, maxPartBytes);
  } catch (cause) {
    throw new McpvalsError("store/corrupt", `the journal's attachment ${path} cannot be read`, { cause });
  }
  if (hash(content) !== sha256)
    throw new McpvalsError("store/corrupt", `the journal's attachment ${path} does not match its name`);
  return parseStored(content) as Pick<EventOf<"mcp.message">, "message" | "raw">;
}

/**
 * Parses a part of a run folder, which can come from anywhere; it need not be decoded where its `text` is known. Throws
 * `store/corrupt` for one that is nested too deeply, and an Error for invalid JSON.
 */
export function parseStored(json: Buffer, text: string = json.toString("utf8")): unknown {
  const value: unknown = JSON.parse(text);
  // Most records are too short to be too deep.
  if (json.length > 2 * maxRecordDepth && hasMoreLevels(value, maxRecordDepth))
    throw new McpvalsError(
      "store/corrupt",
      `a record of the run is nested more than ${maxRecordDepth} levels deep`,
    );
  return value;
}
