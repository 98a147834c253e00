import * as z from "zod";
import { closedObject, filledText, optional } from "../model/fields.ts";
import type { Trajectory } from "../trace/trajectory.ts";
import {
  callFields,
  describeCall,
  sourceText,
  toolName,
  usesThatFit,
  requireUsableSchemas,
  type WantedCall,
} from "./call-matchers.ts";
import { type GraderResult, declaredKind, listed, nothingDone, skip } from "./grader.ts";
import { serverIn } from "../trace/agent-acts.ts";
import { skillLoads, successfulUses, type ToolUse, toolUses } from "./tool-uses.ts";

const modes = ["exact_match", "in_order_match", "any_order_match"] as const;
type Mode = (typeof modes)[number];

const call = { ...callFields, server: optional(filledText, "Its server.", "any") };
const namesTool = "must have tool or server";
const alternative = z.lazy(() =>
  z.union([
    toolName,
    closedObject(call).refine(({ tool, server }) => (tool ?? server) !== undefined, { error: namesTool }),
  ]),
);
const action = z.lazy(() =>
  z.union([
    toolName,
    closedObject({
      ...call,
      any_of: optional(z.array(alternative).min(1), "Instead of `tool`: actions of which one is expected."),
      optional: optional(z.boolean(), "Whether it may be left out.", "`false`"),
    })
      .refine(({ tool, server, any_of }) => (tool ?? server ?? any_of) !== undefined, {
        error: "must have tool, server or any_of",
      })
      .refine(
        ({ tool, server, args, any_of }) => any_of === undefined || (tool ?? server ?? args) === undefined,
        {
          error: "has any_of, which needs no tool, server or args beside it",
        },
      ),
  ]),
);
type Action = z.output<typeof action>;

const sequenceConfig = z.lazy(() =>
  closedObject({
    expected_actions: z
      .array(action)
      .min(1)
      .max(200)
      .describe(
        "The uses of tools that are expected: each the name of a tool, `{tool, server, args, optional}`, or `{any_of: […], optional}`.",
      ),
    matching_mode: optional(
      z.enum(modes),
      "`exact_match`: these, in this order, and no others. `in_order_match`: these, in this order; others may come in between. `any_order_match`: these, in any order; others may come in between.",
      "`in_order_match`",
    ),
    ignore_sources: optional(
      z.array(sourceText),
      "Sources of tools whose uses are left out, unless an expected action fits them: `builtin`, `skill`, `mcp:SERVER`.",
      "`[builtin, skill]`",
    ),
  }).refine(({ expected_actions }) => expected_actions.some((each) => !isOptional(each)), {
    error: "must have an expected action that is not optional",
  }),
);

function isOptional(each: Action): boolean {
  return typeof each === "object" && each.optional === true;
}

/**
 * Were tools used in this sequence? Only a successful use fulfils an expected action. Score: the share of the required actions that
 * are fulfilled, in order if the mode demands it; `exact_match` divides by the number of uses if that is larger.
 */
export const actionSequence = declaredKind({
  type: "action_sequence",
  description:
    "The sequence in which the agent used tools. A use that failed fulfils no expected action. The score is the share of the expected actions that are there, in their order where the mode has one.",
  config: sequenceConfig,
  example: {
    matching_mode: "in_order_match",
    expected_actions: ["search_issues", { any_of: ["get_issue", "read_issue"] }, "close_issue"],
  },
  servers: ({ expected_actions }) => expected_actions.flatMap(serversOf),
  prepare: ({ expected_actions }, context) => ({
    expected_actions: requireUsableSchemas(expected_actions.flatMap(alternativesOf), context),
  }),
  async grade(wanted, trajectory, context) {
    if (trajectory.agentStarted === undefined) return skip("no agent took part");
    const { expected_actions: expected, matching_mode: mode = "in_order_match" } = wanted;
    const ignored = wanted.ignore_sources ?? ["builtin", "skill"];
    const worked = successfulUses(trajectory);
    const fitting: ReadonlySet<ToolUse>[] = [];
    for (const each of expected) {
      const found = alternativesOf(each).map((one) => usesThatFit(one, worked, context));
      fitting.push(new Set((await Promise.all(found)).flat()));
    }
    const all = toolUses(trajectory).map((use): Item => {
      const fits = fitting.map((uses) => uses.has(use));
      return { name: nameWithOutcome(use), seq: use.seq, source: use.source, fits };
    });
    const items = all.filter(({ source = "", fits }) => !ignored.includes(source) || fits.includes(true));
    const wantedItems = expected.map((each) => ({
      name: describeAction(each),
      isOptional: isOptional(each),
    }));
    return sequenceGrade(wantedItems, items, { mode, allowsExtra: mode !== "exact_match" }, trajectory);
  },
});

