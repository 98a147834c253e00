import { createHash } from "node:crypto";
import { closeSync, fdatasync, openSync, writeSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";
import { McpvalsError } from "../core/errors/error.ts";
import type { Json } from "../core/formats/model.ts";
import type { TraceEvent } from "../core/trace/events.ts";

const dataSync = promisify(fdatasync);
const flushBytes = 64 * 1024;
const flushMs = 100;
/** Messages larger than this go to a file of their own. */
const attachmentBytes = 256 * 1024;

/**
 * The append-only record of a run: JSON Lines, each `{"crc":"<CRC-32 of the event's text>","event":{…}}`. Large messages
 * are kept once, by their SHA-256, in the attachments folder.
 */
export class Journal implements AsyncDisposable {
  readonly #folder: string;
  readonly #file: number;
  readonly #attachments = new Map<string, Promise<void>>();
  #pending: string[] = [];
  #pendingBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  /** The sync that has not started yet: whoever commits before it starts is covered by it. */
  #nextSync: Promise<void> | undefined;
  #lastSync: Promise<void> = Promise.resolve();
  #closed = false;

  /** Opens `journal.jsonl` in an existing folder. Throws what the file system throws. */
  constructor(folder: string) {
    this.#folder = folder;
    this.#file = openSync(join(folder, "journal.jsonl"), "a");
  }

  /** Adds an event; it is on disk after the next {@link commit}, or within a moment. */
  append(event: TraceEvent): void {
    const text = this.#externalize(JSON.stringify(event), event);
    const crc = crc32(text).toString(16).padStart(8, "0");
    this.#pending.push(`{"crc":"${crc}","event":${text}}\n`);
    this.#pendingBytes += text.length;
    if (this.#pendingBytes >= flushBytes) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), flushMs).unref();
  }

  /** Hands everything to the operating system: from here on a killed process loses nothing. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#pending.length === 0) return;
    const bytes = Buffer.from(this.#pending.join(""));
    this.#pending = [];
    this.#pendingBytes = 0;
    for (let offset = 0; offset < bytes.length;) offset += writeSync(this.#file, bytes, offset);
  }

  /**
   * Makes what was appended so far survive a power loss. The write itself happens at once; the wait for the disk is
   * shared by all commits that fall into it, and need not be awaited between trials.
   */
  commit(): Promise<void> {
    this.flush();
    this.#nextSync ??= this.#lastSync.then(async () => {
      this.#nextSync = undefined;
      await Promise.all(this.#attachments.values());
      await dataSync(this.#file);
    });
    // A failed sync is reported to those who await it and must not fail the ones after it too.
    this.#lastSync = this.#nextSync.catch(() => undefined);
    return this.#nextSync;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    try {
      await this.commit();
    } finally {
      closeSync(this.#file);
    }
  }

  #externalize(text: string, event: TraceEvent): string {
    if (text.length <= attachmentBytes || event.type !== "mcp.message") return text;
    const content = JSON.stringify(event.message);
    const sha256 = createHash("sha256").update(content).digest("hex");
    if (!this.#attachments.has(sha256)) this.#attachments.set(sha256, this.#attach(sha256, content));
    const { raw: _raw, ...rest } = event;
    return JSON.stringify({ ...rest, message: { $attachment: sha256, bytes: Buffer.byteLength(content) } });
  }

  async #attach(sha256: string, content: string): Promise<void> {
    const folder = join(this.#folder, "attachments");
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, `${sha256}.json`), content);
  }
}

/** A journal as read back. */
export interface JournalContent {
  readonly events: readonly TraceEvent[];
  /** True when the last line was cut off, as a killed process leaves it. */
  readonly torn: boolean;
}

/**
 * Reads a run folder's journal and checks every line. Throws `store/corrupt` for a line whose checksum does not match,
 * unless it is the last one and cut off.
 */
export async function readJournal(folder: string): Promise<JournalContent> {
  const file = join(folder, "journal.jsonl");
  const lines = (await readFile(file, "utf8")).split("\n");
  const rest = lines.pop() ?? "";
  const events: TraceEvent[] = [];
  for (const [index, line] of lines.entries()) {
    const event = parseLine(line);
    if (event === undefined) {
      throw new McpvalsError(
        "store/corrupt",
        `line ${index + 1} of the journal does not match its checksum`,
        {
          location: { file, line: index + 1 },
          hint: "The file was changed or damaged after it was written; no totals can be taken from it.",
        },
      );
    }
    events.push(await withAttachment(folder, event));
  }
  return { events, torn: rest !== "" };
}

const linePrefix = /^\{"crc":"([0-9a-f]{8})","event":/;

function parseLine(line: string): TraceEvent | undefined {
  const match = linePrefix.exec(line);
  if (match === null) return undefined;
  const text = line.slice(match[0].length, -1);
  if (crc32(text) !== Number.parseInt(match[1] ?? "", 16)) return undefined;
  return JSON.parse(text) as TraceEvent;
}

async function withAttachment(folder: string, event: TraceEvent): Promise<TraceEvent> {
  if (event.type !== "mcp.message") return event;
  const sha256 = attachmentOf(event.message);
  if (sha256 === undefined) return event;
  const content = await readFile(join(folder, "attachments", `${sha256}.json`), "utf8");
  if (createHash("sha256").update(content).digest("hex") !== sha256) {
    throw new McpvalsError("store/corrupt", `the attachment ${sha256} does not match its name`);
  }
  return { ...event, message: JSON.parse(content) as Json };
}

function attachmentOf(message: Json): string | undefined {
  if (typeof message !== "object" || message === null || !("$attachment" in message)) return undefined;
  const sha256 = message["$attachment"];
  return typeof sha256 === "string" && /^[0-9a-f]{64}$/.test(sha256) ? sha256 : undefined;
}
