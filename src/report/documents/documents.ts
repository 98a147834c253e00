import { type Json, valueAt } from "../../base/json.ts";
import type { Rule } from "../../check/check-view.ts";
import type { RunFinding } from "../../model/finding.ts";
import type { AgentSummary } from "../../model/agent.ts";
import type { EventOf, Phase, TraceEvent, TurnEnd } from "../../model/event.ts";
import type { RunVerdict } from "../../model/grade.ts";
import type { RunEnvironment, RunResult, RunSummary, TrialResult } from "../../model/result.ts";
import type { Cost, Usage, Verdict } from "../../model/grade.ts";
import { type PackedRows, packRows, unpackRows } from "./packed-rows.ts";

// What the dashboard and the HTML report show. Each document is made on the server from the record of a run, so that the app
// only draws. Every text in them may come from a server, a model or a task: it is shown as text, never as markup.

/** A run in the list of runs. */
export interface RunRow {
  readonly id: string;
  /** Name of the eval; for a check, of what was checked. */
  readonly name: string;
  /** The file that was run, relative to the working folder where it is inside; of a check without a file, the command or URL. */
  readonly source?: string;
  readonly kind: "run" | "check";
  /** `cut-off`: its process ended before it wrote a result. `damaged`: its files cannot be read, or lack what its result rests on; `problem` says why. */
  readonly state: "running" | "ended" | "cut-off" | "damaged";
  readonly problem?: string;
  /** Absent until it has ended. */
  readonly verdict?: RunVerdict;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** Id of the run of which it only graded the record. */
  readonly gradedFrom?: string;
  /** What recordings took the place of. */
  readonly replayed?: RunEnvironment["replayed"];
  /** Id of the run of which it tried errors or flaky tasks again. */
  readonly retryOf?: string;
  /** Id of the run that recorded its first trials: equal for runs that share some. Absent: its files cannot be read. */
  readonly origin?: string;
  readonly durationMs?: number;
  readonly summary?: RunSummary;
  /** Mean pass rate of its tasks with its interval; absent for runs of older versions, and without a verdict. */
  readonly passRate?: RunResult["passRate"];
  /** What lets it pass though trials failed: a threshold, or its comparison with a `baseline`. */
  readonly passesBy?: { readonly name: string; readonly threshold?: number };
  readonly agents: readonly AgentSummary[];
  readonly servers: readonly string[];
  /** Names of its sets of servers; absent: it has none. */
  readonly variants?: readonly string[];
  /** Its variants are attacks on its agents. */
  readonly isAttacked?: true;
  /** Which tasks of the eval were asked for, as flags: `--tag smoke`. Absent: all. */
  readonly filter?: string;
}

/** All runs of a folder, newest first. */
export interface RunsDocument {
  /** The folder, as a user would write it. */
  readonly folder: string;
  readonly runs: readonly RunRow[];
}

/** A trial in the tables of a run. */
export interface TrialRow {
  readonly id: string;
  readonly task: string;
  readonly form: TrialResult["form"];
  /** The suite of a tool test, or the server of a check. */
  readonly suite?: string;
  /** The tool that a tool test calls. */
  readonly tool?: string;
  /** Absent when no agent takes part. */
  readonly agent?: string;
  readonly variant?: string;
  readonly attempt: number;
  /** `cut-off`: it had begun when the run was killed or interrupted; `not-run`: it had not. */
  readonly state: "waiting" | "running" | "ended" | "cut-off" | "not-run";
  /** Absent until it has ended. What was cut off or not run counts as skipped. */
  readonly verdict?: Verdict;
  /** It was skipped on purpose: its task requires what is not there. */
  readonly isLeftOut?: true;
  readonly score?: number;
  readonly durationMs?: number;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  /** Of the agent. Absent: it used no model. */
  readonly cost?: Cost;
  readonly toolCalls?: number;
  readonly warnings?: number;
  /** It passed by a tool's result only. */
  readonly byToolResult?: true;
  /** The first reason why it did not pass, shortened. */
  readonly reason?: string;
}

/** What a grader said of all trials of a run. */
export interface GraderRow {
  readonly grader: string;
  readonly pass: number;
  readonly fail: number;
  readonly error: number;
  readonly skip: number;
  /** Mean of its scores; absent when it gave none. */
  readonly score?: number;
  /** Its weight in the score of a trial; several where tasks give it different ones. */
  readonly weights: readonly number[];
  /** How many of its grades change no verdict. */
  readonly notRequired: number;
}

