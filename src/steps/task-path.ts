import { codeOf, McpvalsError, messageOf } from "../base/error.ts";
import { readlink, realpath } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import type { TrialContext } from "./step-runner.ts";
import { isInside } from "../base/files.ts";

/**
 * Makes a path of a task absolute; a relative one starts from the task's folder. Its real path must be in the task's folder, in the
 * workspace or, for reading, in the task's repository, unless the trial allows others. `forWriting`: a link at the path itself is
 * not followed, and the task's folder and the workspace as a whole are refused in any trial. Throws McpvalsError `task/outside`, and
 * `step/cannot-run` for an invalid path.
 */
export async function resolveTaskPath(
  path: string,
  trial: Pick<TrialContext, "dir" | "repository" | "workspace" | "allowOutside">,
  { forWriting }: { readonly forWriting: boolean },
): Promise<string> {
  const { dir, repository, workspace, allowOutside } = trial;
  const absolute = resolve(dir, path);
  const quoted = JSON.stringify(path);
  try {
    const real = forWriting ? await realEntry(absolute) : await realPath(absolute);
    const folders = await Promise.all([dir, workspace].filter(isAbsolute).map(realPath));
    if (forWriting && folders.some((folder) => isInside(real, folder)))
      throw new McpvalsError(
        "task/outside",
        `the path ${quoted} is the task's folder or the workspace as a whole, or a folder around it`,
        { hint: "Name what is inside it; the workspace is removed when the trial ends." },
      );
    if (!forWriting && repository !== undefined) folders.push(await realPath(repository));
    if (!allowOutside && !folders.some((folder) => isInside(folder, real))) {
      const allowed = workspace === "" ? dir : `${dir} and the workspace ${workspace}`;
      throw new McpvalsError(
        "task/outside",
        `the path ${quoted} leads to ${real}, outside the task's folder ${allowed}`,
        {
          hint: "Keep a task's files in its folder or in {workspace}, or allow others with --allow-outside.",
        },
      );
    }
    return absolute;
  } catch (cause) {
    if (cause instanceof McpvalsError) throw cause;
    const reason = messageOf(cause);
    throw new McpvalsError("step/cannot-run", `the path ${quoted} cannot be followed: ${reason}`, { cause });
  }
}

/** Whether an absolute path is inside the workspace; a link at the path itself is not followed. */
export async function isInWorkspace(
  path: string,
  { workspace }: Pick<TrialContext, "workspace">,
): Promise<boolean> {
  if (!isAbsolute(workspace)) return false;
  const [folder, real] = await Promise.all([realPath(workspace), realEntry(path)]);
  return real !== folder && isInside(folder, real);
}

/** The real path of an entry of a folder; a link there is not followed. */
async function realEntry(path: string): Promise<string> {
  return join(await realPath(dirname(path)), basename(path));
}

/** The real path, also of a path at which nothing exists. */
async function realPath(path: string): Promise<string> {
  const real = await orAbsent(realpath(path));
  if (real !== undefined || dirname(path) === path) return real ?? path;
  const folder = await realPath(dirname(path));
  // A link to nothing is followed. Any other error is found when the path is used.
  const target = await readlink(path).catch(() => undefined);
  return target === undefined ? join(folder, basename(path)) : realPath(resolve(folder, target));
}

/** The result of a file operation, or undefined where nothing exists. Rejects with any other error. */
export async function orAbsent<T>(look: Promise<T>): Promise<T | undefined> {
  try {
    return await look;
  } catch (error) {
    const code = codeOf(error);
    // ENOTDIR: a parent is not a folder, so the path does not exist either.
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  }
}
