import { isJsonObject, type Json, type JsonObject, withoutUndefined } from "../base/json.ts";
import { version } from "../base/version.ts";
import { resultText } from "../expect/tool-result.ts";
import type { AgentSummary } from "../model/agent.ts";
import {
  atifExtra,
  type AtifRecord,
  type AtifStep,
  type AtifTrajectory,
  atifVersion,
} from "../model/atif.ts";
import { type EventOf, eventsOf, type TraceEvent } from "../model/event.ts";
import type { Usage } from "../model/grade.ts";
import type { TrialResult } from "../model/result.ts";
import { type AgentAct, agentActs, toMicroseconds, toolsForAgent } from "../trace/agent-acts.ts";
import type { Trajectory } from "../trace/trajectory.ts";
import { hashOfSteps } from "../agents/transcripts/atif.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type ToolCall = NonNullable<AtifStep["tool_calls"]>[number];
type Result = NonNullable<AtifStep["observation"]>["results"][number];
type OpenStep = Mutable<AtifStep> & { calls: ToolCall[]; results: Result[] };

export interface AtifOptions {
  /** Id of the run. */
  readonly run: string;
  readonly agent: AgentSummary;
  readonly result: TrialResult;
}

/**
 * A trial of an agent as a trajectory of ATIF. Its `extra` has all that is on record, since the format has no place for messages, servers, failures and steps.
 */
export function atifOf(trajectory: Trajectory, { run, agent, result }: AtifOptions): AtifTrajectory {
  const { trial, task, events } = trajectory;
  const steps = stepsOf(trajectory, result);
  const end = events.findLastIndex(({ type }) => type === "trial.finished");
  const record: AtifRecord = {
    format: "mcpvals.atif/1",
    steps: hashOfSteps(steps),
    run,
    trial,
    agent,
    task,
    events: end === -1 ? events : events.slice(0, end + 1),
    verdict: result.verdict,
    score: result.score,
    grades: result.grades,
  };
  const tools = toolsForAgent(trajectory);
  return withoutUndefined({
    schema_version: atifVersion,
    session_id: run,
    trajectory_id: `${run}/${trial.id}`,
    agent: withoutUndefined({
      name: agent.name,
      ...programOf(trajectory, agent),
      tool_definitions:
        tools.length === 0 ? undefined : tools.map(({ definition }) => definitionOf(definition)),
    }),
    steps,
    final_metrics: { ...totalsOf(trajectory.usage), total_steps: steps.length },
    extra: { [atifExtra]: record as unknown as Json },
  });
}

/** The version and the model of an agent; the format wants a version. */
function programOf(
  { events }: Trajectory,
  { type, model }: AgentSummary,
): Pick<AtifTrajectory["agent"], "version" | "model_name"> {
  const started = events.find((event) => event.type === "agent.started");
  const told = eventsOf(events, "agent.reported");
  const isProgram = type === "acp" || type === "command" || type === "transcript";
  const program = [started?.program, ...told.map((each) => each.program)].find((each) => each !== undefined);
  const known = isProgram ? /\s(\S+)$/.exec(program ?? "")?.[1] : version;
  const models = told.flatMap((each) => each.model ?? []);
  return withoutUndefined({
    version: known ?? "unknown",
    model_name: model ?? started?.model ?? models[0],
  });
}

/** As OpenAI's API has a tool, which is what the format wants. */
function definitionOf(tool: JsonObject): JsonObject {
  const { name = "", description, inputSchema: parameters } = tool;
  return { type: "function", function: withoutUndefined({ name, description, parameters }) };
}

/** What happens in a step, in the order of the events. */
type Item =
  | { readonly seq: number; readonly act: AgentAct }
  | {
      readonly seq: number;
      readonly event: EventOf<"turn.started"> | EventOf<"model.called"> | EventOf<"agent.message">;
    };

