import { describe, expect, it } from "vitest";
import {
  errorResult,
  gradeContext,
  structuredResult,
  textResult,
  TrialEvents,
  workflowTask,
} from "../../../test/support/trial-events.ts";
import type { Turn } from "../formats/model.ts";
import { endToEndSuccess } from "./turns.ts";
import type { Grade } from "../trace/events.ts";

function expecting(...states: readonly (string | undefined)[]): readonly Turn[] {
  return states.map((expectedState) => ({
    user: "Do.",
    ...(expectedState === undefined ? {} : { expectedState }),
  }));
}

async function grade(trial: TrialEvents, turns: readonly Turn[]): Promise<Grade> {
  return endToEndSuccess.grade(trial.trajectory(workflowTask({ turns })), gradeContext());
}

describe("end-to-end-success", () => {
  it("finds the state in the last assistant message, ignoring case", async () => {
    const trial = new TrialEvents();
    let said = 0;
    trial.turn("Do.", () => {
      trial.say("Working.");
      said = trial.say("All DONE now.");
    });
    expect(await grade(trial, expecting("done"))).toEqual({
      grader: "end-to-end-success",
      verdict: "pass",
      score: 1,
      reason: 'turn 1: the last assistant message contains "done"',
      evidence: [said],
    });
  });

  it.each([
    ["its text", textResult("the State")],
    ["its structured content", structuredResult({ now: "the state" }, "in words")],
    ["an embedded resource", { content: [{ type: "resource", resource: { uri: "a", text: "the state" } }] }],
    ["an error that it tells", errorResult("the state")],
  ])("finds the state in the last tool result, in %s", async (_, result) => {
    const trial = new TrialEvents();
    let response = 0;
    trial.turn("Do.", () => {
      response = trial.call("add", {}, result).response;
      trial.say("Here you are.");
    });
    expect(await grade(trial, expecting("the state"))).toEqual({
      grader: "end-to-end-success",
      verdict: "pass",
      score: 1,
      reason: 'turn 1: the last tool result (add) contains "the state"',
      evidence: [response],
    });
  });

  it("does not look at earlier messages and results of the turn", async () => {
    const trial = new TrialEvents();
    const cited: number[] = [];
    trial.turn("Do.", () => {
      trial.say("I will reach the state.");
      trial.call("add", {}, textResult("the state"));
      cited.push(trial.call("add", {}, textResult("nothing")).response);
      cited.unshift(trial.say("Sorry."));
    });
    expect(await grade(trial, expecting("the state"))).toEqual({
      grader: "end-to-end-success",
      verdict: "fail",
      score: 0,
      reason: 'turn 1: neither the last assistant message nor the last tool result contains "the state"',
      evidence: cited,
    });
  });

  it("takes the result that arrived last, when calls overlap, and passes over calls without one", async () => {
    const trial = new TrialEvents();
    trial.turn("Do.", () => {
      const slow = trial.request("slow", {});
      trial.answer(trial.request("fast", {}), textResult("nothing"));
      trial.answer(slow, textResult("the state"));
      trial.refuse(trial.request("broken", {}), -1, "no");
    });
    expect(await grade(trial, expecting("the state"))).toMatchObject({ verdict: "pass" });
  });

  it("does not take words that the user, an argument or another server process wrote", async () => {
    const trial = new TrialEvents();
    trial.turn("Reach the state.", () => {
      trial.call("add", { note: "the state" }, textResult("ok"));
      trial.emit({ type: "server.stderr", server: "calc", text: "the state" });
      trial.say("ok");
    });
    expect(await grade(trial, expecting("the state"))).toMatchObject({ verdict: "fail", score: 0 });
  });

  it("looks at every turn: an early state that was not reached fails", async () => {
    const trial = new TrialEvents();
    trial.turn("One.", () => trial.say("nothing"));
    trial.turn("Two.", () => trial.say("beta"));
    expect(await grade(trial, expecting("alpha", "beta"))).toMatchObject({
      verdict: "fail",
      score: 0.5,
      reason: 'turn 1: neither the last assistant message nor the last tool result contains "alpha"',
    });
  });

  it("looks at each turn alone: a state that only an earlier turn reached does not count", async () => {
    const trial = new TrialEvents();
    trial.turn("One.", () => {
      trial.call("add", {}, textResult("beta"));
      trial.say("beta");
    });
    trial.turn("Two.");
    expect(await grade(trial, expecting(undefined, "beta"))).toEqual({
      grader: "end-to-end-success",
      verdict: "fail",
      score: 0,
      reason: 'turn 2: neither the last assistant message nor the last tool result contains "beta"',
      evidence: [],
    });
  });

  it("does not take what verify steps call for the agent's work", async () => {
    const trial = new TrialEvents();
    trial.turn("Do.");
    trial.step("check", {}, () => trial.call("add", {}, textResult("the state")));
    expect(await grade(trial, expecting("the state"))).toMatchObject({ verdict: "fail" });
  });

  it("tells all states that were reached", async () => {
    const trial = new TrialEvents();
    trial.turn("One.", () => trial.say("alpha"));
    trial.turn("Two.", () => trial.say("words"));
    trial.turn("Three.", () => trial.say("gamma"));
    expect(await grade(trial, expecting("alpha", undefined, "gamma"))).toMatchObject({
      verdict: "pass",
      score: 1,
      reason:
        'turn 1: the last assistant message contains "alpha"; turn 3: the last assistant message contains "gamma"',
    });
  });

  it("fails a turn that never came", async () => {
    const trial = new TrialEvents();
    trial.turn("One.", () => trial.say("alpha"));
    expect(await grade(trial, expecting("alpha", "beta"))).toEqual({
      grader: "end-to-end-success",
      verdict: "fail",
      score: 0.5,
      reason: 'turn 2 was never reached, "beta" expected',
      evidence: [],
    });
  });

  it("has nothing to say when no state is expected", async () => {
    expect(await grade(new TrialEvents(), expecting(undefined, undefined))).toEqual({
      grader: "end-to-end-success",
      verdict: "skip",
      score: null,
      reason: "no expectedState to look for",
      evidence: [],
    });
  });
});
