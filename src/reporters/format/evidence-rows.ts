import type { SerializedError } from "../../core/errors/error.ts";
import type { JsonObject, Task } from "../../core/formats/model.ts";
import { readJsonText } from "../../core/formats/strict-json.ts";
import type { Grade } from "../../core/grade/grade.ts";
import type { TrialResult } from "../../core/report/result.ts";
import { buildTrajectory } from "../../core/trace/build-trajectory.ts";
import { equalJson } from "../../core/checks/json-match.ts";
import { resultText, structuredContent } from "../../core/checks/result-text.ts";
import type { EventOf, TraceEvent } from "../../core/trace/events.ts";
import { stepPaths } from "../../core/trace/step-path.ts";
import { stepRuns, type StepRun } from "../../core/trace/step-runs.ts";
import type { ToolCall } from "../../core/trace/trajectory.ts";
import { checkRows } from "./check-rows.ts";
import { clipLines, clipText } from "./clip.ts";
import { countOf, formatDuration } from "./numbers.ts";
import type { Row } from "./rows.ts";
import { countFailures, stepRows } from "./step-rows.ts";

const shownEvents = 8;
const argumentCharacters = 300;
const text = { lines: 8, characters: 800 } as const;

/** What is known of the events that a trial's grades cite. */
export interface Evidence {
  readonly events: ReadonlyMap<number, TraceEvent>;
  /** Tool calls by the numbers of their request and response. */
  readonly calls: ReadonlyMap<number, ToolCall>;
  readonly allCalls: readonly ToolCall[];
  /** The phases' own steps, of a task from a file of its own; the only step of a tool test needs no telling. */
  readonly steps: readonly StepRun[];
  /** What a reader calls a step, by its name in the trace. */
  readonly pathOf: (step: string) => string;
  /** What was shown already, so that no two grades of a trial show the same. */
  readonly shown: Set<string>;
}

/** Reads a trial's evidence; `task` is needed to join requests with their responses. */
export function readEvidence(
  events: readonly TraceEvent[],
  trial: TrialResult,
  task: Task | undefined,
): Evidence {
  const { id, agent, attempt } = trial;
  const planned = { id, task: trial.task, agent, attempt };
  const allCalls = task === undefined ? [] : buildTrajectory(planned, task, events).calls;
  const calls = new Map<number, ToolCall>();
  for (const call of allCalls) {
    calls.set(call.seq, call);
    if (call.responseSeq !== undefined) calls.set(call.responseSeq, call);
  }
  return {
    events: new Map(events.map((event) => [event.seq, event])),
    calls,
    allCalls,
    steps: trial.form === "task" ? stepRuns(events) : [],
    pathOf: stepPaths(events),
    shown: new Set(),
  };
}

/** What a grade is told with: its reason; or, where several checks of steps did not hold, how many, as the rows say which. */
export function headlineOf(grade: Grade, { steps }: Evidence): string {
  const cited = new Set(grade.evidence);
  const failures = steps
    .filter(({ attempts }) => cited.has(attempts.at(-1)?.finished?.seq ?? 0))
    .reduce((sum, run) => sum + countFailures(run), 0);
  return failures > 1 ? `${failures} checks do not hold` : grade.reason;
}

/** The steps for whose sake a trial could not be judged, as rows. */
export function brokenStepRows({ message }: SerializedError, evidence: Evidence): Row[] {
  return evidence.steps.flatMap((run) => toldSteps(run, message, evidence));
}

/** The events that a grade cites, as rows: checks that did not hold, calls with their answers, words. */
export function evidenceRows(grade: Grade, evidence: Evidence): Row[] {
  const cited = [...new Set(grade.evidence)].flatMap((seq) => evidence.events.get(seq) ?? []);
  const rows = cited.slice(0, shownEvents).flatMap((event) => rowsOf(event, grade, evidence));
  const rest = cited.length - shownEvents;
  if (rest <= 0) return rows;
  return [...rows, { label: "", pieces: [{ text: `… and ${countOf(rest, "more event")}`, tone: "dim" }] }];
}

function rowsOf(event: TraceEvent, grade: Grade, evidence: Evidence): Row[] {
  switch (event.type) {
    case "step.finished":
      return stepEvidence(event, grade, evidence);
    case "mcp.message":
    case "tool.rejected": {
      const call = evidence.calls.get(event.seq);
      if (call !== undefined) return callRows(call, event.seq !== call.seq, evidence);
      return event.type === "mcp.message" ? messageRows(event, evidence) : [];
    }
    default:
      return once(`event ${event.seq}`, evidence, plainRows(event));
  }
}

