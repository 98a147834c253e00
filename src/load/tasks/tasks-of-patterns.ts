import { resolve } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { FileProblems } from "../file-problems.ts";
import { pathKind } from "../path-kind.ts";
import { expandGlob, isDataFile, isGlob } from "../sources/expand-glob.ts";
import { repositoryOf } from "../sources/repository-of.ts";
import { readTasks, type TaskFile, withoutRepeats } from "./read-tasks.ts";

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
    const found = await readTasks(pathsOf(pattern, dir), { cwd, repository, problems: broken });
    if (found.tasks.length === 0 && !broken.found) broken.addError(noTasks(pattern));
    problems.addAll(broken);
    for (const file of found.tasks) files.push(file);
    for (const note of found.notes) notes.add(note);
  }
  return { files: withoutRepeats(files), notes: [...notes] };
}

function pathsOf(pattern: string, dir: string): readonly string[] {
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
