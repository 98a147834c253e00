import type { Task } from "../model/task.ts";
import type { TraceEvent } from "../model/event.ts";
import type { TrialResult } from "../model/result.ts";

/** A trial that is to prove something of its task. */
export interface ProofTrial {
  readonly result: TrialResult;
  /** What differs between before setup and after cleanup; undefined when that was not looked at. */
  readonly differences: readonly string[] | undefined;
  /** What changed during the trial and may be the work of something else. */
  readonly untouched: readonly string[];
  /** What `collectEvidence` gives. */
  readonly evidence: readonly TraceEvent[];
}

/**
 * `not-proven`: the task is wrong. `open`: something broke, so that nothing can be said. `skipped`: it lacks what it
 * requires.
 */
export type ProofStatus = "proven" | "not-proven" | "open" | "skipped";

/** One thing that is not as it has to be. */
export interface ProofProblem {
  /** `both`: it is the same with either. */
  readonly agent: "null" | "repeating" | "oracle" | "both";
  readonly kind: "checks-nothing" | "no-solution" | "fails" | "state" | "broken" | "interrupted";
  readonly message: string;
  /** What differs, for `state`. */
  readonly differences?: readonly string[];
}

/** What is known of a task: an agent that does nothing, or only repeats the prompt, must fail, the oracle must pass where the task can have a solution, and both must leave all as it was. */
export interface TaskProof {
  readonly task: Task;
  /** The set of servers; absent when the eval has no variants. */
  readonly variant?: string;
  readonly status: ProofStatus;
  readonly problems: readonly ProofProblem[];
  readonly nothing: ProofTrial | undefined;
  /** Of an agent that repeats the prompt; undefined where that could not matter, or it did not run. */
  readonly repeating?: ProofTrial | undefined;
  /** Undefined when the task has no solution, or nothing came of it. */
  readonly oracle: ProofTrial | undefined;
}

/** Judges a task by the trials of both agents. */
export function proveTask(
  task: Task,
  trials: Pick<TaskProof, "variant" | "nothing" | "repeating" | "oracle">,
): TaskProof {
  const { nothing, repeating, oracle } = trials;
  const { verdict, error } = nothing?.result ?? {};
  if (verdict === "skip" && error?.code === "task/missing-requirement")
    return { task, ...trials, status: "skipped", problems: [] };
  const problems = [
    ...(failsIdle(trials) ? [] : nullProblems(nothing, oracle)),
    // Only that it passes says something: the result of an answer that makes no sense is arbitrary.
    ...(repeating?.result.verdict === "pass"
      ? [checksNothing("repeating", "an agent that only says the prompt again passes", repeating)]
      : []),
    ...oracleProblems(task, oracle),
    ...stateProblems(differencesOf(nothing), differencesOf(oracle)),
  ];
  const isOpen = problems.every(({ kind }) => kind === "broken" || kind === "interrupted");
  const status = problems.length === 0 ? "proven" : isOpen ? "open" : "not-proven";
  return { task, ...trials, status, problems };
}

/**
 * Whether a task fails when the agent does nothing. Graders of the answer have nothing to judge then: that of the agent that repeats the prompt
 * must fail.
 */
function failsIdle({ nothing, repeating }: Pick<TaskProof, "nothing" | "repeating">): boolean {
  const { verdict, error } = nothing?.result ?? {};
  const isUnjudged = verdict === "skip" && error === undefined;
  return verdict === "fail" || (isUnjudged && repeating?.result.verdict === "fail");
}

/** Whether a task was seen to fail with both agents that do not do what it asks for. */
export function canFail({ nothing, repeating }: Pick<TaskProof, "nothing" | "repeating">): boolean {
  return (
    failsIdle({ nothing, repeating }) && (repeating === undefined || repeating.result.verdict === "fail")
  );
}

function nullProblems(trial: ProofTrial | undefined, oracle: ProofTrial | undefined): ProofProblem[] {
  const agent = "null";
  if (trial?.result.verdict === "pass")
    return [checksNothing(agent, "an agent that does nothing passes", trial)];
  // Verify steps that break only because nothing was done.
  const isSolved = oracle?.result.verdict === "pass" || oracle?.result.verdict === "fail";
  const isMended = isSolved && stepCodes.includes(trial?.result.error?.code ?? "");
  return [unjudged(agent, trial, isMended ? "; let its verify steps fail instead" : "")];
}

/** Errors of verify steps that look for what an agent should have made. */
const stepCodes: readonly string[] = ["step/cannot-run", "step/broken-script", "step/timeout"];

