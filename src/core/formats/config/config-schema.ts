import * as z from "zod";
import { isReporterName, reporterHelp } from "../reporters.ts";
import { extensionTableSchema } from "../extension/extension-table-schema.ts";
import { agentSchema, judgeSchema, namedAgentSchema } from "./agent.ts";
import { anyJson, anyObject, closedObject, duration, filledText, nameKey } from "./config-fields.ts";
import { mcpMockSchema, mockSchema } from "./mock.ts";
import { lifetimeSchema, serverSchema } from "./server.ts";

const answer = closedObject({
  message: filledText.optional().meta({
    description: "Text that the question contains; upper and lower case are the same.",
    defaultText: "any question",
  }),
  server: filledText.optional().meta({ description: "The server that asks.", defaultText: "any" }),
  action: z.enum(["accept", "decline", "cancel"]).meta({ description: "What the user does." }),
  content: anyObject.optional().meta({ description: "What the user fills in; only with `accept`." }),
})
  .refine(({ action, content }) => content === undefined || action === "accept", {
    error: 'must not have content, since its action is not "accept"',
  })
  .meta({
    id: "ElicitationAnswer",
    title: "Elicitation answer",
    description: "What the user answers when a server asks (elicitation).",
  });

/** Answers to what servers ask of the user. */
export const elicitationSchema = z.array(answer);

export const elicitationDescription =
  "What the user answers when a server asks (elicitation): the first that fits. Without one that fits, the user declines.";

const expectTools = z.array(filledText);

const workflowStep = closedObject({
  user: filledText.meta({ description: "What the user says to the agent." }),
  expectTools: expectTools.optional().meta({
    description:
      "Tools that should be called; the lists of all steps are joined. Prefer the workflow's own `expectTools`, which wins.",
  }),
  expectedState: filledText.optional().meta({
    description:
      "Text that the turn's last answer, or its last tool result, must contain. Upper and lower case are the same; a number at either end is a whole number. What the user says must not have it, unless the workflow has `expectTools` or a judge.",
  }),
  expectedError: filledText.optional().meta({
    description: "A tool call in this turn should fail with an error that contains this text.",
  }),
}).meta({ id: "WorkflowStep", title: "Workflow step", description: "One user turn." });

/** An agent's task: user turns and what is expected of them. */
const workflowSchema = closedObject({
  name: filledText.meta({ description: "Unique in the file." }),
  description: z.string().optional().meta({ description: "Shown in lists and reports." }),
  steps: z.array(workflowStep).min(1).meta({ description: "User turns, in order; at least one." }),
  expectTools: expectTools.optional().meta({
    description:
      "Tools that should be called, in order, over the whole workflow. An empty list expects nothing.",
  }),
  servers: z.array(filledText).min(1).optional().meta({
    description: "Names of the servers that the agent gets.",
    defaultText: "all",
  }),
  elicitation: elicitationSchema.optional().meta({ description: elicitationDescription }),
}).meta({
  id: "Workflow",
  title: "Workflow",
  description:
    "A conversation that an agent leads with the server's tools. It must expect something: a state, tools, an error, or a judge's approval.",
});

const toolTest = closedObject({
  name: filledText.meta({ description: "The tool to call." }),
  description: z
    .string()
    .optional()
    .meta({ description: "Title of the test.", defaultText: "the tool's name" }),
  server: filledText.optional().meta({
    description: "Server to call it on.",
    defaultText: "the suite's, else the one that offers the tool",
  }),
  args: anyObject.default({}).meta({ description: "Arguments of the call." }),
  expectedResult: anyJson.optional().meta({
    description: "What the result must be or contain: any JSON value.",
    defaultText: "any result that is no error",
  }),
  expectedError: filledText.optional().meta({
    description: "The call must fail with an error that contains this text.",
  }),
  maxLatency: duration.optional().meta({ description: "Longest that the call may take to pass." }),
  retries: z.int().min(0).max(5).default(0).meta({ description: "Further attempts after a failed one." }),
  timeout: duration.optional().meta({
    description: "Longest to wait for an answer.",
    defaultText: "the suite's `timeout`",
  }),
}).meta({
  id: "ToolTest",
  title: "Tool test",
  description: "One direct call of one tool, without an agent.",
});

/** Direct calls of tools. */
const suiteSchema = closedObject({
  name: filledText.meta({ description: "Unique in the file." }),
  description: z.string().optional().meta({ description: "For readers of the file." }),
  tests: z.array(toolTest).min(1).meta({ description: "At least one." }),
  parallel: z.boolean().default(false).meta({ description: "Whether the tests may run at the same time." }),
  timeout: duration.optional().meta({
    description: "Longest to wait for an answer in this suite.",
    defaultText: "`timeout`",
  }),
  server: filledText.optional().meta({
    description: "Server to call, for tests that name none.",
    defaultText: "the one that offers the tool",
  }),
}).meta({
  id: "ToolHealthSuite",
  title: "Tool health suite",
  description: "Tool tests that belong together.",
});

const limits = closedObject({
  trial: duration.prefault("5m").meta({
    description: "A whole trial, from starting its servers to its last check.",
  }),
  modelCall: duration.prefault("2m").meta({ description: "One request to a model." }),
}).meta({ id: "Limits", title: "Limits", description: "Longest that things may take." });

const reporter = z.string().refine(isReporter, {
  error: `must be NAME or NAME=FILE, where NAME is one of ${Object.keys(reporterHelp).join(", ")}`,
});

