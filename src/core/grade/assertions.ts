import { compilePattern } from "../templates/pattern.ts";
import { type AssertionKind, assertionKinds } from "../formats/assertion-kinds.ts";
import type { AssertionSet, CallPattern, Json, SkillPattern, Task } from "../formats/model.ts";
import { type AgentCall, agentCalls, type Trajectory } from "../trace/trajectory.ts";
import { agentTools } from "../trace/tool-events.ts";
import type { TraceEvent } from "../trace/events.ts";
import type { Grade, Grader } from "./grader.ts";
import { nearestTool } from "./offered-tools.ts";
import { hasLooked } from "./verify-steps.ts";

/** What a grade of sets is called that name none. */
const usualName = "assertions";

/** The graders of a task's sets of assertions: one for all that name the same one. */
export function assertionGraders({ portable }: Task): readonly Grader[] {
  const sets = (portable?.assertions ?? []).filter((set) => assertionKinds(set).length > 0);
  const names = new Set(sets.map(({ grader = usualName }) => grader));
  return [...names].map(assertionsGrader);
}

/**
 * Do the assertions hold that task sets make of the agent's own calls? Score = kinds of assertions that hold / kinds that
 * are made, over all sets; all must hold. That something was called is shown only by a call that succeeded; what must not
 * be called, be called again, or be called too often must not even fail. Calls of steps do not count.
 *
 * On purpose not as in the tool that the assertions come from: two calls are duplicates when their arguments are equal as
 * JSON, where there one more blank makes them different; without an agent nothing is asserted, where there `toolsNotUsed`
 * holds; a call that failed shows no use of anything, where there it does; and that nothing forbidden was called is no
 * evidence by itself when no call succeeded. Neither is anything when every call was made to fail on purpose.
 */
export function assertionsGrader(name: string = usualName): Grader {
  return { name, grade: (trajectory) => ({ grader: name, ...grade(trajectory, name) }) };
}

function grade(trajectory: Trajectory, name: string): Omit<Grade, "grader"> {
  const all = trajectory.task.portable?.assertions ?? [];
  const sets = all.filter(({ grader = usualName }) => grader === name);
  const { agentStarted: started } = trajectory;
  const calls = agentCalls(trajectory);
  const own = ownTools(trajectory);
  if (started === undefined) return skip("no agent took part");
  const findings = sets.flatMap((set, index) => {
    const prefix = sets.length === 1 ? "" : `set ${index + 1}, `;
    return assertionKinds(set).map((kind) => {
      const finding = judge(kind, set, { calls, own, trajectory });
      return { ...finding, reason: `${prefix}${kind}: ${finding.reason}` };
    });
  });
  if (findings.length === 0) return skip("nothing is asserted");
  const failed = findings.filter((finding) => !finding.holds);
  const isQuiet = effective(calls).length + effective(own).length === 0;
  if (failed.length === 0 && isQuiet && !hasLooked(trajectory)) {
    const what =
      calls.length + own.length === 0 ? "the agent called nothing" : "no call of the agent succeeded";
    return skip(`${what}, and nothing else shows what it did`);
  }
  const lostToFault = calls.length > 0 && own.length === 0 && calls.every(({ faulted }) => faulted === true);
  if (failed.length === 0 && lostToFault && !hasLooked(trajectory))
    return skip("every call of the agent had a fault injected, and nothing else shows what it did");
  const told = failed.length === 0 ? findings : failed;
  const absence = [calls.at(-1)?.seq ?? started];
  const evidence = told.flatMap((finding) => (finding.seqs.length === 0 ? absence : finding.seqs));
  return {
    verdict: failed.length === 0 ? "pass" : "fail",
    score: (findings.length - failed.length) / findings.length,
    reason: told.map((finding) => finding.reason).join("; "),
    evidence: [...new Set(evidence)].toSorted((a, b) => a - b),
  };
}

function skip(reason: string): Omit<Grade, "grader"> {
  return { verdict: "skip", score: null, reason, evidence: [] };
}

/** How one kind of assertion came out. */
interface Finding {
  readonly holds: boolean;
  readonly reason: string;
  /** Numbers of the calls that it rests on; none when it rests on their absence. */
  readonly seqs: readonly number[];
}