function nameWithOutcome(use: ToolUse): string {
  return `${use.name}${use.failure === undefined ? "" : " (failed)"}`;
}

function alternativesOf(each: Action): readonly WantedCall[] {
  if (typeof each === "object" && each.any_of !== undefined) return each.any_of.map(callOf);
  return [callOf(each)];
}

function callOf(each: Action): WantedCall {
  if (typeof each === "string") return { tool: each };
  const { tool, server, args } = each;
  return { tool, args, source: server === undefined ? undefined : `mcp:${server}` };
}

function serversOf(each: Action): readonly string[] {
  return alternativesOf(each).flatMap(({ source = "" }) => serverIn({ source }) ?? []);
}

function describeAction(each: Action): string {
  return alternativesOf(each).map(describeCall).join(" or ");
}

interface Expected {
  readonly name: string;
  readonly isOptional?: boolean;
}

/** An act of the agent. */
interface Item {
  readonly name: string;
  readonly seq: number;
  readonly source?: string;
  /** For each expected action, whether it fulfils it. */
  readonly fits: readonly boolean[];
}

interface Matching {
  readonly mode: Mode;
  /** Whether there may be other acts. */
  readonly allowsExtra: boolean;
}

function sequenceGrade(
  expected: readonly Expected[],
  items: readonly Item[],
  { mode, allowsExtra }: Matching,
  trajectory: Trajectory,
): GraderResult {
  const matches = mode === "any_order_match" ? matchAnyOrder(expected, items) : matchInOrder(expected, items);
  const missing = expected.filter((each, index) => each.isOptional !== true && !matches.has(index));
  const required = expected.filter((each) => each.isOptional !== true).length;
  const used = new Set(matches.values());
  const extras = allowsExtra ? [] : items.filter((_, index) => !used.has(index));
  const optionals = matches.size - (required - missing.length);
  const score = allowsExtra
    ? (required - missing.length) / required
    : matches.size / Math.max(required + optionals, items.length);
  const inOrder = mode === "any_order_match" ? "" : " in this order";
  const reasons: string[] = [];
  if (missing.length > 0) reasons.push(`missing${inOrder}: ${listNames(missing)}`);
  if (extras.length > 0) reasons.push(`not expected${inOrder}: ${listNames(extras)}`);
  const made =
    nothingDone(trajectory) ?? (items.length === 0 ? "none was used" : `used: ${listNames(items)}`);
  const passed = reasons.length === 0;
  const found = (passed ? items.filter((_, index) => used.has(index)) : items).map(({ seq }) => seq);
  return {
    verdict: passed ? "pass" : "fail",
    score,
    reason: passed ? `used${inOrder}: ${listNames(expected)}` : [...reasons, made].join("; "),
    evidence: found.length === 0 ? [trajectory.agentStarted ?? 1] : [...new Set(found)],
  };
}

function listNames(all: readonly { readonly name: string }[]): string {
  const names = all.map(({ name }) => name);
  return listed(names, 10);
}

/**
 * Positions of the items that fulfil the expected actions, in order: of the common subsequences with the most required actions a
 * longest one.
 */
function matchInOrder(expected: readonly Expected[], items: readonly Item[]): ReadonlyMap<number, number> {
  const columns = items.length + 1;
  const weights = expected.map((each) => (each.isOptional === true ? 1 : expected.length + 1));
  // best[i * columns + j]: the maximum weight of the expected actions from i on and the items from j on.
  const best = new Int32Array((expected.length + 1) * columns);
  const at = (i: number, j: number): number => best[i * columns + j] ?? 0;
  const paired = (i: number, j: number): number =>
    items[j]?.fits[i] === true ? (weights[i] ?? 0) + at(i + 1, j + 1) : -1;
  for (let i = expected.length - 1; i >= 0; i--)
    for (let j = items.length - 1; j >= 0; j--)
      best[i * columns + j] = Math.max(at(i + 1, j), at(i, j + 1), paired(i, j));
  const matches = new Map<number, number>();
  for (let i = 0, j = 0; i < expected.length && j < items.length;) {
    if (paired(i, j) === at(i, j)) matches.set(i++, j++);
    else if (at(i, j + 1) === at(i, j)) j++;
    else i++;
  }
  return matches;
}

