import {
  canonicalJson,
  isJsonObject,
  type Json,
  type JsonObject,
  withoutUndefined,
} from "../../base/json.ts";
import { stringify } from "yaml";
import type { Trial } from "../../model/plan.ts";
import { eventLines, exitText } from "../render-trace.ts";
import type { TrialResult } from "../../model/result.ts";
import { shortened } from "../../base/visible-text.ts";
import type { Phase, TraceEvent } from "../../model/event.ts";
import { type AgentAct, agentActs, isUnrecorded, serverIn } from "../../trace/agent-acts.ts";
import {
  type Exchange,
  hasFailed,
  outcomeOf,
  saysSame,
  type StepAttempt,
  type StepRun,
  type ToolCall,
  type Trajectory,
} from "../../trace/trajectory.ts";
import {
  type CallItem,
  type Excerpt,
  excerptOf,
  type Media,
  type TraceItem,
  type TrialDocument,
} from "./documents.ts";
import { plannedRow, trialRow } from "./run-document.ts";
import { describeInput } from "../../model/step.ts";

/** What a document of a trial is made of. */
export interface TrialInput {
  readonly run: TrialDocument["run"];
  readonly trajectory: Trajectory;
  /** Absent until it has ended. */
  readonly result?: TrialResult;
  /** What of the arguments of a call does not fit, by the number of its request. */
  readonly invalid: ReadonlyMap<number, NonNullable<CallItem["invalid"]>>;
  /** A cryptographic hash of a text. */
  readonly hashOf: (text: string) => string;
  /** Trials before and after it in the plan. */
  readonly previous: Trial | undefined;
  readonly next: Trial | undefined;
  /** The same of its task. */
  readonly previousOfTask: Trial | undefined;
  readonly nextOfTask: Trial | undefined;
}

/** Makes the document of a trial. */
export function trialDocument(input: TrialInput): TrialDocument {
  const { run, trajectory, result, invalid, hashOf, previous, next, previousOfTask, nextOfTask } = input;
  const { trial, task, events } = trajectory;
  const { location, ...written } = task;
  const [first] = events;
  const lineOf = eventLines(events);
  const state = first === undefined ? "waiting" : "running";
  return withoutUndefined({
    run,
    row: result === undefined ? plannedRow(trial, task, state) : trialRow(result),
    startedAt: first === undefined ? undefined : new Date(first.at).toISOString(),
    result,
    // Long texts stay as they are written, which blocks of lines keep.
    task: stringify(written, { lineWidth: 0, aliasDuplicateObjects: false }),
    taskPlace: location && [location.file, location.line].filter((part) => part !== undefined).join(":"),
    servers: serversOf(trajectory),
    items: traceItems(trajectory, {
      invalid,
      hashOf,
      lineOf,
      isOngoing: result === undefined && run.state === "running",
    }),
    events: events.map((event) => ({
      seq: event.seq,
      at: event.at - (first?.at ?? 0),
      type: event.type,
      text: lineOf(event),
    })),
    previous: previous?.id,
    next: next?.id,
    previousOfTask: previousOfTask?.id,
    nextOfTask: nextOfTask?.id,
  });
}

/** Servers in the order in which they appear, then those of the task that did not start. */
function serversOf({ events, task }: Trajectory): readonly string[] {
  const seen = events.flatMap((event) => {
    const isServer = event.type === "mcp.message" || event.type.startsWith("server.");
    return isServer && "server" in event ? [event.server] : [];
  });
  return [...new Set([...seen, ...task.servers])];
}

/** What items are made with besides the events. */
interface Making {
  readonly invalid: TrialInput["invalid"];
  readonly hashOf: TrialInput["hashOf"];
  readonly lineOf: (event: TraceEvent) => string;
  /** Whether calls may still be answered. */
  readonly isOngoing: boolean;
}

/** Where in the trial the events are that are read. */
interface Place {
  phase?: Phase;
  turn?: number;
  readonly steps: string[];
}

