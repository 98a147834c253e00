import { appendFileSync, closeSync, fdatasyncSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { codeOf, McpvalsError } from "../base/error.ts";
import { maxDocumentBytes } from "../base/limits.ts";
import { readRegularFile } from "../base/files.ts";
import { asObject, type Json } from "../base/json.ts";
import { readTrials, type StoredEvent, type StoredTrial } from "./journal.ts";
import { isAlive, readHead } from "./run-files.ts";
import { RunFolder, writeJson } from "./run-folder.ts";

/** What goes on with a run that was cut off. */
export interface Reopening {
  /** The events of a trial that stay in the journal: all of a trial that has ended, none of one that runs again. */
  readonly keep: (trial: StoredTrial) => readonly StoredEvent[];
  /** Called for each line of the journal that is damaged; its trial runs again. */
  readonly onDamage: (error: McpvalsError) => void;
}

/**
 * Takes over the folder of a run whose process has ended, so that the run can go on in it. Its journal is written again with the
 * events that are kept; the other lines that can be read move to `journal.left-out.jsonl`, and a torn last line is dropped. An immediate end
 * at any moment leaves a folder that can be taken over again. Throws `store/in-use` while another process executes the run, and
 * `store/unwritable`.
 */
export async function reopenRun(folder: string, reopening: Reopening): Promise<RunFolder> {
  try {
    return await takeOver(folder, reopening);
  } catch (cause) {
    if (cause instanceof McpvalsError || !(cause instanceof Error) || codeOf(cause) === undefined)
      throw cause;
    throw new McpvalsError("store/unwritable", `the run in ${folder} cannot go on: ${cause.message}`, {
      hint: "Its trials are still there. Make the folder writable, or make room on its disk, and resume it again.",
      cause,
    });
  }
}

async function takeOver(folder: string, reopening: Reopening): Promise<RunFolder> {
  claim(folder);
  await writeJson(folder, "run.json", {
    ...readHead(folder),
    process: { pid: process.pid, host: hostname() },
  });
  rmSync(join(folder, claimFile), { force: true });
  await writeJournal(folder, reopening);
  for (const name of ["result.json", "overview.json"]) rmSync(join(folder, name), { force: true });
  return new RunFolder(folder);
}

const claimFile = "resume.lock";

/** Makes sure that of several processes only one takes over. */
function claim(folder: string): void {
  const path = join(folder, claimFile);
  const owner = { pid: process.pid, host: hostname() };
  for (;;) {
    try {
      const file = openSync(path, "wx", 0o600);
      writeSync(file, JSON.stringify(owner));
      closeSync(file);
      break;
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
      const other = ownerIn(path);
      if (other?.pid !== process.pid && isAlive(other)) throw inUse(folder);
      // Of several that find the claim of a process that has ended, one can rename it.
      try {
        renameSync(path, `${path}.${process.pid}`);
        rmSync(`${path}.${process.pid}`);
      } catch (cause) {
        if (codeOf(cause) !== "ENOENT") throw cause;
      }
    }
  }
  const { process: executing } = readHead(folder);
  // In a container, this process may have the number of the one that has ended.
  if (executing?.pid === process.pid || !isAlive(executing)) return;
  rmSync(path);
  throw inUse(folder);
}

/** The process that a claim names; undefined for one that was not written to its end. */
function ownerIn(path: string): { readonly pid: number; readonly host: string } | undefined {
  try {
    const { pid, host } = asObject(JSON.parse(readRegularFile(path, maxDocumentBytes).toString()) as Json);
    return typeof pid === "number" && typeof host === "string" ? { pid, host } : undefined;
  } catch {
    return undefined;
  }
}

function inUse(folder: string): McpvalsError {
  return new McpvalsError("store/in-use", `the run in ${folder} still goes on`, {
    hint: "Its process is alive. Wait until it has ended, or end it.",
  });
}

async function writeJournal(folder: string, { keep, onDamage }: Reopening): Promise<void> {
  const journal = join(folder, "journal.jsonl");
  const lines = new LineFile(`${journal}.part`);
  const leftOut: Buffer[] = [];
  try {
    for await (const trial of readTrials(folder, onDamage)) {
      const kept = keep(trial);
      for (const { line } of kept) lines.add(line);
      for (const { line } of trial.events.slice(kept.length)) leftOut.push(line);
    }
  } finally {
    lines.close();
  }
  for (const line of leftOut)
    appendFileSync(join(folder, "journal.left-out.jsonl"), Buffer.concat([line, lineBreak]), { mode: 0o600 });
  renameSync(`${journal}.part`, journal);
}

const lineBreak = Buffer.from("\n");
const flushBytes = 1024 * 1024;

/** A file of lines that is on disk when it is closed. */
class LineFile {
  readonly #file: number;
  #pending: Buffer[] = [];
  #bytes = 0;

  constructor(path: string) {
    this.#file = openSync(path, "w", 0o600);
  }

  add(line: Buffer): void {
    // A copy, since a part would keep the whole piece of the journal in memory.
    this.#pending.push(Buffer.from(line), lineBreak);
    this.#bytes += line.length + 1;
    if (this.#bytes >= flushBytes) this.#flush();
  }

  close(): void {
    try {
      this.#flush();
      fdatasyncSync(this.#file);
    } finally {
      closeSync(this.#file);
    }
  }

  #flush(): void {
    const bytes = Buffer.concat(this.#pending);
    this.#pending = [];
    this.#bytes = 0;
    for (let at = 0; at < bytes.length;) at += writeSync(this.#file, bytes, at);
  }
}