function plainRows(event: TraceEvent): Row[] {
  switch (event.type) {
    case "turn.started":
      return [textRow("user", event.user, event.seq)];
    case "agent.message":
      return [textRow("said", event.text, event.seq)];
    case "server.stderr":
      return [linesRow("stderr", clipLines(event.text, { ...text, keep: "tail" }))];
    case "server.invalid_output":
      return [textRow("stdout", event.text, event.seq)];
    case "server.exited": {
      const how = event.signal === null ? `with code ${event.exitCode}` : `on ${event.signal}`;
      return [textRow("exited", `${event.server} ${how}`, event.seq)];
    }
    case "http.response":
      return [textRow("http", `${event.method} answered ${event.status}`, event.seq)];
    default:
      return [];
  }
}

function stepEvidence(event: EventOf<"step.finished">, grade: Grade, evidence: Evidence): Row[] {
  const run = evidence.steps.find(({ attempts }) => attempts.at(-1)?.finished === event);
  return run === undefined
    ? [...onlyStepRows(event, grade, evidence), ...callsOfStep(event.step, evidence)]
    : once(`event ${event.seq}`, evidence, toldSteps(run, headlineOf(grade, evidence), evidence));
}

/** A step with the steps inside it, each followed by the calls that it made. */
function toldSteps(run: StepRun, said: string, evidence: Evidence): Row[] {
  const { pathOf } = evidence;
  return stepRows(run, { said, pathOf }).flatMap(({ step, rows, texts }) => {
    for (const shown of texts) evidence.shown.add(`text ${shown}`);
    return [...rows, ...callsOfStep(step, evidence)];
  });
}

function onlyStepRows(step: EventOf<"step.finished">, grade: Grade, evidence: Evidence): Row[] {
  const failed = step.checks.filter((check) => !check.passed);
  for (const { actual } of failed) if (typeof actual === "string") evidence.shown.add(`text ${actual}`);
  const error: Row[] =
    step.error === undefined ? [] : [textRow("error", `${step.error.code}: ${step.error.message}`, step.seq)];
  return once(`event ${step.seq}`, evidence, [
    ...failed.flatMap((check) => checkRows(check, grade.reason)),
    ...error,
  ]);
}

function callsOfStep(step: string, evidence: Evidence): Row[] {
  return evidence.allCalls
    .filter((call) => call.step === step && !call.superseded)
    .slice(0, shownEvents)
    .flatMap((call) => callRows(call, true, evidence));
}

function callRows(call: ToolCall, withAnswer: boolean, evidence: Evidence): Row[] {
  const latency = call.latencyMs === undefined ? [] : [formatDuration(call.latencyMs)];
  const note = [`event ${call.seq}`, ...latency].join(", ");
  const args = clipText(JSON.stringify(call.args), argumentCharacters);
  const request: Row = { label: "call", pieces: [{ text: `${clipText(call.tool, 100)} ${args}` }], note };
  return [
    ...once(`event ${call.seq}`, evidence, [request]),
    ...(withAnswer ? once(`answer ${call.seq}`, evidence, answerRows(call, evidence)) : []),
  ];
}

function answerRows({ result, error, httpStatus }: ToolCall, evidence: Evidence): Row[] {
  const http = httpStatus === undefined || httpStatus < 300 ? "" : `HTTP ${httpStatus}: `;
  if (result === undefined) return [linesRow("error", clipLines(`${http}${error?.message ?? ""}`, text))];
  const words = resultText(result);
  if (evidence.shown.has(`text ${words}`)) return [];
  const shown = words === "" ? JSON.stringify(result) : words;
  const answer = linesRow(
    result["isError"] === true ? "isError" : "result",
    clipLines(`${http}${shown}`, text),
  );
  const other = otherStructured(result, words);
  return other === undefined ? [answer] : [answer, linesRow("structured", clipLines(other, text))];
}

/** The structured content, where it does not say the same as the text. */
function otherStructured(result: JsonObject, words: string): string | undefined {
  const structured = structuredContent(result);
  if (words === "" || structured === undefined) return undefined;
  const { value } = readJsonText(words);
  return value !== undefined && equalJson(value, structured) ? undefined : JSON.stringify(structured);
}

function messageRows(event: EventOf<"mcp.message">, evidence: Evidence): Row[] {
  const label = event.direction === "client-to-server" ? "sent" : "received";
  const shown = clipText(JSON.stringify(event.message), argumentCharacters);
  const row: Row = { label, pieces: [{ text: shown }], note: `event ${event.seq}` };
  return once(`event ${event.seq}`, evidence, [row]);
}

function once(key: string, { shown }: Evidence, rows: Row[]): Row[] {
  if (shown.has(key)) return [];
  shown.add(key);
  return rows;
}

function textRow(label: string, content: string, seq: number): Row {
  return { ...linesRow(label, clipLines(content, text)), note: `event ${seq}` };
}

function linesRow(label: string, lines: readonly string[]): Row {
  return { label, pieces: lines.map((line) => ({ text: line })) };
}