type Item = TraceItem;
type ItemOf<K extends Item["kind"]> = Extract<Item, { readonly kind: K }>;
/** An item without what every item has. */
type Body = {
  [K in Item["kind"]]: Omit<ItemOf<K>, "at" | "phase" | "turn" | "step"> & { kind: K };
}[Item["kind"]];

/** The items of a trial, in the order of their numbers. Each event is an item, or a part of one. */
function traceItems(trajectory: Trajectory, making: Making): readonly TraceItem[] {
  const { events, pathOf } = trajectory;
  const start = events[0]?.at ?? 0;
  // Graders may ask a judge much later.
  const end = events.find(({ type }) => type === "trial.finished")?.at ?? Infinity;
  const bodies = joinedItems(trajectory, making);
  const place: Place = { steps: [] };
  const items: TraceItem[] = [];
  for (const event of events) {
    if (event.type === "phase.started") place.phase = event.phase;
    if (event.type === "turn.started") place.turn = event.turn;
    if (event.type === "step.finished") place.steps.pop();
    const body = bodies.has(event.seq) ? bodies.get(event.seq) : itemOf(event, making);
    if (body !== undefined) {
      // These are recorded when they have ended.
      const isLate = body.kind === "model" || body.kind === "event";
      const began = isLate ? event.at - (body.durationMs ?? 0) : event.at;
      // What comes over a connection of the agent's belongs to no step.
      const step = "client" in event ? undefined : place.steps.at(-1);
      const at = Math.max(0, Math.min(began, end) - start);
      const stamp = { at, phase: place.phase, turn: place.turn };
      items.push(withoutUndefined({ ...body, ...stamp, step: step && pathOf(step) }));
    }
    if (event.type === "step.started") place.steps.push(event.step);
    if (event.type === "turn.finished") delete place.turn;
    if (event.type === "phase.finished") delete place.phase;
  }
  return items;
}

/** Items of several events, by the number of the first; undefined for the other events of one. */
function joinedItems(trajectory: Trajectory, making: Making): ReadonlyMap<number, Body | undefined> {
  const bodies = new Map<number, Body | undefined>();
  const add: Add = (body, ...parts) => {
    if (body.endSeq !== undefined) bodies.set(body.endSeq, undefined);
    for (const seq of parts) bodies.set(seq, undefined);
    bodies.set(body.seq, body);
  };
  addSpans(trajectory, add);
  addSteps(trajectory.steps, trajectory.pathOf, add);
  for (const act of agentActs(trajectory)) {
    if (act.call === undefined) add(reportedBody(act, making), ...act.seqs);
    else for (const { seq } of act.report?.reports ?? []) bodies.set(seq, undefined);
  }
  const exchanges = new Map(trajectory.exchanges.map((exchange) => [exchange.request.seq, exchange]));
  for (const call of trajectory.calls) add(callBody(call, exchanges.get(call.seq), making));
  const called = new Set(trajectory.calls.map(({ seq }) => seq));
  for (const exchange of [...trajectory.exchanges, ...trajectory.serverRequests])
    if (!called.has(exchange.request.seq)) add(requestBody(exchange));
  for (const event of trajectory.unasked) add(otherBody(event, making));
  return bodies;
}

type Add = (body: Body, ...parts: readonly number[]) => void;

/** Phases and turns, from their begin to their end. */
function addSpans({ events, turns }: Trajectory, add: Add): void {
  const phases = new Map<Phase, number>();
  for (const event of events) {
    if (event.type === "phase.started") {
      phases.set(event.phase, event.seq);
      add({ kind: "phase", seq: event.seq, name: event.phase });
    } else if (event.type === "phase.finished") {
      const { seq: endSeq, phase: name, durationMs } = event;
      const seq = phases.get(name);
      if (seq !== undefined) add({ kind: "phase", seq, endSeq, name, durationMs });
    }
  }
  for (const { seq, at, user, by, end } of turns)
    add(
      withoutUndefined({
        kind: "turn" as const,
        seq,
        endSeq: end?.seq,
        user: excerptOf(user, seq, "/user"),
        by,
        durationMs: end === undefined ? undefined : end.at - at,
        reason: end?.reason,
        problem: end?.oddity,
      }),
    );
}

