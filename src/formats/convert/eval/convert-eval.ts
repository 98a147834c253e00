import { serverBuilder } from "../../server-builder.ts";
import { readdirSync } from "node:fs";
import { basename, dirname, extname, join, resolve } from "node:path";
import { interpolateParts } from "../../../base/read-json.ts";
import {
  graderTypesAt,
  type OpenedFile,
  readData,
  tasksOfSet,
  type TaskFile,
  withoutRepeats,
} from "../../read/read-files.ts";
import type { Diagnostic } from "../../../base/error.ts";
import { buildAgent } from "../../../agents/declared-agents.ts";
import {
  modelAgent,
  modelId,
  type AgentSpec,
  type ModelAgentSpec,
  defaultThreshold,
} from "../../../model/agent.ts";
import { type ProvidedServers, readConfigServers } from "../../config/server-tables.ts";
import { buildServers } from "../../../model/server.ts";
import { type AgentFile, type FileAgent, parseAgentFile, shellAgent } from "./agent-file.ts";
import {
  type AgentRef,
  type EvalFile,
  parseEvalFile,
  type TaskSet,
  unknownAssertedServers,
} from "./eval-file.ts";
import type { EvalExtensions } from "../../../model/extension.ts";
import { asObject, type JsonObject, memberOf, withoutUndefined } from "../../../base/json.ts";
import type { JudgeSpec, Limits } from "../../../model/eval.ts";
import type { PortableTask } from "../../../model/task.ts";
import { type Problem, problem } from "../../../base/problem.ts";
import {
  defaultLimits,
  type EvalParts,
  placeExtensions,
  requestedAgents,
  requestedJudge,
} from "../../assemble-eval.ts";
import {
  isRelativePath,
  type LoadContext,
  lookupIn,
  programCompleter,
  displayPath,
} from "../../environment.ts";
import { FileProblems, plainDocument } from "../../read/document.ts";
import { loadMcpConfig, type McpServers, noServers, serversOfVariables } from "../client/client-servers.ts";
import { entriesBelow, pathKind, repositoryOf } from "../../sources.ts";
import { collectTasks, leadsOut, type ParsedFile, parseTasks } from "../../tasks.ts";
import { presetNamed } from "../../../agents/programs/presets.ts";

/** What the parts of an eval's loading share. */
interface EvalContext extends OpenedFile {
  readonly file: EvalFile;
  /** Absolute path of the folder that the eval's paths start from. */
  readonly dir: string;
  /** What the eval gives to its tasks of extensions. */
  readonly extensions: EvalExtensions;
  readonly loadContext: LoadContext;
  readonly problems: FileProblems;
  /** Notes on all files. */
  readonly notes: string[];
}

/** The keys of `config` in which `${VAR}` is replaced. */
const keysWithVariables = ["servers", "mocks", "variants", "agents", "extensions"];

/** Loads a file of kind Eval and everything that it names. Throws one error for all that is wrong with any of the files. */
export async function convertEval(opened: OpenedFile, loadContext: LoadContext): Promise<EvalParts> {
  const { document, path } = opened;
  const problems = new FileProblems();
  const json = plainDocument(document, "the eval", problems);
  problems.throwIfAny();
  const parts = keysWithVariables.map((key) => ["config", key]);
  const found = interpolateParts(json ?? {}, parts, lookupIn(loadContext));
  problems.addPlaced(found.problems, document);
  const dir = dirname(path);
  const parsedEval = parseEvalFile(found.value, {
    locate: document.locate,
    graderTypes: graderTypesAt(dir, document.locate),
  });
  if (!parsedEval.ok) return problems.refuse(parsedEval.diagnostics, document.source);
  const file = parsedEval.eval;
  const places = { dir, path: ["config", "extensions"], locate: document.locate };
  const extensions = placeExtensions(file.extensions, places, loadContext.environment);
  const notes = [...(document.notes ?? []), ...parsedEval.notes];
  const context: EvalContext = { ...opened, file, dir, extensions, loadContext, problems, notes };
  const others = await otherServers(context);
  const provided = evalServers(context, others);
  const agents = await evalAgents(context, provided);
  const judge = await evalJudge(context);
  const parsed = await evalTasks(context, provided);
  const tables = [provided.base, ...(provided.variants ?? [])];
  const names = tables.flatMap((table) => Object.keys(table.written));
  const own = parsed.flatMap((each) => Object.keys(each.servers));
  const unknown = file.taskSets.flatMap(({ assertions = {} }, index) =>
    unknownAssertedServers(assertions, ["config", "taskSets", index, "assertions"], [...names, ...own]),
  );
  problems.addPlaced(unknown, document);
  return {
    spec: withoutUndefined({
      name: file.name ?? basename(path, extname(path)),
      servers: buildServers(provided.base.servers, provided.build),
      agents,
      judge: judge.judge,
      userModel: file.userModel,
      trials: file.runs,
      concurrency: file.parallel,
      thresholds: file.thresholds,
      budget: file.budget,
      limits: limitsOf(file),
      variants: provided.variants?.map(({ name }) => ({ name, servers: {} })),
      seed: file.seed,
    }),
    file: path,
    dir,
    document,
    agents: { agents: file.agents, path: ["config"] },
    tasks: collectTasks(parsed, { loadContext, problems }),
    prices: file.prices && resolve(dir, file.prices),
    extensions,
    variables: new Map([...found.variables, ...others.variables]),
    judgeProblems: judge.problems ?? [],
    notes,
    problems,
  };
}

