import { resolve } from "node:path";
import { conversationOf } from "../agents/transcripts/conversation.ts";
import type { Transcript } from "../agents/transcripts/read-transcript.ts";
import { agentPresets } from "../agents/programs/presets.ts";
import { agentOf } from "../agents/transcripts/transcript.ts";
import { McpvalsError, serializeError } from "../base/error.ts";
import { exact, withoutUndefined } from "../base/json.ts";
import { version } from "../base/version.ts";
import { shortened } from "../base/visible-text.ts";
import { equalJson } from "../expect/json-difference.ts";
import { defaultLimits } from "../formats/assemble-eval.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import { type AgentSummary, transcriptAgent } from "../model/agent.ts";
import type { AtifRecord } from "../model/atif.ts";
import type { Eval } from "../model/eval.ts";
import { type Emit, type EventOf, eventsOf, type TraceEvent } from "../model/event.ts";
import type { Grade, Verdict } from "../model/grade.ts";
import type { Plan, Trial, VariantPlan } from "../model/plan.ts";
import { emittingCosts, type Prices } from "../model/prices.ts";
import type { RunResult, TrialResult } from "../model/result.ts";
import type { Task } from "../model/task.ts";
import { fingerprintOfJson, fingerprintsOf } from "../report/fingerprint.ts";
import { taskKey } from "../report/rates.ts";
import { averageScore, RunTally, trialResult, trialVerdict } from "../report/result.ts";
import { createRunFolder, defaultRunsFolder, refusePlanted, runId, writeJson } from "../store/run-folder.ts";
import { createRecorder } from "../trace/recorder.ts";
import { createRedactor, type Redact, type Secret } from "../trace/redact.ts";
import { buildTrajectory, type Trajectory } from "../trace/trajectory.ts";
import { graderKinds } from "../graders/kinds.ts";
import { createGrading, type GradeTrial, needsOutside } from "./grade-trial.ts";
import { finishRun } from "./finish-run.ts";

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
 * Writes sessions as the trials of a new run, so that everything that reads runs reads them. Each is a task with the turns of its user, which has no verdict, since
 * nothing was expected of it. What mcpvals itself has recorded is graded as its task says, by its graders that need nothing but the record. An incomplete folder is
 * removed. Throws `store/unwritable`, what the sessions throw, and the signal's reason.
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
  const imported = new ImportedTrials();
  const results: TrialResult[] = [];
  const head = { id: runId(startedAt), startedAt, environment: { ...environment, agents: [], servers: {} } };
  await using validator = new SchemaValidator();
  const grade = createGrading(
    { eval: nothingAsked, env: {} },
    {
      validateSchema: validator.validate.bind(validator),
      signal,
      accounts: { most: 1, limits: new Map() },
      isClosed: true,
    },
  );
  // The plan is written last: what an interrupted import leaves is not a run.
  await using folder = await createRunFolder(resolve(cwd, output ?? defaultRunsFolder), head);
  try {
    const tally = new RunTally({ agents: [] });
    for await (const session of sessions) {
      signal.throwIfAborted();
      const { record } = session.head;
      const trial =
        record === undefined
          ? imported.beginSession(session, redact)
          : imported.addRecord(redact(knownRecord(record, session)), session.file);
      const events: TraceEvent[] = [];
      let at = session.entries[0]?.at ?? 0;
      let broken: unknown;
      const recorder = createRecorder(trial.id, {
        redact: record === undefined ? redact : keepingMarks(redact),
        now: () => at,
        events,
        onEvent: (event, json) => folder.append(event, json),
        onBroken: (error) => (broken ??= error),
      });
      const emit = prices === undefined ? recorder : emittingCosts(recorder, prices);
      const setTime = (time: number): void => void (at = time);
      if (record === undefined) {
        recordSession(session, { trial, servers, emit, setTime, brokenBy: () => broken });
        imported.endSession(trial, eventsOf(events, "turn.started"));
      } else {
        replayRecord(record, { session, emit, setTime });
        if (broken !== undefined) throw broken;
      }
      const trajectory = buildTrajectory(trial, imported.taskOf(trial), events);
      const result = trialResult(trajectory, await gradesOf(trajectory, { emit, grade, record }));
      results.push(result);
      tally.add(trajectory, result);
      await folder.commit();
    }
    const plan = imported.plan();
    const known = { ...head, environment: { ...head.environment, agents: plan.agents } };
    const durationMs = Math.round(performance.now() - started);
    const fingerprints = fingerprintsOf(plan.tasks);
    const result = tally.result(
      { ...known, durationMs, fingerprints, comparison: undefined },
      results,
      plan,
      {
        interrupted: false,
      },
    );
    await writeJson(folder.path, "run.json", known);
    await finishRun(folder, result, plan);
    return { result, folder: folder.path };
  } catch (error) {
    await folder.discard();
    throw error;
  }
}

