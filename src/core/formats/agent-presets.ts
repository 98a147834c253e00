import type { JsonObject } from "./json.ts";
import type {
  AcpAgentSpec,
  AgentPreset,
  AgentSkills,
  CommandAgentSpec,
  CommandOutput,
  McpClient,
  ModelProxySpec,
} from "./model.ts";

/** What is known of an agent program: data only. */
export interface AgentPresetFacts {
  readonly title: string;
  /** How it is started to speak the Agent Client Protocol. */
  readonly acp: AcpForm;
  /** How it is started once for each user turn. */
  readonly headless: HeadlessForm;
  /** The API that its model is reached by, where a variable leads it elsewhere; absent: only its own config file does. */
  readonly modelApi?: ModelProxySpec;
  /** Variables of the shell that it takes keys and accounts from. */
  readonly inheritEnv: readonly string[];
  readonly skills: Omit<AgentSkills, "folders">;
}

interface ProgramForm {
  readonly command: string;
  readonly args: readonly string[];
  /** Variables that it needs to be left alone: no updates, no questions. */
  readonly env: Readonly<Record<string, string>>;
  /** The package on npm that has the command. */
  readonly package: string;
}

export interface AcpForm extends ProgramForm {
  readonly model: ModelChoice;
  /** It takes servers by their address only, and leaves others out. */
  readonly httpOnly?: true;
  /** The mode of a session in which it asks before it acts, where it may begin in another one. */
  readonly mode?: string;
  /** `_meta` of the request that begins a session. */
  readonly sessionMeta?: JsonObject;
  /** The tokens that it tells are those of all turns so far; absent: of one turn. */
  readonly usage?: "session";
  /** What it is to log in with, when it asks and one of the variables is set: a way that needs nobody at the keyboard. */
  readonly login?: { readonly method: string; readonly variables: readonly string[] };
}

/** Arguments may have what is replaced in those of a `CommandAgentSpec`. */
export interface HeadlessForm extends ProgramForm {
  /** Arguments of every turn but the first, which go on with its session. */
  readonly nextArgs: readonly string[];
  /** Put before the other arguments when a model is chosen. */
  readonly modelArgs: readonly string[];
  readonly output: CommandOutput;
  readonly stdin: boolean;
  /** Clients whose config files lead it to the servers; none where an argument does. */
  readonly configFiles: readonly McpClient[];
}

/** How a model is chosen; `{model}` stands for its name. */
export type ModelChoice =
  | { readonly by: "args"; readonly args: readonly string[] }
  | { readonly by: "env"; readonly variable: string; readonly value: string }
  /** Among what the agent offers in the session. */
  | { readonly by: "session" };

const withModelFlag = ["--model", "{model}"];
const codexArgs = [
  "--json",
  "--skip-git-repo-check",
  "--dangerously-bypass-approvals-and-sandbox",
  // It reads the config file of a folder that it trusts only. Dots in a key of its own would divide the path.
  "--config",
  `projects={'{cwd}'={trust_level="trusted"}}`,
];
const copilotArgs = ["--no-auto-update", "--disable-builtin-mcps"];
const copilotTurn = [
  ...copilotArgs,
  "--allow-all-tools",
  "--output-format",
  "json",
  "--additional-mcp-config",
  "@{mcpConfig}",
];