/** Positions of the items that fulfil the expected actions, in any order: a maximum matching, first of the required actions. */
function matchAnyOrder(expected: readonly Expected[], items: readonly Item[]): ReadonlyMap<number, number> {
  const owners = new Map<number, number>();
  const place = (wanted: number, seen: Set<number>): boolean => {
    for (const [index, { fits }] of items.entries()) {
      if (fits[wanted] !== true || seen.has(index)) continue;
      seen.add(index);
      const owner = owners.get(index);
      if (owner !== undefined && !place(owner, seen)) continue;
      owners.set(index, wanted);
      return true;
    }
    return false;
  };
  for (const isOptionalTurn of [false, true])
    for (const [wanted, each] of expected.entries())
      if ((each.isOptional === true) === isOptionalTurn) place(wanted, new Set());
  return new Map([...owners].map(([index, wanted]) => [wanted, index]));
}

const skillNames = z.array(filledText).default([]);
const skillModes = {
  exact_match: "exact_match",
  in_order: "in_order_match",
  any_order: "any_order_match",
} as const;
type SkillMode = keyof typeof skillModes;

const skillConfig = z.lazy(() =>
  closedObject({
    required_skills: skillNames.describe("Skills that the agent must have loaded."),
    forbidden_skills: skillNames.describe("Skills that the agent must not have tried to load."),
    mode: optional(
      z.enum(Object.keys(skillModes) as [SkillMode, ...SkillMode[]]),
      "`exact_match`: the required ones, in this order, and no others. `in_order`: in this order. `any_order`.",
      "`any_order`",
    ),
    allow_extra: z
      .boolean()
      .default(true)
      .describe("Whether the agent may load more than the required skills."),
  })
    .refine(({ required_skills, forbidden_skills }) => required_skills.length + forbidden_skills.length > 0, {
      error: "must have a skill in required_skills or forbidden_skills",
    })
    .refine(
      ({ required_skills, forbidden_skills }) =>
        !required_skills.some((skill) => forbidden_skills.includes(skill)),
      {
        error: "must not have a skill in both required_skills and forbidden_skills",
      },
    ),
);

function isOf(skill: string, text: string): boolean {
  return text.includes(JSON.stringify(skill));
}

/** Did the agent load these skills? Loads are known from its own reports alone. */
export const skillInvocation = declaredKind({
  type: "skill_invocation",
  description:
    "Skills that the agent must or must not have loaded, as far as it reports them. The score is that of `action_sequence`; 0 when a forbidden one was loaded.",
  config: skillConfig,
  example: { required_skills: ["triage"], mode: "in_order" },
  grade({ required_skills, forbidden_skills, mode = "any_order", allow_extra }, trajectory) {
    if (trajectory.agentStarted === undefined) return skip("no agent took part");
    const { loads, given } = skillLoads(trajectory);
    const forbidden = forbidden_skills.filter((skill) => loads.some(({ text }) => isOf(skill, text)));
    if (forbidden.length > 0) {
      const found = loads.filter(({ text }) => forbidden.some((skill) => isOf(skill, text)));
      const reason = `loaded, which is forbidden: ${forbidden.join(", ")}`;
      return { verdict: "fail", score: 0, reason, evidence: found.map(({ seq }) => seq) };
    }
    const none = given === undefined && loads.length === 0 ? "the agent was given no skills" : undefined;
    if (required_skills.length === 0) {
      const nothing = nothingDone(trajectory) ?? none;
      if (nothing !== undefined) return skip(nothing);
      const reason = `not loaded: ${forbidden_skills.join(", ")}`;
      return { verdict: "pass", score: 1, reason, evidence: [trajectory.agentStarted] };
    }
    const known = [...new Set([...required_skills, ...(given ?? [])])];
    const items = loads.map(({ text, status, seq }): Item => {
      const name = known.find((skill) => isOf(skill, text)) ?? "another skill";
      return { name, seq, fits: required_skills.map((skill) => status === "completed" && isOf(skill, text)) };
    });
    const grade = sequenceGrade(
      required_skills.map((name) => ({ name })),
      items,
      { mode: skillModes[mode], allowsExtra: allow_extra && mode !== "exact_match" },
      trajectory,
    );
    return none === undefined ? grade : { ...grade, reason: `${grade.reason}; ${none}` };
  },
});
