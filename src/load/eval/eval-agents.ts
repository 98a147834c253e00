import { dirname, resolve } from "node:path";
import { presets } from "../../core/formats/presets/presets.ts";
import { buildAgent, type CompleteProgram, modelAgent } from "../../core/formats/config/agent.ts";
import { type AgentRef, type JudgeRef, modelId } from "../../core/formats/eval-file/parse-eval-file.ts";
import {
  type AgentFile,
  type FileAgent,
  parseAgentFile,
  type ShellAgent,
  shellAgent,
} from "../../core/formats/eval-file/parse-agent-file.ts";
import { type KeyPath, withoutUndefined } from "../../core/formats/json.ts";
import type { AgentSpec, JudgeSpec, ModelAgentSpec, ServerSpec } from "../../core/formats/model.ts";
import { placeProblems, type Problem } from "../../core/formats/problem.ts";
import { isRelativePath, lookupIn, programCompleter, shownFrom, type LoadContext } from "../environment.ts";
import { pathKind } from "../sources/expand-glob.ts";
import { plainDocument } from "../read/document.ts";
import { readData } from "../read/read-document.ts";
import { requestedAgents, requestedJudge } from "../requested.ts";
import type { EvalContext } from "./load-eval.ts";

export interface EvalAgents {
  readonly agents: readonly AgentSpec[];
  readonly notes: readonly string[];
}

/** The agents that play an eval: those asked for, else the one that it refers to, else its own ones; with the eval's skills. */
export async function evalAgents(context: EvalContext, servers: Servers): Promise<EvalAgents> {
  const { agents, skills, notes } = await chooseAgents(context, servers);
  return { agents: agents.map((agent) => withSkills(agent, skills, context)), notes };
}

interface ChosenAgents extends EvalAgents {
  /** Where the agent's own file says that it looks for skills. */
  readonly skills?: AgentFile["skills"];
}

async function chooseAgents(context: EvalContext, servers: Servers): Promise<ChosenAgents> {
  const { file, loadContext, problems } = context;
  const requested = loadContext.agents;
  if (requested.length > 0 || file.agent === undefined) {
    const complete = completerOf(context);
    return { agents: requestedAgents({ agents: file.agents }, requested, { problems, complete }), notes: [] };
  }
  const { agent, name, skills, notes } = await readAgent(file.agent, context);
  const built = agent === undefined ? undefined : buildReferred({ name, agent }, context, servers);
  return { agents: built === undefined ? [] : [built], skills, notes };
}

type Servers = Readonly<Record<string, ServerSpec>>;

function completerOf({ dir, loadContext }: EvalContext): CompleteProgram {
  return programCompleter({ ...loadContext, dir });
}

/** The agent that a reference means. Programs get the whole environment, as the tool that the format comes from gives it. */
function buildReferred(
  { name, agent }: NamedAgent,
  context: EvalContext,
  servers: Servers,
): AgentSpec | undefined {
  const complete = completerOf(context);
  const all = { env: {}, inheritEnv: true as const };
  switch (agent.kind) {
    case "llm-agent":
      return modelOf({ name, agent }, context.loadContext);
    case "claude-code":
      return buildAgent(name ?? "claude-code", { type: "acp", preset: "claude-code", ...all }, complete);
    case "acp": {
      const { command, args } = agent;
      return buildAgent(name ?? command, { type: "acp", command, args: [...args], ...all }, complete);
    }
    case "shell": {
      const { environment } = context.loadContext;
      const made = shellAgent(agent.commands, { servers, shell: shellOf(environment) });
      if (!made.ok) return refuseKey(made, context);
      const { command, args, env } = made;
      return buildAgent(
        name ?? "shell",
        { type: "command", command, args: [...args], env: { ...env }, inheritEnv: true },
        complete,
      );
    }
  }
}

/** The user's shell, as the tool that the format comes from takes it; bash where that shell has a language of its own. */
function shellOf({ SHELL: shell = "" }: LoadContext["environment"]): string {
  return /(?:^|\/)(?:ba|da|z|k|mk|a|)sh$/.test(shell) ? shell : "bash";
}