/** The plan of the trials that are imported, as it grows. */
class ImportedTrials {
  readonly #agents = new Map<string, AgentSummary>();
  readonly #tasks = new Map<string, Task>();
  readonly #trials: Trial[] = [];
  /** Number of attempts so far, by task, agent and variant. */
  readonly #attempts = new Map<string, number>();
  /** Names of the tasks of all trials. */
  readonly #begun = new Set<string>();
  /** Files, by the run and the trial that they have the record of. */
  readonly #files = new Map<string, string>();
  /** Names of servers, by variant and task. */
  readonly #variants = new Map<string, Record<string, readonly string[]>>();
  /** Names of tasks that have attempts, by what these have in common. */
  readonly #repeated = new Map<string, string>();

  /** The trial of a session, whose task is known when it was read. */
  beginSession(session: Transcript, redact: Redact): Trial {
    const { head, file } = session;
    const name = redact.fromOutside(agentOf(session));
    const preset = agentPresets.find((each) => each === name);
    const agent = this.#nameOfAgent({ name, type: transcriptAgent, ...exact({ preset }) });
    const key = head.attemptOf === undefined ? undefined : `${file}\n${head.attemptOf}`;
    const task =
      (key === undefined ? undefined : this.#repeated.get(key)) ??
      this.#freeName(redact.fromOutside(head.task ?? wordsOf(session)), () => false);
    if (key !== undefined) this.#repeated.set(key, task);
    return this.#add({ task, agent });
  }

  endSession({ task }: Trial, turns: readonly EventOf<"turn.started">[]): void {
    if (!this.#tasks.has(task)) this.#tasks.set(task, sessionTask(task, turns));
  }

  /** The trial of what mcpvals recorded. Throws `transcript/unreadable` for one that another file has too: it would count twice. */
  addRecord({ run, trial: { id, variant }, agent, task: recorded }: AtifRecord, file: string): Trial {
    const other = this.#files.get(`${run}/${id}`);
    if (other !== undefined)
      throw new McpvalsError(
        "transcript/unreadable",
        `the transcript ${file} has the same trial as ${other}: ${id} of the run ${run}`,
        { hint: "Import one of them." },
      );
    this.#files.set(`${run}/${id}`, file);
    // Its servers are those of the variant.
    const task = variant === undefined ? recorded : { ...recorded, servers: [] };
    const hash = fingerprintOfJson({ ...task, name: "" });
    const name = this.#freeName(task.name, (other) => fingerprintOfJson({ ...other, name: "" }) === hash);
    this.#tasks.set(name, { ...task, name });
    if (variant !== undefined) {
      const servers = this.#variants.get(variant) ?? {};
      this.#variants.set(variant, { ...servers, [name]: recorded.servers });
    }
    return this.#add({ task: name, agent: this.#nameOfAgent(agent), ...exact({ variant }) });
  }

  taskOf({ task: name, variant = "" }: Trial): Task {
    const task = this.#tasks.get(name);
    if (task === undefined) throw new Error(`the trial has a task that is not known: ${name}`);
    return { ...task, servers: this.#variants.get(variant)?.[name] ?? task.servers };
  }

  plan(): Plan {
    const variants = [...this.#variants].map(([name, servers]): VariantPlan => ({ name, servers }));
    return {
      schema: "mcpvals.plan/1",
      name: nothingAsked.name,
      agents: [...this.#agents.values()],
      ...(variants.length === 0 ? {} : { variants }),
      tasks: [...this.#tasks.values()],
      trials: this.#trials,
      concurrency: 1,
    };
  }

  #add(rest: Omit<Trial, "id" | "attempt">): Trial {
    const key = taskKey(rest);
    const attempt = (this.#attempts.get(key) ?? 0) + 1;
    this.#attempts.set(key, attempt);
    this.#begun.add(rest.task);
    const trial: Trial = { id: `t${this.#trials.length + 1}`, ...rest, attempt };
    this.#trials.push(trial);
    return trial;
  }

  /** The name of an agent, with a number where another one has it. */
  #nameOfAgent(agent: AgentSummary): string {
    for (const name of numbered(agent.name)) {
      const known = this.#agents.get(name);
      if (known !== undefined && !equalJson({ ...known, name: "" }, { ...agent, name: "" })) continue;
      this.#agents.set(name, { ...agent, name });
      return name;
    }
    return agent.name;
  }

  /** The name of a task, with a number where another one has it. */
  #freeName(wanted: string, isSame: (other: Task) => boolean): string {
    for (const name of numbered(wanted)) {
      const known = this.#tasks.get(name);
      if (known === undefined ? !this.#begun.has(name) : isSame(known)) return name;
    }
    return wanted;
  }
}

function* numbered(name: string): Generator<string> {
  for (let number = 1; ; number += 1) yield number === 1 ? name : `${name} (${number})`;
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
function wordsOf(transcript: Transcript): string {
  const { entries, session } = transcript;
  const first = entries.find((entry) => entry.kind === "user");
  const words = (first?.text ?? "").replaceAll(/\s+/g, " ").trim();
  return words === "" ? `${agentOf(transcript)} ${session ?? "session"}` : shortened(words, maxNameLength);
}

function sessionTask(name: string, turns: readonly EventOf<"turn.started">[]): Task {
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

interface Judging {
  readonly emit: Emit;
  readonly grade: GradeTrial;
  readonly record: AtifRecord | undefined;
}

/**
 * Grades a session by what every workflow is graded by, which expects nothing here, or a record by the graders of its task; and records the grades. A grader that had
 * graded the record, such as a judge, and cannot now, leaves it without a verdict; so does a verdict that is not the one in the file.
 */
async function gradesOf(
  trajectory: Trajectory,
  { emit, grade, record }: Judging,
): Promise<readonly Grade[] | undefined> {
  const finished = trajectory.events.findLast((event) => event.type === "trial.finished");
  if (finished === undefined) return undefined;
  const given = finished.outcome === "completed" ? await grade(trajectory, emit) : [];
  const names = new Set(given.map(({ grader }) => grader));
  const missing = (record?.grades ?? []).filter(({ grader }) => !names.has(grader));
  const grades = [
    ...given,
    ...(finished.outcome === "completed"
      ? missing.map(({ grader }) => notGraded(grader, needsOutside()))
      : []),
  ];
  const graded = trialVerdict(finished.outcome, grades);
  if (record !== undefined && graded !== "error" && graded !== record.verdict)
    grades.push(notGraded("recorded-verdict", contradicted(record.verdict, graded)));
  const verdict = trialVerdict(finished.outcome, grades);
  emit({ type: "trial.graded", verdict, score: averageScore(grades), grades });
  return grades;
}

function notGraded(grader: string, cause: McpvalsError): Grade {
  const error = serializeError(cause);
  return { grader, verdict: "error", score: null, reason: error.message, evidence: [], error };
}

function contradicted(recorded: Verdict, graded: Verdict): McpvalsError {
  return new McpvalsError(
    "transcript/contradicts-itself",
    `the file says that the verdict was ${recorded}, and its record gives ${graded}`,
    {
      hint: "The file was changed, or another version of mcpvals graded it. Export the run again, or grade it with your own file: npx mcpvals grade --config FILE.",
    },
  );
}

/** A record whose graders are known. Throws `transcript/unreadable`. */
function knownRecord(record: AtifRecord, { file }: Transcript): AtifRecord {
  const unknown = record.task.graders?.find(({ type }) => !Object.hasOwn(graderKinds, type));
  if (unknown === undefined) return record;
  throw new McpvalsError(
    "transcript/unreadable",
    `the transcript ${file} cannot be read: no grader has the type ${JSON.stringify(unknown.type)}, which a newer version may have`,
  );
}

/** In what mcpvals recorded, marks of secrets are its own. */
function keepingMarks(redact: Redact): Redact {
  const keep = <T>(value: T): T => redact(value);
  return Object.assign(<T>(value: T): T => redact(value), {
    fromOutside: keep,
    isClean: redact.isClean,
    add: redact.add,
    valueOf: redact.valueOf,
  });
}

/** Records the events of a record again, with the same numbers. */
function replayRecord(
  { events, run }: AtifRecord,
  {
    session: { file, sha256 },
    emit,
    setTime,
  }: Pick<Recording, "emit" | "setTime"> & { readonly session: Transcript },
): void {
  for (const { seq: _seq, trial: _trial, at, ...body } of events) {
    setTime(at);
    emit(body.type === "trial.started" ? { ...body, imported: { file, sha256, run } } : body);
  }
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
  const { entries, head, file, sha256, session: id, damage } = session;
  const { events, remarks, durationMs, failure } = conversationOf(session, servers);
  const [first, last] = [entries[0]?.at ?? 0, entries.at(-1)?.at ?? 0];
  setTime(first);
  emit({ type: "trial.started", task: trial.task, agent: trial.agent, attempt: 1 });
  const agent = agentOf(session);
  const { failures, reported } = head;
  // A file of results is written by the tool that ran the agent.
  const program = reported?.by ?? agent;
  const failuresUnknown = failures === "unknown" ? (true as const) : undefined;
  const said = { program, file, sha256, session: id, remarks, failuresUnknown, reported };
  emit(withoutUndefined({ type: "transcript.read" as const, ...said }));
  emit({ type: "phase.started", phase: "agent" });
  emit({ type: "agent.started", agent, kind: transcriptAgent });
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
