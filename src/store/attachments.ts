import { createHash } from "node:crypto";
import { renameSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json } from "../core/formats/model.ts";
import { makeFolder } from "../files/make-folder.ts";
import type { ReadBudget } from "./read-journal.ts";
import { readRegularFile } from "../files/read-file.ts";
import type { EventOf, TraceEvent } from "../core/trace/events.ts";

/** The message of an event whose JSON is longer than this goes to a file of its own. */
const longestEvent = 256 * 1024;
const folderName = "attachments";
/** In bytes; what one trial may record is less. */
const largestAttachment = 256 * 1024 * 1024;

/** What an attachment's file holds. */
type Content = Pick<EventOf<"mcp.message">, "message" | "raw">;

/**
 * Large messages of a journal, each kept once under the SHA-256 of its file in the folder `attachments`; in the journal
 * `{"$attachment": "<SHA-256>"}` replaces the message.
 */
export class Attachments {
  readonly #folder: string;
  readonly #written = new Set<string>();
  #unsynced: string[] = [];

  constructor(folder: string) {
    this.#folder = join(folder, folderName);
  }

  /**
   * Gives the JSON of an event as it goes into the journal, after its large message has been written, so that a journal
   * never refers to a file that is not there. Throws what the file system throws.
   */
  detach(event: TraceEvent, json: string): string {
    if (event.type !== "mcp.message" || !needsFile(event, json)) return json;
    const { message, raw, ...rest } = event;
    const content = JSON.stringify(raw === undefined ? { message } : { message, raw });
    const sha256 = hash(content);
    if (!this.#written.has(sha256)) this.#write(sha256, content);
    return JSON.stringify({ ...rest, message: { $attachment: sha256 } });
  }

  /** Syncs the files written so far to disk. */
  async sync(): Promise<void> {
    const paths = this.#unsynced;
    this.#unsynced = [];
    for (const path of paths) {
      await using file = await open(path, "r+");
      await file.datasync();
    }
  }

  /** Written under another name first: a killed process must not leave half a file under a whole one's name. */
  #write(sha256: string, content: string): void {
    makeFolder(this.#folder);
    const path = join(this.#folder, `${sha256}.json`);
    writeFileSync(`${path}.part`, content);
    renameSync(`${path}.part`, path);
    this.#written.add(sha256);
    this.#unsynced.push(path);
  }
}

/** Restores an event's large message. Throws `store/corrupt` when its file is missing or was changed. */
export function attach(folder: string, event: TraceEvent, budget: ReadBudget): TraceEvent {
  if (event.type !== "mcp.message") return event;
  const sha256 = referenceOf(event.message);
  if (sha256 === undefined) return event;
  const path = join(folder, folderName, `${sha256}.json`);
  const content = contentOf(path);
  if (hash(content) !== sha256) {
    throw new McpvalsError("store/corrupt", `the journal's attachment ${path} does not match its name`);
  }
  return { ...event, ...(budget.parse(content) as Content) };
}

function contentOf(path: string): Buffer {
  try {
    return readRegularFile(path, largestAttachment);
  } catch (cause) {
    throw new McpvalsError("store/corrupt", `the journal's attachment ${path} cannot be read`, { cause });
  }
}

/** A message that looks like a reference is always stored in a file, so that references cannot be forged. */
function needsFile(event: EventOf<"mcp.message">, json: string): boolean {
  return json.length > longestEvent || referenceOf(event.message) !== undefined;
}

function referenceOf(message: Json): string | undefined {
  if (!isJsonObject(message)) return undefined;
  const sha256 = message["$attachment"];
  return typeof sha256 === "string" && /^[0-9a-f]{64}$/.test(sha256) ? sha256 : undefined;
}

function hash(content: string | Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}
