import { serverBuilder } from "../../server-builder.ts";
import { readdirSync } from "node:fs";
import { basename, dirname, extname, join, resolve } from "node:path";
import { interpolateParts } from "../../../base/read-json.ts";
import { modelId, defaultThreshold } from "../../../model/agent.ts";
import type { JudgeSpec, RunHook, RunHooks, Thresholds } from "../../../model/eval.ts";
import { type ServerSpec, buildServers } from "../../../model/server.ts";
import type { Task } from "../../../model/task.ts";
import { mergeServerTables, type ServerOverlay, type ServerTable } from "../../config/server-tables.ts";
import { triggerAccuracy } from "../../../graders/declared.ts";
import { isJsonObject, withoutUndefined } from "../../../base/json.ts";
import { LenientReader } from "../lenient-reader.ts";
import { placeProblems, type Problem, problem } from "../../../base/problem.ts";
import { type Metric, parseWazaEval, parseWazaTask, type WazaEval, type WazaTask } from "./parse-waza.ts";
import { parseCsv, tasksOfRows, tasksOfTriggerTests, triggerTestsSchema } from "./task-rows.ts";
import { graderKinds } from "../../../graders/kinds.ts";
import { unknownGrader } from "../../../graders/thresholds.ts";
import {
  defaultLimits,
  type EvalParts,
  noTasks,
  ownServers,
  requestedAgents,
  requestedJudge,
} from "../../assemble-eval.ts";
import { isSkill, withSkills } from "../eval/convert-eval.ts";
import { type LoadContext, lookupIn, programCompleter, displayPath } from "../../environment.ts";
import { type ConfigDocument, FileProblems, plainDocument } from "../../read/document.ts";
import {
  graderTypesAt,
  type OpenedFile,
  readData,
  readDataText,
  type TaskFile,
  taskFile,
  withoutRepeats,
} from "../../read/read-files.ts";
import { readFixtures } from "./fixtures.ts";
import { pathKind, pathsOfPattern } from "../../sources.ts";
import { taskFiles, type TasksOfEval } from "../../tasks.ts";

/** Keys whose texts may name variables: servers, and agents. Prompts and all else are taken as they are. */
const interpolated = [["mcp_servers"], ["config", "mcp_servers"], ["variants"], ["agent"], ["agents"]];

/** What the parts of the loading of a waza eval share. */
interface Context extends OpenedFile {
  readonly file: WazaEval;
  /** Whether nothing is wrong with it. */
  readonly isValid: boolean;
  /** Absolute path of the eval's folder, which its paths start from. */
  readonly dir: string;
  readonly loadContext: LoadContext;
  readonly problems: FileProblems;
  /** Variables that were put into files. */
  readonly variables: Map<string, string>;
  readonly taskNotes: string[];
  /** What the workspaces of tasks have of the folder of fixtures besides what each names; absent: nothing. */
  readonly fixtures?: readonly string[];
}

/**
 * Loads an `eval.yaml` of waza and the tasks that it names. Throws one error for all that is wrong with any of the files;
 * nothing that they ask for is ignored.
 */
