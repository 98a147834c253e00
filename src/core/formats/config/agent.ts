import * as z from "zod";
import { acpOfPreset, commandOfPreset } from "../agent-presets.ts";
import { presets } from "../presets/presets.ts";
import { mentions } from "../agent-templates.ts";
import { suggestion } from "../did-you-mean.ts";
import { withoutUndefined } from "../json.ts";
import {
  type AcpAgentSpec,
  type AgentPreset,
  agentPresets,
  type AgentSpec,
  type CommandAgentSpec,
  commandOutputs,
  mcpClients,
  type ModelAgentSpec,
  type ModelProxySpec,
} from "../model.ts";
import { anyObject, closedObject, filledText, httpUrl, nameKey } from "./config-fields.ts";

const modelFields = {
  model: filledText.meta({
    description: "`PROVIDER/MODEL`, such as `anthropic/claude-sonnet-4-5`; with `baseURL` any name.",
  }),
  baseURL: httpUrl.optional().meta({
    description: "Address of the provider's API, or of any OpenAI-compatible server.",
    defaultText: "the provider's own",
  }),
  apiKey: z.string().optional().meta({
    description: "API key. Prefer the provider's environment variable, or `${VAR}`.",
    defaultText: "the provider's usual variable",
  }),
  api: z.enum(["responses", "chat"]).optional().meta({
    description: "Which OpenAI API to use.",
    defaultText: "the provider's usual one",
  }),
  temperature: z
    .number()
    .min(0)
    .optional()
    .meta({ description: "Sampling temperature.", defaultText: "the provider's" }),
  maxOutputTokens: z.int().min(1).optional().meta({
    description: "Maximum number of tokens in one answer.",
    defaultText: "the provider's; 8192 for Anthropic",
  }),
};

const modelAgentSchema = closedObject({
  type: z
    .literal("model")
    .optional()
    .meta({ description: "A language model in a tool loop.", defaultText: "`model`" }),
  ...modelFields,
  headers: z
    .record(filledText, z.string())
    .optional()
    .meta({ description: "HTTP headers sent to the provider. Their values are not recorded." }),
  maxSteps: z.int().min(1).default(20).meta({ description: "Model calls allowed in one user turn." }),
  system: z.string().optional().meta({ description: "System prompt.", defaultText: "none" }),
  resources: z.boolean().optional().meta({
    description: "Whether the model gets tools of mcpvals to read resources and get prompts.",
    defaultText: "`true`",
  }),
}).meta({
  id: "ModelAgent",
  title: "Model agent",
  description: "A language model in a tool loop of mcpvals.",
});

const scriptedCall = closedObject({
  call: filledText.meta({ description: "Tool to call." }),
  server: filledText.optional().meta({
    description: "Server to call it on.",
    defaultText: "the one that offers the tool",
  }),
  args: anyObject.default({}).meta({ description: "Arguments of the call." }),
}).meta({ id: "ScriptedCall", title: "Scripted call", description: "Calls one tool." });

const scriptedSay = closedObject({
  say: z.string().meta({ description: "The agent's message. It ends the turn." }),
}).meta({ id: "ScriptedSay", title: "Scripted words", description: "Says something." });

const scriptedAgentSchema = closedObject({
  type: z.literal("scripted").meta({ description: "A plan instead of a model." }),
  plan: z.record(nameKey, z.array(z.union([scriptedCall, scriptedSay]))).meta({
    description:
      "Actions in order, by the name of the workflow or task. Each one that the agent plays needs a plan. For task files, texts may contain templates such as `{workspace}`, as in their `solution`.",
  }),
}).meta({
  id: "ScriptedAgent",
  title: "Scripted agent",
  description: "Plays a plan; for examples, tests and offline use.",
});

const modelProxy = closedObject({
  target: httpUrl.meta({ description: "Address of the provider's API." }),
  variable: filledText.meta({
    description: "Environment variable of the program that is set to the proxy's URL.",
  }),
}).meta({ id: "ModelProxy", title: "Model proxy", description: "The API that the proxy forwards to." });

