import {
  type AgentTemplates,
  checkAgentTemplates,
  deafAgentNotes,
  type DeclaredAgents,
} from "../core/formats/agent-templates.ts";
import type { KeyPath } from "../core/formats/json.ts";
import type { Eval } from "../core/formats/model.ts";

export const noTemplates: AgentTemplates = { problems: [], notes: [] };

/**
 * What is wrong, and what is odd, in the command lines of a file's agents, once all servers of the eval are known; `path` is
 * where the key `agents` stands in the file.
 */
export function agentTemplates(declared: DeclaredAgents, spec: Eval, path: KeyPath = []): AgentTemplates {
  const { problems, notes } = checkAgentTemplates(declared, { path, servers: serverNames(spec) });
  return { problems, notes: [...notes, ...deafAgentNotes(spec.agents)] };
}

/** The names of all servers that some trial may have. */
function serverNames({ servers, taskServers = {}, variants = [] }: Eval): readonly string[] {
  const tables = [
    servers,
    ...Object.values(taskServers),
    ...variants.flatMap((variant) => Object.values(variant.servers)),
  ];
  return [...new Set(tables.flatMap((table) => Object.keys(table)))];
}