/** The servers of the command line's file, else of the file that the eval names, else that of `MCP_…` variables. */
async function otherServers(context: EvalContext): Promise<McpServers> {
  const { file, dir, loadContext, notes } = context;
  const named =
    loadContext.mcpConfig ??
    (file.mcpConfigFile === undefined ? undefined : resolve(dir, file.mcpConfigFile));
  const hasOwn = ["servers", "mcp_servers", "mocks", "mcp_mocks"].some(
    (key) => file.tables[key] !== undefined,
  );
  if (named === undefined && hasOwn) return noServers;
  const others = await (named === undefined ? serversOfVariables(context) : loadMcpConfig(named, context));
  notes.push(...others.notes);
  return others;
}

/** The eval's own servers win over others, except those of the command line. Its variants are merged over all of them. */
function evalServers(context: EvalContext, others: McpServers): ProvidedServers {
  const { file, dir, loadContext, problems, document } = context;
  const which = loadContext.mcpConfig === undefined ? "provided" : "winning";
  const {
    variants,
    problems: wrong,
    ...base
  } = readConfigServers(file.tables, {
    path: ["config"],
    [which]: others.table,
  });
  problems.addPlaced(wrong, document);
  const lifetime = file.serverLifetime;
  return withoutUndefined({
    base,
    variants,
    build: serverBuilder({ dir, loadContext, lifetime }),
    lifetime,
  });
}

/** The agents that play an eval: those asked for, else the one that it refers to, else its own ones; with the eval's skills. */
async function evalAgents(context: EvalContext, provided: ProvidedServers): Promise<readonly AgentSpec[]> {
  const { file, dir, loadContext, problems } = context;
  const requested = loadContext.agents;
  if (requested.length > 0 || file.agent === undefined) {
    const complete = programCompleter({ ...loadContext, dir });
    const agents = requestedAgents({ agents: file.agents }, requested, { problems, complete });
    return agents.map((agent) => withSkills(agent, undefined, skillsOf(context)));
  }
  const read = await readAgent(file.agent, context);
  const agent = read === undefined ? undefined : referredAgent(read, context, provided);
  return agent === undefined ? [] : [withSkills(agent, read?.skills, skillsOf(context))];
}

/** The agent that a reference means. Programs get the whole environment, as the tool that the format comes from gives it. */
function referredAgent(
  { name, agent }: ReadAgent,
  { dir, document, loadContext, problems }: EvalContext,
  { base, build }: ProvidedServers,
): AgentSpec | undefined {
  const complete = programCompleter({ ...loadContext, dir });
  const all = { env: {}, inheritEnv: true as const };
  switch (agent.kind) {
    case "llm-agent":
      return modelOf({ name, agent }, loadContext);
    case "claude-code":
      return buildAgent(name ?? "claude-code", { type: "acp", preset: "claude-code", ...all }, complete);
    case "acp": {
      const { command, args } = agent;
      return buildAgent(name ?? command, { type: "acp", command, args: [...args], ...all }, complete);
    }
    case "shell": {
      // As the tool that the format comes from takes it; bash where the user's shell has a language of its own.
      const { SHELL = "" } = loadContext.environment;
      const shell = /(?:^|\/)(?:ba|da|z|k|mk|a|)sh$/.test(SHELL) ? SHELL : "bash";
      const made = shellAgent(agent.commands, { servers: buildServers(base.servers, build), shell });
      if (made.ok) {
        const { command, args, env } = made;
        const program = { type: "command" as const, command, args: [...args], env: { ...env } };
        return buildAgent(name ?? "shell", { ...program, inheritEnv: true }, complete);
      }
      const message = `the agent's commands.${made.key} cannot be kept: ${made.reason}`;
      const hint = "Use another agent: type: builtin.claude-code, one in config.agents, or --agent.";
      problems.addPlaced([problem(["config", "agent"], message, { hint })], document);
      return undefined;
    }
  }
}

