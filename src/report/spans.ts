import { agentActs } from "../trace/agent-acts.ts";
import type { JsonObject } from "../base/json.ts";
import { withoutUndefined } from "../base/json.ts";
import { eventsOf } from "../model/event.ts";
import type { Verdict } from "../model/grade.ts";
import type { RunResult, TrialResult } from "../model/result.ts";
import {
  type Exchange,
  hasFailed,
  outcomeOf,
  type StepRun,
  type Trajectory,
  withInner,
} from "../trace/trajectory.ts";

/** A value of an attribute; lists have values of one type. */
type Attribute = string | number | boolean | readonly string[];

/**
 * A span of OpenTelemetry. Names of spans and attributes are those of its semantic conventions for generative AI and MCP
 * (open-telemetry/semantic-conventions-genai 0.1.0) and for tests (open-telemetry/semantic-conventions 1.41); `mcpvals.…` is what these do not name. Times are milliseconds since the Unix epoch.
 */
export interface Span {
  /** Unique in its run, and the same whenever the run is exported: what its id is made of. */
  readonly key: string;
  /** The key of the span around it; absent: it is that of the run. */
  readonly parent?: string;
  readonly name: string;
  /** `client`: a request that this side sent. */
  readonly kind: "internal" | "client";
  readonly start: number;
  readonly end: number;
  readonly attributes: Readonly<Record<string, Attribute>>;
  /** Why it failed; absent: it did not. */
  readonly error?: string;
  readonly events?: readonly SpanEvent[];
}

interface SpanEvent {
  readonly name: string;
  readonly at: number;
  readonly attributes: Readonly<Record<string, Attribute>>;
}

/** Statuses of a run in the conventions for tests. */
const suiteStatus: Readonly<Record<RunResult["verdict"], string>> = {
  pass: "success",
  fail: "failure",
  incomplete: "aborted",
  interrupted: "aborted",
};

export const runKey = "run";

/** The span of a whole run, which is the root of its trace, given when the first of its trials began and the last ended: an imported session is older than its run. */
export function runSpan(result: RunResult, trials: { readonly start: number; readonly end: number }): Span {
  const { id, name, startedAt, durationMs, verdict } = result;
  const start = Date.parse(startedAt);
  return {
    key: runKey,
    name: `run ${name}`,
    kind: "internal",
    start: Math.min(start, trials.start),
    end: Math.max(start + durationMs, trials.end),
    attributes: {
      "test.suite.name": name,
      "test.suite.run.status": suiteStatus[verdict],
      "mcpvals.run.id": id,
      "mcpvals.verdict": verdict,
    },
    ...(verdict === "pass" ? {} : { error: `the run ended with ${verdict}` }),
  };
}

/** What spans of a trial have besides. */
export interface SpanOptions {
  /** Whether arguments and results of tools are attributes: they may be sensitive, and long. */
  readonly content: boolean;
}

/** The spans of one trial: its own, those of its agent and steps, of requests to models and of requests to servers. */
export function trialSpans(
  trajectory: Trajectory,
  result: TrialResult,
  { content }: SpanOptions,
): readonly Span[] {
  const { trial, events } = trajectory;
  const [first, last] = [events[0], events.at(-1)];
  if (first === undefined || last === undefined) return [];
  const key = `trial ${trial.id}`;
  const steps = withInner(trajectory.steps).flatMap((step) => stepSpans(step, { key, until: last.at }));
  const agent = agentSpan(trajectory, key, last.at);
  const own: Span = {
    key,
    parent: runKey,
    name: `trial ${trial.task}`,
    kind: "internal",
    start: first.at,
    end: last.at,
    attributes: withoutUndefined({
      "test.case.name": trial.task,
      "test.case.result.status": statusOf(result.verdict),
      "mcpvals.trial.id": trial.id,
      "mcpvals.attempt": trial.attempt,
      "mcpvals.variant": trial.variant,
      "mcpvals.verdict": result.verdict,
      "mcpvals.score": result.score ?? undefined,
      "error.type": result.error?.code,
    }),
    ...(result.verdict === "pass" || result.verdict === "skip"
      ? {}
      : {
          error:
            result.error?.message ?? result.grades.find(({ verdict }) => verdict === "fail")?.reason ?? "",
        }),
    events: result.grades.map((grade) => ({
      name: "gen_ai.evaluation.result",
      at: last.at,
      attributes: withoutUndefined({
        "gen_ai.evaluation.name": grade.grader,
        "gen_ai.evaluation.score.value": grade.score ?? undefined,
        "gen_ai.evaluation.score.label": grade.verdict,
        "gen_ai.evaluation.explanation": grade.reason,
      }),
    })),
  };
  const agentKey = agent?.key ?? key;
  return [
    own,
    ...(agent === undefined ? [] : [agent]),
    ...steps,
    ...modelSpans(trajectory, { agentKey, key }),
    ...toolSpans(trajectory, { agentKey, content }),
    ...trajectory.exchanges.map((exchange) =>
      requestSpan(trajectory, exchange, {
        parent: parentOf(exchange, agentKey, key),
        content,
        until: last.at,
      }),
    ),
  ];
}

