import { acpOfPreset, agentPresetFacts, commandOfPreset } from "../agent-presets.ts";
import type {
  AcpAgentSpec,
  AgentPreset,
  AgentSpec,
  CommandAgentSpec,
  ModelAgentSpec,
  ModelProxySpec,
} from "../model.ts";
import { withoutUndefined } from "../json.ts";
import type { ParsedAgent, ParsedProgram } from "./config-agent-schema.ts";

/** What the world is asked of an agent that is a program. */
export interface ProgramNeeds {
  /** As written. */
  readonly command: string;
  /** Variables of its own. */
  readonly env: Readonly<Record<string, string>>;
  /** Variables of the shell that it gets. */
  readonly inheritEnv: readonly string[] | true;
  /** As written. */
  readonly cwd?: string;
  /** Names in braces are replaced in its environment later, which has to leave what it inherits as it is. */
  readonly isTemplate: boolean;
}

/**
 * What the world adds to an agent that is a program: the whole environment, and an absolute path where a folder, or a command
 * beside the file, is named.
 */
export type CompleteProgram = (needs: ProgramNeeds) => {
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly command?: string;
};

const defaultMaxSteps = 20;

/** An agent of which nothing is known but its model. */
export function modelAgent(name: string, model: string): ModelAgentSpec {
  return { type: "model", name, model, maxSteps: defaultMaxSteps };
}

/** An agent of which nothing is known but which program it is. */
export function presetAgent(preset: AgentPreset, complete: CompleteProgram): AcpAgentSpec {
  return buildAcp(preset, { type: "acp", preset, env: {}, inheritEnv: [] }, complete);
}

/** Builds one agent of a config. */
export function buildAgent(name: string, agent: ParsedAgent, complete: CompleteProgram): AgentSpec {
  if (typeof agent === "string") return modelAgent(name, agent);
  switch (agent.type) {
    case "acp":
      return buildAcp(name, agent, complete);
    case "command":
      return buildCommand(name, agent, complete);
    case "scripted": {
      const plan = Object.entries(agent.plan).map(
        ([workflow, actions]) => [workflow, actions.map(withoutUndefined)] as const,
      );
      return { type: "scripted", name, plan: Object.fromEntries(plan) };
    }
    case "model":
    case undefined: {
      const spec: ModelAgentSpec = withoutUndefined({ ...agent, type: "model" as const, name });
      return spec;
    }
  }
}

type Parsed<T extends ParsedProgram["type"]> = Extract<ParsedProgram, { readonly type: T }>;

function buildAcp(name: string, agent: Parsed<"acp">, complete: CompleteProgram): AcpAgentSpec {
  const { preset, model } = agent;
  const usual = preset === undefined ? { args: [], env: {} } : acpOfPreset(preset, model);
  return withoutUndefined({
    type: "acp" as const,
    ...programParts(name, agent, { usual, complete }),
    permissions: agent.permissions ?? (agent.cwd === undefined ? "allow" : "allow-mcp"),
  });
}

function buildCommand(name: string, agent: Parsed<"command">, complete: CompleteProgram): CommandAgentSpec {
  const { preset, model, args, nextArgs } = agent;
  const usual: Partial<CommandAgentSpec> = preset === undefined ? {} : commandOfPreset(preset, model);
  return withoutUndefined({
    type: "command" as const,
    ...programParts(name, agent, { usual, complete }),
    // Arguments of a preset's own later turns would not fit first ones that are not the preset's.
    nextArgs: nextArgs ?? (args === undefined ? usual.nextArgs : undefined),
    stdin: agent.stdin ?? (args === undefined ? usual.stdin : undefined) ?? false,
    output: agent.output ?? usual.output ?? "text",
    configFiles: agent.configFiles ?? usual.configFiles ?? [],
  });
}

interface ProgramOptions {
  readonly usual: Partial<Pick<CommandAgentSpec, "command" | "args" | "env">>;
  readonly complete: CompleteProgram;
}

function programParts(name: string, agent: ParsedProgram, { usual, complete }: ProgramOptions) {
  const { preset, model, connect, cwd, inheritEnv } = agent;
  const known = preset === undefined ? [] : agentPresetFacts[preset].inheritEnv;
  const command = agent.command ?? usual.command ?? "";
  const world = complete(
    withoutUndefined({
      command,
      env: { ...usual.env, ...agent.env },
      inheritEnv: inheritEnv === true ? inheritEnv : [...new Set([...known, ...inheritEnv])],
      cwd,
      isTemplate: agent.type === "command",
    }),
  );
  return {
    name,
    preset,
    command,
    args: agent.args ?? usual.args ?? [],
    ...world,
    model,
    connect,
    modelProxy: proxyOf(agent),
  };
}

function proxyOf({ preset, modelProxy }: ParsedProgram): ModelProxySpec | undefined {
  if (modelProxy !== true) return modelProxy;
  return preset === undefined ? undefined : agentPresetFacts[preset].modelApi;
}