interface ReadAgent {
  readonly name?: string | undefined;
  readonly agent: FileAgent;
  /** What it is, in words. */
  readonly description: string;
  readonly skills?: AgentFile["skills"];
}

/** Reads the agent that a reference means; undefined when it cannot be read, and why is among the problems. */
async function readAgent(ref: AgentRef, context: EvalContext): Promise<ReadAgent | undefined> {
  if (ref.kind === "llm-agent") return { agent: ref, description: "" };
  if (ref.kind === "claude-code")
    return { agent: ref, description: "Claude Code, over the Agent Client Protocol" };
  const { loadContext, problems, notes } = context;
  const path = resolve(context.dir, ref.path);
  try {
    const document = await readData(path, displayPath(loadContext.cwd, path));
    const json = plainDocument(document, "the agent", problems);
    if (json === undefined) return undefined;
    const parsed = parseAgentFile(json, { locate: document.locate });
    notes.push(...(document.notes ?? []), ...(parsed.ok ? parsed.notes : []));
    if (parsed.ok)
      return { ...parsed.file, agent: placed(parsed.file.agent, [dirname(path), loadContext.cwd]) };
    problems.add(parsed.diagnostics, document.source);
  } catch (error) {
    problems.addError(error);
  }
  return undefined;
}

/** A program by a relative path lies beside the agent's file, or else where the reader is, as in the tool of that format. */
function placed(agent: FileAgent, folders: readonly string[]): FileAgent {
  if (agent.kind !== "acp" || !isRelativePath(agent.command)) return agent;
  const paths = folders.map((folder) => resolve(folder, agent.command));
  return { ...agent, command: paths.find((path) => pathKind(path) === "file") ?? paths[0] ?? agent.command };
}

interface NamedModel extends Pick<ReadAgent, "name"> {
  readonly agent: Extract<FileAgent, { kind: "llm-agent" }>;
}

function modelOf({ name, agent }: NamedModel, loadContext: LoadContext): ModelAgentSpec {
  const valueOf = (variable: string | undefined): string | undefined =>
    variable === undefined ? undefined : lookupIn(loadContext)(variable) || undefined;
  return withoutUndefined({
    ...modelAgent(name ?? agent.model, agent.model),
    baseURL: agent.baseURL ?? valueOf(agent.baseURLVariable),
    apiKey: valueOf(agent.apiKeyVariable),
  });
}

/** Skills of a file, for its agents. */
interface SkillSources extends Pick<EvalContext, "dir" | "problems" | "document"> {
  readonly loadContext: Pick<LoadContext, "allowOutside">;
  /** Folders, relative to the file's; absent: agents get none. */
  readonly folders?: readonly string[] | undefined;
  /** The place of the skills in the file, and of the path of one. */
  readonly path: Problem["path"];
  readonly pathOf: (index: number) => Problem["path"];
}

function skillsOf({ file, dir, problems, document, loadContext }: EvalContext): SkillSources {
  const path = ["config", "skills"];
  const pathOf = (index: number): Problem["path"] => [...path, "sources", index, "path"];
  return { folders: file.skills, dir, problems, document, loadContext, path, pathOf };
}

/**
 * The agent with the eval's skills; `own` is where its own file says that it looks for them. An agent that cannot have any
 * goes to the problems; those that play what is written need none.
 */
export function withSkills(agent: AgentSpec, own: AgentFile["skills"], skills: SkillSources): AgentSpec {
  const { dir, problems, document } = skills;
  if (skills.folders === undefined || ["scripted", "oracle", "null"].includes(agent.type)) return agent;
  const refuse = (message: string, hint: string, path: Problem["path"] = skills.path): AgentSpec => {
    problems.addPlaced([problem(path, message, { hint })], document);
    return agent;
  };
  const named = `the agent ${JSON.stringify(agent.name)}`;
  if (agent.type !== "acp" && agent.type !== "command")
    return refuse(
      `${named} is a model, which has no skills`,
      "Use an agent that is a program, such as --agent claude-code.",
    );
  const place = own ?? presetNamed(agent.preset)?.skills;
  if (place === undefined)
    return refuse(
      `it is not known where ${named} looks for skills`,
      "Give it a preset, such as claude-code. A file of kind Agent may also say it: skills: {mountPath: FOLDER, toolName: TOOL}.",
    );
  if (agent.cwd !== undefined)
    return refuse(
      `${named} works in a folder of its own, where no skills are copied`,
      "Leave out its cwd, so that it works in a fresh workspace.",
    );
  const folders = skills.folders.map((path) => resolve(dir, path));
  const wrong = wrongSkills(folders, skills);
  problems.addPlaced(wrong, document);
  return wrong.length > 0 ? agent : { ...agent, skills: { ...place, folders } };
}

