import { hash } from "node:crypto";
import * as z from "zod";
import { didYouMean, suggestion } from "../base/did-you-mean.ts";
import { asList, asObject, exact, type Exact, formatKeyPath, type KeyPath, mapValues } from "../base/json.ts";
import {
  type AgentSpec,
  type BuiltinAgentSpec,
  builtinAgents,
  type CommandAgentSpec,
  efforts,
  homes,
  modelAgent,
  modelAgentSchema,
  permissionPolicies,
  type ProgramAgentSpec,
  scriptedAgentSchema,
  type SystemPrompt,
} from "../model/agent.ts";
import {
  type Addition,
  additionOf,
  asksInSession,
  type GivenSettings,
  type OptionWays,
  type ProgramSettings,
  settingNames,
  wayOf,
} from "./programs/options.ts";
import {
  type AgentPreset,
  agentPresets,
  commandOutputs,
  homeVariables,
  mcpClients,
  presets,
} from "./programs/presets.ts";
import {
  closedObject,
  filledText,
  argumentText,
  nameKey,
  httpUrl,
  optional,
  variableNames,
  variables,
} from "../model/fields.ts";
import { takesProgramNext } from "../templates/shell.ts";
import { type Problem, problem } from "../base/problem.ts";

const modelProxy = closedObject({
  target: httpUrl.describe("Address of the provider's API."),
  variable: filledText.describe("Environment variable of the program that is set to the proxy's URL."),
}).meta({ id: "ModelProxy", title: "Model proxy", description: "The API that the proxy forwards to." });

const systemPrompt = z.union([
  filledText,
  closedObject({ replace: filledText.describe("Takes the place of the program's own.") }).meta({
    id: "ReplacedPrompt",
    title: "Replaced system prompt",
    description: "A text in the place of the program's own system prompt.",
  }),
]);

const programFields = {
  preset: optional(
    z.enum(agentPresets),
    "A known program; the preset fills in the settings that are not given here.",
    "none",
  ),
  command: optional(
    filledText,
    "The program to start: a name that is found on `PATH`, or a path from `cwd`, else from this file.",
    "the preset's; without one it is required",
  ),
  args: optional(z.array(argumentText), "Its arguments.", "the preset's"),
  extraArgs: optional(z.array(argumentText), "Arguments that are added to those of the preset.", "none"),
  env: variables.default({}).describe("Environment variables for the program, on top of a small safe set."),
  inheritEnv: variableNames
    .default([])
    .describe(
      "Variables to pass on from your own environment, by name, besides those of the preset; `true` passes on all of them.",
    ),
  cwd: optional(
    filledText,
    "Folder that the program works in, relative to the config file.",
    "a fresh one for each trial",
  ),
  home: optional(
    z.enum(homes),
    "Its home folder: `trial`, an empty one for each trial, with nothing of the user but the login, or `user`, that of the user, with all settings.",
    "`trial`",
  ),
  model: optional(filledText, "Model id in the program's own notation.", "chosen by the program"),
  effort: optional(
    z.enum(efforts),
    "How much its model may reason; a level that the program does not know is an error.",
    "chosen by the program",
  ),
  systemPrompt: optional(
    systemPrompt,
    "A text that is added to the program's own system prompt, or `replace` with one that takes its place.",
    "the program's own",
  ),
  maxTurns: optional(
    z.int().min(1),
    "Most requests to its model in one user turn; a turn that needs more ends as `max-steps`.",
    "chosen by the program",
  ),
  allowedTools: optional(
    z.array(filledText.regex(/^[^,]+$/, { error: "must be one name, without a comma" })),
    "Of the program's own tools, the only ones that it may use, by its names; tools of servers stay.",
    "all",
  ),
  connect: optional(
    z.enum(["http", "bridge"]),
    "How it reaches servers: by URL (`http`), or by a command that it starts (`bridge`).",
    "`http` if the program supports it, else `bridge`",
  ),
  modelProxy: optional(
    z.union([z.literal(true), modelProxy]),
    "Sends its model requests through a proxy of mcpvals, which counts tokens; `true` if the preset supports it.",
    "no proxy",
  ),
};

