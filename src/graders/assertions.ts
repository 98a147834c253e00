import * as z from "zod";
import { canonicalJson } from "../base/json.ts";
import { shortened } from "../base/visible-text.ts";
import { closedObject, filledText, named, optional, patternText } from "../model/fields.ts";
import { compilePattern } from "../templates/pattern.ts";
import { type AgentAct, agentActs, isUnrecorded } from "../trace/agent-acts.ts";
import type { Trajectory } from "../trace/trajectory.ts";
import {
  declaredKind,
  type GraderResult,
  listed,
  misspelling,
  passOrFail,
  qualified,
  skip,
} from "./grader.ts";
import { type SkillLoad, skillLoads } from "./tool-uses.ts";
import { hasLooked } from "./verify-steps.ts";

const server = filledText.describe("Name of the server.");

const toolPattern = closedObject({
  server,
  tool: optional(z.string(), "Name of the tool."),
  toolPattern: optional(patternText, "Regular expression (RE2) found in the name."),
}).meta({
  id: "ToolPattern",
  title: "Tool calls",
  description: "Matches calls of a tool; without name and pattern, of any tool.",
});

const resourcePattern = closedObject({
  server,
  uri: optional(z.string(), "URI of the resource."),
  uriPattern: optional(patternText, "Regular expression (RE2) found in the URI."),
}).meta(named("ResourcePattern", "Reads of resources", "Matches reads; without URI and pattern, any."));

const promptPattern = closedObject({
  server,
  prompt: optional(z.string(), "Name of the prompt."),
  promptPattern: optional(patternText, "Regular expression (RE2) found in the name."),
}).meta(named("PromptPattern", "Prompts", "Matches prompts; without name and pattern, any."));

const orderedCall = closedObject({
  type: z.enum(["tool", "resource", "prompt"]).describe("The kind of call."),
  server,
  name: z.string().describe("Name of the tool or prompt, or URI of the resource."),
}).meta({ id: "OrderedCall", title: "Call", description: "One call, by its exact name." });

const skillPattern = closedObject({
  skill: optional(z.string(), "Name of the skill."),
  skillPattern: optional(
    patternText,
    "Regular expression (RE2) that must match in the arguments of the load.",
  ),
}).meta({
  id: "SkillPattern",
  title: "Skill",
  description: "Matches loads of a skill; without name and pattern, of any skill.",
});

const calls = z.int().min(0).optional();

/** Assertions about the calls of an agent. */
export const assertionsSchema = closedObject({
  toolsUsed: optional(z.array(toolPattern), "Every entry matches a successful call."),
  requireAny: optional(z.array(toolPattern), "At least one entry matches a successful call."),
  toolsNotUsed: optional(z.array(toolPattern), "No entry matches any call, not even a failed one."),
  minToolCalls: calls.describe("Minimum number of successful tool calls, over all servers."),
  maxToolCalls: calls.describe("Maximum number of tool calls, over all servers."),
  resourcesRead: optional(z.array(resourcePattern), "Every entry matches a successful read."),
  resourcesNotRead: optional(z.array(resourcePattern), "No entry matches any read."),
  promptsUsed: optional(z.array(promptPattern), "Every entry matches a prompt that the agent got."),
  promptsNotUsed: optional(z.array(promptPattern), "No entry matches a prompt that the agent got."),
  callOrder: optional(
    z.array(orderedCall),
    "These calls succeeded in this order; others may come in between.",
  ),
  noDuplicateCalls: optional(z.boolean(), "No tool was called twice with equal arguments."),
  skillsLoaded: optional(
    z.array(skillPattern),
    "Every entry matches a skill that the agent loaded. Needs `skills`.",
  ),
  skillsNotLoaded: optional(
    z.array(skillPattern),
    "No entry matches a skill that the agent loaded. Needs `skills`.",
  ),
})
  .refine(({ minToolCalls = 0, maxToolCalls = Infinity }) => minToolCalls <= maxToolCalls, {
    error: "has a maxToolCalls below minToolCalls",
  })
  .meta({ id: "Assertions", title: "Assertions", description: "Assertions about the agent's calls." });

/** Assertions about the agent's calls, as files make them. */
export type Assertions = z.output<typeof assertionsSchema>;

type AssertionKind = keyof Assertions;

/** The kinds of assertions in a set, without those that assert nothing: an empty list, `false`, and a minimum of 0. */
export function assertionKinds(set: Assertions): readonly AssertionKind[] {
  return (Object.keys(set) as AssertionKind[]).filter((kind) => {
    const value = set[kind];
    if (kind === "minToolCalls" && value === 0) return false;
    return Array.isArray(value) ? value.length > 0 : value !== undefined && value !== false;
  });
}

