import * as z from "zod";
import { exact, type JsonObject } from "../base/json.ts";
import {
  anyObject,
  closedObject,
  filledText,
  httpUrl,
  type Model,
  named,
  nameKey,
  optional,
  type Parsed,
} from "./fields.ts";

/** The home folder of an agent's program: one for each trial, or that of the user. */
export const homes = ["trial", "user"] as const;

/** What may be allowed to an agent that asks for permission. */
export const permissionPolicies = ["allow", "allow-mcp", "deny"] as const;

/** How much a model may reason before it answers. */
export const efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
export type Effort = (typeof efforts)[number];

/** A text that is added to a program's own system prompt, or takes the place of it; the names are those of the Agent Client Protocol. */
export interface SystemPrompt {
  readonly mode: "append" | "override";
  readonly text: string;
}

/** The type of the agent of a session that was imported. */
export const transcriptAgent = "transcript";

/** What a report says of an agent: enough to know who acted, nothing secret. */
export const agentSummarySchema = z
  .strictObject({
    name: z.string().describe("Name of the agent, as trials refer to it."),
    type: z
      .string()
      .describe(
        "Type of the agent, such as `model` or `scripted`; of a program, how it is spoken to: `acp` or `command`; `transcript` where its own record of a session was imported.",
      ),
    model: z.string().describe("The agent's model, if any.").exactOptional(),
    preset: z.string().describe("Name of the known program that the agent is, if it is one.").exactOptional(),
    permissions: z
      .enum(permissionPolicies)
      .describe("How the permission requests of a program are answered. Absent: as its own arguments say.")
      .exactOptional(),
    home: z
      .enum(homes)
      .describe(
        "Of a program: whether each trial has a home folder of its own, or all have that of the user.",
      )
      .exactOptional(),
    effort: z
      .enum(efforts)
      .describe("How much its model may reason. Absent: as its provider decides.")
      .exactOptional(),
    systemHash: z
      .string()
      .describe(
        "SHA-256 of the system prompt that it is given, 16 hexadecimal digits; of one that is added to a program's own, with `+` before it. Absent without one.",
      )
      .exactOptional(),
    maxTurns: z
      .int()
      .describe("Of a program: most requests to its model in one user turn. Absent: as it decides.")
      .exactOptional(),
    allowedTools: z
      .array(z.string())
      .describe("Of a program's own tools, the only ones that it may use. Absent: all.")
      .exactOptional(),
    sessionOptions: z
      .record(z.string(), z.union([z.string(), z.boolean()]))
      .describe("Options of its sessions that were set, such as `mode`.")
      .exactOptional(),
  })
  .meta({ id: "Agent", description: "An agent of the run." });

export type AgentSummary = Model<typeof agentSummarySchema>;

/** An agent with what its program reported in the trials of a run. */
export const agentIdentitySchema = agentSummarySchema
  .extend({
    programs: z
      .array(z.string())
      .describe("Programs with versions that were reported. Absent: none were.")
      .exactOptional(),
    models: z
      .array(z.string())
      .describe("Models that answered, as reported. Absent: unknown.")
      .exactOptional(),
  })
  .meta({ id: "AgentIdentity", description: "Who acted." });

export type AgentIdentity = Model<typeof agentIdentitySchema>;

const modelFields = {
  model: filledText.describe(
    "`PROVIDER/MODEL`, such as `anthropic/claude-sonnet-4-5`; with `baseURL` any name.",
  ),
  baseURL: optional(
    httpUrl,
    "Address of the provider's API, or of any OpenAI-compatible server.",
    "the provider's own",
  ),
  apiKey: optional(
    z.string(),
    "API key. Prefer the provider's environment variable, or `${VAR}`.",
    "the provider's usual variable",
  ),
  api: optional(z.enum(["responses", "chat"]), "Which OpenAI API to use.", "the provider's usual one"),
  temperature: optional(z.number().min(0), "Sampling temperature.", "the provider's"),
  effort: optional(
    z.enum(efforts),
    "How much the model may reason before it answers. A level that the model does not know becomes the nearest one, and models that do not reason ignore it.",
    "the provider's",
  ),
  maxOutputTokens: optional(
    z.int().min(1),
    "Maximum number of tokens in one answer.",
    "the provider's; 8192 for Anthropic",
  ),
};

/** Model calls allowed in one user turn, where nothing else is said. */
const defaultMaxSteps = 20;

