import type { Finding, GradeContext } from "../grader.ts";
import { eventsOf } from "../../trace/events.ts";
import type { Trajectory } from "../../trace/trajectory.ts";
import type { JudgeResponse } from "./verdict-forms.ts";
import { judgePrompt, pairPrompt, type Rubric } from "./judge-prompt.ts";
import { type ScoreVerdict, scoreFormOf, winnerForm } from "./verdict-forms.ts";

/** How a judge is asked. */
export interface Judging {
  /** Lowest score that passes. */
  readonly threshold: number;
  /** How often it is asked; an odd number, so that most votes agree with the median. */
  readonly votes: number;
  readonly model?: string | undefined;
}

/**
 * Asks a judge how far a trial satisfies a rubric. The score is the median of the votes. A vote without a verdict rejects, as
 * `AskJudge` does.
 */
export async function judgeByRubric(
  rubric: Rubric,
  judging: Judging,
  trajectory: Trajectory,
  { askJudge }: Pick<GradeContext, "askJudge">,
): Promise<Finding> {
  const { model } = judging;
  const form = scoreFormOf(rubric.levels);
  const votes = await collectVotes(judging, () =>
    askJudge({ prompt: (nonce) => judgePrompt(trajectory, { nonce, rubric }), form, model }),
  );
  return findingOf(votes, judging, trajectory);
}

/** An answer to compare with that of the agent, and what decides; "": how well they do the task. */
export interface Comparison {
  readonly reference: string;
  readonly criteria: string;
}

/**
 * Asks a judge whether the agent's answer is better than another, in both orders: 1 if it is in both, 0 if the other is, else
 * 0.5. The score is the median of the votes.
 */
export async function judgeByComparison(
  { reference, criteria }: Comparison,
  judging: Judging,
  trajectory: Trajectory,
  { askJudge }: Pick<GradeContext, "askJudge">,
): Promise<Finding> {
  const { model } = judging;
  const answer = eventsOf(trajectory.events, "agent.message").at(-1)?.text ?? "";
  const ask = (first: string, second: string) =>
    askJudge({
      prompt: (nonce) => pairPrompt(trajectory, { nonce, first, second, criteria }),
      form: winnerForm,
      model,
    });
  const votes = await collectVotes(judging, async () => {
    const [ahead, behind] = await allOf([ask(answer, reference), ask(reference, answer)]);
    if (ahead === undefined || behind === undefined) throw new Error("a comparison has no verdict");
    const wins = [ahead.verdict.winner === "A", behind.verdict.winner === "B"];
    const losses = [ahead.verdict.winner === "B", behind.verdict.winner === "A"];
    const score = wins.every(Boolean) ? 1 : losses.every(Boolean) ? 0 : 0.5;
    const isSwayed = ahead.verdict.winner !== "tie" && ahead.verdict.winner === behind.verdict.winner;
    const outcome = isSwayed
      ? `tie, since the judge preferred answer ${ahead.verdict.winner} in both orders`
      : outcomes[score];
    return { ...ahead, verdict: { score, reason: `${outcome}: ${ahead.verdict.reason}` } };
  });
  return findingOf(votes, judging, trajectory);
}

const outcomes = {
  1: "better than the reference",
  0.5: "as good as the reference",
  0: "worse than the reference",
};

type Vote = JudgeResponse<ScoreVerdict>;

function collectVotes({ votes }: Judging, ask: () => Promise<Vote>): Promise<readonly Vote[]> {
  return allOf(Array.from({ length: votes }, ask));
}

/** Waits for all, so that everything that was asked is recorded, and then rejects if one did. */
async function allOf<T>(asked: readonly Promise<T>[]): Promise<readonly T[]> {
  await Promise.allSettled(asked);
  return Promise.all(asked);
}

function findingOf(votes: readonly Vote[], { threshold }: Judging, trajectory: Trajectory): Finding {
  const sorted = votes.toSorted((a, b) => a.verdict.score - b.verdict.score);
  const median = sorted[(sorted.length - 1) / 2];
  if (median === undefined) throw new Error("the number of votes is not odd");
  const { model, prompt, verdict } = median;
  const { score, reason } = verdict;
  const passed = score >= threshold;
  const scores = votes.map((vote) => vote.verdict.score);
  const agreeing = scores.filter((one) => one >= threshold === passed).length;
  const shown =
    votes.length === 1 ? "" : ` (votes: ${scores.join(", ")}; ${agreeing} of ${votes.length} agree)`;
  return {
    verdict: passed ? "pass" : "fail",
    score,
    reason: `score ${score}${shown}, at least ${threshold} passes: ${reason}`,
    evidence: judgedEvents(trajectory),
    judge: { model, prompt, threshold, votes: scores },
  };
}

/** Numbers of the events that a judge's verdict on a trial rests on: the agent's calls and its last message. */
export function judgedEvents({ events, calls, agentStarted }: Trajectory): readonly number[] {
  const message = events.findLast((event) => event.type === "agent.message");
  const seqs = calls.filter((call) => call.step === undefined).map((call) => call.seq);
  const found = [...seqs, ...(message === undefined ? [] : [message.seq])].toSorted((a, b) => a - b);
  return found.length === 0 && agentStarted !== undefined ? [agentStarted] : found;
}
