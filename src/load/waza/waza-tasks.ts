import { dirname, join, resolve } from "node:path";
import type { Diagnostic } from "../../core/errors/error.ts";
import { interpolate, type Interpolation } from "../../core/formats/interpolate.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json } from "../../core/formats/model.ts";
import { placeProblem } from "../../core/formats/problem.ts";
import { parseWazaTask, type WazaTask } from "../../core/formats/waza/parse-waza-task.ts";
import type { WazaEval } from "../../core/formats/waza/waza-eval.ts";
import { variableNamed } from "../environment.ts";
import type { FileProblems } from "../file-problems.ts";
import { expandGlob, isDataFile, isGlob, pathKind } from "../sources/expand-glob.ts";
import type { ConfigDocument } from "../read/document.ts";
import { plainDocument } from "../read/plain-document.ts";
import { readData } from "../read/read-document.ts";
import type { OpenedFile } from "../sources/open-sources.ts";
import { shownFrom, type Surroundings } from "../surroundings.ts";
import { type TaskFile, taskFile, withoutRepeats } from "../tasks/read-tasks.ts";
import { taskFiles } from "../tasks/task-files.ts";

/** A task that was read, with its file and the texts that variables went into. */
export interface ReadWazaTask extends WazaTask {
  readonly document: ConfigDocument;
  readonly templates: ReadonlyMap<string, string>;
}

export interface WazaTasks {
  readonly read: readonly ReadWazaTask[];
  readonly notes: readonly string[];
  /** Variables that were put into files. */
  readonly variables: ReadonlyMap<string, string>;
}

/** Reads the tasks that an eval names, each file once. What is wrong with them goes to the problems. */
export async function readWazaTasks(context: WazaContext): Promise<WazaTasks> {
  const { problems, document } = context;
  const files = await filesOf(context);
  const notes: string[] = [];
  const variables = new Map<string, string>();
  const all = files.flatMap((file) =>
    readOne(file, { ...context, taskNotes: notes, taskVariables: variables }),
  );
  const read = all.filter(({ enabled }) => enabled);
  for (const { task, enabled } of all)
    if (!enabled) notes.push(`the task ${JSON.stringify(task.name)} is left out: enabled is false`);
  if (read.length === 0 && !problems.found) problems.add([nothingToRun(context)], document.source);
  return { read, notes, variables };
}

async function filesOf(context: WazaContext): Promise<readonly TaskFile[]> {
  const { file, surroundings, problems } = context;
  const files: TaskFile[] = [];
  for (const [index, pattern] of file.tasks.entries()) {
    const paths = pathsOf(pattern, context.dir);
    if (paths.length === 0) problems.add([noFile(index, pattern, context)], context.document.source);
    for (const path of paths) {
      try {
        files.push(taskFile(path, dirname(path), await readData(path, shownFrom(surroundings.cwd, path))));
      } catch (error) {
        problems.addError(error);
      }
    }
  }
  return withoutRepeats(files);
}

function pathsOf(pattern: string, dir: string): readonly string[] {
  const path = resolve(dir, pattern);
  if (pathKind(path) === "file") return [path];
  return isGlob(pattern) ? expandGlob(pattern, { cwd: dir, dialect: "shell" }).filter(isDataFile) : [];
}

function noFile(index: number, pattern: string, { document }: WazaContext): Diagnostic {
  const problem = {
    code: "config/not-found",
    message: `tasks: there is no task file at ${JSON.stringify(pattern)}`,
    path: ["tasks", index],
    at: "value",
    hint: "Paths and globs start from the eval's folder; a task is a .yaml, .yml or .json file.",
  } as const;
  return placeProblem(problem, document.locate);
}

function nothingToRun({ document }: WazaContext): Diagnostic {
  const message = "there is nothing to run: no task is enabled";
  return placeProblem(
    { code: "config/nothing-to-run", message, path: ["tasks"], at: "key" },
    document.locate,
  );
}

interface Gathering extends WazaContext {
  readonly taskNotes: string[];
  readonly taskVariables: Map<string, string>;
}

function readOne({ path, document }: TaskFile, context: Gathering): ReadWazaTask[] {
  const { surroundings, problems, taskNotes, taskVariables } = context;
  const json = plainDocument(document, "the task", problems);
  if (json === undefined) return [];
  const found = interpolateParts(json, [["mcp_servers"]], surroundings);
  problems.add(
    found.problems.map((problem) => placeProblem(problem, document.locate)),
    document.source,
  );
  if (found.problems.length > 0) return [];
  for (const [name, value] of found.variables) taskVariables.set(name, value);
  const parsed = parseWazaTask(found.value, {
    file: path,
    locate: document.locate,
    eval: context.file,
    isEvalWhole: context.isValid,
    contextFolder: (contextDir) => contextFolder(contextDir, path, context),
    lookAt: (folder, file) => taskFiles(folder, surroundings).look(file),
  });
  if (!parsed.ok) {
    problems.add(parsed.diagnostics, document.source);
    return [];
  }
  for (const note of [...(document.notes ?? []), ...parsed.notes]) taskNotes.push(note);
  return [{ ...parsed.read, document, templates: found.templates }];
}

/** The task's own folder for files, from the task's; else `fixtures` beside the eval; else where the task is. */
function contextFolder(contextDir: string | undefined, path: string, { dir }: WazaContext): string {
  if (contextDir !== undefined) return resolve(dirname(path), contextDir);
  const usual = join(dir, "fixtures");
  return pathKind(usual) === "folder" ? usual : dirname(path);
}

/** Replaces `${VAR}` in some parts of a document, named by their paths; the others stay as they are. */
export function interpolateParts(
  document: Json,
  parts: readonly (readonly string[])[],
  { overrides, environment }: Pick<Surroundings, "overrides" | "environment">,
): Interpolation {
  const chosen = parts.reduce<Json>((value, path) => copyPart(document, value, path), {});
  const found = interpolate(
    chosen,
    (name) => variableNamed(name, overrides) ?? variableNamed(name, environment),
  );
  const value = parts.reduce<Json>((rest, path) => copyPart(found.value, rest, path), document);
  return { ...found, value };
}

/** The target with the part of the source at a path; without it where the source has none. */
function copyPart(source: Json, target: Json, [key, ...rest]: readonly string[]): Json {
  if (key === undefined) return source;
  const inner = isJsonObject(source) && Object.hasOwn(source, key) ? source[key] : undefined;
  if (inner === undefined) return target;
  const base = isJsonObject(target) ? target : {};
  return { ...base, [key]: copyPart(inner, base[key] ?? {}, rest) };
}

/** What the parts of the loading of a waza eval need of one another. */
export interface WazaContext extends OpenedFile {
  readonly file: WazaEval;
  /** Whether nothing is wrong with it. */
  readonly isValid: boolean;
  /** Absolute path of the eval's folder, which its paths start from. */
  readonly dir: string;
  readonly surroundings: Surroundings;
  readonly problems: FileProblems;
  readonly notes: readonly string[];
  /** Variables that were put into the file. */
  readonly variables: ReadonlyMap<string, string>;
}
