import { parentPort, workerData } from "node:worker_threads";
import { McpvalsError } from "../base/error.ts";
import { Journal, type JournalPart } from "../store/journal.ts";
import { type Graded, type GradedTrials, type GradingJob, gradeTrials } from "./grade-trials.ts";

/** What a thread is to grade. */
export interface GradeWork {
  readonly job: GradingJob;
  readonly part: JournalPart;
  /** Folder of the new run, whose journal it adds to. */
  readonly output: string;
}

/** What a thread has graded since its last message; the last one has `ended`. */
export interface GradeProgress {
  readonly trials: readonly Graded[];
  readonly ended?: GradedTrials;
}

/** Why a thread has ended early. */
export interface GradeProblem {
  readonly problem: Pick<McpvalsError, "code" | "message" | "details">;
}

/** Trials that are reported at once. */
const trialsOfMessage = 16;

const { job, part, output } = workerData as GradeWork;
let trials: Graded[] = [];

function send(ended?: GradedTrials): void {
  parentPort?.postMessage({
    trials,
    ...(ended === undefined ? {} : { ended }),
  } satisfies GradeProgress);
  trials = [];
}

try {
  await using journal = new Journal(output);
  const graded = await gradeTrials(job, part, {
    // Whoever started the thread ends it.
    signal: new AbortController().signal,
    journal,
    onTrial(trial) {
      trials.push(trial);
      if (trials.length >= trialsOfMessage) send();
    },
  });
  await journal.commit();
  send(graded);
} catch (error) {
  if (!(error instanceof McpvalsError)) throw error;
  const { code, message, details } = error;
  parentPort?.postMessage({ problem: { code, message, details } } satisfies GradeProblem);
}
