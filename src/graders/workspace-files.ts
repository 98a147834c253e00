import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { lstat, open, readdir, realpath } from "node:fs/promises";
import { join, resolve } from "node:path";
import picomatch from "picomatch";
import { codeOf, messageOf } from "../base/error.ts";
import { withoutUndefined } from "../base/json.ts";
import type { EventOf, FileContent, WorkspaceFile } from "../model/event.ts";
import { isInside } from "../base/files.ts";

/** Maximum length of the recorded text of a file, and of all files of a trial together, in bytes. */
const maxTextLength = 256 * 1024;
const maxText = 4 * 1024 * 1024;
/** Larger files are not read, in bytes. */
const maxReadBytes = 100 * 1024 * 1024;
/** Maximum number of files that are recorded for a glob, and of entries of folders that are read to find them. */
const maxFiles = 100;
const maxEntries = 20_000;

type Found = Pick<EventOf<"workspace.files">, "name" | "files" | "incomplete">;

interface Workspace {
  /** Absolute path. */
  readonly workspace: string;
  readonly signal: AbortSignal;
}

/**
 * Reads what is at paths of the workspace, and the files that fit globs. Links that lead out of the workspace are not followed.
 * Throws the signal's reason.
 */
export async function* lookAtWorkspace(
  names: readonly string[],
  { workspace, signal }: Workspace,
): AsyncGenerator<Found> {
  const root = await realpath(workspace);
  let room = maxText;
  for (const name of names) {
    const found = await pathsOf(name, { workspace: root, signal });
    let { incomplete } = found;
    const files: WorkspaceFile[] = [];
    for (const path of found.paths) {
      signal.throwIfAborted();
      const file = await lookAt(path, root, Math.min(room, maxTextLength));
      // A file that a glob has found exists: its name is not UTF-8, or it was removed just now.
      if (file === undefined && path !== name) incomplete ??= `${path} could not be read`;
      if (file === undefined) continue;
      room -= file.text === undefined ? 0 : (file.size ?? 0);
      files.push(file);
    }
    yield withoutUndefined({ name, files, incomplete });
  }
}

interface Paths {
  readonly paths: readonly string[];
  readonly incomplete?: string | undefined;
}

/** A glob may be the name of a file, which then is meant. */
async function pathsOf(name: string, place: Workspace): Promise<Paths> {
  const { isGlob } = picomatch.scan(name);
  if (!isGlob || (await exists(join(place.workspace, name)))) return { paths: [name] };
  return pathsOfGlob(name, place);
}

/** Folders called `.git` and `node_modules` are searched only if the glob names them; links are not followed. */
async function pathsOfGlob(glob: string, { workspace, signal }: Workspace): Promise<Paths> {
  const fits = picomatch(glob, { dot: true, nonegate: true, windows: false, strictSlashes: true });
  const names = glob.split("/");
  const isDeep = /\*\*|[{(]/.test(glob);
  const enters = (folder: string): boolean =>
    names.includes(folder) || (folder !== ".git" && folder !== "node_modules");
  const open: string[] = [""];
  const paths: string[] = [];
  let entries = 0;
  let unread: string | undefined;
  for (let prefix = open.shift(); prefix !== undefined; prefix = open.shift()) {
    signal.throwIfAborted();
    const inside = await readdir(join(workspace, prefix), { withFileTypes: true }).catch(() => undefined);
    if (inside === undefined) {
      unread ??= `the folder ${prefix} could not be read`;
      continue;
    }
    entries += inside.length;
    if (entries > maxEntries)
      return { paths, incomplete: `the search ended after ${maxEntries} files and folders` };
    for (const entry of inside.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = `${prefix}${entry.name}`;
      if (entry.isDirectory()) {
        if ((isDeep || path.split("/").length < names.length) && enters(entry.name)) open.push(`${path}/`);
        continue;
      }
      if (!fits(path)) continue;
      if (paths.length === maxFiles)
        return { paths, incomplete: `more than ${maxFiles} files fit, and only so many were recorded` };
      paths.push(path);
    }
  }
  return { paths, incomplete: unread };
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

/** Undefined where nothing exists. */
async function lookAt(path: string, root: string, room: number): Promise<WorkspaceFile | undefined> {
  const place = join(root, path);
  try {
    await lstat(place);
  } catch (error) {
    return isAbsence(error) ? undefined : { path, kind: "other" };
  }
  const real = await realpath(place).catch(() => undefined);
  if (real === undefined || !isInside(root, real)) return { path, kind: "link" };
  try {
    return { path, ...(await readContent(real, room)) };
  } catch {
    return { path, kind: "other" };
  }
}

function isAbsence(error: unknown): boolean {
  const code = codeOf(error);
  // ENOTDIR: a part of the path is a file, so that nothing can be there.
  return code === "ENOENT" || code === "ENOTDIR" || code === "ENAMETOOLONG";
}

/** Reads what is at a path that is not a link, with its text if it has at most `room` bytes. */
async function readContent(path: string, room: number): Promise<Omit<WorkspaceFile, "path">> {
  // Opening a pipe would block without the flag, and a link may have come meanwhile. Windows has neither.
  const flags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0);
  await using file = await open(path, flags);
  const stats = await file.stat();
  if (stats.isDirectory()) return { kind: "folder" };
  if (!stats.isFile()) return { kind: "other" };
  if (stats.size > maxReadBytes) return { kind: "file", size: stats.size };
  const hash = createHash("sha256");
  const kept: Buffer[] = [];
  let size = 0;
  // It may grow while it is read.
  for await (const chunk of file.createReadStream({ end: maxReadBytes, autoClose: false })) {
    const bytes = chunk as Buffer;
    hash.update(bytes);
    size += bytes.length;
    if (size <= room) kept.push(bytes);
  }
  const text = size <= room ? decodeText(Buffer.concat(kept)) : undefined;
  return withoutUndefined({ kind: "file" as const, size, sha256: hash.digest("hex"), text });
}

/** Undefined for bytes that are not UTF-8, and for those with a NUL, such as UTF-16. */
function decodeText(bytes: Buffer): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Reads a file that the settings of a grader name, following links. Throws an Error that names it. */
export async function readNamedFile(dir: string, file: string): Promise<FileContent> {
  const content = await realpath(resolve(dir, file))
    .then((path) => readContent(path, maxTextLength))
    .catch((cause: unknown) => {
      throw new Error(`cannot read ${file}: ${messageOf(cause)}`, { cause });
    });
  const { kind, size, ...rest } = content;
  if (kind !== "file" || size === undefined) throw new Error(`cannot read ${file}: it is not a file`);
  return { size, ...rest };
}
