import type { Eval, JsonObject, ServerSpec } from "../formats/model.ts";
import { summarizeAgent } from "../plan/plan.ts";
import type { RunEnvironment } from "./result.ts";

/** What ran where, for the result: agents only when one takes part. The caller still has to remove secrets from it. */
export function runEnvironment(
  spec: Eval,
  versions: Pick<RunEnvironment, "mcpvals" | "node" | "platform">,
): RunEnvironment {
  const servers = Object.entries(spec.servers).map(
    ([name, server]) => [name, describeServer(server)] as const,
  );
  const acts = spec.tasks.some((task) => task.turns.length > 0);
  return {
    ...versions,
    agents: acts ? spec.agents.map(summarizeAgent) : [],
    ...(spec.judge === undefined ? {} : { judge: { model: spec.judge.model } }),
    servers: Object.fromEntries(servers),
  };
}

function describeServer(server: ServerSpec): JsonObject {
  if (server.transport === "mock") return { transport: "mock" };
  if (server.transport !== "stdio") return { transport: server.transport, url: server.url };
  return { transport: server.transport, command: [server.command, ...server.args].join(" ") };
}
