import { realpathSync } from "node:fs";
import type { FileProblems } from "../file-problems.ts";
import { mapBounded } from "../map-bounded.ts";
import type { ConfigDocument } from "../read/document.ts";
import { type FoundFile, readTask } from "../read/read-task.ts";
import { shownFrom } from "../surroundings.ts";

/** A file of kind Task that was read. */
export interface TaskFile {
  /** Absolute, as it was named: links in it are not resolved. */
  readonly path: string;
  /** Where the links lead to. */
  readonly realPath: string;
  /** Absolute path of the repository that it belongs to, as far as the file or folder that was named tells. */
  readonly repository: string;
  readonly document: ConfigDocument;
}

/** The tasks among some files. */
export interface ReadTasks {
  readonly tasks: readonly TaskFile[];
  /** Of files that are not taken as tasks although their authors may think so, in the order of the files. */
  readonly notes: readonly string[];
  /** Of files that are something else of ours, and are not to be run with tasks. */
  readonly others: readonly string[];
  /** Of empty files: of interest where there is no task. */
  readonly empty: readonly string[];
}

const filesAtOnce = 32;

export interface ReadTasksOptions {
  /** Absolute path of the folder that messages name files from. */
  readonly cwd: string;
  readonly repository: string;
  readonly problems: FileProblems;
}

/**
 * Reads the tasks among some files, in the order of the files; those of other kinds are left out. What is wrong with a
 * task goes to `problems`.
 */
export async function readTasks(
  paths: readonly string[],
  { cwd, repository, problems }: ReadTasksOptions,
): Promise<ReadTasks> {
  const read = await mapBounded(paths, filesAtOnce, async (path) => ({
    path,
    outcome: await attempt(() => readTask(path, shownFrom(cwd, path))),
  }));
  for (const { outcome } of read) if ("error" in outcome) problems.addError(outcome.error);
  const found = read.flatMap(({ path, outcome }) =>
    "error" in outcome ? [] : [{ path, file: outcome.value }],
  );
  const notesOf = (kind: FoundFile["kind"]): string[] =>
    found.flatMap(({ file }) => (file.kind === kind && "note" in file ? [file.note] : []));
  return {
    tasks: found.flatMap(({ path, file }) =>
      file.kind === "task" ? [taskFile(path, repository, file.document)] : [],
    ),
    notes: notesOf("almost"),
    others: notesOf("other"),
    empty: notesOf("empty"),
  };
}

/** A task that was read from a path. */
export function taskFile(path: string, repository: string, document: ConfigDocument): TaskFile {
  return { path, realPath: realpathSync.native(path), repository, document };
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
