import { resolve } from "node:path";
import type { Diagnostic } from "../../core/errors/error.ts";
import { modelAgent } from "../../core/formats/config/build-eval.ts";
import type { AgentRef } from "../../core/formats/eval-file/eval-file.ts";
import {
  type AgentFile,
  type FileAgent,
  parseAgentFile,
} from "../../core/formats/eval-file/parse-agent-file.ts";
import type { AgentSpec, ModelAgentSpec } from "../../core/formats/model.ts";
import { withoutUndefined } from "../../core/formats/without-undefined.ts";
import { variableNamed } from "../environment.ts";
import { plainDocument } from "../read/plain-document.ts";
import { readData } from "../read/read-document.ts";
import { requestedAgents } from "../requested-agents.ts";
import { shownFrom, type Surroundings } from "../surroundings.ts";
import type { EvalContext } from "./eval-context.ts";

export interface EvalAgents {
  readonly agents: readonly AgentSpec[];
  readonly notes: readonly string[];
}

/** The agents that play an eval: those asked for, else the one that it refers to, else its own ones. */
export async function evalAgents(context: EvalContext): Promise<EvalAgents> {
  const { file, surroundings, problems } = context;
  const requested = surroundings.agents;
  if (requested.length > 0 || file.agent === undefined) {
    return { agents: requestedAgents(file.agents, requested, problems), notes: [] };
  }
  const { agent, notes } = await referredAgent(file.agent, context, {
    key: "agent",
    isOptional: surroundings.lookOnly,
    instead: "--agent, with a model id, oracle or null",
  });
  return { agents: agent === undefined ? [] : [agent], notes };
}

interface Reference {
  /** The key of the eval's `config` that refers to the agent. */
  readonly key: string;
  /** Whether a run can do without it. */
  readonly isOptional: boolean;
  /** What a reader can use when the agent cannot be run. */
  readonly instead: string;
}

export interface ReferredAgent {
  /** Absent when it cannot be run; why is among the problems. */
  readonly agent?: ModelAgentSpec;
  readonly notes: readonly string[];
}

/** Reads the agent that a reference means. What is wrong with it goes to the problems. */
export async function referredAgent(
  ref: AgentRef,
  context: EvalContext,
  reference: Reference,
): Promise<ReferredAgent> {
  switch (ref.kind) {
    case "llm-agent":
      return { agent: modelAgent(ref.model, ref.model), notes: [] };
    case "claude-code":
      return { notes: refuse("Claude Code, over the Agent Client Protocol", context, reference) };
    case "file":
      return readAgentFile(resolve(context.dir, ref.path), context, reference);
  }
}

async function readAgentFile(
  path: string,
  context: EvalContext,
  reference: Reference,
): Promise<ReferredAgent> {
  const { surroundings, problems } = context;
  try {
    const shown = shownFrom(surroundings.cwd, path);
    const document = await readData(path, shown);
    const json = plainDocument(document, "the agent", problems);
    if (json === undefined) return { notes: [] };
    const parsed = parseAgentFile(json, { locate: document.locate });
    if (!parsed.ok) {
      problems.add(parsed.diagnostics, document.source);
      return { notes: document.notes ?? [] };
    }
    const { file } = parsed;
    const notes = parsed.notes.map((note) => `${shown}: ${note}`);
    const agent = modelOf(file, surroundings);
    const known = [...(document.notes ?? []), ...notes];
    if (agent === undefined) return { notes: [...known, ...refuse(file.description, context, reference)] };
    return { notes: known, agent };
  } catch (error) {
    problems.addError(error);
    return { notes: [] };
  }
}

function modelOf({ name, agent }: AgentFile, surroundings: Surroundings): ModelAgentSpec | undefined {
  if (agent.kind !== "llm-agent") return undefined;
  return withoutUndefined({
    ...modelAgent(name ?? agent.model, agent.model),
    baseURL: agent.baseURL ?? valueOf(agent.baseURLVariable, surroundings),
    apiKey: valueOf(agent.apiKeyVariable, surroundings),
  });
}

function valueOf(
  variable: Extract<FileAgent, { kind: "llm-agent" }>["apiKeyVariable"],
  { overrides, environment }: Surroundings,
): string | undefined {
  if (variable === undefined) return undefined;
  const value = variableNamed(variable, overrides) ?? variableNamed(variable, environment);
  return value === "" ? undefined : value;
}

/** Says that an agent cannot be run: as a note where a run can do without it, else as a problem. */
function refuse(
  description: string,
  { document, problems, shown }: EvalContext,
  { key, instead, isOptional }: Reference,
): string[] {
  const who = key === "agent" ? "agent" : "judge";
  const message = `the ${who} is ${description}, which this version does not run`;
  const hint = `Use another one: ${instead}.`;
  if (isOptional) return [`${shown}: ${message}. ${hint}`];
  const location = document.locate({ path: ["config", key], at: "value" });
  const diagnostic: Diagnostic = {
    code: "config/invalid-value",
    message,
    hint,
    ...(location === undefined ? {} : { location }),
  };
  problems.add([diagnostic], document.source);
  return [];
}
