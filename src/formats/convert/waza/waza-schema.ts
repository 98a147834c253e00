import * as z from "zod";
import { agentSchema, namedAgentSchema } from "../../../agents/declared-agents.ts";
import {
  asObject,
  asText,
  isJsonObject,
  type Json,
  type JsonObject,
  type KeyPath,
  withoutUndefined,
} from "../../../base/json.ts";
import { anyObject, closedObject, duration, filledText, nameKey } from "../../../model/fields.ts";
import {
  graderReader,
  graderSchema,
  type GraderTypes,
  type ParsedGrader,
} from "../../../graders/declared.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { GraderSpec } from "../../../model/task.ts";
import { mcpMockSchema, wazaLifetime } from "./mcp-servers.ts";

/** Settings that may stand beside `config`; `file` is called `script` there. */
export const settingsBeside: readonly string[] = ["file", "rubric", "model", "assertions"];

/** A grader, whatever its type. */
export const wazaGraderSchema = closedObject({
  ...graderSchema.shape,
  script: filledText.optional().describe("The `file` of a `script`."),
  rubric: filledText.optional().describe("The `rubric` of a `prompt`."),
  model: filledText.optional().describe("The `model` of a `prompt`."),
  assertions: z.array(filledText).optional().describe("The `assertions` of `code`."),
}).meta({ id: "WazaGrader", title: "Grader", description: "A look at every trial of a task." });

/** How the settings of a type of grader are written in another way than its schema says. */
interface Difference {
  /** The settings as they may be written here. */
  readonly settings: z.ZodRawShape;
  readonly convert: (config: JsonObject, note: (message: string) => void) => JsonObject;
}

const timeout = z
  .union([z.number().positive().describe("Seconds."), duration])
  .optional()
  .describe("How long it may take: seconds, or a text with a unit.");

