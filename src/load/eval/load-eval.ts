import { basename, dirname, extname, resolve } from "node:path";
import type { Diagnostic } from "../../core/errors/error.ts";
import { buildServers } from "../../core/formats/config/server.ts";
import { type ProvidedServers, readConfigServers } from "../../core/formats/config/server-tables.ts";
import {
  checkAssertedServers,
  type EvalFile,
  parseEvalFile,
  type TaskSet,
} from "../../core/formats/eval-file/parse-eval-file.ts";
import type { EvalExtensions } from "../../core/formats/extension/extension-table-schema.ts";
import { asObject, memberOf, withoutUndefined } from "../../core/formats/json.ts";
import type { AssertionSet, PortableTask, Task } from "../../core/formats/model.ts";
import { placeProblems } from "../../core/formats/problem.ts";
import { assembleEval, defaultLimits, type LoadedConfig } from "../assemble-eval.ts";
import { interpolateParts, type LoadContext } from "../environment.ts";
import { placeExtensions } from "../extensions.ts";
import { FileProblems } from "../file-problems.ts";
import {
  fixtureReader,
  loadMcpConfig,
  type McpServers,
  mcpVariables,
  noServers,
  readServers,
  serverBuilder,
} from "../servers.ts";
import { plainDocument } from "../read/document.ts";
import { expandGlob, pathKind } from "../sources/expand-glob.ts";
import { repositoryOf } from "../sources/find-sources.ts";
import type { OpenedFile } from "../sources/open-sources.ts";
import { collectTasks, type ParsedFile, parseTasks } from "../tasks/parse-tasks.ts";
import { readTasks, type TaskFile, withoutRepeats } from "../tasks/read-tasks.ts";
import { evalAgents, evalJudge } from "./eval-agents.ts";

/** What the parts of an eval's loading share. */
export interface EvalContext extends OpenedFile {
  readonly file: EvalFile;
  /** Absolute path of the folder that the eval's paths start from. */
  readonly dir: string;
  /** What the eval gives to its tasks of extensions. */
  readonly extensions: EvalExtensions;
  readonly loadContext: LoadContext;
  readonly problems: FileProblems;
}

/** The parts of an Eval in which `${VAR}` is replaced. */
const partsWithVariables = [
  "servers",
  "mcp_servers",
  "mocks",
  "mcp_mocks",
  "variants",
  "agents",
  "extensions",
].map((key) => ["config", key]);

/** Loads a file of kind Eval and everything that it names. Throws one error for all that is wrong with any of the files. */
export async function loadEval(opened: OpenedFile, loadContext: LoadContext): Promise<LoadedConfig> {
  const { document, path } = opened;
  const problems = new FileProblems();
  const { file, variables, notes: odd } = readEval(opened, { loadContext, problems });
  const dir = dirname(path);
  const { environment } = loadContext;
  const extensions = placeExtensions(file.extensions, {
    dir,
    path: ["config", "extensions"],
    locate: document.locate,
    environment,
  });
  const context: EvalContext = { ...opened, file, dir, extensions, loadContext, problems };
  const { provided, others } = await evalServers(context);
  const servers = buildServers(provided.base.servers, provided.build);
  const agents = await evalAgents(context, servers);
  const judge = await evalJudge(context);
  const { parsed, notes } = await evalTasks(context, provided);
  const names = [provided.base, ...(provided.variants ?? [])].flatMap((table) => Object.keys(table.written));
  const own = parsed.flatMap((each) => Object.keys(each.servers));
  problems.add(checkAssertedServers(file, [...names, ...own], document.locate), document.source);
  return assembleEval(
    {
      spec: withoutUndefined({
        name: file.name ?? basename(path, extname(path)),
        servers,
        agents: agents.agents,
        tasks: [],
        judge: judge.judge,
        trials: file.runs ?? 1,
        concurrency: file.parallel,
        limits: { ...defaultLimits, trialMs: file.limits.timeoutMs ?? defaultLimits.trialMs },
        reporters: ["console"],
        variants: provided.variants?.map(({ name }) => ({ name, servers: {} })),
        seed: file.seed,
      }),
      file: path,
      dir,
      document,
      agents: { agents: file.agents, path: ["config"] },
      tasks: collectTasks(parsed, { loadContext, problems }),
      extensions,
      variables: new Map([...variables, ...others.variables]),
      judgeProblems: judge.problems,
      notes: [...(document.notes ?? []), ...odd, ...others.notes, ...agents.notes, ...judge.notes, ...notes],
      problems,
    },
    loadContext,
  );
}