function refuseKey({ key, reason }: Extract<ShellAgent, { ok: false }>, context: EvalContext): undefined {
  const { document, problems } = context;
  const location = document.locate({ path: ["config", "agent"], at: "value" });
  problems.add(
    [
      {
        code: "config/invalid-value",
        message: `the agent's commands.${key} cannot be kept: ${reason}`,
        hint: "Use another agent: type: builtin.claude-code, one in config.agents, or --agent.",
        ...(location === undefined ? {} : { location }),
      },
    ],
    document.source,
  );
  return undefined;
}

interface NamedAgent {
  readonly name: string | undefined;
  readonly agent: FileAgent;
}

interface ReadAgent {
  readonly name: string | undefined;
  /** Absent when it cannot be read; why is among the problems. */
  readonly agent: FileAgent | undefined;
  /** What it is, in words. */
  readonly description: string;
  readonly skills?: AgentFile["skills"];
  readonly notes: readonly string[];
}

/** What a run can use instead of a judge that is no model. */
const instead = "Use another one: --judge MODEL; steps that ask a judge are errors until then.";

/** The model that a reference means; undefined for an agent that is none, which is noted, and for one that cannot be read. */
async function referredModel(
  ref: AgentRef,
  context: EvalContext,
): Promise<{ readonly model?: ModelAgentSpec; readonly notes: readonly string[] }> {
  const { name, agent, description, notes } = await readAgent(ref, context);
  if (agent === undefined) return { notes };
  if (agent.kind === "llm-agent") return { model: modelOf({ name, agent }, context.loadContext), notes };
  const message = `the judge is ${description}, which this version does not run`;
  return { notes: [...notes, `${context.shown}: ${message}. ${instead}`] };
}

/** Reads the agent that a reference means. Its problems are added to those of the context. */
async function readAgent(ref: AgentRef, context: EvalContext): Promise<ReadAgent> {
  switch (ref.kind) {
    case "llm-agent":
      return { ...nobody, agent: { kind: "llm-agent", model: ref.model } };
    case "claude-code":
      return {
        ...nobody,
        agent: { kind: "claude-code" },
        description: "Claude Code, over the Agent Client Protocol",
      };
    case "file":
      return readAgentFile(resolve(context.dir, ref.path), context);
  }
}

const nobody: ReadAgent = { name: undefined, agent: undefined, description: "", notes: [] };

async function readAgentFile(path: string, { loadContext, problems }: EvalContext): Promise<ReadAgent> {
  try {
    const shown = shownFrom(loadContext.cwd, path);
    const document = await readData(path, shown);
    const json = plainDocument(document, "the agent", problems);
    if (json === undefined) return nobody;
    const parsed = parseAgentFile(json, { locate: document.locate });
    const known = document.notes ?? [];
    if (!parsed.ok) {
      problems.add(parsed.diagnostics, document.source);
      return { ...nobody, notes: known };
    }
    const { name, description, skills } = parsed.file;
    const agent = placed(parsed.file.agent, [dirname(path), loadContext.cwd]);
    return { name, agent, description, skills, notes: [...known, ...parsed.notes] };
  } catch (error) {
    problems.addError(error);
    return nobody;
  }
}

/** A program by a relative path lies beside the agent's file, or else where the reader is, as in the tool of that format. */
function placed(agent: FileAgent, folders: readonly string[]): FileAgent {
  if (agent.kind !== "acp" || !isRelativePath(agent.command)) return agent;
  const paths = folders.map((folder) => resolve(folder, agent.command));
  const command = paths.find((path) => pathKind(path) === "file") ?? paths[0] ?? agent.command;
  return { ...agent, command };
}

interface NamedModel {
  readonly name: string | undefined;
  readonly agent: Extract<FileAgent, { kind: "llm-agent" }>;
}

function modelOf({ name, agent }: NamedModel, loadContext: LoadContext): ModelAgentSpec {
  return withoutUndefined({
    ...modelAgent(name ?? agent.model, agent.model),
    baseURL: agent.baseURL ?? valueOf(agent.baseURLVariable, loadContext),
    apiKey: valueOf(agent.apiKeyVariable, loadContext),
  });
}

function valueOf(variable: string | undefined, loadContext: LoadContext): string | undefined {
  return variable === undefined ? undefined : lookupIn(loadContext)(variable) || undefined;
}

interface Refusal {
  readonly message: string;
  readonly hint: string;
  /** Absent: at the skills as a whole. */
  readonly path?: KeyPath;
}

