import type { EventOf, TraceEvent } from "./events.ts";
import { stepPaths } from "./step-path.ts";
import { stepRuns, type StepRun } from "./step-runs.ts";

type Finished = EventOf<"step.finished">;

/** Of how many steps it is told that they failed; of the others, how many there are. */
const most = 10;

/**
 * Steps that failed without changing a verdict, in a cleanup or by their own wish; verify steps that were skipped, or passed in
 * doubt; and tool tests that passed late.
 */
export function stepWarnings(events: readonly TraceEvent[]): string[] {
  const pathOf = stepPaths(events);
  const runs = stepRuns(events);
  const failed = runs.flatMap((run) => ignoredFailures(run));
  const told = failed.slice(0, most).map((step) => `${kindOf(step)} "${pathOf(step.step)}" ${whyOf(step)}`);
  const rest = failed.length - told.length;
  return [
    ...told,
    ...(rest > 0 ? [`${rest} more steps failed whose failure changes no verdict`] : []),
    ...skippedSteps(runs, pathOf),
    ...doubtfulSteps(runs, pathOf),
    ...lateSteps(events),
  ];
}

/** The innermost steps whose failure is ignored; what holds them failed for their sake. */
function ignoredFailures({ attempts }: StepRun): readonly Finished[] {
  const { finished, children = [] } = attempts.at(-1) ?? {};
  const inner = children.flatMap((child) => ignoredFailures(child));
  const isIgnored = finished?.ignored === true && finished.phase !== "probe";
  return inner.length === 0 && isIgnored ? [finished] : inner;
}

/** What was not looked at. A list's items and alternatives are chosen among with conditions, which is no news. */
function skippedSteps(runs: readonly StepRun[], pathOf: (step: string) => string): string[] {
  const skipped = runs.flatMap((run) => skippedIn(run));
  const told = skipped
    .slice(0, most)
    .map(({ step }) => `verify step "${pathOf(step)}" was skipped: its if does not hold`);
  const rest = skipped.length - told.length;
  return rest > 0 ? [...told, `${rest} more verify steps were skipped`] : told;
}

function skippedIn({ attempts }: StepRun): readonly Finished[] {
  const { started, finished, children = [] } = attempts.at(-1) ?? {};
  if (finished?.phase !== "verify") return [];
  if (finished.outcome === "skipped") return [finished];
  const isRow = started?.stepType === "group" || started?.stepType === "allOf";
  return isRow ? children.flatMap((child) => skippedIn(child)) : [];
}

/** Verify steps that passed, and may have found nothing only for a mistake of their author. */
function doubtfulSteps(runs: readonly StepRun[], pathOf: (step: string) => string): string[] {
  const told = new Map<string, string>();
  for (const { step, doubt } of runs.flatMap((run) => doubtsIn(run)))
    told.set(doubt, `verify step "${pathOf(step)}" passed, but ${doubt}`);
  const warnings = [...told.values()];
  const rest = warnings.length - most;
  return rest > 0 ? [...warnings.slice(0, most), `${rest} more verify steps passed in doubt`] : warnings;
}

/** Of a step that holds others, its own doubts first: those of the steps in it are more precise and come last. */
function doubtsIn({ attempts }: StepRun): readonly { readonly step: string; readonly doubt: string }[] {
  const { finished, children = [] } = attempts.at(-1) ?? {};
  if (finished?.phase !== "verify" || finished.outcome !== "passed") return [];
  const own = finished.checks.flatMap(({ passed, doubt }) =>
    passed && doubt !== undefined ? [{ step: finished.step, doubt }] : [],
  );
  return [...own, ...children.flatMap((child) => doubtsIn(child))];
}

function kindOf({ phase }: Finished): string {
  return `${phase} step`;
}

function whyOf({ outcome, checks, error, phase }: Finished): string {
  const what = outcome === "failed" ? "failed" : outcome === "timeout" ? "took too long" : "could not act";
  const failed = checks.filter((check) => !check.passed);
  const why =
    error === undefined ? failed.map((check) => `${check.name}: ${check.message}`).join("; ") : error.message;
  const note = phase === "cleanup" ? "" : ", which changes no verdict";
  return `${what}${note}${why === "" ? "" : `: ${why}`}`;
}

/** A tool test is to pass at once; steps of tasks poll, so that passing late is what they are for. */
function lateSteps(events: readonly TraceEvent[]): string[] {
  if (events.some((event) => event.type === "workspace.created")) return [];
  return events.flatMap((event) =>
    event.type === "step.finished" && event.outcome === "passed" && event.attempt > 1
      ? [`passed only at attempt ${event.attempt}; the attempts before are in the trace`]
      : [],
  );
}
