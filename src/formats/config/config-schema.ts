import * as z from "zod";
import { callPolicies } from "../../model/check-settings.ts";
import { gradersField, thresholdsField } from "../../graders/declared.ts";
import { budgetSchema, useLimitFields } from "../../model/eval.ts";
import { isReporterName, reporterHelp } from "../../model/reporter.ts";
import { mcpExpectation } from "../../model/step.ts";
import { extensionTableSchema } from "../../model/extension.ts";
import { agentSchema, namedAgentSchema } from "../../agents/declared-agents.ts";
import {
  anyJson,
  anyObject,
  closedObject,
  duration,
  expectedStateSchema,
  filledText,
  named,
  nameKey,
  optional,
} from "../../model/fields.ts";
import { lifetimeSchema, mockSchema, serverSchema } from "../../model/server.ts";
import { simulatedUserSchema } from "../../model/task.ts";
import { judgeSchema, defaultJudgeModel, defaultThreshold, userModelSchema } from "../../model/agent.ts";

const answer = closedObject({
  message: optional(filledText, "Text that the question contains, ignoring case.", "any question"),
  server: optional(filledText, "The server that asks.", "any"),
  action: z.enum(["accept", "decline", "cancel"]).describe("The user's action."),
  content: optional(anyObject, "The answer; only with `accept`."),
})
  .refine(({ action, content }) => content === undefined || action === "accept", {
    error: 'must not have content, since its action is not "accept"',
  })
  .meta(named("ElicitationAnswer", "Elicitation answer", "An answer to an elicitation request."));

/** Answers to what servers ask of the user. */
export const elicitationSchema = z.array(answer);

export const elicitationDescription =
  "Answers to elicitation requests of servers: the first that matches. Without a match, the request is declined.";

/** Files for the workspace of trials. */
export const fixturesField = z
  .array(filledText)
  .default([])
  .describe(
    "Files and folders that are copied into the trial's workspace, each under the last part of its path.",
  );

const expectTools = z.array(filledText);

const workflowStep = closedObject({
  user: z
    .union([filledText, simulatedUserSchema])
    .describe(
      "What the user says to the agent; in the last step it may be a simulated user, which plays it and all further turns.",
    ),
  expectTools: optional(
    expectTools,
    "Tools that must be called; the lists of all steps are joined. Prefer the workflow's `expectTools`, which takes precedence.",
  ),
  expectedState: optional(
    z.union([filledText, expectedStateSchema]),
    "What must hold at the end of the turn; of a simulated user, of one of its turns. A text: the turn's last message or last tool result must contain it, ignoring case; a number at its start or end must be a whole number. The user's text must not meet it, unless the workflow has `expectTools` or a judge.",
  ),
  expectedError: optional(
    filledText,
    "A tool call in this turn must fail with an error that contains this text.",
  ),
}).meta({ id: "WorkflowStep", title: "Workflow step", description: "One user turn." });

/** An agent's task: user turns and what is expected of them. */
export const workflowSchema = closedObject({
  name: filledText.describe("Unique in the file."),
  description: optional(z.string(), "Shown in lists and reports."),
  steps: z.array(workflowStep).min(1).describe("User turns, in order; at least one."),
  expectTools: optional(
    expectTools,
    "Tools that must be called in this order, over the whole workflow. An empty list expects nothing.",
  ),
  servers: optional(z.array(filledText).min(1), "Names of the servers that the agent gets.", "all"),
  fixtures: fixturesField,
  graders: gradersField("this workflow"),
  elicitation: optional(elicitationSchema, elicitationDescription),
}).meta({
  id: "Workflow",
  title: "Workflow",
  description:
    "A conversation that an agent plays with the servers. It must have an expectation: a state, tools, an error, a grader, or a judge.",
});

const toolTest = closedObject({
  name: filledText.describe("The tool to call."),
  description: optional(z.string(), "Title of the test.", "the tool's name"),
  server: optional(filledText, "Server to call it on.", "the suite's, else the one that offers the tool"),
  args: anyObject.default({}).describe("Arguments of the call."),
  expectedResult: optional(anyJson, "What the result must be or contain: `result` in `expect`."),
  expectedError: optional(
    filledText,
    "Text of the error with which the call must fail: `error` in `expect`.",
  ),
  expect: mcpExpectation
    .prefault({})
    .describe("Expectations, as `expect` of a task's `mcp` step has them, without templates."),
  maxLatency: optional(duration, "Longest time for the answer: `maxLatency` in `expect`."),
  retries: z
    .int()
    .min(0)
    .max(5)
    .default(0)
    .describe("Further attempts after a failed one. A server that ended is not started again."),
  timeout: optional(duration, "Time limit of the call.", "the suite's `timeout`"),
}).meta(named("ToolTest", "Tool test", "One direct call of one tool, without an agent."));

