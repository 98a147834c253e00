import type { Stats } from "node:fs";
import { lstat, realpath, rename, writeFile } from "node:fs/promises";
import { dirname, isAbsolute, join, relative, sep } from "node:path";
import type { McpClient } from "../../core/formats/model.ts";
import type { ClientAdapter } from "../../core/formats/presets/preset.ts";
import type { Emit } from "../../core/trace/events.ts";
import { makeFolder } from "../../files/make-folder.ts";
import { readRegularFile } from "../../files/read-file.ts";
import { untilAborted } from "../../process/deadline.ts";
import { makeTemporaryFolder } from "../../process/folders.ts";
import { guardUndo, undo, type UndoStep } from "../../process/watchdog.ts";
import type { GatewayEndpoint } from "../gateway/endpoint.ts";
import { clientAdapters, mergeServers, serverEntries } from "./client-format.ts";
import {
  backupOf,
  clientConfigError,
  codeOf,
  missingBackup,
  type PlannedFile,
  reasonOf,
  recoverFolder,
  undoSteps,
  writeJournal,
} from "./journal.ts";

export interface ClientFilesOptions {
  /** How clients are to reach servers. Default: `http`. */
  readonly connect?: "http" | "bridge";
  readonly emit: Emit;
  readonly signal: AbortSignal;
}

/** Config files in a folder, until they are put back. */
export interface WrittenFiles {
  /**
   * Puts the folder back as it was: a user's own files byte for byte, what was not there is removed. Calling it again gives
   * the same promise. Throws McpvalsError `agent/client-config`.
   */
  restore(): Promise<void>;
}

/**
 * Writes config files that lead clients to our gateway into a folder. A user's own file is merged into, and kept beside it
 * until `restore`. If this process ends before, the watchdog puts it back; where there is none, the next run in the folder.
 * Who writes into a folder of this process's own first has it until `restore`, and others wait.
 *
 * Throws McpvalsError `agent/client-config`, and nothing is changed then: for a file that cannot be read, a link that leads
 * out of the folder, and a folder that another process has; and the signal's reason.
 */
export async function writeClientFiles(
  folder: string,
  clients: readonly McpClient[],
  endpoints: readonly GatewayEndpoint[],
  { connect = "http", emit, signal }: ClientFilesOptions,
): Promise<WrittenFiles> {
  if (clients.length === 0 || endpoints.length === 0) return { restore: () => Promise.resolve() };
  const real = await realFolder(folder);
  const giveBack = await takeFolder(real, signal);
  try {
    recoverFolder(real);
    const changes = await planChanges(real, groupByFile(clients), (adapter) =>
      serverEntries(endpoints, adapter, connect),
    );
    const restore = await applyChanges(real, changes);
    for (const { path, planned, clients: named } of changes) {
      const action = planned.replaced ? "replaced" : "created";
      for (const client of named) emit({ type: "client_config.written", client, path, action });
    }
    let restoring: Promise<void> | undefined;
    return { restore: () => (restoring ??= restore().finally(giveBack)) };
  } catch (error) {
    giveBack();
    throw error;
  }
}

async function realFolder(folder: string): Promise<string> {
  try {
    return await realpath(folder);
  } catch (error) {
    throw clientConfigError(`cannot write config files into ${folder}: ${reasonOf(error)}`, { cause: error });
  }
}

interface Change {
  readonly path: string;
  readonly text: string;
  readonly planned: PlannedFile;
  readonly clients: readonly McpClient[];
}

/** Some clients read the same file. */
function groupByFile(clients: readonly McpClient[]): ReadonlyMap<string, readonly McpClient[]> {
  return Map.groupBy(new Set(clients), (client) => clientAdapters[client].file);
}

async function planChanges(
  folder: string,
  byFile: ReadonlyMap<string, readonly McpClient[]>,
  entriesFor: (adapter: ClientAdapter) => Parameters<typeof mergeServers>[1],
): Promise<readonly Change[]> {
  const changes: Change[] = [];
  for (const [file, clients] of byFile) {
    const target = await inspectTarget(folder, file);
    const adapters = clients.map((client) => clientAdapters[client]);
    const text = adapters.reduce(
      (merged, adapter) =>
        merge(target, merged, (before) => mergeServers(before, entriesFor(adapter), adapter)),
      target.text ?? "",
    );
    const planned = { file, replaced: target.text !== undefined, madeFolder: !target.hasFolder };
    changes.push({ path: target.path, text, planned, clients });
  }
  return changes;
}

function merge({ path }: Target, text: string, work: (text: string) => string): string {
  try {
    return work(text);
  } catch (error) {
    throw clientConfigError(`cannot add servers to ${path}: ${reasonOf(error)}`, {
      hint: "Mend the file, or move it away; it was left as it is.",
      cause: error,
    });
  }
}

/** Gives what takes the changes back. Those that were made are taken back when one cannot be made. */
async function applyChanges(folder: string, changes: readonly Change[]): Promise<() => Promise<void>> {
  const files = changes.map(({ planned }) => planned);
  const steps = undoSteps(folder, files);
  await writeJournal(folder, files);
  const guard = guardUndo(steps);
  try {
    for (const change of changes) await apply(change);
  } catch (error) {
    undo(steps);
    guard.release();
    throw clientConfigError(`cannot write config files into ${folder}: ${reasonOf(error)}`, { cause: error });
  }
  return async () => {
    putBack(folder, files, steps);
    guard.release();
    await Promise.resolve();
  };
}