/** One run. */
export interface RunDocument extends RunRow {
  readonly environment: RunEnvironment;
  readonly trials: readonly TrialRow[];
  readonly graders: readonly GraderRow[];
  readonly findings: readonly RunFinding[];
  /** What is known of the codes of the findings; absent where nobody checked. */
  readonly rules?: Readonly<Record<string, RuleText>>;
  /** Model use of agents and of judges in all trials. */
  readonly usage?: Usage;
  readonly judgeUsage?: Usage;
  readonly userUsage?: Usage;
  readonly gates?: RunResult["gates"];
  /** Absent until it has ended, and where its result has none. */
  readonly rates?: RunResult["rates"];
  readonly attacks?: RunResult["attacks"];
  readonly decisions?: RunResult["decisions"];
  readonly comparison?: RunResult["comparison"];
  /** Why it is incomplete, was interrupted, or is not as good as its baseline, in a sentence. */
  readonly reason?: string;
  readonly fingerprints?: RunResult["fingerprints"];
  readonly judges?: RunResult["judges"];
  readonly coverage?: RunResult["coverage"];
  readonly measurements?: RunResult["measurements"];
  readonly routing?: RunResult["routing"];
}

/** What is said of a code of findings, as in docs/reference/findings.md. */
export type RuleText = Pick<Rule, "severity" | "title" | "why" | "fix" | "bad" | "good" | "source">;

/** A run as it is sent. */
export interface PackedRun extends Omit<RunDocument, "trials" | "rates"> {
  readonly trials: PackedRows<TrialRow>;
  readonly rates?: PackedRates;
}

type Rates = NonNullable<RunResult["rates"]>;
type TaskRate = NonNullable<Rates["tasks"]>[number];

interface PackedRates extends Omit<Rates, "tasks"> {
  /** Without `agent` where it is null. */
  readonly tasks?: PackedRows<Omit<TaskRate, "agent"> & { readonly agent?: string }>;
}

/** A text that may be large: its beginning, and where the rest is. */
export interface Excerpt {
  /** At most {@link excerptLength} characters, of a definition {@link definitionLength}. */
  readonly text: string;
  /** Length of the whole text in characters. */
  readonly length: number;
  /** `json`: the whole text is JSON, indented. */
  readonly type: "text" | "json";
  /** The event that has it, and the JSON Pointer to it in the event. */
  readonly seq: number;
  readonly pointer: string;
}

/** In characters. */
export const excerptLength = 400;
export const definitionLength = 4000;

/** An image or a sound in the result of a tool: base64 text in an event. */
export interface Media {
  readonly type: "image" | "audio";
  readonly mimeType: string;
  /** Length of the base64 text. */
  readonly length: number;
  readonly seq: number;
  readonly pointer: string;
}

interface ItemStamp {
  /** Number of the event that it begins with; identifies the item in its trial. */
  readonly seq: number;
  /** Number of the event that it ends with; absent: it is this one event, or it has not ended. */
  readonly endSeq?: number;
  /** Milliseconds since the trial's first event; what happened when it was graded stands at its end. */
  readonly at: number;
  /** Absent for what has no duration, or has not ended. */
  readonly durationMs?: number;
  readonly phase?: Phase;
  readonly turn?: number;
  /** The step that it belongs to, as it is called for readers. */
  readonly step?: string;
}

/** Something that happened in a trial. Items are in the order of `seq`. */
export type TraceItem = ItemStamp &
  (
    | { readonly kind: "phase"; readonly name: Phase }
    | {
        readonly kind: "turn";
        readonly user: Excerpt;
        /** A simulated user says it; absent: the task does. */
        readonly by?: EventOf<"turn.started">["by"];
        /** Absent: it has not ended. */
        readonly reason?: TurnEnd;
        /** What is wrong with how it ended. */
        readonly problem?: string;
      }
    | { readonly kind: "message"; readonly text: Excerpt }
    | CallItem
    | {
        readonly kind: "step";
        readonly name: string;
        readonly stepType: string;
        readonly attempt: number;
        /** Absent: it has not ended. */
        readonly outcome?: "passed" | "failed" | "error" | "timeout" | "skipped";
        /** What it works with, in one line; empty when there is nothing to say. */
        readonly summary: string;
        readonly input: Excerpt;
        readonly outputs?: Excerpt;
        readonly checks: readonly {
          readonly name: string;
          readonly passed: boolean;
          readonly message: string;
        }[];
        readonly error?: string;
        readonly ignored?: true;
      }
    /** A request to a server that calls no tool, with its answer; or a notification, or a request of the server. */
    | {
        readonly kind: "request";
        readonly server: string;
        readonly direction: "client-to-server" | "server-to-client";
        readonly method: string;
        readonly params?: Excerpt;
        readonly result?: Excerpt;
        readonly error?: string;
      }
    /** Output of a program on stderr or stdout. */
    | {
        readonly kind: "output";
        /** The server, the extension or the agent. */
        readonly from: string;
        readonly stream: "stderr" | "stdout" | "log";
        readonly text: Excerpt;
      }
    | {
        readonly kind: "model";
        readonly purpose: EventOf<"model.called">["purpose"];
        readonly model: string;
        readonly usage?: Usage;
        readonly finishReason?: string;
        /** Until the first token of the answer, in milliseconds. */
        readonly firstTokenMs?: number;
        /** Why the request was sent again. */
        readonly retried?: string;
      }
    /** Any other event: its type, and a line that says what it says. */
    | {
        readonly kind: "event";
        readonly type: string;
        readonly server?: string;
        readonly text: string;
        readonly problem?: true;
      }
  );

