import * as z from "zod";
import { anyObject, closedObject, filledText, httpUrl, nameKey } from "./config-fields.ts";

const modelFields = {
  model: filledText.meta({
    description: "`PROVIDER/MODEL`, such as `anthropic/claude-sonnet-4-5`; with `baseURL` any name.",
  }),
  baseURL: httpUrl.optional().meta({
    description: "Address of the provider's API, or of any OpenAI-compatible server.",
    defaultText: "the provider's own",
  }),
  apiKey: z.string().optional().meta({
    description: "Key for the provider. Better left to the environment, or written as `${VAR}`.",
    defaultText: "the provider's usual variable",
  }),
  api: z.enum(["responses", "chat"]).optional().meta({
    description: "Which of OpenAI's wire formats to speak.",
    defaultText: "the provider's usual one",
  }),
  temperature: z
    .number()
    .min(0)
    .optional()
    .meta({ description: "Sampling temperature.", defaultText: "the provider's" }),
  maxOutputTokens: z
    .int()
    .min(1)
    .optional()
    .meta({ description: "Most tokens that one answer may have.", defaultText: "the provider's" }),
};

const modelAgent = closedObject({
  type: z
    .literal("model")
    .optional()
    .meta({ description: "A language model in a tool loop.", defaultText: "`model`" }),
  ...modelFields,
  headers: z
    .record(filledText, z.string())
    .optional()
    .meta({ description: "HTTP headers sent to the provider. Their values are kept out of traces." }),
  maxSteps: z.int().min(1).default(20).meta({ description: "Model calls allowed in one user turn." }),
  system: z.string().optional().meta({ description: "System prompt.", defaultText: "none" }),
}).meta({ id: "ModelAgent", title: "Model agent", description: "A language model that is given the tools." });

const scriptedCall = closedObject({
  call: filledText.meta({ description: "Tool to call." }),
  server: filledText.optional().meta({
    description: "Server to call it on.",
    defaultText: "the one that offers the tool",
  }),
  args: anyObject.default({}).meta({ description: "Arguments of the call." }),
}).meta({ id: "ScriptedCall", title: "Scripted call", description: "Calls one tool." });

const scriptedSay = closedObject({
  say: z.string().meta({ description: "What the agent answers. This ends the turn." }),
}).meta({ id: "ScriptedSay", title: "Scripted words", description: "Says something." });

const scriptedAgent = closedObject({
  type: z.literal("scripted").meta({ description: "A written plan instead of a model." }),
  plan: z.record(nameKey, z.array(z.union([scriptedCall, scriptedSay]))).meta({
    description: "What to do, in order, by workflow name. Every workflow that the agent plays needs a plan.",
  }),
}).meta({
  id: "ScriptedAgent",
  title: "Scripted agent",
  description: "Plays a written plan; for examples, tests and work without a model.",
});

/** What `agents.NAME` may be. */
export const namedAgentSchema = z.union([
  filledText.regex(/^[^/\s]+\/\S+$/, { error: 'must be a model id such as "anthropic/claude-sonnet-4-5"' }),
  modelAgent,
  scriptedAgent,
]);

/** What `agent` may be; a text is the name of one in `agents`, or a model id. */
export const agentSchema = z.union([filledText, modelAgent, scriptedAgent]);

/** The model that judges. */
export const judgeSchema = closedObject({
  ...modelFields,
  passThreshold: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .meta({ description: "Lowest score that passes.", defaultText: "the config's `passThreshold`" }),
}).meta({
  id: "Judge",
  title: "Judge",
  description: "The model that grades workflows when a judge is asked for (`llmJudge`, or `--llm`).",
});
