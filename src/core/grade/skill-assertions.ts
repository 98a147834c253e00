import { compilePattern } from "../checks/pattern.ts";
import type { SkillPattern } from "../formats/model.ts";
import { agentTools } from "../trace/agent-tools.ts";
import type { TraceEvent } from "../trace/events.ts";

/** How an assertion on skills came out. */
export interface SkillFinding {
  readonly holds: boolean;
  readonly reason: string;
  /** Numbers of the events that it rests on; none when it rests on their absence. */
  readonly seqs: readonly number[];
}

/** Whether every entry fits a skill that the agent loaded, as the agent tells of it. */
export function skillsLoaded(wanted: readonly SkillPattern[], events: readonly TraceEvent[]): SkillFinding {
  const found = lookForLoads(events);
  if (found === undefined) return nothingGiven;
  const loads = found.loads.filter(({ status }) => status === "completed");
  const fitting = wanted.map((pattern) => ({ pattern, load: loads.find((load) => fits(pattern, load)) }));
  const missing = fitting.filter(({ load }) => load === undefined).map(({ pattern }) => describe(pattern));
  if (missing.length === 0) {
    const seqs = fitting.flatMap(({ load }) => load?.seq ?? []);
    return { holds: true, reason: wanted.map(describe).join(", "), seqs };
  }
  const given = `it was given ${found.given.join(", ") || "none"}`;
  return { holds: false, reason: `the agent did not load ${missing.join(", ")}; ${given}`, seqs: [] };
}

/** Whether no entry fits a skill that the agent loaded or tried to. */
export function skillsNotLoaded(
  unwanted: readonly SkillPattern[],
  events: readonly TraceEvent[],
): SkillFinding {
  const found = lookForLoads(events);
  if (found === undefined) return nothingGiven;
  const fitting = found.loads.filter((load) => unwanted.some((pattern) => fits(pattern, load)));
  const listed = unwanted.map(describe).join(", ");
  return fitting.length === 0
    ? { holds: true, reason: `the agent did not load ${listed}`, seqs: [] }
    : { holds: false, reason: `the agent loaded ${listed}`, seqs: fitting.map(({ seq }) => seq) };
}

const nothingGiven: SkillFinding = { holds: false, reason: "the agent was given no skills", seqs: [] };

interface Load {
  /** What the agent loads it with. */
  readonly text: string;
  readonly status: string;
  readonly seq: number;
}

/** The loads of skills, and the skills that there are; undefined for an agent that was given none. */
function lookForLoads(
  events: readonly TraceEvent[],
): { readonly loads: readonly Load[]; readonly given: readonly string[] } | undefined {
  const copied = events.find((event) => event.type === "skills.copied");
  if (copied === undefined) return undefined;
  const { tool, folder, skills: given } = copied;
  const loads = agentTools(events).flatMap(({ name, args = null, status, seq, source }): Load[] => {
    if (source.startsWith("mcp:")) return [];
    const text = JSON.stringify(args);
    if (tool !== undefined) return name === tool ? [{ text, status, seq }] : [];
    return given
      .filter((skill) => text.includes(`${folder}/${skill}/`))
      .map((skill) => ({ text: JSON.stringify({ skill }), status, seq }));
  });
  return { loads, given };
}

function fits({ skill, pattern }: SkillPattern, { text }: Load): boolean {
  if (skill === undefined && pattern === undefined) return true;
  const named = skill !== undefined && text.includes(JSON.stringify(skill));
  return named || (pattern !== undefined && compilePattern(pattern).test(text));
}

function describe({ skill, pattern }: SkillPattern): string {
  const parts = [skill, pattern === undefined ? undefined : `/${pattern}/`];
  return parts.filter((part) => part !== undefined).join(" or ") || "any skill";
}
