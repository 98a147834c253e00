import { hash } from "node:crypto";
import { isAbsolute, join, relative } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { withoutUndefined } from "../../base/json.ts";
import { callFaults } from "../../graders/measurements/measure.ts";
import { OutOfTime, type RuleTable } from "../../check/check-view.ts";
import { type Plan, taskOf, type Trial } from "../../model/plan.ts";
import { originOf } from "../baseline.ts";
import { Decisions } from "../decisions.ts";
import { fingerprintsOf } from "../fingerprint.ts";
import { RunReplay } from "../replay.ts";
import { explained } from "../../store/misfits.ts";
import type { RunHead, RunSummary, TrialResult } from "../../model/result.ts";
import { buildTrajectory, type Trajectory } from "../../trace/trajectory.ts";
import type { TraceEvent } from "../../model/event.ts";
import {
  type CallItem,
  contentText,
  type PackedRun,
  type RunDocument,
  type RunRow,
  type RunUpdate,
  type ServersDocument,
  type TrialDocument,
  type TrialRow,
} from "./documents.ts";
import { packRows } from "./packed-rows.ts";
import { readOverview } from "./overview.ts";
import {
  EndedTrials,
  kindOf,
  plannedRow,
  type RunOverview,
  RunTotals,
  serverNames,
  toleranceOf,
  trialRow,
} from "./run-document.ts";
import { ServerTotals } from "./servers-document.ts";
import { trialDocument } from "./trial-document.ts";
import { type SchemaValidator, validateOfServer } from "../../graders/schema-validator.ts";
import { readTrials, type StoredTrial } from "../../store/journal.ts";
import { endsWithTrial, isLargeJournal, journalSize } from "../../store/journal-file.ts";
import { JournalIndex } from "../../store/journal-index.ts";
import {
  readHead,
  readPlan,
  readPlanHead,
  readResult,
  readResultByTrial,
  readResultHead,
  runState,
} from "../../store/run-files.ts";
import type { Verdict } from "../../model/grade.ts";

/** The row of a run in the list of runs. Never throws: one that cannot be read says why. */
export function runRow(runs: string, id: string, cwd: string): RunRow {
  const folder = join(runs, id);
  try {
    const head = readHead(folder);
    const state = runState(folder, head);
    const row = rowOf(id, { head, plan: readPlanHead(folder), state, cwd });
    if (state !== "ended") return row;
    const result = readResultHead(folder);
    const { verdict, durationMs, summary, passRate } = result;
    return {
      ...row,
      verdict,
      durationMs,
      summary,
      ...(passRate === undefined ? {} : { passRate }),
      ...toleranceOf(result),
      ...damageOf(missingAtEnd(folder, summary)),
    };
  } catch (error) {
    const unknown = {
      name: id,
      kind: "run",
      startedAt: new Date(0).toISOString(),
      agents: [],
      servers: [],
    } as const;
    return { id, ...unknown, state: "damaged", problem: messageOf(error) };
  }
}

/** How many trials the journal of a run lacks, if its end shows that something is missing: to look at all of it takes too long in a list. */
function missingAtEnd(folder: string, { total, skip }: RunSummary): number {
  const size = journalSize(folder);
  if (size === 0) return total - skip;
  if (isLargeJournal(folder) || endsWithTrial(folder)) return 0;
  const index = new JournalIndex(folder);
  index.extend();
  return readResult(folder).trials.filter((trial) => isMissing(trial, index)).length;
}

/** Whether a trial of a result has no end in the journal. */
function isMissing({ id, verdict }: TrialResult, index: JournalIndex): boolean {
  return verdict !== "skip" && !index.hasEnd(id);
}

/** What is said of a run whose journal lacks trials that its result has: they are without evidence. */
function damageOf(missing: number): { readonly state?: "damaged"; readonly problem?: string } {
  if (missing === 0) return {};
  const problem = `Its journal lacks ${missing} of the trials that its result has, so nothing shows that they ended so. mcpvals show says what the journal has.`;
  return { state: "damaged", problem };
}

interface RowInput {
  readonly head: RunHead;
  readonly plan: Omit<Plan, "trials">;
  readonly state: RunRow["state"];
  readonly cwd: string;
}