async function apply({ path, text, planned }: Change): Promise<void> {
  if (planned.madeFolder) makeFolder(dirname(path));
  if (planned.replaced) await rename(path, backupOf(path));
  // The address of the gateway is a secret.
  await writeFile(path, text, { flag: "wx", mode: 0o600 });
}

function putBack(folder: string, files: readonly PlannedFile[], steps: readonly UndoStep[]): void {
  const missing = missingBackup(folder, files);
  let reason = missing === undefined ? undefined : `${missing} is gone`;
  let cause: unknown;
  try {
    undo(steps);
  } catch (error) {
    reason ??= reasonOf(error);
    cause = error;
  }
  if (reason === undefined) return;
  throw clientConfigError(`cannot put back the config files in ${folder}: ${reason}`, {
    hint: "Files named *.mcpvals-backup are the user's own; rename them to what they were.",
    cause,
  });
}

const last = new Map<string, Promise<void>>();

/**
 * Waits until nobody else in this process has a folder, and takes it; what is returned gives it back. Rejects with the
 * signal's reason when it aborts first.
 */
async function takeFolder(folder: string, signal: AbortSignal): Promise<() => void> {
  const { promise: done, resolve } = Promise.withResolvers<void>();
  const before = last.get(folder) ?? Promise.resolve();
  const ours = before.then(() => done);
  last.set(folder, ours);
  void forget(folder, ours);
  try {
    await untilAborted(before, signal);
  } catch (error) {
    resolve();
    throw error;
  }
  return resolve;
}

async function forget(folder: string, turn: Promise<void>): Promise<void> {
  await turn;
  if (last.get(folder) === turn) last.delete(folder);
}

/** In bytes; a client's own file can hold more than servers. */
const largestFile = 1024 * 1024;

/** What is at the place of a client's file before it is written. */
export interface Target {
  readonly path: string;
  /** Undefined when there is no file yet. */
  readonly text: string | undefined;
  readonly hasFolder: boolean;
}

/**
 * Looks at the place of a file in a folder, which is absolute and without links. Throws McpvalsError `agent/client-config`
 * for what is no file, for a link that leads out of the folder, and for what cannot be read.
 */
async function inspectTarget(folder: string, file: string): Promise<Target> {
  const path = join(folder, ...file.split("/"));
  const hasFolder = await inspectFolder(folder, dirname(path));
  const found = hasFolder ? await look(path) : undefined;
  if (hasFolder && (await look(backupOf(path))) !== undefined) {
    throw clientConfigError(`${backupOf(path)} is in the way`, {
      hint: "It is what an earlier run kept and could not put back: rename it to what it was, or remove it.",
    });
  }
  if (found === undefined) return { path, text: undefined, hasFolder };
  if (found.isSymbolicLink()) await requireInside(folder, path);
  else if (!found.isFile()) throw clientConfigError(`${path} is not a file`);
  return { path, text: readText(path), hasFolder };
}

/** Of a folder in a folder: whether it is there. */
async function inspectFolder(folder: string, path: string): Promise<boolean> {
  const found = await look(path);
  if (found === undefined) return false;
  if (found.isSymbolicLink()) await requireInside(folder, path);
  else if (!found.isDirectory()) throw clientConfigError(`${path} is not a folder`);
  return true;
}

async function requireInside(folder: string, path: string): Promise<void> {
  let real: string;
  try {
    real = await realpath(path);
  } catch (error) {
    throw clientConfigError(`${path} is a link that leads nowhere`, { cause: error });
  }
  const way = relative(folder, real);
  if (way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way)) return;
  throw clientConfigError(`${path} is a link that leads out of ${folder}`, {
    hint: "Files outside the folder are not touched; put a copy in the place of the link, or choose another folder.",
  });
}

async function look(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR") return undefined;
    throw clientConfigError(`cannot look at ${path}: ${reasonOf(error)}`, { cause: error });
  }
}

function readText(path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(
      readRegularFile(path, largestFile),
    );
  } catch (error) {
    throw clientConfigError(`cannot read ${path}: ${reasonOf(error)}`, { cause: error });
  }
}

/** A file with `mcpServers` in a folder of its own. */
export interface McpConfigFile {
  /** Absolute path. */
  readonly path: string;
  /** Removes it. Calling it again does nothing. */
  remove(): void;
}

/** The form of Claude Code, which Copilot and others read too. */
const adapter = clientAdapters["claude-code"];

/** The text of a file with `mcpServers` that leads to our gateway. */
export function mcpConfigText(
  endpoints: readonly GatewayEndpoint[],
  connect: "http" | "bridge" = "http",
): string {
  const mcpServers = serverEntries(endpoints, adapter, connect);
  return `${JSON.stringify({ mcpServers }, undefined, 2)}\n`;
}

/**
 * Writes {@link mcpConfigText} outside of every folder that an agent works in, for programs that take the path of such a
 * file. Throws McpvalsError `agent/client-config`.
 */
export async function writeMcpConfigFile(
  endpoints: readonly GatewayEndpoint[],
  connect?: "http" | "bridge",
): Promise<McpConfigFile> {
  try {
    const folder = await makeTemporaryFolder("client");
    const path = join(folder, "mcp.json");
    const steps: readonly UndoStep[] = [
      { kind: "remove-file", path },
      { kind: "remove-folder", path: folder },
    ];
    const guard = guardUndo(steps);
    await writeFile(path, mcpConfigText(endpoints, connect), { flag: "wx", mode: 0o600 });
    return {
      path,
      remove() {
        undo(steps);
        guard.release();
      },
    };
  } catch (error) {
    throw clientConfigError(`cannot write a file for {mcpConfig}: ${reasonOf(error)}`, { cause: error });
  }
}
