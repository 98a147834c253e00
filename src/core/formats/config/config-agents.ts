import { type AgentPreset, agentPresets } from "../model.ts";

/** The agent that plays when a config names none. */
export const defaultAgent = { name: "claude", model: "anthropic/claude-sonnet-4-5" } as const;

/** One agent that will run, by where it comes from. */
export type AgentChoice =
  /** Declared in `agents` under this name. */
  | { readonly kind: "declared"; readonly name: string }
  /** Written out in `agent`. */
  | { readonly kind: "inline" }
  /** A bare model id. */
  | { readonly kind: "model"; readonly model: string }
  | { readonly kind: "default" }
  /** Always known: `oracle` plays a task's own solution, `null` does nothing. */
  | { readonly kind: "builtin"; readonly name: BuiltinAgent }
  /** A program that we know how to start; it speaks the Agent Client Protocol. */
  | { readonly kind: "preset"; readonly name: AgentPreset }
  /** Names nothing. */
  | { readonly kind: "unknown"; readonly name: string };

/** Names of agents that need no declaration. */
const builtinAgents = ["oracle", "null"] as const;

/** Names that an agent can be asked for by without being declared. */
export const undeclaredAgents: readonly string[] = [...builtinAgents, ...agentPresets];

type BuiltinAgent = (typeof builtinAgents)[number];

export interface AgentSources {
  /** Names in `agents`. */
  readonly declared: readonly string[];
  /** The text of `agent`, when it is one. */
  readonly named?: string;
  /** Name that the agent written out in `agent` goes by, when there is one. */
  readonly inline?: string;
  /** Names or model ids that were asked for instead of what the config says. */
  readonly requested?: readonly string[];
}

/** Decides which agents run: those asked for, else `agent`, else all of `agents`, else the default one. */
export function chooseAgents(sources: AgentSources): readonly AgentChoice[] {
  const { declared, named, inline, requested } = sources;
  if (requested !== undefined && requested.length > 0) {
    return [...new Set(requested)].map((name) =>
      name === inline ? { kind: "inline" } : resolve(name, declared),
    );
  }
  if (inline !== undefined) return [{ kind: "inline" }];
  if (named !== undefined) return [resolve(named, declared)];
  if (declared.length > 0) return declared.map((name) => ({ kind: "declared", name }));
  return [{ kind: "default" }];
}

function resolve(name: string, declared: readonly string[]): AgentChoice {
  if (declared.includes(name)) return { kind: "declared", name };
  const builtin = builtinAgents.find((each) => each === name);
  if (builtin !== undefined) return { kind: "builtin", name: builtin };
  const preset = agentPresets.find((each) => each === name);
  if (preset !== undefined) return { kind: "preset", name: preset };
  return name.includes("/") ? { kind: "model", model: name } : { kind: "unknown", name };
}
