import { setTimeout as delay } from "node:timers/promises";
import { McpvalsError, messageOf } from "../base/error.ts";
import type { TrialUpdate } from "../report/documents/documents.ts";
import type { RunRecord } from "../report/documents/run-record.ts";

/** Least time between two messages, in milliseconds. */
const betweenMs = 250;
/** Without anything else to say, a comment after so many milliseconds keeps the connection. */
const heartbeatMs = 15_000;

/** Looks for something new; undefined: there is nothing. */
type Look = () => Promise<object | undefined>;

/** Follows a run: all of it first, then what changes, until it has ended. */
export async function followRun(record: RunRecord, signal: AbortSignal): Promise<Response> {
  let version = 0;
  await record.refresh();
  return eventStream(record, signal, async () => {
    const changes = await record.changesSince(version);
    version = changes.version;
    return changes.update;
  });
}

/** Follows a trial: all of it first, then the items and events that are new or changed, until the run has ended. */
export async function followTrial(record: RunRecord, trial: string, signal: AbortSignal): Promise<Response> {
  const items = new Map<number, string>();
  let stamp: string | undefined;
  let lastEvent = 0;
  // An unknown trial is an answer of its own.
  await record.stampOf(trial);
  return eventStream(record, signal, async () => {
    const now = await record.stampOf(trial);
    if (now === stamp) return undefined;
    stamp = now;
    const document = await record.trial(trial);
    const changed = document.items.filter((item) => {
      const json = JSON.stringify(item);
      const isNew = items.get(item.seq) !== json;
      if (isNew) items.set(item.seq, json);
      return isNew;
    });
    const events = document.events.filter(({ seq }) => seq > lastEvent);
    lastEvent = events.at(-1)?.seq ?? lastEvent;
    return { ...document, items: changed, events } satisfies TrialUpdate;
  });
}

/** Server-sent events: a message for each thing that is new, `end` when the run has ended, `failed` when it cannot be read. */
function eventStream(record: RunRecord, signal: AbortSignal, look: Look): Response {
  const gone = new AbortController();
  const ended = AbortSignal.any([signal, gone.signal]);
  const encoder = new TextEncoder();
  const messages = liveMessages(record, ended, look);
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { value, done } = await messages.next();
        if (done === true) controller.close();
        else controller.enqueue(encoder.encode(value));
      } catch (error) {
        if (!ended.aborted) throw error;
        // What was cancelled is closed already.
        if (!gone.signal.aborted) controller.close();
      }
    },
    cancel: () => gone.abort(),
  });
  return new Response(body, { headers: { "content-type": "text/event-stream; charset=utf-8" } });
}

async function* liveMessages(record: RunRecord, signal: AbortSignal, look: Look): AsyncGenerator<string> {
  let silentSince = performance.now();
  while (!signal.aborted) {
    const started = performance.now();
    const isLast = record.isOver;
    try {
      const update = await look();
      if (update !== undefined) yield `data: ${JSON.stringify(update)}\n\n`;
      else if (started - silentSince > heartbeatMs) yield ": nothing new\n\n";
      if (update !== undefined || started - silentSince > heartbeatMs) silentSince = started;
    } catch (error) {
      if (signal.aborted) return;
      yield `event: failed\ndata: ${JSON.stringify(toldError(error))}\n\n`;
      return;
    }
    if (isLast) {
      yield "event: end\ndata: {}\n\n";
      return;
    }
    if (record.isOver) continue;
    // A long trial takes its time to be read; other requests come in between.
    await delay(Math.max(betweenMs, 3 * (performance.now() - started)), undefined, { signal });
  }
}

/** What the app is told of an error. Files of a run that have another form than a run's lead to errors of any kind. */
export function toldError(error: unknown): { readonly message: string; readonly hint?: string } {
  if (!(error instanceof McpvalsError))
    return {
      message: `the run cannot be shown: ${messageOf(error)}`,
      hint: "Its files were not written by this version of mcpvals. If they were, please report it.",
    };
  const { message, details } = error;
  return details.hint === undefined ? { message } : { message, hint: details.hint };
}
