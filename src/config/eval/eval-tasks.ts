import { resolve } from "node:path";
import type { Diagnostic } from "../../core/errors/error.ts";
import type { TaskSet } from "../../core/formats/eval-file/eval-file.ts";
import type { ProvidedServers } from "../../core/formats/config/provided-servers.ts";
import { asObject } from "../../core/formats/lenient.ts";
import { memberOf } from "../../core/formats/member-of.ts";
import type { AssertionSet, PortableTask, Task } from "../../core/formats/model.ts";
import { FileProblems } from "../file-problems.ts";
import { unusedExtensionNotes } from "../extensions/unused-notes.ts";
import { pathKind } from "../path-kind.ts";
import { expandGlob } from "../sources/expand-glob.ts";
import { repositoryOf } from "../sources/repository-of.ts";
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
  if (chosen.length === 0 && !problems.found) problems.add([nothingToRun(context)], context.document.source);
  const reachNothing = sets.filter((set) => !chosen.some((each) => reaches(set, each)));
  const tasks = chosen.map(({ task }) => task);
  const notes = [...leftOut, ...reachNothing.map(emptyNote), ...unusedExtensionNotes(extensions, tasks)];
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
  const { file, dir, surroundings, problems } = context;
  const { cwd } = surroundings;
  const repository = repositoryOf(dir);
  const sets: FilesOfSet[] = [];
  const notes: string[] = [];
  for (const [index, set] of file.taskSets.entries()) {
    const broken = new FileProblems();
    const found = await readTasks(pathsOf(set, context), { cwd, repository, problems: broken });
    const files = found.tasks;
    for (const note of found.notes) notes.push(note);
    if (files.length === 0 && "path" in set.files && !broken.found) refusePath(set.files.path, set, context);
    problems.addAll(broken);
    sets.push({ set, index, files, realPaths: new Set(files.map(({ realPath }) => realPath)) });
  }
  return { sets, notes: [...new Set(notes)] };
}

function pathsOf({ files }: TaskSet, { dir }: EvalContext): readonly string[] {
  if ("glob" in files) return expandGlob(files.glob, { cwd: dir, dialect: "go" });
  const path = resolve(dir, files.path);
  return pathKind(path) === "file" ? [path] : [];
}

function refusePath(path: string, { location }: TaskSet, { problems, document }: EvalContext): void {
  const diagnostic: Diagnostic = {
    code: "config/not-found",
    message: `there is no task at ${path}`,
    hint: "A task is a file with kind: Task; its path starts from the eval's folder.",
    ...(location === undefined ? {} : { location }),
  };
  problems.add([diagnostic], document.source);
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

function nothingToRun({ document }: EvalContext): Diagnostic {
  const location = document.locate({ path: ["config", "taskSets"], at: "key" });
  return {
    code: "config/nothing-to-run",
    message: "there is nothing to run: no task set reaches a task",
    hint: "Paths and globs start from the eval's folder; labelSelector leaves out tasks without those labels.",
    ...(location === undefined ? {} : { location }),
  };
}

function emptyNote({ index }: FilesOfSet): string {
  return `config.taskSets[${index}] reaches no task`;
}
