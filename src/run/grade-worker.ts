import { parentPort, workerData } from "node:worker_threads";
import { McpvalsError } from "../core/errors/error.ts";
import { bytesOf, lineOf } from "../store/journal.ts";
import { type Graded, type GradedShare, type GradingJob, gradeTrials, type Share } from "./grade-trials.ts";

/** What a thread is to grade. */
export interface GradeWork {
  readonly job: GradingJob;
  readonly share: Share;
}

/** What a thread has graded since its last message; the last one has `ended`. */
export interface GradeProgress {
  readonly trials: readonly Graded[];
  /** Lines for the journal, without the last line break. */
  readonly lines: Uint8Array;
  /** Files that the lines refer to. */
  readonly attachments: readonly string[];
  readonly ended?: GradedShare;
}

/** Why a thread has ended early. */
export interface GradeProblem {
  readonly problem: Pick<McpvalsError, "code" | "message" | "details">;
}

/** Lines that are sent at once, in bytes. */
const messageBytes = 512 * 1024;

const { job, share } = workerData as GradeWork;
let trials: Graded[] = [];
let lines: (string | Uint8Array)[] = [];
let attachments: string[] = [];
let size = 0;

function addLine(line: string | Uint8Array): void {
  if (lines.length > 0) lines.push("\n");
  lines.push(line);
  size += line.length;
}

function send(ended?: GradedShare): void {
  const bytes = bytesOf(lines);
  const progress = { trials, lines: bytes, attachments, ...(ended === undefined ? {} : { ended }) };
  parentPort?.postMessage(progress satisfies GradeProgress, [bytes.buffer]);
  [trials, lines, attachments, size] = [[], [], [], 0];
}

try {
  const graded = await gradeTrials(job, share, {
    // Whoever started the thread ends it.
    signal: new AbortController().signal,
    journal: {
      append: (_event, json) => addLine(lineOf(json)),
      copy(parts, files) {
        for (const part of parts) addLine(part);
        for (const file of files) attachments.push(file);
      },
    },
    onTrial(trial) {
      trials.push(trial);
      if (size >= messageBytes) send();
    },
  });
  send(graded);
} catch (error) {
  if (!(error instanceof McpvalsError)) throw error;
  const { code, message, details } = error;
  parentPort?.postMessage({ problem: { code, message, details } } satisfies GradeProblem);
}
