import type { Task } from "../formats/model.ts";
import type { Grade, TraceEvent } from "../trace/events.ts";
import type { TrialResult } from "./result.ts";

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

/** What is known of a task: an agent that does nothing, or only repeats the prompt, must fail, the oracle must pass, and both must leave all as it was. */
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
  const known = { task, ...trials };
  if (nothing !== undefined && lacksSomething(nothing)) return { ...known, status: "skipped", problems: [] };
  const problems = [
    ...nullProblems(nothing, oracle),
    ...repeatingProblems(repeating),
    ...oracleProblems(task, oracle),
    ...stateProblems(differencesOf(nothing), differencesOf(oracle)),
  ];
  return { ...known, status: statusOf(problems), problems };
}

function statusOf(problems: readonly ProofProblem[]): ProofStatus {
  if (problems.length === 0) return "proven";
  return problems.every(({ kind }) => kind === "broken" || kind === "interrupted") ? "open" : "not-proven";
}

function lacksSomething({ result }: ProofTrial): boolean {
  return result.verdict === "skip" && result.error?.code === "task/missing-requirement";
}

function nullProblems(trial: ProofTrial | undefined, oracle: ProofTrial | undefined): ProofProblem[] {
  const agent = "null";
  if (trial === undefined) return [{ agent, kind: "interrupted", message: "it did not run" }];
  const { verdict, grades } = trial.result;
  switch (verdict) {
    case "fail":
      return [];
    case "pass":
      return [checksNothing(agent, "an agent that does nothing passes", grades)];
    case "skip":
      return [skipped(agent, trial)];
    case "error":
    case "timeout":
      return [
        broken(agent, trial, isMendedByFailing(trial, oracle) ? "; let its verify steps fail instead" : ""),
      ];
  }
}

/** Only that it passes says something: anything may become of an answer that makes no sense. */
function repeatingProblems(trial: ProofTrial | undefined): ProofProblem[] {
  if (trial?.result.verdict !== "pass") return [];
  const who = "an agent that only says the prompt again passes";
  return [checksNothing("repeating", who, trial.result.grades)];
}

function checksNothing(agent: ProofProblem["agent"], who: string, grades: readonly Grade[]): ProofProblem {
  const held = grades.map(({ grader, reason }) => `${grader}: ${reason}`).join("; ");
  const message = `${who}, so the task checks nothing that an agent does: ${held}`;
  return { agent, kind: "checks-nothing", message };
}

/** Errors of verify steps that look for what an agent should have made. */
const codesOfSteps: readonly string[] = ["step/cannot-run", "step/broken-script", "step/timeout"];

/** Whether a verify step broke for the sole reason that nothing was done. */
function isMendedByFailing({ result }: ProofTrial, oracle: ProofTrial | undefined): boolean {
  const isSolved = oracle?.result.verdict === "pass" || oracle?.result.verdict === "fail";
  return isSolved && codesOfSteps.includes(result.error?.code ?? "");
}

function oracleProblems({ portable }: Task, trial: ProofTrial | undefined): ProofProblem[] {
  const agent = "oracle";
  if (portable?.solution === undefined) {
    const message = "the task has no solution, so nothing shows that it can be solved";
    return [{ agent, kind: "no-solution", message }];
  }
  if (trial === undefined) return [{ agent, kind: "interrupted", message: "it did not run" }];
  switch (trial.result.verdict) {
    case "pass":
      return [];
    case "fail":
      return [{ agent, kind: "fails", message: "the task's own solution does not pass" }];
    case "skip":
      return [skipped(agent, trial)];
    case "error":
    case "timeout":
      return [broken(agent, trial)];
  }
}

function skipped(agent: "null" | "oracle", { result }: ProofTrial): ProofProblem {
  if (result.error !== undefined) return { agent, kind: "interrupted", message: result.error.message };
  const reasons = result.grades.map((grade) => grade.reason).join("; ");
  return { agent, kind: "checks-nothing", message: `nothing was checked: ${reasons}` };
}

function broken(agent: "null" | "oracle", { result }: ProofTrial, hint = ""): ProofProblem {
  const who = agent === "null" ? "with an agent that does nothing" : "with the task's own solution";
  const what = result.verdict === "timeout" ? "runs out of time" : "breaks";
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
  if (ofNull.length > 0 && JSON.stringify(ofNull) === JSON.stringify(ofOracle)) {
    return [stateProblem("both", ofNull)];
  }
  return [
    ...(ofNull.length > 0 ? [stateProblem("null", ofNull)] : []),
    ...(ofOracle.length > 0 ? [stateProblem("oracle", ofOracle)] : []),
  ];
}

function stateProblem(agent: ProofProblem["agent"], differences: readonly string[]): ProofProblem {
  const isLeft = differences.every((difference) => difference.includes(" was not there before: "));
  const message = `once cleanup is done, not everything is as it was before setup; ${isLeft ? "remove it" : "undo that"} in cleanup: the state after a task has to be the state before it`;
  return { agent, kind: "state", message, differences };
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