type Program = z.output<z.ZodObject<typeof programFields>>;

function refuse(context: z.core.$RefinementCtx, message: string, key?: string): void {
  context.addIssue({ code: "custom", message, ...(key === undefined ? {} : { path: [key] }) });
}

function checkProgram(
  { preset, command, modelProxy: proxy, home, env, inheritEnv }: Program,
  context: z.core.$RefinementCtx,
): void {
  for (const name of ["HOME", "USERPROFILE"]) {
    const key = Object.hasOwn(env, name) ? "env" : "inheritEnv";
    if (home === "user" || (key === "inheritEnv" && (inheritEnv === true || !inheritEnv.includes(name))))
      continue;
    refuse(
      context,
      `must not have ${name}: each trial has a home folder of its own, unless home is user`,
      key,
    );
  }
  if (preset === undefined && command === undefined) refuse(context, "must have preset or command");
  if (proxy === true && (preset === undefined || presets[preset].modelApi === undefined)) {
    const message = "must be {target, variable}: no preset says where the program's model is reached";
    refuse(context, message, "modelProxy");
  }
}

type SettingFields = Pick<
  Program,
  "allowedTools" | "args" | "effort" | "env" | "extraArgs" | "home" | "maxTurns" | "preset" | "systemPrompt"
> & { readonly permissions?: ProgramSettings["permissions"] | undefined };

/** Refuses settings that a program does not take, and those that would have no effect. */
function checkSettings(
  agent: SettingFields,
  ways: Partial<OptionWays>,
  context: z.core.$RefinementCtx,
): void {
  const { preset, args, extraArgs } = agent;
  if (extraArgs !== undefined && (preset === undefined || args !== undefined))
    refuse(context, "adds to the args of a preset: without these, write them into args", "extraArgs");
  const settings = settingsOf(agent);
  for (const name of settingNames) {
    if (settings[name] === undefined) continue;
    const problem = settingProblem(agent, wayOf(ways, settings, name));
    if (problem !== undefined) refuse(context, problem, name);
  }
}

function settingProblem(
  { preset, args, env, home }: SettingFields,
  way: Addition | string | undefined,
): string | undefined {
  if (way === undefined) return "needs a preset, which knows how the program takes it: use its args or env";
  if (typeof way === "string")
    return `cannot be set: ${preset === undefined ? "the program" : presets[preset].title} ${way}`;
  if (args !== undefined && (way.args ?? way.serverArg) !== undefined)
    return "has no effect beside args of your own: write it among them";
  if (home === "user" && way.files !== undefined)
    return "cannot be set with home: user: the program reads it from a file of the trial's own home";
  const variable = Object.keys(way.env ?? {}).find((each) => Object.hasOwn(env, each));
  return variable === undefined ? undefined : `has no effect beside ${variable} in env: write it there`;
}

function settingsOf({
  allowedTools,
  effort,
  maxTurns,
  permissions,
  systemPrompt: prompt,
}: SettingFields): GivenSettings {
  return { allowedTools, effort, maxTurns, permissions, systemPrompt: promptOf(prompt) };
}

function promptOf(prompt: Program["systemPrompt"]): SystemPrompt | undefined {
  if (prompt === undefined) return undefined;
  return typeof prompt === "string"
    ? { mode: "append", text: prompt }
    : { mode: "override", text: prompt.replace };
}

function acpWays(preset: AgentPreset | undefined): Partial<OptionWays> {
  return preset === undefined ? asksInSession : presets[preset].acp.options;
}