function checksNothing(agent: ProofProblem["agent"], who: string, { result }: ProofTrial): ProofProblem {
  const judged = result.grades.filter(({ verdict }) => verdict !== "skip");
  const held = judged.map(({ grader, reason }) => `${grader}: ${reason}`).join("; ");
  const message = `${who}, so the task checks nothing that an agent does: ${held}`;
  return { agent, kind: "checks-nothing", message };
}

/** Whether a task could have a solution that the oracle plays: workflows and the format of waza have no place for one. */
export function canHaveSolution({ form, portable }: Pick<Task, "form" | "portable">): boolean {
  return form === "task" && portable?.format !== "waza";
}

function oracleProblems(task: Task, trial: ProofTrial | undefined): ProofProblem[] {
  const agent = "oracle";
  if (!canHaveSolution(task)) return [];
  if (task.portable?.solution === undefined) {
    const message = "the task has no solution, so nothing shows that it can be solved";
    return [{ agent, kind: "no-solution", message }];
  }
  if (trial?.result.verdict === "pass") return [];
  if (trial?.result.verdict === "fail")
    return [{ agent, kind: "fails", message: "the task's own solution does not pass" }];
  return [unjudged(agent, trial)];
}

/** A trial that did not run, was skipped or broke. */
function unjudged(agent: "null" | "oracle", trial: ProofTrial | undefined, hint = ""): ProofProblem {
  if (trial === undefined) return { agent, kind: "interrupted", message: "it did not run" };
  const { verdict, error, grades } = trial.result;
  if (verdict === "skip") {
    if (error !== undefined) return { agent, kind: "interrupted", message: error.message };
    const reasons = grades.map((grade) => grade.reason).join("; ");
    return { agent, kind: "checks-nothing", message: `nothing was checked: ${reasons}` };
  }
  const who = agent === "null" ? "with an agent that does nothing" : "with the task's own solution";
  const what = verdict === "timeout" ? "runs out of time" : "breaks";
  return { agent, kind: "broken", message: `${who} the trial ${what}${hint}` };
}

/** A trial that was cut off may have left anything behind. */
function differencesOf(trial: ProofTrial | undefined): readonly string[] {
  return trial === undefined || wasCutOff(trial) ? [] : (trial.differences ?? []);
}

/** Whether a trial did not come to its end, since the run was interrupted. */
export function wasCutOff({ result }: ProofTrial): boolean {
  return result.error?.kind === "interrupted";
}

function stateProblems(ofNull: readonly string[], ofOracle: readonly string[]): ProofProblem[] {
  const isSame = JSON.stringify(ofNull) === JSON.stringify(ofOracle);
  const all: readonly (readonly [ProofProblem["agent"], readonly string[]])[] = isSame
    ? [["both", ofNull]]
    : [
        ["null", ofNull],
        ["oracle", ofOracle],
      ];
  return all.flatMap(([agent, differences]): ProofProblem[] => {
    if (differences.length === 0) return [];
    const isLeft = differences.every((difference) => difference.includes(" was not there before: "));
    const message = `once cleanup is done, not everything is as it was before setup; ${isLeft ? "remove it" : "undo that"} in cleanup: the state after a task has to be the state before it`;
    return [{ agent, kind: "state", message, differences }];
  });
}

/** With what the differences in a task's own folder begin. */
export const taskFolderName = "task folder";

/** Whether a difference is in the task's own folder, where others may work as well. */
export function isInTaskFolder(difference: string): boolean {
  return difference.startsWith(`${taskFolderName}/`);
}

/** What `state.compared` says of a trial. */
export function comparisonIn(events: readonly TraceEvent[]): Pick<ProofTrial, "differences" | "untouched"> {
  const compared = events.findLast((event) => event.type === "state.compared");
  return { differences: compared?.differences, untouched: compared?.untouched ?? [] };
}

/**
 * 130: it was interrupted; 0: all proven that could be tried; 1: one is not; 3: nothing is wrong, but not everything is
 * known.
 */
export function proofExitCode(
  proofs: readonly TaskProof[],
  { interrupted }: { readonly interrupted: boolean },
): 0 | 1 | 3 | 130 {
  if (interrupted) return 130;
  if (proofs.some(({ status }) => status === "not-proven")) return 1;
  if (proofs.some(({ status }) => status === "open")) return 3;
  return proofs.some(({ status }) => status === "proven") ? 0 : 3;
}
