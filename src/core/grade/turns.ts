import { searchableText } from "../checks/tool-result.ts";
import { containsText, statesText } from "../formats/contains-text.ts";
import {
  type EndedTurn,
  lastAnswered,
  type Trajectory,
  turnEnds,
  type TurnView,
} from "../trace/trajectory.ts";
import { createGrader, type Grader, passOrFail, skip } from "./grader.ts";

/**
 * End-to-End Success of the MCPVals specification, 6.1: the last assistant message or the last tool result of a turn
 * (the one that arrived last) states the turn's `expectedState`, see `statesText`. The score is the share of expected states
 * that were reached; all must be.
 */
export const endToEndSuccess = createGrader("end-to-end-success", ({ task, turns }) => {
  const outcomes = task.turns.flatMap(({ expectedState }, index) => {
    const turn = turns.find((played) => played.turn === index);
    return expectedState === undefined ? [] : [outcomeOf(expectedState, turn, index)];
  });
  if (outcomes.length === 0) return skip("no expectedState to look for");
  const missed = outcomes.filter((outcome) => !outcome.reached);
  const told = missed.length === 0 ? outcomes : missed;
  return passOrFail(outcomes.length - missed.length, outcomes.length, {
    reason: told.map((outcome) => outcome.reason).join("; "),
    evidence: told.flatMap((outcome) => outcome.evidence),
  });
});

interface Outcome {
  readonly reached: boolean;
  readonly reason: string;
  readonly evidence: readonly number[];
}

function outcomeOf(state: string, turn: TurnView | undefined, index: number): Outcome {
  const [name, quoted] = [`turn ${index + 1}`, JSON.stringify(state)];
  if (turn === undefined)
    return { reached: false, reason: `${name} was never reached, ${quoted} expected`, evidence: [] };
  const message = turn.messages.at(-1);
  const call = lastAnswered(turn);
  const places = [
    { what: "message", text: message?.text ?? "", seq: message?.seq },
    {
      what: `tool result (${call?.tool})`,
      text: call?.result === undefined ? "" : searchableText(call.result),
      seq: call?.responseSeq,
    },
  ];
  const found = places.find(({ text, seq }) => seq !== undefined && statesText(text, state));
  const told = found === undefined ? places : [found];
  const evidence = told.flatMap(({ seq }) => seq ?? []);
  if (found !== undefined) {
    const what = found.what === "message" ? "assistant message" : found.what;
    return { reached: true, reason: `${name}: the last ${what} contains ${quoted}`, evidence };
  }
  const isPart = places.some(({ text }) => containsText(text, state));
  const note = isPart ? ", only as a part of another number" : "";
  const reason = `${name}: neither the last assistant message nor the last tool result contains ${quoted}${note}`;
  return { reached: false, reason, evidence };
}

/**
 * Did the agent itself end each of its turns? One that refused, or was cut off at a limit of tokens or of steps, has not
 * finished its task. Score = turns that the agent ended / turns that were played. It applies only if a turn ended otherwise.
 */
export const turnEndsGrader: Grader = {
  ...createGrader("turn-ends", (trajectory) => {
    const cut = cutOff(trajectory);
    const played = Math.max(1, trajectory.turns.length);
    const reason = cut.map(({ oddity = "" }) => oddity).join("; ") || "the agent ended every turn";
    return passOrFail(played - cut.length, played, { reason, evidence: cut.map(({ seq }) => seq) });
  }),
  applies: (trajectory) => cutOff(trajectory).length > 0,
};

function cutOff({ events }: Trajectory): readonly EndedTurn[] {
  return turnEnds(events).filter(({ reason }) => reason !== "done");
}
