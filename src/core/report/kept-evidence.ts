import type { TraceEvent } from "../trace/events.ts";
import { clipped, weightOf } from "../trace/recorder.ts";
import { collectEvidence } from "./collect-evidence.ts";
import type { TrialResult } from "./result.ts";

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