export async function convertWaza(opened: OpenedFile, loadContext: LoadContext): Promise<EvalParts> {
  if (loadContext.mcpConfig !== undefined) throw ownServers(opened.shown);
  const { document, path } = opened;
  const dir = dirname(path);
  const problems = new FileProblems();
  const json = plainDocument(document, "the eval", problems);
  problems.throwIfAny();
  const found = interpolateParts(json ?? null, interpolated, lookupIn(loadContext));
  const parsed = parseWazaEval(isJsonObject(found.value) ? found.value : {}, {
    locate: document.locate,
    requested: loadContext.agents,
    templates: found.templates,
    readFixtures: (path) => readFixtures(dir, path),
    graderTypes: graderTypesAt(dir, document.locate),
  });
  const unset = placeProblems(found.problems, document.locate);
  const places = new Set(unset.map(({ location }) => location?.path));
  // What is wrong at the place of a variable that is not set is wrong because of that.
  const others = parsed.diagnostics.filter(({ location }) => !places.has(location?.path));
  problems.add([...unset, ...others], document.source);
  const file = parsed.eval;
  const isValid = parsed.isWhole && !problems.found;
  const variables = new Map(found.variables);
  const context = {
    ...opened,
    file,
    isValid,
    dir,
    loadContext,
    problems,
    variables,
    taskNotes: [],
  };
  const read = await readTasks(context);
  const servers = serversOf(read, context);
  const complete = programCompleter({ ...loadContext, dir });
  // An eval that is wrong may lack the agent that it means.
  const agents = isValid ? requestedAgents(file.agents, loadContext.agents, { problems, complete }) : [];
  checkSkills(context);
  const skillsPath = ["config", "skill_directories"];
  const skills = {
    ...context,
    folders: file.skillFolders.length === 0 ? undefined : file.skillFolders,
    path: skillsPath,
    pathOf: (index: number) => [...skillsPath, index],
  };
  return {
    spec: withoutUndefined({
      name: file.name ?? basename(path, extname(path)),
      servers: servers.base,
      agents: agents.map((agent) => withSkills(agent, undefined, skills)),
      judge: judgeOf(context, servers.tasks.tasks),
      bail: file.bail,
      thresholds: thresholdsOf(context, servers.tasks.tasks),
      hooks: runHooks(file.hooks, dir),
      trials: file.trials,
      concurrency: file.concurrency,
      limits: { ...defaultLimits, trialMs: file.timeoutMs ?? defaultLimits.trialMs },
      variants: file.variants?.map(({ name }) => ({ name, servers: {} })),
    }),
    file: path,
    dir,
    document,
    agents: file.agents,
    tasks: { ...noTasks, ...servers.tasks, notes: deduplicated(context.taskNotes) },
    variables,
    notes: [...(document.notes ?? []), ...parsed.notes],
    problems,
  };
}

/** Longest that a command around a run may take. */
const runHookMs = 600_000;

/** The commands around the run; undefined where there are none. They run in the eval's folder. */
function runHooks({ before_run, after_run }: WazaEval["hooks"], dir: string): RunHooks | undefined {
  if (before_run.length + after_run.length === 0) return undefined;
  const read = (key: string, hooks: typeof before_run): readonly RunHook[] =>
    hooks.map(({ command, working_directory: folder = ".", exit_codes, error_on_fail }, index) => ({
      id: `${key}[${index}]`,
      command,
      cwd: resolve(dir, folder),
      exitCodes: exit_codes,
      mayFail: !error_on_fail,
      timeoutMs: runHookMs,
    }));
  return { before: read("before_run", before_run), after: read("after_run", after_run) };
}

/** Required skills must be in a folder of skills, or be one. */
function checkSkills({ file, dir, problems, document }: Context): void {
  for (const [index, name] of file.requiredSkills.entries()) {
    const isThere = file.skillFolders.some((folder) => {
      const path = resolve(dir, folder);
      const own = basename(path) === name ? [path] : [];
      return [join(path, name), ...own].some(isSkill);
    });
    if (isThere) continue;
    const message = `no skill ${JSON.stringify(name.slice(0, 80))} is in the skill_directories`;
    const hint = "A skill is a folder of its name with a file SKILL.md.";
    const path = ["config", "required_skills", index];
    problems.addPlaced([problem(path, message, { code: "config/not-found", hint })], document);
  }
}

/** The judge that was asked for, else the eval's where a grader asks one. */
function judgeOf(
  { file: { judgeModel }, loadContext }: Context,
  tasks: readonly Task[],
): JudgeSpec | undefined {
  const requested = requestedJudge(loadContext);
  const asks = tasks.some(({ graders = [] }) =>
    graders.some(({ type, config }) => graderKinds[type]?.judge?.(config) !== undefined),
  );
  if (requested !== undefined || judgeModel === undefined || !asks) return requested;
  return { model: modelId(judgeModel, "openai") ?? judgeModel, passThreshold: defaultThreshold };
}

