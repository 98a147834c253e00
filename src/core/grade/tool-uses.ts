import { canonicalJson, type Json, withoutUndefined } from "../formats/json.ts";
import { eventsOf } from "../trace/events.ts";
import { type AgentTool, agentTools } from "../trace/tool-events.ts";
import {
  type AgentCall,
  agentCalls,
  perObject,
  type ToolDeclaration,
  type Trajectory,
} from "../trace/trajectory.ts";

/** One use of a tool by the agent: of a server's tool, as the gateway recorded it, or of its own, as it reports it. */
export interface ToolUse {
  /** The tool's own name. */
  readonly tool: string;
  /** `mcp:SERVER`, `builtin`, `skill`, or `unknown`. */
  readonly source: string;
  readonly args: Json;
  /** What the server that it was sent to says of it; absent: that it has no such tool, or the tool is not of a server. */
  readonly declared?: ToolDeclaration;
  /** Number of the event that began it. */
  readonly seq: number;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  /** Why it failed; absent: it did not. */
  readonly failure?: string;
  /** A fault was injected that took its answer away. */
  readonly faulted?: true;
}

/**
 * Everything that the agent did with tools, in the order in which it began. The gateway's record is the only source about
 * the tools of servers.
 */
export const toolUses = perObject((trajectory: Trajectory): readonly ToolUse[] => {
  const recorded = agentCalls(trajectory)
    .filter(({ type }) => type === "tool")
    .map(({ server, name: tool, args, seq, at, declared, failure, faulted }: AgentCall): ToolUse => {
      return withoutUndefined({ tool, source: `mcp:${server}`, args, declared, seq, at, failure, faulted });
    });
  const rejected = trajectory.calls
    .filter(({ server, step }) => server === null && step === undefined)
    .map(({ tool, args, seq, at }): ToolUse => {
      return { tool, source: "unknown", args, seq, at, failure: "no server offers such a tool" };
    });
  const own = agentTools(trajectory.events)
    .filter(({ source }) => !source.startsWith("mcp:"))
    .map(({ name: tool, source, args = {}, seq, startedAt: at, status }): ToolUse => {
      const failure = status === "completed" ? {} : { failure: `the agent reports that it ${status}` };
      return { tool, source, args, seq, at, ...failure };
    });
  return [...recorded, ...rejected, ...own].toSorted((a, b) => a.at - b.at || a.seq - b.seq);
});

/**
 * The uses that show that something was used: those that did not fail, without an agent's reports of tools that a server offers,
 * since about those the record decides. A call whose answer an injected fault took away shows nothing.
 */
export const successfulUses = perObject((trajectory: Trajectory): readonly ToolUse[] => {
  const offered = new Set(trajectory.tools.map(({ name }) => name));
  return toolUses(trajectory).filter(
    (use) => use.failure === undefined && use.faulted !== true && (isMcp(use) || !offered.has(use.tool)),
  );
});

/** Of each use a text that is the same for uses of the same tool of the same server with arguments that are equal as JSON. */
export const identitiesOf = perObject((uses: readonly ToolUse[]): readonly string[] =>
  // Neither a source nor JSON has line breaks.
  uses.map(({ source, tool, args }) => `${source}\n${tool}\n${canonicalJson(args)}`),
);

/** Whether a use is of a tool of an MCP server. */
export function isMcp({ source }: Pick<ToolUse, "source">): boolean {
  return source.startsWith("mcp:");
}

/** The tool with its server, as messages name it. */
export function nameOfUse({ source, tool }: Pick<ToolUse, "source" | "tool">): string {
  return isMcp({ source }) ? `${source.slice("mcp:".length)}.${tool}` : tool;
}

/** A load of a skill, as the agent reports it. */
export interface SkillLoad extends Pick<AgentTool, "status" | "seq"> {
  /** The arguments of the load, as JSON. */
  readonly text: string;
}

/** The loads of skills; `given` are the skills that the agent was given, undefined for one that was given none. */
export function skillLoads({ events }: Pick<Trajectory, "events">): {
  readonly loads: readonly SkillLoad[];
  readonly given?: readonly string[];
} {
  const [copied] = eventsOf(events, "skills.copied");
  const { tool, folder = "", skills: given } = copied ?? {};
  const loads = agentTools(events).flatMap(({ name, args = null, status, seq, source }): SkillLoad[] => {
    if (isMcp({ source })) return [];
    const text = JSON.stringify(args);
    if (source === "skill" || name === tool) return [{ text, status, seq }];
    // An agent without a tool for it reads the files of skills.
    const read =
      tool === undefined ? (given ?? []).filter((skill) => text.includes(`${folder}/${skill}/`)) : [];
    return read.map((skill) => ({ text: JSON.stringify({ skill }), status, seq }));
  });
  return given === undefined ? { loads } : { loads, given };
}
