import { type EvalExtensions, noExtensions } from "../../src/model/extension.ts";
import { formatKeyPath } from "../../src/base/json.ts";
import type { PortableTask, Task } from "../../src/model/task.ts";
import type { Step } from "../../src/model/step.ts";
import type { ParsedTask, ParseTaskOptions, TaskFiles } from "../../src/formats/task/parse-task.ts";
import { parseTask } from "../../src/formats/tasks.ts";

/** Files of a task by path: text, `null` for a folder; a path that leaves the folder is `outside`. */
export function filesOf(files: Readonly<Record<string, string | null>>): TaskFiles {
  return {
    look: (path) => {
      if (path.startsWith("/") || path.split("/").includes("..")) return "outside";
      if (!Object.hasOwn(files, path)) return "nothing";
      return files[path] === null ? "folder" : "file";
    },
    read: (path) => files[path] ?? undefined,
    leaves: (path) => path.startsWith("/") || path.split("/").includes(".."),
  };
}

/** The least that may stand in a verify phase. */
export const check = { command: { run: "test -d ." } };

/** A task's document with a spec of its own; whatever else it needs is filled in. */
export function taskDocument(spec: object = {}, metadata: object = {}): object {
  return {
    apiVersion: "mcp-eval/v1",
    kind: "Task",
    metadata: { name: "a task", ...metadata },
    spec: { verify: [check], ...spec },
  };
}

export interface TestOptions extends Partial<ParseTaskOptions> {
  /** False: nothing is known of the eval's extensions. */
  readonly knowsEval?: boolean;
}

/** Parses a task that stands in `/task`; the eval provides the server `main`. */
export function parse(document: unknown, { knowsEval = true, ...options }: TestOptions = {}): ParsedTask {
  return parseTask(document, {
    file: "/task/task.yaml",
    dir: "/task",
    locate: ({ path, at }) => ({ file: "task.yaml", path: `${at} ${formatKeyPath(path)}` }),
    files: filesOf({}),
    servers: ["main"],
    variables: { HOME: "/home/me" },
    completeStdio: ({ cwd, env }) => ({ cwd: cwd ?? "/task", env }),
    inheritEnv: [],
    ...(knowsEval ? { extensions: noExtensions } : {}),
    ...options,
  });
}

/** A parsed task that has to be valid. */
export function valid(document: unknown, options?: TestOptions): Extract<ParsedTask, { ok: true }> {
  const parsed = parse(document, options);
  if (!parsed.ok) throw new Error(parsed.diagnostics.map((each) => each.message).join("\n"));
  return parsed;
}

export function taskOf(spec: object, options?: Partial<ParseTaskOptions>): Task {
  return valid(taskDocument(spec), options).task;
}

export function portableOf(spec: object, options?: Partial<ParseTaskOptions>): PortableTask {
  const { portable } = taskOf(spec, options);
  if (portable === undefined) throw new Error("the task has no portable part");
  return portable;
}

/** The model of the only step of a verify phase. */
export function stepOf(step: object, spec: object = {}, options?: Partial<ParseTaskOptions>): Step {
  const [first] = taskOf({ ...spec, verify: [step] }, options).verify;
  if (first === undefined) throw new Error("the task has no step");
  return first;
}

/** Everything wrong with a document, as `code at place: message`. */
export function problemsOf(document: unknown, options?: Partial<ParseTaskOptions>): string[] {
  const parsed = parse(document, options);
  if (parsed.ok) return [];
  return parsed.diagnostics.map((each) => `${each.code} at ${each.location?.path}: ${each.message}`);
}

/** Everything wrong with a task's spec. */
export function wrongIn(spec: object, options?: Partial<ParseTaskOptions>): string[] {
  return problemsOf(taskDocument(spec), options);
}

/** The hints for what is wrong with a task's spec. */
export function hintsIn(spec: object, options?: Partial<ParseTaskOptions>): (string | undefined)[] {
  const parsed = parse(taskDocument(spec), options);
  return parsed.ok ? [] : parsed.diagnostics.map(({ hint }) => hint);
}

/** What an eval in `/eval` says that declares extensions by these names, each of the package `./NAME`. */
export function extensionsNamed(...names: readonly string[]): EvalExtensions {
  const declared = names.map((name) => {
    const entry = { package: `./${name}`, dir: "/eval", name: `/eval/${name}`, config: {}, env: {} };
    return [name, { ...entry, sandbox: noExtensions.sandbox }] as const;
  });
  return { ...noExtensions, declared: Object.fromEntries(declared) };
}
