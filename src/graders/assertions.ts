import {
  type AssertionKind,
  assertionKinds,
  type AssertionSet,
  type CallPattern,
  type SkillPattern,
} from "../model/model.ts";
import { canonicalJson } from "../base/json.ts";
import { compilePattern } from "../templates/pattern.ts";
import { shortened } from "../base/visible-text.ts";
import { agentTools } from "../trace/tool-events.ts";
import { type AgentCall, agentCalls, type Trajectory } from "../trace/trajectory.ts";
import { type Finding as GradedFinding, listed, misspelling, passOrFail, qualified, skip } from "./grader.ts";
import { type SkillLoad, skillLoads } from "./tool-uses.ts";
import { hasLooked } from "./verify-steps.ts";

/**
 * Do the assertions of task sets about the agent's own calls hold? Score = kinds of assertions that hold / kinds that
 * are made, over all sets; all must hold. Only a successful call shows that something was called; what must not
 * be called, be called again, or be called too often must not even fail. Calls of steps do not count.
 *
 * Differences from the tool that the assertions come from, on purpose: two calls are duplicates when their arguments are
 * equal as JSON, not only as text; without an agent nothing is asserted, not even `toolsNotUsed`; a failed call shows no use;
 * and that nothing forbidden was called is not evidence by itself when no call succeeded, or when every call was made to fail
 * on purpose.
 */
export function gradeAssertions(sets: readonly AssertionSet[], trajectory: Trajectory): GradedFinding {
  const { agentStarted: started } = trajectory;
  if (started === undefined) return skip("no agent took part");
  const evidence = evidenceOf(trajectory);
  const findings = sets.flatMap((set, index) => {
    const prefix = sets.length === 1 ? "" : `set ${index + 1}, `;
    return assertionKinds(set).map((kind) => {
      const finding = check(kind, set[kind], evidence);
      return { ...finding, reason: `${prefix}${kind}: ${finding.reason}` };
    });
  });
  if (findings.length === 0) return skip("nothing is asserted");
  const failed = findings.filter((finding) => !finding.holds);
  const gap = failed.length === 0 && !hasLooked(trajectory) ? gapIn(evidence) : undefined;
  if (gap !== undefined) return skip(`${gap}, and nothing else shows what it did`);
  const told = failed.length === 0 ? findings : failed;
  const absence = [evidence.calls.at(-1)?.seq ?? started];
  const seqs = told.flatMap((finding) => (finding.seqs.length === 0 ? absence : finding.seqs));
  return passOrFail(findings.length - failed.length, findings.length, {
    reason: told.map((finding) => finding.reason).join("; "),
    evidence: [...new Set(seqs)].toSorted((a, b) => a - b),
  });
}

/** Whether one kind of assertion holds. */
interface Finding {
  readonly holds: boolean;
  readonly reason: string;
  /** Numbers of the calls that it rests on; none when it rests on their absence. */
  readonly seqs: readonly number[];
}

interface Evidence {
  readonly calls: readonly AgentCall[];
  /** Uses of tools that no server has, as the agent reports them. */
  readonly own: readonly AgentCall[];
  readonly trajectory: Trajectory;
}

function evidenceOf(trajectory: Trajectory): Evidence {
  const own = agentTools(trajectory.events)
    .filter(({ source }) => !source.startsWith("mcp:"))
    .map(({ name, source, args = {}, seq, startedAt: at, status }) => {
      const failure = status === "completed" ? {} : { failure: `the agent reports that it ${status}` };
      return { type: "tool", server: source, name, args, seq, at, ...failure } as const;
    });
  return { calls: agentCalls(trajectory), own, trajectory };
}

/** Why the calls are no evidence; undefined when they are. */
function gapIn({ calls, own }: Evidence): string | undefined {
  if (calls.length + own.length === 0) return "the agent called nothing";
  if (effective([...calls, ...own]).length === 0) return "no call of the agent succeeded";
  const isLost = own.length === 0 && calls.every(({ faulted }) => faulted === true);
  return isLost ? "every call of the agent had a fault injected" : undefined;
}

type Checks = {
  readonly [K in AssertionKind]: (wanted: NonNullable<AssertionSet[K]>, evidence: Evidence) => Finding;
};

const checks: Checks = {
  toolsUsed: (patterns, evidence) => every(patterns, "tool", evidence),
  resourcesRead: (patterns, evidence) => every(patterns, "resource", evidence),
  promptsUsed: (patterns, evidence) => every(patterns, "prompt", evidence),
  requireAny(patterns, evidence) {
    const [first] = patterns.flatMap((pattern) => shown(pattern, "tool", evidence));
    return first === undefined
      ? absent(patterns, "tool", evidence)
      : { holds: true, reason: qualified(first), seqs: [first.seq] };
  },
  toolsNotUsed: (patterns, evidence) => none(patterns, "tool", evidence),
  resourcesNotRead: (patterns, evidence) => none(patterns, "resource", evidence),
  promptsNotUsed: (patterns, evidence) => none(patterns, "prompt", evidence),
  minToolCalls: (min, evidence) => count(evidence, min, "at least"),
  maxToolCalls: (max, evidence) => count(evidence, max, "at most"),
  callOrder: order,
  noDuplicateCalls: (_, evidence) => distinct(evidence),
  skillsLoaded,
  skillsNotLoaded,
};

