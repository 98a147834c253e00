import { maxMemory } from "../base/limits.ts";
import { McpvalsError } from "../base/error.ts";
import { containerWeight, valueWeight } from "../base/read-json.ts";
import type { Emit, EventBody, TraceEvent } from "../model/event.ts";
import { type Redact, writeJson } from "./redact.ts";

export interface RecorderOptions {
  readonly redact: Redact;
  /** Milliseconds since the Unix epoch, with differences that never go backwards. */
  readonly now: () => number;
  /** The trial's events that are on record already; every event is added. */
  readonly events: TraceEvent[];
  /** Called with every event and its JSON, which is made only once. */
  readonly onEvent: (event: TraceEvent, json: string) => void;
  /**
   * Called when the record has a gap, and the trial must not go on: McpvalsError `trial/record-full`, once, or what nobody
   * expected. From `trial/record-full` on only events that tell how the trial went are recorded, without what is long in them.
   */
  readonly onBroken: (error: unknown) => void;
  /** Most that all events may weigh together, in bytes. Default: {@link maxMemory}. */
  readonly limit?: number;
}

/**
 * Makes the function that stamps a trial's events, removes secrets from them and hands them on. It never throws, since most
 * who call it have nobody to throw to.
 */
export function createRecorder(trial: string, options: RecorderOptions): Emit {
  const { redact, now, events, onEvent, onBroken, limit = maxMemory } = options;
  /** Bytes of memory that all events take. */
  let used = 0;
  let seq = events.at(-1)?.seq ?? 0;
  let isFull = false;
  const record = (body: EventBody): number => {
    if (isFull && isUnbounded(body)) return 0;
    const stamp = { seq: seq + 1, at: now(), trial };
    const event: TraceEvent = { ...stamp, ...body };
    const whole = writeJson(event);
    const isClean = whole !== undefined && redact.isClean(whole);
    const clean: TraceEvent = isClean ? event : { ...withoutSecrets(body, redact), ...stamp };
    const json = isClean ? whole : JSON.stringify(clean);
    const wasFull = isFull;
    if (!wasFull) {
      used += weightOf(clean, json);
      isFull = used > limit;
    }
    // Before the event is added, which may be cut.
    const broken = isFull && !wasFull ? recordFull(limit, [...events, clean]) : undefined;
    const isKept = !isFull || !isUnbounded(body);
    if (isKept) {
      seq += 1;
      const shown = isFull && json.length > shortEvent ? (clipped(clean) as TraceEvent) : clean;
      events.push(shown);
      onEvent(shown, shown === clean ? json : JSON.stringify(shown));
    }
    if (broken !== undefined) onBroken(broken);
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

/** An event of so many characters is recorded as it is when there is no room for long ones. */
const shortEvent = 4096;

/** The text on the wire may write a secret in any way, so it goes when its message held one. */
function withoutSecrets(body: EventBody, redact: Redact): EventBody {
  // Grades are made from what was redacted, so that marks in them are real.
  const clean = body.type === "trial.graded" ? redact(body) : redact.fromOutside(body);
  if (body.type !== "mcp.message" || clean.type !== "mcp.message" || clean.message === body.message)
    return clean;
  const { raw: _raw, ...rest } = clean;
  return rest;
}

/**
 * About how many bytes of memory a value takes, of which the JSON is known: that of its text, and that of the lists, objects
 * and other values in it, since a list of empty objects takes twenty times its text.
 */
export function weightOf(value: unknown, json: string): number {
  // A character beyond Latin-1 makes every character of its text take two bytes.
  let weight = /[\u0100-\uffff]/.test(json) ? json.length * 2 : json.length;
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next !== "object" || next === null) weight += valueWeight;
    else {
      weight += containerWeight;
      // Not `Object.values`: this runs for every event, and would make a list of each object in it.
      for (const key in next) {
        const item: unknown = Reflect.get(next, key);
        if (typeof item === "object" && item !== null) open.push(item);
        else weight += valueWeight;
      }
    }
  }
  return weight;
}

function recordFull(limit: number, events: readonly TraceEvent[]): McpvalsError {
  const users = new Map<string, number>();
  for (const event of events) {
    const user = userOf(event);
    users.set(user, (users.get(user) ?? 0) + weightOf(event, JSON.stringify(event)));
  }
  const [[name, weight] = ["nobody", 0]] = [...users].toSorted(([, a], [, b]) => b - a);
  return new McpvalsError(
    "trial/record-full",
    `a trial records at most ${mebibytes(limit)} MiB, and this one had more: ${mebibytes(weight)} MiB from ${name}`,
    { hint: "Have it send less: all messages of a trial are kept in memory until the trial is graded." },
  );
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 1024 / 1024);
}

/** Who has made us record an event, in words. */
function userOf(event: EventBody): string {
  switch (event.type) {
    case "mcp.message":
      return event.direction === "client-to-server" ? "the agent and the steps" : `server "${event.server}"`;
    case "step.started":
    case "step.finished":
      return `step ${event.step}`;
    default:
      if ("extension" in event) return `extension "${event.extension}"`;
      if ("server" in event) return `server "${event.server}"`;
      return /^(?:agent|turn|tool|model)\./.test(event.type) ? "the agent" : "the trial itself";
  }
}

/**
 * Whether an event is of a kind that servers, agents and extensions can cause without end. The others are few, and tell how
 * the trial went.
 */
function isUnbounded({ type }: EventBody): boolean {
  return !bounded.test(type);
}

const bounded =
  /^(?:trial|phase|step|workspace|state|client_config)\.|^server\.(?:started|failed|ready|exited|stopped)$|\.(?:exited|output_omitted)$/;

const maxTextLength = 1000;
const maxListLength = 100;

/** A value of the same shape without what makes it large: long texts and lists are cut, and say so. */
export function clipped(value: unknown): unknown {
  if (typeof value === "string")
    return value.length <= maxTextLength
      ? value
      : `${value.slice(0, maxTextLength)}… [${value.length - maxTextLength} more characters were not recorded]`;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.slice(0, maxListLength).map(clipped);
  const entries = Object.entries(value).slice(0, maxListLength);
  return Object.fromEntries(entries.map(([key, item]) => [key.slice(0, maxTextLength), clipped(item)]));
}