/** The conventions have no more than these two. */
function statusOf(verdict: Verdict): string | undefined {
  return verdict === "pass" || verdict === "fail" ? verdict : undefined;
}

function agentSpan({ trial, events, usage }: Trajectory, parent: string, until: number): Span | undefined {
  const started = events.find((event) => event.type === "agent.started");
  if (started === undefined) return undefined;
  const phase = { started: started.at, finished: until };
  for (const event of events) {
    if (event.type === "phase.started" && event.phase === "agent") phase.started = event.at;
    if (event.type === "phase.finished" && event.phase === "agent") phase.finished = event.at;
  }
  return {
    key: `agent ${trial.id}`,
    parent,
    name: `invoke_agent ${started.agent}`,
    kind: "internal",
    start: phase.started,
    end: phase.finished,
    attributes: withoutUndefined({
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": started.agent,
      "gen_ai.request.model": started.model,
      "gen_ai.usage.input_tokens": usage?.inputTokens,
      "gen_ai.usage.output_tokens": usage?.outputTokens,
    }),
  };
}

function stepSpans(
  { attempts }: StepRun,
  { key, until }: { readonly key: string; readonly until: number },
): readonly Span[] {
  return attempts.map(({ started, finished }) => {
    const failed = finished?.error?.message ?? finished?.checks.find(({ passed }) => !passed)?.message;
    return {
      key: `${key} step ${started.seq}`,
      parent: key,
      name: `step ${started.name ?? started.stepType}`,
      kind: "internal",
      start: started.at,
      end: finished?.at ?? until,
      attributes: withoutUndefined({
        "mcpvals.step.type": started.stepType,
        "mcpvals.step.outcome": finished?.outcome,
      }),
      ...(failed === undefined ? {} : { error: failed }),
    };
  });
}

/** Providers by the conventions' names; others have their own. */
const providers: Readonly<Record<string, string>> = {
  google: "gcp.gemini",
  vertex: "gcp.vertex_ai",
  azure: "azure.ai.openai",
  bedrock: "aws.bedrock",
};

function modelSpans(
  { events }: Trajectory,
  { agentKey, key }: { readonly agentKey: string; readonly key: string },
): readonly Span[] {
  return eventsOf(events, "model.called").map(
    ({ seq, at, model, purpose, durationMs, firstTokenMs, ...rest }) => {
      const { usage, finishReason } = rest;
      const [provider = "", ...name] = model.split("/");
      return {
        key: `${key} model ${seq}`,
        parent: purpose === "agent" ? agentKey : key,
        name: `chat ${name.join("/") || model}`,
        kind: "client",
        start: at - durationMs,
        end: at,
        attributes: withoutUndefined({
          "gen_ai.operation.name": "chat",
          "gen_ai.provider.name": name.length === 0 ? "openai" : (providers[provider] ?? provider),
          "gen_ai.request.model": name.join("/") || model,
          "gen_ai.request.stream": firstTokenMs === undefined ? undefined : true,
          "gen_ai.response.time_to_first_chunk": firstTokenMs === undefined ? undefined : firstTokenMs / 1000,
          "gen_ai.response.finish_reasons": [finishReason],
          "gen_ai.usage.input_tokens": usage.inputTokens,
          "gen_ai.usage.output_tokens": usage.outputTokens,
          "gen_ai.usage.cache_read.input_tokens": usage.cacheReadTokens,
          "gen_ai.usage.cache_creation.input_tokens": usage.cacheWriteTokens,
          "mcpvals.purpose": purpose,
        }),
      };
    },
  );
}