const acpAgentSchema = closedObject({
  type: z.literal("acp").describe("A program that speaks the Agent Client Protocol."),
  ...programFields,
  permissions: optional(
    z.enum(permissionPolicies),
    "The answer to its permission requests; `allow-mcp` allows only tools of servers.",
    "`allow`; with `cwd`, `allow-mcp`",
  ),
  sessionOptions: optional(
    z.record(nameKey, z.union([filledText, z.boolean()])),
    "Options of its session by id, as the program offers them; `mode` is also the session's mode.",
    "the program's own",
  ),
})
  .superRefine(checkProgram)
  // mcpvals itself answers its permission requests.
  .superRefine((agent, context) =>
    checkSettings({ ...agent, permissions: undefined }, acpWays(agent.preset), context),
  )
  .superRefine(({ preset, connect, model, args }, context) => {
    if (preset === undefined) return;
    const { acp } = presets[preset];
    if (connect === "bridge" && acp.httpOnly === true)
      refuse(context, "must be http: this program takes servers by their address only", "connect");
    if (model !== undefined && args !== undefined && acp.model.by === "args")
      refuse(context, "has no effect beside args of your own: choose the model among them", "model");
  })
  .superRefine(({ model, sessionOptions = {} }, context) => {
    if (model !== undefined && Object.hasOwn(sessionOptions, "model"))
      refuse(
        context,
        "must not have model beside the agent's own model: leave one of them out",
        "sessionOptions",
      );
  })
  .meta({
    id: "AcpAgent",
    title: "ACP agent",
    description: "A program that speaks the Agent Client Protocol on stdin and stdout.",
  });

const commandAgentSchema = closedObject({
  type: z.literal("command").describe("A program that is started for each user turn."),
  ...programFields,
  permissions: optional(
    z.enum(permissionPolicies),
    "What a preset lets the program do without asking; `allow-mcp` allows only tools of servers. What it would ask for is denied.",
    "`allow`; without a preset, as its arguments say",
  ),
  nextArgs: optional(
    z.array(z.string()),
    "Arguments of every turn but the first.",
    "`args`; with a preset and without `args`, the preset's",
  ),
  stdin: optional(
    z.boolean(),
    "Whether the prompt is written to stdin.",
    "the preset's; without one `false`",
  ),
  output: optional(z.enum(commandOutputs), "Format of its output.", "the preset's; without one `text`"),
  configFiles: optional(
    z.array(z.enum(mcpClients)),
    "Clients whose MCP config files are written into its working folder.",
    "the preset's; without one none",
  ),
})
  .superRefine(checkProgram)
  .superRefine((agent, context) =>
    checkSettings(agent, agent.preset === undefined ? {} : presets[agent.preset].headless.options, context),
  )
  .superRefine(({ preset, model, command = "", args, nextArgs = [], env }, context) => {
    // The preset's arguments name the model; one that no part of the command line names has no effect.
    if (model === undefined || (preset !== undefined && args === undefined)) return;
    const texts = [command, ...(args ?? []), ...nextArgs, ...Object.values(env)];
    if (!texts.some((text) => mentions(text, "model")))
      refuse(context, "has no effect: write {model} where the command line takes it", "model");
  })
  .meta({
    id: "CommandAgent",
    title: "Command agent",
    description:
      "A program that is started once for each user turn. In `command`, `args` and `env`, `{prompt}`, `{promptJson}` (it as a JSON string), `{workspace}`, `{cwd}`, `{mcpConfig}` (a file with `mcpServers`), `{model}`, `{session}` (id of the session before), in arguments `{server}` (which are repeated for each server) and, in `env` only, `{servers.NAME.url}` are replaced; `{{` writes a brace.",
  });

const agents = [modelAgentSchema, scriptedAgentSchema, acpAgentSchema, commandAgentSchema] as const;

/** What `agents.NAME` may be. */
export const namedAgentSchema = z.union([
  filledText.regex(/^[^/\s]+\/\S+$/, { error: 'must be a model id such as "anthropic/claude-sonnet-4-5"' }),
  ...agents,
]);

/** What `agent` may be; a text is the name of one in `agents`, a model id, or a preset, also with a model behind a slash. */
export const agentSchema = z.union([filledText, ...agents]);

export type ParsedAgent = z.output<typeof namedAgentSchema>;
type ParsedAcp = z.output<typeof acpAgentSchema>;
type ParsedCommand = z.output<typeof commandAgentSchema>;

/** The agents of a file: `agent` is a name, a model id, or an agent. */
export interface DeclaredAgents {
  readonly agent?: ParsedAgent | undefined;
  readonly agents?: Readonly<Record<string, ParsedAgent>> | undefined;
}