/** Every agent program that we know how to start. */
export const agentPresetFacts: Readonly<Record<AgentPreset, AgentPresetFacts>> = {
  "claude-code": {
    title: "Claude Code",
    acp: {
      command: "claude-agent-acp",
      args: [],
      env: {},
      package: "@agentclientprotocol/claude-agent-acp",
      mode: "default",
      // Without it nobody hears of requests to the model that fail and are made again.
      sessionMeta: {
        claudeCode: {
          emitRawSDKMessages: ["api_retry", "init"].map((subtype) => ({ type: "system", subtype })),
        },
      },
      model: { by: "env", variable: "ANTHROPIC_MODEL", value: "{model}" },
    },
    headless: {
      command: "claude",
      args: claudeArgs([]),
      nextArgs: claudeArgs(["--resume", "{session}"]),
      modelArgs: withModelFlag,
      // Root has to say that it knows what it does.
      env: { DISABLE_AUTOUPDATER: "1", IS_SANDBOX: "1" },
      package: "@anthropic-ai/claude-code",
      output: "claude-code",
      stdin: true,
      configFiles: [],
    },
    modelApi: { variable: "ANTHROPIC_BASE_URL", target: "https://api.anthropic.com" },
    inheritEnv: [
      "ANTHROPIC_API_KEY",
      "ANTHROPIC_AUTH_TOKEN",
      "ANTHROPIC_BASE_URL",
      "CLAUDE_CODE_OAUTH_TOKEN",
      "CLAUDE_CONFIG_DIR",
    ],
    skills: { mountPath: ".claude/skills", tool: "Skill" },
  },
  codex: {
    title: "Codex",
    acp: {
      command: "codex-acp",
      args: [],
      // In its usual mode a model of its own is asked for permission instead of us.
      env: { NO_BROWSER: "1", INITIAL_AGENT_MODE: "workspace-write" },
      package: "@agentclientprotocol/codex-acp",
      model: { by: "session" },
      login: { method: "api-key", variables: ["CODEX_API_KEY", "OPENAI_API_KEY"] },
    },
    headless: {
      command: "codex",
      args: ["exec", ...codexArgs, "--", "{prompt}"],
      nextArgs: ["exec", "resume", ...codexArgs, "--", "{session}", "{prompt}"],
      modelArgs: withModelFlag,
      env: {},
      package: "@openai/codex",
      output: "codex",
      stdin: false,
      configFiles: ["codex"],
    },
    inheritEnv: ["CODEX_API_KEY", "OPENAI_API_KEY", "CODEX_HOME", "CODEX_PATH", "CODEX_CONFIG"],
    skills: { mountPath: ".agents/skills" },
  },
  gemini: {
    title: "Gemini CLI",
    acp: {
      command: "gemini",
      args: ["--acp", "--skip-trust"],
      env: {},
      package: "@google/gemini-cli",
      model: { by: "args", args: withModelFlag },
      login: { method: "gemini-api-key", variables: ["GEMINI_API_KEY"] },
    },
    headless: {
      command: "gemini",
      args: geminiArgs([]),
      nextArgs: geminiArgs(["--resume", "{session}"]),
      modelArgs: withModelFlag,
      // It reads the settings of a folder that it trusts only, and --skip-trust is not enough for their servers.
      env: { GEMINI_CLI_TRUST_WORKSPACE: "true" },
      package: "@google/gemini-cli",
      output: "gemini",
      stdin: false,
      configFiles: ["gemini"],
    },
    modelApi: {
      variable: "GOOGLE_GEMINI_BASE_URL",
      target: "https://generativelanguage.googleapis.com",
    },
    inheritEnv: ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_CLI_HOME"],
    skills: { mountPath: ".gemini/skills", tool: "activate_skill" },
  },
  copilot: {
    title: "Copilot CLI",
    acp: {
      command: "copilot",
      args: ["--acp", ...copilotArgs],
      env: {},
      package: "@github/copilot",
      model: { by: "args", args: withModelFlag },
      httpOnly: true,
      usage: "session",
    },
    headless: {
      command: "copilot",
      args: [...copilotTurn, "--prompt={prompt}"],
      nextArgs: [...copilotTurn, "--resume={session}", "--prompt={prompt}"],
      modelArgs: withModelFlag,
      env: {},
      package: "@github/copilot",
      output: "copilot",
      stdin: false,
      configFiles: [],
    },
    // Only for a provider of one's own; it has no usual address.
    inheritEnv: [
      "COPILOT_GITHUB_TOKEN",
      "GH_TOKEN",
      "GITHUB_TOKEN",
      "COPILOT_HOME",
      "COPILOT_MODEL",
      "COPILOT_OFFLINE",
      "COPILOT_PROVIDER_API_KEY",
      "COPILOT_PROVIDER_BASE_URL",
      "COPILOT_PROVIDER_TYPE",
      "COPILOT_PROVIDER_WIRE_API",
    ],
    skills: { mountPath: ".github/skills", tool: "skill" },
  },
  opencode: {
    title: "opencode",
    acp: {
      command: "opencode",
      args: ["acp"],
      // By itself it asks for nothing, so that no policy would be heard.
      env: { OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_PERMISSION: '{"*":"ask"}' },
      package: "opencode-ai",
      model: { by: "session" },
    },
    headless: {
      command: "opencode",
      args: ["run", "--auto", "--format", "json", "--", "{prompt}"],
      nextArgs: ["run", "--auto", "--format", "json", "--session", "{session}", "--", "{prompt}"],
      modelArgs: withModelFlag,
      env: { OPENCODE_DISABLE_AUTOUPDATE: "1" },
      package: "opencode-ai",
      output: "opencode",
      stdin: false,
      configFiles: ["opencode"],
    },
    inheritEnv: [
      "ANTHROPIC_API_KEY",
      "OPENAI_API_KEY",
      "GEMINI_API_KEY",
      "GOOGLE_GENERATIVE_AI_API_KEY",
      "OPENCODE_CONFIG",
      "OPENCODE_CONFIG_CONTENT",
    ],
    skills: { mountPath: ".opencode/skills", tool: "skill" },
  },
};