/** Tools that only the agent reports: its own ones, and those of servers in a transcript. */
function toolSpans(
  trajectory: Trajectory,
  { agentKey, content }: SpanOptions & { readonly agentKey: string },
): readonly Span[] {
  return agentActs(trajectory)
    .filter(({ call, type }) => call === undefined && type === "tool")
    .map(({ target, seq, at, args, failure, durationMs = 0 }) => ({
      key: `trial ${trajectory.trial.id} tool ${seq}`,
      parent: agentKey,
      name: `execute_tool ${target}`,
      kind: "internal",
      start: at,
      end: at + durationMs,
      attributes: {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": target,
        ...(failure === undefined ? {} : { "error.type": "tool_error" }),
        ...(content ? { "gen_ai.tool.call.arguments": JSON.stringify(args) } : {}),
      },
      ...(failure === undefined ? {} : { error: failure }),
    }));
}

function parentOf({ byAgent, place }: Exchange, agentKey: string, key: string): string {
  if (place.attempt !== undefined) return `${key} step ${place.attempt.started.seq}`;
  return byAgent ? agentKey : key;
}

interface RequestOptions extends SpanOptions {
  readonly parent: string;
  readonly until: number;
}

function requestSpan(
  { trial, events }: Trajectory,
  exchange: Exchange,
  { parent, content, until }: RequestOptions,
): Span {
  const { request, params, answer, cancelled } = exchange;
  const { id } = request.message;
  // A message without a method is no request.
  const method = textOf(request.message["method"]) ?? "";
  const target = method === "tools/call" || method === "prompts/get" ? textOf(params["name"]) : undefined;
  const isTool = method === "tools/call";
  const outcome = outcomeOf(exchange);
  const code = outcome.error?.code;
  const failed = hasFailed(outcome);
  const type = !failed
    ? undefined
    : code !== undefined
      ? String(code)
      : cancelled !== undefined
        ? "timeout"
        : outcome.error === undefined
          ? "tool_error"
          : "_OTHER";
  const server = eventsOf(events, "server.started").find((event) => event.server === request.server);
  const ready = eventsOf(events, "server.ready").find((event) => event.server === request.server);
  return {
    key: `trial ${trial.id} request ${request.seq}`,
    parent,
    name: target === undefined ? method : `${method} ${target}`,
    kind: "client",
    start: request.at,
    end: answer?.at ?? cancelled?.at ?? until,
    attributes: withoutUndefined({
      "mcp.method.name": method,
      "jsonrpc.request.id": typeof id === "string" || typeof id === "number" ? String(id) : undefined,
      "gen_ai.operation.name": isTool ? "execute_tool" : undefined,
      "gen_ai.tool.name": isTool ? target : undefined,
      "gen_ai.prompt.name": method === "prompts/get" ? target : undefined,
      "mcp.resource.uri": method === "resources/read" ? textOf(params["uri"]) : undefined,
      "mcp.protocol.version": ready?.protocolVersion,
      "error.type": type,
      "rpc.response.status_code": code === undefined ? undefined : String(code),
      "mcpvals.server": request.server,
      ...addressOf(server),
      ...(content && isTool ? contentOf(params, outcome.result) : {}),
    }),
    ...(failed ? { error: outcome.error?.message ?? "" } : {}),
  };
}

function contentOf(params: JsonObject, result: JsonObject | undefined): Readonly<Record<string, string>> {
  return {
    "gen_ai.tool.call.arguments": JSON.stringify(params["arguments"] ?? {}),
    ...(result === undefined ? {} : { "gen_ai.tool.call.result": JSON.stringify(result) }),
  };
}

function addressOf(
  server: { readonly transport: string; readonly target: string } | undefined,
): Readonly<Record<string, Attribute>> {
  if (server === undefined || server.transport === "mock") return {};
  if (server.transport === "stdio") return { "network.transport": "pipe" };
  const url = URL.parse(server.target);
  if (url === null) return {};
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  return {
    "network.transport": "tcp",
    "network.protocol.name": "http",
    "server.address": url.hostname,
    "server.port": port,
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