function addSteps(runs: readonly StepRun[], pathOf: (step: string) => string, add: Add): void {
  for (const { attempts } of runs)
    for (const attempt of attempts) {
      add(stepBody(attempt, pathOf));
      addSteps(attempt.children, pathOf, add);
    }
}

const maxShownSummary = 200;

function stepBody({ started, finished }: StepAttempt, pathOf: (step: string) => string): Body {
  const { seq, step, stepType, attempt, input } = started;
  const { error, outputs } = finished ?? {};
  return withoutUndefined({
    kind: "step" as const,
    seq,
    endSeq: finished?.seq,
    durationMs: finished?.durationMs,
    name: pathOf(step),
    stepType,
    attempt,
    outcome: finished?.outcome,
    summary: shortened(describeInput(stepType, input), maxShownSummary),
    input: excerptOf(input, seq, "/input"),
    outputs: outputs === undefined ? undefined : excerptOf(outputs, finished?.seq ?? seq, "/outputs"),
    checks: (finished?.checks ?? []).map(({ name, passed, message }) => ({ name, passed, message })),
    error: error === undefined ? undefined : `${error.code}: ${error.message}`,
    ignored: finished?.ignored,
  });
}

const maxShownError = 1000;

function callBody(
  call: ToolCall,
  exchange: Exchange | undefined,
  { isOngoing, hashOf, invalid }: Making,
): Body {
  const { seq, server, tool, args, responseSeq, result, error, fault } = call;
  const hasArgs = exchange?.params["arguments"] !== undefined;
  const status = exchange?.refused === true ? "rejected" : statusOf(call, isOngoing);
  const place = exchange === undefined ? "/args" : hasArgs ? "/message/params/arguments" : "/message/params";
  const [value, pointer] = result === undefined ? [undefined, ""] : displayResult(result);
  const shown = {
    args: excerptOf(args, seq, place),
    result: value === undefined ? undefined : excerptOf(value, responseSeq ?? seq, pointer),
    error: error === undefined || status === "pending" ? undefined : shortened(error.message, maxShownError),
  };
  return withoutUndefined({
    kind: "call" as const,
    seq,
    endSeq: responseSeq,
    durationMs: call.latencyMs,
    source: server === null ? ("unknown" as const) : ("server" as const),
    server: server ?? undefined,
    tool,
    byAgent: exchange?.byAgent ?? call.step === undefined,
    status,
    ...shown,
    invalid: invalid.get(seq),
    media: result === undefined ? undefined : mediaOf(result, responseSeq ?? seq),
    fault,
    hashes: hashesOf(shown, { args, result: [value ?? null, error?.message ?? null] }, hashOf),
  });
}

function isCut(excerpt: Excerpt | undefined): boolean {
  return excerpt !== undefined && excerpt.length > excerpt.text.length;
}

/** Hashes of what is shown only in part: values that differ may begin alike. */
function hashesOf(
  shown: Pick<CallItem, "args"> & {
    readonly result?: Excerpt | undefined;
    readonly error?: string | undefined;
  },
  { args, result }: { readonly args: Json; readonly result: Json },
  hashOf: Making["hashOf"],
): CallItem["hashes"] {
  const isResultCut = isCut(shown.result) || (shown.error?.length ?? 0) >= maxShownError;
  if (!isCut(shown.args) && !isResultCut) return undefined;
  return withoutUndefined({
    arguments: isCut(shown.args) ? hashOf(canonicalJson(args)) : undefined,
    result: isResultCut ? hashOf(canonicalJson(result)) : undefined,
  });
}

