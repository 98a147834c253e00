import { existsSync, realpathSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, join, sep } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { readRegularFile } from "../../files/read-file.ts";
import { livesElsewhere, ownIdentity, type ProcessIdentity } from "../../process/list-processes.ts";
import { undo, type UndoStep } from "../../process/watchdog.ts";
import { clientAdapters } from "./client-format.ts";

/** One file that is written into a folder; paths are relative to the folder, with slashes. */
export interface PlannedFile {
  readonly file: string;
  /** There was one, which is kept beside it. */
  readonly replaced: boolean;
  /** The folder that it is in had to be made. */
  readonly madeFolder: boolean;
}

/** Says, in the folder itself, who has written what into it, for whoever comes after a crash. */
const journalName = ".mcpvals-client-files.json";
const largestJournal = 64 * 1024;
const about =
  "mcpvals has written config files into this folder and removes this file when it has put them back. " +
  "If no mcpvals runs any more, the next run in this folder does it.";

/** Where a user's own file is kept. */
export function backupOf(path: string): string {
  return `${path}.mcpvals-backup`;
}

/** How to put a folder back as it was; `folder` is absolute. */
export function undoSteps(folder: string, files: readonly PlannedFile[]): readonly UndoStep[] {
  const path = (file: string): string => join(folder, ...file.split("/"));
  return [
    ...files.map(({ file, replaced }): UndoStep => {
      const to = path(file);
      return replaced ? { kind: "move-back", from: backupOf(to), to } : { kind: "remove-file", path: to };
    }),
    ...files
      .filter(({ madeFolder }) => madeFolder)
      .map(({ file }): UndoStep => ({ kind: "remove-folder", path: dirname(path(file)) })),
    { kind: "remove-file", path: join(folder, journalName) },
  ];
}

/** Notes what is about to be written. Throws McpvalsError `agent/client-config`, also when another process was faster. */
export async function writeJournal(folder: string, files: readonly PlannedFile[]): Promise<void> {
  const path = join(folder, journalName);
  try {
    const handle = await open(path, "wx", 0o600);
    try {
      await handle.writeFile(`${JSON.stringify({ about, ...ownIdentity(), files }, undefined, 2)}\n`);
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (codeOf(error) === "EEXIST") throw otherRun(folder);
    throw clientConfigError(`cannot write into ${folder}: ${reasonOf(error)}`, { cause: error });
  }
}

/**
 * Puts back what an earlier process that was killed has left in a folder. Throws McpvalsError `agent/client-config` when the
 * process lives, and for a folder that leads elsewhere. `folder` is absolute and without links.
 */
export function recoverFolder(folder: string): void {
  const path = join(folder, journalName);
  let text: string;
  try {
    text = readRegularFile(path, largestJournal).toString("utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return;
    throw clientConfigError(`cannot read ${path}: ${reasonOf(error)}`, { cause: error });
  }
  const { owner, files } = readJournal(text);
  if (owner !== undefined && livesElsewhere(owner)) throw otherRun(folder, owner.pid);
  const outside = files.map(({ file }) => dirname(join(folder, file))).find((path) => leadsOut(path, folder));
  if (outside !== undefined) {
    throw clientConfigError(
      `${outside} is a link that leads out of ${folder}, and ${path} names files in it`,
      {
        hint: `Somebody else wrote ${journalName}: remove it.`,
      },
    );
  }
  try {
    undo(undoSteps(folder, files));
  } catch (error) {
    throw clientConfigError(`cannot put back what an earlier run left in ${folder}: ${reasonOf(error)}`, {
      hint: `Files named *.mcpvals-backup in it are the ones to keep; then remove ${journalName}.`,
      cause: error,
    });
  }
}

/** Whoever made the folder may have put a link there, and files outside of it are not ours. */
function leadsOut(path: string, folder: string): boolean {
  try {
    return !`${realpathSync(path)}${sep}`.startsWith(`${folder}${folder.endsWith(sep) ? "" : sep}`);
  } catch {
    return false; // what is not there leads nowhere
  }
}

function otherRun(folder: string, pid?: number): Error {
  const who = pid === undefined ? "another run of mcpvals" : `another run of mcpvals (process ${pid})`;
  return clientConfigError(`${who} has its config files in ${folder}`, {
    hint:
      "Wait until it has ended, or give each run a folder of its own (cwd). If that process is something else, rename " +
      `the files *.mcpvals-backup to what they were and remove ${journalName}.`,
  });
}

interface Journal {
  readonly owner: ProcessIdentity | undefined;
  readonly files: readonly PlannedFile[];
}

/** A folder can come from anywhere, so that only files that are ours to write are believed to be ours. */
function readJournal(text: string): Journal {
  const { pid, started, files } = parse(text);
  const known = new Set(Object.values(clientAdapters).map(({ file }) => file));
  return {
    owner:
      typeof pid !== "number" || !Number.isInteger(pid) || pid <= 0
        ? undefined
        : { pid, ...(typeof started === "number" ? { started } : {}) },
    files: (Array.isArray(files) ? files : [])
      .map((item: unknown) => objectOf(item))
      .flatMap(({ file, replaced, madeFolder }) =>
        typeof file === "string" && known.has(file)
          ? [{ file, replaced: replaced === true, madeFolder: madeFolder === true && file.includes("/") }]
          : [],
      ),
  };
}

/** A journal that was cut off was written before anything else. */
function parse(text: string): Readonly<Record<string, unknown>> {
  try {
    return objectOf(JSON.parse(text));
  } catch {
    return {};
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

/** Whether every file that was moved aside is still where it was moved to. */
export function missingBackup(folder: string, files: readonly PlannedFile[]): string | undefined {
  return files
    .filter(({ replaced }) => replaced)
    .map(({ file }) => backupOf(join(folder, ...file.split("/"))))
    .find((path) => !existsSync(path));
}

/** The error for what stands in the way of a client's config file. */
export function clientConfigError(
  message: string,
  details: { readonly hint?: string; readonly cause?: unknown } = {},
): McpvalsError {
  return new McpvalsError("agent/client-config", message, details);
}

/** What went wrong, as a sentence's end. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