/** The thresholds of metrics. One that nothing measures goes to the problems. */
function thresholdsOf(
  { file, isValid, problems, document }: Context,
  tasks: readonly Task[],
): Thresholds | undefined {
  if (isValid && !problems.found)
    for (const { name, path } of file.metrics) {
      const others = unknownGrader(name, tasks);
      if (others === undefined) continue;
      const hint = name === triggerAccuracy ? "Write trigger_tests.yaml beside the eval." : others;
      const message = `no task has a grader ${JSON.stringify(name)}, so that nothing measures this metric`;
      problems.addPlaced([problem(path, message, { code: "config/unknown-reference", hint })], document);
    }
  const thresholds = file.metrics.flatMap(({ name, threshold }) =>
    threshold === undefined ? [] : [[name, threshold] as const],
  );
  return thresholds.length === 0 ? undefined : Object.fromEntries(thresholds);
}

/** A task whose graders have their weights multiplied by those of the metrics of their names. */
function weighted(task: Task, metrics: readonly Metric[]): Task {
  if (metrics.length === 0) return task;
  const graders = (task.graders ?? []).map((grader) => {
    const { weight = 1 } = metrics.find(({ name }) => name === grader.name) ?? {};
    return { ...grader, weight: grader.weight * weight };
  });
  return { ...task, graders };
}

/** Lists a note that many tasks have once, at the first place. */
function deduplicated(notes: readonly string[]): readonly string[] {
  const places = new Map<string, string[]>();
  for (const note of notes) {
    const [, place = "", message = note] = /^(\S+:\d+:\d+): (.*)$/s.exec(note) ?? [];
    places.set(message, [...(places.get(message) ?? []), place]);
  }
  return [...places].map(([message, [first = "", ...others]]) => {
    const more =
      others.length === 0 ? "" : ` (and in ${others.length} other place${others.length === 1 ? "" : "s"})`;
    return `${first === "" ? "" : `${first}: `}${message}${more}`;
  });
}

/** A task that was read, with its file and the texts that variables went into. */
interface ReadTask extends WazaTask {
  readonly document: ConfigDocument;
  readonly templates: ReadonlyMap<string, string>;
}

/** Reads the tasks that an eval names, each file once. Their problems and notes are added to those of the context. */
async function readTasks(context: Context): Promise<readonly ReadTask[]> {
  const { file, dir, loadContext, problems, document, taskNotes } = context;
  const files: TaskFile[] = [];
  for (const [index, pattern] of file.tasks.entries()) {
    const paths = pathsOfPattern(pattern, dir);
    if (paths.length === 0) {
      const message = `tasks: there is no task file at ${JSON.stringify(pattern)}`;
      const hint = "Paths and globs start from the eval's folder; a task is a .yaml, .yml or .json file.";
      const details = { code: "config/not-found", hint } as const;
      problems.addPlaced([problem(["tasks", index], message, details)], document);
    }
    for (const path of paths) {
      try {
        files.push(taskFile(path, dirname(path), await readData(path, displayPath(loadContext.cwd, path))));
      } catch (error) {
        problems.addError(error);
      }
    }
  }
  const fromFiles = withoutRepeats(files).flatMap((each) => readTask(each, context, file.inputs));
  const all = [...fromFiles, ...readRows(context), ...(await readTriggerTests(context))];
  const [read, disabled] = [true, false].map((enabled) => all.filter((task) => task.enabled === enabled));
  for (const { task } of disabled ?? [])
    taskNotes.push(`the task ${JSON.stringify(task.name)} is left out: enabled is false`);
  if (read?.length === 0 && !problems.found) {
    const message = "there is nothing to run: no task is enabled";
    const details = { code: "config/nothing-to-run", at: "key" } as const;
    problems.addPlaced([problem(["tasks"], message, details)], document);
  }
  return read ?? [];
}