/** One agent that will run. */
export type AgentChoice =
  | { readonly kind: "known"; readonly name: string; readonly agent: ParsedAgent }
  | { readonly kind: "builtin"; readonly name: BuiltinAgentSpec["type"] }
  /** No agent has this name; `hint` lists those that there are. */
  | { readonly kind: "unknown"; readonly name: string; readonly hint: string };

/** Decides which agents run: those asked for, else `agent`, else all of `agents`, else the default one. */
export function chooseAgents(
  { agent, agents: declared = {} }: DeclaredAgents,
  requested: readonly string[],
): readonly AgentChoice[] {
  const inline = typeof agent === "object" ? { name: inlineAgentName(agent), agent } : undefined;
  const all = inline === undefined ? declared : { ...declared, [inline.name]: inline.agent };
  if (requested.length > 0) return [...new Set(requested)].map((name) => resolveAgent(name, all));
  if (inline !== undefined) return [{ kind: "known", ...inline }];
  if (typeof agent === "string") return [resolveAgent(agent, declared)];
  const names = Object.keys(declared);
  return names.length > 0
    ? names.map((name) => resolveAgent(name, declared))
    : [{ kind: "known", name: "claude", agent: "anthropic/claude-sonnet-4-5" }];
}

/** The name of an agent without one: its preset, its model, its program, or "scripted". */
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
  const [program = "", ...rest] = name.split("/");
  const preset = agentPresets.find((each) => each === program);
  const model = rest.join("/");
  if (preset !== undefined)
    return {
      kind: "known",
      name,
      agent: { type: "acp", preset, env: {}, inheritEnv: [], ...(model === "" ? {} : { model }) },
    };
  if (name.includes("/")) return { kind: "known", name, agent: name };
  const known = suggestion(name, [...Object.keys(declared), ...builtinAgents, ...agentPresets], "agents");
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

/**
 * What the loader adds to an agent that is a program: the whole environment, and an absolute path where a folder, or a command
 * beside the file, is named.
 */
export type CompleteProgram = (
  program: Pick<Exact<Program>, "env" | "inheritEnv" | "cwd"> & {
    readonly command: string;
    /** Whether names in braces are replaced later in its environment; inherited values must stay as they are. */
    readonly isTemplate: boolean;
    /** Variables that it inherits only if they are named, since each trial has a home of its own; absent: none. */
    readonly homeVariables?: readonly string[];
  },
) => Pick<ProgramAgentSpec, "env" | "cwd" | "userHome"> & { readonly command?: string };

/** Builds one agent of a config. */
export function buildAgent(name: string, agent: ParsedAgent, complete: CompleteProgram): AgentSpec {
  if (typeof agent === "string") return modelAgent(name, agent);
  if (agent.type === "scripted") return exact({ ...agent, name });
  if (agent.type === "acp") {
    const { preset, model, cwd, permissions = cwd === undefined ? "allow" : "allow-mcp" } = agent;
    const settings = { ...settingsOf(agent), permissions: undefined };
    const { session } = additionOf(acpWays(preset), settings);
    const usual = preset === undefined ? {} : acpOfPreset(preset, model, settings, agent.extraArgs);
    return exact({
      type: agent.type,
      ...programParts(name, agent, usual, complete),
      permissions,
      session,
      sessionOptions: agent.sessionOptions,
    });
  }
  if (agent.type !== "command") {
    const { system } = agent;
    const systemHash = system === undefined ? undefined : systemHashOf({ mode: "override", text: system });
    return exact({ ...agent, type: "model", name, systemHash });
  }
  const isPreset = agent.preset !== undefined && agent.args === undefined;
  const permissions = agent.permissions ?? (isPreset ? "allow" : undefined);
  const usual: Partial<CommandAgentSpec> =
    agent.preset === undefined
      ? {}
      : commandOfPreset(agent.preset, agent.model, { ...settingsOf(agent), permissions }, agent.extraArgs);
  // The preset's arguments for later turns and its stdin do not fit other arguments than its own.
  const { nextArgs, stdin }: Partial<CommandAgentSpec> = agent.args === undefined ? usual : {};
  return exact({
    type: agent.type,
    ...programParts(name, agent, usual, complete),
    permissions,
    nextArgs: agent.nextArgs ?? nextArgs,
    stdin: agent.stdin ?? stdin ?? false,
    output: agent.output ?? usual.output ?? "text",
    configFiles: agent.configFiles ?? usual.configFiles ?? [],
  });
}