/** What is wrong with folders of skills: each must have skills, each of its own name, and no links that lead out. */
function wrongSkills(
  folders: readonly string[],
  { dir, loadContext, pathOf }: SkillSources,
): readonly Problem[] {
  const owners = new Map<string, string>();
  return folders.flatMap((folder, index) => {
    const refuse = (message: string, hint: string): readonly Problem[] => [
      problem(pathOf(index), message, { hint }),
    ];
    if (pathKind(folder) !== "folder")
      return refuse(`there is no folder ${folder}`, "Paths start from the folder of this file.");
    const names = isSkill(folder)
      ? [basename(folder)]
      : readdirSync(folder).filter((name) => isSkill(join(folder, name)));
    if (names.length === 0)
      return refuse(
        `the folder ${folder} has no skill`,
        "A skill is a folder with a file SKILL.md: name one, or a folder with one folder per skill.",
      );
    const entries = entriesBelow(folder);
    const leaving = entries.find(
      ({ path, kind }) => kind === "link" && leadsOut(folder, path) && leadsOut(dir, path),
    );
    if (leaving !== undefined && !loadContext.allowOutside)
      return refuse(
        `the link ${leaving.path} leads out of the skills and of the folder of this file`,
        "Copy its target into the skill, or allow the link with --allow-outside.",
      );
    const special = entries.find(({ kind }) => kind === "special");
    if (special !== undefined)
      return refuse(`${special.path} is a pipe, a socket or a device, which cannot be copied`, "Remove it.");
    return names.flatMap((name) => {
      const owner = owners.get(name);
      owners.set(name, folder);
      const message = `the skill ${JSON.stringify(name)} is in ${owner} too`;
      return owner === undefined ? [] : refuse(message, "Each skill needs a name of its own.");
    });
  });
}

/** Whether a folder is a skill. */
export function isSkill(folder: string): boolean {
  return pathKind(join(folder, "SKILL.md")) === "file";
}

interface EvalJudge {
  readonly judge?: JudgeSpec | undefined;
  /** What is wrong with the judge alone: of no interest to a run that asks none. */
  readonly problems?: readonly Problem[];
}

/** The judge of an eval: the one asked for, else its own. */
async function evalJudge(context: EvalContext): Promise<EvalJudge> {
  const { file, loadContext, shown, notes } = context;
  const own = file.judge;
  const passThreshold = own?.passThreshold ?? defaultThreshold;
  if (loadContext.judgeModel !== undefined || own === undefined)
    return { judge: requestedJudge(loadContext, passThreshold) };
  if (own.kind === "agent") {
    const read = await readAgent(own.agent, context);
    if (read?.agent.kind === "llm-agent") {
      const { model, baseURL, apiKey } = modelOf({ name: read.name, agent: read.agent }, loadContext);
      return { judge: withoutUndefined({ model, passThreshold, baseURL, apiKey }) };
    }
    const instead = "Use another one: --judge MODEL; steps that ask a judge are errors until then.";
    if (read !== undefined)
      notes.push(`${shown}: the judge is ${read.description}, which this version does not run. ${instead}`);
    return {};
  }
  const variables = [own.baseURL, own.apiKey, own.model];
  const [baseURL, apiKey, model] = variables.map((name) => lookupIn(loadContext)(name) || undefined);
  if (baseURL !== undefined && apiKey !== undefined && model !== undefined)
    return { judge: { model: modelId(model, "openai") ?? model, baseURL, apiKey, passThreshold } };
  const unset = variables.filter((name) => !lookupIn(loadContext)(name));
  return {
    problems: unset.map((name) =>
      problem(["config", "llmJudge"], `llmJudge: the variable ${name} is not set`, {
        code: "config/unset-variable",
        hint: `Set ${name}, pass --env ${name}=VALUE, or choose another judge with --judge MODEL.`,
      }),
    ),
  };
}

/**
 * The tasks that an eval's task sets reach, each once, with the assertions of every set that reached it. What is wrong
 * with them goes to the problems.
 */