function statusOf(call: ToolCall, isOngoing: boolean): CallItem["status"] {
  const { error, responseSeq } = call;
  if (error?.kind === "rejected") return "rejected";
  const isOpen = error?.kind === "no-response" && error.cancelled === undefined && responseSeq === undefined;
  if (isOpen && isOngoing) return "pending";
  return hasFailed(call) ? "error" : "ok";
}

/**
 * The text of a result that is one text, the structured content where that text says the same as JSON, else all of it; and the JSON
 * Pointer to that in the event.
 */
function displayResult(result: JsonObject): readonly [value: Json, pointer: string] {
  const { content, structuredContent } = result;
  const [only, ...others] = Array.isArray(content) ? (content as readonly Json[]) : [];
  if (others.length === 0 && isJsonObject(only)) {
    const { type, text } = only;
    if (type === "text" && typeof text === "string") {
      if (structuredContent === undefined) return [text, "/message/result/content/0/text"];
      if (saysSame(text, structuredContent)) return [structuredContent, "/message/result/structuredContent"];
    }
  }
  return [result, "/message/result"];
}

const maxShownMedia = 100;

/** Images and sounds of a result; undefined when there are none. */
function mediaOf({ content }: JsonObject, seq: number): readonly Media[] | undefined {
  if (!Array.isArray(content)) return undefined;
  const media = (content as readonly Json[]).slice(0, maxShownMedia).flatMap((block, index): Media[] => {
    if (!isJsonObject(block)) return [];
    const { resource } = block;
    const isResource = block["type"] === "resource" && isJsonObject(resource);
    const data = isResource ? resource["blob"] : block["data"];
    const mimeType = (isResource ? resource : block)["mimeType"];
    if (typeof data !== "string" || typeof mimeType !== "string") return [];
    const type = /^(image|audio)\//i.exec(mimeType)?.[1]?.toLowerCase();
    if (type !== "image" && type !== "audio") return [];
    const pointer = `/message/result/content/${index}/${isResource ? "resource/blob" : "data"}`;
    return [{ type, mimeType, length: data.length, seq, pointer }];
  });
  return media.length === 0 ? undefined : media;
}

/** A use of a tool that only the agent reports. */
function reportedBody(act: AgentAct, { hashOf }: Making): Body {
  const { seq, source, args, result = null, report, durationMs } = act;
  const { reports = [], status = "started" } = report ?? {};
  const last = reports.at(-1)?.seq;
  const argsSeq = reports.findLast((each) => each.args === args)?.seq;
  const resultSeq = reports.findLast((each) => each.result !== undefined)?.seq;
  const shown = {
    args: excerptOf(args, argsSeq ?? seq, argsSeq === undefined ? "" : "/args"),
    result: resultSeq === undefined ? undefined : excerptOf(result, resultSeq, "/result"),
  };
  return withoutUndefined({
    kind: "call" as const,
    seq,
    endSeq: last === seq ? undefined : last,
    durationMs,
    source: source === "builtin" || source === "skill" ? source : ("unknown" as const),
    server: serverIn(act),
    unrecorded: isUnrecorded(act) ? (true as const) : undefined,
    tool: act.target,
    byAgent: true,
    status: ({ started: "pending", completed: "ok", failed: "error" } as const)[status],
    ...shown,
    hashes: hashesOf(shown, { args, result }, hashOf),
  });
}

function requestBody(exchange: Exchange): Body {
  const { request, answer, cancelled, heldMs } = exchange;
  const { seq, at, server, direction, message } = request;
  const { method, params } = message;
  const { result, error } = answer === undefined && cancelled === undefined ? {} : outcomeOf(exchange);
  return withoutUndefined({
    kind: "request" as const,
    seq,
    endSeq: answer?.seq,
    durationMs: answer === undefined ? undefined : Math.max(0, answer.at - at - heldMs),
    server,
    direction,
    method: typeof method === "string" ? method : JSON.stringify(method ?? null),
    params: params === undefined ? undefined : excerptOf(params, seq, "/message/params"),
    result: result === undefined ? undefined : excerptOf(result, answer?.seq ?? seq, "/message/result"),
    error: error === undefined ? undefined : shortened(error.message, maxShownError),
  });
}

