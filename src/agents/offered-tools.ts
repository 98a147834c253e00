import type { JsonObject } from "../core/formats/model.ts";
import type { CallOptions, CallOutcome, ServerSession, ToolDefinition } from "../servers/session.ts";
import { resourceTools } from "./resource-tools.ts";
import { nameTools } from "./tool-names.ts";

/** A tool that a model may call, and what calling it does. */
export interface OfferedTool {
  readonly definition: ToolDefinition;
  /** Gives why a call cannot be made at all, as `rejected`. Throws as `ServerSession.callTool` does. */
  call(args: JsonObject, options: CallOptions): Promise<CallOutcome | { readonly rejected: string }>;
}

/**
 * The tools of all sessions, by the names under which a model sees them, and with `resources` tools of ours for the
 * servers' resources and prompts. A name that a server's tool has is its own: ours give way.
 */
export function offeredTools(
  sessions: readonly ServerSession[],
  { resources }: { readonly resources: boolean },
): ReadonlyMap<string, OfferedTool> {
  const refs = sessions.flatMap(({ name, tools }) =>
    tools.map((tool) => ({ server: name, tool: tool.name })),
  );
  const offered = new Map<string, OfferedTool>();
  for (const [name, ref] of nameTools(refs)) {
    const session = sessions.find((candidate) => candidate.name === ref.server);
    const definition = session?.tools.find((tool) => tool.name === ref.tool);
    if (session !== undefined && definition !== undefined) offered.set(name, serverTool(session, definition));
  }
  for (const tool of resources ? resourceTools(sessions) : [])
    offered.set(freeName(tool.definition.name, offered), tool);
  return offered;
}

function serverTool(session: ServerSession, definition: ToolDefinition): OfferedTool {
  return {
    definition,
    call: (args, options) => session.callTool(definition.name, args, options),
  };
}

function freeName(name: string, taken: ReadonlyMap<string, unknown>): string {
  let free = name;
  for (let number = 2; taken.has(free); number += 1) free = `${name}_${number}`;
  return free;
}
