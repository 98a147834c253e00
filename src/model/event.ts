import type { Fault } from "./server.ts";
import type { Json, JsonObject } from "../base/json.ts";
import type { ProbeName } from "./check.ts";
import type { JudgeRecord, Usage, Verdict, Grade } from "./grade.ts";
import type { SerializedError } from "../base/serialized-error.ts";

/** How a user turn ended: only `done` is the agent's own decision to be finished. */
export type TurnEnd = "done" | "max-steps" | "max-tokens" | "refused" | "cancelled";

/** What is known of the content of a file. */
export interface FileContent {
  /** In bytes. */
  readonly size: number;
  /** Of the bytes; absent for a very large file. */
  readonly sha256?: string;
  /** Absent for a large file, and for bytes that are no UTF-8. */
  readonly text?: string;
}

export interface WorkspaceFile extends Partial<FileContent> {
  /** Relative to the workspace, with `/`. */
  readonly path: string;
  /** Links are followed; `link`: one that leads out of the workspace, or to nothing. `other`: a pipe, or unreadable. */
  readonly kind: "file" | "folder" | "link" | "other";
}

export type Phase = "workspace" | "servers" | "probe" | "setup" | "agent" | "verify" | "cleanup" | "stop";

/** The outcome of one expectation of a step. */
export interface Check {
  readonly name: string;
  readonly passed: boolean;
  readonly expected: Json;
  readonly actual: Json;
  readonly message: string;
  /**
   * Why it is no evidence; absent: it is.
   *
   * - `sideEffect`: it says what the step did, not what it found;
   * - `notRun`: it failed without having looked at anything: an earlier step gave no value, a program could not run, a server
   *   broke. It is a failure all the same, but a `not` must not pass because of it;
   * - `pathMissing`: it failed because the place in JSON that it is about, or the JSON itself, does not exist.
   */
  readonly evidence?: "sideEffect" | "notRun" | "pathMissing";
  /** Which mistake of its author, such as a misspelt name, may be why it found nothing. */
  readonly doubt?: string;
  /** Who judged; absent: no model did. */
  readonly judge?: JudgeRecord;
}

/** `skipped`: its `if` did not hold. */
export type StepOutcome = "passed" | "failed" | "error" | "timeout" | "skipped";