/** The item of an event that is joined with no other; undefined for one that says nothing by itself. */
function itemOf(event: TraceEvent, making: Making): Body | undefined {
  const { seq } = event;
  switch (event.type) {
    case "agent.message":
      return { kind: "message", seq, text: excerptOf(event.text, seq, "/text") };
    case "server.stderr":
    case "server.stdout":
      return outputBody(seq, event.server, event.type === "server.stderr" ? "stderr" : "stdout", event.text);
    case "extension.stderr":
      return outputBody(seq, event.extension, "stderr", event.text);
    case "extension.log": {
      const { extension: from, message } = event;
      return { kind: "output", seq, from, stream: "log", text: excerptOf(message, seq, "/message") };
    }
    case "agent.output":
      return outputBody(seq, "agent", event.stream, event.text);
    case "model.called": {
      const { purpose, model, usage, finishReason, durationMs, firstTokenMs } = event;
      const answered = { purpose, model, usage, finishReason };
      return { kind: "model", seq, durationMs, ...answered, ...withoutUndefined({ firstTokenMs }) };
    }
    case "model.retried": {
      const { purpose, model, reason: retried } = event;
      return { kind: "model", seq, purpose, model, retried };
    }
    case "calls.invalid":
    case "trial.graded":
      // The calls, and the grades of the result, say it; it did not happen in the trial.
      return undefined;
    case "http.response":
      // The answer itself is a message.
      return event.requestIds.length > 0 && event.status < 400 ? undefined : otherBody(event, making);
    default:
      return otherBody(event, making);
  }
}

function outputBody(seq: number, from: string, stream: "stderr" | "stdout", text: string): Body {
  return { kind: "output", seq, from, stream, text: excerptOf(text, seq, "/text") };
}

function otherBody(event: TraceEvent, { lineOf }: Making): Body {
  const { seq, type } = event;
  return withoutUndefined({
    kind: "event" as const,
    seq,
    type,
    server: "server" in event ? event.server : undefined,
    // The end of the trial is a moment, not all of the trial.
    durationMs: "durationMs" in event && type !== "trial.finished" ? event.durationMs : undefined,
    text: wordsOf(event) ?? lineOf(event),
    problem: isProblem(event) ? (true as const) : undefined,
  });
}

/** What an event that ends something says in words; undefined for others. */
function wordsOf(event: TraceEvent): string | undefined {
  if (event.type === "server.exited") return `${event.server} exited ${exitText(event)}`;
  if (event.type !== "trial.finished" || event.error === undefined) return undefined;
  return `the trial ended: ${event.error.message}`;
}

/** Whether an event says that something went wrong. */
function isProblem(event: TraceEvent): boolean {
  switch (event.type) {
    case "user.finished":
      return event.reason === "gave-up" || event.reason === "max-turns";
    case "server.failed":
    case "server.late":
    case "server.lost":
    case "server.invalid_output":
    case "server.output_omitted":
    case "extension.invalid_output":
    case "extension.output_omitted":
    case "fault.unmet":
    case "tool.refused":
      return true;
    case "server.exited":
    case "extension.exited":
    case "agent.exited":
      return !event.expected;
    case "server.stopped":
      return event.survivors !== undefined;
    case "mcp.message":
      return true; // what is joined with nothing: no request waited for it, or it is not an object
    case "http.response":
      return event.status >= 400;
    case "agent.permission":
      return event.decision !== "allowed";
    case "probe.finished":
      return event.outcome !== "done";
    case "conformance.checked":
      return event.status !== "SUCCESS" && event.status !== "INFO";
    case "state.compared":
      return event.differences.length > 0;
    case "trial.finished":
      return event.error !== undefined;
    default:
      return false;
  }
}
