import { diffArrays } from "diff";
import { answerText, structuredContent } from "../expect/tool-result.ts";
import { errorCatalogue } from "../base/catalogue.ts";
import { isJsonObject, type Json } from "../base/json.ts";
import type { Check, EventOf, TraceEvent } from "../model/event.ts";
import { firstAndLast, lastMessage } from "./evidence.ts";
import { exitText, injectedText } from "./render-trace.ts";
import { isServerError } from "./result.ts";
import type { TrialResult } from "../model/result.ts";
import { countOf, quoteBar, type ClipLimits, clipLines, clipText } from "../base/visible-text.ts";
import { type AgentAct, agentActs, isOfServer } from "../trace/agent-acts.ts";
import {
  hasFailed,
  type Outcome,
  readTrace,
  saysSame,
  type ToolCall,
  type TraceView,
  type StepAttempt,
  type StepRun,
} from "../trace/trajectory.ts";
import { gradeTitle, unmetOptional, weighted } from "./text.ts";
import { describeInput } from "../model/step.ts";
import type { SerializedError } from "../base/serialized-error.ts";
import type { Grade } from "../model/grade.ts";
import { formatDuration } from "../base/duration.ts";
import { type Page, paintRows, paintText, type Piece, type Row, type Tone } from "../base/columns.ts";

/**
 * Why a trial did not pass, as lines: its error with the steps that did not do what they should; every grade that is not a
 * pass, with its reason and evidence; then the graders that passed.
 */
export function explainTrial(
  trial: TrialResult,
  events: readonly TraceEvent[],
  { indent, page }: { readonly indent: number; readonly page: Page },
): string[] {
  const { error, grades } = trial;
  const evidence = readEvidence(events, trial);
  const lines: string[] = [];
  const note = (text: string, tone?: Tone): void => {
    lines.push(...paintText({ text, tone }, indent, page, 2));
  };
  if (error !== undefined) {
    lines.push(...explainError(error, indent, page));
    if (isServerError(trial)) note(serverFault(trial.lostServers));
    const rows = evidence.steps.flatMap((run) => stepRows(run, error.message, evidence));
    lines.push(...paintRows(rows, indent + 2, page));
  }
  const unmet = grades.filter(isUnmet);
  for (const grade of unmet) lines.push(...explainGrade(grade, evidence, indent, page));
  for (const text of unmetOptional(trial)) note(`not required: ${text}`, "dim");
  const passed = grades.filter(({ verdict }) => verdict === "pass");
  if (unmet.length > 0 && passed.length > 0)
    note(`passed: ${passed.map(({ grader, weight }) => weighted(grader, weight)).join(", ")}`, "dim");
  lines.push(...explainAgent(trial, evidence, indent, page));
  return lines;
}

/** Whether a grade is why a trial did not pass. */
function isUnmet({ verdict, required }: Grade): boolean {
  return (verdict === "fail" || verdict === "error") && required !== false;
}

const maxShownCall = 240;

/** What an agent did, as reports list it: the first and the last of many acts, and between them those that grades cite. */
interface ListedActs {
  readonly first: readonly AgentAct[];
  readonly cited: readonly AgentAct[];
  readonly last: readonly AgentAct[];
  /** The number under which each is listed, by those of its events; grades do not show them, too. */
  readonly numbers: ReadonlyMap<number, number>;
}

function listActs(acts: readonly AgentAct[], total: number, grades: readonly Grade[]): ListedActs {
  const [first, last] = firstAndLast(acts, total);
  const numbers = new Set(grades.flatMap((grade) => grade.evidence));
  const between = last.length === 0 ? [] : acts.slice(first.length, -last.length);
  const cited = between.filter(({ seqs }) => seqs.some((seq) => numbers.has(seq))).slice(0, maxShownEvents);
  const listed = [...first, ...cited, ...last].flatMap(({ seq, seqs }) =>
    seqs.map((each) => [each, seq] as const),
  );
  return { first, cited, last, numbers: new Map(listed) };
}

