import type { SerializedError } from "../errors/error.ts";
import { isJsonObject } from "../formats/json.ts";
import type { Task } from "../formats/model.ts";
import type { Grade, Verdict } from "../grade/grader.ts";
import type { Trial } from "../plan/plan.ts";
import { addUsage } from "../trace/build-trajectory.ts";
import { type Trajectory } from "../trace/trajectory.ts";
import type { EventOf, TraceEvent, TrialOutcome, Usage } from "../trace/events.ts";
import { type ToolDigest, toolDigest, toolEvents } from "../trace/tool-events.ts";
import type { ProgramRun, TrialResult } from "./result.ts";
import { averageScore, trialVerdict } from "./summarize.ts";

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
  const warnings = [...trajectory.warnings, ...(verdict === "pass" ? nullAgentWarnings(events) : [])];
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

/** More digits are noise. */
function toMicroseconds(milliseconds: number): number {
  return Math.round(milliseconds * 1000) / 1000;
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
