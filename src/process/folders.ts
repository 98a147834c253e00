import { execFile } from "node:child_process";
import { hash, randomUUID } from "node:crypto";
import { createReadStream, createWriteStream, readlinkSync } from "node:fs";
import { chmod, lstat, mkdtemp, readdir, realpath, rename, rm, stat } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { ownUser } from "../base/files.ts";
import { livesElsewhere, ownIdentity } from "./process-tree.ts";

/** The purpose of a folder, a part of its name. */
type Purpose = "work" | "home" | "sandbox" | "container" | "contract" | "input" | "script" | "client";

let cleaned: Promise<void> | undefined;

/**
 * Creates a temporary folder that only this user may enter, and gives its real path. The first call also removes the folders that
 * killed processes of this user have left. Throws errors of the file system.
 */
export async function makeTemporaryFolder(purpose: Purpose): Promise<string> {
  const home = await realpath(tmpdir());
  await (cleaned ??= removeLeftovers(home, /^mcpvals-[a-z]+-/));
  return mkdtemp(join(home, `mcpvals-${purpose}-${ownMark()}-`));
}

/** A part of a name that identifies this process as the creator. */
export function ownMark(): string {
  const { pid, started = 0 } = ownIdentity();
  return `${pid}-${started}-${machine()}`;
}

/**
 * Removes entries of a folder whose names are `prefix` and the {@link ownMark} of a process that has certainly ended: of this user, on
 * this machine, where all processes are visible. Never throws.
 */
export async function removeLeftovers(folder: string, prefix: RegExp): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    if (!prefix.test(name) || !wasLeft(name.replace(prefix, ""))) continue;
    const path = join(folder, name);
    try {
      const { uid } = await lstat(path);
      if (uid === (ownUser() ?? uid)) await removeFolder(path);
    } catch {
      continue; // another process was faster, or this user may not remove it
    }
  }
}

function wasLeft(rest: string): boolean {
  const [, pid, started, place] = /^(\d+)-(\d+)-([0-9a-f]{8})-/.exec(rest) ?? [];
  if (place !== machine()) return false;
  const maker = { pid: Number(pid), started: Number(started) };
  const self = ownIdentity();
  if (maker.pid === self.pid) return maker.started !== (self.started ?? 0);
  return !livesElsewhere(maker.started === 0 ? { pid: maker.pid } : maker);
}

let known: string | undefined;

/** Identifies the machine or container: processes of others that share the folder are not visible. */
function machine(): string {
  known ??= hash("sha256", `${hostname()}\0${processNamespace()}`).slice(0, 8);
  return known;
}

function processNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return ""; // only on Linux
  }
}

/** Longer paths may exceed a limit of the system. */
const maxPathLength = 700;

/**
 * Removes a folder with everything in it, also folders that are too deep for a path or have no permissions; it may be missing.
 * Throws errors of the file system.
 */
export async function removeFolder(path: string): Promise<void> {
  const remove = (): Promise<void> => rm(path, { recursive: true, force: true, maxRetries: 5 });
  try {
    await remove();
  } catch {
    await makeReachable(path);
    await remove();
  }
}

/** Makes all folders below one accessible, and moves deep ones up. Ignores errors: removing reports them. */
async function makeReachable(root: string): Promise<void> {
  const folders = [root];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    await chmod(folder, 0o700).catch(() => undefined);
    for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
      if (!entry.isDirectory()) continue;
      const path = join(folder, entry.name);
      const near = path.length <= maxPathLength ? path : join(root, randomUUID());
      if (near !== path) await rename(path, near).catch(() => undefined);
      folders.push(near);
    }
  }
}

/** Copies a file to where there is none, in pieces, so that the signal ends it at any size. Throws the signal's reason, and errors of the file system. */
export async function copyFileUntil(from: string, to: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { mode } = await stat(from);
  try {
    const highWaterMark = 1024 * 1024;
    await pipeline(createReadStream(from, { highWaterMark }), createWriteStream(to, { flags: "wx", mode }), {
      signal,
    });
  } catch (cause) {
    signal.throwIfAborted();
    throw cause;
  }
  await chmod(to, mode);
}

/** Absolute paths of the files and folders below a folder that git ignores; none without a repository or git. */
export async function ignoredByGit(folder: string): Promise<readonly string[]> {
  const list = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"];
  try {
    const { stdout } = await promisify(execFile)("git", ["-c", "core.fsmonitor=false", ...list], {
      cwd: folder,
      maxBuffer: 64 * 1024 * 1024,
      timeout: 30_000,
    });
    return stdout.split("\0").flatMap((path) => (path === "" ? [] : [join(folder, path.replace(/\/$/, ""))]));
  } catch {
    return [];
  }
}