export const modelAgentSchema = closedObject({
  type: optional(z.literal("model"), "A language model in a tool loop.", "`model`"),
  ...modelFields,
  headers: optional(
    z.record(filledText, z.string()),
    "HTTP headers sent to the provider. Their values are not recorded.",
  ),
  maxSteps: z.int().min(1).default(defaultMaxSteps).describe("Model calls allowed in one user turn."),
  system: optional(
    z.string(),
    "System prompt. The `instructions` of servers are added at its end.",
    "a short one that says to use the tools",
  ),
  stream: optional(
    z.boolean(),
    "Whether answers are asked for as streams, so that the time to the first token is known; `false` for a server that cannot stream.",
    "`true`; `false` for Bedrock",
  ),
  resources: optional(
    z.boolean(),
    "Whether the model gets tools of mcpvals to read resources and get prompts.",
    "`true`",
  ),
}).meta(named("ModelAgent", "Model agent", "A language model in a tool loop of mcpvals."));

const scriptedCall = closedObject({
  call: filledText.describe("Tool to call."),
  server: optional(filledText, "Server to call it on.", "the one that offers the tool"),
  args: anyObject.default({}).describe("Arguments of the call."),
}).meta({ id: "ScriptedCall", title: "Scripted call", description: "Calls one tool." });

const scriptedSay = closedObject({
  say: z.string().describe("The agent's message. It ends the turn."),
}).meta({ id: "ScriptedSay", title: "Scripted words", description: "Says something." });

export const scriptedAgentSchema = closedObject({
  type: z.literal("scripted").describe("A plan instead of a model."),
  plan: z
    .record(nameKey, z.array(z.union([scriptedCall, scriptedSay])))
    .describe(
      "Actions in order, by the name of the workflow or task. Each one that the agent plays needs a plan. For task files, texts may contain templates such as `{workspace}`, as in their `solution`.",
    ),
}).meta(named("ScriptedAgent", "Scripted agent", "Plays a plan; for examples, tests and offline use."));

/** The model that plays simulated users, as files have it. */
export const userModelSchema = z.union([
  filledText,
  closedObject(modelFields).meta(named("UserModel", "User model", "The model that plays simulated users.")),
]);

/** The model of simulated users, from a file or the command line. */
export function userModelOf(written: z.output<typeof userModelSchema>): ModelSpec {
  if (typeof written !== "string") return exact(written);
  return { model: modelId(written) ?? written };
}

/** The judge's model of OpenAI where a judge is asked for and none is named. */
export const defaultJudgeModel = "gpt-4o";
/** Lowest score that a judge lets pass, where nothing else is said. */
export const defaultThreshold = 0.8;

export const judgeSchema = closedObject({
  ...modelFields,
  passThreshold: optional(
    z.number().min(0).max(1),
    "Lowest score that passes.",
    "the config's `passThreshold`",
  ),
}).meta(named("Judge", "Judge", "The model that judges."));

/** A proxy for requests to the model, which counts tokens whatever the agent reports. */
export interface ModelProxySpec {
  /** Address of the provider's API. */
  readonly target: string;
  /** Variable of the agent that is set to the address of the proxy. */
  readonly variable: string;
}

export interface SkillsPlace {
  /** Where the program looks for skills, inside the trial's workspace. */
  readonly mountPath: string;
  /** The program's tool that loads a skill; absent: it reads their files with its usual tools. */
  readonly tool?: string;
}

/** How to reach a language model. */
export type ModelSpec = Omit<
  Parsed<typeof modelAgentSchema>,
  "type" | "maxSteps" | "system" | "resources" | "stream"
>;

export interface ModelAgentSpec extends Omit<Parsed<typeof modelAgentSchema>, "type"> {
  readonly type: "model";
  readonly name: string;
  /** SHA-256 of `system`, 16 hexadecimal digits. */
  readonly systemHash?: string;
}

export interface ScriptedAgentSpec extends Parsed<typeof scriptedAgentSchema> {
  readonly name: string;
}

/** One thing a scripted agent does: call a tool, or say something, which ends the turn. */
export type ScriptedAction = ScriptedAgentSpec["plan"][string][number];

/** Agents that need no declaration: `oracle` plays a task's own solution, `null` does nothing. */
export const builtinAgents = ["oracle", "null"] as const;

export interface BuiltinAgentSpec {
  readonly type: (typeof builtinAgents)[number];
  readonly name: string;
}