function rowOf(id: string, { head, plan, state, cwd }: RowInput): RunRow {
  const { source, startedAt, environment, gradedFrom, retryOf } = head;
  return withoutUndefined({
    id,
    name: plan.name,
    source: source === undefined ? undefined : displaySource(source, cwd),
    kind: kindOf(plan),
    state,
    startedAt,
    gradedFrom: gradedFrom?.id,
    replayed: environment.replayed,
    retryOf: retryOf?.id,
    origin: originOf(head),
    agents: environment.agents,
    servers: serverNames(environment),
    variants: plan.variants?.map(({ name: variant }) => variant),
    isAttacked: plan.variants?.some(({ attack }) => attack !== undefined) === true ? true : undefined,
    filter: plan.filter,
  });
}

/** The source of a run: a path inside the working folder becomes relative to it; a command or URL stays as it is. */
function displaySource(path: string, cwd: string): string {
  if (!isAbsolute(path)) return path;
  const inside = relative(cwd, path);
  if (inside === "") return ".";
  return inside.startsWith("..") ? path : inside;
}

/** Trials between two looks at other work. */
const trialsAtOnce = 200;
/** Calls of a trial whose arguments are validated, and the time for all of them, in milliseconds. */
const maxValidated = 1000;
const validationMs = 10_000;

/** Most time for the arguments of one call, in milliseconds. */
export const validationTimeoutMs = 2000;

export interface RecordOptions {
  readonly cwd: string;
  readonly validator: SchemaValidator;
  /** Of a run that has ended, where it is known: the plan of a large run takes long to read. */
  readonly row?: RunRow | undefined;
}

/** The trials of a plan. */
class Planned {
  readonly plan: Plan;
  readonly replay: RunReplay;
  /** Of the trials that have ended in a run that goes on. */
  readonly decisions: Decisions;
  readonly positions: ReadonlyMap<string, number>;
  #fingerprints: RunDocument["fingerprints"];

  constructor(head: RunHead, plan: Plan) {
    this.plan = plan;
    this.replay = new RunReplay({ ...head, plan });
    this.decisions = new Decisions(plan);
    this.positions = new Map(plan.trials.map(({ id }, index) => [id, index]));
  }

  /** Of its tasks: only a run that goes on needs them, one that has ended has them in its result. */
  get fingerprints(): RunDocument["fingerprints"] {
    return (this.#fingerprints ??= fingerprintsOf(this.plan.tasks));
  }

  trial(id: string): Trial | undefined {
    return this.plan.trials[this.positions.get(id) ?? -1];
  }
}

/** A run as its folder has it, which may still grow. */
export class RunRecord implements AsyncDisposable {
  readonly id: string;
  readonly #folder: string;
  readonly #options: RecordOptions;
  readonly #head: RunHead;
  readonly #known: RunRow;
  /** Read when it is needed: to show all trials of a run that has ended, its result is enough. */
  #planned: Planned | undefined;
  readonly #index: JournalIndex;
  #state: RunRow["state"] = "running";
  /** Of a run that has ended. */
  #document: PackedRun | undefined;
  /** Its results of trials, unless there are too many to keep them. */
  readonly #results = new Map<string, TrialResult>();
  #loading: Promise<void> | undefined;
  // Of a run that goes on:
  readonly #totals = new RunTotals();
  readonly #rows: TrialRow[] = [];
  /** The version in which the row of each trial changed last. */
  readonly #changed: number[] = [];
  #version = 0;
  readonly #counts: Record<Verdict, number> = { pass: 0, fail: 0, error: 0, timeout: 0, skip: 0 };
  #servers:
    | { readonly totals: ServerTotals; readonly trials: AsyncGenerator<StoredTrial>; isRead: boolean }
    | undefined;
  /** The rules of a check. */
  #rules: RuleTable | undefined;
  #content: { readonly key: string; readonly text: string } | undefined;
  /** The trial that was asked for last. */
  #shown: ShownTrial | undefined;

  /** Throws `store/corrupt`. */
  constructor(runs: string, id: string, options: RecordOptions) {
    this.id = id;
    this.#folder = join(runs, id);
    this.#options = options;
    this.#head = readHead(this.#folder);
    this.#known = options.row ?? this.#readRow();
    this.#index = new JournalIndex(this.#folder);
  }

  get #plan(): Planned {
    this.#planned ??= new Planned(this.#head, readPlan(this.#folder));
    return this.#planned;
  }

  /** Whether nothing of it changes any more. */
  get isOver(): boolean {
    return this.#document !== undefined;
  }