/** What the agent did in order, with what came of it, and its last message unless a grade showed it. */
function explainAgent(
  { agent, tools, verdict }: TrialResult,
  evidence: Evidence,
  indent: number,
  page: Page,
): string[] {
  if (agent === null) return [];
  const { view, shown, acts, listed } = evidence;
  const message = lastMessage(view);
  const isSaid = message === undefined || shown.has(`event ${message.seq}`);
  const isIdle = acts.length === 0 && verdict === "fail" && view.turns.length > 0;
  if (acts.length === 0 && (verdict === "error" || (isSaid && !isIdle))) return [];
  const counts = countsOf(tools, acts);
  const { first, cited, last } = listed;
  const rest = totalOf(counts) - first.length - cited.length - last.length;
  const rows = first.flatMap((act) => actRows(act, evidence));
  if (rest > 0) rows.push(moreRow(`… ${countOf(rest, "more call")}`));
  for (const act of [...cited, ...last]) rows.push(...actRows(act, evidence));
  if (!isSaid) rows.push(row("said", clipLines(message.text, maxShownText), `event ${message.seq}`));
  return [
    ...paintText({ text: `the agent made ${describeCounts(counts)}` }, indent, page),
    ...paintRows(rows, indent + 2, page),
  ];
}

type ActCounts = Readonly<Record<AgentAct["type"], number>>;

/** All acts by kind; of those that are not shown only the result knows. */
function countsOf(tools: TrialResult["tools"], acts: readonly AgentAct[]): ActCounts {
  const { toolCalls = 0, resourceReads = 0, promptGets = 0 } = tools ?? {};
  const of = (type: AgentAct["type"]): number => acts.filter((act) => act.type === type).length;
  return {
    tool: Math.max(toolCalls, of("tool")),
    resource: Math.max(resourceReads, of("resource")),
    prompt: Math.max(promptGets, of("prompt")),
  };
}

function totalOf({ tool, resource, prompt }: ActCounts): number {
  return tool + resource + prompt;
}

function describeCounts({ tool, resource, prompt }: ActCounts): string {
  const parts = [tool === 0 ? "no tool calls" : countOf(tool, "tool call")];
  if (resource > 0) parts.push(countOf(resource, "resource read"));
  if (prompt > 0) parts.push(countOf(prompt, "prompt request"));
  return parts.join(", ");
}

/** What an agent did and said last, in a few words; empty where it did nothing or no agent took part. */
export function agentSummary({ agent, tools }: TrialResult, events: readonly TraceEvent[]): string {
  if (agent === null) return "";
  const view = readTrace(events);
  const acts = agentActs(view);
  const total = totalOf(countsOf(tools, acts));
  const [first, last] = firstAndLast(acts, total);
  const rest = total - first.length - last.length;
  const names = [...first.map(nameOf), ...(rest > 0 ? [`… ${rest} more`] : []), ...last.map(nameOf)];
  const message = lastMessage(view);
  const parts: string[] = [];
  if (acts.length > 0) parts.push(`the agent called ${clipText(names.join(", "), 200)}`);
  if (message !== undefined) parts.push(`it said: ${clipText(message.text, 200)}`);
  return parts.join("; ");
}

function nameOf({ type, target, call, report, failure }: AgentAct): string {
  if (call === undefined) return report?.name ?? target;
  return `${type === "tool" ? "" : `${type} `}${target}${failure === undefined ? "" : " (failed)"}`;
}

const actLabels: Readonly<Record<AgentAct["type"], string>> = {
  tool: "call",
  resource: "read",
  prompt: "prompt",
};

/** An act with what came of it, each on one line; more of both where a grade cites a call. */
function actRows(act: AgentAct, evidence: Evidence): readonly Row[] {
  const { type, target, args, seq, seqs, call, report } = act;
  const note = `event ${seq}`;
  if (call === undefined) {
    const ofServer =
      act.server === undefined ? "reported by the agent, not on record" : "as its transcript says";
    const origin = isOfServer(act) ? ofServer : "its own tool";
    const used = shortRow("tool", `${report?.name ?? target} ${JSON.stringify(args)}`, `${note}, ${origin}`);
    return [used, ...reportedRows(act)];
  }
  if (type === "tool" && seqs.some((each) => evidence.cited.has(each))) return callRows(call, true, evidence);
  const asked = type === "resource" ? target : `${target} ${JSON.stringify(args)}`;
  return [shortRow(actLabels[type], asked, note), outcomeRow(act, call)];
}

