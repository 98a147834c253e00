import { containsText, statesText } from "../formats/contains-text.ts";
import { searchableText } from "../checks/result-text.ts";
import { lastAnswered, type Trajectory, type TurnView } from "../trace/trajectory.ts";
import type { Grade, Grader } from "./grader.ts";

const name = "end-to-end-success";

/**
 * End-to-End Success of the MCPVals specification, 6.1: the last assistant message or the last tool result of a turn
 * (the one that arrived last) states the turn's `expectedState`, see `statesText`. The score is the share of expected states that were reached;
 * all must be. Turns without `expectedState` are not looked at.
 */
export const endToEndSuccess: Grader = { name, grade };

function grade(trajectory: Trajectory): Grade {
  const expected = trajectory.task.turns.flatMap((turn, index) =>
    turn.expectedState === undefined
      ? []
      : [{ state: turn.expectedState, turn: trajectory.turns.find((went) => went.turn === index), index }],
  );
  if (expected.length === 0) {
    return {
      grader: name,
      verdict: "skip",
      score: null,
      reason: "no expectedState to look for",
      evidence: [],
    };
  }
  const outcomes = expected.map(({ state, turn, index }) => lookFor(state, turn, index));
  const reached = outcomes.filter((outcome) => outcome.reached);
  const passed = reached.length === outcomes.length;
  const told = passed ? reached : outcomes.filter((outcome) => !outcome.reached);
  return {
    grader: name,
    verdict: passed ? "pass" : "fail",
    score: reached.length / outcomes.length,
    reason: told.map((outcome) => outcome.reason).join("; "),
    evidence: told.flatMap((outcome) => outcome.evidence),
  };
}

interface Outcome {
  readonly reached: boolean;
  readonly reason: string;
  readonly evidence: readonly number[];
}

function lookFor(state: string, turn: TurnView | undefined, index: number): Outcome {
  const step = `turn ${index + 1}`;
  if (turn === undefined) {
    return {
      reached: false,
      reason: `${step} was never reached, ${JSON.stringify(state)} expected`,
      evidence: [],
    };
  }
  const message = turn.messages.at(-1);
  const call = lastAnswered(turn);
  if (message !== undefined && statesText(message.text, state)) {
    const reason = `${step}: the last assistant message contains ${JSON.stringify(state)}`;
    return { reached: true, reason, evidence: [message.seq] };
  }
  if (call?.result !== undefined && statesText(searchableText(call.result), state)) {
    const reason = `${step}: the last tool result (${call.tool}) contains ${JSON.stringify(state)}`;
    return { reached: true, reason, evidence: seqOf(call.responseSeq) };
  }
  const texts = [message?.text ?? "", call?.result === undefined ? "" : searchableText(call.result)];
  const inNumber = texts.some((text) => containsText(text, state))
    ? ", only as a part of another number"
    : "";
  return {
    reached: false,
    reason: `${step}: neither the last assistant message nor the last tool result contains ${JSON.stringify(state)}${inNumber}`,
    evidence: [...seqOf(message?.seq), ...seqOf(call?.responseSeq)],
  };
}

function seqOf(seq: number | undefined): number[] {
  return seq === undefined ? [] : [seq];
}
