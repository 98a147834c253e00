import * as z from "zod";
import type { Model } from "./fields.ts";
import { errorSchema } from "../base/serialized-error.ts";
import { profileSchema } from "./check.ts";
import { findingSchema } from "./finding.ts";

const count = z.int().min(0);
const share = z.number().min(0).max(1);

/** The verdict of a trial. */
export const verdictSchema = z.enum(["pass", "fail", "error", "timeout", "skip"]);
export type Verdict = z.output<typeof verdictSchema>;

/** The verdicts of a run. */
export const runVerdicts = ["pass", "fail", "incomplete", "interrupted"] as const;
export type RunVerdict = (typeof runVerdicts)[number];

export const judgeRecordSchema = z
  .strictObject({
    model: z.string().describe("The judge's model id."),
    prompt: z.string().describe("`sha256:HEX` of the judge's instructions, without the trial."),
    question: z
      .string()
      .describe(
        "`sha256:HEX` of all that the judge was asked, the trial included. Absent for a verdict on a step.",
      )
      .exactOptional(),
    threshold: share.describe("Lowest score that passes."),
    votes: z.array(share).describe("The score of each vote."),
  })
  .meta({ id: "JudgeRecord", description: "How a judge came to a grade." });

const judgedCheckSchema = z
  .strictObject({
    check: z.string().describe("Criterion of an `llm` step: contains, exact or rubric."),
    judge: judgeRecordSchema.describe("Who judged."),
  })
  .meta({ id: "JudgedCheck", description: "A verdict of a judge on one criterion of a step." });

export const attackOutcomeSchema = z
  .enum(["none", "succeeded", "resisted", "not-delivered", "proved-nothing", "no-tool", "needed-tool"])
  .describe(
    "What came of the attack; `none`: it is the trial without an attack; `not-delivered`: the agent never got it; `proved-nothing`: the agent got it, and there is no proof that it resists; `no-tool`: the agent has no tool that the attack asks for; `needed-tool`: it called the tool that the attack asks for, which shows nothing, since it also does without an attack, or may. Absent where there is no verdict about it.",
  );

export const gradeSchema = z
  .strictObject({
    grader: z.string().describe("Name of the grader."),
    verdict: z
      .enum(["pass", "fail", "error", "skip"])
      .describe("`error`: the grader gave no verdict; `skip`: there was nothing to grade."),
    score: share.nullable().describe("0 to 1; null if there is nothing to score."),
    reason: z.string().describe("Reason of the verdict."),
    evidence: z.array(z.int().min(1)).describe("Numbers of the trace events that the verdict is based on."),
    error: errorSchema.describe("Reason for the verdict `error`.").exactOptional(),
    weight: z
      .number()
      .positive()
      .describe("Weight of the score in the trial's score; 1 if absent.")
      .exactOptional(),
    required: z.literal(false).describe("Present if the trial passes without it.").exactOptional(),
    judge: judgeRecordSchema.describe("Who judged; absent if no model did.").exactOptional(),
    secondJudge: judgeRecordSchema
      .describe("Who was asked the same to compare; the grade does not depend on it.")
      .exactOptional(),
    judged: z
      .array(judgedCheckSchema)
      .describe("Verdicts of a judge that the grade rests on in part.")
      .exactOptional(),
    attack: attackOutcomeSchema.exactOptional(),
    profile: profileSchema
      .describe("What the server touched, in the trial of a check that looks at this.")
      .exactOptional(),
    findings: z.array(findingSchema).describe("Defects of the server, in trials of a check.").exactOptional(),
  })
  .meta({ id: "Grade", description: "The grade of one grader for one trial." });

export const reportedSchema = z
  .strictObject({
    by: z.string().describe("Name of the tool."),
    verdict: z
      .enum(["pass", "fail", "error"])
      .describe("Its verdict. `error`: it could not judge the trial."),
    reason: z.string().describe("Its reasons; empty if it gives none."),
  })
  .meta({
    id: "ReportedVerdict",
    description:
      "What another tool says of a trial: mcpvals has no evidence of it, so that it is no verdict of its own.",
  });

export const costSchema = z
  .strictObject({
    amount: z.number().min(0).describe("How much."),
    currency: z.string().describe("Code of the currency, such as USD."),
    isPartial: z
      .literal(true)
      .describe("Present if there is more, of which the cost is unknown.")
      .exactOptional(),
  })
  .meta({ id: "Cost", description: "Money." });

export const usageSchema = z
  .strictObject({
    inputTokens: count.describe("Input tokens, as counted by the provider."),
    outputTokens: count.describe("Output tokens, as counted by the provider."),
    cacheReadTokens: count.describe("Input tokens that were read from a cache.").exactOptional(),
    cacheWriteTokens: count.describe("Input tokens that were written to a cache.").exactOptional(),
    requests: count
      .describe("Requests to the model that were answered; absent when unknown.")
      .exactOptional(),
    isPartial: z
      .literal(true)
      .describe(
        "The tokens of a request are unknown, since its answer does not say them; those that are known are counted.",
      )
      .exactOptional(),
    cost: costSchema
      .describe("By the prices that were given, or as an agent program reports it. Absent: unknown.")
      .exactOptional(),
  })
  .meta({ id: "Usage", description: "Use of a model." });

/** How a judge came to a grade. */
export type JudgeRecord = Model<typeof judgeRecordSchema>;
/** A verdict of a judge on one criterion of a step. */
export type JudgedCheck = Model<typeof judgedCheckSchema>;
/** What one grader says of one trial. */
export type Grade = Model<typeof gradeSchema>;
/** Tokens, as the provider reports them, and what they cost. */
export type Usage = Model<typeof usageSchema>;
/** What another tool says of a trial. */
export type ReportedVerdict = Model<typeof reportedSchema>;
/** Money. */
export type Cost = Model<typeof costSchema>;
