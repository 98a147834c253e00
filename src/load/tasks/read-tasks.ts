import { realpathSync } from "node:fs";
import { dirname, resolve, sep } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { asList, asObject, asText } from "../../core/formats/json.ts";
import { FileProblems } from "../file-problems.ts";
import type { ConfigDocument } from "../read/document.ts";
import { type FoundFile, readTask } from "../read/read-task.ts";
import { expandGlob, isDataFile, isGlob, pathKind } from "../sources/expand-glob.ts";
import { repositoryOf } from "../sources/find-sources.ts";
import { shownFrom } from "../environment.ts";

/** A file of kind Task that was read. */
export interface TaskFile {
  /** Absolute, as it was named: links in it are not resolved. */
  readonly path: string;
  /** Where the links lead to. */
  readonly realPath: string;
  /** Absolute path of the repository that it belongs to, as far as the file or folder that was named shows. */
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
 * task goes to `problems`, and so does a file without content: it may be a task that was lost. Only what a task has among its
 * fixtures may be empty.
 */
export async function readTasks(
  paths: readonly string[],
  { cwd, repository, problems }: ReadTasksOptions,
): Promise<ReadTasks> {
  const read = await mapBounded(paths, filesAtOnce, async (path) => ({
    path,
    outcome: await attempt(() => readTask(path, shownFrom(cwd, path))),
  }));
  const found = read.flatMap(({ path, outcome }) =>
    "error" in outcome ? [] : [{ path, file: outcome.value }],
  );
  const tasks = found.flatMap(({ path, file }) =>
    file.kind === "task" ? [taskFile(path, repository, file.document)] : [],
  );
  const fixtures = tasks.flatMap(fixturesOf);
  const isFixture = (path: string): boolean =>
    fixtures.some((fixture) => path === fixture || path.startsWith(fixture + sep));
  for (const { path, outcome } of read) {
    if ("error" in outcome) problems.addError(outcome.error);
    else if (outcome.value.kind === "empty" && !isFixture(path))
      problems.addError(emptyFile(shownFrom(cwd, path)));
  }
  const notesOf = (kind: FoundFile["kind"]): string[] =>
    found.flatMap(({ file }) => (file.kind === kind && "note" in file ? [file.note] : []));
  return { tasks, notes: notesOf("almost"), others: notesOf("other") };
}

/** Absolute paths of the files and folders that a task has copied into its workspace, as far as its file says some. */
function fixturesOf({ path, document }: TaskFile): readonly string[] {
  const fixtures = asObject(asObject(document.value)["spec"])["fixtures"];
  return asList(fixtures).flatMap((fixture) => {
    const relative = asText(fixture);
    return relative === undefined ? [] : [resolve(dirname(path), relative)];
  });
}

function emptyFile(shown: string): McpvalsError {
  return new McpvalsError("config/invalid-value", `${shown} is empty, so it is not a task`, {
    location: { file: shown },
    hint: "Write the task, remove the file, or name the tasks by a glob that leaves it out.",
  });
}

/** A task that was read from a path. */
export function taskFile(path: string, repository: string, document: ConfigDocument): TaskFile {
  return { path, realPath: realpathSync.native(path), repository, document };
}

/** Problems are listed in the order of the files, not in the order in which they were found. */
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

/** Applies an async function to all items, so many at a time, and gives the results in the order of the items. */
async function mapBounded<T, R>(
  items: readonly T[],
  most: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const waiting = items.entries();
  const worker = async (): Promise<void> => {
    for (const [index, item] of waiting) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, worker));
  return results;
}

export interface PatternOptions {
  /** Absolute path of the folder that patterns start from. */
  readonly dir: string;
  /** Absolute path of the folder that messages name files from. */
  readonly cwd: string;
  readonly problems: FileProblems;
}

/**
 * Reads the tasks that paths and globs of a config lead to, each file once. A pattern without any task is a problem:
 * a typing mistake must not turn tasks off.
 */
export async function tasksOfPatterns(
  patterns: readonly string[],
  { dir, cwd, problems }: PatternOptions,
): Promise<{ readonly files: readonly TaskFile[]; readonly notes: readonly string[] }> {
  const repository = repositoryOf(dir);
  const files: TaskFile[] = [];
  const notes = new Set<string>();
  for (const pattern of patterns) {
    const broken = new FileProblems();
    const found = await readTasks(pathsOfPattern(pattern, dir), { cwd, repository, problems: broken });
    if (found.tasks.length === 0 && !broken.found) broken.addError(noTasks(pattern));
    problems.addAll(broken);
    for (const file of found.tasks) files.push(file);
    for (const note of found.notes) notes.add(note);
  }
  return { files: withoutRepeats(files), notes: [...notes] };
}

/** The files of data at a path, or that a glob matches, from a folder. */
export function pathsOfPattern(pattern: string, dir: string): readonly string[] {
  const path = resolve(dir, pattern);
  if (pathKind(path) === "file") return [path];
  return isGlob(pattern) ? expandGlob(pattern, { cwd: dir, dialect: "shell" }).filter(isDataFile) : [];
}

function noTasks(pattern: string): McpvalsError {
  return new McpvalsError(
    "config/not-found",
    `tasks: no file of kind Task is at ${JSON.stringify(pattern)}`,
    {
      hint: "Paths and globs start from the config's folder; a whole folder is written FOLDER/**/*.yaml.",
    },
  );
}
