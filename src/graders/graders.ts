import { countFindings } from "../model/alike-findings.ts";
import { searchableText } from "../expect/tool-result.ts";
import { containsText, describeState, meetsState, stateParts } from "../expect/contains-text.ts";
import { suggestion } from "../base/did-you-mean.ts";
import { assertionKinds, graderOfSet, type Task } from "../model/model.ts";
import {
  type EndedTurn,
  lastAnswered,
  type Trajectory,
  turnEnds,
  type TurnView,
} from "../trace/trajectory.ts";
import { createGrader, type Grader, passOrFail, skip } from "./grader.ts";
import { metricOf, metrics, runMeasures } from "./measurements/metrics.ts";
import { toolCallHealth, toolInvocationOrder } from "./tool-calls.ts";
import { verifySteps } from "./verify-steps.ts";
import type { ExpectedState } from "../model/fields.ts";

/**
 * End-to-End Success of the MCPVals specification, 6.1: the last assistant message or the last tool result of a turn
 * (the one that arrived last) meets the turn's `expectedState`, see `meetsState`. The score is the share of expected states
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

function outcomeOf(state: string | ExpectedState, turn: TurnView | undefined, index: number): Outcome {
  const [name, wanted] = [`turn ${index + 1}`, describeState(state)];
  const { contains, in: where = "any" } = stateParts(state);
  if (turn === undefined) {
    const quoted = typeof state === "string" ? JSON.stringify(state) : `a text that ${wanted}`;
    return { reached: false, reason: `${name} was never reached, ${quoted} expected`, evidence: [] };
  }
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
  const told = found === undefined ? places : [found];
  const evidence = told.flatMap(({ seq }) => seq ?? []);
  if (found !== undefined)
    return { reached: true, reason: `${name}: the last ${found.what} ${wanted}`, evidence };
  const isPart = contains !== undefined && places.some(({ text }) => containsText(text, contains));
  const note = isPart && typeof state === "string" ? ", only as a part of another number" : "";
  const [only] = places;
  const subject =
    where === "any"
      ? `neither the last assistant message nor the last tool result ${wanted}`
      : only?.seq === undefined
        ? `there is no ${only?.what} that ${wanted}`
        : `expected that the last ${only.what} ${wanted}`;
  return { reached: false, reason: `${name}: ${subject}${note}`, evidence };
}

/**
 * Did the agent itself end each of its turns? One that refused, or was cut off at a limit of tokens or of steps, has not
 * finished its task. Score = turns that the agent ended / turns that were played. It applies only if a turn ended otherwise.
 */
