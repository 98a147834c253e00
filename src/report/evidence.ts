import type { EventOf, TraceEvent } from "../model/event.ts";
import type { Grade } from "../model/grade.ts";
import type { TrialResult } from "../model/result.ts";
import { agentActs } from "../trace/agent-acts.ts";
import { clipped } from "../trace/recorder.ts";
import type { StepAttempt, StepRun, TraceView } from "../trace/trajectory.ts";
import { trialVerdict } from "./result.ts";

/**
 * The events of a trial that a report needs to show why its grades are what they are, in order: those that grades
 * cite, with all that belongs to their JSON-RPC requests; and for a cited step its
 * start, the messages that it exchanged, the same of the steps inside it, and when it was tried first. A trial without
 * grades broke: of such a one, the same for the steps that did not pass. Of a trial that did not pass, also what its agent did
 * first and last, and what it said last.
 */
export function collectEvidence(view: TraceView, grades: readonly Grade[]): TraceEvent[] {
  const cited = new Set(grades.flatMap((grade) => grade.evidence));
  const wanted = new Set(cited);
  if (grades.length > 0) addCited(view.steps, cited, wanted);
  else for (const run of view.steps) if (isBroken(run.last)) addAttempt(run, run.last, wanted);
  if (trialVerdict("completed", grades) !== "pass") addAgent(view, wanted);
  for (const { seqs } of [...view.exchanges, ...view.serverRequests])
    if (seqs.some((seq) => wanted.has(seq))) for (const seq of seqs) wanted.add(seq);
  return view.events.filter(({ seq }) => wanted.has(seq));
}

function isBroken({ started, finished }: StepAttempt): boolean {
  if (started.phase !== "setup" && started.phase !== "verify") return false;
  const outcome = finished?.outcome;
  return outcome !== "passed" && outcome !== "skipped" && finished?.ignored !== true;
}

function addCited(runs: readonly StepRun[], cited: ReadonlySet<number>, wanted: Set<number>): void {
  for (const run of runs) {
    for (const attempt of run.attempts) {
      if (cited.has(attempt.finished?.seq ?? 0)) addAttempt(run, attempt, wanted);
      addCited(attempt.children, cited, wanted);
    }
  }
}

function addAttempt({ attempts: [first] }: StepRun, attempt: StepAttempt, wanted: Set<number>): void {
  for (const { started, finished } of [first ?? attempt, attempt])
    wanted.add(started.seq).add(finished?.seq ?? started.seq);
  for (const seq of attempt.messages) wanted.add(seq);
  for (const child of attempt.children) addAttempt(child, child.last, wanted);
}

/** Adds what shows an agent's phase and turns, its first and last acts, and its last message; nothing where no agent took part. */
function addAgent(view: TraceView, wanted: Set<number>): void {
  if (view.agentStarted === undefined) return;
  for (const event of view.events) {
    const isTurn = event.type === "turn.started" || event.type === "turn.finished";
    // A reader has to know that it is no record of mcpvals.
    if (isTurn || event.type === "transcript.read" || ("phase" in event && event.phase === "agent"))
      wanted.add(event.seq);
  }
  for (const { seqs } of firstAndLast(agentActs(view)).flat()) for (const seq of seqs) wanted.add(seq);
  const last = lastMessage(view);
  if (last !== undefined) wanted.add(last.seq);
}

const maxShownActs = 4;

/** The first and the last items of a long list, in two parts; a single one between them is not left out. */
export function firstAndLast<T>(
  items: readonly T[],
  total: number = items.length,
): readonly [readonly T[], readonly T[]] {
  return total > 2 * maxShownActs + 1
    ? [items.slice(0, maxShownActs), items.slice(-maxShownActs)]
    : [items, []];
}

/** What an agent said last; undefined: nothing. */
export function lastMessage({ messages }: TraceView): EventOf<"agent.message"> | undefined {
  return messages.findLast(({ text }) => text.trim() !== "");
}

/** Most trials of which a run keeps the evidence. */
const maxTrials = 100;
/** Most that the events kept of all trials may have together, in characters of JSON. */
const maxKept = 64 * 1024 * 1024;

/** The events that the report of a run shows, of its first trials that did not pass; the journal has them all. */
export class KeptEvidence {
  readonly #byTrial = new Map<string, readonly TraceEvent[]>();
  #left: number;

  constructor(most: number = maxKept) {
    this.#left = most;
  }

  get byTrial(): ReadonlyMap<string, readonly TraceEvent[]> {
    return this.#byTrial;
  }

  /** Whether it keeps none of further trials. */
  get isFull(): boolean {
    return this.#byTrial.size >= maxTrials;
  }

  /** Keeps what the grades of a trial cite; without what is long in it, where there is no room for that. */
  keep({ id, grades }: Pick<TrialResult, "id" | "grades">, view: TraceView): void {
    if (this.isFull) return;
    const kept = collectEvidence(view, grades).map((event) => this.#fitting(event));
    this.#byTrial.set(id, kept);
  }

  #fitting(event: TraceEvent): TraceEvent {
    const { length } = JSON.stringify(event);
    if (length > this.#left) return clipped(event) as TraceEvent;
    this.#left -= length;
    return event;
  }
}