function check<K extends AssertionKind>(kind: K, wanted: AssertionSet[K], evidence: Evidence): Finding {
  return checks[kind](wanted as NonNullable<AssertionSet[K]>, evidence);
}

type CallType = AgentCall["type"];

const verbs: Readonly<Record<CallType, { readonly noun: string; readonly past: string }>> = {
  tool: { noun: "call", past: "called" },
  resource: { noun: "read", past: "read" },
  prompt: { noun: "use", past: "used" },
};

function every(patterns: readonly CallPattern[], type: CallType, evidence: Evidence): Finding {
  const found = patterns.map((pattern) => shown(pattern, type, evidence).slice(0, 1));
  const missing = patterns.filter((_, index) => found[index]?.length === 0);
  if (missing.length > 0) return absent(missing, type, evidence);
  return { holds: true, reason: patterns.map(describe).join(", "), seqs: found.flat().map(({ seq }) => seq) };
}

function none(patterns: readonly CallPattern[], type: CallType, evidence: Evidence): Finding {
  const found = patterns.flatMap((pattern) => fitting(pattern, type, evidence));
  if (found.length === 0) {
    const slips = type === "tool" ? patterns.flatMap((pattern) => slipOf(pattern, evidence.trajectory)) : [];
    if (slips.length > 0) return { holds: false, reason: slips.join("; "), seqs: [] };
    return {
      holds: true,
      reason: `no ${verbs[type].noun} of ${patterns.map(describe).join(", ")}`,
      seqs: [],
    };
  }
  const names = [...new Set(found.map(qualified))];
  const reason = `${names.join(", ")} ${names.length === 1 ? "was" : "were"} ${verbs[type].past}`;
  return { holds: false, reason, seqs: found.map(({ seq }) => seq) };
}

/** A tool that its server does not offer, with a name so near to one that it does offer that it must be a slip. */
function slipOf({ server, source, name }: CallPattern, trajectory: Trajectory): string[] {
  const near = name === undefined || source !== undefined ? undefined : misspelling(name, trajectory, server);
  if (near === undefined) return [];
  const who = server === undefined ? "no server offers a" : `${server} offers no`;
  return [`${who} tool ${name}, so this assertion cannot fail; ${near}`];
}

function count({ calls }: Evidence, limit: number, allowed: "at least" | "at most"): Finding {
  const all = calls.filter(({ type }) => type === "tool");
  const tools = allowed === "at least" ? effective(all) : all;
  const holds = allowed === "at least" ? tools.length >= limit : tools.length <= limit;
  const failed = all.length - tools.length;
  const others = failed === 0 ? "" : ` that succeeded and ${failed} that did not`;
  const reason = `${tools.length} tool call${tools.length === 1 ? "" : "s"}${others}, ${allowed} ${limit} expected`;
  return { holds, reason, seqs: (holds ? tools : all).map(({ seq }) => seq) };
}

/** Each call serves one entry; the first one that fits is taken. */
function order(entries: NonNullable<AssertionSet["callOrder"]>, { calls }: Evidence): Finding {
  const seqs: number[] = [];
  let rest = calls;
  for (const [index, entry] of entries.entries()) {
    const fits = rest.filter(
      ({ type, ...call }) => type === entry.type && qualified(call) === qualified(entry),
    );
    const [call] = effective(fits);
    if (call === undefined) {
      const after = entries
        .slice(0, index)
        .slice(-1)
        .map((earlier) => ` after ${qualified(earlier)}`);
      const what = `${fits.length === 0 ? "" : "successful "}${verbs[entry.type].noun}`;
      return {
        holds: false,
        reason: `no ${what} of ${qualified(entry)}${after.join("")}; ${made(calls)}`,
        seqs,
      };
    }
    seqs.push(call.seq);
    rest = rest.slice(rest.indexOf(call) + 1);
  }
  return { holds: true, reason: entries.map(qualified).join(", "), seqs };
}

function distinct({ calls }: Evidence): Finding {
  const tools = calls.filter(({ type }) => type === "tool");
  const repeated = [...Map.groupBy(tools, keyOf).values()].filter((group) => group.length > 1);
  const names = repeated.flatMap(([, second]) => (second === undefined ? [] : [second]));
  const ordered = names.toSorted((a, b) => a.seq - b.seq).map(qualified);
  const reason =
    repeated.length === 0
      ? "all tool calls differ"
      : `called again with equal arguments: ${[...new Set(ordered)].join(", ")}`;
  return { holds: repeated.length === 0, reason, seqs: repeated.flat().map(({ seq }) => seq) };
}

/** No arguments are the same as empty ones. */
function keyOf({ server, name, args }: AgentCall): string {
  return JSON.stringify([server, name, canonicalJson(args ?? {})]);
}

