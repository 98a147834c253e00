import * as z from "zod";
import { agentSchema, namedAgentSchema } from "../config/agent.ts";
import { anyObject, closedObject, filledText, nameKey } from "../config/config-fields.ts";
import { graderSchema } from "../graders.ts";
import { lifetimeSchema, mcpMockSchema } from "../config/server.ts";

/** What is refused by name where it says something. */
const refused = z.unknown().optional().meta({ refused: true });
/** What may be there and has no effect. */
const anything = z.unknown().optional();
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

/** A grader, whatever its type. */
const grader = closedObject({
  ...graderSchema.shape,
  script: refused,
  rubric: refused,
  model: refused,
  assertions: refused,
});

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
  group_by: filledText.optional(),
  judge_model: filledText.optional(),
  skill_directories: refused,
  required_skills: refused,
  mcp_servers: servers,
  mcp_server_lifetime: lifetimeSchema.optional(),
});

const metric = closedObject({
  name: filledText,
  weight: z.number().optional(),
  threshold: z.number().optional(),
  description: z.string().optional(),
  enabled: z.boolean().default(true),
});

const variant = closedObject({ description: z.string().optional(), mcp_servers: servers });

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
  graders: z.array(grader).default([]),
  hooks: refused,
  inputs: anything,
  tasks_from: refused,
  range: refused,
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
    context: anything,
    environment: anything,
  }),
  expected: closedObject({
    outcomes: refused,
    tool_calls: anyObject.optional(),
    behavior: anyObject.optional(),
    output_contains: texts,
    output_contains_any: texts,
    output_not_contains: texts,
    should_trigger: refused,
  }).prefault({}),
  graders: z.array(grader).default([]),
  mcp_servers: servers,
  skill_directories: refused,
  required_skills: refused,
});

export type ParsedWazaEval = z.output<typeof wazaEvalSchema>;
export type ParsedWazaTask = z.output<typeof wazaTaskSchema>;
