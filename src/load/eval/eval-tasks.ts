import { resolve } from "node:path";
import type { Diagnostic } from "../../core/errors/error.ts";
import type { TaskSet } from "../../core/formats/eval-file/parse-eval-file.ts";
import type { ProvidedServers } from "../../core/formats/config/server-tables.ts";
import { asObject, memberOf } from "../../core/formats/json.ts";
import type { AssertionSet, PortableTask, Task } from "../../core/formats/model.ts";
import { FileProblems } from "../file-problems.ts";
import { unusedExtensionNotes } from "../extensions.ts";
import { expandGlob, pathKind } from "../sources/expand-glob.ts";
import { repositoryOf } from "../sources/find-sources.ts";
import { type ParsedFile, parseTasks } from "../tasks/parse-tasks.ts";
import { readTasks, type TaskFile, withoutRepeats } from "../tasks/read-tasks.ts";
import type { EvalContext } from "./eval-context.ts";

export interface EvalTasks {
  readonly parsed: readonly ParsedFile[];
  readonly notes: readonly string[];
}

/**
 * The tasks that an eval's task sets reach, each once, with the assertions of every set that reached it. What is wrong
 * with them goes to the problems.
 */
export async function evalTasks(context: EvalContext, provided: ProvidedServers): Promise<EvalTasks> {
  const { file, extensions, surroundings, problems } = context;
  const { sets, notes: leftOut } = await filesOfSets(context);
  const files = withoutRepeats(sets.flatMap((set) => set.files));
  const parsed = parseTasks(files, {
    surroundings,
    servers: Object.keys(provided.base.written),
    provided,
    inheritEnv: file.inheritEnv,
    extensions,
    problems,
  });
  const chosen = parsed.flatMap((each) => chosenBySets(each, sets));
  // Whether a set would have reached a task that could not be made is not known.
  if (parsed.length === files.length) {
    const unreached = sets.filter(
      (set) => set.files.length > 0 && !chosen.some((each) => reaches(set, each)),
    );
    problems.add(unreached.map(noTaskWithLabels), context.document.source);
  }
  const tasks = chosen.map(({ task }) => task);
  const notes = [...leftOut, ...unusedExtensionNotes(extensions, tasks)];
  return { parsed: chosen.map((each) => withEvalsLimits(each, context)), notes };
}

interface FilesOfSet {
  readonly set: TaskSet;
  readonly index: number;
  readonly files: readonly TaskFile[];
  readonly realPaths: ReadonlySet<string>;
}

async function filesOfSets(context: EvalContext): Promise<{
  readonly sets: readonly FilesOfSet[];
  /** Of files that are not taken as tasks. */
  readonly notes: readonly string[];
}> {
  const { file, dir, surroundings, problems, document } = context;
  const { cwd } = surroundings;
  const repository = repositoryOf(dir);
  const sets: FilesOfSet[] = [];
  const notes: string[] = [];
  for (const [index, set] of file.taskSets.entries()) {
    const broken = new FileProblems();
    const found = await readTasks(pathsOf(set, context), { cwd, repository, problems: broken });
    const files = found.tasks;
    for (const note of found.notes) notes.push(note);
    problems.addAll(broken);
    if (files.length === 0 && !broken.found) problems.add([noTaskAt(set, index)], document.source);
    sets.push({ set, index, files, realPaths: new Set(files.map(({ realPath }) => realPath)) });
  }
  return { sets, notes: [...new Set(notes)] };
}

function pathsOf({ files }: TaskSet, { dir }: EvalContext): readonly string[] {
  if ("glob" in files) return expandGlob(files.glob, { cwd: dir, dialect: "go" });
  const path = resolve(dir, files.path);
  return pathKind(path) === "file" ? [path] : [];
}

function noTaskAt({ files, location }: TaskSet, index: number): Diagnostic {
  const [what, written] = "glob" in files ? ["the glob", files.glob] : ["the path", files.path];
  return {
    code: "config/not-found",
    message: `config.taskSets[${index}]: no file of kind Task is at ${what} ${written}`,
    hint: "Paths and globs start from the eval's folder. A task set without a task would check nothing.",
    ...(location === undefined ? {} : { location }),
  };
}

function noTaskWithLabels({ set, index, files }: FilesOfSet): Diagnostic {
  const labels = Object.entries(set.labels).map(([key, value]) => `${key}: ${value}`);
  const tasks =
    files.length === 1
      ? "The task of this set does not have"
      : `None of the ${files.length} tasks of this set has`;
  return {
    code: "usage/no-match",
    message: `config.taskSets[${index}] reaches no task: labelSelector leaves out all that it names`,
    hint: `${tasks} the labels ${labels.join(", ")}.`,
    ...(set.location === undefined ? {} : { location: set.location }),
  };
}

/** The task with the assertions of the sets that reach it; nothing when there is none. */
function chosenBySets(parsed: ParsedFile, sets: readonly FilesOfSet[]): ParsedFile[] {
  const reaching = sets.filter((set) => reaches(set, parsed));
  const assertions = reaching.flatMap(({ set }) => set.assertions ?? []);
  return reaching.length === 0 ? [] : [withPortable(parsed, (portable) => asserting(portable, assertions))];
}

function reaches({ set, realPaths }: FilesOfSet, { file, task }: ParsedFile): boolean {
  const labels = task.portable?.labels ?? {};
  const fits = Object.entries(set.labels).every(([key, value]) => labels[key] === value);
  return fits && realPaths.has(file.realPath);
}

function asserting(portable: PortableTask, assertions: readonly AssertionSet[]): PortableTask {
  return { ...portable, assertions: [...portable.assertions, ...assertions] };
}

/** Limits that the eval sets for tasks that have none; that of the trial is the eval's own. */
function withEvalsLimits(parsed: ParsedFile, { file }: EvalContext): ParsedFile {
  const { cleanupTimeoutMs } = file.limits;
  if (cleanupTimeoutMs === undefined || limitsCleanup(parsed.file.document.value)) return parsed;
  return withPortable(parsed, (portable) => ({ ...portable, cleanupTimeoutMs }));
}

function limitsCleanup(document: unknown): boolean {
  const [, spec] = memberOf(document, "spec");
  const [, limits] = memberOf(asObject(spec), "limits");
  return memberOf(asObject(limits), "cleanupTimeout")[1] !== undefined;
}

function withPortable(parsed: ParsedFile, change: (portable: PortableTask) => PortableTask): ParsedFile {
  const { portable } = parsed.task;
  if (portable === undefined) return parsed;
  const task: Task = { ...parsed.task, portable: change(portable) };
  return { ...parsed, task };
}