interface ReadEval {
  readonly file: EvalFile;
  /** Variables that were put into it. */
  readonly variables: ReadonlyMap<string, string>;
  readonly notes: readonly string[];
}

/** Reads the file alone. Throws what is wrong with it, but for variables that are not set, which go to the problems. */
function readEval(
  { document }: OpenedFile,
  { loadContext, problems }: Pick<EvalContext, "loadContext" | "problems">,
): ReadEval {
  const json = plainDocument(document, "the eval", problems);
  problems.throwIfAny([]);
  const found = interpolateParts(json ?? {}, partsWithVariables, loadContext);
  const { value, variables } = found;
  problems.add(placeProblems(found.problems, document.locate), document.source);
  const parsed = parseEvalFile(value, { locate: document.locate });
  if (parsed.ok) return { file: parsed.eval, variables, notes: parsed.notes };
  problems.add(parsed.diagnostics, document.source);
  problems.throwIfAny([]);
  throw new Error("an eval was refused without a problem");
}

/**
 * The servers of the command line's file, else those of the eval's, else that of `MCP_…` variables; the eval's own win over
 * all but the first. Its variants are laid over all of them.
 */
async function evalServers(
  context: EvalContext,
): Promise<{ readonly provided: ProvidedServers; readonly others: McpServers }> {
  const { file, dir, loadContext, problems, document } = context;
  const { tables, serverLifetime: lifetime } = file;
  const readFixtures = fixtureReader(dir);
  const hasOwn = ["servers", "mcp_servers", "mocks", "mcp_mocks"].some((key) => tables[key] !== undefined);
  const others = await otherServers(context, hasOwn);
  const which = loadContext.mcpConfig === undefined ? "provided" : "winning";
  const read = readConfigServers(tables, { path: ["config"], readFixtures, [which]: others.table });
  const { variants, problems: wrong, ...base } = read;
  problems.add(placeProblems(wrong, document.locate), document.source);
  const build = serverBuilder({ dir, loadContext, lifetime });
  return { provided: withoutUndefined({ base, variants, build, lifetime }), others };
}

async function otherServers(
  { file, dir, loadContext, problems }: EvalContext,
  hasOwn: boolean,
): Promise<McpServers> {
  const named =
    loadContext.mcpConfig ??
    (file.mcpConfigFile === undefined ? undefined : resolve(dir, file.mcpConfigFile));
  if (named !== undefined) return loadMcpConfig(named, { loadContext, problems });
  const variables = hasOwn ? undefined : mcpVariables(loadContext, problems);
  if (variables === undefined) return noServers;
  const shown = "MCP_ variables";
  return readServers(variables, {
    loadContext,
    problems,
    shown,
    locate: () => ({ file: shown }),
    dir: loadContext.cwd,
  });
}

interface EvalTasks {
  readonly parsed: readonly ParsedFile[];
  readonly notes: readonly string[];
}

/**
 * The tasks that an eval's task sets reach, each once, with the assertions of every set that reached it. What is wrong
 * with them goes to the problems.
 */
async function evalTasks(context: EvalContext, provided: ProvidedServers): Promise<EvalTasks> {
  const { file, extensions, loadContext, problems } = context;
  const { sets, notes: leftOut } = await filesOfSets(context);
  const files = withoutRepeats(sets.flatMap((set) => set.files));
  const parsed = parseTasks(files, {
    loadContext,
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
  return { parsed: chosen.map((each) => withEvalsLimits(each, context)), notes: leftOut };
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
  const { file, dir, loadContext, problems, document } = context;
  const { cwd } = loadContext;
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