/** Reads the tasks that the rows of a CSV file stand for. */
function readRows(context: Context): readonly ReadTask[] {
  const { file, dir, loadContext, problems, document } = context;
  if (file.rows === undefined) return [];
  const path = resolve(dir, file.rows.file);
  const found = taskFiles(dir, loadContext).look(file.rows.file);
  if (found !== "file") {
    const why = found === "outside" ? "leads out of the eval's folder" : "is not a file";
    const hint = "Name a CSV file in the eval's folder or below.";
    problems.addPlaced(
      [problem(["tasks_from"], `tasks_from ${why}`, { code: "config/not-found", hint })],
      document,
    );
    return [];
  }
  const shown = displayPath(loadContext.cwd, path);
  const hint = "The first row names the columns; one of them is prompt.";
  try {
    const source = readDataText(path, shown);
    const rows = parseCsv(source.text);
    const tasks =
      rows === undefined
        ? { at: 0, message: "has a quote that does not end its cell" }
        : tasksOfRows(rows, file.rows.range);
    if ("message" in tasks) {
      const { at, message } = tasks;
      const location = source.location(at);
      problems.add(
        [{ code: "config/invalid-value", message: `${shown} ${message}`, location, hint }],
        source,
      );
      return [];
    }
    return tasks.flatMap(({ at, document: value, variables }) => {
      const row = { value, source, locate: () => source.location(at) };
      return readTask({ path, document: row }, context, { ...file.inputs, ...variables });
    });
  } catch (error) {
    problems.addError(error);
    return [];
  }
}

/** Reads `trigger_tests.yaml`, which runs when it is beside the eval. Each prompt is a task; its workspace has all fixtures. */
async function readTriggerTests(context: Context): Promise<readonly ReadTask[]> {
  const { dir, loadContext, problems } = context;
  const path = join(dir, "trigger_tests.yaml");
  if (pathKind(path) !== "file") return [];
  try {
    const document = await readData(path, displayPath(loadContext.cwd, path));
    const { locate, source } = document;
    const reader = new LenientReader(locate, { strict: true });
    const tests = reader.read(triggerTestsSchema, document.value);
    if (tests === undefined) {
      problems.add(reader.diagnostics(), source);
      return [];
    }
    const folder = contextFolder(undefined, path, dir);
    const fixtures =
      folder === dir ? [] : readdirSync(folder).filter((name) => !/^\.|^node_modules$/.test(name));
    // Graders of the eval are for its tasks.
    const ofTests = { ...context, file: { ...context.file, graders: [] }, fixtures };
    return tasksOfTriggerTests(tests).flatMap(({ path: at, document: value }) => {
      const prompt = { ...document, value, locate: () => locate({ path: at, at: "value" }) };
      return readTask({ path, document: prompt }, ofTests, undefined);
    });
  } catch (error) {
    problems.addError(error);
    return [];
  }
}

function readTask(
  { path, document }: Pick<TaskFile, "path" | "document">,
  context: Context,
  values: Readonly<Record<string, string>> | undefined,
): ReadTask[] {
  const { loadContext, problems, variables, dir, taskNotes } = context;
  const json = plainDocument(document, "the task", problems);
  if (json === undefined) return [];
  const found = interpolateParts(json, [["mcp_servers"]], lookupIn(loadContext));
  problems.addPlaced(found.problems, document);
  if (found.problems.length > 0) return [];
  for (const [name, value] of found.variables) variables.set(name, value);
  const parsed = parseWazaTask(found.value, {
    file: path,
    locate: document.locate,
    eval: context.file,
    evalDir: dir,
    variables: values,
    graderTypes: graderTypesAt(dirname(path), document.locate),
    readPromptFile: (file) => textBeside(file, path, loadContext),
    isEvalWhole: context.isValid,
    fixtures: context.fixtures,
    contextFolder: (contextDir) => contextFolder(contextDir, path, dir),
    lookAt: (folder, file) => taskFiles(folder, loadContext).look(file),
  });
  if (!parsed.ok) {
    problems.add(parsed.diagnostics, document.source);
    return [];
  }
  taskNotes.push(...(document.notes ?? []), ...parsed.notes);
  return [{ ...parsed.read, document, templates: found.templates }];
}

