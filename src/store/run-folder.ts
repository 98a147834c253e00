import { maxDocumentBytes, maxFileBytes } from "../base/limits.ts";
import { codeOf, McpvalsError, messageOf } from "../base/error.ts";
import { exact } from "../base/json.ts";
import { createHash, randomBytes } from "node:crypto";
import { closeSync, readSync, renameSync, statSync, writeFileSync } from "node:fs";
import { mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import * as z from "zod";
import type { Task } from "../model/task.ts";
import type { Plan } from "../model/plan.ts";
import { blocksOf, jsonPieces } from "../base/json-pieces.ts";
import type { RecordedRun, RunHead, RunResult } from "../model/result.ts";
import { isForeign, isLink, makeFolder, openRegularFile, ownerOf, readRegularFile } from "../base/files.ts";
import { endsWithTrial } from "./journal-file.ts";
import { Journal, type JournalContent, parseStored, readJournal } from "./journal.ts";

/** Default folder of runs, relative to the working folder. */
export const defaultRunsFolder = join(".mcpvals", "runs");

/** The folder of one run: `run.json`, `plan.json`, `journal.jsonl`, `attachments/`, and at the end `result.json`, of a large run also `overview.json`. Without a plan it is not a run. */
export class RunFolder extends Journal {
  readonly path: string;

  /** Opens the journal in an existing folder. Throws what the file system throws. */
  constructor(path: string) {
    super(path);
    this.path = path;
  }

  /**
   * Waits until the journal is on disk and writes the result, then the plan of a folder that was created without one. Throws what
   * went wrong on the way, now or earlier.
   */
  async finish(result: RunResult, plan?: Plan): Promise<void> {
    await this.commit();
    await writeJson(this.path, "result.json", result);
    if (plan !== undefined) await writeJson(this.path, "plan.json", plan);
  }

  /** Writes the plan in the place of the one that is there. */
  writePlan(plan: Plan): Promise<void> {
    return writeJson(this.path, "plan.json", plan);
  }

  /** Removes everything that was written. Throws what the file system throws. */
  async discard(): Promise<void> {
    // What cannot be written need not be.
    await this[Symbol.asyncDispose]().catch(() => undefined);
    await rm(this.path, { recursive: true, force: true });
  }
}

/**
 * Sorts by time, to the millisecond, and is safe as a folder name: `20261121-224559-3f9a2c1`, in UTC. The last part
 * begins with the milliseconds, in hexadecimal; the rest of it is random.
 */
export function runId(startedAt: string): string {
  const stamp = startedAt.replaceAll(/[-:]/g, "").slice(0, 15).replace("T", "-");
  const milliseconds = Number(startedAt.slice(20, 23)).toString(16).padStart(3, "0");
  return `${stamp}-${milliseconds}${randomBytes(2).toString("hex")}`;
}

/**
 * Creates the folder of a run below `runs` and writes the plan, if it is to be a run before it has ended. Throws `store/unwritable`
 * when that fails.
 */
export async function createRunFolder(runs: string, start: RunHead, plan?: Plan): Promise<RunFolder> {
  const path = join(runs, start.id);
  try {
    makeFolder(runs);
    // A recording can contain private data.
    await mkdir(path, { mode: 0o700 });
    if (basename(resolve(runs, "..")) === ".mcpvals") keepOutOfGit(resolve(runs, ".."));
    await writeJson(path, "run.json", { ...start, process: { pid: process.pid, host: hostname() } });
    // The plan makes it a run, which has a journal.
    const folder = new RunFolder(path);
    if (plan !== undefined) await writeJson(path, "plan.json", plan);
    return folder;
  } catch (cause) {
    throw new McpvalsError("store/unwritable", `the run cannot be written to ${path}: ${messageOf(cause)}`, {
      hint: "Make the folder writable, or choose another one: run, check and grade have --output DIR.",
      cause,
    });
  }
}

/**
 * Refuses the default folder of runs if another user may have planted it to redirect what is written: if it is a link, or
 * belongs neither to this user nor to the owner of `cwd`. Throws `store/unwritable`.
 */
export function refusePlanted(cwd: string): void {
  for (const path of [dirname(defaultRunsFolder), defaultRunsFolder].map((each) => join(cwd, each))) {
    if (!isLink(path) && !isForeign(path, [ownerOf(cwd)])) continue;
    const what = isLink(path) ? "is a link" : "belongs to another user";
    throw new McpvalsError("store/unwritable", `the run cannot be written: ${path} ${what}`, {
      hint: "Whoever put it there decides where the record goes. Remove it, or name a folder that you trust with --output DIR.",
    });
  }
}

/** Makes git ignore a folder, unless it has a `.gitignore` already. Throws what the file system throws. */
function keepOutOfGit(folder: string): void {
  try {
    writeFileSync(join(folder, ".gitignore"), "*\n", { flag: "wx" });
  } catch (error) {
    // The user's own file is kept.
    if (codeOf(error) !== "EEXIST") throw error;
  }
}

/** Written under another name first: a killed process must not leave half a document. */
export async function writeJson(folder: string, name: string, document: object): Promise<void> {
  const path = join(folder, name);
  await writeFile(`${path}.part`, blocksOf(jsonPieces(document)));
  await rename(`${path}.part`, path);
}

/** A run as read back from its folder. */
export interface StoredRun extends RecordedRun, JournalContent {
  readonly folder: string;
}

/** A stored run without its events, with the name of what was run. */
export type OpenedRun = Omit<StoredRun, keyof JournalContent> &
  Pick<RunHead, "source" | "command" | "retryOf">;

/**
 * Finds a run by id, unambiguous start of an id, `latest`, or the path of its folder, and reads it. Throws
 * `store/not-found`, or `store/corrupt` when one of the files is damaged or missing. A run that did not finish has no
 * `result.json`.
 */
export async function readRun(runs: string, name: string): Promise<StoredRun> {
  const opened = await openRun(runs, name);
  return { ...opened, ...(await readJournal(opened.folder)) };
}

/** The same without the journal, which can be larger than the memory. */
export async function openRun(runs: string, name: string): Promise<OpenedRun> {
  const folder = await findRun(runs, name);
  const read = <T extends object>(file: string, members: readonly (string & keyof T)[]): T =>
    readDocument<T>(folder, file, members);
  const plan = read<Plan>("plan.json", ["agents", "tasks", "trials"]);
  const head = read<RunHead>("run.json", ["id", "startedAt", "environment"]);
  const result = (await hasFile(folder, "result.json")) ? readEnd(folder) : undefined;
  return {
    ...head,
    folder,
    plan,
    ...(result === undefined
      ? {}
      : {
          durationMs: result.durationMs,
          interrupted: result.verdict === "interrupted",
          ...exact({ budget: result.budget }),
        }),
  };
}

/**
 * Reads the newest run of a source that was not a check; undefined when there is none. Throws `store/corrupt` when its files are damaged,
 * and `store/not-found` when the folder cannot be listed.
 */
export async function readLastRun(runs: string, source: string): Promise<StoredRun | undefined> {
  for (const id of (await listRuns(runs)).toReversed()) {
    const folder = join(runs, id);
    if (sourceIn(folder) !== source) continue;
    const { tasks } = readDocument<Plan>(folder, "plan.json", ["tasks"]);
    if (!tasks.some(({ form }) => form === "check")) return readRun(runs, id);
  }
  return undefined;
}

/** What the run of a folder has run; undefined where its files do not say, since another run's damage is of no interest. */
function sourceIn(folder: string): string | undefined {
  try {
    return readDocument<RunHead>(folder, "run.json", ["id"]).source;
  } catch {
    return undefined;
  }
}

/** Reads a document of the run folder, and checks that it has the given members. Throws `store/corrupt`. */
export function readDocument<T extends object>(
  folder: string,
  name: string,
  members: readonly (string & keyof T)[],
): T {
  try {
    const document = parseStored(readRegularFile(join(folder, name), maxDocumentBytes));
    const isObject = typeof document === "object" && document !== null;
    if (isObject && members.every((key) => Object.hasOwn(document, key))) return document as T;
    throw new Error("it is not a document of a run");
  } catch (cause) {
    throw unreadable(folder, name, cause);
  }
}

/** Most bytes of a document before its trials. */
const maxHeadLength = 16 * 1024 * 1024;
const opening = '\n  "trials": [\n';
/** Bytes that are read at once: before the trials of a document, and from there on. */
const [headBytes, pieceBytes] = [16 * 1024, 64 * 1024];

/** A part of a document of a run. Its bytes are only valid until the next part is asked for. */
interface DocumentPart {
  readonly part: "before" | "trials" | "after";
  readonly bytes: Buffer;
}

/**
 * Reads a document with a list of trials a piece at a time: what stands before them, with the bracket that opens their list; whole trials, some at a
 * time; the rest. Nothing for one that is not written as mcpvals writes it. Throws an Error for one that ends within its trials, and what the file system
 * throws.
 */
export function* documentParts(folder: string, name: string): Generator<DocumentPart> {
  // Every line break is layout: a trial is one line, or, in older runs, several.
  const [between, closing] = ["},\n    {", "}\n  ]"] as const;
  const file = openRegularFile(join(folder, name), maxDocumentBytes);
  let bytes = Buffer.allocUnsafeSlow(headBytes);
  let length = 0;
  const known = (end = length): Buffer => bytes.subarray(0, end);
  const drop = (count: number): void => {
    length = bytes.copy(bytes, 0, count, length);
  };
  // At least as much as is there, which would else be searched again and again.
  const readMore = (least: number): boolean => {
    const wanted = Math.max(least, length);
    if (bytes.length - length < wanted) {
      const larger = Buffer.allocUnsafeSlow(length + wanted);
      bytes.copy(larger, 0, 0, length);
      bytes = larger;
    }
    const count = readSync(file, bytes, length, wanted, null);
    length += count;
    return count > 0;
  };
  try {
    let at: number;
    while ((at = known().indexOf(opening)) === -1) if (length > maxHeadLength || !readMore(headBytes)) return;
    yield { part: "before", bytes: known(at + opening.length) };
    drop(at + opening.length);
    while ((at = known().indexOf(closing)) === -1) {
      const last = known().lastIndexOf(between);
      if (last !== -1) {
        yield { part: "trials", bytes: known(last + 1) };
        drop(last + between.length - 1);
      }
      if (!readMore(pieceBytes)) throw new Error("it ends within its list of trials");
    }
    yield { part: "trials", bytes: known(at + 1) };
    drop(at + 1);
    while (readMore(pieceBytes));
    yield { part: "after", bytes: known() };
  } finally {
    closeSync(file);
  }
}

/** A document of a run, as far as its list of trials; undefined where it is not written as mcpvals writes it. */
export function readBeforeTrials<T extends { readonly trials: unknown }>(
  folder: string,
  name: string,
): Omit<T, "trials"> | undefined {
  try {
    const [before] = documentParts(folder, name);
    if (before === undefined) return undefined;
    const members = before.bytes.toString("utf8").slice(0, -opening.length).replace(/,$/, "");
    return parseStored(before.bytes, `${members}}`) as Omit<T, "trials">;
  } catch {
    return undefined;
  }
}

/** Size of a result that takes long to read as a whole, in bytes. */
const largeResult = 8 * 1024 * 1024;

/** How a run came to its end. Throws `store/corrupt`. */
function readEnd(folder: string): Pick<RunResult, "verdict" | "durationMs" | "budget"> {
  const isLarge = (statSync(join(folder, "result.json"), { throwIfNoEntry: false })?.size ?? 0) > largeResult;
  const read = isLarge ? readBeforeTrials<RunResult>(folder, "result.json") : undefined;
  return read ?? readDocument<RunResult>(folder, "result.json", ["verdict", "durationMs"]);
}

/** The error of a document of the run folder that cannot be read. */
export function unreadable(folder: string, name: string, cause: unknown): McpvalsError {
  if (cause instanceof McpvalsError) return cause;
  const otherwise =
    name === "result.json" && hasEnd(folder)
      ? " The journal has all that it says: remove it, and mcpvals show reads the journal."
      : "";
  return new McpvalsError("store/corrupt", `${name} in ${folder} cannot be read: ${messageOf(cause)}`, {
    hint: `The file was changed or damaged after it was written.${otherwise}`,
    cause,
  });
}

/** Whether the journal of a run is as one that came to its end, as far as that can be told without reading all of it. */
function hasEnd(folder: string): boolean {
  try {
    return endsWithTrial(folder);
  } catch {
    return false;
  }
}

export async function hasFile(folder: string, name: string): Promise<boolean> {
  return stat(join(folder, name)).then(
    () => true,
    (error: unknown) => codeOf(error) !== "ENOENT",
  );
}

/** The folder of a run, by id, unambiguous start of an id, `latest`, or path. Throws `store/not-found`. */
export async function findRun(runs: string, name: string): Promise<string> {
  for (const candidate of [resolve(name), join(runs, name)]) {
    if (name !== "" && (await isRunFolder(candidate))) return candidate;
  }
  const ids = await listRuns(runs);
  const matches = name === "latest" ? ids.slice(-1) : ids.filter((id) => id.startsWith(name));
  const [only, ...others] = matches;
  if (only !== undefined && others.length === 0) return join(runs, only);
  throw notFound(runs, name, matches.length > 1 ? matches : ids);
}

function notFound(runs: string, name: string, ids: readonly string[]): McpvalsError {
  const newest = ids.slice(-5).toReversed();
  return new McpvalsError("store/not-found", `no single run matches "${name}" in ${runs}`, {
    hint:
      newest.length === 0 ? "There are no runs there yet." : `There are, newest first: ${newest.join(", ")}`,
  });
}

/** Ids of the runs below a folder, oldest first, without the folders of runs that ended before their plan was written. */
async function listRuns(runs: string): Promise<string[]> {
  const names = await readdir(runs).catch((cause: unknown) => {
    if (codeOf(cause) === "ENOENT") return [];
    throw new McpvalsError("store/not-found", `the runs in ${runs} cannot be listed: ${messageOf(cause)}`, {
      cause,
    });
  });
  const ids = names.filter((name) => /^\d{8}-\d{6}-/.test(name)).toSorted();
  const begun = await Promise.all(ids.map((id) => isRunFolder(join(runs, id))));
  return ids.filter((_, index) => begun[index]);
}

async function isRunFolder(path: string): Promise<boolean> {
  return stat(join(path, "plan.json")).then(
    (found) => found.isFile(),
    () => false,
  );
}

const file = join(dirname(defaultRunsFolder), "proofs.json");
/** Maximum number of recorded tasks; the oldest are dropped first. */
const maxTasks = 10_000;
const proofsSchema = z.object({ version: z.literal(1), tasks: z.array(z.string()) });

/**
 * Records in `.mcpvals/proofs.json` of the working folder that these tasks fail when the agent does nothing. A task that is
 * changed later counts as unproven again. Throws `store/unwritable`, or what the file system throws.
 */
export function recordProofs(cwd: string, tasks: readonly Task[]): void {
  refusePlanted(cwd);
  const path = join(cwd, file);
  const hashes = [...new Set([...readHashes(path), ...tasks.map(hashOf)])].slice(-maxTasks);
  makeFolder(dirname(path));
  keepOutOfGit(dirname(path));
  writeFileSync(`${path}.part`, JSON.stringify({ version: 1, tasks: hashes }), { mode: 0o600 });
  renameSync(`${path}.part`, path);
}

/** The tasks that {@link recordProofs} has not recorded as they are now. */
export function unprovenTasks(cwd: string, tasks: readonly Task[]): readonly Task[] {
  const known = new Set(readHashes(join(cwd, file)));
  return tasks.filter((task) => !known.has(hashOf(task)));
}

/** Empty when the file is absent or invalid: then `run` only prints an additional note. */
function readHashes(path: string): readonly string[] {
  try {
    return proofsSchema.parse(JSON.parse(readRegularFile(path, maxFileBytes).toString())).tasks;
  } catch {
    return [];
  }
}

/** Limits and numbers of attempts do not change what a task checks. */
function hashOf({ name, turns, verify, expectTools, graders, portable }: Task): string {
  const { timeoutMs: _, runs: __, ...rest } = portable ?? {};
  return createHash("sha256")
    .update(JSON.stringify([name, turns, verify, expectTools, graders, rest]))
    .digest("hex");
}
