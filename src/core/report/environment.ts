import type { Eval, ServerSpec } from "../formats/model.ts";
import type { AgentSpec, JsonObject } from "../formats/model.ts";
import type { AgentSummary } from "../plan/plan.ts";
import type { RunEnvironment } from "./result.ts";

/** What ran where, for the result; the caller still has to remove secrets from it. */
export function runEnvironment(
  spec: Eval,
  versions: Pick<RunEnvironment, "mcpvals" | "node" | "platform">,
): RunEnvironment {
  const servers = Object.entries(spec.servers).map(
    ([name, server]) => [name, describeServer(server)] as const,
  );
  return { ...versions, agents: spec.agents.map(summarizeAgent), servers: Object.fromEntries(servers) };
}

/** What may be said of an agent in public. */
export function summarizeAgent(agent: AgentSpec): AgentSummary {
  const model = agent.type === "model" ? { model: agent.model } : {};
  return { name: agent.name, type: agent.type, ...model };
}

function describeServer(server: ServerSpec): JsonObject {
  if (server.transport !== "stdio") return { transport: server.transport, url: server.url };
  return { transport: server.transport, command: [server.command, ...server.args].join(" ") };
}