/** The text of a file beside a task's, or below; undefined where none is. */
function textBeside(file: string, path: string, loadContext: LoadContext): string | undefined {
  const dir = dirname(path);
  if (taskFiles(dir, loadContext).look(file) !== "file") return undefined;
  return readDataText(resolve(dir, file), displayPath(loadContext.cwd, path)).text.trim();
}

/** The task's own folder for files, from the task's; else `fixtures` beside the eval; else where the task is. */
function contextFolder(contextDir: string | undefined, path: string, dir: string): string {
  if (contextDir !== undefined) return resolve(dirname(path), contextDir);
  const usual = join(dir, "fixtures");
  return pathKind(usual) === "folder" ? usual : dirname(path);
}

/** A task with its servers, and those that it has in each variant. */
interface PlacedTask {
  readonly read: ReadTask;
  readonly own: ServerTable;
  readonly variants: Readonly<Record<string, ServerTable>>;
}

/** `per_benchmark`: servers start once for the whole eval. */
const defaultLifetime = "per_run";

/**
 * Merges the servers of tasks over those of the eval, and those of variants over both; folders of all of them start from the
 * eval's. Their problems are added to those of the context.
 */
function serversOf(
  read: readonly ReadTask[],
  context: Context,
): {
  /** Those of the eval itself. */
  readonly base: Readonly<Record<string, ServerSpec>>;
  readonly tasks: Pick<TasksOfEval, "tasks" | "taskServers" | "variants" | "servers">;
} {
  const { file, dir, loadContext } = context;
  const placed = read.map((task) => placeTask(task, context));
  const server = serverBuilder({ dir, loadContext, lifetime: file.lifetime ?? defaultLifetime });
  const build = (table: ServerTable): Readonly<Record<string, ServerSpec>> =>
    buildServers(table.servers, server);
  const base = build(file.servers);
  const changed = placed.filter((each) => each.read.overlay !== undefined);
  const taskServers = Object.fromEntries(changed.map((each) => [each.read.task.name, build(each.own)]));
  const variants = Object.fromEntries(
    (file.variants ?? []).map(({ name }) => [
      name,
      Object.fromEntries(
        placed.map((each) => [each.read.task.name, build(each.variants[name] ?? file.servers)]),
      ),
    ]),
  );
  const tables = [base, ...Object.values(taskServers), ...Object.values(variants).flatMap(Object.values)];
  return {
    base,
    tasks: {
      tasks: placed.map((each) =>
        weighted({ ...each.read.task, servers: Object.keys(each.own.servers) }, file.metrics),
      ),
      taskServers,
      variants,
      servers: tables.flatMap((table) => Object.values(table)),
    },
  };
}

function placeTask(read: ReadTask, { file, problems, document: evalDocument }: Context): PlacedTask {
  const { overlay, templates, document, task } = read;
  const own = merge(file.servers, overlay, templates);
  // Those of the overlay by itself are among the task's.
  problems.addPlaced(
    own.problems.filter((problem) => overlay?.problems.includes(problem) === false),
    document,
  );
  const variants = (file.variants ?? []).map(({ name, overlay: above }) => {
    const table = merge(own, above);
    if (overlay !== undefined) {
      // What is wrong with a variant only together with the servers of a task, which may have taken away what the variant takes away.
      const known = new Set(merge(file.servers, above).problems.map(keyOf));
      const together = table.problems
        .filter((problem) => problem.code !== "config/unknown-reference" && !known.has(keyOf(problem)))
        .map(({ message, ...problem }): Problem => {
          const where = `with the servers of the task ${JSON.stringify(task.name)}`;
          return { ...problem, message: `${where}: ${message}` };
        });
      problems.addPlaced(together, evalDocument);
    }
    return [name, table] as const;
  });
  return { read, own, variants: Object.fromEntries(variants) };
}

function merge(
  servers: ServerTable,
  overlay: ServerOverlay | undefined,
  templates?: ReadonlyMap<string, string>,
): ReturnType<typeof mergeServerTables> {
  if (overlay === undefined) return { ...servers, problems: [] };
  return mergeServerTables(servers, overlay, templates);
}

function keyOf({ message, path }: Problem): string {
  return JSON.stringify([message, path]);
}
