import { listNames } from "../base/did-you-mean.ts";
import { McpvalsError } from "../base/error.ts";
import { type Json, mapValues } from "../base/json.ts";
import { equalJson } from "../expect/json-difference.ts";
import { eventsOf, type TraceEvent } from "../model/event.ts";
import { type Plan, taskOf, type Trial } from "../model/plan.ts";
import type { RunEnvironment, TrialResult } from "../model/result.ts";
import type { Task } from "../model/task.ts";
import { lacksVerdict } from "../report/rates.ts";
import { trialResult } from "../report/result.ts";
import type { OpenedRun, RunFolder } from "../store/run-folder.ts";
import { readTrials, type StoredEvent, type StoredTrial } from "../store/journal.ts";
import { joinLines } from "../store/journal-file.ts";
import { reopenRun } from "../store/reopen-run.ts";
import { buildTrajectory, type Trajectory } from "../trace/trajectory.ts";
import type { RecordedTrials } from "./run-trials.ts";

/** What a run would do now. */
interface CurrentRun {
  /** Without secrets, as the environment. */
  readonly plan: Plan;
  readonly environment: RunEnvironment;
}

/** What has changed of what a run runs, as phrases. */
export function changesSince({ plan, environment }: CurrentRun, now: CurrentRun): readonly string[] {
  const changes = [
    ...changedNamed("task", plan.tasks.map(withoutPlaces), now.plan.tasks.map(withoutPlaces)),
    ...changedAgents({ plan, environment }, now),
    ...(hasTrials(now.plan, plan) ? [] : ["the trials"]),
    ...(["variants", "thresholds", "until", "maxWarnings", "baseline"] as const)
      .filter((member) => !isSame(plan[member], now.plan[member]))
      .map((member) => planNames[member]),
    ...(["mcpvals", "judge", "servers", "taskServers", "variants", "prices"] as const)
      .filter((member) => !isSame(environment[member], now.environment[member]))
      .map((member) => environmentNames[member]),
    // Runs of before do not say.
    ...(environment.limits === undefined || environment.limits === now.environment.limits
      ? []
      : ["the limits"]),
  ];
  return [...new Set(changes)];
}

/** Refuses to use the trials of a run when what it runs has changed since. Throws `store/not-resumable`, which says what. */
export function refuseChanged(run: OpenedRun, now: CurrentRun): void {
  const { id } = run;
  const changes = changesSince(run, now);
  if (changes.length === 0) return;
  throw new McpvalsError(
    "store/not-resumable",
    `trials of the run ${id} cannot be used, since this has changed: ${changes.join("; ")}`,
    {
      hint: "They would not be comparable with new ones. Undo the change, or run everything again with mcpvals run.",
    },
  );
}

const planNames = {
  variants: "the variants",
  thresholds: "the thresholds",
  until: "--until",
  maxWarnings: "--max-warnings",
  baseline: "the baseline",
} as const;

const environmentNames = {
  mcpvals: "the version of mcpvals",
  judge: "the judge",
  servers: "the servers",
  taskServers: "the servers of tasks",
  variants: "the variants",
  prices: "the prices",
} as const;

/** Whether a plan has the trials of an earlier one. With `until` that one has only those that were needed. */
function hasTrials({ trials, until }: Plan, earlier: Plan): boolean {
  if (until === undefined || earlier.until === undefined) return isSame(trials, earlier.trials);
  const kept = new Set(earlier.trials.map(({ id }) => id));
  return isSame(
    trials.filter(({ id }) => kept.has(id)),
    earlier.trials,
  );
}

/** Agents by their summaries and, unless the run is one of before, which does not have them, the hashes of their settings. */
function changedAgents(before: CurrentRun, now: CurrentRun): readonly string[] {
  const isHashed = before.environment.agentHashes !== undefined;
  const agentsOf = ({ plan, environment }: CurrentRun): readonly Named[] => {
    const hashes = new Map(isHashed ? Object.entries(environment.agentHashes ?? {}) : []);
    return plan.agents.map((agent) => ({ ...agent, hash: hashes.get(agent.name) }));
  };
  return changedNamed("agent", agentsOf(before), agentsOf(now));
}

/** A task without the lines and columns of its file. */
function withoutPlaces(task: Task): Named {
  const { graders, portable, ...others } = withoutPlace(task);
  const extensions = mapValues(portable?.extensions ?? {}, (each) => withoutPlace(each));
  const parts = {
    graders: graders?.map((grader) => withoutPlace(grader)),
    portable: portable && { ...portable, extensions },
  };
  return { ...others, ...parts };
}

function withoutPlace<T extends { readonly location?: unknown }>(value: T): Omit<T, "location"> {
  const { location: _, ...others } = value;
  return others;
}

interface Named {
  readonly name: string;
}

function changedNamed(kind: string, before: readonly Named[], now: readonly Named[]): readonly string[] {
  const byName = new Map(now.map((each) => [each.name, each]));
  const changed = before.filter((each) => byName.has(each.name) && !isSame(each, byName.get(each.name)));
  const gone = before.filter(({ name }) => !byName.has(name));
  const known = new Set(before.map(({ name }) => name));
  const added = now.filter(({ name }) => !known.has(name));
  return [
    ...named(changed.length === 1 ? `the ${kind}` : `the ${kind}s`, changed),
    ...named(gone.length === 1 ? `the ${kind} is gone:` : `the ${kind}s are gone:`, gone),
    ...named(added.length === 1 ? `the ${kind} is new:` : `the ${kind}s are new:`, added),
  ];
}

function named(what: string, all: readonly Named[]): readonly string[] {
  return all.length === 0 ? [] : [`${what} ${listNames(all.map(({ name }) => name))}`];
}