/**
 * The agent with the eval's skills; `own` is where its own file says that it looks for them. An agent that cannot have any
 * goes to the problems; those that play what is written need none.
 */
function withSkills(agent: AgentSpec, own: AgentFile["skills"], context: EvalContext): AgentSpec {
  const { file, dir, problems, document } = context;
  if (file.skills === undefined || ["scripted", "oracle", "null"].includes(agent.type)) return agent;
  const folders = file.skills.map((path) => resolve(dir, path));
  const given = skillsOf(agent, own, folders);
  if (!("message" in given)) return { ...agent, ...given };
  const { message, hint, path = ["config", "skills"] } = given;
  const problem = { code: "config/invalid-value", message, hint, path, at: "value" } as const;
  problems.add(placeProblems([problem], document.locate), document.source);
  return agent;
}

function skillsOf(
  agent: AgentSpec,
  own: AgentFile["skills"],
  folders: readonly string[],
): Pick<Extract<AgentSpec, { type: "acp" }>, "skills"> | Refusal {
  const named = `the agent ${JSON.stringify(agent.name)}`;
  if (agent.type !== "acp" && agent.type !== "command") {
    const hint = "Use an agent that is a program, such as --agent claude-code.";
    return { message: `${named} is a model, which has no skills`, hint };
  }
  const place = own ?? (agent.preset === undefined ? undefined : presets[agent.preset].skills);
  if (place === undefined) {
    const hint = "Say so in its file: skills: {mountPath: FOLDER, toolName: TOOL}; or give it a preset.";
    return { message: `it is not known where ${named} looks for skills`, hint };
  }
  if (agent.cwd !== undefined) {
    const hint = "Leave out its cwd, so that it works in a fresh workspace.";
    return { message: `${named} works in a folder of its own, where no skills are copied`, hint };
  }
  const lost = folders.findIndex((folder) => pathKind(folder) !== "folder");
  if (lost === -1) return { skills: { ...place, folders } };
  const path = ["config", "skills", "sources", lost, "path"];
  return {
    message: `there is no folder ${folders[lost]}`,
    hint: "Paths start from the eval's folder.",
    path,
  };
}

export interface EvalJudge {
  readonly judge: JudgeSpec | undefined;
  readonly notes: readonly string[];
  /** What is wrong with the judge alone: of no interest to a run that asks none. */
  readonly problems: readonly Problem[];
}

const usualThreshold = 0.8;

/** The judge of an eval: the one asked for, else its own. */
export async function evalJudge(context: EvalContext): Promise<EvalJudge> {
  const { file, loadContext } = context;
  const own = file.judge;
  const passThreshold = own?.passThreshold ?? usualThreshold;
  const asked = loadContext.judgeModel !== undefined || own === undefined;
  if (asked) return { judge: requestedJudge(loadContext, passThreshold), notes: [], problems: [] };
  if (own.kind === "env") return fromVariables(own, passThreshold, context);
  const { model: agent, notes } = await referredModel(own.agent, context);
  if (agent === undefined) return { judge: undefined, notes, problems: [] };
  const { model, baseURL, apiKey } = agent;
  const judge = {
    model,
    passThreshold,
    ...(baseURL === undefined ? {} : { baseURL }),
    ...(apiKey === undefined ? {} : { apiKey }),
  };
  return { judge, notes, problems: [] };
}

type VariableJudge = Extract<JudgeRef, { kind: "env" }>;

function fromVariables(names: VariableJudge, passThreshold: number, { loadContext }: EvalContext): EvalJudge {
  const lookup = lookupIn(loadContext);
  const [baseURL, apiKey, model] = [names.baseURL, names.apiKey, names.model].map(
    (name) => lookup(name) || undefined,
  );
  const problems = [names.baseURL, names.apiKey, names.model]
    .filter((name) => !lookup(name))
    .map((name): Problem => ({
      code: "config/unset-variable",
      message: `llmJudge: the variable ${name} is not set`,
      path: ["config", "llmJudge"],
      at: "value",
      hint: `Set ${name}, pass --env ${name}=VALUE, or choose another judge with --judge MODEL.`,
    }));
  if (baseURL === undefined || apiKey === undefined || model === undefined)
    return { judge: undefined, notes: [], problems };
  const judge = { model: modelId(model, "openai") ?? model, baseURL, apiKey, passThreshold };
  return { judge, notes: [], problems };
}