/** The use of a tool: one that the gateway recorded, or one that only the agent reports. */
export interface CallItem {
  readonly kind: "call";
  /** `server`: of a server, recorded; `builtin`, `skill`, `unknown`: the agent's own, as it reports it. */
  readonly source: "server" | "builtin" | "skill" | "unknown";
  readonly server?: string;
  /** The agent reports that it called the server's tool, and no server received the call. */
  readonly unrecorded?: true;
  readonly tool: string;
  readonly byAgent: boolean;
  /** `pending`: under way, or the agent did not report its end. `rejected`: no server has such a tool, or the agent may not use it. */
  readonly status: "ok" | "error" | "pending" | "rejected";
  readonly args: Excerpt;
  /** What of the arguments does not fit the tool's `inputSchema`: JSON Pointer into them and problem. Empty: all fit; absent: unknown. */
  readonly invalid?: readonly { readonly pointer: string; readonly problem: string }[];
  readonly result?: Excerpt;
  readonly media?: readonly Media[];
  readonly error?: string;
  readonly fault?: string;
  /** Hashes of the whole arguments, and of the whole result and error, of which the document has only the beginning. */
  readonly hashes?: { readonly arguments?: string; readonly result?: string };
}

/** One event in the list of all events. */
export interface EventRow {
  readonly seq: number;
  /** Milliseconds since the trial's first event. */
  readonly at: number;
  readonly type: string;
  /** What it says, in one line. */
  readonly text: string;
}

/** One trial. */
export interface TrialDocument {
  readonly run: Pick<RunRow, "id" | "name" | "kind" | "state" | "startedAt">;
  readonly row: TrialRow;
  /** When it began: ISO 8601, UTC. Absent until then. */
  readonly startedAt?: string;
  /** Grades with their evidence, measurements, errors; absent until it has ended. */
  readonly result?: TrialResult;
  /** The task as planned, as YAML. */
  readonly task: string;
  /** Where it was written: `FILE:LINE`. */
  readonly taskPlace?: string;
  /** Servers of the trial, in the order of their start: one lane each in the waterfall. */
  readonly servers: readonly string[];
  readonly items: readonly TraceItem[];
  readonly events: readonly EventRow[];
  /** Trials before and after it in the plan. */
  readonly previous?: string;
  readonly next?: string;
  /** The same of its task. */
  readonly previousOfTask?: string;
  readonly nextOfTask?: string;
}

/** A trial as it is sent. */
export interface PackedTrial extends Omit<TrialDocument, "items" | "events"> {
  readonly items: PackedRows<TraceItem>;
  readonly events: PackedRows<EventRow>;
}

/** A part of a large text. */
export interface ContentPart {
  readonly text: string;
  /** Position of `text` in the whole text, and the length of the whole text, in characters. */
  readonly from: number;
  readonly length: number;
}

/** A tool of a server over all trials of a run. */
export interface ToolRow {
  readonly name: string;
  /** Shortened; the definition has all of it. */
  readonly description?: string;
  /** As it was listed last; absent: it was called but never listed. */
  readonly definition?: Definition;
  /** Tokens of the definition: an estimate. */
  readonly tokens?: number;
  /** Uses by agents and steps. */
  readonly calls: number;
  readonly errors: number;
  /** Calls that a check made, which are no uses; absent: none. */
  readonly checked?: CheckedCalls;
  /** Why a check does not call it. */
  readonly notCalled?: string;
  readonly p50Ms?: number;
  readonly p95Ms?: number;
  readonly findings: number;
  /** Against the run before that has this server. */
  readonly change?: "added" | "removed" | "changed";
  /** The definition then; present when it changed or was removed. */
  readonly before?: Definition;
}