/** Every server that assertions name. */
export function assertedServers(set: Assertions): readonly string[] {
  const entries = Object.values(set).flatMap(
    (value): readonly { readonly server?: string; readonly skill?: string | undefined }[] =>
      typeof value === "object" ? value : [],
  );
  return [...new Set(entries.flatMap(({ server }) => server ?? []))];
}

/** The assertions of task sets of an Eval; a task has those of every set that reached it. */
export const assertions = declaredKind<typeof assertionsSchema, Assertions | readonly Assertions[]>({
  type: "assertions",
  description:
    "The assertions of task sets of an Eval about the agent's calls, such as `toolsUsed` and `callOrder`. All kinds that are given must hold.",
  forms: ["task"],
  settingsOf: ({ portable: { assertions: sets = [] } = {} }) => (sets.length === 0 ? undefined : sets),
  config: assertionsSchema.refine((all) => assertionKinds(all).length > 0, {
    error: "must have an assertion that says something",
  }),
  example: { toolsUsed: [{ server: "tracker", tool: "get_issue" }], maxToolCalls: 4 },
  servers: assertedServers,
  grade: (sets, trajectory) => gradeAssertions([sets].flat(), trajectory),
});

/**
 * Do the assertions of task sets about the agent's own calls hold? Score = kinds of assertions that hold / all kinds, over all
 * sets; all must hold. A required call must have succeeded; forbidden, repeated and too many calls count also when they failed.
 * Calls of steps do not count.
 *
 * Intended differences from the tool that the assertions come from: two calls are duplicates when their arguments are
 * equal as JSON, not only as text; without an agent nothing is asserted, not even `toolsNotUsed`; a failed call is not a use;
 * and the absence of forbidden calls is no evidence when no call succeeded, or a fault was injected into every call.
 */
function gradeAssertions(sets: readonly Assertions[], trajectory: Trajectory): GraderResult {
  const { agentStarted: started } = trajectory;
  if (started === undefined) return skip("no agent took part");
  const evidence = evidenceOf(trajectory);
  const results = sets.flatMap((set, index) => {
    const prefix = sets.length === 1 ? "" : `set ${index + 1}, `;
    return assertionKinds(set).map((kind) => {
      const result = check(kind, set[kind], evidence);
      return { ...result, reason: `${prefix}${kind}: ${result.reason}` };
    });
  });
  if (results.length === 0) return skip("nothing is asserted");
  const failed = results.filter((result) => !result.holds);
  const gap = failed.length === 0 && !hasLooked(trajectory) ? gapIn(evidence) : undefined;
  if (gap !== undefined) return skip(`${gap}, and nothing else shows what it did`);
  const reported = failed.length === 0 ? results : failed;
  const absence = [evidence.calls.at(-1)?.seq ?? started];
  const seqs = reported.flatMap((result) => (result.seqs.length === 0 ? absence : result.seqs));
  return passOrFail(results.length - failed.length, results.length, {
    reason: reported.map((result) => result.reason).join("; "),
    evidence: [...new Set(seqs)].toSorted((a, b) => a - b),
  });
}

/** Whether one kind of assertion holds. */
interface AssertionResult {
  readonly holds: boolean;
  readonly reason: string;
  /** Numbers of the calls that show it; empty for an absence. */
  readonly seqs: readonly number[];
}

/** A call that a server got. */
type AgentCall = AgentAct & { readonly server: string };

interface Evidence {
  readonly calls: readonly AgentCall[];
  /** Uses of tools that no server has, as the agent reports them. */
  readonly own: readonly AgentAct[];
  readonly trajectory: Trajectory;
}

function evidenceOf(trajectory: Trajectory): Evidence {
  const acts = agentActs(trajectory);
  return {
    calls: acts.filter((act): act is AgentCall => act.server !== undefined),
    own: acts.filter((act) => act.call === undefined && !isUnrecorded(act)),
    trajectory,
  };
}

/** Why the calls are no evidence; undefined: they are. */
function gapIn({ calls, own }: Evidence): string | undefined {
  if (calls.length + own.length === 0) return "the agent called nothing";
  if (effective([...calls, ...own]).length === 0) return "no call of the agent succeeded";
  const isLost = own.length === 0 && calls.every(({ faulted }) => faulted === true);
  return isLost ? "every call of the agent had a fault injected" : undefined;
}

type Checks = {
  readonly [K in AssertionKind]: (wanted: NonNullable<Assertions[K]>, evidence: Evidence) => AssertionResult;
};

