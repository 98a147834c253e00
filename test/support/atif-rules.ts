import * as z from "zod";

// The rules of ATIF v1.7 as its RFC and its models give them, apart from what mcpvals reads: no other members, numbers of steps without gaps, members of agents only on
// their steps, results that name a call of their step.

const extra = z.record(z.string(), z.unknown()).optional();
const count = z.int().min(0).optional();
const content = z.union([z.string(), z.array(z.strictObject({ type: z.literal("text"), text: z.string() }))]);

const step = z
  .strictObject({
    step_id: z.int().min(1),
    timestamp: z.iso.datetime({ offset: true }).optional(),
    source: z.enum(["system", "user", "agent"]),
    model_name: z.string().optional(),
    reasoning_effort: z.union([z.string(), z.number()]).optional(),
    message: content,
    reasoning_content: z.string().optional(),
    tool_calls: z
      .array(
        z.strictObject({
          tool_call_id: z.string(),
          function_name: z.string(),
          arguments: z.record(z.string(), z.unknown()),
          extra,
        }),
      )
      .optional(),
    observation: z
      .strictObject({
        results: z.array(
          z.strictObject({
            source_call_id: z.string().optional(),
            content: content.optional(),
            subagent_trajectory_ref: z.array(z.unknown()).optional(),
            extra,
          }),
        ),
      })
      .optional(),
    metrics: z
      .strictObject({
        prompt_tokens: count,
        completion_tokens: count,
        cached_tokens: count,
        cost_usd: z.number().optional(),
        extra,
      })
      .optional(),
    is_copied_context: z.boolean().optional(),
    llm_call_count: count,
    extra,
  })
  .superRefine((each, context) => {
    const ofAgents = [
      "model_name",
      "reasoning_effort",
      "reasoning_content",
      "tool_calls",
      "metrics",
    ] as const;
    const ofModels = ["metrics", "reasoning_content", "model_name", "reasoning_effort"] as const;
    for (const key of each.source === "agent" ? [] : ofAgents)
      if (each[key] !== undefined) context.addIssue(`${key} on a step of ${each.source}`);
    for (const key of each.llm_call_count === 0 ? ofModels : [])
      if (each[key] !== undefined) context.addIssue(`${key} without a call of a model`);
    const ids = (each.tool_calls ?? []).map(({ tool_call_id: id }) => id);
    if (new Set(ids).size < ids.length) context.addIssue("two calls have one id");
    for (const { source_call_id: id } of each.observation?.results ?? [])
      if (id !== undefined && !ids.includes(id)) context.addIssue(`no call of the step has the id ${id}`);
  });

/** A trajectory of ATIF v1.7, as strict as its own models are. */
export const strictTrajectory = z.strictObject({
  schema_version: z.literal("ATIF-v1.7"),
  session_id: z.string().optional(),
  trajectory_id: z.string().optional(),
  agent: z.strictObject({
    name: z.string(),
    version: z.string(),
    model_name: z.string().optional(),
    tool_definitions: z
      .array(
        z.strictObject({
          type: z.literal("function"),
          function: z.strictObject({
            name: z.string(),
            description: z.string().optional(),
            parameters: z.record(z.string(), z.unknown()).optional(),
          }),
        }),
      )
      .optional(),
    extra,
  }),
  steps: z
    .array(step)
    .min(1)
    .refine((steps) => steps.every(({ step_id: id }, index) => id === index + 1), "a gap in the numbers"),
  notes: z.string().optional(),
  final_metrics: z
    .strictObject({
      total_prompt_tokens: count,
      total_completion_tokens: count,
      total_cached_tokens: count,
      total_cost_usd: z.number().optional(),
      total_steps: count,
      extra,
    })
    .optional(),
  continued_trajectory_ref: z.string().optional(),
  extra,
});
