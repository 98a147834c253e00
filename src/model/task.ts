import * as z from "zod";
import type { SourceLocation } from "../base/error.ts";
import { exact, withoutUndefined } from "../base/json.ts";
import { checkModel } from "./check.ts";
import {
  closedObject,
  type ExpectedState,
  expectedStateSchema,
  filledText,
  json,
  jsonObject,
  milliseconds,
  type Model,
  named,
  optional,
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

/** Turns that a model plays the user in, where nothing else is said. */
const defaultMaxTurns = 10;

const reply = closedObject({
  when: optional(
    filledText,
    "Text that the agent's words of the last turn must contain, ignoring case.",
    "it is said whatever the agent said",
  ),
  say: filledText.describe("What the user says."),
}).meta(named("Reply", "Reply", "What a simulated user says, once at most."));

/** A simulated user as files have it. */
export const simulatedUserSchema = closedObject({
  goal: optional(
    filledText,
    "What the user wants to reach: a model plays a user who wants this, and ends the conversation when it is reached or cannot be. The agent does not see it.",
  ),
  facts: optional(
    z.array(filledText),
    "Beside `goal`: what the user knows, and tells when it matters.",
    "nothing but the goal",
  ),
  maxTurns: optional(
    z.int().min(1).max(100),
    "Beside `goal`: turns after which the conversation is ended and graded as it is.",
    `\`${defaultMaxTurns}\``,
  ),
  replies: optional(
    z.array(z.union([filledText, reply])).min(1),
    "In place of `goal`, without a model: what the user says, each once, in each turn the first that fits. When none fits, the conversation ends.",
  ),
})
  .refine(({ goal, replies }) => (goal === undefined) !== (replies === undefined), {
    error: "must have either goal or replies",
  })
  .refine(({ goal, facts, maxTurns }) => goal !== undefined || (facts ?? maxTurns) === undefined, {
    error: "has facts or maxTurns, which need goal",
  })
  .meta(named("SimulatedUser", "Simulated user", "A user whose words depend on what the agent says."));

/** A simulated user as it stands in a file. */
export type WrittenUser = z.output<typeof simulatedUserSchema>;

export const simulatedUserModel = z
  .discriminatedUnion("kind", [
    z.strictObject({
      kind: z.literal("model"),
      goal: text.describe("What the user wants to reach."),
      facts: z.array(text).describe("What it knows besides."),
      maxTurns: z.int().min(1).describe("Turns after which the conversation is ended."),
      model: text.describe("The model that plays it. Absent: none was chosen.").exactOptional(),
      hash: text
        .describe("SHA-256 of that model's instructions and settings, 16 hexadecimal digits.")
        .exactOptional(),
    }),
    z.strictObject({
      kind: z.literal("script"),
      replies: z.array(
        z.strictObject({
          when: text
            .describe("Text that the agent's words of the last turn must contain. Absent: any words will do.")
            .exactOptional(),
          say: text.describe("What the user says."),
        }),
      ),
    }),
  ])
  .meta({
    id: "SimulatedUser",
    description: "A user whose words depend on what the agent says; it plays all further turns.",
  });

const turnModel = z
  .strictObject({
    user: z
      .union([text, simulatedUserModel])
      .describe("What the user says; in the last turn it may be a simulated user."),
    expectedState: z
      .union([text, expectedStateSchema as z.ZodType<ExpectedState>])
      .describe(
        "What must hold at the end of the turn; of a simulated user, of one of its turns. A text: the last assistant message or the last tool result contains it, ignoring case.",
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

const useLimitsModel = z
  .strictObject({
    maxCost: z.number().describe("Money, in the currency of the prices.").exactOptional(),
    maxTokens: z.int().describe("Tokens, read and written.").exactOptional(),
    maxToolCalls: z.int().describe("Calls of servers' tools.").exactOptional(),
    maxTurns: z.int().describe("Requests to its model, in all turns of the user.").exactOptional(),
  })
  .meta({
    id: "UseLimits",
    description: "What the agent of one trial may use. What is absent has no limit.",
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
    workspace: z
      .strictObject({
        dir: text.describe("Absolute path of the folder that they are relative to."),
        fixtures: z
          .array(text)
          .describe("Paths relative to `dir`; each is copied into the workspace under its last name."),
      })
      .describe("Of a workflow: what its trials find in their workspace. Absent: nothing.")
      .exactOptional(),
    limits: useLimitsModel
      .describe("Limits of its own; each wins over that of the eval. Absent: none.")
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
/** What the agent of one trial may use. */
export type UseLimits = Model<typeof useLimitsModel>;
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

/** A user whose words depend on what the agent says. */
export type SimulatedUser = Model<typeof simulatedUserModel>;
/** One that a model plays. */
export type ModelUser = Extract<SimulatedUser, { readonly kind: "model" }>;

/** Most turns that a user can have. */
export function mostTurns(user: string | SimulatedUser): number {
  if (typeof user === "string") return 1;
  return user.kind === "model" ? user.maxTurns : user.replies.length;
}

/** What the user of a turn says, or who plays it, as the model has it. */
export function userOf(written: string | WrittenUser): string | SimulatedUser {
  if (typeof written === "string") return written;
  const { goal, facts = [], maxTurns = defaultMaxTurns, replies = [] } = written;
  if (goal !== undefined) return { kind: "model", goal, facts, maxTurns };
  return {
    kind: "script",
    replies: replies.map((each) => (typeof each === "string" ? { say: each } : exact(each))),
  };
}

/** A user with its texts changed. */
export function mapUserTexts<U extends string | SimulatedUser>(user: U, change: (text: string) => string): U;
export function mapUserTexts(
  user: string | SimulatedUser,
  change: (text: string) => string,
): string | SimulatedUser {
  if (typeof user === "string") return change(user);
  return user.kind === "model"
    ? { ...user, goal: change(user.goal), facts: user.facts.map(change) }
    : {
        ...user,
        replies: user.replies.map(({ when, say }) =>
          withoutUndefined({ when: when && change(when), say: change(say) }),
        ),
      };
}

/** A turn's prompt as lists show it: what the user says, or what it wants. */
export function promptOf({ user }: { readonly user: string | SimulatedUser }): string {
  if (typeof user === "string") return user;
  return user.kind === "model" ? user.goal : (user.replies[0]?.say ?? "");
}

/** Said of one in another place. */
export const simulatedLast = "a simulated user must be in the last turn: it plays all further ones";

/** The task's simulated user, who plays its last turn and all further ones; undefined: it has none. */
export function simulatedUserOf({
  turns,
}: {
  readonly turns: readonly { readonly user: string | SimulatedUser }[];
}): SimulatedUser | undefined {
  const user = turns.at(-1)?.user;
  return typeof user === "string" ? undefined : user;
}

/** The turn of a task that a played turn belongs to: a simulated user plays the last one of the task as often as it speaks. */
export function turnOf<T>({ turns }: { readonly turns: readonly T[] }, played: number): T | undefined {
  return turns[Math.min(played, turns.length - 1)];
}