/** What is recorded, by type. `mcp.message` has the messages unchanged; tool calls are a view of them (see trajectory.ts). */
interface EventFields {
  "trial.started": { task: string; agent: string | null; attempt: number };
  "phase.started": { phase: Phase };
  "phase.finished": { phase: Phase; durationMs: number };
  "server.started": {
    server: string;
    transport: string;
    target: string;
    pid?: number;
    /** What confines it; absent: nothing. */
    sandbox?: "process" | "docker" | "none";
    /** It had been started before this trial, whose lifetime is longer than one. */
    reused?: true;
  };
  /** A server that a trial can do without did not start. */
  "server.failed": { server: string; error: SerializedError };
  /** A program was not healthy in time, and is started once more. */
  "server.late": { server: string; error: SerializedError };
  "server.ready": {
    server: string;
    name: string;
    version: string;
    protocolVersion: string;
    tools: number;
    durationMs: number;
  };
  "server.stderr": { server: string; text: string };
  /** Of a program that serves at a URL; over stdio, stdout is for messages. */
  "server.stdout": { server: string; text: string };
  "server.invalid_output": { server: string; text: string };
  "server.output_omitted": { server: string; stream: "stderr" | "stdout"; bytes: number };
  /** Of a trial whose server had completed its handshake: it exited, or broke the connection, without being stopped. */
  "server.lost": { server: string; error: SerializedError };
  "server.exited": { server: string; exitCode: number | null; signal: string | null; expected: boolean };
  "server.stopped": {
    server: string;
    /** `disconnect`: only the connection was ended; the server goes on. */
    by: "stdin" | "SIGTERM" | "SIGKILL" | "already-exited" | "disconnect";
    durationMs: number;
    /** Processes that it had started, and that did not end by themselves; absent: none. */
    survivors?: number;
  };
  /** A process of an extension was started; `extension` is its alias everywhere. */
  "extension.started": {
    extension: string;
    package: string;
    version?: string;
    protocol: "json-rpc" | "one-shot";
    sandbox: "none" | "process" | "docker";
    pid: number;
  };
  "extension.log": { extension: string; level: string; message: string; data?: Json };
  "extension.stderr": { extension: string; text: string };
  /** A line on its stdout that is not a message. */
  "extension.invalid_output": { extension: string; text: string };
  /** `count`: bytes; of `log`, messages. */
  "extension.output_omitted": { extension: string; stream: "stderr" | "stdout" | "log"; count: number };
  /** `expected`: mcpvals ended it, after its last operation. */
  "extension.exited": {
    extension: string;
    exitCode: number | null;
    signal: string | null;
    expected: boolean;
  };
  "mcp.message": {
    server: string;
    /** The agent's connection, when it is not our own: a number in the trial. Its request ids are its own. */
    client?: string;
    direction: "client-to-server" | "server-to-client";
    message: Json;
    /** The text on the wire, when writing the parsed message again would give another text and it holds no secret. */
    raw?: string;
    /** What is wrong with its text, so that readers may read it in different ways. Only of a server's messages. */
    malformed?: string;
  };
  "http.response": {
    server: string;
    client?: string;
    method: string;
    status: number;
    requestIds: readonly (string | number)[];
  };
  /** A client of the agent's connected to the gateway. */
  "gateway.connected": { server: string; client: string; via: "http" | "bridge" };
  "gateway.disconnected": { server: string; client: string };
  /** A request waited before it went to the server; the wait is not the server's time. */
  "request.held": { server: string; client?: string; id: string | number; heldMs: number };
  "fault.injected": {
    server: string;
    client?: string;
    fault: Fault["kind"];
    method: string;
    tool?: string;
    id: string | number;
  };
  /** A configured fault that no request met. */
  "fault.unmet": { server: string; fault: Fault["kind"]; method: string; tool?: string };
  /** Tools that the server lists and the agent does not see. */
  "tools.hidden": {
    server: string;
    client?: string;
    tools: readonly string[];
    /** Names and globs of the allow-list that fit no tool of this listing. */
    unmatched?: readonly string[];
  };
  /** The agent called a tool that it may not use; the call was not passed on to the server. */
  "tool.refused": { server: string; client?: string; tool: string; id: string | number };
  "agent.started": {
    agent: string;
    kind: string;
    model?: string;
    /** Name and version that the program reports. */
    program?: string;
    pid?: number;
  };
  /** What an agent program reports of itself, or of a model that answered, while it runs. */
  "agent.reported": { program?: string; model?: string };
  /** A use of a tool, as the agent reports it; the last one of a `callId` is final. */
  "agent.tool": {
    turn: number;
    callId: string;
    /** As the agent names it. */
    name: string;
    /** `mcp:SERVER`, `skill` (a load of a skill), `builtin`, or `unknown`, where the name does not tell. */
    source: string;
    /** The server's own name of the tool, for one of a server's. */
    tool?: string;
    status: "started" | "completed" | "failed";
    args?: Json;
    result?: Json;
    parentCallId?: string;
  };
  /** The agent asked whether it may do something; `title` is its own text. */
  "agent.permission": {
    turn: number;
    callId?: string;
    title: string;
    decision: "allowed" | "denied" | "cancelled";
    policy: string;
  };
  /** Tokens of a program's model: as the agent reports them, or as our proxy counted them, which wins. */
  "agent.usage": { source: "agent" | "proxy"; usage: Usage };
  /** Output of a program that is neither protocol nor answer. */
  "agent.output": { stream: "stdout" | "stderr"; text: string };
  "agent.exited": { exitCode: number | null; signal: string | null; expected: boolean };
  /** A config file that points an agent to the gateway; `replaced`: there was one, and it is restored. */
  "client_config.written": { client: string; path: string; action: "created" | "replaced" };
  /** Skills were copied to where the agent looks for them. */
  "skills.copied": {
    /** Relative to the workspace. */
    folder: string;
    skills: readonly string[];
    /** The agent's tool that loads one; absent: it reads their files with its usual tools. */
    tool?: string;
  };
  "turn.started": { turn: number; user: string };
  "agent.message": { turn: number; text: string };
  "turn.finished": { turn: number; reason: TurnEnd };
  "tool.rejected": {
    tool: string;
    args: Json;
    reason: string;
    /** The server that offers the tool, where the arguments are why the call was not made. */
    server?: string;
    /** Not a tool that no server offers; the reason is another one. */
    known?: true;
  };
  "model.called": {
    purpose: "agent" | "judge";
    model: string;
    durationMs: number;
    finishReason: string;
    usage: Usage;
  };
  "model.retried": {
    purpose: "agent" | "judge";
    model: string;
    /** Number of the attempt that failed, counting from 1. */
    attempt: number;
    reason: string;
    status?: number;
    delayMs: number;
  };
  "step.started": {
    phase: Phase;
    step: string;
    stepType: string;
    name?: string;
    /** The step that it belongs to; absent for a phase's own steps. */
    parent?: string;
    attempt: number;
    /** What the step works with, templates replaced. */
    input: JsonObject;
  };
  "step.finished": {
    phase: Phase;
    step: string;
    parent?: string;
    attempt: number;
    outcome: StepOutcome;
    checks: readonly Check[];
    outputs?: JsonObject;
    durationMs: number;
    error?: SerializedError;
    /** Recorded, but it changes no verdict: the step says `continueOnError`, or it belongs to a cleanup. */
    ignored?: true;
  };
  /** A probe of a check begins; everything until it ends belongs to it. `call`: which of the planned calls it makes. */
  "probe.started": { server: string; probe: ProbeName; call?: number; read?: number };
  /** `lost`: the server was gone; `unanswered`: something that it should have answered in time was not. */
  "probe.finished": {
    server: string;
    probe: ProbeName;
    outcome: "done" | "lost" | "unanswered";
    durationMs: number;
    error?: SerializedError;
  };
  /** What the official conformance suite says of one requirement. */
  "conformance.checked": {
    server: string;
    scenario: string;
    /** The suite's name of the requirement. */
    check: string;
    description: string;
    /** `SUCCESS`, `FAILURE`, `WARNING` or another word of the suite; `unfinished`: the scenario did not end in time. */
    status: string;
    message?: string;
    /** Where the requirement is written. */
    sources: readonly string[];
  };
  "workspace.created": { path: string; fixtures: readonly string[] };
  /** What a name in the settings of a grader stands for in the workspace, after the verify steps. */
  "workspace.files": {
    /** A path relative to the workspace, or a glob. */
    name: string;
    /** None: nothing is there. */
    files: readonly WorkspaceFile[];
    /** Why there may be more than these. */
    incomplete?: string;
  };
  "state.compared": {
    /** What differs between before setup and after cleanup; none: everything was restored. */
    differences: readonly string[];
    /** What has differed since an earlier trial of the task, and was not touched in this one. */
    untouched: readonly string[];
  };
  "trial.finished": { outcome: TrialOutcome; durationMs: number; error?: SerializedError };
  /** The calls of the agent whose arguments do not fit the `inputSchema` of their tools. */
  "calls.invalid": {
    /** `seq` is the number of the request's event. */
    calls: readonly { readonly seq: number; readonly causes: readonly string[] }[];
  };
  "trial.graded": { verdict: Verdict; score: number | null; grades: readonly Grade[] };
}

