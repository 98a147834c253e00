import * as z from "zod";
import { agentIdentitySchema } from "./agent.ts";
import type { Model } from "./fields.ts";
import { count, milliseconds } from "./result-parts.ts";

/** Most trials of a task: far more than a run has. */
const maxTrials = 1_000_000;

const baselineTaskSchema = z
  .strictObject({
    task: z.string().describe("Name of the task."),
    suite: z.string().describe("The suite of a tool test.").exactOptional(),
    variant: z.string().describe("Name of the variant, if the eval has variants.").exactOptional(),
    agent: z.string().describe("Name of the agent. Absent when no agent takes part.").exactOptional(),
    passed: count.describe("Trials that passed."),
    scored: z.int().min(1).max(maxTrials).describe("Trials with the verdict pass or fail."),
    durationMs: milliseconds.describe("Mean of these trials, to three digits.").exactOptional(),
    tokens: z.number().min(0).describe("Mean of those that used a model, to three digits.").exactOptional(),
    cost: z
      .strictObject({
        amount: z.number().min(0).describe("Mean of those that used a model, to three digits."),
        currency: z.string().describe("Its currency."),
      })
      .describe("Absent where that of a trial is not known.")
      .exactOptional(),
    fingerprint: z
      .string()
      .describe("Hash of what the task is and how it is graded: a task with another one is not compared.")
      .exactOptional(),
  })
  .meta({ id: "BaselineTask", description: "A task with its agent and variant." });

/** A baseline: what a run came to, to be committed and compared with. */
export const baselineSchema = z
  .strictObject({
    schema: z.literal("mcpvals.baseline/1").describe("Name and version of this format."),
    mcpvals: z.string().describe("Version of mcpvals that wrote it."),
    name: z.string().describe("Name of the eval."),
    run: z.string().describe("Id of the run that recorded the trials."),
    agents: z
      .array(agentIdentitySchema)
      .describe("The agents that acted. Absent without any, and in baselines of older versions.")
      .exactOptional(),
    tasks: z
      .array(baselineTaskSchema)
      .min(1)
      .describe("Sorted by task, variant and agent; every trial that was to have a verdict has one."),
  })
  .meta({ title: "mcpvals baseline", description: "What later runs are compared with." });

export type Baseline = Model<typeof baselineSchema>;
export type BaselineTask = Model<typeof baselineTaskSchema>;