  /** Takes what has happened since. Throws `store/corrupt`. */
  refresh(): Promise<void> {
    if (this.#document !== undefined) return Promise.resolve();
    this.#loading ??= this.#load().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  async #load(): Promise<void> {
    if (this.#known.kind === "check") this.#rules ??= (await import("../../check/catalogue.ts")).findingRules;
    const state = runState(this.#folder, this.#head);
    if (state === "running") await this.#follow();
    else {
      this.#document = this.#withRules(
        state === "ended" ? await this.#ended() : { ...this.#row(state), ...(await this.#replayAll()) },
      );
      this.#version += 1;
    }
    this.#state = state;
  }

  /** The document of a run that has ended, read a part at a time. */
  async #ended(): Promise<PackedRun> {
    const isLarge = isLargeJournal(this.#folder);
    const overview = isLarge ? readOverview(this.#folder) : undefined;
    if (overview !== undefined) return { ...this.#row("ended"), ...overview };
    if (!isLarge) this.#index.extend();
    const trials = new EndedTrials();
    let missing = 0;
    const result = await readResultByTrial(this.#folder, (some) => {
      trials.addAll(some);
      if (isLarge) return;
      for (const trial of some)
        if (isMissing(trial, this.#index)) missing += 1;
        else this.#results.set(trial.id, trial);
    });
    return { ...this.#row("ended"), ...trials.overview(result), ...damageOf(missing) };
  }

  /** Adds what is known of the codes of findings. */
  #withRules<T extends Pick<RunDocument, "findings" | "rules">>(run: T): T {
    const rules = this.#rules;
    if (rules === undefined) return run;
    const codes = new Set(run.findings.map(({ code }) => code));
    const found = [...codes].flatMap((code) => {
      const rule = rules[code];
      if (rule === undefined) return [];
      const { severity, title, why, fix, bad, good, source } = rule;
      return [[code, { severity, title, why, fix, bad, good, source }] as const];
    });
    return { ...run, rules: Object.fromEntries(found) };
  }

  #readRow(): RunRow {
    const { cwd } = this.#options;
    return rowOf(this.id, { head: this.#head, plan: readPlanHead(this.#folder), state: "running", cwd });
  }

  #row(state: RunRow["state"]): RunRow {
    return { ...this.#known, state };
  }

  /** The result of a run that was cut off. */
  async #replayAll(): Promise<RunOverview> {
    const { plan } = this.#plan;
    const replay = new RunReplay({ ...this.#head, plan });
    const rows = new Map<string, TrialResult>();
    let lastAt: number | undefined;
    for await (const { id, events: stored } of readTrials(this.#folder)) {
      const trial = this.#plan.trial(id);
      const events = stored.map(({ event }) => event);
      lastAt = Math.max(lastAt ?? 0, events.at(-1)?.at ?? 0);
      if (trial !== undefined) rows.set(id, replay.add(trial, events));
    }
    const results = plan.trials.map((trial) => rows.get(trial.id) ?? replay.add(trial, []));
    const result = replay.result(results, lastAt);
    const trials = new EndedTrials();
    trials.addAll(result.trials);
    return trials.overview(result);
  }

  async #follow(): Promise<void> {
    const { plan, positions } = this.#plan;
    if (this.#rows.length === 0) {
      this.#version += 1;
      for (const trial of plan.trials) {
        this.#rows.push(plannedRow(trial, taskOf(trial, plan), "waiting"));
        this.#changed.push(this.#version);
      }
    }
    const added = this.#index.extend();
    if (added.size === 0) return;
    this.#version += 1;
    let count = 0;
    for (const id of added) {
      const position = positions.get(id);
      const trial = plan.trials[position ?? -1];
      if (position === undefined || trial === undefined || this.#rows[position]?.state === "ended") continue;
      const row = this.#index.hasEnd(id) ? this.#endedRow(trial) : undefined;
      this.#rows[position] = row ?? plannedRow(trial, taskOf(trial, plan), "running");
      this.#changed[position] = this.#version;
      count += 1;
      if (count % trialsAtOnce === 0) await nextTurn();
    }
  }

  /** The row of a trial that has come to its end; undefined while it has not been graded. */
  #endedRow(trial: Trial): TrialRow | undefined {
    const events = this.#index.events(trial.id);
    if (!isFinished(events)) return undefined;
    const result = this.#plan.replay.add(trial, events);
    this.#totals.add(result);
    this.#plan.decisions.add(result);
    this.#counts[result.verdict] += 1;
    return trialRow(result);
  }

  /** Throws `store/corrupt`. */
  async run(): Promise<PackedRun> {
    await this.refresh();
    return this.#document ?? { ...this.#live(), trials: packRows(this.#rows) };
  }

  #live(): Omit<PackedRun, "trials"> {
    const { environment } = this.#head;
    const { plan, replay, decisions, fingerprints } = this.#plan;
    const summary: RunSummary = { total: plan.trials.length, ...this.#counts };
    return this.#withRules({
      ...this.#row(this.#state),
      summary,
      ...(fingerprints === undefined ? {} : { fingerprints }),
      ...(decisions.hasQuestions ? { decisions: decisions.result() } : {}),
      environment,
      ...this.#totals.result(),
      ...replay.totals(),
    });
  }

  /** What has changed since a version, 0 for all; `update` is absent when nothing has. Throws `store/corrupt`. */
  async changesSince(version: number): Promise<{ readonly version: number; readonly update?: RunUpdate }> {
    await this.refresh();
    const now = this.#version;
    if (now === version) return { version };
    if (this.#document !== undefined) {
      const { trials: changed, ...run } = this.#document;
      return { version: now, update: { ...run, changed } };
    }
    const changed = this.#rows.filter((_, index) => (this.#changed[index] ?? 0) > version);
    return { version: now, update: { ...this.#live(), changed: packRows(changed) } };
  }

  /** Changes whenever the document of the trial does. Throws `store/corrupt`, and `store/not-found` for an unknown trial. */
  async stampOf(id: string): Promise<string> {
    this.#trial(id);
    await this.refresh();
    return `${this.#index.endOf(id)} ${this.#state}`;
  }

  /** Made again only when the trial has changed. Throws `store/corrupt`, and `store/not-found` for an unknown trial. */
  async trial(id: string): Promise<TrialDocument> {
    const stamp = await this.stampOf(id);
    if (this.#shown?.id === id && this.#shown.stamp === stamp) return await this.#shown.document;
    const invalid: InvalidArguments = this.#shown?.id === id ? this.#shown.invalid : new Map();
    const document = this.#trialDocument(id, invalid);
    this.#shown = { id, stamp, document, invalid };
    try {
      return await document;
    } catch (error) {
      if (this.#shown.document === document) this.#shown = undefined;
      throw error;
    }
  }

  async #trialDocument(id: string, known: InvalidArguments): Promise<TrialDocument> {
    const trial = this.#trial(id);
    const events = this.#index.events(id);
    try {
      return await this.#documentOf(trial, events, known);
    } catch (error) {
      throw explained(error, events);
    }
  }

  async #documentOf(
    trial: Trial,
    events: readonly TraceEvent[],
    known: InvalidArguments,
  ): Promise<TrialDocument> {
    const { plan, positions } = this.#plan;
    const position = positions.get(trial.id) ?? 0;
    const isEnded = this.#state !== "running" || isFinished(events);
    const trajectory = buildTrajectory(trial, taskOf(trial, plan), events);
    const { name, kind, startedAt } = this.#row(this.#state);
    return trialDocument({
      run: { id: this.id, name, kind, state: this.#state, startedAt },
      trajectory,
      ...(isEnded ? { result: this.#resultOf(trajectory) } : {}),
      invalid: await this.#validate(trajectory, known),
      hashOf: (text) => hash("sha256", text, "base64url"),
      previous: plan.trials[position - 1],
      next: plan.trials[position + 1],
      previousOfTask: plan.trials.slice(0, position).findLast(({ task }) => task === trial.task),
      nextOfTask: plan.trials.slice(position + 1).find(({ task }) => task === trial.task),
    });
  }

  #resultOf(trajectory: Trajectory): TrialResult {
    const { trial, events } = trajectory;
    const known = this.#results.get(trial.id);
    if (known !== undefined) return known;
    const result = this.#plan.replay.resultOf(trial, events, { trajectory });
    if (this.#document?.state !== "damaged" || isFinished(events)) return result;
    const message = "the journal lacks the end of this trial, so nothing shows how it ended";
    return { ...result, error: { code: "run/interrupted", kind: "interrupted", message } };
  }

  /** The events of a trial as far as they have come. Throws `store/corrupt`. */
  events(id: string): readonly TraceEvent[] {
    return this.#index.events(id);
  }

  #trial(id: string): Trial {
    const trial = this.#plan.trial(id);
    if (trial !== undefined) return trial;
    throw new McpvalsError("store/not-found", `the run ${this.id} has no trial ${JSON.stringify(id)}`);
  }

  /** What does not fit in the arguments of calls, of the first that were made; what is `known` is not looked at again. */
  async #validate(trajectory: Trajectory, known: InvalidArguments): Promise<InvalidArguments> {
    const { validator } = this.#options;
    const validate = validateOfServer(
      validator.validate.bind(validator),
      new AbortController().signal,
      validationMs,
    );
    for (const { seq, args, declared } of trajectory.calls.slice(0, maxValidated)) {
      const [declaration] = declared ?? [];
      if (declaration === undefined || known.has(seq)) continue;
      try {
        const [checked] = await callFaults([{ args, declared: declaration }], validate);
        if (checked?.faults === undefined) continue;
        known.set(
          seq,
          // The message begins with the place, which is shown before it.
          checked.faults.map(({ pointer, message }) => ({
            pointer,
            problem: message.startsWith(`${pointer} `) ? message.slice(pointer.length + 1) : message,
          })),
        );
      } catch (error) {
        if (error instanceof OutOfTime) break;
        throw error;
      }
    }
    return known;
  }

  /** The whole text at a JSON Pointer in an event. Throws `store/corrupt`, and `store/not-found` where there is none. */
  content(id: string, seq: number, pointer: string): string {
    this.#trial(id);
    const key = JSON.stringify([id, seq, pointer]);
    if (this.#content?.key === key) return this.#content.text;
    const event = this.#index.event(id, seq);
    const text = event === undefined ? undefined : contentText(event, pointer);
    if (text === undefined)
      throw new McpvalsError(
        "store/not-found",
        `trial ${JSON.stringify(id)} has no such content: ${seq}${pointer}`,
      );
    this.#content = { key, text };
    return text;
  }

  /**
   * What trials say of servers. Reads on where the last call ended, until one of the limits; a run that goes on is read again when
   * all of it was read. Throws `store/corrupt`.
   */
  async servers({ mostMs = Infinity, maxTrials = Infinity }: ServersLimits = {}): Promise<ServersRead> {
    const { plan } = this.#plan;
    if (this.#servers === undefined || (this.#servers.isRead && !this.isOver))
      this.#servers = { totals: new ServerTotals(), trials: readTrials(this.#folder), isRead: false };
    const reading = this.#servers;
    const { totals, trials } = reading;
    const until = performance.now() + mostMs;
    try {
      while (!reading.isRead && performance.now() < until && totals.trials < maxTrials) {
        const { value, done } = await trials.next();
        if (done === true) {
          // It may also have been ended.
          reading.isRead = this.#servers === reading;
          break;
        }
        const trial = this.#plan.trial(value.id);
        const events = value.events.map(({ event }) => event);
        if (trial !== undefined) totals.add(buildTrajectory(trial, taskOf(trial, plan), events));
      }
    } catch (error) {
      this.#servers = undefined;
      throw error;
    }
    if (reading.isRead) return { totals };
    return { totals, reading: { trials: totals.trials, of: plan.trials.length } };
  }

  /** Ends what is being read. */
  async [Symbol.asyncDispose](): Promise<void> {
    const reading = this.#servers;
    this.#servers = undefined;
    await reading?.trials.return(undefined);
  }
}

interface ServersLimits {
  readonly mostMs?: number;
  readonly maxTrials?: number;
}

/** What was read so far. */
interface ServersRead {
  readonly totals: ServerTotals;
  /** Absent: all of it. */
  readonly reading?: NonNullable<ServersDocument["reading"]>;
}

interface ShownTrial {
  readonly id: string;
  readonly stamp: string;
  readonly document: Promise<TrialDocument>;
  /** What was found of the arguments of its calls. */
  readonly invalid: InvalidArguments;
}

/** By the number of the request. */
type InvalidArguments = Map<number, NonNullable<CallItem["invalid"]>>;

/** Whether a trial has come to its end: a completed one when it was graded. */
function isFinished(events: readonly TraceEvent[]): boolean {
  const finished = events.findLast((event) => event.type === "trial.finished");
  if (finished === undefined) return false;
  return finished.outcome !== "completed" || events.some((event) => event.type === "trial.graded");
}
