import type { Emit, EventBody, TraceEvent } from "./events.ts";
import type { Redact } from "./redact.ts";

export interface RecorderOptions {
  readonly redact: Redact;
  /** Milliseconds since the Unix epoch, with differences that never go backwards. */
  readonly now: () => number;
  readonly sink: (event: TraceEvent) => void;
}

/** Makes the function that stamps a trial's events, removes secrets from them and hands them on. */
export function createRecorder(trial: string, { redact, now, sink }: RecorderOptions): Emit {
  let seq = 0;
  return (body: EventBody): number => {
    seq += 1;
    sink({ seq, at: now(), trial, ...redact(body) });
    return seq;
  };
}
