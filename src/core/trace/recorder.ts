import type { Emit, EventBody, TraceEvent } from "./events.ts";
import { type Redact, writeJson } from "./redact.ts";

export interface RecorderOptions {
  readonly redact: Redact;
  /** Milliseconds since the Unix epoch, with differences that never go backwards. */
  readonly now: () => number;
  /** Gets every event, together with its JSON, which is made only once. */
  readonly sink: (event: TraceEvent, json: string) => void;
}

/** Makes the function that stamps a trial's events, removes secrets from them and hands them on. */
export function createRecorder(trial: string, { redact, now, sink }: RecorderOptions): Emit {
  let seq = 0;
  return (body: EventBody): number => {
    seq += 1;
    const event: TraceEvent = { seq, at: now(), trial, ...body };
    const json = writeJson(event);
    if (json !== undefined && redact.isClean(json)) sink(event, json);
    else {
      const redacted: TraceEvent = { ...withoutSecrets(body, redact), seq, at: event.at, trial };
      sink(redacted, JSON.stringify(redacted));
    }
    return seq;
  };
}

/** The text on the wire may write a secret in ways without end, so it goes when its message held one. */
function withoutSecrets(body: EventBody, redact: Redact): EventBody {
  const clean = redact(body);
  if (body.type !== "mcp.message" || clean.type !== "mcp.message" || clean.message === body.message)
    return clean;
  const { raw: _raw, ...rest } = clean;
  return rest;
}
