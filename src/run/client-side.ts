import type { AgentDriver } from "../agents/driver.ts";
import type { Task } from "../core/formats/model.ts";
import type { Emit } from "../core/trace/events.ts";
import type { ClientSide } from "../servers/session.ts";

/** What servers can ask of an agent, as an option of their start; none when it answers nothing. */
export function clientSideOf(
  agent: AgentDriver,
  { emit, workspace, task }: { readonly emit: Emit; readonly workspace: string; readonly task: Task },
): { readonly clientSide?: ClientSide } {
  if (agent.clientSide === undefined) return {};
  return { clientSide: agent.clientSide({ emit, workspace, elicitation: task.elicitation ?? [] }) };
}