function systemHashOf({ mode, text }: SystemPrompt): string {
  return hash("sha256", mode === "append" ? `+${text}` : text).slice(0, 16);
}

function programParts(
  name: string,
  agent: ParsedAcp | ParsedCommand,
  usual: Partial<Pick<ProgramAgentSpec, "command" | "args" | "env" | "homeFiles" | "homePaths">>,
  complete: CompleteProgram,
) {
  const { preset, model, connect, cwd, home, inheritEnv, modelProxy: proxy } = agent;
  const known = preset === undefined ? undefined : presets[preset];
  const prompt = promptOf(agent.systemPrompt);
  const usualVariables = [
    ...(known?.inheritEnv ?? []),
    ...(home === "user" ? (known?.home.variables ?? []) : []),
  ];
  const command = agent.command ?? usual.command ?? "";
  const env = { ...usual.env, ...agent.env };
  const inherited = inheritEnv === true ? true : [...new Set([...usualVariables, ...inheritEnv])];
  return {
    name,
    preset,
    command,
    args: agent.args ?? usual.args ?? [],
    variables: [...Object.keys(env), ...(inherited === true ? ["*"] : inherited)].toSorted(),
    ...complete(
      exact({
        command,
        env,
        inheritEnv: inherited,
        cwd,
        homeVariables: home === "user" ? undefined : homeVariables(preset),
        isTemplate: agent.type === "command",
      }),
    ),
    model,
    connect,
    modelProxy: proxy === true ? known?.modelApi : proxy,
    homeFiles: usual.homeFiles,
    homePaths: usual.homePaths,
    effort: agent.effort,
    maxTurns: agent.maxTurns,
    allowedTools: agent.allowedTools,
    systemHash: prompt === undefined ? undefined : systemHashOf(prompt),
  };
}

/**
 * What a preset decides of an agent that speaks the Agent Client Protocol. `env` has what the program needs besides the
 * variables of the preset's `inheritEnv`.
 */
export function acpOfPreset(
  preset: AgentPreset,
  model?: string,
  settings: GivenSettings = {},
  extraArgs: readonly string[] = [],
): Pick<ProgramAgentSpec, "command" | "args" | "env" | "homeFiles" | "homePaths"> {
  const { command, args, env, model: choice, options } = presets[preset].acp;
  const added = additionOf(options, settings);
  const chosen = model === undefined ? undefined : choice;
  const named = (text: string): string => text.replaceAll("{model}", model ?? "");
  const modelArgs = chosen?.by === "args" ? chosen.args.map(named) : [];
  const modelEnv = chosen?.by === "env" ? { [chosen.variable]: named(chosen.value) } : {};
  return {
    command,
    args: [...args, ...modelArgs, ...added.args, ...extraArgs],
    env: { ...env, ...modelEnv, ...added.env },
    homeFiles: added.files,
    homePaths: added.paths,
  };
}

/** A text in which nothing is replaced. */
function literal(text: string): string {
  return text.replaceAll("{", "{{");
}

/** What a preset decides of an agent that is started for each turn; templates are left in its arguments. */
export function commandOfPreset(
  preset: AgentPreset,
  model?: string,
  settings: GivenSettings = {},
  extraArgs: readonly string[] = [],
): Omit<CommandAgentSpec, "type" | "name" | "preset"> {
  const { command, args, nextArgs, modelArgs, env, stdin, usesClientFile, options } =
    presets[preset].headless;
  const added = additionOf(options, settings);
  const forServers = added.serverArg === "" ? [] : [added.serverArg];
  const more = [
    ...(model === undefined ? [] : modelArgs),
    ...added.args.map(literal),
    ...forServers,
    ...extraArgs,
  ];
  const withMore = (list: readonly string[]): readonly string[] => {
    const at = list.findIndex((each) => each.startsWith("-"));
    return [...list.slice(0, at), ...more, ...list.slice(at)];
  };
  return {
    command,
    args: withMore(args),
    nextArgs: withMore(nextArgs),
    env: { ...env, ...mapValues(added.env, literal) },
    homeFiles: added.files,
    homePaths: added.paths,
    output: preset,
    stdin,
    configFiles: usesClientFile ? [preset] : [],
  };
}