function claudeArgs(session: readonly string[]): readonly string[] {
  const output = ["--print", "--output-format", "stream-json", "--verbose"];
  const servers = ["--mcp-config", "{mcpConfig}", "--strict-mcp-config"];
  return [...output, ...servers, "--dangerously-skip-permissions", ...session];
}

function geminiArgs(session: readonly string[]): readonly string[] {
  const quiet = ["--yolo", "--skip-trust", "--output-format", "stream-json"];
  return [...quiet, ...session, "--prompt={prompt}"];
}

type AcpParts = Pick<AcpAgentSpec, "preset" | "command" | "args" | "env">;
type CommandParts = Pick<
  CommandAgentSpec,
  "preset" | "command" | "args" | "nextArgs" | "env" | "output" | "stdin" | "configFiles"
>;

/**
 * The parts of an agent that speaks the Agent Client Protocol which its preset decides. `env` has what the program needs
 * besides the shell's variables named in the preset's `inheritEnv`.
 */
export function acpOfPreset(preset: AgentPreset, model?: string): AcpParts {
  const { command, args, env, model: choice } = agentPresetFacts[preset].acp;
  const named = (text: string): string => text.replaceAll("{model}", model ?? "");
  const byArgs = model !== undefined && choice.by === "args" ? choice.args.map(named) : [];
  const byEnv = model !== undefined && choice.by === "env" ? { [choice.variable]: named(choice.value) } : {};
  return { preset, command, args: [...args, ...byArgs], env: { ...env, ...byEnv } };
}

/** The parts of an agent that is started for each turn which its preset decides; templates are left in its arguments. */
export function commandOfPreset(preset: AgentPreset, model?: string): CommandParts {
  const { command, args, nextArgs, modelArgs, env, output, stdin, configFiles } =
    agentPresetFacts[preset].headless;
  const withModel = (list: readonly string[]): readonly string[] => {
    if (model === undefined) return list;
    const at = list.findIndex((each) => each.startsWith("-"));
    return [...list.slice(0, at), ...modelArgs, ...list.slice(at)];
  };
  return {
    preset,
    command,
    args: withModel(args),
    nextArgs: withModel(nextArgs),
    env,
    output,
    stdin,
    configFiles,
  };
}
