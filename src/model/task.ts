import * as z from "zod";
import type { SourceLocation } from "../base/error.ts";
import { checkModel } from "./check.ts";
import {
  type ExpectedState,
  expectedStateSchema,
  json,
  jsonObject,
  milliseconds,
  type Model,
  text,
  texts,
} from "./fields.ts";
import { sandboxModel } from "./sandbox.ts";
import { mcpRequestModel, stepSchema } from "./step.ts";

/** The tool that a tool test calls; undefined for a task of another form. */
export function testedTool({ form, verify }: Pick<Task, "form" | "verify">): string | undefined {
  const [step] = form === "tool-test" ? verify : [];
  return step?.type === "mcp" && step.request.kind === "tool" ? step.request.tool : undefined;
}

/** What the `apiVersion` of a task must be. */
export const taskApiVersion = "mcp-eval/v1";

/** The same in the older forms, which are converted; a task of the script form may also have none. */
export const olderTaskVersions = [
  "mcpchecker/v1alpha1",
  "mcpchecker/v1alpha2",
  "gevals/v1alpha1",
  "gevals/v1alpha2",
] as const;

const locationModel: z.ZodType<SourceLocation> = z
  .strictObject({
    file: text,
    line: z.int().exactOptional(),
    column: z.int().exactOptional(),
    path: text
      .describe("Path of keys inside the document, such as `workflows[0].steps[1].user`.")
      .exactOptional(),
  })
  .meta({ id: "Location", description: "A place in a file." });
const location = locationModel.meta({ description: "Where the file says so." }).exactOptional();

const turnModel = z
  .strictObject({
    user: text.describe("What the user says."),
    expectedState: z
      .union([text, expectedStateSchema as z.ZodType<ExpectedState>])
      .describe(
        "What must hold at the end of the turn. A text: the last assistant message or the last tool result contains it, ignoring case.",
      )
      .exactOptional(),
    expectedError: text
      .describe("A tool call in this turn is expected to fail with this text; such a failure is healthy.")
      .exactOptional(),
  })
  .meta({ id: "Turn", description: "A user turn and what is expected of it." });

const elicitationModel = z
  .strictObject({
    message: text
      .describe("Text that the server's question contains, ignoring case. Absent: any question.")
      .exactOptional(),
    server: text.exactOptional(),
    action: z.enum(["accept", "decline", "cancel"]),
    content: jsonObject.exactOptional(),
  })
  .meta({ id: "ElicitationAnswer", description: "What the user answers when a server asks." });

const graderModel = z
  .strictObject({
    type: text,
    name: text.describe("Name of its grades; unique among the graders of a task."),
    weight: z.number().describe("Weight of its score in the trial's score."),
    required: z.boolean().describe("Whether the trial passes only if it passes."),
    config: jsonObject.describe("Its settings, as the schema of its type gives them."),
    servers: z.array(text).describe("Servers that its settings name. Absent: none.").exactOptional(),
    dir: text.describe("Absolute path of the folder that files in its settings are relative to."),
    location,
    places: z
      .record(text, z.strictObject({ line: z.int().exactOptional(), column: z.int().exactOptional() }))
      .describe("Where its settings are in that file, by their keys.")
      .exactOptional(),
  })
  .meta({ id: "Grader", description: "A grader that a file declares." });

const requirementModel = z
  .union([
    z.strictObject({ kind: z.enum(["command", "env", "server", "platform", "extension"]), name: text }),
    z.strictObject({ kind: z.literal("judge") }),
  ])
  .meta({ id: "Requirement", description: "Something that must be there before a task can run." });

const [toolRequest, resourceRequest, promptRequest] = mcpRequestModel.options;
const solutionRequest = {
  id: text.exactOptional(),
  server: text.exactOptional(),
  outputs: texts.exactOptional(),
};

const solutionActionModel: z.ZodType<SolutionAction> = z
  .lazy(() =>
    z.discriminatedUnion("kind", [
      toolRequest.extend(solutionRequest),
      resourceRequest.extend(solutionRequest),
      promptRequest.extend(solutionRequest),
      z.strictObject({ kind: z.literal("say"), text: text.describe("Ends the turn.") }),
      z.strictObject({
        kind: z.literal("foreach"),
        variable: text,
        in: z.union([text, z.array(json)]),
        actions: z.array(solutionActionModel),
      }),
    ]),
  )
  .meta({
    id: "SolutionAction",
    description: "What the oracle does to solve a task; texts may have templates.",
  });

const extensionModel = z
  .strictObject({
    alias: text.describe("What steps name it by."),
    package: text.describe(
      "Where it comes from, as written: `github.com/ORG/REPO@VERSION`, `npm:NAME@VERSION`, `mcpvals:NAME` or a path.",
    ),
    dir: text.describe("Folder that a relative `package`, and relative paths in `sandbox.read`, start from."),
    config: jsonObject.describe("Settings that it is started with, as templates."),
    env: texts.describe("Variables for its process, as templates."),
    inheritEnv: z
      .union([z.array(text), z.literal(true)])
      .describe("Variables of the shell that its process gets besides; `true`: all. Not in a sandbox.")
      .exactOptional(),
    sandbox: sandboxModel,
    location,
  })
  .meta({
    id: "Extension",
    description: "An extension as a task uses it: an outside program that adds steps.",
  });

