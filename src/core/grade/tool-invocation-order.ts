import type { ToolCall, Trajectory } from "../trace/trajectory.ts";
import type { Grade, Grader } from "./grader.ts";
import { lostToFault, nearestTool, offeredTools } from "./offered-tools.ts";

const name = "tool-invocation-order";
const shownCalls = 20;
const unoffered = "offered by no server";

/**
 * Tool Invocation Order of the MCPVals specification, 6.2: were the expected tools called, in the expected order?
 * Matched are the most expected tools that occur in order among the agent's calls (longest common subsequence); other
 * calls in between are allowed and named. Score = matched / expected; only a full match passes. An expected tool is
 * its name, or `SERVER.TOOL` where several servers offer it. That calls were made is no evidence when all of them were made
 * to fail on purpose.
 */
export const toolInvocationOrder: Grader = { name, grade };

function grade(trajectory: Trajectory): Grade {
  const expected = trajectory.task.expectTools;
  if (expected.length === 0) {
    return { grader: name, verdict: "skip", score: null, reason: "no expectTools to look for", evidence: [] };
  }
  const calls = trajectory.calls.filter((call) => call.step === undefined && call.server !== null);
  const pairs = longestMatch(expected, calls);
  const passed = pairs.length === expected.length;
  if (
    passed &&
    longestMatch(
      expected,
      calls.filter((call) => !lostToFault(call)),
    ).length === 0
  ) {
    const reason = `called in order, but every call had a fault injected: ${expected.join(", ")}`;
    return { grader: name, verdict: "skip", score: null, reason, evidence: pairs.map(([, { seq }]) => seq) };
  }
  return {
    grader: name,
    verdict: passed ? "pass" : "fail",
    score: pairs.length / expected.length,
    reason: passed
      ? passReason(expected, calls)
      : failReason(trajectory, calls, new Set(pairs.map(([index]) => index))),
    evidence: (passed ? pairs.map(([, call]) => call) : calls).map((call) => call.seq),
  };
}

type Pair = readonly [expectedIndex: number, call: ToolCall];

/** Longest common subsequence of the expected names and the calls (dynamic programming, Wagner and Fischer 1974). */
function longestMatch(expected: readonly string[], calls: readonly ToolCall[]): Pair[] {
  const lengths = Array.from({ length: expected.length + 1 }, () => new Uint32Array(calls.length + 1));
  const at = (row: number, column: number): number => lengths[row]?.[column] ?? 0;
  for (let row = expected.length - 1; row >= 0; row--) {
    for (let column = calls.length - 1; column >= 0; column--) {
      const best = isCallOf(calls[column], expected[row])
        ? at(row + 1, column + 1) + 1
        : Math.max(at(row + 1, column), at(row, column + 1));
      lengths[row]?.fill(best, column, column + 1);
    }
  }
  return walkBack(expected, calls, at);
}

/** Among equally good matches takes the one that has the earliest expected tools in place. */
function walkBack(
  expected: readonly string[],
  calls: readonly ToolCall[],
  at: (row: number, column: number) => number,
): Pair[] {
  const pairs: Pair[] = [];
  let row = 0;
  let column = 0;
  while (row < expected.length && column < calls.length) {
    const call = calls[column];
    if (call !== undefined && isCallOf(call, expected[row])) {
      pairs.push([row, call]);
      row += 1;
      column += 1;
    } else if (at(row + 1, column) > at(row, column + 1)) row += 1;
    else column += 1;
  }
  return pairs;
}

function isCallOf(call: ToolCall | undefined, expected: string | undefined): boolean {
  return call !== undefined && (call.tool === expected || `${call.server}.${call.tool}` === expected);
}

function passReason(expected: readonly string[], calls: readonly ToolCall[]): string {
  const others = calls.length - expected.length;
  const extra = others === 0 ? "" : `, with ${others} other ${others === 1 ? "call" : "calls"}`;
  return `called in order: ${expected.join(", ")}${extra}`;
}

function failReason(
  trajectory: Trajectory,
  calls: readonly ToolCall[],
  matched: ReadonlySet<number>,
): string {
  const { expectTools } = trajectory.task;
  const unmatched = expectTools.filter((_, index) => !matched.has(index));
  const groups = Map.groupBy(unmatched, (tool) => problemOf(tool, trajectory, calls));
  const problems = [...groups].map(
    ([problem, tools]) =>
      `${problem}: ${problem === unoffered ? tellUnoffered(tools, trajectory) : tools.join(", ")}`,
  );
  const called = calls.length === 0 ? "no tool was called" : `called: ${callNames(trajectory, calls)}`;
  return `${problems.join("; ")}; expected: ${expectTools.join(", ")}; ${called}`;
}

function callNames({ task }: Trajectory, calls: readonly ToolCall[]): string {
  const several = task.servers.length > 1;
  const names = calls
    .slice(0, shownCalls)
    .map((call) => (several ? `${call.server}.${call.tool}` : call.tool));
  const more = calls.length > shownCalls ? ` and ${calls.length - shownCalls} more` : "";
  return `${names.join(", ")}${more}`;
}

function problemOf(tool: string, trajectory: Trajectory, calls: readonly ToolCall[]): string {
  if (calls.some((call) => isCallOf(call, tool))) return "out of order or too few times";
  const offered = trajectory.tools.some(
    (offer) => offer.name === tool || `${offer.server}.${offer.name}` === tool,
  );
  return offered ? "not called" : unoffered;
}

/** Each with the tool that is probably meant; where none is near, all that there are, once. */
function tellUnoffered(names: readonly string[], { tools }: Trajectory): string {
  const questions = names.map((tool) => nearestTool(tool, tools));
  const told = names.map((tool, index) => {
    const question = questions[index];
    return question === undefined ? tool : `${tool} (${question})`;
  });
  const all = tools.length > 0 && questions.includes(undefined) ? ` (${offeredTools(tools)})` : "";
  return `${told.join(", ")}${all}`;
}