/** The calls of tools that checks planned and made, by what they expected. */
export interface CheckedCalls {
  /** With valid arguments, and how many of these did not succeed. */
  readonly valid: number;
  readonly failed: number;
  /** With invalid arguments, and how many of these were refused, as they should be. */
  readonly invalid: number;
  readonly refused: number;
}

/** The definition of a tool, and the run and the trial that have all of it. */
export interface Definition extends Excerpt {
  readonly run: string;
  readonly trial: string;
}

/** A server over all trials of a run. */
export interface ServerRow {
  readonly name: string;
  /** What it calls itself in the handshake. */
  readonly reported?: { readonly name: string; readonly version: string; readonly protocolVersion: string };
  /** How it is started or reached. */
  readonly target?: Json;
  readonly starts: number;
  readonly losses: number;
  readonly calls: number;
  readonly errors: number;
  readonly checked?: CheckedCalls;
  readonly p50Ms?: number;
  readonly p95Ms?: number;
  /** Tokens of all definitions, and of those of tools without a call: estimates. */
  readonly tokens: number;
  readonly unusedTokens: number;
  readonly tools: readonly ToolRow[];
  readonly findings: readonly RunFinding[];
  /** Id of the run that definitions were compared with. */
  readonly comparedWith?: string;
}

/** The servers of one run. */
export interface ServersDocument {
  readonly run: Pick<RunRow, "id" | "name" | "startedAt">;
  readonly servers: readonly ServerRow[];
  /** How many of the run's trials have been read so far; absent: all. */
  readonly reading?: { readonly trials: number; readonly of: number };
}

/** Of the live view of a run: the trials that changed, and the run without its trials. The first has all trials. */
export interface RunUpdate extends Omit<PackedRun, "trials"> {
  readonly changed: PackedRows<TrialRow>;
}

/** Of the live view of a trial: the items and events that are new or changed. The first has all. */
export interface TrialUpdate extends Omit<TrialDocument, "items" | "events"> {
  readonly items: readonly TraceItem[];
  readonly events: readonly EventRow[];
}

/** The data of an HTML report: one run with as much of its trials as fits. */
export interface ReportDocument {
  readonly run: PackedRun;
  readonly servers: ServersDocument;
  /** By id of the trial; those that did not pass come first. One that is absent did not fit. */
  readonly trials: Readonly<Record<string, ReportTrial>>;
}

export interface ReportTrial {
  readonly document: PackedTrial;
  /** Events as they were recorded, by their numbers. Those that are absent did not fit. */
  readonly events: Readonly<Record<string, Json>>;
}

/** Most characters of one part of a text. */
const maxPartLength = 1024 * 1024;

/** A text as it is, any other value as indented JSON. */
function textOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** The beginning of a value in an event. */
export function excerptOf(value: Json, seq: number, pointer: string, most = excerptLength): Excerpt {
  const text = textOf(value);
  const type = typeof value === "string" ? "text" : "json";
  return { text: text.slice(0, most), length: text.length, type, seq, pointer };
}

/** The text of the value at a JSON Pointer (RFC 6901) in an event; undefined where the pointer leads nowhere. */
export function contentText(event: TraceEvent | Json, pointer: string): string | undefined {
  const path = pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  const value = valueAt(event, path);
  return value === undefined ? undefined : textOf(value as Json);
}

/** A part of a text: from a position, at most so many characters. */
export function contentPart(text: string, from: number, length: number): ContentPart {
  return { text: text.slice(from, from + Math.min(length, maxPartLength)), from, length: text.length };
}

export function packRates({ tasks, ...rates }: Rates): PackedRates {
  return tasks === undefined
    ? rates
    : {
        ...rates,
        tasks: packRows(tasks.map(({ agent, ...task }) => (agent === null ? task : { agent, ...task }))),
      };
}

export function unpackRun({ trials, rates, ...run }: PackedRun): RunDocument {
  const shown = { ...run, trials: unpackRows(trials) };
  if (rates === undefined) return shown;
  const { tasks, ...others } = rates;
  if (tasks === undefined) return { ...shown, rates: others };
  return {
    ...shown,
    rates: { ...others, tasks: unpackRows(tasks).map((task) => ({ agent: null, ...task })) },
  };
}

export function packTrial({ items, events, ...trial }: TrialDocument): PackedTrial {
  return { ...trial, items: packRows(items), events: packRows(events) };
}

export function unpackTrial({ items, events, ...trial }: PackedTrial): TrialDocument {
  return { ...trial, items: unpackRows(items), events: unpackRows(events) };
}
