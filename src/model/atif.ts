import * as z from "zod";
import type { ReadonlyDeep } from "../base/json.ts";
import { agentSummarySchema } from "./agent.ts";
import { traceEventSchema } from "./event-schema.ts";
import type { TraceEvent } from "./event.ts";
import { json, jsonObject, milliseconds, text } from "./fields.ts";
import { gradeSchema, verdictSchema } from "./grade.ts";
import { planModel } from "./plan.ts";
import { taskModel } from "./task.ts";

// The Agent Trajectory Interchange Format of the Harbor framework (its RFC 0001): one JSON document for each trajectory. Versions only add members, so that members
// that are not known here are left out.

/** The version that is written, and the newest one that is known. */
export const atifMinor = 7;
export const atifVersion = `ATIF-v1.${atifMinor}`;

/** The member of each `extra` that is ours. */
export const atifExtra = "mcpvals";

const extra = jsonObject.nullish();
const count = z.int().min(0).nullish();
const content = z.union([text, z.array(z.object({ type: text, text: text.nullish() }))]);

const toolCall = z.object({
  tool_call_id: text,
  function_name: text,
  arguments: jsonObject,
  extra,
});

const result = z.object({
  source_call_id: text.nullish(),
  content: content.nullish(),
  subagent_trajectory_ref: z.array(z.object({ trajectory_id: text.nullish() })).nullish(),
  extra,
});

const metrics = z.object({
  prompt_tokens: count,
  completion_tokens: count,
  cached_tokens: count,
  cost_usd: z.number().min(0).nullish(),
});

const step = z.object({
  step_id: z.int().min(1),
  timestamp: text.nullish(),
  source: z.enum(["system", "user", "agent"]),
  model_name: text.nullish(),
  message: content,
  tool_calls: z.array(toolCall).nullish(),
  observation: z.object({ results: z.array(result) }).nullish(),
  metrics: metrics.nullish(),
  is_copied_context: z.boolean().nullish(),
  llm_call_count: count,
});

/** A trajectory, whoever wrote it. */
export const atifSchema = z.object({
  schema_version: text,
  session_id: text.nullish(),
  trajectory_id: text.nullish(),
  agent: z.object({
    name: text,
    version: text,
    model_name: text.nullish(),
    tool_definitions: z.array(json).nullish(),
  }),
  steps: z.array(step).min(1),
  final_metrics: z
    .object({
      total_prompt_tokens: count,
      total_completion_tokens: count,
      total_cached_tokens: count,
      total_cost_usd: z.number().min(0).nullish(),
      total_steps: count,
    })
    .nullish(),
  continued_trajectory_ref: text.nullish(),
  get subagent_trajectories() {
    return z.array(atifSchema).nullish();
  },
  extra,
});

export type AtifTrajectory = ReadonlyDeep<z.output<typeof atifSchema>>;
export type AtifStep = AtifTrajectory["steps"][number];

/** In `extra` of a call: whose tool it is. */
export const atifCallExtra = z.object({ server: text, tool: text });

/** In `extra` of a result. */
export const atifResultExtra = z.object({
  /** Absent: unknown. */
  isError: z.boolean().nullish(),
  durationMs: milliseconds.nullish(),
});

/** In `extra` of a trajectory: all that mcpvals has on record, with which the trial is graded as it was. */
export const atifRecordSchema = z.strictObject({
  format: z.literal("mcpvals.atif/1"),
  /** The hash of the steps: where they were changed since, this is not the record of them. */
  steps: text,
  run: text,
  trial: planModel.shape.trials.element,
  agent: agentSummarySchema,
  task: taskModel,
  events: z.array(traceEventSchema as unknown as z.ZodType<TraceEvent>),
  verdict: verdictSchema,
  score: z.number().min(0).max(1).nullable(),
  grades: z.array(gradeSchema),
});

export type AtifRecord = ReadonlyDeep<z.output<typeof atifRecordSchema>>;
