import { realpathSync } from "node:fs";
import type { FileProblems } from "../file-problems.ts";
import { mapBounded } from "../map-bounded.ts";
import type { ConfigDocument } from "../read/document.ts";
import { readTask } from "../read/read-task.ts";
import { shownFrom } from "../surroundings.ts";

/** A file of kind Task that was read. */
export interface TaskFile {
  /** Absolute, as it was named: links in it are not resolved. */
  readonly path: string;
  /** Where the links lead to. */
  readonly realPath: string;
  readonly document: ConfigDocument;
}

const filesAtOnce = 32;

/**
 * Reads the tasks among some files, in the order of the files; those of other kinds are left out. What is wrong with a
 * task goes to `problems`.
 */
export async function readTasks(
  paths: readonly string[],
  { cwd, problems }: { readonly cwd: string; readonly problems: FileProblems },
): Promise<readonly TaskFile[]> {
  const read = await mapBounded(paths, filesAtOnce, async (path) => ({
    path,
    outcome: await attempt(() => readTask(path, shownFrom(cwd, path))),
  }));
  return read.flatMap(({ path, outcome }) => {
    if ("error" in outcome) problems.addError(outcome.error);
    const document = "error" in outcome ? undefined : outcome.value;
    return document === undefined ? [] : [taskFile(path, document)];
  });
}

/** A task that was read from a path. */
export function taskFile(path: string, document: ConfigDocument): TaskFile {
  return { path, realPath: realpathSync.native(path), document };
}

/** Problems are told in the order of the files, not in that in which they were found. */
async function attempt<T>(
  work: () => Promise<T>,
): Promise<{ readonly value: T } | { readonly error: unknown }> {
  try {
    return { value: await work() };
  } catch (error) {
    return { error };
  }
}

/** Leaves the first of the files that are the same behind their links. */
export function withoutRepeats(files: readonly TaskFile[]): readonly TaskFile[] {
  const seen = new Set<string>();
  return files.filter(({ realPath }) => seen.size < seen.add(realPath).size);
}