async function evalTasks(context: EvalContext, provided: ProvidedServers): Promise<readonly ParsedFile[]> {
  const { file, extensions, loadContext, problems, document } = context;
  const sets = await filesOfSets(context);
  const files = withoutRepeats(sets.flatMap((set) => set.files));
  const { inheritEnv, graders } = file;
  const taskContext = { loadContext, provided, inheritEnv, extensions, graders, problems };
  const parsed = await parseTasks(files, taskContext);
  const chosen = parsed.flatMap((each) => {
    const reaching = sets.filter((set) => reaches(set, each));
    // The settings of every grader are a JSON object.
    const more = reaching.flatMap(({ set: { assertions } }) =>
      assertions === undefined ? [] : [assertions as JsonObject],
    );
    const withMore = withPortable(each, ({ assertions }) => ({ assertions: [...assertions, ...more] }));
    const graded = withGraders(withMore, reaching, problems);
    return reaching.length === 0 ? [] : [withLimits(graded, context)];
  });
  // Whether a set would have reached a task that could not be made is not known.
  if (parsed.length === files.length) {
    const empty = sets.filter((set) => set.files.length > 0 && !chosen.some((each) => reaches(set, each)));
    problems.add(empty.map(noTaskWithLabels), document.source);
  }
  return chosen;
}

/** A task with the graders of the sets that reached it; a name that is taken goes to the problems. */
function withGraders(parsed: ParsedFile, sets: readonly FilesOfSet[], problems: FileProblems): ParsedFile {
  const { task } = parsed;
  const graders = [...(task.graders ?? []), ...sets.flatMap(({ set }) => set.graders)];
  const repeated = graders.find(({ name }, index) => graders.findIndex((each) => each.name === name) < index);
  if (repeated !== undefined) {
    const message = `two graders of the task ${JSON.stringify(task.name)} are named ${JSON.stringify(repeated.name)}`;
    const hint = "Rename one of them: those of a task set grade its tasks besides their own.";
    const location = sets[0]?.set.location;
    problems.add([withoutUndefined({ code: "config/duplicate-name" as const, message, hint, location })]);
  }
  return graders.length === 0 ? parsed : { ...parsed, task: { ...task, graders } };
}

interface FilesOfSet {
  readonly set: TaskSet;
  readonly index: number;
  readonly files: readonly TaskFile[];
}

async function filesOfSets(context: EvalContext): Promise<readonly FilesOfSet[]> {
  const { file, dir, loadContext, problems, document } = context;
  const { cwd } = loadContext;
  const repository = repositoryOf(dir);
  const sets: FilesOfSet[] = [];
  const notes = new Set<string>();
  for (const [index, set] of file.taskSets.entries()) {
    const settings = { ...set, index, dir, source: document.source };
    const found = await tasksOfSet(settings, { cwd, repository, problems });
    for (const note of found.notes) notes.add(note);
    sets.push({ set, index, files: found.tasks });
  }
  context.notes.push(...notes);
  return sets;
}

function noTaskWithLabels({ set: { labels, location }, index, files }: FilesOfSet): Diagnostic {
  const wanted = Object.entries(labels).map(([key, value]) => `${key}: ${value}`);
  const none =
    files.length === 1
      ? "The task of this set does not have"
      : `None of the ${files.length} tasks of this set has`;
  const message = `config.taskSets[${index}] reaches no task: labelSelector leaves out all that it names`;
  const hint = `${none} the labels ${wanted.join(", ")}.`;
  return withoutUndefined({ code: "usage/no-match" as const, message, hint, location });
}

function limitsOf({ limits }: EvalFile): Limits {
  const { timeoutMs: trialMs = defaultLimits.trialMs, cleanupTimeoutMs: _, ...use } = limits;
  return { ...defaultLimits, ...use, trialMs };
}

function reaches({ set, files }: FilesOfSet, { file, task }: ParsedFile): boolean {
  const labels = task.portable?.labels ?? {};
  const fits = Object.entries(set.labels).every(([key, value]) => labels[key] === value);
  return fits && files.some(({ realPath }) => realPath === file.realPath);
}

/** Limits that the eval sets for tasks that have none; that of the trial is the eval's own. */
function withLimits(parsed: ParsedFile, { file }: EvalContext): ParsedFile {
  const { cleanupTimeoutMs } = file.limits;
  const [, spec] = memberOf(parsed.file.document.value, "spec");
  const [, limits] = memberOf(asObject(spec), "limits");
  if (cleanupTimeoutMs === undefined || memberOf(asObject(limits), "cleanupTimeout")[1] !== undefined)
    return parsed;
  return withPortable(parsed, () => ({ cleanupTimeoutMs }));
}

function withPortable(
  parsed: ParsedFile,
  change: (portable: PortableTask) => Partial<PortableTask>,
): ParsedFile {
  const { portable } = parsed.task;
  if (portable === undefined) return parsed;
  return { ...parsed, task: { ...parsed.task, portable: { ...portable, ...change(portable) } } };
}