/** Names in braces that are replaced in a program's command line, besides `{servers.NAME.url}`; see `CommandAgentSpec`. */
export const templateNames = [
  "prompt",
  "promptJson",
  "workspace",
  "cwd",
  "mcpConfig",
  "model",
  "session",
  "server",
] as const;
export type TemplateName = (typeof templateNames)[number];

/** Finds `{{`, words in braces, and addresses of servers; the name and the server are its groups. */
export const templatePlace = /\{\{|\{(\w+)\}|\{servers\.([^{}]+)\.url\}/g;

/** Whether a text has a name that is replaced. */
export function mentions(text: string, name: TemplateName): boolean {
  return [...text.matchAll(templatePlace)].some(([, found]) => found === name);
}

/** Notes on command agents that are not given the prompt: one sentence each. */
export function promptNotes(
  agents: readonly {
    readonly type: string;
    readonly name: string;
    readonly command?: string;
    readonly args?: readonly string[];
    readonly nextArgs?: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
    readonly stdin?: boolean;
  }[],
): string[] {
  return agents.flatMap(
    ({ type, name, command = "", args = [], nextArgs = args, env = {}, stdin = false }) => {
      if (type !== "command" || stdin) return [];
      const takesPrompt = (list: readonly string[]): boolean =>
        [command, ...list, ...Object.values(env)].some(
          (text) => mentions(text, "prompt") || mentions(text, "promptJson"),
        );
      if (!takesPrompt(args)) {
        const way = "write {prompt} into its arguments, or set stdin: true";
        return [`agent "${name}" is never given the prompt: ${way}`];
      }
      return takesPrompt(nextArgs)
        ? []
        : [`agent "${name}" is not given the prompt after the first turn: nextArgs has no {prompt}`];
    },
  );
}

/** The agents that a file declares, as they are written or parsed. */
export interface WrittenAgents {
  readonly agent?: unknown;
  readonly agents?: unknown;
}

export interface AgentTemplatesOptions {
  /** Where in the document the keys `agent` and `agents` stand. */
  readonly path?: KeyPath;
  /** Every server that some trial may have. */
  readonly servers: readonly string[];
}

export interface AgentTemplates {
  readonly problems: readonly Problem[];
  /** What stays as it is, although it looks much like something that is replaced. */
  readonly notes: readonly string[];
}

/**
 * Checks what is in braces in the command lines of agents that are programs. Servers that no trial has are wrong, and so are
 * names in another spelling; what only looks like a name is noted, and all else is text.
 */
export function checkAgentTemplates(
  { agent, agents }: WrittenAgents,
  { path = [], servers }: AgentTemplatesOptions,
): AgentTemplates {
  const places = [
    ...textsOf(agent, [...path, "agent"]),
    ...Object.entries(asObject(agents)).flatMap(([name, each]) => textsOf(each, [...path, "agents", name])),
  ];
  const found = places.flatMap((place) => [...checkText(place, servers), ...checkProgramText(place)]);
  return {
    problems: found.filter((each) => typeof each !== "string"),
    notes: [...new Set(found.filter((each) => typeof each === "string"))],
  };
}

/** Why a text in braces is refused, or a note on it. */
type Finding = Problem | string;

interface Place {
  readonly path: KeyPath;
  /** It is part of the command line, which every user of the machine can read while the program runs. */
  readonly isPublic: boolean;
  /** Of an argument: the program and the arguments before it. */
  readonly before?: readonly string[];
}

interface PlacedText extends Place {
  readonly text: string;
}

function textsOf(agent: unknown, path: KeyPath): PlacedText[] {
  const { type, command, args, nextArgs, env } = asObject(agent);
  if (type !== "command") return [];
  const found: (Place & { readonly text: unknown })[] = [
    { text: command, path: [...path, "command"], isPublic: true },
  ];
  for (const [key, list] of Object.entries({ args: asList(args), nextArgs: asList(nextArgs) }))
    for (const [index, text] of list.entries()) {
      const before = [command, ...list.slice(0, index)].map(String);
      found.push({ text, path: [...path, key, index], isPublic: true, before });
    }
  for (const [name, text] of Object.entries(asObject(env)))
    found.push({ text, path: [...path, "env", name], isPublic: false });
  return found.flatMap(({ text, ...place }) => (typeof text === "string" ? [{ text, ...place }] : []));
}

/** The prompt and the session come from outside, so they must not be part of a program's code. */
function checkProgramText({ text, path, before }: PlacedText): Problem[] {
  const said = before === undefined ? null : /\{(?:prompt|session)\}/.exec(text);
  if (said === null || !takesProgramNext(before ?? [])) return [];
  const message = `${formatKeyPath(path)}: ${said[0]} stands in the text of a program, so that a part of it could be run`;
  const hint = `Give it as an argument after the program's text, in env, or with stdin: true.`;
  return [problem(path, message, { text: said[0], hint })];
}

const braces = /\{\{(?:\s*(\w+)\s*\}\})?|\{([^{}\n]*)\}/g;

function checkText({ text, ...place }: PlacedText, servers: readonly string[]): Finding[] {
  return [...text.matchAll(braces)].flatMap(([written, doubled = "", inner = ""]): Finding[] => {
    if (isName(doubled)) {
      const where = formatKeyPath(place.path);
      return [`${written} in ${where} writes {${doubled}}}; did you mean {${doubled}}?`];
    }
    if (inner === "server" && place.before === undefined) {
      const where = formatKeyPath(place.path);
      const hint = "There an argument is repeated for each server of the trial.";
      return [problem(place.path, `${where}: {server} stands only in arguments`, { text: written, hint })];
    }
    return inner === "" || isName(inner) ? [] : checkInner(inner, written, place, servers);
  });
}

function isName(word: string): boolean {
  return templateNames.some((name) => name === word);
}

function checkInner(inner: string, text: string, place: Place, servers: readonly string[]): Finding[] {
  const { path, isPublic } = place;
  const where = `${text} in ${formatKeyPath(path)}`;
  const refusal = (code: Problem["code"], message: string, hint: string): Problem[] => [
    problem(path, message, { code, text, hint }),
  ];
  const server = /^servers\.(.+)\.url$/.exec(inner)?.[1];
  if (server !== undefined && !servers.includes(server)) {
    const message = `${where}: no server is named ${JSON.stringify(server.slice(0, 80))}`;
    return refusal("config/unknown-reference", message, suggestion(server, servers, "servers"));
  }
  if (server !== undefined) {
    // The address of the gateway holds the secret that lets its holder call the server's tools.
    const message = `${where} would show a secret address to every user of this machine (ps)`;
    const hint = `Write it into a variable, such as env: { URL: "${text}" }, or use {mcpConfig}, a file that only you can read.`;
    return isPublic ? refusal("config/public-secret", message, hint) : [];
  }
  const word = inner.trim();
  if (!/^[\w.-]+$/.test(word)) return [];
  const same = templateNames.find((name) => folded(name) === folded(word));
  if (word === inner && (same !== undefined || word.startsWith("servers."))) {
    const hint = `Did you mean {${same ?? nearAddress(word, servers)}}? For the text itself write {${text}.`;
    return refusal("config/unknown-reference", `${where} is not a placeholder`, hint);
  }
  const near = didYouMean(word, [...templateNames, ...servers.map(address)]);
  return near === undefined ? [] : [`${where} stays as it is; did you mean {${near}}?`];
}

function folded(word: string): string {
  return word.toLowerCase().replaceAll(/[-_]/g, "");
}

function address(server: string): string {
  return `servers.${server}.url`;
}

function nearAddress(word: string, servers: readonly string[]): string {
  const [, name = ""] = word.split(".");
  return address(servers.includes(name) ? name : (didYouMean(name, servers) ?? "NAME"));
}
