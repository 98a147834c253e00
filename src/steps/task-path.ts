import { readlink, realpath } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import type { TrialContext } from "./step-runner.ts";

export interface TaskPathOptions {
  /** The place itself is made, replaced or removed, so that a link there is not followed, those before it are. */
  readonly forWriting: boolean;
}

/**
 * Makes a path of a task absolute: a relative one starts from the task's folder. What it really leads to, all links
 * followed as far as they exist, must lie in the task's folder, in the workspace or, to be read, in the task's repository,
 * unless the trial allows others; and neither of the first two may be written over as a whole, in any trial. Throws McpvalsError `task/outside`, and
 * `step/cannot-run` for what is no path.
 */
export async function resolveTaskPath(
  path: string,
  trial: Pick<TrialContext, "dir" | "repository" | "workspace" | "allowOutside">,
  { forWriting }: TaskPathOptions,
): Promise<string> {
  const absolute = resolve(trial.dir, path);
  try {
    const real = forWriting ? await realEntry(absolute) : await realPath(absolute);
    const folders = await Promise.all([trial.dir, trial.workspace].filter(isAbsolute).map(realPath));
    if (forWriting && folders.some((folder) => isInside(real, folder))) throw wholeFolder(path);
    const readable = forWriting || trial.repository === undefined ? [] : [await realPath(trial.repository)];
    if (!trial.allowOutside && ![...folders, ...readable].some((folder) => isInside(folder, real)))
      throw outside(path, real, trial);
    return absolute;
  } catch (cause) {
    if (cause instanceof McpvalsError) throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError(
      "step/cannot-run",
      `the path ${JSON.stringify(path)} cannot be followed: ${reason}`,
      {
        cause,
      },
    );
  }
}

/** Whether an absolute path, itself not followed, really lies inside the workspace. */
export async function isInWorkspace(
  path: string,
  { workspace }: Pick<TrialContext, "workspace">,
): Promise<boolean> {
  if (!isAbsolute(workspace)) return false;
  const [folder, real] = await Promise.all([realPath(workspace), realEntry(path)]);
  return real !== folder && isInside(folder, real);
}

/** The real place of an entry of a folder, whatever is there. */
async function realEntry(path: string): Promise<string> {
  return join(await realPath(dirname(path)), basename(path));
}

/** Where a path really leads, also when nothing is there yet. */
async function realPath(path: string): Promise<string> {
  const real = await orAbsent(realpath(path));
  if (real !== undefined || dirname(path) === path) return real ?? path;
  const folder = await realPath(dirname(path));
  const target = await linkTarget(path);
  return target === undefined ? join(folder, basename(path)) : realPath(resolve(folder, target));
}

/** What a link that leads to nothing yet says; undefined where there is no link. */
async function linkTarget(path: string): Promise<string | undefined> {
  try {
    return await readlink(path);
  } catch {
    return undefined; // using the path reports what is wrong
  }
}

function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return !isAbsolute(way) && way !== ".." && !way.startsWith(`..${sep}`);
}

function outside(
  path: string,
  real: string,
  { dir, workspace }: Pick<TrialContext, "dir" | "workspace">,
): McpvalsError {
  const folders = workspace === "" ? dir : `${dir} and the workspace ${workspace}`;
  return new McpvalsError(
    "task/outside",
    `the path ${JSON.stringify(path)} leads to ${real}, outside the task's folder ${folders}`,
    { hint: "Keep a task's files in its folder or in {workspace}, or allow others with --allow-outside." },
  );
}

function wholeFolder(path: string): McpvalsError {
  return new McpvalsError(
    "task/outside",
    `the path ${JSON.stringify(path)} is the task's folder or the workspace as a whole, or a folder around it`,
    { hint: "Name what is inside it; the workspace goes by itself when the trial ends." },
  );
}

/** The result of a file operation, or undefined where nothing exists. Rejects with any other error. */
export async function orAbsent<T>(look: Promise<T>): Promise<T | undefined> {
  try {
    return await look;
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/** ENOTDIR: a parent is not a folder, so the path does not exist either. */
function isAbsence(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOENT" || code === "ENOTDIR";
}
