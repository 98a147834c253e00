import type { Emit, EventBody, TraceEvent } from "./events.ts";
import { mostMemory } from "../formats/json-meter.ts";
import { clipped, isUnbounded, RecordBudget, weightOf } from "./record-budget.ts";
import { type Redact, writeJson } from "./redact.ts";

export interface RecorderOptions {
  readonly redact: Redact;
  /** Milliseconds since the Unix epoch, with differences that never go backwards. */
  readonly now: () => number;
  /** Gets every event, together with its JSON, which is made only once. */
  readonly sink: (event: TraceEvent, json: string) => void;
  /**
   * Called when the record has a gap, and the trial must not go on: McpvalsError `trial/record-full`, once, or what nobody
   * expected. From `trial/record-full` on only events that tell how the trial went are recorded, without what is long in them.
   */
  readonly onBroken: (error: unknown) => void;
  /** Most that all events may weigh together, in bytes. Default: {@link mostMemory}. */
  readonly limit?: number;
}

/**
 * Makes the function that stamps a trial's events, removes secrets from them and hands them on. It never throws, since most
 * who call it have nobody to throw to.
 */
export function createRecorder(trial: string, options: RecorderOptions): Emit {
  const { redact, now, sink, onBroken, limit = mostMemory } = options;
  const budget = new RecordBudget(limit);
  let seq = 0;
  let isFull = false;
  const record = (body: EventBody): number => {
    if (isFull && isUnbounded(body)) return 0;
    const stamp = { seq: seq + 1, at: now(), trial };
    const { event, json } = written(stamp, body, redact);
    const problem = isFull ? undefined : budget.take(body, weightOf(event, json));
    isFull ||= problem !== undefined;
    const isKept = !isFull || !isUnbounded(body);
    if (isKept) {
      seq += 1;
      if (isFull) sinkClipped(event, json, sink);
      else sink(event, json);
    }
    if (problem !== undefined) onBroken(problem);
    return isKept ? seq : 0;
  };
  return (body) => {
    try {
      return record(body);
    } catch (error) {
      onBroken(error);
      return 0;
    }
  };
}

interface Written {
  readonly event: TraceEvent;
  readonly json: string;
}

function written(stamp: Pick<TraceEvent, "seq" | "at" | "trial">, body: EventBody, redact: Redact): Written {
  const event: TraceEvent = { ...stamp, ...body };
  const json = writeJson(event);
  if (json !== undefined && redact.isClean(json)) return { event, json };
  const redacted: TraceEvent = { ...withoutSecrets(body, redact), ...stamp };
  return { event: redacted, json: JSON.stringify(redacted) };
}

function sinkClipped(event: TraceEvent, json: string, sink: RecorderOptions["sink"]): void {
  if (json.length <= shortEvent) return sink(event, json);
  const short = clipped(event) as TraceEvent;
  sink(short, JSON.stringify(short));
}

/** An event of so many characters is recorded as it is when there is no room for long ones. */
const shortEvent = 4096;

/** The text on the wire may write a secret in ways without end, so it goes when its message held one. */
function withoutSecrets(body: EventBody, redact: Redact): EventBody {
  // Grades are made from what was redacted, so that marks in them are real.
  const clean = body.type === "trial.graded" ? redact(body) : redact.fromOutside(body);
  if (body.type !== "mcp.message" || clean.type !== "mcp.message" || clean.message === body.message)
    return clean;
  const { raw: _raw, ...rest } = clean;
  return rest;
}
