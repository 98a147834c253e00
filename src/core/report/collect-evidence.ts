import { isJsonObject } from "../formats/json.ts";
import type { Grade, TraceEvent } from "../trace/events.ts";
import { clipped, weightOf } from "../trace/recorder.ts";
import { type StepAttempt, type StepRun, stepRuns } from "../trace/step-runs.ts";
import type { TrialResult } from "./result.ts";

/**
 * The events of a trial that a report needs to show why its grades are what they are, in order: those that grades
 * cite; the other half of every cited JSON-RPC request or response, with its HTTP status; and for a cited step its
 * start, the messages that it exchanged, the same of the steps inside it, and when it was tried first. A trial without
 * grades broke: of such a one, the same for the steps that did not pass.
 */
export function collectEvidence(events: readonly TraceEvent[], grades: readonly Grade[]): TraceEvent[] {
  const cited = new Set(grades.flatMap((grade) => grade.evidence));
  const wanted = new Set(cited);
  const runs = stepRuns(events);
  if (grades.length === 0) {
    for (const run of runs) {
      const last = run.attempts.at(-1);
      if (last !== undefined && isBroken(last)) addAttempt(run, last, wanted);
    }
  } else addCited(runs, cited, wanted);
  const exchanges = new Set(events.flatMap((event) => (wanted.has(event.seq) ? exchangesOf(event) : [])));
  return events.filter(
    (event) => wanted.has(event.seq) || exchangesOf(event).some((key) => exchanges.has(key)),
  );
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

function addAttempt(run: StepRun, attempt: StepAttempt, wanted: Set<number>): void {
  const [first = attempt] = run.attempts;
  for (const { started, finished } of [first, attempt])
    wanted.add(started.seq).add(finished?.seq ?? started.seq);
  for (const seq of attempt.messages) wanted.add(seq);
  for (const child of attempt.children) {
    const last = child.attempts.at(-1);
    if (last !== undefined) addAttempt(child, last, wanted);
  }
}

/** Names the JSON-RPC exchanges that an event belongs to; requests of client and server are numbered apart. */
function exchangesOf(event: TraceEvent): string[] {
  if (event.type === "http.response") {
    return event.requestIds.map((id) => exchangeKey(event.server, "client-to-server", id));
  }
  if (event.type !== "mcp.message" || !isJsonObject(event.message)) return [];
  const { id, method } = event.message;
  if (typeof id !== "string" && typeof id !== "number") return [];
  const answered = event.direction === "client-to-server" ? "server-to-client" : "client-to-server";
  return [exchangeKey(event.server, method === undefined ? answered : event.direction, id)];
}

function exchangeKey(server: string, direction: string, id: string | number): string {
  return JSON.stringify([server, direction, id]);
}

const mostTrials = 100;
/** Most that the events kept of all trials may weigh together, see `weightOf`. */
const mostKept = 64 * 1024 * 1024;

/** The events that the report of a run shows, of its first trials that did not pass; the journal has them all. */
export class KeptEvidence {
  readonly #byTrial = new Map<string, readonly TraceEvent[]>();
  #left: number;

  constructor(most: number = mostKept) {
    this.#left = most;
  }

  get byTrial(): ReadonlyMap<string, readonly TraceEvent[]> {
    return this.#byTrial;
  }

  /** Keeps what the grades of a trial cite; without what is long in it, where there is no room for that. */
  keep({ id, grades }: Pick<TrialResult, "id" | "grades">, events: readonly TraceEvent[]): void {
    if (this.#byTrial.size >= mostTrials) return;
    const kept = collectEvidence(events, grades).map((event) => this.#fitting(event));
    this.#byTrial.set(id, kept);
  }

  #fitting(event: TraceEvent): TraceEvent {
    const weight = weightOf(event, JSON.stringify(event));
    if (weight > this.#left) return clipped(event) as TraceEvent;
    this.#left -= weight;
    return event;
  }
}
