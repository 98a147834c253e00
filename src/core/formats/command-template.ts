import type { CommandAgentSpec } from "./agent-model.ts";

/** Names in braces that are replaced in a program's command line, besides `{servers.NAME.url}`; see `CommandAgentSpec`. */
export const templateNames = [
  "prompt",
  "promptJson",
  "workspace",
  "cwd",
  "mcpConfig",
  "model",
  "session",
] as const;
export type TemplateName = (typeof templateNames)[number];

/** Finds `{{`, words in braces, and addresses of servers; the name and the server are its groups. */
export const templatePlace = /\{\{|\{(\w+)\}|\{servers\.([^{}]+)\.url\}/g;

/** Whether a text has a name that is replaced. */
export function mentions(text: string, name: TemplateName): boolean {
  return [...text.matchAll(templatePlace)].some(([, found]) => found === name);
}

/** What is said of a command agent that does not hear the user: one sentence for each such agent. */
export function deafAgentNotes(agents: readonly { readonly type: string }[]): string[] {
  return agents.filter(isCommand).flatMap((agent) => {
    const { name, args, nextArgs, stdin } = agent;
    if (stdin) return [];
    const way = "write {prompt} into its arguments, or set stdin: true";
    if (!hears(agent, args)) return [`agent "${name}" never hears the user: ${way}`];
    return nextArgs === undefined || hears(agent, nextArgs)
      ? []
      : [`agent "${name}" does not hear the user after the first turn: nextArgs has no {prompt}`];
  });
}

function isCommand(agent: { readonly type: string }): agent is CommandAgentSpec {
  return agent.type === "command";
}

function hears({ command, env }: CommandAgentSpec, args: readonly string[]): boolean {
  const texts = [command, ...args, ...Object.values(env)];
  return texts.some((text) => mentions(text, "prompt") || mentions(text, "promptJson"));
}
