import type { SerializedError } from "../errors/error.ts";
import { isJsonObject } from "../formats/json.ts";
import type { Task } from "../formats/model.ts";
import type { Grade, Verdict } from "../grade/grader.ts";
import type { Trial } from "../plan/plan.ts";
import { addUsage, type Trajectory } from "../trace/trajectory.ts";
import type { EventOf, TraceEvent, TrialOutcome, Usage } from "../trace/events.ts";
import { warningsOf } from "../trace/warnings.ts";
import { type ToolDigest, toolDigest, toMicroseconds, toolEvents } from "../trace/tool-events.ts";
import type { ProgramRun, RunSummary, RunVerdict, TrialResult } from "./result.ts";

/**
 * Joins how a trial went and what its graders said into its row of the result. A completed trial that was given no
 * grades is one whose graders were interrupted.
 */
export function trialResult(trajectory: Trajectory, given: readonly Grade[] | undefined): TrialResult {
  const { trial, task, events, usage } = trajectory;
  const finished = events.findLast((event) => event.type === "trial.finished");
  const isUngraded = finished?.outcome === "completed" && given === undefined;
  const outcome: TrialOutcome = isUngraded ? "interrupted" : (finished?.outcome ?? "interrupted");
  const grades = given ?? [];
  const verdict = trialVerdict(outcome, grades);
  const warnings = [...warningsOf(trajectory), ...(verdict === "pass" ? nullAgentWarnings(events) : [])];
  return {
    ...identity(trial, task),
    verdict,
    score: averageScore(grades),
    durationMs: toMicroseconds(finished?.durationMs ?? 0),
    grades,
    ...optional("error", finished === undefined ? cutOff : isUngraded ? ungraded : finished.error),
    ...optional("usage", usage),
    ...optional("judgeUsage", judgeUsage(events)),
    ...optional("ran", programRun(events)),
    ...optional("tools", usesOfTools(trajectory)),
    ...optional("mocks", mocksIn(events)),
    ...(warnings.length === 0 ? {} : { warnings }),
  };
}

/** Said of a pass of the agent `null`. */
export const nullAgentWarning =
  "it passes with an agent that does nothing, so its checks show nothing of what an agent does";

function nullAgentWarnings(events: readonly TraceEvent[]): string[] {
  const isNull = events.some((event) => event.type === "agent.started" && event.kind === "null");
  return isNull ? [nullAgentWarning] : [];
}

/** Steps and graders ask the judge; what the graders ask comes after the trial itself. */
function judgeUsage(events: readonly TraceEvent[]): Usage | undefined {
  return events.reduce<Usage | undefined>(
    (sum, event) =>
      event.type === "model.called" && event.purpose === "judge" ? addUsage(sum, event.usage) : sum,
    undefined,
  );
}

function programRun(events: readonly TraceEvent[]): ProgramRun | undefined {
  const started = events.find((event) => event.type === "agent.started");
  if (started?.kind !== "acp" && started?.kind !== "command") return undefined;
  const told = events.filter((event) => event.type === "agent.told");
  return {
    programs: namesOrNull([
      ...[started, ...told].flatMap(({ program }) => program ?? []),
      ...events.flatMap(clientIn),
    ]),
    models: namesOrNull(told.flatMap(({ model }) => model ?? [])),
  };
}

/** What a program says of itself when it connects to a server through the gateway. */
function clientIn(event: TraceEvent): readonly string[] {
  if (event.type !== "mcp.message" || event.client === undefined) return [];
  const { message, direction } = event;
  if (direction !== "client-to-server" || !isJsonObject(message) || message["method"] !== "initialize")
    return [];
  const { params } = message;
  const info = isJsonObject(params) ? params["clientInfo"] : undefined;
  if (!isJsonObject(info) || typeof info["name"] !== "string") return [];
  return [typeof info["version"] === "string" ? `${info["name"]} ${info["version"]}` : info["name"]];
}

function namesOrNull(names: readonly string[]): readonly string[] | null {
  return names.length === 0 ? null : [...new Set(names)];
}

function mocksIn(events: readonly TraceEvent[]): readonly string[] | undefined {
  const mocks = events.flatMap((event) =>
    event.type === "server.started" && event.transport === "mock" ? [event.server] : [],
  );
  return mocks.length === 0 ? undefined : [...new Set(mocks)].toSorted();
}

/** Nothing where there was nothing to use, so that a run of very many trials stays small. */
function usesOfTools(trajectory: Trajectory): ToolDigest | undefined {
  const { trial, task, events } = trajectory;
  if (trial.agent === null || events.length === 0) return undefined;
  const uses = toolEvents(trajectory);
  const servers = startedServers(task, events);
  return uses.length + servers.length === 0 ? undefined : toolDigest(uses, servers);
}

/** A trial may go on without a server that it does not require. */
function startedServers({ servers }: Task, events: readonly TraceEvent[]): readonly string[] {
  const failed = events.flatMap((event) => (event.type === "server.failed" ? [event.server] : []));
  return servers.filter((name) => !failed.includes(name));
}

/** The row of a trial that never started. */
export function skippedTrial(trial: Trial, task: Task, error: SerializedError): TrialResult {
  const verdict: Verdict = "skip";
  return { ...identity(trial, task), verdict, score: null, durationMs: 0, grades: [], error };
}

