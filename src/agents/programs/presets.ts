import { claudeCode } from "./claude-code.ts";
import { codex } from "./codex.ts";
import { copilot } from "./copilot.ts";
import { gemini } from "./gemini.ts";
import { opencode } from "./opencode.ts";
import type { Preset } from "./preset.ts";
import { qwenCode } from "./qwen-code.ts";

const all = {
  "claude-code": claudeCode,
  codex,
  gemini,
  copilot,
  opencode,
  "qwen-code": qwenCode,
} satisfies Record<string, Preset>;

/** The name of an agent program with a preset. */
export type AgentPreset = keyof typeof all;

/** Every preset, one line each. */
export const presets: Readonly<Record<AgentPreset, Preset>> = all;

/** Variables that say where the home, the config and the temporary files of a user are. */
const usualHomeVariables =
  `APPDATA HOME HOMEDRIVE HOMEPATH LOCALAPPDATA TEMP TMP TMPDIR USERPROFILE XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME
  XDG_RUNTIME_DIR XDG_STATE_HOME`.split(/\s+/);

/** Variables that lead a program to what belongs to the user. */
export function homeVariables(preset: string | undefined): readonly string[] {
  return [...usualHomeVariables, ...(presetNamed(preset)?.home.variables ?? [])];
}

/** The preset of a name; undefined for a name that none has. */
export function presetNamed(name: string | undefined): Preset | undefined {
  return presets[name as AgentPreset];
}

export const agentPresets = Object.keys(all) as readonly AgentPreset[];

/** Programs whose MCP config files can be written into a workspace. */
export const mcpClients = [...agentPresets, "vscode", "cursor"] as const;
export type McpClient = (typeof mcpClients)[number];

/** Formats of the output of agent programs. */
export const commandOutputs = ["text", ...agentPresets] as const;
export type CommandOutput = (typeof commandOutputs)[number];
