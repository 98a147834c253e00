import { serializeError } from "../base/error.ts";
import { taskOf, type Trial } from "../model/plan.ts";
import { eventsOf, type TraceEvent } from "../model/event.ts";
import type { RecordedRun, RunResult, TrialResult } from "../model/result.ts";
import { buildTrajectory, readTrace, type Trajectory } from "../trace/trajectory.ts";
import { fingerprintsOf } from "./fingerprint.ts";
import { compareWithBaseline } from "./baseline.ts";
import { collectEvidence, KeptEvidence } from "./evidence.ts";
import { type JournalContent, readJournal } from "../store/journal.ts";
import { JournalIndex } from "../store/journal-index.ts";
import { explained } from "../store/misfits.ts";
import { readSettledResult } from "../store/run-files.ts";
import type { OpenedRun } from "../store/run-folder.ts";
import type { RunEnd } from "./reporter.ts";
import { notRun, RunTally, trialResult, ungradedTrial } from "./result.ts";

/**
 * Computes the result of a run again from its plan and its events, one trial at a time, so that only the events of one need
 * be in memory.
 */
export class RunReplay {
  readonly #run: Omit<RecordedRun, "events">;
  readonly #tally: RunTally;

  constructor(run: Omit<RecordedRun, "events">) {
    this.#run = run;
    this.#tally = new RunTally(run.plan);
  }

  /** The row of a trial in the result; each trial is to be added once. */
  add(trial: Trial, events: readonly TraceEvent[]): TrialResult {
    return this.resultOf(trial, events, { tally: this.#tally });
  }

  /** Adds a trial whose row is known. */
  keep(result: TrialResult, trajectory: Trajectory): void {
    this.#tally.add(trajectory, result);
  }

  /** The row of a trial, added to a tally if one is given. `trajectory`: of the trial, where it was built before. */
  resultOf(
    trial: Trial,
    events: readonly TraceEvent[],
    { tally, trajectory: built }: { readonly tally?: RunTally; readonly trajectory?: Trajectory } = {},
  ): TrialResult {
    const { interrupted, durationMs, budget } = this.#run;
    const task = taskOf(trial, this.#run.plan);
    if (events.length === 0) {
      const error = notRun({
        interrupted: interrupted === true || durationMs === undefined,
        usedUp: budget?.usedUp,
      });
      return ungradedTrial(trial, task, { verdict: "skip", error, durationMs: 0 });
    }
    try {
      const trajectory = built ?? buildTrajectory(trial, task, events);
      const result = trialResult(trajectory, eventsOf(events, "trial.graded").at(-1)?.grades);
      tally?.add(trajectory, result);
      return result;
    } catch (cause) {
      return ungradedTrial(trial, task, {
        verdict: "error",
        error: serializeError(explained(cause, events)),
        durationMs: 0,
      });
    }
  }

  /** What the trials that were added say together. */
  totals(): ReturnType<RunTally["totals"]> {
    return this.#tally.totals();
  }

  /**
   * The result, given the rows of all trials and when the last event was. A run that was cut off is `interrupted`, unless all of
   * its trials had been graded. `ended`: what is known of it only now.
   */
  result(
    trials: readonly TrialResult[],
    lastAt: number | undefined,
    ended: Partial<Pick<RecordedRun, "plan" | "budget">> = {},
  ): RunResult {
    const { startedAt, durationMs } = this.#run;
    const { plan = this.#run.plan } = ended;
    const interrupted =
      this.#run.interrupted === true || trials.some(({ error }) => error?.code === "run/interrupted");
    const start = Date.parse(startedAt);
    const fingerprints = fingerprintsOf(plan.tasks);
    const head = {
      ...this.#run,
      ...ended,
      durationMs: durationMs ?? Math.max(0, (lastAt ?? start) - start),
      fingerprints,
      comparison: compareWithBaseline(plan, { ...this.#run, trials, interrupted, fingerprints }),
    };
    return this.#tally.result(head, trials, plan, { interrupted });
  }
}

/** What is reported of a recorded run: by its result where that is sure to be what the journal says, else by {@link replayRun}. Throws `store/corrupt`. */
export async function readRunEnd(run: OpenedRun): Promise<RunEnd & Pick<JournalContent, "torn">> {
  const trials: TrialResult[] = [];
  const settled = await readSettledResult(run.folder, (some) => {
    for (const trial of some) trials.push(trial);
  });
  if (settled === undefined) {
    const content = await readJournal(run.folder);
    return { ...replayRun({ ...run, ...content }), torn: content.torn };
  }
  return {
    result: { ...settled, trials },
    evidence: evidenceOf(run, trials.filter(hasEvidence)),
    torn: false,
  };
}

function hasEvidence({ verdict }: TrialResult): boolean {
  return verdict !== "pass" && verdict !== "skip";
}

/** What the reports of a run show of its first trials that did not pass. */
function evidenceOf({ folder }: OpenedRun, trials: readonly TrialResult[]): RunEnd["evidence"] {
  const kept = new KeptEvidence();
  if (trials.length === 0) return kept.byTrial;
  const index = new JournalIndex(folder);
  index.extend();
  for (const trial of trials) {
    if (kept.isFull) break;
    kept.keep(trial, readTrace(index.events(trial.id)));
  }
  return kept.byTrial;
}

/** Computes a run's result again from its plan and its events alone. Throws `store/corrupt` for events that cannot be read. */
export function replayRun(run: RecordedRun): RunEnd {
  const byTrial = Map.groupBy(run.events, (event) => event.trial);
  const evidence = new Map<string, readonly TraceEvent[]>();
  const replay = new RunReplay(run);
  const trials = run.plan.trials.map((trial): TrialResult => {
    const events = byTrial.get(trial.id) ?? [];
    const result = replay.add(trial, events);
    // Events that cannot be read as a trial are evidence of nothing.
    const isUnreadable = result.error?.kind === "bug" || result.error?.code === "store/corrupt";
    if (events.length === 0 || result.verdict === "pass" || isUnreadable) return result;
    try {
      evidence.set(trial.id, collectEvidence(readTrace(events), result.grades));
    } catch (cause) {
      throw explained(cause, events);
    }
    return result;
  });
  return { result: replay.result(trials, run.events.at(-1)?.at), evidence };
}