/** A set of servers, laid over those of the file. */
const variantSchema = closedObject({
  servers: anyObject.optional().meta({
    description:
      "Laid over the servers by name: maps are merged, lists replaced, `null` takes away, `inherit: false` starts empty.",
  }),
  mcp_servers: anyObject.optional().meta({ description: "Another spelling of `servers`." }),
}).meta({
  id: "Variant",
  title: "Variant",
  description: "A set of servers that every task is run with, beside other sets.",
});

/** Fields of everything that has servers and variants. */
export const serverTableFields = {
  mcp_servers: anyObject.optional().meta({
    description:
      "Another spelling of `servers`, as other tools have it: `type` for `transport`, `workingDir`, `startup_timeout_ms`, `capture_stderr`; its servers are `required` unless they say otherwise.",
  }),
  mocks: z.record(nameKey, mockSchema).optional().meta({
    description: "Mocks by the names of servers; each replaces the server of its name.",
  }),
  mcp_mocks: z.array(mcpMockSchema).optional().meta({
    description: "Another spelling of `mocks`, as other tools have it.",
  }),
  serverLifetime: lifetimeSchema.optional().meta({
    description: "Lifetime of servers that set none.",
    defaultText: "`per_trial`; for servers with an address `per_run`",
  }),
  mcp_server_lifetime: lifetimeSchema.optional().meta({
    description: "Another spelling of `serverLifetime`.",
  }),
  variants: z.record(nameKey, variantSchema).optional().meta({
    description:
      "Sets of servers by name, laid over the servers of the file. Every task is run with each of them, and with no other.",
  }),
  seed: z.int().min(0).optional().meta({
    description: "Begins the random numbers of faults.",
    defaultText: "`0`",
  }),
};

/** The config format: the one source of its types, its validation, its JSON Schema and its reference page. */
export const configSchema = closedObject({
  $schema: z.string().optional().meta({ description: "Address of the JSON Schema, for editors." }),
  name: filledText.optional().meta({
    description: "Name of the evaluation, for reports.",
    defaultText: "the name of the folder that holds the file",
  }),
  description: z.string().optional().meta({ description: "For readers of the file." }),
  server: serverSchema.optional().meta({
    description:
      'The server under test, when there is one; its name is "default". Not together with `servers`.',
  }),
  servers: z.record(nameKey, serverSchema).optional().meta({
    description: "The servers under test, by name. Not together with `server`.",
  }),
  ...serverTableFields,
  agent: agentSchema.optional().meta({
    description:
      "Who plays the workflows: the name of one in `agents`, a model id, an agent, or the name of a preset (`gemini`).",
    defaultText: "all in `agents`; without any, `anthropic/claude-sonnet-4-5`, named claude",
  }),
  agents: z.record(nameKey, namedAgentSchema).default({}).meta({
    description:
      "Agents by name: an agent, or a model id. Without `agent`, each workflow is played by all of them.",
  }),
  workflows: z.array(workflowSchema).prefault([]).meta({ description: "What agents should manage to do." }),
  toolHealthSuites: z.array(suiteSchema).prefault([]).meta({ description: "Direct calls of tools." }),
  tasks: z.array(filledText).prefault([]).meta({
    description:
      "Tasks in files of their own (`kind: Task`): paths or globs, relative to the config file. They get the config's servers, besides their own.",
  }),
  inheritEnv: z
    .union([z.array(filledText), z.literal(true)])
    .default([])
    .meta({
      description:
        "Variables of your own environment that the steps of `tasks` get, by name; `true` passes on all of them. Without it they get only what programs need to start.",
    }),
  extensions: extensionTableSchema.optional().meta({
    description: "Extensions by the names that `tasks` use, and settings for all of them.",
    defaultText: "only those that tasks import",
  }),
  llmJudge: z.boolean().default(false).meta({
    description: "Whether a model also judges every workflow; `--llm` does the same.",
  }),
  openaiKey: z.string().optional().meta({
    description: "Key for a judge from OpenAI.",
    defaultText: "the variable `OPENAI_API_KEY`",
  }),
  judgeModel: filledText.default("gpt-4o").meta({
    description: "Model of the judge: one of OpenAI's, or `PROVIDER/MODEL`. `judge` wins over it.",
  }),
  passThreshold: z.number().min(0).max(1).default(0.8).meta({
    description: "Lowest score of the judge that passes.",
  }),
  judge: judgeSchema.optional().meta({
    description: "The judge in full. It is asked only with `llmJudge` or `--llm`.",
  }),
  timeout: duration.prefault("30s").meta({ description: "Each tool call, and each server's start." }),
  limits: limits.prefault({}).meta({ description: "Longest that trials and model calls may take." }),
  trials: z.int().min(1).max(10_000).default(1).meta({
    description: "Attempts of each task, by each agent.",
  }),
  concurrency: z.int().min(1).max(1024).optional().meta({
    description: "Trials at once.",
    defaultText: "one after the other, except suites that are `parallel`",
  }),
  reporters: z
    .array(reporter)
    .default(["console"])
    .meta({
      description: `How to report: \`NAME\` or \`NAME=FILE\`, where NAME is one of ${Object.keys(reporterHelp)
        .map((name) => `\`${name}\``)
        .join(", ")}.`,
    }),
}).meta({ title: "mcpvals config", description: "Which servers to evaluate, and how." });

/** What a config file may hold. */
export type Config = z.input<typeof configSchema>;

/** A config as parsed: defaults filled in, durations in milliseconds. */
export type ParsedConfig = z.output<typeof configSchema>;

function isReporter(text: string): boolean {
  const match = /^([^=]+)(=.+)?$/.exec(text);
  return match !== null && isReporterName(match[1] ?? "");
}