/** Skills that a program gets: the contents of some folders, copied into the folder in which it looks for skills. */
export interface AgentSkills extends SkillsPlace {
  /** Absolute paths: folders with a folder for each skill, or the folder of one skill. */
  readonly folders: readonly string[];
}

export interface ProgramAgentSpec {
  readonly name: string;
  /** Name of a known program. */
  readonly preset?: string;
  readonly model?: string;
  /** How it reaches servers: by URL, or by a command that it starts; absent: as the program can. */
  readonly connect?: "http" | "bridge";
  readonly command: string;
  readonly args: readonly string[];
  /** The complete environment of the program. */
  readonly env: Readonly<Record<string, string>>;
  /** What its declaration says of `env`: names of variables, and `*` where it inherits all. Absent: nothing. */
  readonly variables?: readonly string[];
  /**
   * The variables that say where the user's home is; present: each trial has a home of its own, and gets the login from there.
   */
  readonly userHome?: Readonly<Record<string, string>>;
  /** Absolute path of the folder that it works in; absent: the trial's workspace. */
  readonly cwd?: string;
  readonly modelProxy?: ModelProxySpec;
  readonly skills?: AgentSkills;
  /** Files that are written into the trial's home, by path with slashes; JSON is merged with what else is written there. */
  readonly homeFiles?: Readonly<Record<string, string | JsonObject>>;
  /** Variables that name one of these files, by its path. */
  readonly homePaths?: Readonly<Record<string, string>>;
  /** Absent: nobody said anything of it. */
  readonly permissions?: PermissionPolicy;
  readonly effort?: Effort;
  readonly maxTurns?: number;
  readonly allowedTools?: readonly string[];
  /** SHA-256 of the system prompt, as in {@link agentSummarySchema}. */
  readonly systemHash?: string;
}

/** What is asked of a program in a session of the Agent Client Protocol. */
export interface SessionSettings {
  /** Members of `_meta` of the request that begins it. */
  readonly meta?: JsonObject;
  readonly systemPrompt?: SystemPrompt;
  readonly effort?: Effort;
}

/** A program that speaks the Agent Client Protocol on its stdin and stdout. */
export interface AcpAgentSpec extends ProgramAgentSpec {
  readonly type: "acp";
  readonly permissions: PermissionPolicy;
  readonly session?: SessionSettings;
  /** Values of the session's own options, by id; `mode` is also its mode. */
  readonly sessionOptions?: Readonly<Record<string, string | boolean>>;
}

/** The answer to an agent's own permission requests. `allow-mcp` allows calls of tools of servers only. */
export type PermissionPolicy = (typeof permissionPolicies)[number];

/** A program that is started once for each user turn; the description of its schema says what is replaced in its texts. */
export interface CommandAgentSpec extends ProgramAgentSpec {
  readonly type: "command";
  /** Arguments of every turn but the first; absent: the same. */
  readonly nextArgs?: readonly string[];
  /** Format of its output: `text`, or the name of a preset. */
  readonly output: string;
  readonly stdin: boolean;
  /** Clients whose MCP config files are written into its working folder. */
  readonly configFiles: readonly string[];
}

/** An agent with all that it needs to act, keys included: never written. What is written of it is an {@link AgentSummary}. */
export type AgentSpec =
  | ModelAgentSpec
  | ScriptedAgentSpec
  | BuiltinAgentSpec
  | AcpAgentSpec
  | CommandAgentSpec;

export function modelAgent(name: string, model: string): ModelAgentSpec {
  return { type: "model", name, model, maxSteps: defaultMaxSteps };
}

/** Providers with another name here. */
const providers: Readonly<Record<string, string>> = { gemini: "google" };

/**
 * Turns `PROVIDER:MODEL` into `PROVIDER/MODEL`; what is in that form stays. A bare name gets `usual` as its provider;
 * without that it gives undefined.
 */
export function modelId(text: string, usual?: string): string | undefined {
  const trimmed = text.trim();
  const [, provider = "", model = ""] = /^([\w.-]+):(.+)$/s.exec(trimmed) ?? [];
  if (model !== "") return `${providers[provider] ?? provider}/${model.trim()}`;
  if (/^[\w.-]+\/\S+$/.test(trimmed)) return trimmed;
  return usual === undefined || trimmed === "" ? undefined : `${usual}/${trimmed}`;
}