const programFields = {
  preset: z.enum(agentPresets).optional().meta({
    description: "A known program; the preset fills in the settings that are not given here.",
    defaultText: "none",
  }),
  command: filledText.optional().meta({
    description:
      "The program to start: a name that is found on `PATH`, or a path from `cwd`, else from this file.",
    defaultText: "the preset's; without one it is required",
  }),
  args: z.array(z.string()).optional().meta({ description: "Its arguments.", defaultText: "the preset's" }),
  env: z
    .record(z.string().regex(/^[^=\0]+$/, { error: "must be the name of a variable" }), z.string())
    .default({})
    .meta({ description: "Environment variables for the program, on top of a small safe set." }),
  inheritEnv: z
    .union([z.array(filledText), z.literal(true)])
    .default([])
    .meta({
      description:
        "Variables to pass on from your own environment, by name, besides those of the preset; `true` passes on all of them.",
    }),
  cwd: filledText.optional().meta({
    description: "Folder that the program works in, relative to the config file.",
    defaultText: "a fresh one for each trial",
  }),
  model: filledText.optional().meta({
    description: "Model id in the program's own notation.",
    defaultText: "chosen by the program",
  }),
  connect: z.enum(["http", "bridge"]).optional().meta({
    description: "How it reaches servers: by URL (`http`), or by a command that it starts (`bridge`).",
    defaultText: "`http` if the program supports it, else `bridge`",
  }),
  modelProxy: z
    .union([z.literal(true), modelProxy])
    .optional()
    .meta({
      description:
        "Sends its model requests through a proxy of mcpvals, which counts tokens; `true` if the preset supports it.",
      defaultText: "no proxy",
    }),
};

type Refinement = z.core.$RefinementCtx;

function refuse(context: Refinement, message: string, key?: string): void {
  context.addIssue({ code: "custom", message, ...(key === undefined ? {} : { path: [key] }) });
}

interface AnyProgram {
  readonly preset?: AgentPreset | undefined;
  readonly command?: string | undefined;
  readonly args?: readonly string[] | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly model?: string | undefined;
  readonly connect?: string | undefined;
  readonly modelProxy?: unknown;
}

function checkProgram({ preset, command, modelProxy: proxy }: AnyProgram, context: Refinement): void {
  if (preset === undefined && command === undefined) refuse(context, "must have preset or command");
  if (proxy === true && (preset === undefined || presets[preset].modelApi === undefined))
    refuse(
      context,
      "must be {target, variable}: no preset says where the program's model is reached",
      "modelProxy",
    );
}

function checkAcp({ preset, connect, model, args }: AnyProgram, context: Refinement): void {
  if (preset === undefined) return;
  const { acp } = presets[preset];
  if (connect === "bridge" && acp.httpOnly === true)
    refuse(context, "must be http: this program takes servers by their address only", "connect");
  if (model !== undefined && args !== undefined && acp.model.by === "args")
    refuse(context, "has no effect beside args of your own: choose the model among them", "model");
}

/** A model that no part of the command line names has no effect. */
function checkCommandModel(
  {
    preset,
    model,
    command = "",
    args,
    nextArgs = [],
    env,
  }: AnyProgram & { readonly nextArgs?: readonly string[] | undefined },
  context: Refinement,
): void {
  if (model === undefined || (preset !== undefined && args === undefined)) return;
  const texts = [command, ...(args ?? []), ...nextArgs, ...Object.values(env)];
  if (!texts.some((text) => mentions(text, "model")))
    refuse(context, "has no effect: write {model} where the command line takes it", "model");
}

const acpAgentSchema = closedObject({
  type: z.literal("acp").meta({ description: "A program that speaks the Agent Client Protocol." }),
  ...programFields,
  permissions: z.enum(["allow", "allow-mcp", "deny"]).optional().meta({
    description: "The answer to its permission requests; `allow-mcp` allows only tools of servers.",
    defaultText: "`allow`; with `cwd`, `allow-mcp`",
  }),
})
  .superRefine(checkProgram)
  .superRefine(checkAcp)
  .meta({
    id: "AcpAgent",
    title: "ACP agent",
    description: "A program that speaks the Agent Client Protocol on stdin and stdout.",
  });

const commandAgentSchema = closedObject({
  type: z.literal("command").meta({ description: "A program that is started for each user turn." }),
  ...programFields,
  nextArgs: z.array(z.string()).optional().meta({
    description: "Arguments of every turn but the first.",
    defaultText: "`args`; with a preset and without `args`, the preset's",
  }),
  stdin: z.boolean().optional().meta({
    description: "Whether the prompt is written to stdin.",
    defaultText: "the preset's; without one `false`",
  }),
  output: z.enum(commandOutputs).optional().meta({
    description: "Format of its output.",
    defaultText: "the preset's; without one `text`",
  }),
  configFiles: z.array(z.enum(mcpClients)).optional().meta({
    description: "Clients whose MCP config files are written into its working folder.",
    defaultText: "the preset's; without one none",
  }),
})
  .superRefine(checkProgram)
  .superRefine(checkCommandModel)
  .meta({
    id: "CommandAgent",
    title: "Command agent",
    description:
      "A program that is started once for each user turn. In `command`, `args` and `env`, `{prompt}`, `{promptJson}` (it as a JSON string), `{workspace}`, `{cwd}`, `{mcpConfig}` (a file with `mcpServers`), `{model}`, `{session}` (id of the session before) and, in `env` only, `{servers.NAME.url}` are replaced; `{{` writes a brace.",
  });

