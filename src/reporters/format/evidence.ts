import { equalJson } from "../../core/checks/json-difference.ts";
import { resultText, structuredContent } from "../../core/checks/result-text.ts";
import { errorCatalogue, type ErrorCode } from "../../core/errors/catalogue.ts";
import type { SerializedError } from "../../core/errors/error.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject, Task } from "../../core/formats/model.ts";
import { readJsonText } from "../../core/formats/read-json.ts";
import type { Grade } from "../../core/grade/grader.ts";
import { describeInput } from "../../core/report/render-trace.ts";
import type { TrialResult } from "../../core/report/result.ts";
import { quoteBar } from "../../core/text/visible-text.ts";
import { buildTrajectory, type ToolCall } from "../../core/trace/trajectory.ts";
import type { Check, EventOf, TraceEvent } from "../../core/trace/events.ts";
import { type StepAttempt, stepPaths, type StepRun, stepRuns } from "../../core/trace/step-runs.ts";
import {
  clipLines,
  clipText,
  countOf,
  formatDuration,
  formatScore,
  type Page,
  paintRows,
  paintText,
  type Piece,
  type Row,
  type Tone,
} from "./text.ts";

const reasonCharacters = 1000;
const shownReason = { lines: 12, characters: reasonCharacters } as const;

/** Why a trial did not pass, as lines: every grade that is not a pass with its reason and evidence, then who passed. */
export function explainGrades(
  grades: readonly Grade[],
  evidence: Evidence,
  indent: number,
  page: Page,
): string[] {
  const told = grades.filter(({ verdict }) => verdict === "fail" || verdict === "error");
  const passed = grades.filter(({ verdict }) => verdict === "pass").map(({ grader }) => clipText(grader, 80));
  const tail = told.length === 0 || passed.length === 0 ? [] : [`passed: ${passed.join(", ")}`];
  return [
    ...told.flatMap((grade) => explainGrade(grade, evidence, indent, page)),
    ...tail.flatMap((text) => paintText({ text, tone: "dim" }, indent, page, 2)),
  ];
}

/** Why a trial could not be judged, as lines: its error, and the steps that did not do what they should. */
export function explainBroken(
  error: SerializedError,
  evidence: Evidence,
  indent: number,
  page: Page,
): string[] {
  return [
    ...explainError(error, indent, page),
    ...paintRows(brokenStepRows(error, evidence), indent + 2, page),
  ];
}

/** An error as lines: code and message, what to do, and supporting text such as stderr. */
function explainError(error: SerializedError, indent: number, page: Page): string[] {
  const [first = "", ...others] = clipLines(error.message, { lines: 12, characters: 2000 });
  const label = labelOf(error.code);
  const detail = clipLines(error.detail ?? "", { lines: 12, characters: 4000, keep: "tail" });
  const hint = error.hint ?? errorCatalogue[error.code].help;
  return [
    ...paintText(
      { text: `${error.code}  ${first}`, lead: error.code.length, leadTone: "warn" },
      indent,
      page,
      2,
    ),
    ...quoted(others, indent, page),
    ...paintText({ text: clipText(hint, reasonCharacters) }, indent, page, 2),
    ...(error.detail === undefined
      ? []
      : paintRows([{ label, pieces: detail.map((text) => ({ text })) }], indent + 2, page)),
  ];
}

/** Further lines of a text, which stand at the beginning of a line of the report. */
function quoted(lines: readonly string[], indent: number, page: Page): string[] {
  return lines.flatMap((line) => paintText({ text: `${quoteBar}${line}` }, indent + 2, page, 2));
}

/** What a server's error is supported by: the body of an HTTP answer, or the end of what the process wrote. */
function labelOf(code: ErrorCode): string {
  if (code === "server/http-status") return "answer";
  return code.startsWith("server/") ? "stderr" : "detail";
}

