import { canonicalJson, isJsonObject, type Json } from "../base/json.ts";
import { eventsOf } from "../model/event.ts";
import {
  type AgentAct,
  agentActs,
  type AgentTool,
  isOfServer,
  isUnrecorded,
  serverIn,
  toolsForAgent,
} from "../trace/agent-acts.ts";
import { qualified } from "./grader.ts";
import { perObject, type Trajectory } from "../trace/trajectory.ts";

/** One use of a tool by the agent: of a server's tool, as the gateway recorded it, or of its own, as it reports it. */
export interface ToolUse extends Pick<
  AgentAct,
  "source" | "args" | "declared" | "turn" | "seq" | "result" | "failure" | "faulted" | "durationMs"
> {
  /** The tool's own name. */
  readonly tool: string;
  /** The tool with its server, as messages name it. */
  readonly name: string;
  /** Only the agent's program names it, which may have replaced characters that it does not allow. */
  readonly isRenamed: boolean;
  /** The tool does not exist: no server has it, or it is not in the list of the server that was asked. */
  readonly isUnknown: boolean;
  /**
   * It shows that the tool was used: it succeeded, without an injected fault, and it is not an agent's report of a tool that a server
   * offers, for which the gateway's record decides.
   */
  readonly worked: boolean;
}

/**
 * Everything that the agent did with tools, in the order in which it began. The gateway's record is the only source about
 * the tools of servers.
 */
export const toolUses = perObject((trajectory: Trajectory): readonly ToolUse[] => {
  const listing = new Set(trajectory.tools.map(({ server }) => server));
  const offered = new Map(toolsForAgent(trajectory).map((each) => [qualified(each), each]));
  return agentActs(trajectory).flatMap((act): readonly ToolUse[] => {
    if (act.type !== "tool" || isUnrecorded(act)) return [];
    const { target: tool, source, server, args, turn, seq, call, result, failure, faulted, durationMs } = act;
    const offeredBy = serverIn(act);
    const name = offeredBy === undefined ? tool : qualified({ server: offeredBy, name: tool });
    const isOwn = call === undefined;
    const isUnknown =
      server === undefined
        ? call?.error?.kind === "rejected" && call.error.known === undefined
        : listing.has(server) && !offered.has(name);
    const isClaim = isOwn && trajectory.tools.some((each) => each.name === tool);
    return [
      {
        tool,
        name,
        source,
        args,
        declared: server === undefined && offeredBy !== undefined ? offered.get(name) : act.declared,
        turn,
        seq,
        result,
        failure,
        faulted,
        durationMs,
        isRenamed: trajectory.transcript !== undefined,
        isUnknown,
        worked: failure === undefined && faulted === undefined && !isClaim,
      },
    ];
  });
});

/** The uses that worked. */
export const successfulUses = perObject((trajectory: Trajectory): readonly ToolUse[] =>
  toolUses(trajectory).filter(({ worked }) => worked),
);

/** The uses that repeat an earlier one, each with the first one: the same tool of the same server, with arguments that are equal as JSON. */
export const repeatsOf = perObject((uses: readonly ToolUse[]): ReadonlyMap<ToolUse, ToolUse> => {
  const repeats = new Map<ToolUse, ToolUse>();
  // Neither a source nor a number has line breaks.
  const candidates = Map.groupBy(uses, ({ source, tool, args }) => `${source}\n${tool}\n${sketch(args)}`);
  for (const alike of candidates.values()) {
    if (alike.length === 1) continue;
    const firsts = new Map<string, ToolUse>();
    for (const use of alike) {
      const json = canonicalJson(use.args);
      const first = firsts.get(json);
      if (first === undefined) firsts.set(json, use);
      else repeats.set(use, first);
    }
  }
  return repeats;
});

/** A cheap hash of a value: equal values have the same. Canonical JSON takes ten times as long. */
function sketch(value: Json): number {
  if (typeof value === "string")
    return Math.imul(value.length, 961) + (value.charCodeAt(value.length - 1) | 0);
  if (typeof value === "number") return value | 0;
  if (typeof value !== "object" || value === null) return value === true ? 1 : 0;
  let sum = 0;
  if (isJsonObject(value))
    // Members may be in any order.
    for (const key of Object.keys(value))
      sum = (sum + Math.imul(sketch(key), 31 + sketch(value[key] ?? null))) | 0;
  else for (const item of value) sum = (Math.imul(sum, 31) + sketch(item)) | 0;
  return sum;
}

/** The numbers of the events that began the uses. */
export function seqsOf(uses: readonly ToolUse[]): readonly number[] {
  return uses.map(({ seq }) => seq);
}

/** The names of the tools that were used, each once. */
export function namesOf(uses: readonly ToolUse[]): readonly string[] {
  return [...new Set(uses.map(({ name }) => name))];
}

/** A load of a skill, as the agent reports it. */
export interface SkillLoad extends Pick<AgentTool, "status" | "seq"> {
  /** The arguments of the load, as JSON. */
  readonly text: string;
}

/** The loads of skills; `given` are the skills that the agent was given, undefined for one that was given none. */
export function skillLoads(trajectory: Trajectory): {
  readonly loads: readonly SkillLoad[];
  readonly given: readonly string[] | undefined;
} {
  const [copied] = eventsOf(trajectory.events, "skills.copied");
  const { tool, folder = "", skills: given } = copied ?? {};
  const loads = agentActs(trajectory).flatMap(({ report, source }): SkillLoad[] => {
    if (report === undefined || isOfServer({ source })) return [];
    const { name, args = null, status, seq } = report;
    const text = JSON.stringify(args);
    if (source === "skill" || name === tool) return [{ text, status, seq }];
    // An agent without a tool for skills reads their files.
    const read =
      tool === undefined ? (given ?? []).filter((skill) => text.includes(`${folder}/${skill}/`)) : [];
    return read.map((skill) => ({ text: JSON.stringify({ skill }), status, seq }));
  });
  return { loads, given };
}
