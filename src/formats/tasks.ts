import { maxFileBytes } from "../base/limits.ts";
import { realpathSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import {
  endingOf,
  exportedTask,
  graderTypesAt,
  isTaskExport,
  parseData,
  type TaskFile,
} from "./read/read-files.ts";
import { McpvalsError } from "../base/error.ts";
import { type GraderSpec, olderTaskVersions, type Task, taskApiVersion } from "../model/task.ts";
import type { ServerSpec } from "../model/server.ts";
import type { Variant } from "../model/eval.ts";
import type { ProvidedServers } from "./config/server-tables.ts";
import type { EvalExtensions, ExtensionUse } from "../model/extension.ts";
import { asObject, isJsonObject, type Json, type KeyPath, withoutUndefined } from "../base/json.ts";
import { suggestion } from "../base/did-you-mean.ts";
import { type Problem, problem, problemAt } from "../base/problem.ts";
import { readJson } from "../base/read-json.ts";
import { parseOlderTask } from "./convert/older-task.ts";
import {
  type ParsedTask,
  parseTask as parseOurTask,
  type ParseTaskOptions,
  refusal,
  taskChecksNothing,
  type TaskFiles,
} from "./task/parse-task.ts";
import { isInside, readRegularFile } from "../base/files.ts";
import {
  completeStdio,
  environment as readEnvironment,
  type EnvironmentVariables,
  type LoadContext,
} from "./environment.ts";
import { documentKind, FileProblems, isOlderForm, type SourceText } from "./read/document.ts";
import { taskVariables, withVariables } from "./secrets.ts";
import { entriesBelow, pathKind, repositoryOf } from "./sources.ts";

/** What the eval around them gives to tasks. */
export interface TaskContext {
  readonly loadContext: LoadContext;
  /** The eval's servers. */
  readonly provided: ProvidedServers;
  /** Variables of the shell that tasks' processes get. */
  readonly inheritEnv: readonly string[] | true;
  /** What the eval says of extensions. */
  readonly extensions: EvalExtensions;
  /** Graders of all tasks. Absent: none. */
  readonly graders?: readonly GraderSpec[];
  readonly problems: FileProblems;
}

/** A task that was made of a file. */
export interface ParsedFile {
  readonly file: TaskFile;
  readonly task: Task;
  /** Those that it declares itself. */
  readonly servers: Readonly<Record<string, ServerSpec>>;
  /** All servers that it starts, by variant of the eval. */
  readonly variants: Variant["servers"];
  readonly notes: readonly string[];
  /** Its steps that need extensions. */
  readonly extensions: readonly ExtensionUse[];
}

/** Makes a task of the document of a task's file, whichever form it has. */
export function parseTask(document: unknown, options: ParseTaskOptions): ParsedTask {
  const problems: Problem[] = [];
  const json = readJson(document, { subject: "the task", problems, text: (text) => text });
  refuseProto(json, [], problems);
  if (problems.length > 0) return refusal(problems, options);
  if (!isJsonObject(json)) {
    const message = "the task must be an object with apiVersion, kind, metadata and spec";
    return refusal([problem([], message)], options);
  }
  // An empty one is as if it were absent.
  const version = json["apiVersion"] || undefined;
  if (version === taskApiVersion) return parseOurTask(json, options);
  if (version === undefined || olderTaskVersions.some((each) => each === version))
    return parseOlderTask(document, options);
  const versions = [taskApiVersion, ...olderTaskVersions];
  const hint = typeof version === "string" ? suggestion(version, versions, "versions") : undefined;
  return refusal([problemAt(["apiVersion"], `must be one of ${versions.join(", ")}`, { hint })], options);
}

/** Refuses keys that could not be kept: a variable, a server or an argument named `__proto__` would be lost without a word. */
function refuseProto(value: Json, path: KeyPath, problems: Problem[]): void {
  if (typeof value !== "object" || value === null) return;
  const members: Iterable<[string | number, Json]> = Array.isArray(value)
    ? value.entries()
    : Object.entries(value);
  for (const [key, member] of members) {
    const place = [...path, key];
    if (key !== "__proto__") refuseProto(member, place, problems);
    else
      problems.push(
        problemAt(place, ": nothing can be named __proto__", { at: "key", hint: "Choose another name." }),
      );
  }
}

/** Maximum number of notes on one file. */
const maxNotes = 50;

/** Makes tasks of files. What is wrong with them goes to the context's problems. */
export async function parseTasks(
  files: readonly TaskFile[],
  context: TaskContext,
): Promise<readonly ParsedFile[]> {
  const { loadContext, problems, provided, inheritEnv, extensions, graders = [] } = context;
  const { environment, overrides, allowOutside } = loadContext;
  return files.flatMap((file): ParsedFile[] => {
    const { path, document } = file;
    const dir = dirname(path);
    problems.add([], document.source);
    const seen = filesOfTask(file, allowOutside);
    const types = graderTypesAt(dir, document.locate);
    const parsed = parseTask(document.value, {
      file: path,
      dir,
      locate: document.locate,
      ...seen,
      servers: Object.keys(provided.base.written),
      provided,
      resolvePath: (inside) => resolve(dir, inside),
      variables: { ...environment, ...overrides },
      completeStdio: (server) => completeStdio(server, { dir, environment, overrides }),
      inheritEnv,
      extensions,
      graders,
      graderTypes: types && { ...types, look: (path) => seen.files.look(path) },
    });
    if (!parsed.ok) {
      problems.add(parsed.diagnostics);
      return [];
    }
    const { servers, variants = {}, extensions: uses } = parsed;
    const all = [...graders, ...(parsed.task.graders ?? [])];
    const task = graders.length === 0 ? parsed.task : { ...parsed.task, graders: all };
    const name = task.location?.file ?? task.name;
    // A note with its place as other messages have it.
    const placed = parsed.notes.map((note) => {
      const [start = "", line] = /^line (\d+): /.exec(note) ?? [];
      return `${name}${line === undefined ? "" : `:${line}`}: ${note.slice(start.length)}`;
    });
    const notes = [...(document.notes ?? []), ...placed];
    if (notes.length > maxNotes)
      notes.splice(maxNotes, Infinity, `${name}: … and ${notes.length - maxNotes} more notes`);
    return [{ file, task, servers, variants, notes, extensions: uses }];
  });
}

/** Everything that an eval takes over from its tasks. */
export interface TasksOfEval {
  readonly tasks: readonly Task[];
  /** The servers that tasks declare themselves, by task. */
  readonly taskServers: Readonly<Record<string, Readonly<Record<string, ServerSpec>>>>;
  /** All servers that tasks start, by variant and task. */
  readonly variants: Readonly<Record<string, Variant["servers"]>>;
  readonly notes: readonly string[];
  /** Variables that may hold secrets; a name may come again with another value. */
  readonly variables: readonly EnvironmentVariables[];
  /** The tasks' own servers, with variables for the templates in them. */
  readonly servers: readonly ServerSpec[];
  /** Steps that need extensions, by task; tasks without any are left out. */
  readonly extensionUses: ReadonlyMap<string, readonly ExtensionUse[]>;
}

/** Puts tasks together; those that check nothing go to the problems. */
export function collectTasks(
  parsed: readonly ParsedFile[],
  { loadContext, problems }: Pick<TaskContext, "loadContext" | "problems">,
): TasksOfEval {
  const environment = { ...loadContext.environment, ...loadContext.overrides };
  // Many tasks may inherit the same variables.
  const variables = new Map<string, EnvironmentVariables>();
  const servers: ServerSpec[] = [];
  const extensionUses = new Map<string, readonly ExtensionUse[]>();
  for (const { file, task, servers: own, variants, extensions } of parsed) {
    const { name, location } = task;
    const { source } = file.document;
    if (taskChecksNothing(task)) {
      const message = `the task ${JSON.stringify(name)} checks nothing, so it could not fail`;
      const hint = "Give it verify steps, or assertions in the task set that it is in.";
      problems.add([withoutUndefined({ code: "config/checks-nothing" as const, message, hint, location })]);
    }
    const { named, all } = taskVariables(source?.text ?? "", task, environment);
    for (const entry of all.flatMap((some) => Object.entries(some)))
      variables.set(entry.join("="), Object.fromEntries([entry]));
    for (const server of [own, ...Object.values(variants)].flatMap((table) => Object.values(table)))
      servers.push(withVariables(server, named));
    const uses = extensions.map((use) =>
      withoutUndefined({ ...use, frame: use.location && source?.frame(use.location) }),
    );
    if (uses.length > 0) extensionUses.set(name, uses);
  }
  const declaring = parsed.filter((each) => Object.keys(each.servers).length > 0);
  const variants = new Set(parsed.flatMap((each) => Object.keys(each.variants)));
  return {
    tasks: parsed.map(({ task }) => task),
    taskServers: Object.fromEntries(declaring.map(({ task, servers: own }) => [task.name, own])),
    variants: Object.fromEntries(
      [...variants].map((name) => [
        name,
        Object.fromEntries(parsed.map((each) => [each.task.name, each.variants[name] ?? {}])),
      ]),
    ),
    notes: parsed.flatMap(({ notes }) => notes),
    variables: [...variables.values()],
    servers,
    extensionUses,
  };
}

/** How a task is read by itself. */
export interface TaskOptions {
  /** Absolute path of the folder that the file is named from. */
  readonly cwd: string;
  /** Whether paths of the task may leave its folder. */
  readonly allowOutside: boolean;
  /** Default: this process's. */
  readonly environment?: EnvironmentVariables;
}

/** A task by itself, without what an eval around it would give. */
export interface TaskAlone {
  readonly task: Task;
  /** Its own servers, as the file says them: folders relative to the task's, and no environment but their own. */
  readonly servers: Readonly<Record<string, ServerSpec>>;
  readonly notes: readonly string[];
  readonly document: unknown;
  /** The files that it may see. */
  readonly files: TaskFiles;
}

/**
 * Reads the text of one task; `path` is the absolute path of its file. Variables need not be set: they may be where the
 * task runs. Throws one McpvalsError of kind `usage` for everything that is wrong.
 */
export async function parseTaskText(
  source: SourceText,
  path: string,
  { allowOutside, environment = readEnvironment() }: Omit<TaskOptions, "cwd">,
): Promise<TaskAlone> {
  const dir = dirname(path);
  const document = await parseData(source, endingOf(path));
  const root = asObject(document.value);
  if (isTaskExport(root)) throw exportedTask(source.file);
  if (documentKind(root) !== "Task") {
    throw new McpvalsError("config/invalid-value", `${source.file} is not a task: its kind is not Task`, {
      location: { file: source.file },
    });
  }
  const files = filesOfTask({ path, repository: repositoryOf(dir), document }, allowOutside);
  const named = [...source.text.matchAll(/\benv\.(\w+)/g)].map(([, name = ""]) => [name, ""]);
  const parsed = parseTask(document.value, {
    file: path,
    dir,
    locate: document.locate,
    ...files,
    servers: [],
    variables: { ...environment, ...Object.fromEntries(named) },
    completeStdio: ({ cwd = ".", env }) => ({ cwd, env: { ...env } }),
    inheritEnv: [],
    graderTypes: graderTypesAt(dir, document.locate),
  });
  if (parsed.ok) return { ...parsed, document: document.value, files: files.files };
  return new FileProblems().refuse(parsed.diagnostics, source);
}

/** The files that a task may see: those of its folder, and in the older forms those of its repository. */
function filesOfTask(
  { path, repository, document }: Pick<TaskFile, "path" | "repository" | "document">,
  allowOutside: boolean,
): Pick<ParseTaskOptions, "files" | "repository"> {
  const dir = dirname(path);
  if (!isOlderForm(asObject(document.value))) return { files: taskFiles(dir, { allowOutside }) };
  return { files: taskFiles(dir, { allowOutside, repository }), repository };
}

export interface TaskFilesOptions {
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
    if (!allowOutside && leadsOut(dir, target) && leadsOut(repository, target)) return "outside";
    return (target.includes("\0") ? undefined : pathKind(target)) ?? "nothing";
  };
  return {
    look,
    read(path) {
      if (look(path) !== "file") return undefined;
      try {
        const bytes = readRegularFile(resolve(dir, path), maxFileBytes);
        return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
      } catch {
        return undefined; // the parser reports that the file cannot be read, and where it is named
      }
    },
    leaves: (path) => leadsOut(dir, resolve(dir, path)),
    special(path) {
      const entries = entriesBelow(resolve(dir, path));
      return entries.find(({ kind }) => kind === "special")?.path;
    },
  };
}

/** Whether a path leads out of a folder, before or after links are followed. */
export function leadsOut(folder: string, target: string): boolean {
  return !isInside(folder, target) || !isInside(realPath(folder), realPath(target));
}

/** Where a path leads; of what does not exist, where it would be. */
function realPath(path: string): string {
  try {
    return realpathSync.native(path);
  } catch (cause) {
    const parent = dirname(path);
    if (parent === path) throw cause;
    return join(realPath(parent), relative(parent, path));
  }
}