function explainGrade(grade: Grade, evidence: Evidence, indent: number, page: Page): string[] {
  const leadTone = grade.verdict === "error" ? "warn" : "bad";
  const score = grade.score === null ? "" : ` ${formatScore(grade.score)}`;
  const verdict = grade.verdict === "error" ? " gave no verdict" : score;
  const [reason = "", ...others] = clipLines(headlineOf(grade, evidence), shownReason);
  const head = `${clipText(grade.grader, 80)}${verdict}`;
  return [
    ...paintText({ text: `${head}  ${reason}`, lead: head.length, leadTone }, indent, page, 2),
    ...quoted(others, indent, page),
    ...(grade.error === undefined ? [] : explainError(grade.error, indent + 2, page)),
    ...paintRows(evidenceRows(grade, evidence), indent + 2, page),
  ];
}

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
function headlineOf(grade: Grade, { steps }: Evidence): string {
  const cited = new Set(grade.evidence);
  const failures = steps
    .filter(({ attempts }) => cited.has(attempts.at(-1)?.finished?.seq ?? 0))
    .reduce((sum, run) => sum + countFailures(run), 0);
  return failures > 1 ? `${failures} checks do not hold` : grade.reason;
}

/** The steps for whose sake a trial could not be judged, as rows. */
function brokenStepRows({ message }: SerializedError, evidence: Evidence): Row[] {
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

const valueCharacters = 600;
const diffedCharacters = 50_000;
const shownDiffLines = 24;
const maxCheckLines = { lines: 12, characters: 1200 } as const;

/** Shows what a check expected and what there was: as a diff where both have lines; not what `said` already states. */
export function checkRows(check: Check, said: string): Row[] {
  const diff = diffRow(check);
  if (diff !== undefined) return [diff];
  const { name, expected, actual } = check;
  return [
    ...(isWord(name, "expected", expected)
      ? wordRow("expected", expected, said)
      : valueRow("expected", expected, said)),
    ...(actual === null
      ? []
      : isWord(name, "actual", actual)
        ? wordRow("actual", actual, said)
        : valueRow("actual", actual, said)),
  ];
}

/** Checks, by name, of which we put into our own words what is expected, or also what is there. */
const worded: Readonly<Record<string, readonly ("expected" | "actual")[]>> = {
  exists: ["expected", "actual"],
  file: ["expected", "actual"],
  not: ["expected", "actual"],
  call: ["expected"],
  items: ["expected"],
  input: ["expected"],
};

function isWord(name: string, side: "expected" | "actual", value: Json): value is string {
  return typeof value === "string" && Object.hasOwn(worded, name) && worded[name]?.includes(side) === true;
}

/** Words are no data, so they are not quoted. */
function wordRow(label: string, words: string, said: string): Row[] {
  return states(said, words) ? [] : [{ label, pieces: [{ text: clipText(words, valueCharacters) }] }];
}

function valueRow(label: string, value: Json, said: string): Row[] {
  if (typeof value === "string" && value.trimEnd().includes("\n")) {
    return [{ label, pieces: clipLines(value, maxCheckLines).map((text) => ({ text })) }];
  }
  const json = JSON.stringify(value);
  return states(said, json) ? [] : [{ label, pieces: [{ text: clipText(json, valueCharacters) }] }];
}

/** Whether a sentence states a value as a whole word. */
function states(said: string, json: string): boolean {
  for (let at = said.indexOf(json); at !== -1; at = said.indexOf(json, at + 1)) {
    const before = said[at - 1] ?? " ";
    const after = said.slice(at + json.length, at + json.length + 2);
    if (!/[\w.-]/u.test(before) && !/^(?:\w|\.\d)/u.test(after)) return true;
  }
  return false;
}

function diffRow({ expected, actual }: Check): Row | undefined {
  const exact = isJsonObject(expected) && "$equals" in expected;
  const wanted = exact ? (expected["$equals"] ?? null) : expected;
  const before = linesOf(wanted);
  const after = linesOf(alignTo(wanted, actual, exact)) ?? [];
  if (before === undefined || after.length === 0) return undefined;
  const pruned = diffLines(before, after);
  const diff = pruned.length > 0 ? pruned : diffLines(before, linesOf(actual) ?? []);
  if (diff.length === 0) return undefined;
  const shown = diff.slice(0, shownDiffLines).map(paintDiffLine);
  const rest = diff.length - shown.length;
  const more: Piece[] = rest > 0 ? [{ text: `  … ${rest} more lines`, tone: "dim" }] : [];
  return {
    label: "diff",
    pieces: [{ text: "- expected  + actual", tone: "dim" }, ...shown, ...more],
  };
}

/** The lines of a value that has several: text with line breaks, a list or an object. */
function linesOf(value: Json): string[] | undefined {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  if (!text.includes("\n")) return undefined;
  return clipLines(text, { lines: Infinity, characters: diffedCharacters });
}

const marks: Readonly<Record<DiffLine["kind"], { mark: string; tone: Tone }>> = {
  same: { mark: " ", tone: "dim" },
  gap: { mark: " ", tone: "dim" },
  removed: { mark: "-", tone: "bad" },
  added: { mark: "+", tone: "good" },
};

function paintDiffLine({ kind, text }: DiffLine): Piece {
  const { mark, tone } = marks[kind];
  return { text: `${mark} ${text}`, tone };
}

/** Brings the keys of a value into the order of what was expected; keys that nobody asked about go, unless `exact`. */
function alignTo(expected: Json, actual: Json, exact: boolean): Json {
  if (isList(expected) && isList(actual)) {
    return actual.map((item, index) => alignTo(expected[index] ?? null, item, exact));
  }
  if (!isJsonObject(expected) || !isJsonObject(actual)) return actual;
  const shared = Object.keys(expected).filter((key) => Object.hasOwn(actual, key));
  const others = exact ? Object.keys(actual).filter((key) => !Object.hasOwn(expected, key)) : [];
  return Object.fromEntries(
    [...shared, ...others].map((key) => [key, alignTo(expected[key] ?? null, actual[key] ?? null, exact)]),
  );
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

const inputCharacters = 300;
const errorCharacters = 600;
const nameCharacters = 200;
const maxStepLines = 16;
const shownInner = 6;

/** A step that did not pass, or one inside it for whose sake it did not. */
export interface ToldStep {
  readonly rows: readonly Row[];
  /** Its name in the trace. */
  readonly step: string;
  /** Texts that the rows show. */
  readonly texts: readonly string[];
}

export interface StepTelling {
  readonly pathOf: (step: string) => string;
  /** What the reader was told before; the checks that it states are not named again. */
  readonly said: string;
}

/**
 * Tells of a step's last attempt why it did not pass, down to the innermost steps: which step, what it worked with, what
 * it expected and what was there.
 */
function stepRows(run: StepRun, telling: StepTelling): readonly ToldStep[] {
  const attempt = run.attempts.at(-1);
  if (attempt === undefined) return [];
  const broken = brokenInside(attempt);
  if (broken.length === 0) {
    return [{ step: run.step, rows: leafRows(run, attempt, telling), texts: textsOf(attempt) }];
  }
  const shown = broken.slice(0, shownInner);
  const rest = broken.length - shown.length;
  const more: Row = {
    label: "",
    pieces: [{ text: `… and ${countOf(rest, "more step")} inside it`, tone: "dim" }],
  };
  return [
    { step: run.step, rows: holderRows(run, attempt, telling), texts: [] },
    ...shown.flatMap((child) => stepRows(child, telling)),
    ...(rest > 0 ? [{ step: run.step, rows: [more], texts: [] }] : []),
  ];
}

/** How many checks did not hold, or had no chance to, in the innermost steps. */
function countFailures(run: StepRun): number {
  const attempt = run.attempts.at(-1);
  if (attempt === undefined) return 0;
  const broken = brokenInside(attempt);
  if (broken.length > 0) return broken.reduce((sum, child) => sum + countFailures(child), 0);
  return Math.max(1, attempt.finished?.checks.filter((check) => !check.passed).length ?? 0);
}

/** The steps inside that did not pass, where that is why the whole did not: `not` fails because they passed. */
function brokenInside({ children, started }: StepAttempt): readonly StepRun[] {
  if (started.stepType === "not") return children.filter((child) => outcomeOf(child) === "broken");
  return children.filter((child) => outcomeOf(child) !== "fine");
}

function outcomeOf({ attempts }: StepRun): "fine" | "failed" | "broken" {
  const { finished } = attempts.at(-1) ?? {};
  if (finished === undefined) return "broken";
  const { outcome, ignored } = finished;
  if (outcome === "passed" || outcome === "skipped" || ignored === true) return "fine";
  return outcome === "failed" ? "failed" : "broken";
}

function leafRows(run: StepRun, attempt: StepAttempt, telling: StepTelling): readonly Row[] {
  const { started, finished } = attempt;
  const { error, checks = [] } = finished ?? {};
  const input = describeInput(started.stepType, started.input);
  const isTold = error === undefined || telling.said.includes(error.message);
  return [
    headRow(run, attempt, telling),
    // A call is shown with its answer.
    ...(input === "" || attempt.messages.length > 0 ? [] : [row("input", clipText(input, inputCharacters))]),
    ...checks
      .filter((check) => !check.passed)
      .flatMap((check) => failedRows(check, { ...telling, judges: judging.has(started.stepType) })),
    ...(isTold ? [] : [row("error", clipText(`${error.code}: ${error.message}`, errorCharacters))]),
  ];
}

/** Steps whose programs judge by themselves: what they found is in their message. */
const judging: ReadonlySet<string> = new Set(["extension", "script"]);

function failedRows(
  check: Check,
  { said, judges }: StepTelling & { readonly judges: boolean },
): readonly Row[] {
  const told = `${check.name}: ${check.message}`;
  const isSaid = said.includes(told);
  const named = isSaid ? [] : [checkRow(told)];
  // That it did not succeed, though it should, is no news.
  if (judges && check.expected === true && check.actual === false) return named;
  return [...named, ...(programRows(check) ?? checkRows(check, told))];
}

function checkRow(told: string): Row {
  const lines = clipLines(told, { lines: maxStepLines, characters: errorCharacters });
  return { label: "check", pieces: lines.map((text) => ({ text })) };
}

/** What a program wrote that did not end as it should; undefined for other checks. */
function programRows({ name, actual }: Check): readonly Row[] | undefined {
  if (name !== "exit code" || !isJsonObject(actual) || !("exitCode" in actual || "signal" in actual))
    return undefined;
  return ["stderr", "stdout"].flatMap((label) => {
    const text = actual[label];
    if (typeof text !== "string" || text.trim() === "") return [];
    const lines = clipLines(text, { lines: 12, characters: 1200, keep: "tail" });
    return [{ label, pieces: lines.map((line) => ({ text: line })) }];
  });
}

function textsOf({ finished }: StepAttempt): readonly string[] {
  const failed = finished?.checks.filter((check) => !check.passed) ?? [];
  return failed.flatMap(({ actual }) => (typeof actual === "string" ? [actual] : []));
}

/** A step that has steps, where that says more than the names of those. */
function holderRows(run: StepRun, attempt: StepAttempt, telling: StepTelling): readonly Row[] {
  const { stepType, attempt: number } = attempt.started;
  if (stepType !== "anyOf") return number > 1 ? [headRow(run, attempt, telling)] : [];
  const { pieces, ...row } = headRow(run, attempt, telling);
  return [
    { ...row, pieces: pieces.map((piece) => ({ ...piece, text: `${piece.text}: no alternative holds` })) },
  ];
}

function headRow(run: StepRun, attempt: StepAttempt, { pathOf }: StepTelling): Row {
  const { started, finished } = attempt;
  const pieces: Piece[] = [{ text: clipText(pathOf(run.step), nameCharacters), tone: "strong" }];
  const seq = finished?.seq ?? started.seq;
  const note = [`${started.stepType} in ${started.phase}`, ...triedNote(run, attempt), `event ${seq}`].join(
    ", ",
  );
  return { label: "step", pieces, note };
}

/** How often a step was tried, over what time. */
function triedNote({ attempts: [first] }: StepRun, { started, finished }: StepAttempt): readonly string[] {
  if (started.attempt < 2) return [];
  const end = finished?.at ?? started.at;
  return [`${countOf(started.attempt, "attempt")} in ${formatDuration(end - (first?.started.at ?? end))}`];
}

function row(label: string, text: string): Row {
  return { label, pieces: [{ text }] };
}

/** One line of a diff: kept, only in the first text (`-`), only in the second (`+`), or a gap of kept lines. */
export interface DiffLine {
  readonly kind: "same" | "removed" | "added" | "gap";
  readonly text: string;
}

/** Above this many comparisons the differing middle is shown whole instead of being matched line by line. */
const maxComparisons = 250_000;
const contextLines = 2;

/** The difference of two lists of lines, with a little context around each change; empty when there is none. */
export function diffLines(before: readonly string[], after: readonly string[]): DiffLine[] {
  const start = sharedStart(before, after);
  const end = sharedEnd(before, after, start);
  const oldMiddle = before.slice(start, before.length - end);
  const newMiddle = after.slice(start, after.length - end);
  if (oldMiddle.length + newMiddle.length === 0) return [];
  return foldKept([
    ...before.slice(0, start).map((text): DiffLine => ({ kind: "same", text })),
    ...matchMiddle(oldMiddle, newMiddle),
    ...before.slice(before.length - end).map((text): DiffLine => ({ kind: "same", text })),
  ]);
}

function sharedStart(before: readonly string[], after: readonly string[]): number {
  const most = Math.min(before.length, after.length);
  let shared = 0;
  while (shared < most && before[shared] === after[shared]) shared += 1;
  return shared;
}

function sharedEnd(before: readonly string[], after: readonly string[], start: number): number {
  const most = Math.min(before.length, after.length) - start;
  let shared = 0;
  while (shared < most && before.at(-1 - shared) === after.at(-1 - shared)) shared += 1;
  return shared;
}

/** Longest common subsequence of lines (dynamic programming, Wagner and Fischer 1974). */
function matchMiddle(before: readonly string[], after: readonly string[]): DiffLine[] {
  const removed = before.map((text): DiffLine => ({ kind: "removed", text }));
  const added = after.map((text): DiffLine => ({ kind: "added", text }));
  if (before.length * after.length > maxComparisons) return [...removed, ...added];
  const width = after.length + 1;
  const lengths = new Uint32Array((before.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (let row = before.length - 1; row >= 0; row--) {
    for (let column = after.length - 1; column >= 0; column--) {
      lengths[row * width + column] =
        before[row] === after[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  return walk(before, after, at);
}

function walk(
  before: readonly string[],
  after: readonly string[],
  at: (row: number, column: number) => number,
): DiffLine[] {
  const lines: DiffLine[] = [];
  let row = 0;
  let column = 0;
  while (row < before.length || column < after.length) {
    const old = before[row];
    const now = after[column];
    if (old !== undefined && old === now) {
      lines.push({ kind: "same", text: old });
      row += 1;
      column += 1;
    } else if (old !== undefined && (now === undefined || at(row + 1, column) >= at(row, column + 1))) {
      lines.push({ kind: "removed", text: old });
      row += 1;
    } else {
      lines.push({ kind: "added", text: now ?? "" });
      column += 1;
    }
  }
  return lines;
}

/** Leaves out kept lines that are far from any change; a single one is shown, since a gap would take its place. */
function foldKept(lines: readonly DiffLine[]): DiffLine[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, index) => {
    if (line.kind !== "same") near.fill(1, Math.max(0, index - contextLines), index + contextLines + 1);
  });
  return lines.flatMap((line, index): DiffLine[] => {
    const alone = near[index - 1] !== 0 && near[index + 1] !== 0;
    if (near[index] === 1 || alone) return [line];
    return index > 0 && near[index - 1] === 0 ? [] : [{ kind: "gap", text: "…" }];
  });
}