/** Direct calls of tools. */
const suiteSchema = closedObject({
  name: filledText.describe("Unique in the file."),
  description: optional(z.string(), "For readers of the file."),
  tests: z.array(toolTest).min(1).describe("At least one."),
  parallel: z.boolean().default(false).describe("Whether the tests may run at the same time."),
  timeout: optional(duration, "Time limit of each call in this suite.", "`timeout`"),
  server: optional(filledText, "Server to call, for tests that name none.", "the one that offers the tool"),
}).meta(named("ToolHealthSuite", "Tool health suite", "Tool tests that belong together."));

const limits = closedObject({
  trial: duration.prefault("5m").describe("A whole trial, from starting its servers to its last check."),
  modelCall: duration.prefault("2m").describe("One request to a model."),
  ...useLimitFields,
}).meta({ id: "Limits", title: "Limits", description: "What a trial may take and use." });

const findingCode = z
  .string()
  .regex(/^[a-z]+\/[a-z0-9-]+$/, { error: "must be the code of a finding, GROUP/NAME" })
  .describe("Code of the finding.");
const findingCodes = z.array(findingCode).default([]);

const check = closedObject({
  calls: z
    .enum(callPolicies)
    .default("safe")
    .describe("Tools to call: `safe` are those that are annotated `readOnlyHint: true`."),
  disable: findingCodes.describe("Codes of findings that are not reported, such as `client/gemini-refs`."),
  enable: findingCodes.describe(
    "Codes of findings that are reported only on request, such as `client/openai-strict`.",
  ),
  accepted: z
    .array(
      closedObject({
        code: findingCode,
        server: optional(filledText, "Name of the server.", "any"),
        tool: optional(filledText, "Name of the tool.", "any, and findings about the whole server"),
        prompt: optional(filledText, "Name of the prompt.", "any"),
        resource: optional(filledText, "URI of the resource, or template of URIs.", "any"),
        parameter: optional(filledText, "Name of the parameter.", "any"),
        reason: filledText.describe("Why it is accepted."),
        date: z.iso
          .date()
          .describe(
            "The day on which it was accepted, such as `2026-11-29`. It is shown in reports; the entry does not expire.",
          ),
      }).meta({
        id: "Accepted",
        title: "Accepted finding",
        description: "A finding that is known and accepted.",
      }),
    )
    .default([])
    .describe("Findings that are known and accepted: they are reported as info, with the reason."),
  maxWarnings: optional(z.int().min(0), "More warnings fail the check.", "any number may pass"),
  snapshot: optional(filledText, "File with the definitions that the servers must have."),
  callTimeout: duration.prefault("5s").describe("Time limit of each request."),
  conformance: z
    .boolean()
    .default(false)
    .describe("Whether the official conformance suite (`@modelcontextprotocol/conformance`) runs, too."),
  security: z
    .boolean()
    .default(false)
    .describe(
      "Whether the servers run in a sandbox with planted secrets, and what they touch is watched; see docs/security-checks.md.",
    ),
}).meta({ id: "Check", title: "Check", description: "How `mcpvals check` checks the servers." });

const reporter = z.string().refine(isReporter, {
  error: `must be NAME or NAME=FILE, where NAME is one of ${Object.keys(reporterHelp).join(", ")}`,
});

/** A set of servers that is merged over those of the file. */
const variantSchema = closedObject({
  servers: optional(
    anyObject,
    "Merged over the servers by name: maps are merged, lists replaced, `null` removes, `inherit: false` starts empty.",
  ),
}).meta(named("Variant", "Variant", "A set of servers that every task runs with."));

export const serverTableFields = {
  mocks: optional(
    z.record(nameKey, mockSchema),
    "Mocks by the names of servers; each replaces the server of its name.",
  ),
  serverLifetime: optional(
    lifetimeSchema,
    "Lifetime of servers that set none.",
    "`per_trial`; for servers with a URL `per_run`",
  ),
  variants: optional(
    z.record(nameKey, variantSchema),
    "Sets of servers by name, merged over the servers of the file. Every task runs with each of them, and not with the base servers alone.",
  ),
  seed: optional(z.int().min(0), "Seed of the random numbers of faults.", "`0`"),
};

