import type { ServerSession, ToolDefinition } from "../servers/session.ts";
import { nameTools } from "./tool-names.ts";

/** A tool that a model may call, and where a call of it goes. */
export interface OfferedTool {
  readonly session: ServerSession;
  readonly definition: ToolDefinition;
}

/** The tools of all sessions, by the names under which a model sees them. */
export function offeredTools(sessions: readonly ServerSession[]): ReadonlyMap<string, OfferedTool> {
  const refs = sessions.flatMap(({ name, tools }) =>
    tools.map((tool) => ({ server: name, tool: tool.name })),
  );
  const offered = new Map<string, OfferedTool>();
  for (const [name, ref] of nameTools(refs)) {
    const session = sessions.find((candidate) => candidate.name === ref.server);
    const definition = session?.tools.find((tool) => tool.name === ref.tool);
    if (session !== undefined && definition !== undefined) offered.set(name, { session, definition });
  }
  return offered;
}