interface Evidence {
  readonly calls: readonly AgentCall[];
  /** Uses of tools that no server has, as the agent tells of them. */
  readonly own: readonly AgentCall[];
  readonly trajectory: Trajectory;
}

function ownTools({ events }: Trajectory): readonly AgentCall[] {
  return agentTools(events)
    .filter(({ source }) => !source.startsWith("mcp:"))
    .map(({ name: tool, source, args, seq, startedAt: at, status }) => ({
      type: "tool",
      server: source,
      name: tool,
      args: args ?? {},
      seq,
      at,
      ...(status === "completed" ? {} : { failure: `the agent tells that it ${status}` }),
    }));
}

function judge(kind: AssertionKind, set: AssertionSet, evidence: Evidence): Finding {
  switch (kind) {
    case "toolsUsed":
      return every(set.toolsUsed ?? [], "tool", evidence);
    case "resourcesRead":
      return every(set.resourcesRead ?? [], "resource", evidence);
    case "promptsUsed":
      return every(set.promptsUsed ?? [], "prompt", evidence);
    case "requireAny":
      return some(set.requireAny ?? [], evidence);
    case "toolsNotUsed":
      return none(set.toolsNotUsed ?? [], "tool", evidence);
    case "resourcesNotRead":
      return none(set.resourcesNotRead ?? [], "resource", evidence);
    case "promptsNotUsed":
      return none(set.promptsNotUsed ?? [], "prompt", evidence);
    case "minToolCalls":
      return count(evidence, { min: set.minToolCalls ?? 0 });
    case "maxToolCalls":
      return count(evidence, { max: set.maxToolCalls ?? 0 });
    case "callOrder":
      return order(set.callOrder ?? [], evidence);
    case "noDuplicateCalls":
      return distinct(evidence);
    case "skillsLoaded":
      return skillsLoaded(set.skillsLoaded ?? [], evidence.trajectory.events);
    case "skillsNotLoaded":
      return skillsNotLoaded(set.skillsNotLoaded ?? [], evidence.trajectory.events);
  }
}

type CallType = AgentCall["type"];

function every(patterns: readonly CallPattern[], type: CallType, evidence: Evidence): Finding {
  const found = patterns.map((pattern) => ({ pattern, calls: shown(pattern, type, evidence) }));
  const missing = found.filter(({ calls }) => calls.length === 0).map(({ pattern }) => pattern);
  if (missing.length > 0) return absent(missing, type, evidence);
  return {
    holds: true,
    reason: patterns.map(describe).join(", "),
    seqs: found.map(({ calls: [first] }) => first?.seq ?? 0),
  };
}

function some(patterns: readonly CallPattern[], evidence: Evidence): Finding {
  const calls = patterns.flatMap((pattern) => shown(pattern, "tool", evidence));
  const [first] = calls;
  return first === undefined
    ? absent(patterns, "tool", evidence)
    : { holds: true, reason: callName(first), seqs: [first.seq] };
}

function none(patterns: readonly CallPattern[], type: CallType, evidence: Evidence): Finding {
  const found = patterns.flatMap((pattern) => fitting(pattern, type, evidence));
  const listed = patterns.map(describe).join(", ");
  if (found.length === 0) {
    const slips = type === "tool" ? patterns.flatMap((pattern) => slipOf(pattern, evidence)) : [];
    if (slips.length > 0) return { holds: false, reason: slips.join("; "), seqs: [] };
    return { holds: true, reason: `no ${verbs[type].noun} of ${listed}`, seqs: [] };
  }
  const names = [...new Set(found.map(callName))];
  return {
    holds: false,
    reason: `${names.join(", ")} ${names.length === 1 ? "was" : "were"} ${verbs[type].past}`,
    seqs: found.map(({ seq }) => seq),
  };
}