export const userModelDescription =
  "The model that plays simulated users that have a goal: a model id, or its settings. `--user-model` takes precedence.";

/** What a run may cost, and how that is known. */
export const spendingFields = {
  budget: optional(
    budgetSchema,
    "What a run may use; when it is used up, no further trial begins. The options of `run` take precedence.",
    "all trials run",
  ),
  prices: optional(
    filledText,
    "File with what models cost, relative to this one; `--prices` takes precedence.",
    "only the cost that an agent program reports is known",
  ),
};

/** The config format: the one source of its types, its validation, its JSON Schema and its reference page. */
export const configSchema = closedObject({
  $schema: optional(z.string(), "Address of the JSON Schema, for editors."),
  name: optional(
    filledText,
    "Name of the evaluation, for reports.",
    "the name of the folder that holds the file",
  ),
  description: optional(z.string(), "For readers of the file."),
  server: optional(
    serverSchema,
    'The only server under test; its name is "default". Not together with `servers`.',
  ),
  servers: optional(
    z.record(nameKey, serverSchema),
    "The servers under test, by name. Not together with `server`.",
  ),
  ...serverTableFields,
  agent: optional(
    agentSchema,
    "The agent that runs: a name from `agents`, a model id, an agent, or the name of a preset (`gemini`).",
    "all in `agents`; without any, `anthropic/claude-sonnet-4-5`, named claude",
  ),
  agents: z
    .record(nameKey, namedAgentSchema)
    .default({})
    .describe("Agents by name: an agent, or a model id. Without `agent`, all of them run."),
  workflows: z
    .array(workflowSchema)
    .prefault([])
    .describe("Conversations that agents play with the servers."),
  toolHealthSuites: z.array(suiteSchema).prefault([]).describe("Direct calls of tools."),
  tasks: z
    .array(filledText)
    .prefault([])
    .describe(
      "Task files (`kind: Task`): paths or globs, relative to the config file. They get the config's servers and their own.",
    ),
  graders: gradersField("every workflow and every task of `tasks`"),
  thresholds: thresholdsField,
  inheritEnv: z
    .union([z.array(filledText), z.literal(true)])
    .default([])
    .describe(
      "Variables of your own environment that the steps of `tasks` get, by name; `true` passes on all of them. Without it they get only what programs need to start.",
    ),
  extensions: optional(
    extensionTableSchema,
    "Extensions by the names that `tasks` use, and settings for all of them.",
    "only those that tasks import",
  ),
  llmJudge: z
    .boolean()
    .default(false)
    .describe("Whether a model also judges every workflow; `--llm` does the same."),
  openaiKey: optional(z.string(), "Key for a judge from OpenAI.", "the variable `OPENAI_API_KEY`"),
  judgeModel: filledText
    .default(defaultJudgeModel)
    .describe("Model of the judge: one of OpenAI's, or `PROVIDER/MODEL`. `judge` takes precedence."),
  passThreshold: z
    .number()
    .min(0)
    .max(1)
    .default(defaultThreshold)
    .describe("Lowest score of the judge that passes."),
  judge: optional(
    judgeSchema,
    "All settings of the judge. It judges every workflow with `llmJudge` or `--llm`; else only steps and graders ask it.",
  ),
  skills: optional(
    z.array(filledText).min(1),
    "Skills of agents that are programs, copied to where the program looks for them in its workspace: folders of one skill, or with one folder per skill, relative to this file.",
    "none",
  ),
  userModel: optional(userModelSchema, userModelDescription, "none"),
  check: optional(check, "How `mcpvals check` checks the servers; its options win over it."),
  ...spendingFields,
  timeout: duration.prefault("30s").describe("Limit of each tool call, and of each server's start."),
  limits: limits.prefault({}).describe("What trials and model calls may take and use."),
  trials: z.int().min(1).max(10_000).default(1).describe("Attempts of each task, by each agent."),
  concurrency: optional(
    z.int().min(1).max(1024),
    "Trials at once.",
    "as many as there are processors; one where trials share a server",
  ),
  reporters: z
    .array(reporter)
    .default(["console"])
    .meta({
      description: `How to report: \`NAME\` or \`NAME=FILE\`, where NAME is one of \`${Object.keys(reporterHelp).join("`, `")}\`.`,
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