function outcomeRow({ type, failure }: AgentAct, { result }: ToolCall): Row {
  if (result === undefined || (failure !== undefined && result["isError"] !== true))
    return shortRow("error", failure ?? "", undefined, "bad");
  const text = answerText(type, result).trim() || JSON.stringify(structuredContent(result) ?? result);
  return result["isError"] === true
    ? shortRow("isError", text, undefined, "bad")
    : shortRow("result", text, undefined, "dim");
}

function reportedRows({ report, result }: AgentAct): readonly Row[] {
  if (report?.status === "failed")
    return [shortRow("failed", valueText(result ?? "failed"), undefined, "bad")];
  return result === undefined ? [] : [shortRow("result", valueText(result), undefined, "dim")];
}

function valueText(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function shortRow(label: string, text: string, note?: string, tone: Tone = "plain"): Row {
  return { label, pieces: [{ text: clipText(text, maxShownCall), tone }], note, cut: true };
}

function serverFault(servers: readonly string[] = []): string {
  const names = servers.map((name) => JSON.stringify(clipText(name, 80))).join(", ");
  return `Server ${names} failed after initialize.`;
}

const maxShownHint = 1000;

/** An error as lines: code and message, what to do, and supporting text such as stderr. */
function explainError(
  { code, message, hint, detail }: SerializedError,
  indent: number,
  page: Page,
): string[] {
  const text = clipLines(message, { lines: 12, characters: 2000 });
  const lines = headLines(code, "warn", text, indent, page);
  const help = clipText(hint ?? errorCatalogue[code].help, maxShownHint);
  lines.push(...paintText({ text: help }, indent, page, 2));
  if (detail !== undefined) {
    const shown = clipLines(detail, { lines: 12, characters: 4000, keep: "tail" });
    lines.push(...paintRows([row(detailLabel(code), shown)], indent + 2, page));
  }
  return lines;
}

function detailLabel(code: SerializedError["code"]): string {
  if (code === "server/http-status") return "answer";
  return code.startsWith("server/") ? "stderr" : "detail";
}

function explainGrade(grade: Grade, evidence: Evidence, indent: number, page: Page): string[] {
  const { verdict, error } = grade;
  const text = clipLines(headlineOf(grade, evidence), { lines: 12, characters: 1000 });
  const lines = headLines(gradeTitle(grade), verdict === "error" ? "warn" : "bad", text, indent, page);
  if (error !== undefined) lines.push(...explainError(error, indent + 2, page));
  lines.push(...paintRows(evidenceRows(grade, evidence), indent + 2, page));
  return lines;
}

/** A text after its head; further lines of it are quoted, so that they cannot be taken for lines of the report. */
function headLines(
  head: string,
  leadTone: Tone,
  [first = "", ...others]: readonly string[],
  indent: number,
  page: Page,
): string[] {
  return [
    ...paintText({ text: `${head}  ${first}`, lead: head.length, leadTone }, indent, page, 2),
    ...others.flatMap((line) => paintText({ text: `${quoteBar}${line}` }, indent + 2, page, 2)),
  ];
}

function row(label: string, text: string | readonly string[], note?: string): Row {
  const lines = typeof text === "string" ? [text] : text;
  return { label, pieces: lines.map((line) => ({ text: line })), note };
}

const maxShownEvents = 8;
const maxShownData = 300;
const maxShownText: ClipLimits = { lines: 8, characters: 800 };

/** What is known of the events that a trial's grades cite. */
export interface Evidence {
  readonly view: TraceView;
  readonly events: ReadonlyMap<number, TraceEvent>;
  /** The phases' own steps, of a task from a file of its own; a tool test has only one. */
  readonly steps: readonly StepRun[];
  /** What was shown already, so that no two grades of a trial show the same. */
  readonly shown: Set<string>;
  /** What the agent did. */
  readonly acts: readonly AgentAct[];
  readonly listed: ListedActs;
  /** Numbers of the events that grades cite. */
  readonly cited: ReadonlySet<number>;
}

/** Reads the events that `collectEvidence` gave of a trial. */
export function readEvidence(
  events: readonly TraceEvent[],
  { agent, form, tools, grades }: TrialResult,
): Evidence {
  const view = readTrace(events);
  const acts = agent === null ? [] : agentActs(view);
  const unmet = grades.filter(isUnmet);
  return {
    view,
    events: new Map(events.map((event) => [event.seq, event])),
    steps: form === "task" ? view.steps : [],
    shown: new Set(),
    acts,
    listed: listActs(acts, totalOf(countsOf(tools, acts)), unmet),
    cited: new Set(unmet.flatMap(({ evidence }) => evidence)),
  };
}

/** The reason of a grade; if several checks of steps did not hold, how many, as the rows say which. */
function headlineOf(grade: Grade, { steps }: Evidence): string {
  const cited = new Set(grade.evidence);
  const failures = steps
    .filter(({ last }) => cited.has(last.finished?.seq ?? 0))
    .reduce((sum, run) => sum + countFailures(run), 0);
  return failures > 1 ? `${failures} checks do not hold` : grade.reason;
}

/** The events that a grade cites, as rows: checks that did not hold, calls with their answers, messages. */
export function evidenceRows(grade: Grade, evidence: Evidence): Row[] {
  const all = [...new Set(grade.evidence)].flatMap((seq) => evidence.events.get(seq) ?? []);
  const { numbers } = evidence.listed;
  // What was injected stands in no row of what the agent did.
  const isListed = ({ seq, type }: TraceEvent): boolean => type !== "attack.injected" && numbers.has(seq);
  const below = [...new Set(all.filter(isListed).flatMap(({ seq }) => numbers.get(seq) ?? []))];
  const cited = all.filter((event) => !isListed(event));
  const rows: Row[] = [];
  if (below.length > 0) {
    const text = `event${below.length === 1 ? "" : "s"} ${clipText(below.join(", "), 80)} below`;
    rows.push({ label: "cited", pieces: [{ text, tone: "dim" }] });
  }
  for (const event of cited.slice(0, maxShownEvents)) rows.push(...eventRows(event, grade, evidence));
  const rest = cited.length - maxShownEvents;
  if (rest > 0) rows.push(moreRow(`… and ${countOf(rest, "more event")}`));
  return rows;
}

function moreRow(text: string): Row {
  return { label: "", pieces: [{ text, tone: "dim" }] };
}

function once(key: string, { shown }: Evidence, rows: readonly Row[]): readonly Row[] {
  if (shown.has(key)) return [];
  shown.add(key);
  return rows;
}

function eventRows(event: TraceEvent, grade: Grade, evidence: Evidence): readonly Row[] {
  const { seq } = event;
  const note = `event ${seq}`;
  const show = (label: string, text: string): readonly Row[] =>
    once(note, evidence, [row(label, clipLines(text, maxShownText), note)]);
  switch (event.type) {
    case "step.finished":
      return stepEvidence(event, grade, evidence);
    case "mcp.message":
    case "tool.rejected": {
      const call = evidence.view.calls.find((each) => each.seq === seq || each.responseSeq === seq);
      if (call !== undefined) return callRows(call, seq !== call.seq, evidence);
      if (event.type === "tool.rejected") return [];
      const label = event.direction === "client-to-server" ? "sent" : "received";
      return once(note, evidence, [row(label, clipText(JSON.stringify(event.message), maxShownData), note)]);
    }
    case "turn.started":
      return show(event.by === undefined ? "user" : "simulated", event.user);
    case "agent.message":
      return show("said", event.text);
    case "attack.injected":
      return show("injected", injectedText(event));
    case "server.stderr":
      return once(note, evidence, [row("stderr", clipLines(event.text, { ...maxShownText, keep: "tail" }))]);
    case "server.invalid_output":
      return show("stdout", event.text);
    case "server.lost": {
      const { code, hint, detail = "" } = event.error;
      // The grade says how the server was lost, with the end of the detail.
      const rows = [row("hint", clipText(hint ?? errorCatalogue[code].help, maxShownHint))];
      if (!grade.reason.includes(detail.trim()))
        rows.unshift(row(detailLabel(code), clipLines(detail, { ...maxShownText, keep: "tail" }), note));
      return once(note, evidence, rows);
    }
    case "server.exited":
      return show("exited", `${event.server} ${exitText(event)}`);
    case "http.response":
      return show("http", `${event.method} answered ${event.status}`);
    default:
      return [];
  }
}

function stepEvidence(event: EventOf<"step.finished">, grade: Grade, evidence: Evidence): readonly Row[] {
  const note = `event ${event.seq}`;
  const run = evidence.steps.find(({ last }) => last.finished === event);
  if (run !== undefined) return once(note, evidence, stepRows(run, headlineOf(grade, evidence), evidence));
  const rows = failedChecks(event, evidence).flatMap((check) => checkRows(check, grade.reason));
  const { error } = event;
  if (error !== undefined)
    rows.push(row("error", clipLines(`${error.code}: ${error.message}`, maxShownText), note));
  return [...once(note, evidence, rows), ...callsOfStep(event.step, evidence)];
}

/** The checks of a step that did not hold. Their texts are shown with them and not with the calls of the step. */
function failedChecks(finished: StepAttempt["finished"], { shown }: Evidence): readonly Check[] {
  const failed = finished?.checks.filter((check) => !check.passed) ?? [];
  for (const { actual } of failed) if (typeof actual === "string") shown.add(`text ${actual}`);
  return failed;
}

function callsOfStep(step: string, evidence: Evidence): readonly Row[] {
  return evidence.view.calls
    .filter((call) => call.step === step && !call.superseded)
    .slice(0, maxShownEvents)
    .flatMap((call) => callRows(call, true, evidence));
}

function callRows(call: ToolCall, withAnswer: boolean, evidence: Evidence): readonly Row[] {
  const { seq, tool, args, latencyMs, result } = call;
  const isShown = result !== undefined && evidence.shown.has(`text ${answerText("tool", result)}`);
  const note = `event ${seq}${latencyMs === undefined ? "" : `, ${formatDuration(latencyMs)}`}`;
  const request = row("call", `${clipText(tool, 100)} ${clipText(JSON.stringify(args), maxShownData)}`, note);
  const asked = once(`event ${seq}`, evidence, [request]);
  if (!withAnswer || isShown) return asked;
  return [...asked, ...once(`answer ${seq}`, evidence, answerRows("tool", call))];
}

/** What came of a request; structured content where it does not say the same as the text. */
export function answerRows(
  type: AgentAct["type"],
  { result, error, httpStatus }: Outcome & Pick<ToolCall, "httpStatus">,
  limits: ClipLimits = maxShownText,
): readonly Row[] {
  const http = httpStatus === undefined || httpStatus < 300 ? "" : `HTTP ${httpStatus}: `;
  if (result === undefined) return [row("error", clipLines(`${http}${error?.message ?? ""}`, limits))];
  const text = answerText(type, result);
  const label = hasFailed({ result }) ? "isError" : "result";
  const answer = row(label, clipLines(`${http}${text || JSON.stringify(result)}`, limits));
  const structured = structuredContent(result);
  if (text === "" || structured === undefined || saysSame(text, structured)) return [answer];
  return [answer, row("json", clipLines(JSON.stringify(structured), limits))];
}

/** Shows what a check expected and what there was: as a diff where both have lines; not what `said` already states. */
export function checkRows({ name, expected, actual }: Check, said: string): readonly Row[] {
  const diff = diffRow(expected, actual);
  if (diff !== undefined) return [diff];
  return [
    ...valueRow("expected", name, expected, said),
    ...(actual === null ? [] : valueRow("actual", name, actual, said)),
  ];
}

/** Checks whose expected value, or also the actual one, is a description and not data, so that it is not quoted. */
const described: Readonly<Record<"expected" | "actual", readonly string[]>> = {
  expected: ["exists", "file", "not", "call", "items", "input"],
  actual: ["exists", "file", "not"],
};

function valueRow(label: "expected" | "actual", name: string, value: Json, said: string): readonly Row[] {
  const isDescription = typeof value === "string" && described[label].includes(name);
  if (!isDescription && typeof value === "string" && value.trimEnd().includes("\n"))
    return [row(label, clipLines(value, { lines: 12, characters: 1200 }))];
  const text = isDescription ? value : JSON.stringify(value);
  return states(said, text) ? [] : [row(label, clipText(text, 600))];
}

/** Whether a sentence states a value as a whole word. */
function states(said: string, value: string): boolean {
  for (let at = said.indexOf(value); at !== -1; at = said.indexOf(value, at + 1)) {
    const after = said.slice(at + value.length, at + value.length + 2);
    if (!/[\w.-]/u.test(said[at - 1] ?? " ") && !/^(?:\w|\.\d)/u.test(after)) return true;
  }
  return false;
}

const maxShownDiffLines = 24;

function diffRow(expected: Json, actual: Json): Row | undefined {
  const exact = isJsonObject(expected) && "$equals" in expected;
  const wanted = exact ? (expected["$equals"] ?? null) : expected;
  const before = linesOf(wanted);
  const after = linesOf(alignTo(wanted, actual, exact)) ?? [];
  if (before === undefined || after.length === 0) return undefined;
  const pruned = diffLines(before, after);
  const diff = pruned.length > 0 ? pruned : diffLines(before, linesOf(actual) ?? []);
  if (diff.length === 0) return undefined;
  const shown = diff.slice(0, maxShownDiffLines).map(({ kind, text }): Piece => {
    const { mark, tone } = diffMarks[kind];
    return { text: `${mark} ${text}`, tone };
  });
  const rest = diff.length - shown.length;
  const more: Piece[] = rest > 0 ? [{ text: `  … ${rest} more lines`, tone: "dim" }] : [];
  return { label: "diff", pieces: [{ text: "- expected  + actual", tone: "dim" }, ...shown, ...more] };
}

const diffMarks: Readonly<Record<DiffLine["kind"], { readonly mark: string; readonly tone: Tone }>> = {
  same: { mark: " ", tone: "dim" },
  gap: { mark: " ", tone: "dim" },
  removed: { mark: "-", tone: "bad" },
  added: { mark: "+", tone: "good" },
};

/** The lines of a value that has several: text with line breaks, a list or an object. */
function linesOf(value: Json): string[] | undefined {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return text.includes("\n") ? clipLines(text, { lines: Infinity, characters: 50_000 }) : undefined;
}

/** Brings the keys of a value into the order of what was expected; unexpected keys go, unless `exact`. */
function alignTo(expected: Json, actual: Json, exact: boolean): Json {
  if (Array.isArray(expected) && Array.isArray(actual))
    return actual.map((item: Json, index) =>
      alignTo((expected[index] as Json | undefined) ?? null, item, exact),
    );
  if (!isJsonObject(expected) || !isJsonObject(actual)) return actual;
  const shared = Object.keys(expected).filter((key) => Object.hasOwn(actual, key));
  const others = exact ? Object.keys(actual).filter((key) => !Object.hasOwn(expected, key)) : [];
  return Object.fromEntries(
    [...shared, ...others].map((key) => [key, alignTo(expected[key] ?? null, actual[key] ?? null, exact)]),
  );
}

/** One line of a diff: kept, only in the first text (`-`), only in the second (`+`), or a gap of kept lines. */
export interface DiffLine {
  readonly kind: "same" | "removed" | "added" | "gap";
  readonly text: string;
}

/** With more changed lines than this, all lines are shown as changed: to match them takes quadratic time. */
const maxChangedLines = 1000;
const contextLines = 2;

/** The difference of two lists of lines, with a little context around each change; empty when there is none. */
export function diffLines(before: readonly string[], after: readonly string[]): DiffLine[] {
  const changes = diffArrays([...before], [...after], { maxEditLength: maxChangedLines });
  if (changes === undefined) return [...mark("removed", before), ...mark("added", after)];
  if (changes.every(({ added, removed }) => !added && !removed)) return [];
  return changes.flatMap(({ value, added, removed }, index): DiffLine[] => {
    if (added || removed) return mark(added ? "added" : "removed", value);
    const head = index === 0 ? 0 : contextLines;
    const tail = index === changes.length - 1 ? 0 : contextLines;
    // A single line is shown, since a gap would take its place.
    if (value.length <= head + tail + 1) return mark("same", value);
    const gap: DiffLine = { kind: "gap", text: "…" };
    return [...mark("same", value.slice(0, head)), gap, ...mark("same", value.slice(value.length - tail))];
  });
}

function mark(kind: DiffLine["kind"], lines: readonly string[]): DiffLine[] {
  return lines.map((text) => ({ kind, text }));
}

const maxShownInner = 6;
const maxShownError = 600;
/** Steps whose programs judge by themselves: what they found is in their message. */
const judging: readonly string[] = ["extension", "script"];

/**
 * Why a step's last attempt did not pass, down to the innermost steps: which step, what it worked with, what it expected,
 * what there was, and the calls that it made. Checks that `said` states are not named again.
 */
function stepRows(run: StepRun, said: string, evidence: Evidence): Row[] {
  const { started, finished, messages } = run.last;
  const broken = brokenInside(run.last);
  const isChoice = broken.length > 0 && started.stepType === "anyOf";
  const rows: Row[] = [];
  if (broken.length === 0 || isChoice || started.attempt > 1)
    rows.push(headRow(run, evidence, isChoice ? ": no alternative holds" : ""));
  if (broken.length > 0) {
    for (const child of broken.slice(0, maxShownInner)) rows.push(...stepRows(child, said, evidence));
    const rest = broken.length - maxShownInner;
    if (rest > 0) rows.push(moreRow(`… and ${countOf(rest, "more step")} inside it`));
    return rows;
  }
  const input = describeInput(started.stepType, started.input);
  // A call is shown with its answer.
  if (input !== "" && messages.length === 0) rows.push(row("input", clipText(input, maxShownData)));
  for (const check of failedChecks(finished, evidence)) {
    const told = `${check.name}: ${check.message}`;
    if (!said.includes(told))
      rows.push(row("check", clipLines(told, { lines: 16, characters: maxShownError })));
    // That it did not succeed, though it should, is not news.
    const isJudged = judging.includes(started.stepType) && check.expected === true && check.actual === false;
    if (!isJudged) rows.push(...(programRows(check) ?? checkRows(check, told)));
  }
  const error = finished?.error;
  if (error !== undefined && !said.includes(error.message))
    rows.push(row("error", clipText(`${error.code}: ${error.message}`, maxShownError)));
  rows.push(...callsOfStep(run.step, evidence));
  return rows;
}

/** How many checks did not hold, or had no chance to, in the innermost steps. */
function countFailures(run: StepRun): number {
  const broken = brokenInside(run.last);
  if (broken.length > 0) return broken.reduce((sum, child) => sum + countFailures(child), 0);
  return Math.max(1, run.last.finished?.checks.filter((check) => !check.passed).length ?? 0);
}

/** The steps inside that are why the whole did not pass: all that did not, but for `not`, which fails because they passed. */
function brokenInside({ children, started }: StepAttempt): readonly StepRun[] {
  return children.filter(({ last }) => {
    const { outcome, ignored } = last.finished ?? {};
    if (outcome === "passed" || outcome === "skipped" || ignored === true) return false;
    return started.stepType !== "not" || outcome !== "failed";
  });
}

/** Output of a program that did not end as it should; undefined for other checks. */
function programRows({ name, actual }: Check): readonly Row[] | undefined {
  if (name !== "exit code" || !isJsonObject(actual) || !("exitCode" in actual || "signal" in actual))
    return undefined;
  return ["stderr", "stdout"].flatMap((label) => {
    const text = actual[label];
    if (typeof text !== "string" || text.trim() === "") return [];
    return [row(label, clipLines(text, { lines: 12, characters: 1200, keep: "tail" }))];
  });
}

/** The step with where it is, how often it was tried and over what time. */
function headRow(
  { step, attempts: [first], last: { started, finished } }: StepRun,
  { view }: Evidence,
  suffix: string,
): Row {
  const { stepType, phase, attempt } = started;
  const end = finished?.at ?? started.at;
  const tried = `${countOf(attempt, "attempt")} in ${formatDuration(end - (first?.started.at ?? end))}`;
  const notes = [
    `${stepType} in ${phase}`,
    ...(attempt < 2 ? [] : [tried]),
    `event ${finished?.seq ?? started.seq}`,
  ];
  const text = `${clipText(view.pathOf(step), 200)}${suffix}`;
  return { label: "step", pieces: [{ text, tone: "strong" }], note: notes.join(", ") };
}
