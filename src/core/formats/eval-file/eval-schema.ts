import * as z from "zod";
import { namedAgentSchema } from "../config/agent.ts";
import {
  closedObject,
  filledText,
  goDuration,
  nameKey,
  patternText,
  texts,
  variableNames,
} from "../config/config-fields.ts";
import { serverTableFields } from "../config/config-schema.ts";
import { serverSchema } from "../config/server.ts";
import { extensionTableSchema } from "../extension/extension-table-schema.ts";

/** Kinds of agents that an eval can refer to; those with `openai` in their name are old names of `builtin.llm-agent`. */
const agentTypes = [
  "file",
  "builtin.claude-code",
  "builtin.llm-agent",
  "builtin.openai-agent",
  "builtin.openai-acp",
] as const;

/** For the JSON Schema alone: agents of all but these types need a text under that key. */
function neededUnless(key: string, types: readonly string[]): object {
  const given = { properties: { [key]: { type: "string", minLength: 1 } }, required: [key] };
  return { anyOf: [{ properties: { type: { enum: types } } }, given] };
}

const agentRef = closedObject({
  type: z.enum(agentTypes).describe("`file`, or a built-in agent."),
  path: z.string().optional().describe("The agent's file, relative to this file; for `type: file`."),
  model: z.string().optional().describe("`PROVIDER:MODEL`; for `builtin.llm-agent`."),
}).meta({
  id: "AgentRef",
  title: "Agent",
  description: "An agent in its own file, or a built-in one.",
  allOf: [
    neededUnless(
      "path",
      agentTypes.filter((type) => type !== "file"),
    ),
    neededUnless("model", ["file", "builtin.claude-code"]),
  ],
});

const judge = closedObject({
  ref: agentRef.optional().describe("The model that judges, as an agent."),
  env: closedObject({
    baseUrlKey: filledText.describe("Variable with the base URL of the provider's API."),
    apiKeyKey: filledText.describe("Variable with the API key."),
    modelNameKey: filledText.describe("Variable with the model: `PROVIDER:MODEL`, or one of OpenAI's."),
  })
    .optional()
    .describe("Names of environment variables with the judge's model; the older form of `ref`."),
  passThreshold: z.number().min(0).max(1).optional().describe("Lowest score that passes."),
}).meta({
  id: "Judge",
  title: "Judge",
  description: "The judge of `llmJudge` and `llm` steps. Without it, a task with such a step is an error.",
  anyOf: [{ required: ["ref"] }, { required: ["env"] }],
});

const source = closedObject({
  repo: filledText.describe("Address of a git repository."),
  ref: filledText.describe("Branch, tag or commit."),
  serverMapping: texts.optional().describe("Names of its servers, by the names that its tasks use."),
}).meta({
  id: "Source",
  title: "Source",
  description: "Tasks in a git repository. Validated but never fetched; a task set that uses one is refused.",
});

const server = filledText.describe("Name of the server.");

const toolPattern = closedObject({
  server,
  tool: z.string().optional().describe("Name of the tool."),
  toolPattern: patternText.optional().describe("Regular expression (RE2) found in the name."),
}).meta({
  id: "ToolPattern",
  title: "Tool calls",
  description: "Matches calls of a tool; without name and pattern, of any tool.",
});

const resourcePattern = closedObject({
  server,
  uri: z.string().optional().describe("URI of the resource."),
  uriPattern: patternText.optional().describe("Regular expression (RE2) found in the URI."),
}).meta({
  id: "ResourcePattern",
  title: "Reads of resources",
  description: "Matches reads; without URI and pattern, any.",
});

const promptPattern = closedObject({
  server,
  prompt: z.string().optional().describe("Name of the prompt."),
  promptPattern: patternText.optional().describe("Regular expression (RE2) found in the name."),
}).meta({
  id: "PromptPattern",
  title: "Prompts",
  description: "Matches prompts; without name and pattern, any.",
});

const orderedCall = closedObject({
  type: z.enum(["tool", "resource", "prompt"]).describe("The kind of call."),
  server,
  name: z.string().describe("Name of the tool or prompt, or URI of the resource."),
}).meta({ id: "OrderedCall", title: "Call", description: "One call, by its exact name." });

const skillPattern = closedObject({
  skill: z.string().optional().describe("Name of the skill."),
  skillPattern: patternText
    .optional()
    .describe("Regular expression (RE2) that must match in the arguments of the load."),
}).meta({
  id: "SkillPattern",
  title: "Skill",
  description: "Matches loads of a skill; without name and pattern, of any skill.",
});

const skills = closedObject({
  sources: z
    .array(
      closedObject({
        type: z.literal("path").describe("A folder beside this file; the only kind."),
        path: filledText.describe(
          "Folder of one skill, or with one folder per skill, relative to this file.",
        ),
      }),
    )
    .describe("Where the skills are."),
}).meta({
  id: "Skills",
  title: "Skills",
  description: "Skills of agent programs, copied to where the program looks for them in its workspace.",
});

