import { type EndedTurn, type Trajectory, turnEnds } from "../trace/trajectory.ts";
import type { Grade, Grader } from "./grader.ts";

const name = "turn-ends";

/**
 * Did the agent itself end each of its turns? One that refused, or was cut off at a limit of tokens or of steps, has not
 * done what it was told, whatever it had done by then. Score = turns that the agent ended / turns that were played. It
 * has a say only where a turn ended otherwise.
 */
export const turnEndsGrader: Grader = { name, applies: (trajectory) => cutOff(trajectory).length > 0, grade };

function grade(trajectory: Trajectory): Grade {
  const cut = cutOff(trajectory);
  const played = trajectory.turns.length;
  return {
    grader: name,
    verdict: cut.length === 0 ? "pass" : "fail",
    score: played === 0 ? 0 : (played - cut.length) / played,
    reason: cut.length === 0 ? "the agent ended every turn" : cut.map(({ oddity = "" }) => oddity).join("; "),
    evidence: cut.map(({ seq }) => seq),
  };
}

function cutOff({ events }: Trajectory): readonly EndedTurn[] {
  return turnEnds(events).filter(({ reason }) => reason !== "done");
}