/** A tool that its server does not offer, with a name so near to one that it does offer that it must be a slip. */
function slipOf({ server, source, name: tool }: CallPattern, { trajectory }: Evidence): string[] {
  const offered = toolsOf(server, trajectory);
  if (tool === undefined || source !== undefined || offered.some((each) => each.name === tool)) return [];
  const near = nearestTool(tool, offered);
  return near === undefined
    ? []
    : [
        `${server ?? "no server"} offers ${server === undefined ? "a" : "no"} tool ${tool}, so that it was not called says nothing; ${near}`,
      ];
}

const verbs: Readonly<Record<CallType, { readonly noun: string; readonly past: string }>> = {
  tool: { noun: "call", past: "called" },
  resource: { noun: "read", past: "read" },
  prompt: { noun: "use", past: "used" },
};

function count({ calls }: Evidence, limit: { readonly min: number } | { readonly max: number }): Finding {
  const all = calls.filter(({ type }) => type === "tool");
  const tools = "min" in limit ? effective(all) : all;
  const holds = "min" in limit ? tools.length >= limit.min : tools.length <= limit.max;
  const allowed = "min" in limit ? `at least ${limit.min}` : `at most ${limit.max}`;
  const failed = all.length - tools.length;
  const others = failed === 0 ? "" : ` that succeeded and ${failed} that did not`;
  return {
    holds,
    reason: `${tools.length} tool call${tools.length === 1 ? "" : "s"}${others}, ${allowed} expected`,
    seqs: (holds ? tools : all).map(({ seq }) => seq),
  };
}

/** Each call serves one entry; the first one that fits is taken. */
function order(entries: NonNullable<AssertionSet["callOrder"]>, { calls }: Evidence): Finding {
  const seqs: number[] = [];
  let rest = calls;
  for (const [index, entry] of entries.entries()) {
    const fits = rest.filter(
      ({ type, server, name }) => type === entry.type && server === entry.server && name === entry.name,
    );
    const [call] = effective(fits);
    if (call === undefined) {
      const earlier = entries[index - 1];
      const after = earlier === undefined ? "" : ` after ${callName(earlier)}`;
      const what = `${fits.length === 0 ? "" : "successful "}${verbs[entry.type].noun}`;
      return { holds: false, reason: `no ${what} of ${callName(entry)}${after}; ${made(calls)}`, seqs };
    }
    seqs.push(call.seq);
    rest = rest.slice(rest.indexOf(call) + 1);
  }
  return { holds: true, reason: entries.map(callName).join(", "), seqs };
}

function distinct({ calls }: Evidence): Finding {
  const first = new Map<string, AgentCall>();
  const seqs: number[] = [];
  const names = new Set<string>();
  for (const call of calls.filter(({ type }) => type === "tool")) {
    const key = JSON.stringify([call.server, call.name, sorted(call.args)]);
    const earlier = first.get(key);
    if (earlier === undefined) first.set(key, call);
    else {
      seqs.push(earlier.seq, call.seq);
      names.add(callName(call));
    }
  }
  const holds = seqs.length === 0;
  const reason = holds
    ? "all tool calls differ"
    : `called again with equal arguments: ${[...names].join(", ")}`;
  return { holds, reason, seqs };
}

/** A JSON value with its keys in order; no arguments are the same as empty ones. */
function sorted(value: Json): Json {
  if (value === null) return {};
  return sortKeys(value);
}

