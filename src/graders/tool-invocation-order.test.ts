import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  errorResult,
  gradeOf,
  textResult,
  TrialEvents,
  workflowTask,
} from "../../test/support/trial-events.ts";
import { toolInvocationOrder } from "./tool-calls.ts";
import type { Grade } from "../model/grade.ts";

interface Played {
  readonly trial: TrialEvents;
  /** Numbers of the requests. */
  readonly requests: readonly number[];
}

/** A trial in which the agent calls these tools, in one turn. */
function calling(...tools: readonly string[]): Played {
  const trial = new TrialEvents().server("calc", [{ name: "a" }, { name: "b" }, { name: "c" }]);
  const requests: number[] = [];
  trial.turn("Do.", () => {
    for (const tool of tools) requests.push(trial.call(tool, {}, textResult("ok")).request);
  });
  return { trial, requests };
}

async function grade(trial: TrialEvents, expectTools: readonly string[], servers = ["calc"]): Promise<Grade> {
  return gradeOf(toolInvocationOrder, trial.trajectory(workflowTask({ expectTools, servers })));
}

describe("tool-invocation-order", () => {
  it.each([
    ["a b", "a b", "called in order: a, b", [0, 1]],
    ["a b", "c a c b c", "called in order: a, b, with 3 other calls", [1, 3]],
    ["a", "a c", "called in order: a, with 1 other call", [0]],
  ])("passes when of %j, in order, all are in %j", async (expected, called, reason, cited) => {
    const { trial, requests } = calling(...called.split(" "));
    const evidence = cited.map((index) => requests[index]);
    const passed = { grader: "tool-invocation-order", verdict: "pass", score: 1, reason, evidence };
    expect(await grade(trial, expected.split(" "))).toEqual(passed);
  });

  it.each<[string[], string[], number, string]>([
    [["a", "b"], ["b", "a"], 0.5, "out of order or too few times: b; expected: a, b; called: b, a"],
    [["a", "a"], ["a"], 0.5, "out of order or too few times: a; expected: a, a; called: a"],
    [["a", "b", "c"], ["a"], 1 / 3, "not called: b, c; expected: a, b, c; called: a"],
    [["a", "x"], ["a"], 0.5, 'offered by no server: x (did you mean "a"?); expected: a, x; called: a'],
    [
      ["x", "b", "a"],
      ["a"],
      1 / 3,
      'offered by no server: x (did you mean "a"?); not called: b; expected: x, b, a; called: a',
    ],
    [["a"], [], 0, "not called: a; expected: a; no tool was called"],
  ])("gives partial credit: %j expected, %j called", async (expected, called, score, reason) => {
    const { trial, requests } = calling(...called);
    expect(await grade(trial, expected)).toEqual({
      grader: "tool-invocation-order",
      verdict: "fail",
      score,
      reason,
      evidence: requests,
    });
  });

  it("spans turns, and counts a call that failed: whether it is healthy is asked elsewhere", async () => {
    const { trial } = calling("a");
    trial.turn("More.", () => trial.call("b", {}, errorResult("no")));
    expect(await grade(trial, ["a", "b"])).toMatchObject({ verdict: "pass" });
  });

  it("is not evidence when every call was made to fail on purpose", async () => {
    const trial = new TrialEvents().server("calc", [{ name: "a" }, { name: "b" }]);
    const seqs: number[] = [];
    const spoil = (tool: string): void => {
      const { id, server, seq } = trial.request(tool, {});
      seqs.push(seq);
      trial.emit({ type: "fault.injected", server, fault: "drop", method: "tools/call", tool, id });
    };
    trial.turn("Do.", () => ["a", "b"].forEach(spoil));
    expect(await grade(trial, ["a", "b"])).toEqual({
      grader: "tool-invocation-order",
      verdict: "skip",
      score: null,
      reason: "called in order, but every call had a fault injected: a, b",
      evidence: seqs,
    });
    expect(await grade(trial, ["b", "a"])).toMatchObject({ verdict: "fail" });
    trial.turn("Again.", () => trial.call("b", {}, textResult("ok")));
    expect(await grade(trial, ["a", "b"])).toMatchObject({ verdict: "pass" });
  });

  it("counts no call that could not be made, nor one of a verify step", async () => {
    const trial = new TrialEvents().server("calc", [{ name: "a" }]);
    trial.turn("Do.", () => trial.reject("a"));
    trial.step("check", {}, () => trial.call("a", {}, textResult("ok")));
    expect(await grade(trial, ["a"])).toMatchObject({
      verdict: "fail",
      score: 0,
      reason: "not called: a; expected: a; no tool was called",
    });
  });

  it("tells tools of the same name apart by their server", async () => {
    const trial = new TrialEvents().server("one", [{ name: "echo" }]).server("two", [{ name: "echo" }]);
    trial.turn("Do.", () => trial.call("echo", {}, textResult("ok"), { server: "one" }));
    const servers = ["one", "two"];
    expect(await grade(trial, ["one.echo"], servers)).toMatchObject({ verdict: "pass" });
    expect(await grade(trial, ["echo"], servers)).toMatchObject({ verdict: "pass" });
    expect(await grade(trial, ["two.echo"], servers)).toMatchObject({
      verdict: "fail",
      reason: "not called: two.echo; expected: two.echo; called: one.echo",
    });
    expect(await grade(trial, ["three.echo"], servers)).toMatchObject({
      reason:
        "offered by no server: three.echo (offered: one.echo, two.echo); expected: three.echo; called: one.echo",
    });
  });

  it.each<[string[], string]>([
    [["totla"], 'totla (did you mean "total"?)'],
    [["shop.totla"], 'shop.totla (did you mean "shop.total"?)'],
    [["totla", "forecast", "pay"], 'totla (did you mean "total"?), forecast, pay (offered: total, refund)'],
  ])("says which tools there are instead of %j", async (expected, told) => {
    const trial = new TrialEvents().server("shop", [{ name: "total" }, { name: "refund" }]);
    trial.turn("Do.");
    expect(await grade(trial, expected)).toMatchObject({
      reason: `offered by no server: ${told}; expected: ${expected.join(", ")}; no tool was called`,
    });
  });

  it("does not list the thousand calls of an agent in a loop", async () => {
    const { trial, requests } = calling(...Array.from({ length: 1000 }, () => "b"));
    const called = Array.from({ length: 20 }, () => "b").join(", ");
    expect(await grade(trial, ["a"])).toMatchObject({
      reason: `not called: a; expected: a; called: ${called} and 980 more`,
      evidence: requests,
    });
  });

  it("has nothing to say when no tool is expected", async () => {
    const nothing = { verdict: "skip", score: null, reason: "no expectTools to look for", evidence: [] };
    expect(await grade(calling("a").trial, [])).toEqual({ grader: "tool-invocation-order", ...nothing });
  });

  it("finds as many as any way of matching does, and cites them in order", async () => {
    const tools = fc.array(fc.constantFrom("a", "b", "c", "calc.a", "x"), { maxLength: 7 });
    await fc.assert(
      fc.asyncProperty(
        tools.filter((expected) => expected.length > 0),
        fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 8 }),
        async (expected, called) => {
          const { trial, requests } = calling(...called);
          const { score, verdict, evidence } = await grade(trial, expected);
          const best = maxForcedMs(expected, called);
          expect(score).toBe(best / expected.length);
          expect(verdict).toBe(best === expected.length ? "pass" : "fail");
          expect(evidence).toEqual(evidence.toSorted((a, b) => a - b));
          if (verdict === "pass") {
            const cited = evidence.map((seq) => called[requests.indexOf(seq)]);
            expect(cited).toEqual(expected.map((name) => name.replace("calc.", "")));
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

/** The length of the longest common subsequence, by trying every way. */
function maxForcedMs(expected: readonly string[], called: readonly string[]): number {
  const [first, ...restExpected] = expected;
  const [call, ...restCalled] = called;
  if (first === undefined || call === undefined) return 0;
  const taken = first === call || first === `calc.${call}` ? 1 + maxForcedMs(restExpected, restCalled) : 0;
  return Math.max(taken, maxForcedMs(restExpected, called), maxForcedMs(expected, restCalled));
}