/** The row of a trial that ended in a way that nobody expected. */
export function brokenTrial(
  trial: Trial,
  task: Task,
  { error, durationMs }: { readonly error: SerializedError; readonly durationMs: number },
): TrialResult {
  const verdict: Verdict = "error";
  return {
    ...identity(trial, task),
    verdict,
    score: null,
    durationMs: toMicroseconds(durationMs),
    grades: [],
    error,
  };
}

/** The grades that a trial was given, read back from its events; undefined when it was not graded. */
export function gradesOf(events: readonly TraceEvent[]): readonly Grade[] | undefined {
  const graded = events.findLast((event): event is EventOf<"trial.graded"> => event.type === "trial.graded");
  return graded?.grades;
}

/** The error of a trial whose process was killed under it. */
const cutOff: SerializedError = {
  code: "run/interrupted",
  kind: "interrupted",
  message: "the trial was cut off before it ended",
};

/** The error of a trial that never started, because the run was interrupted or else because it was told to stop early. */
export function notRun({ interrupted }: { readonly interrupted: boolean }): SerializedError {
  return interrupted
    ? { ...cutOff, message: "the run was interrupted before this trial started" }
    : { code: "run/bailed", kind: "interrupted", message: "not run, because an earlier trial did not pass" };
}

const ungraded: SerializedError = {
  code: "run/interrupted",
  kind: "interrupted",
  message: "the run was interrupted before this trial was graded",
};

function identity(
  trial: Trial,
  task: Task,
): Pick<
  TrialResult,
  "id" | "task" | "form" | "suite" | "difficulty" | "tags" | "labels" | "agent" | "variant" | "attempt"
> {
  const { difficulty, tags = [], labels = {} } = task.portable ?? {};
  return {
    id: trial.id,
    task: trial.task,
    form: task.form,
    ...optional("suite", task.suite),
    ...optional("difficulty", difficulty),
    ...(tags.length === 0 ? {} : { tags }),
    ...(Object.keys(labels).length === 0 ? {} : { labels }),
    agent: trial.agent,
    ...optional("variant", trial.variant),
    attempt: trial.attempt,
  };
}

function optional<K extends string, V>(key: K, value: V | undefined): { readonly [P in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { readonly [P in K]: V });
}

/** Counts trials by verdict. */
export function summarize(trials: readonly TrialResult[]): RunSummary {
  const counts: Record<Verdict, number> = { pass: 0, fail: 0, error: 0, timeout: 0, skip: 0 };
  for (const trial of trials) counts[trial.verdict] += 1;
  return { total: trials.length, ...counts };
}

/**
 * The verdict of a run. An interrupted run is `interrupted`; else one failure makes it `fail`; else it is `incomplete`
 * when something could have changed the verdict (an error, a timeout, a trial that was never run or in which nothing was
 * checked) or when nothing passed; else `pass`.
 */
export function runVerdict(
  trials: readonly TrialResult[],
  { interrupted }: { readonly interrupted: boolean },
): RunVerdict {
  if (interrupted) return "interrupted";
  const { pass, fail, error, timeout } = summarize(trials);
  if (fail > 0) return "fail";
  if (error + timeout > 0 || pass === 0 || trials.some((trial) => wasNotRun(trial) || checkedNothing(trial)))
    return "incomplete";
  return "pass";
}

/**
 * Whether a trial was skipped without being looked at: the run was interrupted or stopped early. A trial that was
 * skipped on purpose says so in a grade, or in an error of another kind.
 */
export function wasNotRun(trial: TrialResult): boolean {
  if (trial.verdict !== "skip") return false;
  return trial.error === undefined ? trial.grades.length === 0 : trial.error.kind === "interrupted";
}

/** Whether a trial came to its end without evidence. One that lacks what its task requires was left out on purpose, and has an error. */
export function checkedNothing(trial: TrialResult): boolean {
  return trial.verdict === "skip" && trial.error === undefined && trial.grades.length > 0;
}

const exitCodes: Readonly<Record<RunVerdict, number>> = { pass: 0, fail: 1, incomplete: 3, interrupted: 130 };

/** The exit code of the process for a run's verdict. */
export function exitCode(verdict: RunVerdict): number {
  return exitCodes[verdict];
}

/** The average score of the grades that passed or failed, 0 to 1; null when none of them has a score. */
export function averageScore(grades: readonly Grade[]): number | null {
  const scores = grades.flatMap(({ verdict, score }) =>
    score === null || verdict === "skip" || verdict === "error" ? [] : [score],
  );
  return scores.length === 0 ? null : scores.reduce((sum, score) => sum + score, 0) / scores.length;
}

/**
 * The verdict of a trial. Only a completed trial is judged by its grades: any failure fails it, else a grade without
 * a verdict makes it `error`, else it passes when at least one grade did.
 */
export function trialVerdict(outcome: TrialOutcome, grades: readonly Grade[]): Verdict {
  switch (outcome) {
    case "completed":
      return gradedVerdict(grades);
    case "error":
    case "timeout":
      return outcome;
    case "interrupted":
    case "not-started":
    case "skipped":
      return "skip";
  }
}

function gradedVerdict(grades: readonly Grade[]): Verdict {
  const verdicts = new Set(grades.map((grade) => grade.verdict));
  return (["fail", "error", "pass"] as const).find((verdict) => verdicts.has(verdict)) ?? "skip";
}
