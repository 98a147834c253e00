import { expect, it } from "vitest";
import {
  errorResult,
  gradeOf,
  structuredResult,
  textResult,
  TrialEvents,
  workflowTask,
} from "../../test/support/trial-events.ts";
import { endToEndSuccess } from "./end-to-end-success.ts";
import type { ExpectedState } from "../model/fields.ts";
import type { Grade } from "../model/grade.ts";

type Play = (trial: TrialEvents) => unknown;

/** The grade of a trial whose turns are what `plays` add, where each turn expects a state. */
async function grade(
  states: readonly (string | ExpectedState | undefined)[],
  ...plays: readonly Play[]
): Promise<Grade> {
  const turns = states.map((expectedState) => ({
    user: "Reach the state.",
    ...(expectedState === undefined ? {} : { expectedState }),
  }));
  const trial = new TrialEvents();
  for (const play of plays) trial.turn("Reach the state.", () => void play(trial));
  trial.step("check", {}, () => trial.call("add", {}, textResult("the state")));
  return gradeOf(endToEndSuccess, trial.trajectory(workflowTask({ turns })));
}

const says =
  (text: string): Play =>
  (trial) =>
    trial.say(text);
const gets =
  (result: ReturnType<typeof textResult>): Play =>
  (trial) => {
    trial.call("add", { note: "the state" }, result);
    trial.say("Here you are.");
  };
const found = (turn: number, where: string, state: string): string =>
  `turn ${turn}: the last ${where} contains "${state}"`;
const lacks = (turn: number, state: string): string =>
  `turn ${turn}: neither the last assistant message nor the last tool result contains "${state}"`;
const inResult = [1, found(1, "tool result (add)", "the state"), [3]] as const;
const resource = { type: "resource", resource: { uri: "a", text: "the state" } };

it.each<[string, (string | undefined)[], Play[], readonly [number, string, (readonly number[])?]]>([
  [
    "in the last message, ignoring case",
    ["done"],
    [(trial) => [trial.say("Working."), trial.say("All DONE now.")]],
    [1, found(1, "assistant message", "done"), [3]],
  ],
  ["in the text of the last result", ["the state"], [gets(textResult("the State"))], inResult],
  [
    "in structured content",
    ["the state"],
    [gets(structuredResult({ now: "the state" }, "in words"))],
    inResult,
  ],
  ["in an embedded resource", ["the state"], [gets({ content: [resource] })], inResult],
  ["in the text of an error", ["the state"], [gets(errorResult("the state"))], inResult],
  [
    "not in earlier messages and results of the turn",
    ["the state"],
    [
      (trial) => {
        trial.say("I will reach the state.");
        trial.call("add", {}, textResult("the state"));
        trial.call("add", {}, textResult("nothing"));
        trial.say("Sorry.");
      },
    ],
    [0, lacks(1, "the state"), [7, 6]],
  ],
  [
    "in the result that arrived last, when calls overlap; not in calls without one",
    ["the state"],
    [
      (trial) => {
        const slow = trial.request("slow", {});
        trial.answer(trial.request("fast", {}), textResult("nothing"));
        trial.answer(slow, textResult("the state"));
        trial.refuse(trial.request("broken", {}), -1, "no");
      },
    ],
    [1, found(1, "tool result (slow)", "the state"), [5]],
  ],
  [
    "not in words of the user, an argument, a verify step or another server process",
    ["the state"],
    [
      (trial) => {
        trial.emit({ type: "server.stderr", server: "calc", text: "the state" });
        gets(textResult("ok"))(trial);
      },
    ],
    [0, lacks(1, "the state")],
  ],
  ["in every turn", ["alpha", "beta"], [says("nothing"), says("beta")], [0.5, lacks(1, "alpha")]],
  [
    "not in an earlier turn",
    [undefined, "beta"],
    [gets(textResult("beta")), () => 0],
    [0, lacks(2, "beta"), []],
  ],
  [
    "in turns that expect one",
    ["alpha", undefined, "gamma"],
    [says("alpha"), says("words"), says("gamma")],
    [1, `${found(1, "assistant message", "alpha")}; ${found(3, "assistant message", "gamma")}`],
  ],
  [
    "in no turn that never came",
    ["alpha", "beta"],
    [says("alpha")],
    [0.5, 'turn 2 was never reached, "beta" expected', []],
  ],
])("finds the state %s", async (_, states, plays, [score, reason, evidence]) => {
  const verdict = score === 1 ? "pass" : "fail";
  expect(await grade(states, ...plays)).toEqual({
    grader: "end-to-end-success",
    verdict,
    score,
    reason,
    evidence: evidence ?? expect.any(Array),
  });
});

const [inAnswer, inCall] = ["the last assistant message", "the last tool result (add)"];

it.each<[ExpectedState, string, string, number, string]>([
  [{ contains: "five", in: "answer" }, "five", "It is five.", 1, `${inAnswer} contains "five"`],
  [{ contains: "five", in: "answer" }, "five", "Done.", 0, `expected that ${inAnswer} contains "five"`],
  [{ contains: "five", in: "toolResult" }, "five", "Done.", 1, `${inCall} contains "five"`],
  [{ contains: "five", in: "toolResult" }, "six", "five", 0, `expected that ${inCall} contains "five"`],
  [{ contains: "cat", wholeWord: true }, "concatenate", "A category.", 0, 'contains the word "cat"'],
  [{ contains: "cat", wholeWord: true }, "-", "A Cat.", 1, 'contains the word "cat"'],
  [{ equals: "five" }, "-", "five\n", 1, 'equals "five"'],
  [{ equals: "five" }, "-", "It is five.", 0, 'equals "five"'],
  [{ matches: "^\\d+ files$" }, "12 files", "12 files", 1, "matches"],
  [{ contains: "12", matches: "files" }, "12", "files", 0, 'contains "12" and matches "files"'],
  [{ contains: "5" }, "15", "15", 0, 'contains "5"'],
])("%j of the result %j and the answer %j has the score %d", async (state, result, answer, score, says) => {
  const play: Play = (trial) => {
    trial.call("add", {}, textResult(result));
    trial.say(answer);
  };
  expect(await grade([state], play)).toMatchObject({
    score,
    reason: expect.stringContaining(says) as string,
  });
});

it("has nothing to say when no state is expected", async () => {
  expect(await grade([undefined], says("x"))).toMatchObject({
    verdict: "skip",
    score: null,
    reason: "no expectedState to look for",
  });
});
