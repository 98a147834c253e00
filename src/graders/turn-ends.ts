import type { EndedTurn, Trajectory } from "../trace/trajectory.ts";
import { graderKind, passOrFail } from "./grader.ts";

/**
 * Did the agent itself end each of its turns? One that refused, or was cut off at a limit of tokens or of steps, has not
 * finished its task. Score = turns that the agent ended / turns that were played. It applies only if a turn ended otherwise.
 */
export const turnEndsGrader = graderKind({
  type: "turn-ends",
  forms: ["workflow", "task"],
  // Who sits before a program may end its turns.
  applies: (trajectory) => trajectory.transcript === undefined && cutOff(trajectory).length > 0,
  grade(_, trajectory) {
    const cut = cutOff(trajectory);
    const played = Math.max(1, trajectory.turns.length);
    const reason = cut.map(({ oddity = "" }) => oddity).join("; ") || "the agent ended every turn";
    return passOrFail(played - cut.length, played, { reason, evidence: cut.map(({ seq }) => seq) });
  },
});

function cutOff({ turns }: Trajectory): readonly EndedTurn[] {
  return turns.flatMap(({ end }) => (end === undefined || end.reason === "done" ? [] : [end]));
}