const checks: Checks = {
  toolsUsed: (list, evidence) => every(patterns(list, "tool"), "tool", evidence),
  resourcesRead: (list, evidence) => every(patterns(list, "uri"), "resource", evidence),
  promptsUsed: (list, evidence) => every(patterns(list, "prompt"), "prompt", evidence),
  requireAny(list, evidence) {
    const wanted = patterns(list, "tool");
    const [first] = wanted.flatMap((pattern) => effective(fitting(pattern, "tool", evidence)));
    return first === undefined
      ? absent(wanted, "tool", evidence)
      : { holds: true, reason: nameOf(first), seqs: [first.seq] };
  },
  toolsNotUsed: (list, evidence) => none(patterns(list, "tool"), "tool", evidence),
  resourcesNotRead: (list, evidence) => none(patterns(list, "uri"), "resource", evidence),
  promptsNotUsed: (list, evidence) => none(patterns(list, "prompt"), "prompt", evidence),
  minToolCalls: (min, evidence) => count(evidence, min, "at least"),
  maxToolCalls: (max, evidence) => count(evidence, max, "at most"),
  callOrder: order,
  noDuplicateCalls: (_, evidence) => distinct(evidence),
  skillsLoaded,
  skillsNotLoaded,
};

function check<K extends AssertionKind>(kind: K, wanted: Assertions[K], evidence: Evidence): AssertionResult {
  return checks[kind](wanted as NonNullable<Assertions[K]>, evidence);
}

type CallType = AgentAct["type"];

function nameOf({ server, target }: AgentCall): string {
  return qualified({ server, name: target });
}

/** Calls of a server, by name or by pattern; with both, one has to fit. Without: any call. */
interface CallPattern {
  readonly server: string;
  readonly name: string | undefined;
  readonly pattern: string | undefined;
}

/** An empty name or pattern is as if it were absent. */
function patterns<K extends "tool" | "uri" | "prompt">(
  list: readonly ({ readonly server: string } & { readonly [P in K | `${K}Pattern`]?: string | undefined })[],
  key: K,
): readonly CallPattern[] {
  return list.map((each) => ({
    server: each.server,
    name: each[key] || undefined,
    pattern: each[`${key}Pattern`] || undefined,
  }));
}

const verbs: Readonly<Record<CallType, { readonly noun: string; readonly past: string }>> = {
  tool: { noun: "call", past: "called" },
  resource: { noun: "read", past: "read" },
  prompt: { noun: "use", past: "used" },
};

function every(patterns: readonly CallPattern[], type: CallType, evidence: Evidence): AssertionResult {
  const found = patterns.map((pattern) => effective(fitting(pattern, type, evidence)).slice(0, 1));
  const missing = patterns.filter((_, index) => found[index]?.length === 0);
  if (missing.length > 0) return absent(missing, type, evidence);
  return { holds: true, reason: patterns.map(describe).join(", "), seqs: found.flat().map(({ seq }) => seq) };
}

function none(patterns: readonly CallPattern[], type: CallType, evidence: Evidence): AssertionResult {
  const found = patterns.flatMap((pattern) => fitting(pattern, type, evidence));
  if (found.length === 0) {
    const misspellings =
      type === "tool" ? patterns.flatMap((pattern) => misspeltTool(pattern, evidence.trajectory)) : [];
    if (misspellings.length > 0) return { holds: false, reason: misspellings.join("; "), seqs: [] };
    return {
      holds: true,
      reason: `no ${verbs[type].noun} of ${patterns.map(describe).join(", ")}`,
      seqs: [],
    };
  }
  const names = [...new Set(found.map(nameOf))];
  const reason = `${names.join(", ")} ${names.length === 1 ? "was" : "were"} ${verbs[type].past}`;
  return { holds: false, reason, seqs: found.map(({ seq }) => seq) };
}

/** Why an assertion about a tool cannot fail: its server does not offer the tool, but one with a similar name. */
function misspeltTool({ server, name }: CallPattern, trajectory: Trajectory): string[] {
  const near = name === undefined ? undefined : misspelling(name, trajectory, server);
  if (near === undefined) return [];
  return [`${server} offers no tool ${name}, so this assertion cannot fail; ${near}`];
}

function count({ calls }: Evidence, limit: number, allowed: "at least" | "at most"): AssertionResult {
  const all = calls.filter(({ type }) => type === "tool");
  const tools = allowed === "at least" ? effective(all) : all;
  const holds = allowed === "at least" ? tools.length >= limit : tools.length <= limit;
  const failed = all.length - tools.length;
  const others = failed === 0 ? "" : ` that succeeded and ${failed} that did not`;
  const reason = `${tools.length} tool call${tools.length === 1 ? "" : "s"}${others}, ${allowed} ${limit} expected`;
  return { holds, reason, seqs: (holds ? tools : all).map(({ seq }) => seq) };
}