const portableModel = z
  .strictObject({
    format: z
      .enum(["mcp-eval/v1", "script-form", "step-form", "waza"])
      .describe(
        "`script-form` and `step-form` are the older forms of `mcp-eval/v1`; `waza` is that tool's task. Only ours is templated.",
      ),
    file: text.describe("Absolute path of the task's file."),
    dir: text.describe(
      "Absolute path of the folder that relative paths start from, and that they may not leave.",
    ),
    repository: text
      .describe("Absolute path of a folder that scripts may lie in besides `dir`; older forms only.")
      .exactOptional(),
    env: texts.describe("Variables for all steps, as templates."),
    setup: z.array(stepSchema).describe("Setup steps; a failure makes the trial an error."),
    cleanup: z.array(stepSchema).describe("In the order of the file; they are run in the reverse order."),
    extensions: z
      .record(text, extensionModel)
      .describe("Extensions that its steps use, by what the steps name them by. Absent: none.")
      .exactOptional(),
    solution: z
      .array(solutionActionModel)
      .describe("Absent when the task does not say how it can be solved.")
      .exactOptional(),
    fixtures: z
      .array(text)
      .describe("Paths relative to `dir`; each is copied into the workspace under its last name."),
    requires: z.array(requirementModel),
    difficulty: text.exactOptional(),
    tags: z.array(text),
    labels: texts,
    timeoutMs: milliseconds
      .describe("Longest that setup, agent and verify may take together. Absent: the eval's limit.")
      .exactOptional(),
    cleanupTimeoutMs: milliseconds,
    runs: z.int().min(1).describe("Attempts, when the task asks for a number of its own.").exactOptional(),
    stateProbe: z
      .array(text)
      .describe("`STEP` or `STEP.OUTPUT`: outputs that must be the same before setup and after cleanup."),
    randomPorts: z
      .array(text)
      .describe('Names that `{random.port}` is used with; the plain form has the name "".'),
    assertions: z
      .array(jsonObject)
      .describe("Settings of the grader `assertions`, of every task set that reached the task."),
    inheritEnv: z
      .union([z.array(text), z.literal(true)])
      .describe(
        "Variables of the shell that the task's processes get in addition to a few basic ones; `true`: all.",
      ),
  })
  .meta({
    id: "PortableTask",
    description: "The parts of a task that come from its own file. Their texts may have templates.",
  });

/** A portable unit of evaluation. Workflows and tool tests are short forms of it. */
export const taskModel = z
  .strictObject({
    name: text.describe("Unique in a run."),
    form: z.enum(["workflow", "tool-test", "task", "check"]),
    description: text.exactOptional(),
    suite: text.describe("The suite of a tool test, or the server of a check.").exactOptional(),
    servers: z.array(text).describe("Names of the servers that a trial of this task starts."),
    turns: z.array(turnModel).describe("The prompts, in order; empty when no agent takes part."),
    expectTools: z.array(text).describe("Tools expected to be called, in order."),
    verify: z.array(stepSchema).describe("Verify steps; a failed check fails the trial."),
    parallel: z.boolean().describe("Whether trials of this task may overlap with others of the same suite."),
    graders: z
      .array(graderModel)
      .describe("Graders that files declare, besides those of every task of its form. Absent: none.")
      .exactOptional(),
    elicitation: z
      .array(elicitationModel)
      .describe(
        "Answers to what servers ask of the user, in order of trying; without one that fits it is declined.",
      )
      .exactOptional(),
    location,
    portable: portableModel.describe("Always there when `form` is `task`, absent otherwise.").exactOptional(),
    check: checkModel
      .describe("Which part of a server is checked; only when `form` is `check`.")
      .exactOptional(),
  })
  .meta({ id: "Task", description: "A portable unit of evaluation." });

export type Task = Model<typeof taskModel>;
/** A user turn and what is expected of it. */
export type Turn = Model<typeof turnModel>;
/** What the user answers when a server asks. */
export type ElicitationAnswer = Model<typeof elicitationModel>;
/** A grader that a file declares; see `GraderKind`. */
export type GraderSpec = Model<typeof graderModel>;
/** The parts of a task that come from its own file. In their strings templates are still to be replaced. */
export type PortableTask = Model<typeof portableModel>;
/** Something that must be there before a task can run. */
export type Requirement = Model<typeof requirementModel>;
/** An extension as a task uses it: an outside program that adds steps. */
export type ExtensionSpec = Model<typeof extensionModel>;

type RequestModel = (typeof mcpRequestModel.options)[number];
/** What the oracle does to solve a task. Strings may have templates. */
export type SolutionAction =
  | (Model<RequestModel> & Model<z.ZodObject<typeof solutionRequest>>)
  /** Ends the turn. */
  | { readonly kind: "say"; readonly text: string }
  | {
      readonly kind: "foreach";
      readonly variable: string;
      readonly in: string | readonly z.output<typeof json>[];
      readonly actions: readonly SolutionAction[];
    };
