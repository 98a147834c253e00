import { dirname, resolve } from "node:path";
import type { Diagnostic } from "../../core/errors/error.ts";
import { formatLocation } from "../../core/errors/render.ts";
import type { EvalExtensions } from "../../core/formats/extension/extension-table-schema.ts";
import type { ExtensionUse } from "../../core/formats/task/task-options.ts";
import type { ProvidedServers } from "../../core/formats/config/server-tables.ts";
import type { Eval, ServerSpec, Task, Variant } from "../../core/formats/model.ts";
import { walkSteps } from "../../core/formats/step.ts";
import { parseTask } from "../../core/formats/task/parse-task.ts";
import { withoutUndefined } from "../../core/formats/json.ts";
import { taskChecksNothing } from "../../core/formats/assertion-kinds.ts";
import { completeStdio, type EnvironmentVariables, type LoadContext } from "../environment.ts";
import { type ExtensionUses, extensionVariables } from "../extensions.ts";
import type { FileProblems } from "../file-problems.ts";
import type { TaskFile } from "./read-tasks.ts";
import { filesOfTask } from "./task-files.ts";
import { stepVariables, taskVariables, withKnown, withVariables } from "./task-secrets.ts";

/** What the eval around them gives to tasks. */
interface TaskContext {
  readonly loadContext: LoadContext;
  /** The eval's servers. */
  readonly provided: ProvidedServers;
  /** Variables of the shell that tasks' processes get. */
  readonly inheritEnv: readonly string[] | true;
  /** What the eval says of extensions. */
  readonly extensions: EvalExtensions;
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

/** Makes tasks of files. What is wrong with them goes to the context's problems. */
export function parseTasks(files: readonly TaskFile[], context: TaskContext): readonly ParsedFile[] {
  return files.flatMap((file) => parseOne(file, context));
}

function parseOne(file: TaskFile, context: TaskContext): ParsedFile[] {
  const { path, document } = file;
  const { loadContext, problems, provided, inheritEnv, extensions } = context;
  const { environment, overrides, allowOutside } = loadContext;
  const dir = dirname(path);
  problems.add([], document.source);
  const parsed = parseTask(document.value, {
    file: path,
    dir,
    locate: document.locate,
    ...filesOfTask(file, { allowOutside }),
    servers: Object.keys(provided.base.written),
    provided,
    resolvePath: (relative) => resolve(dir, relative),
    variables: { ...environment, ...overrides },
    completeStdio: (server) => completeStdio(server, { dir, environment, overrides }),
    inheritEnv,
    extensions,
  });
  if (!parsed.ok) {
    problems.add(parsed.diagnostics, document.source);
    return [];
  }
  const { task } = parsed;
  const name = nameOf(task);
  const notes = [...(document.notes ?? []), ...parsed.notes.map((note) => placedNote(note, name))];
  const { servers: own, variants = {}, extensions: uses } = parsed;
  return [{ file, task, servers: own, variants, notes: shortened(notes, name), extensions: uses }];
}

/** A note with its place as other messages have it. */
function placedNote(note: string, file: string): string {
  const [, line, message] = /^line (\d+): (.*)$/s.exec(note) ?? [];
  return line === undefined || message === undefined ? `${file}: ${note}` : `${file}:${line}: ${message}`;
}

/** Maximum number of notes on one file. */
const mostNotes = 50;

function shortened(notes: readonly string[], name: string): readonly string[] {
  if (notes.length <= mostNotes) return notes;
  return [...notes.slice(0, mostNotes), `${name}: … and ${notes.length - mostNotes} more notes`];
}

function nameOf({ name, location }: Task): string {
  return location?.file ?? name;
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
  /** Steps that need extensions. */
  readonly extensionUses: ExtensionUses;
}

export const noTasks: TasksOfEval = {
  tasks: [],
  taskServers: {},
  variants: {},
  notes: [],
  variables: [],
  servers: [],
  extensionUses: new Map(),
};

/** Puts tasks together; those that check nothing go to the problems. */
export function collectTasks(
  parsed: readonly ParsedFile[],
  { loadContext, problems }: Pick<TaskContext, "loadContext" | "problems">,
): TasksOfEval {
  const { environment, overrides } = loadContext;
  const known = { ...environment, ...overrides };
  const variables = new Map<string, EnvironmentVariables>();
  const servers: ServerSpec[] = [];
  for (const { file, task, servers: own, variants } of parsed) {
    if (taskChecksNothing(task)) problems.add([checksNothing(task)], file.document.source);
    const named = taskVariables(file.document.source?.text ?? "", task, known);
    for (const each of startsOf(task, known)) variables.set(JSON.stringify(each), each);
    for (const [name, value] of [named, ...stepVariables(task, named)].flatMap((some) =>
      Object.entries(some),
    ))
      variables.set(`${name}=${value}`, { [name]: value });
    for (const server of [own, ...Object.values(variants)].flatMap((table) => Object.values(table)))
      servers.push(withVariables(server, named));
  }
  const declaring = parsed.filter((each) => Object.keys(each.servers).length > 0);
  return {
    tasks: parsed.map(({ task }) => task),
    taskServers: Object.fromEntries(declaring.map(({ task, servers: own }) => [task.name, own])),
    variants: byVariant(parsed),
    notes: parsed.flatMap(({ notes }) => notes),
    variables: [...variables.values()],
    servers,
    extensionUses: usesOf(parsed),
  };
}

/** What the task's extensions are started with, with the variables that are known in the place of their templates. */
function startsOf({ portable }: Task, known: EnvironmentVariables): readonly EnvironmentVariables[] {
  const variables = { ...known, ...portable?.env };
  return Object.values(portable?.extensions ?? {})
    .flatMap(extensionVariables)
    .flatMap((some) => Object.entries(some))
    .map(([name, text]) => ({ [name]: withKnown(text, variables) }));
}

function byVariant(parsed: readonly ParsedFile[]): TasksOfEval["variants"] {
  const names = new Set(parsed.flatMap(({ variants }) => Object.keys(variants)));
  const tables = [...names].map((name) => {
    const tasks = parsed.map(({ task, variants }) => [task.name, variants[name] ?? {}] as const);
    return [name, Object.fromEntries(tasks)] as const;
  });
  return Object.fromEntries(tables);
}

function usesOf(parsed: readonly ParsedFile[]): ExtensionUses {
  const using = parsed.filter(({ extensions }) => extensions.length > 0);
  return new Map(
    using.map(({ file, task, extensions }) => [
      task.name,
      extensions.map((use) => {
        const { location } = use;
        const frame = location === undefined ? undefined : file.document.source?.frame(location);
        return withoutUndefined({ ...use, frame });
      }),
    ]),
  );
}

function checksNothing({ name, location }: Task): Diagnostic {
  return {
    code: "config/checks-nothing",
    message: `the task ${JSON.stringify(name)} checks nothing, so it could not fail`,
    hint: "Give it verify steps, or assertions in the task set that it is in.",
    ...(location === undefined ? {} : { location }),
  };
}

/** Tasks of a name that an earlier one has; those of workflows and tool tests are checked with their config. */
export function duplicateTasks(tasks: readonly Task[]): Diagnostic[] {
  const first = new Map<string, Task>();
  return tasks.flatMap((task) => {
    const earlier = first.get(task.name);
    if (earlier === undefined) first.set(task.name, task);
    const isFromFile = (task.portable ?? earlier?.portable) !== undefined;
    return earlier === undefined || !isFromFile ? [] : [duplicateTask(task, earlier)];
  });
}

function duplicateTask(task: Task, earlier: Task): Diagnostic {
  const place = earlier.location === undefined ? "" : `The other is at ${formatLocation(earlier.location)}. `;
  return {
    code: "config/duplicate-name",
    message: `two tasks are named ${JSON.stringify(task.name)}`,
    hint: `${place}Rename one of them.`,
    ...(task.location === undefined ? {} : { location: task.location }),
  };
}

/** Steps whose rubric nothing could fail, since the judge lets every score pass. */
export function rubricsThatCannotFail({ tasks, judge }: Pick<Eval, "tasks" | "judge">): Diagnostic[] {
  if (judge?.passThreshold !== 0) return [];
  return tasks.flatMap(({ name, verify, location }) =>
    [...walkSteps(verify)].flatMap((step) =>
      step.type === "llm" && step.rubric !== undefined
        ? [
            {
              code: "config/checks-nothing",
              message: `the rubric of ${step.id} of the task ${JSON.stringify(name)} could not fail: the judge's passThreshold is 0`,
              hint: "Set the judge's passThreshold above 0.",
              ...(location === undefined ? {} : { location }),
            } as const,
          ]
        : [],
    ),
  );
}
