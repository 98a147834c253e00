import * as z from "zod";
import { agentSchema, namedAgentSchema } from "../config/agent.ts";
import type { JsonObject } from "../json.ts";
import { anyObject, closedObject, filledText, nameKey } from "../config/config-fields.ts";
import { lifetimeSchema, mcpMockSchema } from "../config/server.ts";
import { wazaGraderSchema } from "./waza-graders.ts";

/** What is refused by name where it says something: why, and what to write instead. */
function refused(why: string, hint: string): z.ZodOptional<z.ZodUnknown> {
  return z.unknown().optional().meta({ refused: { why, hint } });
}
const ofTask = refused("agents get the skills of the eval", "Write it in config of the eval.");
/** Settings of a type of grader, read apart. */
function settingsOf(type: string): z.ZodOptional<z.ZodType<JsonObject>> {
  return anyObject.optional().meta({ settingsOf: type });
}
/** A table of servers, read apart. */
const servers = z.unknown().optional().meta({ servers: true });
/** A version is a text; YAML makes a number of `1.0`. */
const version = z.union([z.string(), z.number()]).optional();
/** Parses to milliseconds. */
const seconds = z
  .number()
  .positive()
  .max(2_000_000)
  .transform((value) => Math.ceil(value * 1000))
  .describe("Seconds.");
const names = z.array(filledText).default([]);
const texts = z.array(filledText).min(1).optional();
const workers = z.int().min(1).max(1024).optional();

const config = closedObject({
  trials_per_task: z.int().min(1).max(10_000).default(1),
  timeout_seconds: seconds.optional(),
  executor: z.enum(["copilot-sdk", "mock"]).optional(),
  model: filledText.optional(),
  parallel: z.boolean().default(false),
  max_workers: workers,
  workers,
  fail_fast: z.boolean().default(false),
  max_attempts: z.int().min(1).default(1),
  group_by: z.literal("model").optional(),
  judge_model: filledText.optional(),
  skill_directories: names,
  required_skills: names,
  mcp_servers: servers,
  mcp_server_lifetime: lifetimeSchema.optional(),
});

const metric = closedObject({
  name: filledText,
  weight: z.number().positive().max(1e6).default(1),
  threshold: z.number().min(0).max(1).optional(),
  description: z.string().optional(),
  enabled: z.boolean().default(true),
});

const variant = closedObject({ description: z.string().optional(), mcp_servers: servers });

/** A command around something; it runs in the shell. */
const hook = closedObject({
  command: filledText,
  working_directory: filledText.optional(),
  exit_codes: z.array(z.int().min(0).max(255)).min(1).default([0]),
  error_on_fail: z.boolean().default(false),
});

const hooks = z.array(hook).default([]);
const place = z.int().min(1);

/** An `eval.yaml` of waza: every key that it has, those that are refused too. */
export const wazaEvalSchema = closedObject({
  $schema: z.string().optional(),
  name: filledText.optional(),
  description: z.string().optional(),
  skill: z.string().optional(),
  version,
  config: config.prefault({}),
  mcp_servers: servers,
  metrics: z.array(metric).default([]),
  tasks: names,
  graders: z.array(wazaGraderSchema).default([]),
  hooks: closedObject({
    before_run: hooks,
    after_run: hooks,
    before_task: hooks,
    after_task: hooks,
  }).prefault({}),
  inputs: z.record(filledText, z.union([z.string(), z.number(), z.boolean()]).transform(String)).default({}),
  tasks_from: filledText.optional(),
  range: z.tuple([place, place]).optional(),
  baseline: z.boolean().default(false),
  mcp_mocks: z.array(mcpMockSchema).default([]),
  variants: z.record(nameKey, variant).optional(),
  agent: agentSchema.optional(),
  agents: z.record(nameKey, namedAgentSchema).default({}),
});

const file = closedObject({ path: filledText, content: z.string().optional() });

/** A task file of waza. */
export const wazaTaskSchema = closedObject({
  $schema: z.string().optional(),
  id: filledText,
  name: filledText.optional(),
  description: z.string().optional(),
  enabled: z.boolean().default(true),
  tags: names,
  context_dir: filledText.optional(),
  timeout_seconds: seconds.optional(),
  inputs: closedObject({
    prompt: filledText,
    files: z.array(file).default([]),
    context: refused(
      "no agent takes anything but the prompt",
      "Write it in the prompt, or in a file of inputs.files.",
    ),
    environment: refused(
      "the task starts no program of its own that could get it",
      "Write it as env of a server in mcp_servers of the task, or of the agent.",
    ),
  }),
  expected: closedObject({
    outcomes: refused(
      "nothing says how an outcome is recognised",
      "Write it as output_contains, tool_calls or a grader.",
    ),
    tool_calls: settingsOf("tool_calls"),
    behavior: settingsOf("behavior"),
    output_contains: texts,
    output_contains_any: texts,
    output_not_contains: texts,
    should_trigger: z.boolean().optional(),
  }).prefault({}),
  graders: z.array(wazaGraderSchema).default([]),
  mcp_servers: servers,
  skill_directories: ofTask,
  required_skills: ofTask,
});

export type ParsedWazaEval = z.output<typeof wazaEvalSchema>;
export type ParsedWazaTask = z.output<typeof wazaTaskSchema>;
