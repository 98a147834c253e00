import { collectEvidence } from "../../src/report/evidence.ts";
import { readTrace } from "../../src/trace/trajectory.ts";
import { countFindings } from "../../src/model/alike-findings.ts";
import { averageScore, conclude, summarize, trialVerdict } from "../../src/report/result.ts";
import { exact, type Json } from "../../src/base/json.ts";
import type { CheckKind, CheckSpec } from "../../src/model/check.ts";
import type { Task } from "../../src/model/task.ts";
import type { Thresholds } from "../../src/model/eval.ts";
import { findingRules } from "../../src/check/catalogue.ts";
import type { Finding, FindingPlace } from "../../src/model/finding.ts";
import type { McpStep } from "../../src/model/step.ts";
import type { EventBody, TraceEvent } from "../../src/model/event.ts";
import type { AgentSummary } from "../../src/model/agent.ts";
import type { Plan } from "../../src/model/plan.ts";
import type { Reporter, RunEnd, RunStart } from "../../src/report/reporter.ts";
import type { RunResult, TrialResult } from "../../src/model/result.ts";
import type { SerializedError } from "../../src/base/serialized-error.ts";
import type { Grade } from "../../src/model/grade.ts";

/** A whole run as reporters hear of it. */
export interface SampleRun {
  readonly start: RunStart;
  readonly trials: readonly TrialResult[];
  readonly end: RunEnd;
}

export interface SampleOptions {
  readonly name?: string;
  readonly tasks: readonly Task[];
  readonly trials: readonly SampleTrial[];
  readonly agents?: readonly AgentSummary[];
  readonly durationMs?: number;
  readonly concurrency?: number;
  readonly interrupted?: boolean;
  readonly folder?: string;
  readonly maxWarnings?: number;
  readonly thresholds?: Thresholds;
}

export interface SampleTrial {
  readonly result: TrialResult;
  readonly events: readonly TraceEvent[];
}

export const scripted: AgentSummary = { name: "scripted", type: "scripted" };
export const claude: AgentSummary = { name: "claude", type: "model", model: "anthropic/claude-sonnet-4-5" };

const runId = "20261121-101500-4f2a";

export function sampleRun(options: SampleOptions): SampleRun {
  const { name = "quickstart", tasks, agents = [], durationMs = 3200, concurrency = 1 } = options;
  const samples = options.trials.map((trial, index) => numbered(trial, `t${index + 1}`));
  const trials = samples.map((trial) => trial.result);
  const plan: Plan = {
    schema: "mcpvals.plan/1",
    name,
    agents,
    tasks,
    trials: trials.map(({ id, task, agent, attempt }) => ({ id, task, agent, attempt })),
    concurrency,
    ...exact({ maxWarnings: options.maxWarnings, thresholds: options.thresholds }),
  };
  const environment = {
    mcpvals: "0.1.0",
    node: "24.21.0",
    platform: "linux x64",
    agents,
    servers: { everything: { transport: "stdio", target: "node everything.js" } },
  };
  const startedAt = "2026-11-21T10:15:00.000Z";
  const result: RunResult = {
    schema: "mcpvals.result/1",
    id: runId,
    name,
    ...conclude(trials, plan, { interrupted: options.interrupted ?? false }),
    startedAt,
    durationMs,
    summary: summarize(trials),
    trials,
    environment,
  };
  const evidence = new Map(
    samples
      .filter((trial) => trial.result.verdict !== "pass")
      .map(({ result, events }) => [result.id, collectEvidence(readTrace(events), result.grades)]),
  );
  const folder = options.folder === undefined ? {} : { folder: options.folder };
  return { start: { id: runId, plan, startedAt, environment, ...folder }, trials, end: { result, evidence } };
}

/** Plays a run to a reporter. */
export async function play(run: SampleRun, reporter: Reporter): Promise<void> {
  await reporter.onRunStart?.(run.start);
  for (const [index, trial] of run.trials.entries()) {
    const planned = run.start.plan.trials[index];
    if (planned !== undefined) await reporter.onTrialStart?.(planned);
    await reporter.onTrialEnd?.(trial);
  }
  await reporter.onRunEnd?.(run.end);
  await reporter.close?.();
}

export function toolTest(name: string, options: { suite?: string; expect?: McpStep["expect"] } = {}): Task {
  const { suite = "everything", expect = {} } = options;
  const step: McpStep = {
    type: "mcp",
    id: "call",
    request: { kind: "tool", tool: name, args: {} },
    expect,
    timeoutMs: 1000,
    retries: 0,
  };
  return {
    name: `${suite}/${name}`,
    form: "tool-test",
    suite,
    servers: ["everything"],
    turns: [],
    expectTools: [],
    verify: [step],
    parallel: false,
  };
}

