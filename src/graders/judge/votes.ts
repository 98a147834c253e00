import type { GraderResult, GradeContext } from "../grader.ts";
import { McpvalsError } from "../../base/error.ts";
import { agentActs } from "../../trace/agent-acts.ts";
import { finalMessage, type Trajectory } from "../../trace/trajectory.ts";
import type { JudgeResponse } from "./verdict-forms.ts";
import { judgePrompt, pairPrompt, type Rubric } from "./judge-prompt.ts";
import { type ScoreVerdict, scoreFormOf, winnerForm } from "./verdict-forms.ts";
import type { Grade, JudgeRecord } from "../../model/grade.ts";

/** How a judge is asked. */
export interface Judging {
  /** Lowest score that passes. */
  readonly threshold: number;
  /** How often it is asked; an odd number, so that most votes agree with the median. */
  readonly votes: number;
  readonly model?: string | undefined;
  /** A model that is asked the same, to compare. */
  readonly second?: string | undefined;
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
): Promise<GraderResult> {
  const form = scoreFormOf(rubric.levels);
  return judgeBy(judging, trajectory, (model) =>
    askJudge({ prompt: (nonce) => judgePrompt(trajectory, { nonce, rubric }), form, model }),
  );
}

/** An answer to compare with that of the agent, and what decides; "": how well they do the task. */
export interface Comparison {
  readonly reference: string;
  readonly criteria: string;
}

/**
 * Asks a judge whether the agent's answer is better than another, in both orders. A vote has the weaker of both verdicts: 1 is much
 * better, 0.75 slightly, 0.25 slightly worse, 0 much worse; 0.5 is a tie. The score is the median of the votes. A judge that prefers the
 * same position in both orders says nothing of the answers: such a vote counts for neither side, and where it could decide, there is no
 * verdict (`judge/no-verdict`).
 */
export async function judgeByComparison(
  { reference, criteria }: Comparison,
  judging: Judging,
  trajectory: Trajectory,
  { askJudge }: Pick<GradeContext, "askJudge">,
): Promise<GraderResult> {
  const answer = finalMessage(trajectory)?.text ?? "";
  return judgeBy(judging, trajectory, async (model) => {
    const ask = (first: string, second: string) =>
      askJudge({
        prompt: (nonce) => pairPrompt(trajectory, { nonce, first, second, criteria }),
        form: winnerForm,
        model,
      });
    const [ahead, behind] = await allOf([ask(answer, reference), ask(reference, answer)]);
    if (ahead === undefined || behind === undefined) throw new Error("a comparison has no verdict");
    // In the second order the agent's answer is B.
    const [low, high] = [ahead.verdict.score, 1 - behind.verdict.score].toSorted((a, b) => a - b);
    const { reason } = ahead.verdict;
    if (low !== undefined && high !== undefined && low < 0.5 && high > 0.5) {
      const preferred = ahead.verdict.score > 0.5 ? "A" : "B";
      const reported = `the judge preferred answer ${preferred} in both orders: ${reason}`;
      return { ...ahead, verdict: { score: low, contrary: high, reason: reported } };
    }
    const score = Math.max(low ?? 0.5, Math.min(high ?? 0.5, 0.5));
    return { ...ahead, verdict: { score, reason: `${outcomes.get(score)}: ${reason}` } };
  });
}

const outcomes: ReadonlyMap<number, string> = new Map([
  [1, "much better than the reference"],
  [0.75, "slightly better than the reference"],
  [0.5, "as good as the reference"],
  [0.25, "slightly worse than the reference"],
  [0, "much worse than the reference"],
]);

interface VoteVerdict extends ScoreVerdict {
  /** The higher score that the judge gave in the other order, where that is on the other side. */
  readonly contrary?: number;
}

type Vote = JudgeResponse<VoteVerdict>;