function stepsOf(trajectory: Trajectory, { error }: TrialResult): AtifTrajectory["steps"] {
  const items: Item[] = [
    ...trajectory.events.flatMap((event) => (isOfStep(event) ? [{ seq: event.seq, event }] : [])),
    ...agentActs(trajectory).flatMap((act) => (act.type === "tool" ? [{ seq: act.seq, act }] : [])),
  ];
  items.sort((a, b) => a.seq - b.seq);
  const kind = trajectory.events.find((event) => event.type === "agent.started")?.kind ?? "";
  // These play what is written.
  const isWritten = ["scripted", "oracle", "null"].includes(kind);
  const steps: OpenStep[] = [];
  const begin = (source: AtifStep["source"], at: number): OpenStep => {
    const step: OpenStep = {
      step_id: steps.length + 1,
      timestamp: new Date(at).toISOString(),
      source,
      message: "",
      ...(isWritten && source === "agent" ? { llm_call_count: 0 } : {}),
      calls: [],
      results: [],
    };
    steps.push(step);
    return step;
  };
  for (const item of items) {
    const last = steps.at(-1);
    const open = last?.source === "agent" ? last : undefined;
    if ("act" in item) {
      const step = open ?? begin("agent", item.act.at);
      // In a step each id is there once.
      step.calls.push(callOf(item.act));
      step.results.push(...resultsOf(item.act, trajectory));
      continue;
    }
    const { event } = item;
    if (event.type === "turn.started") begin("user", event.at).message = event.user;
    else if (event.type === "model.called")
      Object.assign(begin("agent", event.at), {
        model_name: event.model,
        metrics: metricsOf(event.usage),
        llm_call_count: 1,
      });
    else {
      // What is said after calls, or after other words, is the next answer.
      const isNew = open === undefined || open.message !== "" || open.calls.length > 0;
      (isNew ? begin("agent", event.at) : open).message = event.text;
    }
  }
  if (steps.length === 0)
    begin("system", trajectory.events[0]?.at ?? 0).message =
      `The agent did nothing: ${error?.message ?? "the trial was cut off"}`;
  return steps.map(({ calls, results, ...step }) =>
    withoutUndefined({
      ...step,
      tool_calls: calls.length === 0 ? undefined : calls,
      observation: results.length === 0 ? undefined : { results },
    }),
  );
}

function isOfStep(
  event: TraceEvent,
): event is EventOf<"turn.started"> | EventOf<"model.called"> | EventOf<"agent.message"> {
  if (event.type === "model.called") return event.purpose === "agent";
  return event.type === "turn.started" || event.type === "agent.message";
}

function idOf({ seq, report }: AgentAct): string {
  return report?.callId ?? `call-${seq}`;
}

function callOf(act: AgentAct): ToolCall {
  const { args, server, target, report } = act;
  return withoutUndefined({
    tool_call_id: idOf(act),
    function_name: report?.name ?? target,
    arguments: isJsonObject(args) ? args : { value: args },
    extra: server === undefined ? undefined : { [atifExtra]: { server, tool: target } },
  });
}

function resultsOf(act: AgentAct, { transcript }: Trajectory): readonly Result[] {
  const { result, failure, durationMs, call, report } = act;
  // A use without an end has none.
  if (result === undefined && failure === undefined && report?.status !== "completed") return [];
  const isError = transcript?.failuresUnknown === true ? undefined : failure !== undefined;
  const known = withoutUndefined({
    isError,
    durationMs: durationMs === undefined ? undefined : toMicroseconds(durationMs),
  });
  return [
    {
      source_call_id: idOf(act),
      content: textOf(result, { isOfServer: call !== undefined }) ?? failure ?? "",
      ...(Object.keys(known).length === 0 ? {} : { extra: { [atifExtra]: known } }),
    },
  ];
}

/** The text of a result: what a server gives has its own form, what an agent reports may have any. */
function textOf(
  result: Json | undefined,
  { isOfServer }: { readonly isOfServer: boolean },
): string | undefined {
  if (result === undefined || typeof result === "string") return result;
  const isToolResult = isJsonObject(result) && Array.isArray(result["content"]);
  return isJsonObject(result) && (isOfServer || isToolResult) ? resultText(result) : JSON.stringify(result);
}

/** Only what is known whole. */
function metricsOf(usage: Usage): AtifStep["metrics"] {
  const { inputTokens, outputTokens, cacheReadTokens, isPartial } = usage;
  if (isPartial === true) return undefined;
  return withoutUndefined({
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    cached_tokens: cacheReadTokens,
    cost_usd: dollarsOf(usage),
  });
}

function totalsOf(usage: Usage | undefined): AtifTrajectory["final_metrics"] {
  const { prompt_tokens, completion_tokens, cached_tokens, cost_usd } =
    (usage === undefined ? undefined : metricsOf(usage)) ?? {};
  return withoutUndefined({
    total_prompt_tokens: prompt_tokens,
    total_completion_tokens: completion_tokens,
    total_cached_tokens: cached_tokens,
    total_cost_usd: cost_usd,
  });
}

function dollarsOf({ cost }: Usage): number | undefined {
  return cost?.currency === "USD" && cost.isPartial !== true ? cost.amount : undefined;
}