const turnEndsGrader: Grader = {
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

/** The findings of a trial of `mcpvals check`. An error fails it; without evidence for the part of the check there is nothing to judge. */
const findingsGrader = createGrader("findings", async ({ task, ...trajectory }, context) => {
  const { check } = task;
  if (check === undefined) return skip("not a check");
  // Most runs check no server, so that the rules are loaded only here.
  const [{ findDefects }, { readCheck }, { evidenceIn }] = await Promise.all([
    import("../check/catalogue.ts"),
    import("../check/check-view.ts"),
    import("../check/evidence.ts"),
  ]);
  const view = readCheck({ task, ...trajectory }, check);
  const findings = await findDefects(view, context);
  const failed = findings.some(({ severity }) => severity === "error");
  const { lack, evidence } = evidenceIn(view);
  if (!failed && lack !== undefined) return { ...skip(lack), findings };
  const cited = [...new Set(findings.flatMap(({ evidence: each }) => each))].toSorted((a, b) => a - b);
  return {
    verdict: failed ? "fail" : "pass",
    score: failed ? 0 : 1,
    reason: countFindings(findings),
    evidence: cited.length > 0 ? cited : evidence.slice(0, 1),
    findings,
  };
});

/** The graders that need nothing but a trajectory, by the form of task that they grade. */
const pureGraders: Readonly<Record<Task["form"], readonly Grader[]>> = {
  workflow: [endToEndSuccess, toolInvocationOrder, toolCallHealth, turnEndsGrader],
  "tool-test": [toolCallHealth, verifySteps],
  task: [verifySteps, turnEndsGrader],
  check: [findingsGrader],
};

/** Name of the grades of the judge of workflows. */
export const judgeName = "llm-judge";

/** The graders of a task; the judge grades what an agent did, so only tasks with user turns. */
export function gradersOf(task: Task, judge: Grader | undefined): readonly Grader[] {
  const graders = [...pureGraders[task.form], ...assertionGraders(task)];
  return judge === undefined || !canBeJudged(task) ? graders : [...graders, judge];
}

/** The graders of a task's sets of assertions: one for all that name the same one. Their code is loaded when they grade. */
function assertionGraders({ portable }: Task): readonly Grader[] {
  const groups = [...Map.groupBy(portable?.assertions ?? [], graderOfSet)];
  return groups
    .filter(([, sets]) => sets.some((set) => assertionKinds(set).length > 0))
    .map(([name, sets]) =>
      createGrader(name, async (trajectory) =>
        (await import("./assertions.ts")).gradeAssertions(sets, trajectory),
      ),
    );
}

/** Whether the judge of workflows has something to judge in a task. */
export function canBeJudged({ turns, form }: Task): boolean {
  return turns.length > 0 && form !== "task";
}

/** The names of the built-in graders of a task, that of the judge included. */
export function builtInNames(task: Task): readonly string[] {
  const names = gradersOf(task, undefined).map(({ name }) => name);
  return canBeJudged(task) ? [...names, judgeName] : names;
}

/** The names of the graders of a task, those that its files declare included. */
function graderNames(task: Task): readonly string[] {
  return [...builtInNames(task), ...(task.graders ?? []).map(({ name }) => name)];
}

/** What is wrong with a threshold. */
export interface ThresholdProblem {
  readonly kind: "unknown" | "too high";
  readonly message: string;
  readonly hint: string;
}

/**
 * Why nothing of what the tasks have can be compared with a threshold, or not with this one; undefined: it can. Metrics are measured of
 * agents; a grader of the same name takes their place.
 */
export function thresholdProblem(
  name: string,
  threshold: number,
  tasks: readonly Task[],
): ThresholdProblem | undefined {
  const graders = scoreNames(tasks);
  const measured = tasks.some(({ turns }) => turns.length > 0) ? Object.keys(metrics) : [];
  const known = [...new Set([...graders, ...measured])];
  if (!known.includes(name))
    return {
      kind: "unknown",
      message: `no task has a grader ${JSON.stringify(name)}, so that nothing can be compared with its threshold`,
      hint: suggestion(name, known, "thresholds"),
    };
  if (threshold <= 1 || (!graders.includes(name) && metricOf(name)?.isShare !== true)) return undefined;
  return {
    kind: "too high",
    message: `thresholds.${name} must be at most 1`,
    hint: "It is compared with a share or a score: write 80 % as 0.8.",
  };
}

/** Whether a run could miss this threshold: no share and no score is below 0, and no share above 1. */
export function canBeMissed(name: string, threshold: number, tasks: readonly Task[]): boolean {
  const metric = scoreNames(tasks).includes(name) ? undefined : metricOf(name);
  if (metric === undefined || metric.isGood === true) return threshold > 0;
  return metric.isShare !== true || threshold < 1;
}

function scoreNames(tasks: readonly Task[]): readonly string[] {
  return [...runMeasures, ...tasks.flatMap(graderNames)];
}

/** What to do about a metric of a waza eval that no grader of the tasks measures; undefined when one does. */
export function unknownGrader(name: string, tasks: readonly Task[]): string | undefined {
  const known = new Set(scoreNames(tasks));
  return known.has(name) ? undefined : suggestion(name, [...known], "thresholds");
}
