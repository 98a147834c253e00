import * as z from "zod";
import { failOnNames, verdicts } from "../statistics/compare.ts";
import type { Model } from "./fields.ts";
import { costSchema } from "./grade.ts";
import { count, intervalSchema, milliseconds, share } from "./result-parts.ts";

const probability = z.number().min(0).max(1);
const verdict = z.enum(verdicts);
const questions = ["these tasks", "tasks like these"] as const;

const statementSchema = z
  .strictObject({
    question: z
      .enum(questions)
      .describe("`these tasks`: would the same tasks show it again; `tasks like these`: would other tasks."),
    metric: z.enum(["pass rate", "duration", "tokens", "cost"]).describe("What is compared."),
    verdict: verdict.describe("What is said of the second side; of duration and tokens less is better."),
    p: probability.describe("Probability of such a difference by chance, of this test alone."),
    decidingP: probability
      .describe(
        "The probability that the verdict goes by, where there are several comparisons (Holm) or trials without a verdict. Absent: `p`.",
      )
      .exactOptional(),
    text: z.string().describe("The verdict with its numbers in sentences."),
    changes: z.string().describe("How many tasks changed.").exactOptional(),
  })
  .meta({ id: "Statement", description: "What is said of one metric." });

const differenceShape = {
  value: z.number().describe("Second minus first."),
  low: z
    .number()
    .describe("Lower end of the 95 % interval. Absent where the tasks show no spread.")
    .exactOptional(),
  high: z.number().describe("Upper end.").exactOptional(),
  p: probability.describe("Probability of a difference as large by chance."),
  pairs: count.describe("Tasks that are compared.").exactOptional(),
  higher: count.describe("Tasks of which the second side passes more.").exactOptional(),
  lower: count.describe("Tasks of which it passes less.").exactOptional(),
};
const extreme = z.strictObject(differenceShape);

const differenceSchema = z
  .strictObject({
    ...differenceShape,
    least: extreme
      .describe(
        "The difference if the trials without a verdict had passed on the first side and failed on the second. Absent where all have one.",
      )
      .exactOptional(),
    most: extreme.describe("The opposite.").exactOptional(),
  })
  .meta({ id: "Difference", description: "A difference of mean pass rates." });

const ratioSchema = z
  .strictObject({
    pairs: count.describe("Tasks that are compared."),
    ratio: z.number().min(0).describe("Geometric mean of second divided by first."),
    low: z.number().min(0).describe("Lower end of its 95 % interval.").exactOptional(),
    high: z.number().min(0).describe("Upper end.").exactOptional(),
    p: probability.describe("Probability of a ratio as far from 1 by chance."),
  })
  .meta({ id: "Ratio", description: "How many times as large something is on the second side." });

const ratesSchema = z.strictObject({
  theseTasks: intervalSchema.describe("With the interval for running the same tasks again."),
  tasksLikeThese: intervalSchema.describe("With the interval for other tasks of this kind.").exactOptional(),
});

const taskSideSchema = z
  .strictObject({
    passed: count.describe("Trials that passed."),
    scored: count.describe("Trials with the verdict pass or fail."),
    unscored: count.describe("Trials that were to have a verdict and have none."),
    leftOut: count.describe(
      "Trials that were skipped on purpose, such as for a requirement that is not met.",
    ),
    passRate: share.describe("Absent if none has a verdict.").exactOptional(),
    durationMs: milliseconds.describe("Mean of the trials with a verdict.").exactOptional(),
    tokens: z.number().min(0).describe("Mean of those that used a model.").exactOptional(),
    cost: costSchema
      .describe("Mean of those that used a model. Absent if that of one is unknown.")
      .exactOptional(),
  })
  .meta({ id: "ComparedTrials", description: "The trials of a task on one side." });

const taskSchema = z
  .strictObject({
    task: z.string().describe("Name of the task."),
    suite: z.string().describe("The suite of a tool test.").exactOptional(),
    agent: z.string().describe("Absent where tasks are compared whatever their agents.").exactOptional(),
    variant: z.string().describe("Absent where tasks are compared whatever their variants.").exactOptional(),
    changed: z.literal(true).describe("It is not the same on both sides, and not compared.").exactOptional(),
    difference: z.number().describe("Second pass rate minus first.").exactOptional(),
    first: taskSideSchema.describe("Absent: the first side does not have it.").exactOptional(),
    second: taskSideSchema.exactOptional(),
  })
  .meta({ id: "ComparedTask", description: "A task on both sides." });

const toolSchema = z
  .strictObject({
    tool: z.string().describe("Name of the tool."),
    difference: z.number().describe("Second minus first mean pass rate of its tests."),
    p: probability.describe("Probability of such a difference by chance, of this tool alone."),
    adjustedP: probability.describe(
      "The same where one looks through all tools (Benjamini and Hochberg). The verdict goes by it.",
    ),
    verdict: z.enum(["better", "worse", "undecided"]).describe("What is said of the second side."),
  })
  .meta({ id: "ComparedTool", description: "The tests of a tool on both sides." });

const comparedSchema = z
  .strictObject({
    name: z.string().describe("The second side."),
    run: z.string().describe("Id of its run, where that is not its name.").exactOptional(),
    verdict: verdict.describe("That of the pass rate, for the question."),
    notes: z.array(z.string()).describe("What to know of the sides, such as that a run was interrupted."),
    statements: z.array(statementSchema).describe("Empty where no task was measured on both sides."),
    tasksCompared: count.describe("Tasks that both sides measured and that are the same."),
    tasksInAll: count.describe("Tasks that one of the sides has."),
    rates: z
      .strictObject({
        first: ratesSchema.describe("Of the first side."),
        second: ratesSchema.describe("Of the second side."),
      })
      .describe("Mean pass rates of both sides.")
      .exactOptional(),
    theseTasks: differenceSchema.exactOptional(),
    tasksLikeThese: differenceSchema.exactOptional(),
    tools: z
      .array(toolSchema)
      .describe("By tool, the tests of tools that both sides measured. Absent for fewer than two tools.")
      .exactOptional(),
    durations: ratioSchema.exactOptional(),
    tokens: ratioSchema.exactOptional(),
    costs: ratioSchema.exactOptional(),
    tasks: z.array(taskSchema).describe("Every task of both sides."),
  })
  .meta({ id: "Compared", description: "One side compared with the first." });

/** A comparison, such as `mcpvals compare --format json` writes. */
export const comparisonSchema = z
  .strictObject({
    schema: z.literal("mcpvals.comparison/1").describe("Name and version of this format."),
    first: z.string().describe("The side that the others are compared with."),
    firstRun: z.string().describe("Id of its run, where that is not its name.").exactOptional(),
    question: z.enum(questions).describe("Whose verdict `failOn` looks at."),
    margin: share
      .describe("A difference of pass rates that does not matter. Absent: none was named.")
      .exactOptional(),
    failOn: z
      .strictObject({
        verdict: z.enum(failOnNames).describe("What was asked for."),
        exitCode: z
          .union([z.literal(0), z.literal(1), z.literal(3)])
          .describe("0: not so; 1: it is so; 3: undecided."),
      })
      .describe("What was made of `--fail-on`. Absent: it was not given.")
      .exactOptional(),
    compared: z.array(comparedSchema).describe("The other sides, each compared with the first."),
  })
  .meta({ id: "Comparison", description: "Runs, variants, agents or baselines compared with the first." });

export type ComparisonDocument = Model<typeof comparisonSchema>;

/** One side against the first. */
export type ComparedDocument = ComparisonDocument["compared"][number];
export type Statement = Model<typeof statementSchema>;
export type Question = Statement["question"];
