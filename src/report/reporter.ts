import type { Task } from "../model/task.ts";
import type { Plan, Trial } from "../model/plan.ts";
import type { TraceEvent } from "../model/event.ts";
import type { RunEnvironment, RunResult, TrialResult } from "../model/result.ts";

export type Awaitable<T> = T | Promise<T>;

/** What is known when a run begins. */
export interface RunStart {
  readonly id: string;
  readonly plan: Plan;
  readonly startedAt: string;
  readonly environment: RunEnvironment;
  /** The run that recorded the trials, where its record is graded again. */
  readonly gradedFrom?: RunResult["gradedFrom"];
  /** The run folder; absent when nothing is kept. */
  readonly folder?: string;
  /** The run of which this one tries something again. */
  readonly retryOf?: RunResult["retryOf"];
  /** How many trials of an earlier run, or of the same one before it was resumed, keep their verdicts. Absent: none. */
  readonly recorded?: number;
  /** How it was started, of a run that can be resumed unless it has ended. */
  readonly command?: unknown;
  /** Of a recorded run that has ended. */
  readonly durationMs?: number;
  /** Whether what no trial used is to be reported by name. */
  readonly coverage?: boolean;
}

/** What is known when a run has ended. */
export interface RunEnd {
  readonly result: RunResult;
  /** What `collectEvidence` gives for each trial that did not pass, by trial id. */
  readonly evidence: ReadonlyMap<string, readonly TraceEvent[]>;
  /** Not all of it could be written to its folder. */
  readonly isUnkept?: true;
}

/** A listener to a run; it cannot change it. Every method is optional. */
export interface Reporter {
  onRunStart?(start: RunStart): Awaitable<void>;
  onTrialStart?(trial: Trial): Awaitable<void>;
  onEvent?(event: TraceEvent): void;
  onTrialEnd?(result: TrialResult): Awaitable<void>;
  onRunEnd?(end: RunEnd): Awaitable<void>;
  /** Called on every way out, after onRunEnd or instead of it. */
  close?(): Awaitable<void>;
}

/** What a report that is written at the end takes from the beginning of its run. */
interface ReportedRun {
  /** By name. */
  readonly tasks: ReadonlyMap<string, Task>;
  readonly coverage: boolean;
}

/** A reporter that writes everything when the run has ended. */
export function reporterAtEnd(write: (end: RunEnd, run: ReportedRun) => Awaitable<void>): Reporter {
  let run: ReportedRun = { tasks: new Map(), coverage: false };
  return {
    onRunStart({ plan, coverage = false }) {
      run = { tasks: new Map(plan.tasks.map((task) => [task.name, task])), coverage };
    },
    onRunEnd: (end) => write(end, run),
  };
}

/** Where a reporter writes, and what the place can show. */
export interface ReporterOutput {
  write(text: string): void;
  readonly isTerminal: boolean;
  /** Only what did not pass, and the last lines. Absent: everything. */
  readonly quiet?: boolean | undefined;
  readonly colors: boolean;
  /** Width in columns; 80 when unknown. */
  readonly columns: () => number;
  /** Takes Markdown for the summary of a job, where a CI system has a place for it. */
  readonly summary?: (markdown: string) => void;
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number;
  /** Calls back about every `ms` until the returned function is called; used for live progress. */
  every(ms: number, callback: () => void): () => void;
  /**
   * Gives a reporter that draws in place the notices that would break its drawing, until the returned function is called.
   * Without a text, one is about to be written in another way.
   */
  notices?(listener: (text?: string) => void): () => void;
}

export interface NamedReporter {
  readonly name: string;
  readonly reporter: Reporter;
}

/** What a reporter threw; it got no more events of the run. */
export interface ReporterFailure {
  readonly reporter: string;
  readonly error: unknown;
}

/** Several reporters as one, with what went wrong in them. */
export interface Multiplexer extends Required<Reporter> {
  readonly errors: readonly ReporterFailure[];
}

/**
 * Passes every event to every reporter. A reporter that throws, or whose promise rejects, is dropped and its error kept in
 * `errors`: it can never end a run. `close` reaches dropped reporters too, so that what they hold is let go.
 * No method of the multiplexer throws or rejects.
 */
export function createMultiplexer(reporters: readonly NamedReporter[]): Multiplexer {
  const errors: ReporterFailure[] = [];
  const active = new Set(reporters);

  const drop = (entry: NamedReporter, error: unknown): void => {
    active.delete(entry);
    errors.push({ reporter: entry.name, error });
  };
  const ask = async (entry: NamedReporter, tell: (reporter: Reporter) => Awaitable<void>): Promise<void> => {
    try {
      await tell(entry.reporter);
    } catch (error) {
      drop(entry, error);
    }
  };
  const askAll = async (tell: (reporter: Reporter) => Awaitable<void>): Promise<void> => {
    if (active.size > 0) await Promise.all([...active].map((entry) => ask(entry, tell)));
  };

  return {
    errors,
    onRunStart: (start) => askAll((reporter) => reporter.onRunStart?.(start)),
    onTrialStart: (trial) => askAll((reporter) => reporter.onTrialStart?.(trial)),
    onEvent(event) {
      for (const entry of active) {
        try {
          const returned: unknown = entry.reporter.onEvent?.(event);
          // An async function passes for a listener that returns nothing; its rejection must not get lost.
          if (returned instanceof Promise) returned.catch((error: unknown) => drop(entry, error));
        } catch (error) {
          drop(entry, error);
        }
      }
    },
    onTrialEnd: (result) => askAll((reporter) => reporter.onTrialEnd?.(result)),
    onRunEnd: (end) => askAll((reporter) => reporter.onRunEnd?.(end)),
    async close() {
      await Promise.all(reporters.map((entry) => ask(entry, (reporter) => reporter.close?.())));
    },
  };
}