/** The types whose settings differ. */
export const differences: Readonly<Record<string, Difference>> = {
  program: {
    settings: {
      timeout,
      input: z.enum(["output", "trajectory"]).default("output"),
      workspace: z.array(filledText).default(["**"]),
    },
    // That tool gives the program what the agent said, and its workspace.
    convert: (config) => ({ input: "output", workspace: ["**"], ...config, ...inSeconds(config) }),
  },
  behavior: {
    settings: {
      max_response_time_ms: z.number().positive().optional().describe("The same as `max_duration_ms`."),
    },
    convert: ({ max_response_time_ms: longest, ...config }) =>
      longest === undefined ? config : { max_duration_ms: longest, ...config },
  },
  code: { settings: { timeout }, convert: (config) => ({ ...config, ...inSeconds(config) }) },
  prompt: {
    settings: {
      mode: z.enum(["independent", "pointwise", "pairwise"]).default("independent"),
      continue_session: z
        .literal(false)
        .optional()
        .describe("A judge never goes on with the agent's session."),
    },
    convert({ continue_session, ...config }) {
      const mode = config["mode"] === "independent" ? { mode: "pointwise" } : {};
      return { ...config, ...mode, ...(continue_session === true ? { continue_session } : {}) };
    },
  },
  trigger: {
    settings: {
      skill_path: filledText.optional().describe("Folder of the skill, or its SKILL.md: names the skill."),
      threshold: z.number().optional().describe("Has no effect."),
    },
    convert({ skill_path: path, threshold, ...config }, note) {
      if (threshold !== undefined)
        note("threshold has no effect: what a prompt triggers is recorded, not estimated");
      if (typeof path !== "string") return config;
      return { skill: path.replace(/\/?(?:SKILL\.md)?$/, "").replace(/^.*\//, ""), ...config };
    },
  },
};

/** Reads graders; one without a name has its type's, or its type's with a number. */
export function readGraders(
  declared: readonly z.output<typeof wazaGraderSchema>[],
  taken: readonly GraderSpec[],
  types: GraderTypes,
  reader: LenientReader,
): readonly GraderSpec[] {
  const names = new Set([...taken, ...declared].map(({ name }) => name));
  const graders = declared.map(({ script, rubric, model, assertions, ...grader }, index): ParsedGrader => {
    const { type, name = unusedName(type, names) } = grader;
    const beside = withoutUndefined({ file: script, rubric, model, assertions });
    const path = ["graders", index, "config"];
    return { ...grader, name, config: readConfig(type, { ...grader.config, ...beside }, path, reader) };
  });
  const read = graderReader(types, (found) => {
    const [, index, key] = found.path;
    const { type = "" } = key === "type" ? (declared[Number(index)] ?? {}) : {};
    const hint = Object.hasOwn(otherTypes, type) ? otherTypes[type] : found.hint;
    reader.problem(withoutUndefined({ ...found, hint }));
  });
  return read(graders, ["graders"], taken);
}

/** Settings of a type as its schema has them. */
export function readConfig(
  type: string,
  config: JsonObject,
  path: KeyPath,
  reader: LenientReader,
): JsonObject {
  const read = readCalls(config, path, reader);
  const difference = Object.hasOwn(differences, type) ? differences[type] : undefined;
  return difference?.convert(read, (message) => reader.note(message, path)) ?? read;
}

function inSeconds({ timeout }: JsonObject): JsonObject {
  return typeof timeout === "number" ? { timeout: `${timeout}s` } : {};
}

/** Types of that tool, or of its documentation, that no grader has, and what to use instead. */
const otherTypes: Readonly<Record<string, string>> = {
  human: "No one is asked during a run; use a grader of type prompt.",
  human_calibration: "No one is asked during a run; use mcpvals judge calibrate.",
  llm: "Use a grader of type prompt.",
  llm_comparison: "Use a grader of type prompt.",
};

function unusedName(type: string, names: Set<string | undefined>): string {
  let name = type;
  for (let number = 2; names.has(name); number++) name = `${type} ${number}`;
  names.add(name);
  return name;
}

/** Settings with the tools of calls as our graders write them: what is not a name is a pattern for whole names, ignoring case. */
function readCalls(config: JsonObject, path: KeyPath, reader: LenientReader): JsonObject {
  const read = Object.entries(config).map(([key, value]): [string, Json] => {
    const calls =
      ["expect", "expect_tools", "reject_tools"].includes(key) && Array.isArray(value) ? value : [];
    const tools = calls.flatMap((call) => asText(asObject(call)["tool"]) ?? []);
    if (key === "reject_tools" && tools.some(isName))
      reader.note("tools are rejected by their whole names; write .*NAME.* for a part of one", path);
    return [key, calls.length === 0 ? value : calls.map(readCall)];
  });
  return Object.fromEntries(read);
}

function readCall(call: Json): Json {
  const tool = asText(asObject(call)["tool"]);
  if (!isJsonObject(call) || tool === undefined || isName(tool) || /^\/.+\/$/s.test(tool)) return call;
  return { ...call, tool: `/(?i)${tool}/` };
}

function isName(tool: string): boolean {
  return /^[\w./-]+$/.test(tool);
}

/** What is refused by name where it says something: why, and what to write instead. */
function refused(why: string, hint: string): z.ZodOptional<z.ZodUnknown> {
  return z.unknown().optional().meta({ refused: { why, hint } });
}
const noInstructions = refused(
  "agents get no instructions besides their prompts",
  "Write them in the prompt, or in a file of inputs.files that the agent's program reads, such as AGENTS.md.",
);
const effort = refused(
  "the effort of a model is a setting of the agent's program",
  "Write it in args of an agent in agents.",
);
const firstEvent = refused("time is limited for a whole trial", "Write timeout_seconds.");
const ofTask = refused("agents get the skills of the eval", "Write it in config of the eval.");
/** Settings of a type of grader, read apart. */
function settingsOf(type: string): z.ZodOptional<z.ZodType<JsonObject>> {
  return anyObject.optional().meta({ settingsOf: type });
}
/** A table of servers, read apart: whole servers, or changes of them. */
const servers = z.unknown().optional().meta({ servers: "whole" });
const changedServers = z.unknown().optional().meta({ servers: "changed" });
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
/** 0: as many as usual. */
const workers = z.int().min(0).max(1024).optional();

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
  inject_skill_body: refused(
    "skills are where the agent's program looks for them, and not in its prompt",
    "Leave it out.",
  ),
  trigger_skill_routing: noInstructions,
  disabled_skills: refused(
    "agents get the skills of skill_directories",
    "Leave their folders out of skill_directories.",
  ),
  instruction_files: noInstructions,
  reasoning_effort: effort,
  judge_reasoning_effort: effort,
  first_event_timeout_seconds: firstEvent,
  mcp_servers: servers,
  mcp_server_lifetime: wazaLifetime.optional(),
});