/** Each call serves one entry; the first one that fits is taken. */
function order(entries: NonNullable<Assertions["callOrder"]>, { calls }: Evidence): AssertionResult {
  const seqs: number[] = [];
  let rest = calls;
  for (const [index, entry] of entries.entries()) {
    const fits = rest.filter((call) => call.type === entry.type && nameOf(call) === qualified(entry));
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

function distinct({ calls }: Evidence): AssertionResult {
  const tools = calls.filter(({ type }) => type === "tool");
  const repeated = [...Map.groupBy(tools, keyOf).values()].filter((group) => group.length > 1);
  const names = repeated.flatMap(([, second]) => (second === undefined ? [] : [second]));
  const ordered = names.toSorted((a, b) => a.seq - b.seq).map(nameOf);
  const reason =
    repeated.length === 0
      ? "all tool calls differ"
      : `called again with equal arguments: ${[...new Set(ordered)].join(", ")}`;
  return { holds: repeated.length === 0, reason, seqs: repeated.flat().map(({ seq }) => seq) };
}

/** No arguments are the same as empty ones. */
function keyOf({ server, target, args }: AgentCall): string {
  return JSON.stringify([server, target, canonicalJson(args ?? {})]);
}

/** The calls that succeeded, or would have without an injected fault. */
function effective<T extends AgentAct>(calls: readonly T[]): readonly T[] {
  return calls.filter(({ failure, faulted }) => failure === undefined || faulted === true);
}

function fitting(
  { server, name, pattern }: CallPattern,
  type: CallType,
  { calls }: Evidence,
): readonly AgentCall[] {
  const regex = pattern === undefined ? undefined : compilePattern(pattern);
  return calls.filter(
    (call) =>
      call.type === type &&
      call.server === server &&
      ((name ?? pattern) === undefined || call.target === name || regex?.test(call.target) === true),
  );
}

function absent(patterns: readonly CallPattern[], type: CallType, evidence: Evidence): AssertionResult {
  const { calls, trajectory } = evidence;
  const seqs: number[] = [];
  const reported = patterns.map((wanted) => {
    const { name, pattern, server } = wanted;
    const failed = fitting(wanted, type, evidence).find(({ failure }) => failure !== undefined);
    if (failed !== undefined) seqs.push(failed.seq);
    const isTool = type === "tool" && name !== undefined && pattern === undefined;
    const question = isTool ? misspelling(name, trajectory, server) : undefined;
    const notes = [
      ...(question === undefined ? [] : [question]),
      ...(failed === undefined ? [] : [`it failed: ${shortened(failed.failure ?? "", 200)}`]),
    ];
    return `${describe(wanted)}${notes.length === 0 ? "" : ` (${notes.join("; ")})`}`;
  });
  const what = `${seqs.length === 0 ? "" : "successful "}${verbs[type].noun}`;
  return { holds: false, reason: `no ${what} of ${reported.join(", ")}; ${made(calls)}`, seqs };
}

function made(calls: readonly AgentCall[]): string {
  return calls.length === 0
    ? "the agent called nothing"
    : `called: ${listed([...new Set(calls.map(nameOf))], 10)}`;
}

function describe({ server, name, pattern }: CallPattern): string {
  const what = nameOrPattern(name, pattern);
  return what === "" ? `anything of ${server}` : `${server}.${what}`;
}

function nameOrPattern(name: string | undefined, pattern: string | undefined): string {
  return [name ?? [], pattern === undefined ? [] : `/${pattern}/`].flat().join(" or ");
}

type SkillPattern = NonNullable<Assertions["skillsLoaded"]>[number];

function describeSkills(skills: readonly SkillPattern[]): string {
  return skills
    .map(
      ({ skill, skillPattern }) =>
        nameOrPattern(skill || undefined, skillPattern || undefined) || "any skill",
    )
    .join(", ");
}

/** Whether every entry fits a skill that the agent loaded, as it reports. */
function skillsLoaded(wanted: readonly SkillPattern[], evidence: Evidence): AssertionResult {
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
function skillsNotLoaded(unwanted: readonly SkillPattern[], evidence: Evidence): AssertionResult {
  const { loads, given } = skillLoads(evidence.trajectory);
  if (given === undefined) return nothingGiven;
  const found = loads.filter((load) => unwanted.some((pattern) => fits(pattern, load)));
  const what = `${found.length === 0 ? "did not load" : "loaded"} ${describeSkills(unwanted)}`;
  return { holds: found.length === 0, reason: `the agent ${what}`, seqs: found.map(({ seq }) => seq) };
}

const nothingGiven: AssertionResult = { holds: false, reason: "the agent was given no skills", seqs: [] };

/** An empty name or pattern is as if it were absent. */
function fits({ skill = "", skillPattern = "" }: SkillPattern, { text }: SkillLoad): boolean {
  if (skill === "" && skillPattern === "") return true;
  const isNamed = skill !== "" && text.includes(JSON.stringify(skill));
  return isNamed || (skillPattern !== "" && compilePattern(skillPattern).test(text));
}