export function workflow(name: string): Task {
  return {
    name,
    form: "workflow",
    servers: ["everything"],
    turns: [{ user: "Add 2 and 3.", expectedState: "5" }],
    expectTools: ["get-sum"],
    verify: [],
    parallel: false,
  };
}

/** A part of a check of the server `notes`. */
export function checkTask(kind: CheckKind, more: Omit<CheckSpec, "kind" | "disable"> = {}): Task {
  return {
    name: `notes: ${kind}`,
    form: "check",
    suite: "notes",
    servers: ["notes"],
    turns: [],
    expectTools: [],
    verify: [],
    parallel: true,
    check: { kind, disable: [], ...more },
  };
}

/** A finding of the server `notes`, as the rule of its code has it. */
export function finding(
  code: string,
  place: FindingPlace,
  message: string,
  more: Partial<Finding> = {},
): Finding {
  const rule = findingRules[code];
  if (rule === undefined) throw new Error(`there is no rule ${code}`);
  const { title, severity, fix } = rule;
  return { code, title, severity, server: "notes", place, message, fix, evidence: [1], ...more };
}

/** The grade of a trial of a check. */
export function findingsGrade(...findings: readonly Finding[]): Grade {
  const failed = findings.some(({ severity }) => severity === "error");
  return { ...grade("findings", failed ? 0 : 1, countFindings(findings), [1]), findings };
}

export interface TrialOptions extends Partial<
  Pick<TrialResult, "agent" | "variant" | "attempt" | "usage" | "warnings" | "byToolResult">
> {
  readonly ms?: number;
  readonly grades?: readonly Grade[];
  readonly events?: readonly EventBody[];
}

/** A completed trial; it passes unless its grades say otherwise. */
export function trialOf(task: Task, options: TrialOptions = {}): SampleTrial {
  return sample(task, options, { grades: options.grades ?? [grade("tool-call-health", 1)] });
}

/** A trial that could not be judged or was not run. */
export function brokenTrial(task: Task, error: SerializedError, options: TrialOptions = {}): SampleTrial {
  const verdict = error.kind === "timeout" ? "timeout" : error.kind === "interrupted" ? "skip" : "error";
  return sample(task, options, { grades: [], error, verdict });
}

function sample(
  task: Task,
  { agent, variant, attempt = 1, ms = 41, events = [], usage, warnings, byToolResult }: TrialOptions,
  outcome: Pick<TrialResult, "grades"> & Partial<Pick<TrialResult, "error" | "verdict">>,
): SampleTrial {
  const result: TrialResult = {
    id: "",
    task: task.name,
    form: task.form,
    ...(task.suite === undefined ? {} : { suite: task.suite }),
    agent: agent ?? null,
    ...(variant === undefined ? {} : { variant }),
    attempt,
    verdict: trialVerdict("completed", outcome.grades),
    score: averageScore(outcome.grades),
    durationMs: ms,
    ...outcome,
    ...(usage === undefined ? {} : { usage }),
    ...(warnings === undefined ? {} : { warnings }),
    ...exact({ byToolResult }),
  };
  return { result, events: events.map(stamped) };
}

function numbered({ result, events }: SampleTrial, id: string): SampleTrial {
  return { result: { ...result, id }, events: events.map((event) => ({ ...event, trial: id })) };
}

function stamped(body: EventBody, index: number): TraceEvent {
  return { seq: index + 1, at: 1_000_000 + index * 4, trial: "", ...body };
}

export function grade(grader: string, score: number, reason = "", evidence: readonly number[] = []): Grade {
  return { grader, verdict: score === 1 ? "pass" : "fail", score, reason, evidence };
}

export function skipGrade(grader: string, reason: string): Grade {
  return { grader, verdict: "skip", score: null, reason, evidence: [] };
}

export function request(id: number, tool: string, args: Json): EventBody {
  const message = { jsonrpc: "2.0", id, method: "tools/call", params: { name: tool, arguments: args } };
  return { type: "mcp.message", server: "everything", direction: "client-to-server", message };
}

export function response(id: number, result: Json): EventBody {
  const message = { jsonrpc: "2.0", id, result };
  return { type: "mcp.message", server: "everything", direction: "server-to-client", message };
}

export function textResult(text: string): { content: { type: string; text: string }[] } {
  return { content: [{ type: "text", text }] };
}
