import * as z from "zod";

const count = z.int().min(0);
const share = z.strictObject({
  value: z.number().describe("The value."),
  low: z.number().describe("Lower end of its 95 % interval."),
  high: z.number().describe("Upper end of its 95 % interval."),
});

/** What is known of a judge: how it voted on cases that people labelled. */
export const calibrationSchema = z
  .strictObject({
    model: z.string().describe("The judge's model id."),
    prompt: z.string().describe("`sha256:HEX` of its instructions."),
    threshold: z.number().describe("Lowest score that passes."),
    votes: z.int().min(1).describe("How often it was asked about each case."),
    labels: count.describe("Cases with a verdict of the judge."),
    unscored: count.describe("Cases without one; they are in no number."),
    tasks: count
      .describe("Different tasks of the labelled cases. Absent: an older mcpvals wrote it.")
      .exactOptional(),
    confusion: z
      .strictObject({
        passPass: count.describe("Both say pass."),
        passFail: count.describe("People say pass, the judge says fail."),
        failPass: count.describe("People say fail, the judge says pass."),
        failFail: count.describe("Both say fail."),
      })
      .describe("Cases by verdict: the first word is what people said, the second what the judge said."),
    worth: z
      .strictObject({
        pass: z.number().min(0).describe("Of those that people pass."),
        fail: z.number().min(0).describe("Of those that people fail."),
      })
      .describe(
        "How many independent cases the cases are worth, since those of one task are alike. Absent: each has a task of its own.",
      )
      .exactOptional(),
    agreement: share
      .describe("Share of cases with the same verdict, with its 95 % interval.")
      .exactOptional(),
    sensitivity: share.describe("Share of what people pass that the judge passes.").exactOptional(),
    specificity: share.describe("Share of what people fail that the judge fails.").exactOptional(),
    kappa: share
      .describe(
        "Cohen's kappa: agreement beyond that of chance. Where its interval is not known, both ends are the value.",
      )
      .exactOptional(),
    flipRate: z
      .number()
      .describe("Share of cases whose votes disagree on the verdict; absent with one vote.")
      .exactOptional(),
  })
  .meta({ id: "Calibration", description: "How far a judge agrees with people." });

export type Calibration = Readonly<z.output<typeof calibrationSchema>>;

/** A judge of a run, and how far its verdicts can be trusted. */
export const judgeSummarySchema = z
  .strictObject({
    grader: z
      .string()
      .describe(
        "Name of the grader that asked, with the criterion of an `llm` step: `verify-steps: contains`.",
      ),
    model: z.string().describe("The judge's model id."),
    prompt: z.string().describe("`sha256:HEX` of its instructions."),
    threshold: z.number().describe("Lowest score that passes."),
    votes: z.int().min(1).describe("How often it was asked about each trial."),
    graded: count.describe("Its verdicts: one a trial, or one for each step that asked it."),
    passed: count.describe("Verdicts that are a pass."),
    calibration: calibrationSchema.nullable().describe("How far it agrees with people; null: uncalibrated."),
    second: z
      .strictObject({
        model: z.string().describe("Its model id."),
        graded: count.describe("Trials with a verdict of both."),
        agreement: share.describe("Share of them in which both say the same.").exactOptional(),
        kappa: share.describe("Cohen's kappa of both.").exactOptional(),
      })
      .describe("A second judge that was asked the same. Absent if there was none.")
      .exactOptional(),
    correctedRate: share
      .describe(
        "Share of trials that people would pass, by Rogan and Gladen. Absent if uncalibrated, or if the judge is no better than chance.",
      )
      .exactOptional(),
  })
  .meta({ id: "JudgeSummary", description: "A judge of the run." });

export type JudgeSummary = Readonly<z.output<typeof judgeSummarySchema>>;
