import { resolve } from "node:path";
import { conversationOf } from "../agents/transcripts/conversation.ts";
import type { Transcript } from "../agents/transcripts/read-transcript.ts";
import { McpvalsError, serializeError } from "../base/error.ts";
import { withoutUndefined } from "../base/json.ts";
import { version } from "../base/version.ts";
import { shortened } from "../base/visible-text.ts";
import { defaultLimits } from "../formats/assemble-eval.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import { transcriptAgent } from "../model/agent.ts";
import type { Eval } from "../model/eval.ts";
import { type Emit, type EventOf, eventsOf, type TraceEvent } from "../model/event.ts";
import type { Grade } from "../model/grade.ts";
import type { Plan, Trial } from "../model/plan.ts";
import { emittingCosts, type Prices } from "../model/prices.ts";
import type { RunResult, TrialResult } from "../model/result.ts";
import type { Task } from "../model/task.ts";
import { fingerprintsOf } from "../report/fingerprint.ts";
import { averageScore, RunTally, trialResult, trialVerdict } from "../report/result.ts";
import { createRunFolder, defaultRunsFolder, refusePlanted, runId, writeJson } from "../store/run-folder.ts";
import { createRecorder } from "../trace/recorder.ts";
import { createRedactor, type Secret } from "../trace/redact.ts";
import { buildTrajectory, type Trajectory } from "../trace/trajectory.ts";
import { createGrading, type GradeTrial } from "./grade-trial.ts";

/** How to import sessions. */
export interface ImportOptions {
  readonly cwd: string;
  /** Folder that gets the run's folder, relative to `cwd`. Default: `.mcpvals/runs`. */
  readonly output?: string;
  /** Names of servers that the sessions had, where transcripts do not tell them apart from tools of the program. */
  readonly servers: readonly string[];
  /** What models cost; absent: only what transcripts say of it is known. */
  readonly prices?: Prices | undefined;
  /** Values that must never be written. */
  readonly secrets: readonly Secret[];
  readonly signal: AbortSignal;
}

export interface ImportedRun {
  readonly result: RunResult;
  readonly folder: string;
}

/**
 * Writes sessions as the trials of a new run, so that everything that reads runs reads them. Each is a task with the turns of its user. No session has a verdict, since
 * nothing was expected of it. An incomplete folder is removed. Throws `store/unwritable`, what the sessions throw, and the signal's reason.
 */
export async function importRun(
  sessions: AsyncIterable<Transcript>,
  { cwd, output, servers, prices, secrets, signal }: ImportOptions,
): Promise<ImportedRun> {
  const started = performance.now();
  const startedAt = new Date(performance.timeOrigin + started).toISOString();
  const redact = createRedactor(secrets);
  if (output === undefined) refusePlanted(cwd);
  const environment = { mcpvals: version, node: process.versions.node, platform: process.platform };
  const agents = new Map<string, Plan["agents"][number]>();
  const [tasks, trials, results]: [Task[], Trial[], TrialResult[]] = [[], [], []];
  const head = { id: runId(startedAt), startedAt, environment: { ...environment, agents: [], servers: {} } };
  await using validator = new SchemaValidator();
  const grade = createGrading(
    { eval: nothingAsked, env: {} },
    {
      validateSchema: validator.validate.bind(validator),
      signal,
      accounts: { most: 1, limits: new Map() },
    },
  );
  // The plan is written last: what an interrupted import leaves is not a run.
  await using folder = await createRunFolder(resolve(cwd, output ?? defaultRunsFolder), head);
  try {
    const tally = new RunTally({ agents: [] });
    for await (const session of sessions) {
      signal.throwIfAborted();
      const { program } = session.format;
      agents.set(program, { name: program, type: transcriptAgent, preset: program });
      const id = `t${trials.length + 1}`;
      const events: TraceEvent[] = [];
      let at = session.entries[0]?.at ?? 0;
      let broken: unknown;
      const emit = createRecorder(id, {
        redact,
        now: () => at,
        events,
        onEvent: (event, json) => folder.append(event, json),
        onBroken: (error) => (broken ??= error),
      });
      const task = nameOf(redact.fromOutside(wordsOf(session)), tasks);
      const trial: Trial = { id, task, agent: program, attempt: 1 };
      recordSession(session, {
        trial,
        servers,
        emit: prices === undefined ? emit : emittingCosts(emit, prices),
        setTime: (time) => (at = time),
        brokenBy: () => broken,
      });
      const played = taskOf(task, eventsOf(events, "turn.started"));
      const trajectory = buildTrajectory(trial, played, events);
      const result = trialResult(trajectory, await gradesOf(trajectory, emit, grade));
      trials.push(trial);
      tasks.push(played);
      results.push(result);
      tally.add(trajectory, result);
      await folder.commit();
    }
    const plan: Plan = {
      schema: "mcpvals.plan/1",
      name: "imported sessions",
      agents: [...agents.values()],
      tasks,
      trials,
      concurrency: 1,
    };
    const known = { ...head, environment: { ...head.environment, agents: plan.agents } };
    const durationMs = Math.round(performance.now() - started);
    const fingerprints = fingerprintsOf(tasks);
    const result = tally.result(
      { ...known, durationMs, fingerprints, comparison: undefined },
      results,
      plan,
      {
        interrupted: false,
      },
    );
    await writeJson(folder.path, "run.json", known);
    await folder.finish(result, plan);
    return { result, folder: folder.path };
  } catch (error) {
    await folder.discard();
    throw error;
  }
}