/** Whether two values are the same JSON, absent members left out. */
function isSame(before: unknown, now: unknown): boolean {
  const [one, other] = [before, now].map((value) => JSON.parse(JSON.stringify(value ?? null)) as Json);
  return equalJson(one ?? null, other ?? null);
}

/** The trials of an earlier run that stay as they are. */
export interface ResumedRun {
  /** Has the events of these trials. */
  readonly folder: RunFolder;
  readonly recorded: RecordedTrials;
  /** How long the run had taken until its last event, in milliseconds. */
  readonly elapsedMs: number;
  /** What is wrong with its journal, a sentence each. */
  readonly notes: readonly string[];
}

/**
 * Takes over the folder of a run, and reads its trials: those that have ended keep their verdicts; those that were executed and not yet graded
 * are to be graded; all others run again. `onEnded` is called with each trial that has ended. Throws as {@link reopenRun}.
 */
export async function resumeRun(
  { folder: path, plan, startedAt }: OpenedRun,
  onEnded: OnEnded,
): Promise<ResumedRun> {
  const trials = new Map(plan.trials.map((trial) => [trial.id, trial]));
  const ended = new Map<string, TrialResult>();
  const ungraded = new Map<string, readonly TraceEvent[]>();
  const notes: string[] = [];
  let lastAt = Date.parse(startedAt);
  const keep = ({ id, events: stored }: StoredTrial): readonly StoredEvent[] => {
    const trial = trials.get(id);
    const last = stored.at(-1)?.event;
    if (trial === undefined || last === undefined) return [];
    lastAt = Math.max(lastAt, last.at);
    const events = stored.map(({ event }) => event);
    const end = events.findLastIndex((event) => event.type === "trial.finished");
    const finished = events[end];
    if (finished?.type !== "trial.finished" || finished.outcome === "interrupted") return [];
    if (last.type !== "trial.graded" && finished.outcome === "completed") {
      ungraded.set(id, events.slice(0, end + 1));
      return stored.slice(0, end + 1);
    }
    const { result, trajectory } = readTrial(trial, plan, events);
    ended.set(id, result);
    onEnded(result, trajectory);
    return stored;
  };
  const onDamage = ({ message }: McpvalsError): void => {
    notes.push(`${message}: what it belongs to runs again`);
  };
  const folder = await reopenRun(path, { keep, onDamage });
  return {
    folder,
    recorded: { ended, ungraded },
    elapsedMs: Math.max(0, lastAt - Date.parse(startedAt)),
    notes,
  };
}

/** Called with each trial that keeps its verdict. */
type OnEnded = (result: TrialResult, trajectory: Trajectory) => void;

function readTrial(
  trial: Trial,
  plan: Plan,
  events: readonly TraceEvent[],
): { readonly result: TrialResult; readonly trajectory: Trajectory } {
  const trajectory = buildTrajectory(trial, taskOf(trial, plan), events);
  const last = events.at(-1);
  return { trajectory, result: trialResult(trajectory, last?.type === "trial.graded" ? last.grades : []) };
}

/** Copies all trials of a run that have ended into the folder of another run. Throws `store/corrupt`. */
export async function copyEnded(
  { folder: path, plan }: OpenedRun,
  folder: RunFolder,
  onEnded: OnEnded,
): Promise<void> {
  await copyTrials({ path, plan }, folder, ({ events, result, trajectory }) => {
    const isEnded = events.at(-1)?.type === "trial.graded" || events.at(-1)?.type === "trial.finished";
    if (isEnded) onEnded(result, trajectory);
    return isEnded;
  });
}

interface CopiedTrial extends ReturnType<typeof readTrial> {
  readonly events: readonly TraceEvent[];
}

/** Copies those for which `isKept` says so. */
async function copyTrials(
  { path, plan }: { readonly path: string; readonly plan: Plan },
  folder: RunFolder,
  isKept: (trial: CopiedTrial) => boolean,
): Promise<void> {
  const trials = new Map(plan.trials.map((trial) => [trial.id, trial]));
  for await (const { id, events: stored } of readTrials(path)) {
    const trial = trials.get(id);
    if (trial === undefined) continue;
    const events = stored.map(({ event }) => event);
    if (!isKept({ ...readTrial(trial, plan, events), events })) continue;
    folder.copy(
      joinLines(stored.map(({ line }) => line)),
      stored.flatMap(({ attachment = [] }) => attachment),
    );
  }
}

/**
 * Copies the trials of a run that have a verdict into the folder of a new run, in which those without one, because of an error or a timeout,
 * or since they were not run or checked nothing, are to run, and those under an attack that had no trial to be compared with. Throws `store/corrupt`.
 */
export async function copyJudged(
  { folder: path, plan }: OpenedRun,
  folder: RunFolder,
  onEnded: OnEnded,
): Promise<ResumedRun> {
  const ended = new Map<string, TrialResult>();
  await copyTrials({ path, plan }, folder, ({ events, result, trajectory }) => {
    if (lacksVerdict(result) || lacksComparison(result, events)) return false;
    ended.set(result.id, result);
    onEnded(result, trajectory);
    return true;
  });
  return { folder, recorded: { ended, ungraded: new Map() }, elapsedMs: 0, notes: [] };
}

/** Whether a trial shows nothing of its attack since each trial without an attack broke before it could show whether the task needs the tool. */
function lacksComparison({ attack }: TrialResult, events: readonly TraceEvent[]): boolean {
  const compared = eventsOf(events, "attack.compared").at(-1);
  return attack?.outcome === "needed-tool" && compared?.ended.length === 0 && compared.calls.length === 0;
}