const metric = closedObject({
  name: filledText,
  weight: z.number().positive().max(1e6).default(1),
  threshold: z.number().min(0).max(1).optional(),
  description: z.string().optional(),
  enabled: z.boolean().default(true),
});

const variant = closedObject({ description: z.string().optional(), mcp_servers: changedServers });

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
  scenario: z.string().optional(),
  version,
  schemaVersion: version,
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
  command_mocks: refused(
    "mcpvals replaces servers, and no programs",
    "Put a program of that name in a folder, and the folder first in PATH of the agent's env.",
  ),
  adversarial: refused("it has no effect on a run", "Leave it out."),
  variants: z.record(nameKey, variant).optional(),
  agent: agentSchema.optional(),
  agents: z.record(nameKey, namedAgentSchema).default({}),
});

const outcome = closedObject({
  type: filledText.describe("`task_completed`, which every trial that is graded is; or `tool_called`."),
  tool_name: filledText.optional().describe("The tool of `tool_called`."),
  value: z.union([z.string(), z.number(), z.boolean()]).optional().describe("The tool of `tool_called`."),
  condition: filledText.optional(),
});

const file = closedObject({ path: filledText, content: z.string().optional() });

export const wazaTaskSchema = closedObject({
  $schema: z.string().optional(),
  id: filledText,
  name: filledText.optional(),
  description: z.string().optional(),
  schemaVersion: version,
  enabled: z.boolean().default(true),
  golden: z.boolean().optional().describe("Whether it must always pass, as every task here."),
  tags: names,
  context_dir: filledText.optional(),
  timeout_seconds: seconds.optional(),
  first_event_timeout_seconds: firstEvent,
  inputs: closedObject({
    prompt: filledText.optional(),
    prompt_file: filledText.optional().describe("A text file with the prompt, from the task's folder."),
    follow_up_prompts: z.array(filledText).default([]).describe("Further turns of the conversation."),
    responder: refused("no model plays the user", "Write follow_up_prompts."),
    repos: refused("no repository is checked out", "Name the files that the task needs in inputs.files."),
    workdir: refused("an agent works in the workspace itself", "Name the folder in the prompt."),
    files: z.array(file).default([]),
    context: refused(
      "no agent takes anything but the prompt",
      "Write it in the prompt, or in a file of inputs.files.",
    ),
    environment: refused(
      "the task starts no program of its own that could get it",
      "Write it as env of a server in mcp_servers of the task, or of the agent.",
    ),
  }).refine(({ prompt, prompt_file: file }) => (prompt === undefined) !== (file === undefined), {
    error: "must have prompt or prompt_file",
  }),
  expected: closedObject({
    outcomes: z.array(outcome).default([]),
    tool_calls: settingsOf("tool_calls"),
    behavior: settingsOf("behavior"),
    output_contains: texts,
    output_contains_any: texts,
    output_not_contains: texts,
    should_trigger: z.boolean().optional(),
  }).prefault({}),
  graders: z.array(wazaGraderSchema).default([]),
  mcp_servers: changedServers,
  skill_directories: ofTask,
  required_skills: ofTask,
  instruction_files: noInstructions,
  checkpoints: refused("graders look at whole trials", "Write its graders in graders."),
});

export type ParsedWazaEval = z.output<typeof wazaEvalSchema>;
export type ParsedWazaTask = z.output<typeof wazaTaskSchema>;
