import type { ReactElement } from "react";
import type { RunVerdict } from "../../../src/model/grade.ts";
import type { RunRow, TrialRow } from "../../../src/report/documents/documents.ts";
import { useIsOffline } from "../connection.ts";
import type { Verdict } from "../../../src/model/grade.ts";

/** What there is to say of a run, a trial or a grade in one word. */
export type Status =
  | Verdict
  | RunVerdict
  | Exclude<RunRow["state"] | TrialRow["state"], "ended">
  /** What was going on when the dashboard answered last. */
  | "unknown"
  | "none";

interface Look {
  readonly word: string;
  readonly tone: keyof typeof tones;
  /** Path in a square of 16. */
  readonly sign: string;
}

/** Text, and text on its soft background. */
export const tones = {
  pass: { text: "text-pass", soft: "bg-pass-soft text-pass" },
  fail: { text: "text-fail", soft: "bg-fail-soft text-fail" },
  error: { text: "text-error", soft: "bg-error-soft text-error" },
  active: { text: "text-accent", soft: "bg-accent-soft text-accent" },
  quiet: { text: "text-muted", soft: "bg-raised text-muted" },
} as const;

const cross = "M4 4l8 8M12 4l-8 8";
const exclamation = "M8 3v6.5M8 12.5v.5";

const looks: Readonly<Record<Status, Look>> = {
  pass: { word: "Pass", tone: "pass", sign: "M3 8.5l3.5 3.5L13 4.5" },
  fail: { word: "Fail", tone: "fail", sign: cross },
  error: { word: "Error", tone: "error", sign: exclamation },
  timeout: { word: "Timeout", tone: "error", sign: "M8 2a6 6 0 1 0 .01 0M8 4.5V8l2.5 2" },
  skip: { word: "Skipped", tone: "quiet", sign: "M4 3l6 5-6 5M12 3v10" },
  incomplete: { word: "Incomplete", tone: "error", sign: "M8 2a6 6 0 1 0 .01 0M5 8h6" },
  interrupted: { word: "Interrupted", tone: "quiet", sign: "M5 3v10M11 3v10" },
  running: { word: "Running", tone: "active", sign: "M8 2a6 6 0 1 1-5.2 3" },
  waiting: { word: "Waiting", tone: "quiet", sign: "M4 8h.01M8 8h.01M12 8h.01" },
  "cut-off": { word: "Cut off", tone: "error", sign: "M2 8h3M11 8h3M9.5 3l-3 10" },
  "not-run": { word: "Not run", tone: "quiet", sign: "M8 2a6 6 0 1 0 .01 0M4 12l8-8" },
  unknown: { word: "Unknown", tone: "quiet", sign: "M5.5 6a2.5 2.5 0 1 1 3.6 2.2Q8 8.8 8 10M8 12.5v.5" },
  damaged: { word: "Damaged", tone: "error", sign: exclamation },
  none: { word: "No verdict", tone: "quiet", sign: "M4 8h8" },
};

/** In which order verdicts are listed where what went wrong comes first. */
export const statusOrder: readonly Status[] = [
  "fail",
  "error",
  "timeout",
  "damaged",
  "cut-off",
  "incomplete",
  "interrupted",
  "running",
  "waiting",
  "unknown",
  "not-run",
  "skip",
  "pass",
  "none",
];

export function statusOf(row: {
  readonly state: RunRow["state"] | TrialRow["state"];
  readonly verdict?: Verdict | RunVerdict;
}): Status {
  return row.state === "ended" ? (row.verdict ?? "none") : row.state;
}

/** How many trials have each status. */
export function statusCounts(trials: readonly TrialRow[]): Readonly<Partial<Record<Status, number>>> {
  const counts: Partial<Record<Status, number>> = {};
  for (const trial of trials) {
    const status = statusOf(trial);
    counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

/** The status to show: while the dashboard does not answer, it is not known whether what went on still does. */
export function useShownStatus(): (status: Status) => Status {
  const isOffline = useIsOffline();
  return (status) => (isOffline && (status === "running" || status === "waiting") ? "unknown" : status);
}

export function wordOf(status: Status): string {
  return looks[status].word;
}

export function toneOf(status: Status): (typeof tones)[keyof typeof tones] {
  return tones[looks[status].tone];
}

export function VerdictSign({ status }: { readonly status: Status }): ReactElement {
  return (
    <svg
      viewBox="0 0 16 16"
      aria-hidden="true"
      className={`size-3.5 shrink-0 fill-none stroke-current stroke-2 [stroke-linecap:round] [stroke-linejoin:round] ${
        status === "running" ? "spins" : ""
      }`}
    >
      <path d={looks[status].sign} />
    </svg>
  );
}

/** A verdict as a sign and a word, in its colour. */
export function VerdictBadge({
  status: known,
  large = false,
}: {
  readonly status: Status;
  readonly large?: boolean;
}): ReactElement {
  const status = useShownStatus()(known);
  const size = large ? "px-2.5 py-1 text-base" : "px-1.5 py-0.5 text-xs";
  return (
    <span
      className={`inline-flex items-center gap-1 rounded-md align-middle font-medium whitespace-nowrap ${size} ${toneOf(status).soft}`}
    >
      <VerdictSign status={status} />
      {wordOf(status)}
    </span>
  );
}