/** What `agents.NAME` may be. */
export const namedAgentSchema = z.union([
  filledText.regex(/^[^/\s]+\/\S+$/, { error: 'must be a model id such as "anthropic/claude-sonnet-4-5"' }),
  modelAgentSchema,
  scriptedAgentSchema,
  acpAgentSchema,
  commandAgentSchema,
]);

/** What `agent` may be; a text is the name of one in `agents`, a model id, or a preset. */
export const agentSchema = z.union([
  filledText,
  modelAgentSchema,
  scriptedAgentSchema,
  acpAgentSchema,
  commandAgentSchema,
]);

/** An agent as parsed. */
export type ParsedAgent = z.output<typeof namedAgentSchema>;
/** An agent that is a program, as parsed. */
type ParsedProgram = z.output<typeof acpAgentSchema> | z.output<typeof commandAgentSchema>;

/** The model that judges. */
export const judgeSchema = closedObject({
  ...modelFields,
  passThreshold: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .meta({ description: "Lowest score that passes.", defaultText: "the config's `passThreshold`" }),
}).meta({
  id: "Judge",
  title: "Judge",
  description: "The model that grades workflows, with `llmJudge` or `--llm`.",
});

/** The agents of a file: `agent` is a name, a model id, or an agent. */
export interface DeclaredAgents {
  readonly agent?: ParsedAgent | undefined;
  readonly agents?: Readonly<Record<string, ParsedAgent>> | undefined;
}

/** Agents that need no declaration: `oracle` plays a task's own solution, `null` does nothing. */
const builtinAgents = ["oracle", "null"] as const;

/** Names that an agent can be asked for by without being declared. */
const undeclaredAgents: readonly string[] = [...builtinAgents, ...agentPresets];

/** One agent that will run. */
export type AgentChoice =
  | { readonly kind: "known"; readonly name: string; readonly agent: ParsedAgent }
  | { readonly kind: "builtin"; readonly name: (typeof builtinAgents)[number] }
  /** No agent has this name; `hint` lists those that there are. */
  | { readonly kind: "unknown"; readonly name: string; readonly hint: string };

/** Decides which agents run: those asked for, else `agent`, else all of `agents`, else the default one. */
export function chooseAgents(
  { agent, agents = {} }: DeclaredAgents,
  requested: readonly string[],
): readonly AgentChoice[] {
  const inline: AgentChoice | undefined =
    typeof agent === "object" ? { kind: "known", name: inlineAgentName(agent), agent } : undefined;
  if (requested.length > 0)
    return [...new Set(requested)].map((name) =>
      name === inline?.name ? inline : resolveAgent(name, agents),
    );
  if (inline !== undefined) return [inline];
  if (typeof agent === "string") return [resolveAgent(agent, agents)];
  const declared = Object.entries(agents);
  return declared.length === 0
    ? [{ kind: "known", name: "claude", agent: "anthropic/claude-sonnet-4-5" }]
    : declared.map(([name, each]) => ({ kind: "known", name, agent: each }));
}

/** The name that an agent without one goes by: its preset, its model, its program, or "scripted". */
function inlineAgentName(agent: Exclude<ParsedAgent, string>): string {
  if (agent.type === "scripted") return "scripted";
  if (agent.type !== "acp" && agent.type !== "command") return agent.model;
  return agent.preset ?? agent.command?.split(/[/\\]/).at(-1) ?? "scripted";
}

function resolveAgent(name: string, declared: Readonly<Record<string, ParsedAgent>>): AgentChoice {
  const own = Object.hasOwn(declared, name) ? declared[name] : undefined;
  if (own !== undefined) return { kind: "known", name, agent: own };
  const builtin = builtinAgents.find((each) => each === name);
  if (builtin !== undefined) return { kind: "builtin", name: builtin };
  const preset = agentPresets.find((each) => each === name);
  if (preset !== undefined)
    return { kind: "known", name, agent: { type: "acp", preset, env: {}, inheritEnv: [] } };
  if (name.includes("/")) return { kind: "known", name, agent: name };
  const known = suggestion(name, [...Object.keys(declared), ...undeclaredAgents], "agents");
  return { kind: "unknown", name, hint: `${known} A model id is written PROVIDER/MODEL.` };
}

/** Builds the agents that were chosen; unknown ones are left out. */
export function buildAgents(choices: readonly AgentChoice[], complete: CompleteProgram): AgentSpec[] {
  return choices.flatMap((choice): AgentSpec[] => {
    if (choice.kind === "unknown") return [];
    if (choice.kind === "builtin") return [{ type: choice.name, name: choice.name }];
    return [buildAgent(choice.name, choice.agent, complete)];
  });
}

/** What the loader needs to know of an agent that is a program. */
interface ProgramNeeds {
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
 * What the loader adds to an agent that is a program: the whole environment, and an absolute path where a folder, or a command
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
  const known = preset === undefined ? [] : presets[preset].inheritEnv;
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
  return preset === undefined ? undefined : presets[preset].modelApi;
}