/** The finding of the judge, which `ask` asks for a vote. Where there is a second judge, its votes are beside it. */
async function judgeBy(
  judging: Judging,
  trajectory: Trajectory,
  ask: (model: string | undefined) => Promise<Vote>,
): Promise<GraderResult> {
  const votesOf = (model: string | undefined): Promise<readonly Vote[]> =>
    allOf(Array.from({ length: judging.votes }, () => ask(model)));
  const { model, second: other } = judging;
  const asked = votesOf(model);
  const compared =
    other === undefined ? undefined : votesOf(other).then((votes) => opinionOf(votes, judging), toldError);
  const [votes, second] = await allOf([asked, compared] as const);
  const { passed, score, reason, judge } = opinionOf(votes, judging);
  const finding = {
    verdict: passed ? "pass" : "fail",
    score,
    reason: `${scoreText(score, judge)}, at least ${judging.threshold} passes: ${reason}`,
    evidence: judgedEvents(trajectory),
    judge,
  } as const;
  if (second === undefined) return finding;
  if ("problem" in second)
    return { ...finding, reason: `${finding.reason}; the second judge gave no verdict: ${second.problem}` };
  const agrees = second.passed === passed ? "agrees" : "disagrees";
  const reported = `the second judge ${agrees}: ${scoreText(second.score, second.judge)}: ${second.reason}`;
  return { ...finding, reason: `${finding.reason}; ${reported}`, secondJudge: second.judge };
}

/** A judge whose verdict does not count may fail. */
function toldError(cause: unknown): { readonly problem: string } {
  if (!(cause instanceof McpvalsError) || cause.kind === "interrupted") throw cause;
  return { problem: cause.message };
}

/** Waits for all, so that everything that was asked is recorded, and then rejects if one did. */
async function allOf<T extends readonly unknown[]>(
  asked: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(asked);
  return Promise.all(asked);
}

interface Opinion extends ScoreVerdict {
  readonly passed: boolean;
  readonly judge: JudgeRecord;
}

/** Throws `judge/no-verdict` where votes that contradict themselves could decide. */
function opinionOf(votes: readonly Vote[], { threshold }: Judging): Opinion {
  const { model, prompt, question, verdict } = medianOf(votes, lowest);
  const { score, reason } = verdict;
  const passed = score >= threshold;
  if (highest(medianOf(votes, highest)) >= threshold !== passed) {
    const contradicting = votes.filter((vote) => vote.verdict.contrary !== undefined).length;
    const share = votes.length === 1 ? "" : ` in ${contradicting} of ${votes.length} votes`;
    throw new McpvalsError(
      "judge/no-verdict",
      `${model} contradicts itself${share}, so that it does not say which answer is better: ${reason}`,
      { hint: "Ask another model, or ask more often with votes." },
    );
  }
  const scores = votes.map((vote) => vote.verdict.score);
  return { passed, score, reason, judge: { model, prompt, question, threshold, votes: scores } };
}

function lowest({ verdict }: Vote): number {
  return verdict.score;
}

function highest({ verdict }: Vote): number {
  return verdict.contrary ?? verdict.score;
}

function medianOf(votes: readonly Vote[], scoreOf: (vote: Vote) => number): Vote {
  const median = votes.toSorted((a, b) => scoreOf(a) - scoreOf(b))[(votes.length - 1) / 2];
  if (median === undefined) throw new Error("the number of votes is not odd");
  return median;
}

function scoreText(score: number, { votes, threshold }: JudgeRecord): string {
  const agreeing = votes.filter((one) => one >= threshold === score >= threshold).length;
  const shown =
    votes.length === 1 ? "" : ` (votes: ${votes.join(", ")}; ${agreeing} of ${votes.length} agree)`;
  return `score ${score}${shown}`;
}

/** The grade that the same votes give with another threshold. */
export function withThreshold(grade: Grade, before: JudgeRecord, threshold: number): Grade {
  const score = grade.score ?? 0;
  const judge = { ...before, threshold };
  const reported = (by: JudgeRecord): string => `${scoreText(score, by)}, at least ${by.threshold} passes: `;
  const reason = grade.reason.replace(reported(before), () => reported(judge));
  return { ...grade, verdict: score >= threshold ? "pass" : "fail", reason, judge };
}

/** Numbers of the events that a judge's verdict on a trial rests on: the agent's calls and its last message. */
export function judgedEvents(trajectory: Trajectory): readonly number[] {
  const { agentStarted } = trajectory;
  const answer = finalMessage(trajectory);
  const calls = agentActs(trajectory).filter(({ type, call }) => type === "tool" && call !== undefined);
  const found = [...calls, ...(answer === undefined ? [] : [answer])]
    .map(({ seq }) => seq)
    .toSorted((a, b) => a - b);
  return found.length === 0 && agentStarted !== undefined ? [agentStarted] : found;
}
