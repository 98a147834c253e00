import * as z from "zod";
import { closedObject, filledText, optional } from "../model/fields.ts";
import { type GraderResult, type GradeContext, declaredKind, listed, nothingDone, skip } from "./grader.ts";
import { nameTest, toolName } from "./call-matchers.ts";
import { rubrics } from "./judge/judge-prompt.ts";
import { judgeByRubric } from "./judge/votes.ts";
import { type CallFault, callFaults, followErrors } from "./measurements/measure.ts";
import { rubricText } from "./prompt.ts";
import { isOfServer } from "../trace/agent-acts.ts";
import { namesOf, seqsOf, type ToolUse, toolUses } from "./tool-uses.ts";
import type { Trajectory } from "../trace/trajectory.ts";
import { shortened } from "../base/visible-text.ts";
import { defaultThreshold } from "../model/agent.ts";

const parts = ["selection", "parameters", "recovery", "rubric"] as const;
type PartName = (typeof parts)[number];

function weight(part: PartName): z.ZodDefault<z.ZodNumber> {
  return z.number().min(0).max(1e6).default(1).describe(`Weight of ${part}.`);
}

const config = z.lazy(() =>
  closedObject({
    server: optional(filledText, "Only calls of this server.", "those of all servers"),
    expect_tools_used: z
      .array(toolName)
      .default([])
      .describe(
        "Tools that must have been used with success, by exact name, also as SERVER.NAME, or as `/PATTERN/`; they are what *selection* compares with.",
      ),
    max_tool_errors: optional(z.int().min(0), "Most calls that may fail."),
    threshold: z.number().min(0).max(1).default(defaultThreshold).describe("Lowest score that passes."),
    rubric: optional(
      rubricText,
      "What a judge scores besides, in your own words or by the name of a rubric: a fourth part of the score.",
    ),
    weights: closedObject({
      selection: weight("selection"),
      parameters: weight("parameters"),
      recovery: weight("recovery"),
      rubric: weight("rubric"),
    })
      .prefault({})
      .describe("Weights of the parts in the score; a part with nothing to judge does not count."),
  })
    .refine(
      ({ weights, rubric }) =>
        parts.some((part) => weights[part] > 0 && (part !== "rubric" || rubric !== undefined)),
      { error: "must have a weight above 0 of a part that it scores" },
    )
    .refine(
      ({ threshold, expect_tools_used, max_tool_errors }) =>
        threshold > 0 || expect_tools_used.length > 0 || max_tool_errors !== undefined,
      { error: "could not fail: a threshold of 0 needs expect_tools_used or max_tool_errors" },
    ),
);

type Compliance = z.output<typeof config>;

/** A part of the score. */
interface Part {
  readonly name: PartName;
  readonly score: number;
  readonly reason: string;
  readonly evidence: readonly number[];
}

/**
 * How well were the tools of servers used? *Selection* is the harmonic mean of precision and recall of the used tools against the expected ones; *parameters* the
 * share of calls whose arguments fit the recorded input schema; *recovery* the share of errors after which a call of the same tool
 * succeeded.
 */
export const mcpCompliance = declaredKind({
  type: "mcp_compliance",
  description:
    "How well the agent used the tools of servers: *selection* (precision and recall of the used tools against `expect_tools_used`), *parameters* (share of calls that fit the input schemas on record) and *recovery* (share of failed calls after which a call of the same tool succeeded). It passes when every expected tool was used with success, no more calls failed than `max_tool_errors`, and the weighted mean reaches `threshold`.",
  config,
  example: { server: "tracker", expect_tools_used: ["get_issue", "search_issues"], max_tool_errors: 1 },
  judge({ rubric }: Compliance) {
    return rubric === undefined ? undefined : {};
  },
  servers: ({ server }) => (server === undefined ? [] : [server]),
  async grade(wanted, trajectory, context) {
    if (trajectory.agentStarted === undefined) return skip("no agent took part");
    const calls = toolUses(trajectory).filter((use) =>
      wanted.server === undefined ? isOfServer(use) || use.isUnknown : use.source === `mcp:${wanted.server}`,
    );
    const judged = await judge(wanted, trajectory, context);
    if (calls.length === 0 && wanted.expect_tools_used.length === 0 && judged === undefined)
      return skip(nothingDone(trajectory) ?? "the agent called no tool of a server");
    const found = [
      selection(wanted, calls),
      await parameters(calls, context),
      recovery(calls.filter(({ isUnknown }) => !isUnknown)),
      judged === undefined ? undefined : ({ ...judged, name: "rubric", score: judged.score ?? 0 } as const),
    ].filter((part) => part !== undefined);
    const grade = complianceGrade(wanted, found, calls, trajectory);
    return judged?.judge === undefined ? grade : { ...grade, judge: judged.judge };
  },
});

/** The grade of the judge; undefined without a rubric, and where there is nothing to judge. */
async function judge(
  { rubric }: Compliance,
  trajectory: Trajectory,
  context: GradeContext,
): Promise<GraderResult | undefined> {
  if (rubric === undefined || nothingDone(trajectory) !== undefined) return undefined;
  const known = Object.hasOwn(rubrics, rubric) ? rubrics[rubric] : undefined;
  const judging = { threshold: known?.threshold ?? defaultThreshold, votes: 1 };
  return judgeByRubric(known ?? { text: rubric }, judging, trajectory, context);
}