/** An eval that expects nothing. */
const nothingAsked: Eval = {
  name: "imported sessions",
  servers: {},
  agents: [],
  tasks: [],
  trials: 1,
  limits: defaultLimits,
  reporters: [],
};

const maxNameLength = 60;

/** The first words of the user. */
function wordsOf({ entries, format: { program }, session }: Transcript): string {
  const first = entries.find((entry) => entry.kind === "user");
  const words = (first?.text ?? "").replaceAll(/\s+/g, " ").trim();
  return words === "" ? `${program} ${session ?? "session"}` : shortened(words, maxNameLength);
}

/** The words as the name of a task; with a number, where another session has the same ones. */
function nameOf(words: string, tasks: readonly Task[]): string {
  const taken = new Set(tasks.map(({ name }) => name));
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? words : `${words} (${number})`;
    if (!taken.has(name)) return name;
  }
}

function taskOf(name: string, turns: readonly EventOf<"turn.started">[]): Task {
  return {
    name,
    form: "workflow",
    servers: [],
    turns: turns.map(({ user }) => ({ user })),
    expectTools: [],
    verify: [],
    parallel: false,
  };
}

/** Grades a session by what every workflow is graded by, which expects nothing here, and records the grades. */
async function gradesOf(
  trajectory: Trajectory,
  emit: Emit,
  grade: GradeTrial,
): Promise<readonly Grade[] | undefined> {
  const finished = trajectory.events.findLast((event) => event.type === "trial.finished");
  if (finished === undefined) return undefined;
  const grades = finished.outcome === "completed" ? await grade(trajectory, emit) : [];
  const verdict = trialVerdict(finished.outcome, grades);
  emit({ type: "trial.graded", verdict, score: averageScore(grades), grades });
  return grades;
}

interface Recording {
  readonly trial: Trial;
  /** Names of servers that were given. */
  readonly servers: readonly string[];
  readonly emit: Emit;
  /** Sets the time of the events that are recorded from then on. */
  readonly setTime: (at: number) => void;
  /** What broke the record. */
  readonly brokenBy: () => unknown;
}

/** Records what a transcript says as the events of a trial. */
function recordSession(session: Transcript, { trial, servers, emit, setTime, brokenBy }: Recording): void {
  const { entries, format, file, sha256, session: id, damage } = session;
  const { events, remarks, durationMs, failure } = conversationOf(session, servers);
  const [first, last] = [entries[0]?.at ?? 0, entries.at(-1)?.at ?? 0];
  setTime(first);
  emit({ type: "trial.started", task: trial.task, agent: trial.agent, attempt: 1 });
  const { program } = format;
  emit(withoutUndefined({ type: "transcript.read" as const, program, file, sha256, session: id, remarks }));
  emit({ type: "phase.started", phase: "agent" });
  emit({ type: "agent.started", agent: program, kind: transcriptAgent });
  for (const { at, event } of events) {
    setTime(at);
    emit(event);
  }
  setTime(last);
  emit({ type: "phase.finished", phase: "agent", durationMs });
  const broken = brokenBy();
  const error = damage === undefined ? (broken ?? failure) : damaged(file, damage);
  const outcome = error === undefined ? "completed" : "error";
  const reason = error === undefined ? {} : { error: serializeError(error) };
  emit({ type: "trial.finished", outcome, durationMs: last - first, ...reason });
}

function damaged(file: string, damage: string): McpvalsError {
  return new McpvalsError("transcript/damaged", `the transcript ${file} was not read whole: ${damage}`);
}