const calls = z.int().min(0).optional();

const assertions = closedObject({
  toolsUsed: z.array(toolPattern).optional().describe("Every entry matches a successful call."),
  requireAny: z.array(toolPattern).optional().describe("At least one entry matches a successful call."),
  toolsNotUsed: z.array(toolPattern).optional().describe("No entry matches any call, not even a failed one."),
  minToolCalls: calls.describe("Minimum number of successful tool calls, over all servers."),
  maxToolCalls: calls.describe("Maximum number of tool calls, over all servers."),
  resourcesRead: z.array(resourcePattern).optional().describe("Every entry matches a successful read."),
  resourcesNotRead: z.array(resourcePattern).optional().describe("No entry matches any read."),
  promptsUsed: z.array(promptPattern).optional().describe("Every entry matches a prompt that the agent got."),
  promptsNotUsed: z.array(promptPattern).optional().describe("No entry matches a prompt that the agent got."),
  callOrder: z
    .array(orderedCall)
    .optional()
    .describe("These calls succeeded in this order; others may come in between."),
  noDuplicateCalls: z.boolean().optional().describe("No tool was called twice with equal arguments."),
  skillsLoaded: z
    .array(skillPattern)
    .optional()
    .describe("Every entry matches a skill that the agent loaded. Needs `skills`."),
  skillsNotLoaded: z
    .array(skillPattern)
    .optional()
    .describe("No entry matches a skill that the agent loaded. Needs `skills`."),
}).meta({ id: "Assertions", title: "Assertions", description: "Assertions about the agent's calls." });

const taskSet = closedObject({
  path: filledText.optional().describe("One task file, relative to this file."),
  glob: filledText
    .optional()
    .describe("Task files, relative to this file; files of other kinds are ignored."),
  source: z
    .string()
    .optional()
    .meta({ description: "Name of one of the `sources`. Refused: sources are never fetched.", maxLength: 0 }),
  labelSelector: texts.optional().describe("Labels that a task must all have."),
  assertions: assertions
    .optional()
    .describe("Assertions about the agent's calls, in addition to the tasks' own steps."),
}).meta({
  id: "TaskSet",
  title: "Task set",
  description: "Tasks, by `path` or by `glob`.",
  oneOf: [{ required: ["path"] }, { required: ["glob"] }],
});

const config = closedObject({
  agent: agentRef.optional().describe("The agent."),
  agentFile: z.string().optional().describe("Older form of `agent: {type: file, path: …}`."),
  agents: z
    .record(nameKey, namedAgentSchema)
    .optional()
    .describe("Agents by name, as in a config: an agent, or a model id. All of them run."),
  mcpConfigFile: z
    .string()
    .optional()
    .describe("File with `mcpServers`, as MCP clients use, relative to this file."),
  servers: z
    .record(nameKey, serverSchema)
    .optional()
    .describe("Servers by name, as in a config; they take precedence over those of `mcpConfigFile`."),
  ...serverTableFields,
  inheritEnv: variableNames
    .optional()
    .describe("Environment variables that the tasks' processes get, by name; `true`: all."),
  llmJudge: judge.optional(),
  extensions: extensionTableSchema
    .optional()
    .describe("Extensions by the names that tasks use, and settings for all of them."),
  sources: z.record(nameKey, source).optional().describe("Repositories of tasks, by name."),
  skills: skills.optional(),
  defaultTaskLimits: closedObject({ timeout: goDuration.optional(), cleanupTimeout: goDuration.optional() })
    .optional()
    .describe("Time limits of tasks that set none."),
  runs: z.int().min(1).max(10_000).optional().describe("Attempts of each task, by each agent."),
  parallel: z.int().min(1).max(1024).optional().describe("Trials at once, of tasks that are `parallel`."),
  taskSets: z.array(taskSet).optional().meta({ description: "Which tasks run.", minItems: 1 }),
}).meta({
  id: "EvalConfig",
  title: "Config",
  description: "Tasks, agent and settings.",
  required: ["taskSets"],
});

/** The eval format: the one source of its validation and its JSON Schema. */
export const evalSchema = closedObject({
  $schema: z.string().optional().describe("Address of the JSON Schema, for editors."),
  apiVersion: z
    .string()
    .optional()
    .describe("`mcp-eval/v1` refuses unknown keys; the older ones and none ignore them."),
  kind: z.literal("Eval").describe("The kind of file."),
  metadata: closedObject({
    name: z.string().optional().describe("Name of the evaluation, for reports."),
    description: z.string().optional().describe("For readers of the file."),
  }).optional(),
  config,
}).meta({ title: "mcpvals eval", description: "Which tasks run, with which agents, against which servers." });

/** An eval file as its schema gives it. */
export type ParsedEvalDocument = z.output<typeof evalSchema>;
/** A reference to an agent. */
export type ParsedAgentRef = z.output<typeof agentRef>;
/** Assertions of a task set, as written. */
export type ParsedAssertions = z.output<typeof assertions>;