function sortKeys(value: Json): Json {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(sortKeys);
  const members = Object.entries(value).map(([key, member]) => [key, sortKeys(member)] as const);
  return Object.fromEntries(members.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** What shows that something was used: of a tool that a server offers the record does, and not what the agent tells. */
function shown(pattern: CallPattern, type: CallType, evidence: Evidence): readonly AgentCall[] {
  const offered = new Set(evidence.trajectory.tools.map((tool) => tool.name));
  const { source } = pattern;
  const own = evidence.own.filter((use) =>
    source === undefined ? !offered.has(use.name) : use.server === source,
  );
  return effective(fitting(pattern, type, { ...evidence, own }));
}

/** The calls that show that something was used. One that was made to fail on purpose shows no less than it would have. */
function effective(calls: readonly AgentCall[]): readonly AgentCall[] {
  return calls.filter(({ failure, faulted }) => failure === undefined || faulted === true);
}

function fitting(pattern: CallPattern, type: CallType, { calls, own }: Evidence): readonly AgentCall[] {
  const regex = pattern.pattern === undefined ? undefined : compilePattern(pattern.pattern);
  const all = callsFrom(pattern, calls, own);
  return all.filter((call) => {
    if (call.type !== type || (call.server !== pattern.server && pattern.server !== undefined)) return false;
    if (pattern.name === undefined && regex === undefined) return true;
    return call.name === pattern.name || regex?.test(call.name) === true;
  });
}

/** The calls of where a pattern looks. A tool of which nobody knows whose it is may be of any source. */
function callsFrom(
  { server, source }: CallPattern,
  calls: readonly AgentCall[],
  own: readonly AgentCall[],
): readonly AgentCall[] {
  if (source !== undefined) return own.filter((use) => use.server === source || use.server === "unknown");
  return server === undefined ? [...calls, ...own] : calls;
}

function absent(patterns: readonly CallPattern[], type: CallType, evidence: Evidence): Finding {
  const { calls, trajectory } = evidence;
  const seqs: number[] = [];
  const told = patterns.map((pattern) => {
    const [failed] = fitting(pattern, type, evidence).filter(({ failure }) => failure !== undefined);
    if (failed !== undefined) seqs.push(failed.seq);
    const isNamed = pattern.name !== undefined && pattern.pattern === undefined;
    const isTool = type === "tool" && isNamed && pattern.source === undefined;
    const question = isTool ? misspelling(pattern, trajectory) : undefined;
    const notes = [
      question,
      failed === undefined ? undefined : `it failed: ${clipped(failed.failure ?? "")}`,
    ];
    const note = notes.filter((each) => each !== undefined).join("; ");
    return note === "" ? describe(pattern) : `${describe(pattern)} (${note})`;
  });
  const successful = seqs.length === 0 ? "" : "successful ";
  return {
    holds: false,
    reason: `no ${successful}${verbs[type].noun} of ${told.join(", ")}; ${made(calls)}`,
    seqs,
  };
}

const shownFailure = 200;

function clipped(text: string): string {
  return text.length > shownFailure ? `${text.slice(0, shownFailure).toWellFormed()}…` : text;
}

/** A hint for a tool that its server does not offer. */
function misspelling({ server, name = "" }: CallPattern, trajectory: Trajectory): string | undefined {
  const offered = toolsOf(server, trajectory);
  return offered.some((tool) => tool.name === name) ? undefined : nearestTool(name, offered);
}

function toolsOf(server: string | undefined, { tools }: Trajectory): Trajectory["tools"] {
  return server === undefined ? tools : tools.filter((tool) => tool.server === server);
}

const shownCalls = 10;

function made(calls: readonly AgentCall[]): string {
  if (calls.length === 0) return "the agent called nothing";
  const names = [...new Set(calls.map(callName))];
  const more = names.length > shownCalls ? ` and ${names.length - shownCalls} more` : "";
  return `called: ${names.slice(0, shownCalls).join(", ")}${more}`;
}

function describe({ source, server = source, name, pattern }: CallPattern): string {
  const parts = [name, pattern === undefined ? undefined : `/${pattern}/`].filter(
    (part) => part !== undefined,
  );
  if (parts.length === 0) return `anything of ${server ?? "any server"}`;
  return `${server === undefined ? "" : `${server}.`}${parts.join(" or ")}`;
}

function callName({ server, name }: { readonly server: string; readonly name: string }): string {
  return `${server}.${name}`;
}

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
  const missing = fitting
    .filter(({ load }) => load === undefined)
    .map(({ pattern }) => describeSkill(pattern));
  if (missing.length === 0) {
    const seqs = fitting.flatMap(({ load }) => load?.seq ?? []);
    return { holds: true, reason: wanted.map(describeSkill).join(", "), seqs };
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
  const listed = unwanted.map(describeSkill).join(", ");
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

function describeSkill({ skill, pattern }: SkillPattern): string {
  const parts = [skill, pattern === undefined ? undefined : `/${pattern}/`];
  return parts.filter((part) => part !== undefined).join(" or ") || "any skill";
}