function complianceGrade(
  wanted: Compliance,
  found: readonly Part[],
  calls: readonly ToolUse[],
  trajectory: Trajectory,
): GraderResult {
  const { weights, threshold, max_tool_errors: maxErrors = Infinity } = wanted;
  const total = found.reduce((sum, { name }) => sum + weights[name], 0);
  const unused = unusedTools(wanted, calls);
  const errors = calls.filter(({ failure }) => failure !== undefined);
  const hasTooManyErrors = errors.length > maxErrors;
  const hasUnknownErrors =
    trajectory.transcript?.failuresUnknown === true && calls.length > 0 && maxErrors < Infinity;
  const isBroken = unused.length > 0 || hasTooManyErrors || hasUnknownErrors;
  if (total === 0 && !isBroken) return skip("no part with a weight has anything to judge");
  const score =
    total === 0 ? 0 : found.reduce((sum, part) => sum + part.score * weights[part.name], 0) / total;
  const passed = !isBroken && score >= threshold;
  const cited = hasTooManyErrors ? seqsOf(errors) : [];
  const evidence = [...found.flatMap((part) => part.evidence), ...cited];
  const reasons: string[] = [];
  if (unused.length > 0) reasons.push(`not used with success: ${unused.join(", ")}`);
  if (hasTooManyErrors) reasons.push(`${errors.length} failed calls, at most ${maxErrors} allowed`);
  if (hasUnknownErrors) reasons.push(`the number of failed calls is not known, at most ${maxErrors} allowed`);
  if (!isBroken && !passed) reasons.push(`score ${rounded(score)}, at least ${threshold} wanted`);
  for (const { name, score: of, reason } of found) reasons.push(`${name} ${rounded(of)}: ${reason}`);
  return {
    verdict: passed ? "pass" : "fail",
    score,
    reason: reasons.join("; "),
    evidence:
      evidence.length === 0
        ? [trajectory.agentStarted ?? 1]
        : [...new Set(evidence)].toSorted((a, b) => a - b),
  };
}

function rounded(score: number): number {
  return Math.round(score * 100) / 100;
}

function unusedTools(
  { expect_tools_used: expected }: Compliance,
  calls: readonly ToolUse[],
): readonly string[] {
  const worked = calls.filter((use) => use.worked);
  return expected.filter((name) => !worked.some(nameTest(name)));
}

function selection(wanted: Compliance, calls: readonly ToolUse[]): Part | undefined {
  const { expect_tools_used: expected } = wanted;
  if (expected.length === 0) return undefined;
  const used = [...new Map(calls.map((use) => [use.name, use])).values()];
  const expectations = expected.map(nameTest);
  const others = used.filter((use) => !expectations.some((fits) => fits(use)));
  const precision = used.length === 0 ? 0 : (used.length - others.length) / used.length;
  const recall = (expected.length - unusedTools(wanted, calls).length) / expected.length;
  const score = precision + recall === 0 ? 0 : (2 * precision * recall) / (precision + recall);
  const more = others.length === 0 ? "" : `, besides: ${listed(namesOf(others), 5)}`;
  const reason = `precision ${rounded(precision)}, recall ${rounded(recall)}${more}`;
  return { name: "selection", score, reason, evidence: seqsOf(others.length === 0 ? calls : others) };
}

const unknownTool: readonly CallFault[] = [
  { cause: "unknown tool", message: "no server offers it", pointer: "" },
];

async function parameters(
  calls: readonly ToolUse[],
  { validateSchema }: GradeContext,
): Promise<Part | undefined> {
  const known: ToolUse[] = [];
  const wrong: ToolUse[] = [];
  const reported: string[] = [];
  for (const { use, faults } of await callFaults(calls, validateSchema)) {
    const found = use.isUnknown ? unknownTool : faults;
    if (found === undefined) continue;
    known.push(use);
    const [first] = found;
    if (first === undefined) continue;
    wrong.push(use);
    reported.push(`${use.name} (${first.cause}: ${shortened(first.message, 200)})`);
  }
  if (known.length === 0) return undefined;
  const unknown = calls.length - known.length;
  const rest = unknown === 0 ? "" : `; ${unknown} more without a usable schema`;
  const reason =
    wrong.length === 0
      ? `all ${known.length} calls are valid${rest}`
      : `${wrong.length} of ${known.length} calls are invalid: ${listed(reported, 5)}${rest}`;
  return {
    name: "parameters",
    score: (known.length - wrong.length) / known.length,
    reason,
    evidence: seqsOf(wrong.length === 0 ? known : wrong),
  };
}

function recovery(calls: readonly ToolUse[]): Part | undefined {
  const { errors, recovered, open } = followErrors(calls);
  if (errors.length === 0) return undefined;
  const left = open.length === 0 ? "" : `, not after those of ${listed(namesOf(open), 5)}`;
  const reason = `${recovered.length} of ${errors.length} errors were followed by a successful call${left}`;
  return { name: "recovery", score: recovered.length / errors.length, reason, evidence: seqsOf(errors) };
}
