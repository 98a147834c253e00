import * as z from "zod";
import { anyJson, anyObject, closedObject, duration, filledText } from "./config-fields.ts";

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
export const workflowSchema = closedObject({
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
export const suiteSchema = closedObject({
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
