import type { JsonObject } from "./json.ts";
import type { ModelProxySpec, SkillsPlace } from "./presets/preset.ts";
import { type AgentPreset, agentPresets } from "./presets/presets.ts";

export { agentPresets };
export type { AgentPreset, ModelProxySpec };

/** How to reach a language model. */
export interface ModelSpec {
  /** `PROVIDER/MODEL`, such as `anthropic/claude-sonnet-4-5`; with `baseURL` any name. */
  readonly model: string;
  readonly baseURL?: string;
  readonly apiKey?: string;
  /** OpenAI's wire format; `responses` unless given. */
  readonly api?: "responses" | "chat";
  readonly headers?: Readonly<Record<string, string>>;
  readonly temperature?: number;
  readonly maxOutputTokens?: number;
}

export interface ModelAgentSpec extends ModelSpec {
  readonly type: "model";
  readonly name: string;
  /** Model calls allowed in one user turn. */
  readonly maxSteps: number;
  readonly system?: string;
  /** Whether the model can read resources and get prompts, with tools of mcpvals. Default: true. */
  readonly resources?: boolean;
}

/** One thing a scripted agent does: call a tool, or say something, which ends the turn. */
export type ScriptedAction =
  | { readonly call: string; readonly server?: string; readonly args: JsonObject }
  | { readonly say: string };

export interface ScriptedAgentSpec {
  readonly type: "scripted";
  readonly name: string;
  /** Actions by the name of the workflow or task; in those of tasks from files templates are replaced. */
  readonly plan: Readonly<Record<string, readonly ScriptedAction[]>>;
}

/** Plays each task's own `solution`. */
export interface OracleAgentSpec {
  readonly type: "oracle";
  readonly name: string;
}

/** Does nothing at all. */
export interface NullAgentSpec {
  readonly type: "null";
  readonly name: string;
}

/** Programs whose MCP config files we can write into a workspace. */
export const mcpClients = [...agentPresets, "vscode", "cursor"] as const;
export type McpClient = (typeof mcpClients)[number];

/** Skills that a program gets: what is in some folders, copied into the folder that it looks for skills in. */
export interface AgentSkills extends SkillsPlace {
  /** Absolute paths: folders with a folder for each skill, or the folder of one skill. */
  readonly folders: readonly string[];
}

interface ProgramAgentBase {
  readonly name: string;
  /** Who it is, for the names of tools, config files and defaults; absent: nobody known. */
  readonly preset?: AgentPreset;
  readonly command: string;
  readonly args: readonly string[];
  /** The complete environment of the program. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute path of the folder that it works in; absent: the trial's workspace. */
  readonly cwd?: string;
  readonly model?: string;
  /** How the program reaches servers: at an address, or by a command that it starts. Default: whatever it can. */
  readonly connect?: "http" | "bridge";
  readonly modelProxy?: ModelProxySpec;
  readonly skills?: AgentSkills;
}

/** What an agent's own requests for permission are answered. `allow-mcp` allows calls of tools of servers only. */
export type PermissionPolicy = "allow" | "allow-mcp" | "deny";

/** A program that speaks the Agent Client Protocol on its stdin and stdout. */
export interface AcpAgentSpec extends ProgramAgentBase {
  readonly type: "acp";
  readonly permissions: PermissionPolicy;
}

/** Formats of lines of JSON that agent programs print. */
export const commandOutputs = ["text", ...agentPresets] as const;
export type CommandOutput = (typeof commandOutputs)[number];

/**
 * A program that is started once for each user turn. In `command`, `args`, `nextArgs` and `env`, `{prompt}`,
 * `{promptJson}` (the prompt as a JSON string), `{workspace}`
 * (of the trial), `{cwd}` (the folder that it works in), `{mcpConfig}` (path of a file with `mcpServers`), `{model}`,
 * `{session}` (id of the session before, empty in the first turn) and, in `env` only, `{servers.NAME.url}` are replaced; `{{`
 * writes a brace.
 */
export interface CommandAgentSpec extends ProgramAgentBase {
  readonly type: "command";
  readonly output: CommandOutput;
  /** Arguments of every turn but the first. Absent: `args`. */
  readonly nextArgs?: readonly string[];
  /** The prompt is written to stdin. */
  readonly stdin: boolean;
  /** Clients whose config files are written into the folder that the program works in. */
  readonly configFiles: readonly McpClient[];
}

export type AgentSpec =
  | ModelAgentSpec
  | ScriptedAgentSpec
  | OracleAgentSpec
  | NullAgentSpec
  | AcpAgentSpec
  | CommandAgentSpec;
