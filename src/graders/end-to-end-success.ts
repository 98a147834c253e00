import { containsText, describeState, meetsState, stateParts } from "../expect/contains-text.ts";
import { searchableText } from "../expect/tool-result.ts";
import type { ExpectedState } from "../model/fields.ts";
import { turnOf } from "../model/task.ts";
import { lastAnswered, repeatedTurn, type Trajectory, type TurnView } from "../trace/trajectory.ts";
import { graderKind, passOrFail, skip } from "./grader.ts";

/**
 * End-to-End Success of the MCPVals specification, 6.1: the last assistant message or the last tool result of a turn
 * (the one that arrived last) meets the turn's `expectedState`, see `meetsState`. The score is the share of expected states
 * that were reached; all must be. Of a simulated user, one of its turns has to, and not only with words that it has said itself.
 */
export const endToEndSuccess = graderKind({
  type: "end-to-end-success",
  forms: ["workflow"],
  grade(_, trajectory) {
    const { task, turns } = trajectory;
    const outcomes = task.turns.flatMap((wanted, index) => {
      const { expectedState } = wanted;
      if (expectedState === undefined) return [];
      const played = turns.filter(({ turn }) => turnOf(task, turn) === wanted);
      const reached = played.map((turn) => outcomeOf(expectedState, turn, trajectory));
      return reached.find((outcome) => outcome.reached) ?? reached.at(-1) ?? unreached(expectedState, index);
    });
    if (outcomes.length === 0) return skip("no expectedState to look for");
    const missed = outcomes.filter((outcome) => !outcome.reached);
    const reported = missed.length === 0 ? outcomes : missed;
    return passOrFail(outcomes.length - missed.length, outcomes.length, {
      reason: reported.map((outcome) => outcome.reason).join("; "),
      evidence: reported.flatMap((outcome) => outcome.evidence),
    });
  },
});

interface Outcome {
  readonly reached: boolean;
  readonly reason: string;
  readonly evidence: readonly number[];
}

/** Of a turn that was not played. */
function unreached(state: string | ExpectedState, index: number): Outcome {
  const quoted = typeof state === "string" ? JSON.stringify(state) : `a text that ${describeState(state)}`;
  return { reached: false, reason: `turn ${index + 1} was never reached, ${quoted} expected`, evidence: [] };
}

function outcomeOf(
  state: string | ExpectedState,
  turn: TurnView,
  trajectory: Pick<Trajectory, "turns">,
): Outcome {
  const [name, wanted] = [`turn ${turn.turn + 1}`, describeState(state)];
  const { contains, in: where = "any" } = stateParts(state);
  const message = turn.messages.at(-1);
  const call = lastAnswered(turn);
  const answer = { what: "assistant message", text: message?.text ?? "", seq: message?.seq };
  const result = {
    what: call === undefined ? "tool result" : `tool result (${call.tool})`,
    text: call?.result === undefined ? "" : searchableText(call.result),
    seq: call?.responseSeq,
  };
  const places = { answer: [answer], toolResult: [result], any: [answer, result] }[where];
  const found = places.find(({ text, seq }) => seq !== undefined && meetsState(text, state));
  const reported = found === undefined ? places : [found];
  const evidence = reported.flatMap(({ seq }) => seq ?? []);
  const repeated =
    found === answer ? repeatedTurn(trajectory, turn.turn, (text) => meetsState(text, state)) : undefined;
  if (repeated !== undefined)
    return {
      reached: false,
      reason: `${name}: the last assistant message ${wanted}, which the simulated user had said and no tool result says: it is no evidence`,
      evidence: [repeated.seq, ...evidence],
    };
  if (found !== undefined)
    return { reached: true, reason: `${name}: the last ${found.what} ${wanted}`, evidence };
  const isPart = contains !== undefined && places.some(({ text }) => containsText(text, contains));
  const note = isPart && typeof state === "string" ? ", only as a part of another number" : "";
  const [only] = places;
  let problem = `neither the last assistant message nor the last tool result ${wanted}`;
  if (only !== undefined && where !== "any")
    problem =
      only.seq === undefined
        ? `there is no ${only.what} that ${wanted}`
        : `expected that the last ${only.what} ${wanted}`;
  return { reached: false, reason: `${name}: ${problem}${note}`, evidence };
}
