import { realpathSync, type Stats, statSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import type { ParseTaskOptions, TaskFiles } from "../../core/formats/task/parse-task.ts";
import { isOlderForm, rootMembers } from "../read/document.ts";
import { readRegularFile } from "../../files/read-file.ts";

/** Largest file, such as a prompt, that is read into a task; in bytes. */
const largestFile = 4 * 1024 * 1024;

export interface TaskFilesOptions {
  /** Whether paths may lead anywhere. */
  readonly allowOutside: boolean;
  /** Absolute path of a folder that paths may lead into besides the task's own. */
  readonly repository?: string | undefined;
}

/**
 * What a task may see of the files in its folder. A path that leaves the folder, be it through a link, is `outside`,
 * except when that is allowed.
 */
export function taskFiles(dir: string, { allowOutside, repository = dir }: TaskFilesOptions): TaskFiles {
  const look: TaskFiles["look"] = (path) => {
    const target = resolve(dir, path);
    if (!allowOutside && !isInside(dir, target) && !isInside(repository, target)) return "outside";
    const stats = statsOf(target);
    if (stats === undefined) return "nothing";
    return stats.isDirectory() ? "folder" : "file";
  };
  return {
    look,
    read(path) {
      return look(path) === "file" ? readText(resolve(dir, path)) : undefined;
    },
    leaves: (path) => !isInside(dir, resolve(dir, path)),
  };
}

interface TaskPlace {
  /** Absolute path of the task's file. */
  readonly path: string;
  /** Absolute path of the repository that it is in. */
  readonly repository: string;
  readonly document: { readonly value: unknown };
}

/** The files that a task may see: those of its folder, and in the older forms those of its repository. */
export function filesOfTask(
  { path, repository, document }: TaskPlace,
  { allowOutside }: Pick<TaskFilesOptions, "allowOutside">,
): Pick<ParseTaskOptions, "files" | "repository"> {
  const dir = dirname(path);
  if (!isOlderForm(rootMembers(document.value))) return { files: taskFiles(dir, { allowOutside }) };
  return { files: taskFiles(dir, { allowOutside, repository }), repository };
}

/** Whether a path leads into a folder, both before and after links are followed. */
function isInside(folder: string, target: string): boolean {
  return contains(folder, target) && contains(realPath(folder), realPath(target));
}

function contains(folder: string, target: string): boolean {
  const path = relative(folder, target);
  return path !== ".." && !path.startsWith(`..${sep}`) && !isAbsolute(path);
}

/** Where a path leads; of what does not exist, where it would be. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (cause) {
    const parent = dirname(path);
    if (parent === path) throw cause;
    return join(realPath(parent), relative(parent, path));
  }
}

function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (cause) {
    // Behind a folder that may not be entered, or a file that is no folder, there is nothing for a task.
    if (cause instanceof Error && "code" in cause) return undefined;
    throw cause;
  }
}

function readText(path: string): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(readRegularFile(path, largestFile));
  } catch {
    return undefined; // the parser reports that the file cannot be read, and where it is named
  }
}
