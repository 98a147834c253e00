import * as z from "zod";
import { simulatedUserSchema, taskApiVersion } from "../../model/task.ts";
import { anyObject, closedObject, duration, filledText, optional } from "../../model/fields.ts";
import { useLimitFields } from "../../model/eval.ts";
import { gradersField } from "../../graders/declared.ts";
import { elicitationDescription, elicitationSchema, fixturesField } from "../config/config-schema.ts";
import { serverSchema } from "../../model/server.ts";
import {
  asWhole,
  commonFields,
  foreachFields,
  mcpRequestFields,
  requestSchema,
  stepItem,
  stepList,
  templateName,
  variables,
} from "../../model/step.ts";

/** An action inside a schema; what is in it is read by itself. */
const actionItem = z.custom<unknown>().meta({ $ref: "#/$defs/SolutionAction" });

const solutionList = z.array(actionItem).min(1);

const solutionFields = {
  id: commonFields.id.meta({
    description: "Name for `{steps.ID.outputs.NAME}` in later actions.",
    defaultText: "none",
  }),
  outputs: commonFields.outputs.meta({
    description: "Values for later actions: templates by name, with `{result}` and `{text}`.",
    defaultText: "none",
  }),
};

/** The actions of a solution by their keys; `call` is `SERVER.TOOL`. */
export const solutionSchemas = {
  mcp: requestSchema({ ...mcpRequestFields, ...solutionFields }).meta({
    id: "SolutionMcp",
    title: "Solution mcp",
    description: "Sends a request to a server as the agent: exactly one of `tool`, `resource` and `prompt`.",
  }),
  call: closedObject({
    args: anyObject.default({}).describe("Arguments of the tool."),
    ...solutionFields,
  }).meta({
    id: "SolutionCall",
    title: "Solution SERVER.TOOL",
    description: "Short for `mcp` with a server and a tool.",
  }),
  say: z.string().describe("The agent's message; it ends the turn."),
  foreach: closedObject({
    ...foreachFields,
    steps: solutionList.describe("Steps for each item."),
  }).meta({
    id: "SolutionForeach",
    title: "Solution foreach",
    description: "Runs its actions for every item.",
  }),
};

const labelKey = z.string().regex(/^[^=\s]+$/, { error: "must be a name without spaces and =" });

const metadata = closedObject({
  name: filledText.describe("Unique in a run."),
  description: optional(z.string(), "Shown in lists and reports."),
  difficulty: z.enum(["easy", "medium", "hard"]).optional().describe("For `--difficulty`."),
  tags: z.array(filledText).default([]).describe("For `--tag`."),
  labels: z.record(labelKey, z.string()).default({}).describe("For `--label KEY=VALUE`."),
  timeout: optional(
    duration,
    "Time limit of setup, agent and verify together.",
    "the eval's limit of a trial, which is `5m` unless set",
  ),
  stateProbe: z
    .array(filledText)
    .default([])
    .describe(
      "`STEP` or `STEP.OUTPUT`: outputs that must be the same before setup and after cleanup; checked by `mcpvals validate --run`.",
    ),
}).meta({ id: "Metadata", title: "Metadata", description: "Metadata of a task." });

const importEntry = closedObject({
  package: filledText.describe(
    "`github.com/ORG/REPO@VERSION`, `npm:NAME@VERSION`, or a path in the task's folder.",
  ),
  as: templateName.describe("Alias: its operations are steps `AS.OPERATION`."),
}).meta({ id: "Import", title: "Import", description: "An extension whose operations the task uses." });

/** The names that Node uses, and those that people use. */
const platforms = [
  "linux",
  "macos",
  "windows",
  "darwin",
  "win32",
  "freebsd",
  "openbsd",
  "sunos",
  "aix",
  "android",
] as const;

const requirement = closedObject({
  command: optional(filledText, "A program on the path."),
  env: optional(filledText, "An environment variable that is set."),
  server: optional(filledText, "A server that the eval provides."),
  platform: optional(z.enum(platforms), "The operating system."),
  judge: optional(z.literal(true), "A judge is configured."),
})
  .refine(
    (value) => Object.keys(value).length === 1,
    asWhole("must have exactly one of command, env, server, platform and judge"),
  )
  .meta({
    minProperties: 1,
    maxProperties: 1,
    id: "Requirement",
    title: "Requirement",
    description: "A requirement: exactly one of these.",
  });

const promptFile = closedObject({
  file: filledText.describe("A text file in the task's folder."),
}).meta({ id: "PromptFile", title: "Prompt file", description: "A prompt in a file." });

const userTurn = z.union([filledText, promptFile, simulatedUserSchema]);

const limits = closedObject({
  timeout: optional(duration, "The same as `metadata.timeout`; give one of the two.", "`metadata.timeout`"),
  cleanupTimeout: duration.prefault("1m").describe("Time limit of cleanup."),
  ...useLimitFields,
}).meta({ id: "TaskLimits", title: "Task limits", description: "What a task may take and use." });

const spec = closedObject({
  prompt: z
    .union([filledText, promptFile, simulatedUserSchema, z.array(userTurn).min(1)])
    .optional()
    .meta({
      description:
        "The prompt: a text, a file, a simulated user, or a list of user turns, of which the last may be a simulated user.",
      defaultText: "no agent takes part",
    }),
  setup: z
    .array(stepItem)
    .default([])
    .describe("Steps before the agent; a failure makes the trial an error."),
  verify: stepList.describe("Steps that check the result. At least one must be able to fail."),
  cleanup: z
    .array(stepItem)
    .default([])
    .describe(
      "Steps at the end, in reverse order. They always run, and their failures do not change the verdict.",
    ),
  graders: gradersField("this task, besides its verify steps"),
  solution: optional(solutionList, "How the task can be solved; the agent `oracle` plays it.", "none"),
  env: variables
    .default({})
    .describe(
      "Variables for all steps. Values may contain templates, also of each other. Precedence: `--env`, these, the environment.",
    ),
  servers: z
    .record(filledText, serverSchema.nullable())
    .prefault({})
    .describe(
      "Servers of this task, merged over the eval's by name: an entry without `command`, `url` and `mock` changes the eval's server, `null` removes it, `inherit: false` starts empty.",
    ),
  elicitation: optional(elicitationSchema, elicitationDescription),
  fixtures: fixturesField,
  requires: z
    .array(requirement)
    .default([])
    .describe("Requirements of the task; if one is not met, it is skipped."),
  imports: z.array(importEntry).default([]).describe("Extensions that the task uses."),
  limits: limits
    .prefault({})
    .describe("What the task may take and use; each limit wins over the same one of the eval."),
}).meta({ id: "Spec", title: "Spec", description: "Prompt, steps and settings of a task." });

/** A task file: one source of its types, its validation, its JSON Schema and its reference page. */
export const taskSchema = closedObject({
  $schema: z.string().optional().describe("Address of the JSON Schema, for editors."),
  apiVersion: z.literal(taskApiVersion).describe("Version of the format."),
  kind: z.literal("Task").describe("The kind of file."),
  metadata: metadata.describe("Name, tags, time limit and other metadata."),
  spec: spec.describe("Prompt, steps and their requirements."),
}).meta({ title: "mcpvals task", description: "A portable task for agents with MCP servers." });

/** A task file as parsed: defaults filled in, durations in milliseconds; steps as they stand in the file. */
export type ParsedTaskFile = z.output<typeof taskSchema>;
