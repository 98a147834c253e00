import type { AcpAgentSpec, CommandAgentSpec } from "./agent-model.ts";
import { type AgentPreset, presets } from "./presets/presets.ts";

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
  const { command, args, env, model: choice } = presets[preset].acp;
  const named = (text: string): string => text.replaceAll("{model}", model ?? "");
  const byArgs = model !== undefined && choice.by === "args" ? choice.args.map(named) : [];
  const byEnv = model !== undefined && choice.by === "env" ? { [choice.variable]: named(choice.value) } : {};
  return { preset, command, args: [...args, ...byArgs], env: { ...env, ...byEnv } };
}

/** The parts of an agent that is started for each turn which its preset decides; templates are left in its arguments. */
export function commandOfPreset(preset: AgentPreset, model?: string): CommandParts {
  const { command, args, nextArgs, modelArgs, env, stdin, usesClientFile } = presets[preset].headless;
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
    output: preset,
    stdin,
    configFiles: usesClientFile ? [preset] : [],
  };
}
