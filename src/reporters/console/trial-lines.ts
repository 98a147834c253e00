import type { Plan, Trial } from "../../core/plan/plan.ts";
import { wasNotRun } from "../../core/report/summarize.ts";
import type { TrialResult } from "../../core/report/result.ts";
import type { Verdict } from "../../core/grade/grader.ts";
import { displayWidth, padToWidth, type Page, type Tone } from "../format/rows.ts";
import { fullTitle, groupName, type Nameable, taskTitle, variantName, varietyOf } from "../format/names.ts";
import { formatDuration } from "../format/numbers.ts";

/** How each verdict is marked. */
const verdictMarks: Readonly<Record<Verdict, { readonly mark: string; readonly tone: Tone }>> = {
  pass: { mark: "✓", tone: "good" },
  fail: { mark: "✗", tone: "bad" },
  error: { mark: "!", tone: "warn" },
  timeout: { mark: "!", tone: "warn" },
  skip: { mark: "-", tone: "dim" },
};

const maxNameWidth = 60;
const durationWidth = 9;

/** Writes one line for each finished trial, names and times in columns that hold for the whole run. */
export interface TrialLines {
  /** The lines to print for a result, a heading included where its group begins. */
  of(result: TrialResult): string[];
  /** A planned trial's name in one line, for progress. */
  readonly nameOf: (trial: Trial) => string;
}

/**
 * Lays out the lines of a run. Groups get headings when trials run one after the other; where several groups overlap, the
 * group's name stands before each task instead.
 */
export function createTrialLines(plan: Plan, { style, width }: Page): TrialLines {
  const variety = varietyOf(plan.trials);
  const tasks = new Map(plan.tasks.map((task) => [task.name, task]));
  const groups = new Set(plan.tasks.map(groupName));
  const unsaid = groups.size === 1 && (groups.has("workflows") || groups.has("tasks"));
  const headed = !unsaid && (plan.concurrency === 1 || groups.size === 1);
  const named = (trial: Trial): Nameable => ({ form: "workflow", ...tasks.get(trial.task), ...trial });
  const title = headed || unsaid ? taskTitle : fullTitle;
  const nameWidth = Math.min(
    plan.trials.reduce((most, trial) => Math.max(most, displayWidth(nameOf(named(trial)))), 0),
    maxNameWidth,
    Math.max(20, width - 24),
  );
  let group: string | undefined;

  function nameOf(trial: Nameable): string {
    const variant = variantName(trial, variety);
    return variant === "" ? title(trial) : `${title(trial)} · ${variant}`;
  }

  function headingOf(result: TrialResult): string[] {
    if (!headed || group === groupName(result)) return [];
    const first = group === undefined;
    group = groupName(result);
    return [...(first ? [] : [""]), `  ${style.strong(group)}`];
  }

  return {
    nameOf: (trial) => nameOf(named(trial)),
    of(result) {
      if (wasNotRun(result)) return [];
      const { mark, tone } = verdictMarks[result.verdict];
      const name = padToWidth(nameOf(result), nameWidth);
      const time = style.dim(formatDuration(result.durationMs).padStart(durationWidth));
      const note = noteOf(result);
      const remark = note === "" ? "" : `  ${style[tone](note)}`;
      const shown = result.verdict === "skip" ? style.dim(name) : name;
      return [...headingOf(result), `  ${style[tone](mark)} ${shown}  ${time}${remark}`];
    },
  };
}

function noteOf({ verdict, error }: TrialResult): string {
  switch (verdict) {
    case "pass":
    case "fail":
      return "";
    case "error":
      return error?.code ?? "no verdict";
    case "timeout":
      return "timeout";
    case "skip":
      return "skipped";
  }
}