/** An event without its stamp. */
export type EventBody = {
  [T in keyof EventFields]: Readonly<{ type: T } & EventFields[T]>;
}[keyof EventFields];

/** How a trial's execution ended; only a completed trial is graded. */
export type TrialOutcome = "completed" | "error" | "timeout" | "interrupted" | "not-started" | "skipped";

export interface EventStamp {
  /** Position in the trial, counting from 1: what grades cite as evidence. */
  readonly seq: number;
  /** Milliseconds since the Unix epoch, with a fraction; differences are monotonic. */
  readonly at: number;
  /** Id of the trial. */
  readonly trial: string;
}

export type TraceEvent = EventStamp & EventBody;

export type EventOf<T extends EventBody["type"]> = Extract<TraceEvent, { readonly type: T }>;

export function eventsOf<T extends EventBody["type"]>(events: readonly TraceEvent[], type: T): EventOf<T>[] {
  const found: EventOf<T>[] = [];
  // Runs very often; a filter takes twice as long.
  for (const event of events) if (event.type === type) found.push(event as EventOf<T>);
  return found;
}

/** Records an event and gives its number; 0 for one that is not recorded, since the record has ended. Never throws. */
export type Emit = (event: EventBody) => number;

/** One question to the judge about a text. */
export interface JudgeQuestion {
  /** Whether all of the reference must be in the text, or nothing else either; or whether it satisfies a rubric. */
  readonly kind: "contains" | "exact" | "rubric";
  /** The reference, or the rubric. */
  readonly reference: string;
  /** What the agent was told. */
  readonly prompt: string;
  /** What is judged. */
  readonly input: string;
}

/** What the judge answers; the score is from 0 to 1. */
export interface JudgeAnswer {
  readonly judge: JudgeRecord;
  readonly passed: boolean;
  readonly score: number;
  readonly reason: string;
}