/** What shows that something was used: of a tool that a server offers the record does, and not the agent's reports. */
function shown(pattern: CallPattern, type: CallType, evidence: Evidence): readonly AgentCall[] {
  const offered = new Set(evidence.trajectory.tools.map((tool) => tool.name));
  const { source } = pattern;
  const own = evidence.own.filter(({ name, server }) =>
    source === undefined ? !offered.has(name) : server === source,
  );
  return effective(fitting(pattern, type, { ...evidence, own }));
}

/** The calls that show that something was used. One that was made to fail on purpose shows no less than it would have. */
function effective(calls: readonly AgentCall[]): readonly AgentCall[] {
  return calls.filter(({ failure, faulted }) => failure === undefined || faulted === true);
}

/** A tool of unknown origin may be of any source. */
function fitting(pattern: CallPattern, type: CallType, { calls, own }: Evidence): readonly AgentCall[] {
  const { server, source, name } = pattern;
  const regex = pattern.pattern === undefined ? undefined : compilePattern(pattern.pattern);
  const all =
    source === undefined
      ? [...calls, ...(server === undefined ? own : [])]
      : own.filter((use) => use.server === source || use.server === "unknown");
  return all.filter((call) => {
    if (call.type !== type || (server !== undefined && call.server !== server)) return false;
    return (
      (name === undefined && regex === undefined) || call.name === name || regex?.test(call.name) === true
    );
  });
}

function absent(patterns: readonly CallPattern[], type: CallType, evidence: Evidence): Finding {
  const { calls, trajectory } = evidence;
  const seqs: number[] = [];
  const told = patterns.map((wanted) => {
    const { name, pattern, source, server } = wanted;
    const failed = fitting(wanted, type, evidence).find(({ failure }) => failure !== undefined);
    if (failed !== undefined) seqs.push(failed.seq);
    const isTool = type === "tool" && name !== undefined && pattern === undefined && source === undefined;
    const question = isTool ? misspelling(name, trajectory, server) : undefined;
    const notes = [
      ...(question === undefined ? [] : [question]),
      ...(failed === undefined ? [] : [`it failed: ${shortened(failed.failure ?? "", 200)}`]),
    ];
    return `${describe(wanted)}${notes.length === 0 ? "" : ` (${notes.join("; ")})`}`;
  });
  const what = `${seqs.length === 0 ? "" : "successful "}${verbs[type].noun}`;
  return { holds: false, reason: `no ${what} of ${told.join(", ")}; ${made(calls)}`, seqs };
}

function made(calls: readonly AgentCall[]): string {
  return calls.length === 0
    ? "the agent called nothing"
    : `called: ${listed([...new Set(calls.map(qualified))], 10)}`;
}

function describe({ source, server = source, name, pattern }: CallPattern): string {
  const what = nameOrPattern(name, pattern);
  if (what === "") return `anything of ${server ?? "any server"}`;
  return `${server === undefined ? "" : `${server}.`}${what}`;
}

function nameOrPattern(name: string | undefined, pattern: string | undefined): string {
  return [...(name === undefined ? [] : [name]), ...(pattern === undefined ? [] : [`/${pattern}/`])].join(
    " or ",
  );
}

function describeSkills(skills: readonly SkillPattern[]): string {
  return skills.map(({ skill, pattern }) => nameOrPattern(skill, pattern) || "any skill").join(", ");
}

/** Whether every entry fits a skill that the agent loaded, as it reports. */
function skillsLoaded(wanted: readonly SkillPattern[], evidence: Evidence): Finding {
  const { loads, given } = skillLoads(evidence.trajectory);
  if (given === undefined) return nothingGiven;
  const completed = loads.filter(({ status }) => status === "completed");
  const found = wanted.map((pattern) => completed.find((load) => fits(pattern, load)));
  const missing = wanted.filter((_, index) => found[index] === undefined);
  if (missing.length === 0)
    return { holds: true, reason: describeSkills(wanted), seqs: found.flatMap((load) => load?.seq ?? []) };
  const reason = `the agent did not load ${describeSkills(missing)}; it was given ${given.join(", ") || "none"}`;
  return { holds: false, reason, seqs: [] };
}

/** Whether no entry fits a skill that the agent loaded or tried to. */
function skillsNotLoaded(unwanted: readonly SkillPattern[], evidence: Evidence): Finding {
  const { loads, given } = skillLoads(evidence.trajectory);
  if (given === undefined) return nothingGiven;
  const found = loads.filter((load) => unwanted.some((pattern) => fits(pattern, load)));
  const what = `${found.length === 0 ? "did not load" : "loaded"} ${describeSkills(unwanted)}`;
  return { holds: found.length === 0, reason: `the agent ${what}`, seqs: found.map(({ seq }) => seq) };
}

const nothingGiven: Finding = { holds: false, reason: "the agent was given no skills", seqs: [] };

function fits({ skill, pattern }: SkillPattern, { text }: SkillLoad): boolean {
  if (skill === undefined && pattern === undefined) return true;
  const isNamed = skill !== undefined && text.includes(JSON.stringify(skill));
  return isNamed || (pattern !== undefined && compilePattern(pattern).test(text));
}
