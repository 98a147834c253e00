import type { EventOf, TraceEvent } from "./events.ts";

/** A step with its attempts, as its events tell them. */
export interface StepRun {
  /** Its name in the trace. */
  readonly step: string;
  readonly attempts: readonly StepAttempt[];
}

/** One attempt of a step, with the steps that it ran. */
export interface StepAttempt {
  readonly started: EventOf<"step.started">;
  /** Absent when the trial was cut off. */
  readonly finished?: EventOf<"step.finished">;
  /** Numbers of the messages that it exchanged itself. */
  readonly messages: readonly number[];
  readonly children: readonly StepRun[];
}

interface OpenAttempt {
  readonly started: EventOf<"step.started">;
  finished?: EventOf<"step.finished">;
  readonly messages: number[];
  readonly children: OpenRun[];
}

interface OpenRun {
  readonly step: string;
  readonly attempts: OpenAttempt[];
}

/** Joins the events of steps: the phases' own steps in order, each with its attempts, and those with what they ran. */
export function stepRuns(events: readonly TraceEvent[]): readonly StepRun[] {
  const top: OpenRun[] = [];
  const open: OpenAttempt[] = [];
  for (const event of events) {
    if (event.type === "mcp.message") open.at(-1)?.messages.push(event.seq);
    if (event.type === "step.started") {
      const attempt: OpenAttempt = { started: event, messages: [], children: [] };
      addAttempt(open.at(-1)?.children ?? top, attempt);
      open.push(attempt);
    }
    if (event.type === "step.finished") {
      const attempt = open.pop();
      if (attempt !== undefined) attempt.finished = event;
    }
  }
  return top;
}

function addAttempt(runs: OpenRun[], attempt: OpenAttempt): void {
  const { step, attempt: number, phase } = attempt.started;
  const last = runs.at(-1);
  const isAgain = last?.step === step && number > 1 && last.attempts.at(-1)?.started.phase === phase;
  if (isAgain) last.attempts.push(attempt);
  else runs.push({ step, attempts: [attempt] });
}
