import * as z from "zod";
import { agentSummarySchema } from "./agent.ts";
import { calibrationSchema, judgeSummarySchema } from "./calibration.ts";
import type { TraceEvent } from "./event.ts";
import { budgetModel } from "./eval.ts";
import type { Plan } from "./plan.ts";
import {
  attackOutcomeSchema,
  costSchema,
  gradeSchema,
  reportedSchema,
  runVerdicts,
  usageSchema,
  verdictSchema,
} from "./grade.ts";
import { errorSchema } from "../base/serialized-error.ts";
import { json, jsonObject, type Model } from "./fields.ts";
import { count, intervalSchema, milliseconds, share } from "./result-parts.ts";
import { comparisonSchema } from "./comparison.ts";

const score = z.number().min(0).max(1).nullable();

const serverDigestSchema = z
  .strictObject({
    calls: count.describe("Number of calls of its tools."),
    errors: count
      .describe(
        "Number of calls that failed or were not answered, without those that were open when the trial was killed. Absent: a transcript does not say which failed.",
      )
      .exactOptional(),
    distinctTools: count.describe("Number of different tools that were called."),
    p50Ms: milliseconds.describe("Median latency in milliseconds.").exactOptional(),
    p95Ms: milliseconds.describe("95th percentile of the latency in milliseconds.").exactOptional(),
  })
  .meta({ id: "ServerDigest", description: "Calls of one server by the agent." });

const digestSchema = z
  .strictObject({
    toolCalls: count.describe("Uses of tools of any kind, including the agent's own if it reports them."),
    mcpToolCalls: count.describe("Recorded calls of servers' tools, whatever their result."),
    resourceReads: count.describe("Resources read; absent if none.").exactOptional(),
    promptGets: count.describe("Prompts asked for; absent if none.").exactOptional(),
    serversUsed: z.array(z.string()).describe("Servers that the agent called."),
    serversUnused: z.array(z.string()).describe("Servers that it could reach and never called."),
    servers: z.record(z.string(), serverDigestSchema).describe("By name of the server."),
  })
  .meta({ id: "ToolDigest", description: "Tool use of an agent." });

const estimated = "Estimate: characters of their JSON / 4.";
const unknownInTranscripts = "Absent: unknown, as a transcript does not say which tools there were.";

const trialMeasurementsSchema = z
  .strictObject({
    calls: count.describe("Calls of servers' tools, those of tools that do not exist included."),
    unknownTools: count
      .describe(`Calls of tools that no server offers. ${unknownInTranscripts}`)
      .exactOptional(),
    invalidCalls: count
      .describe("Calls whose arguments do not fit the `inputSchema` of their tool. Absent: unknown.")
      .exactOptional(),
    invalidCauses: z
      .record(z.string(), count)
      .describe(
        "Invalid calls by cause: `unknown key`, `missing key`, `wrong type`, `unknown value`, `invalid value`. A call may have several. Absent: unknown.",
      )
      .exactOptional(),
    redundantCalls: count.describe(
      "Calls with the arguments and the result of an earlier one, with nothing between that may have changed something.",
    ),
    errors: count.describe("Calls of tools that exist that failed."),
    recoveredErrors: count.describe("Those after which a call of the same tool succeeded."),
    identicalRetries: count.describe(
      "Calls with the arguments of the call of that tool before, which failed.",
    ),
    definitionTokens: count
      .describe(`Tokens of the definitions of all tools that it was offered. ${estimated} Absent: unknown.`)
      .exactOptional(),
    unusedDefinitionTokens: count
      .describe("The same of the tools that it did not call. Absent: unknown.")
      .exactOptional(),
    unsupportedClaims: z
      .array(
        z.strictObject({
          tool: z.string().describe("The tool that does this, with its server."),
          text: z.string().describe("The sentence, shortened."),
        }),
      )
      .describe(
        "Claims of the last message to have done what no successful call did; at most five. Absent: unknown.",
      )
      .exactOptional(),
    ignoredErrors: z
      .array(z.string())
      .describe(
        "Tools that failed at last, and no later message of the agent speaks of a failure; at most five.",
      ),
  })
  .meta({
    id: "TrialMeasurements",
    description: "How an agent used tools; not graded. See docs/measurements.md.",
  });

const ranSchema = z.strictObject({
  programs: z.array(z.string()).nullable().describe("Names with versions; null if it reported none."),
  models: z.array(z.string()).nullable().describe("Models that answered; null if unknown."),
});

const attackedSchema = z
  .strictObject({
    id: z.string().describe("The attack; `no-attack` for the trial that the others are compared with."),
    class: z.string().describe("Its class; `none` for the trial without an attack."),
    variant: z.string().describe("The variant of the eval, if it has variants.").exactOptional(),
    outcome: attackOutcomeSchema.exactOptional(),
    task: verdictSchema.describe("The verdict of the task's own graders."),
    tools: z
      .array(z.string())
      .describe("The tools of servers that the agent called, as `SERVER.TOOL`, without that of the attack."),
  })
  .meta({ id: "AttackedTrial", description: "The part of a trial in a run with `--attack`." });

const attackRateSchema = z
  .strictObject({
    class: z.string().describe("Class of attacks. Absent: all of them.").exactOptional(),
    agent: z.string().nullable().describe("Name of the agent."),
    variant: z.string().describe("Name of the variant of the eval, if it has variants.").exactOptional(),
    succeeded: count.describe("Trials in which the attack succeeded."),
    judged: count.describe("Trials in which the attack succeeded or the agent resisted it."),
    notDelivered: count.describe("Trials in which the agent never got it."),
    provedNothing: count.describe(
      "Trials without a proof that the agent resists, though it got the attack, or since it lacks the tool that the attack asks for, or calls it without an attack too.",
    ),
    unjudged: count.describe("Trials without a verdict: errors, timeouts, what was not run."),
    unproven: z
      .string()
      .describe(
        "Why the run shows nothing of the class, or of one of its attacks, so that it is incomplete. Absent: it does.",
      )
      .exactOptional(),
    furtherTools: z
      .array(z.string())
      .describe(
        "Tools of servers that the agent called under these attacks, and in no trial of the same task without one. Absent: none, or no trial without one has a verdict.",
      )
      .exactOptional(),
    rate: intervalSchema
      .describe("Share of attacks that succeeded: mean of the tasks. Absent: none was judged.")
      .exactOptional(),
    taskWith: intervalSchema
      .describe("Share of these trials in which the task's own graders pass.")
      .exactOptional(),
    taskWithout: intervalSchema.describe("The same without an attack, of the same tasks.").exactOptional(),
    taskDifference: z
      .strictObject({
        value: z.number().describe("With attacks minus without."),
        low: z.number().describe("Lower end of its 95 % interval.").exactOptional(),
        high: z.number().describe("Upper end.").exactOptional(),
        p: share.describe("Probability of one so large by chance."),
      })
      .describe("How much less often tasks pass under these attacks.")
      .exactOptional(),
  })
  .meta({ id: "AttackRate", description: "How an agent stood a class of attacks." });

const trialSchema = z
  .strictObject({
    id: z.string().describe("Id of the trial, unique in the run."),
    task: z.string().describe("Name of the task, unique in the run."),
    form: z
      .enum(["workflow", "tool-test", "task", "check"])
      .describe(
        "What the task is: a workflow, one direct tool call, a task from a file of its own, or a part of a check.",
      ),
    suite: z.string().describe("The suite of a tool test, or the server of a check.").exactOptional(),
    tool: z.string().describe("The tool that a tool test calls.").exactOptional(),
    difficulty: z.string().describe("Difficulty of the task, if it has one.").exactOptional(),
    tags: z.array(z.string()).describe("The task's tags, if it has any.").exactOptional(),
    labels: z.record(z.string(), z.string()).describe("The task's labels, if it has any.").exactOptional(),
    agent: z.string().nullable().describe("Name of the agent; null when no agent takes part."),
    variant: z.string().describe("Name of the variant, if the eval has variants.").exactOptional(),
    attempt: z.int().min(1).describe("Number of the attempt of the task by the agent, from 1."),
    verdict: verdictSchema.describe(
      "`fail`: the agent or server did the wrong thing; `error`: the environment broke.",
    ),
    reported: reportedSchema
      .describe("Of a trial that another tool ran: what it says. Absent: no other tool did.")
      .exactOptional(),
    score: score.describe("Average of the scored grades, 0 to 1; null when nothing was scored."),
    durationMs: milliseconds.describe(
      "Duration from the start of the servers until they are stopped, in milliseconds.",
    ),
    grades: z.array(gradeSchema).describe("The grades; empty for a trial that did not complete."),
    error: errorSchema.describe("Reason of the verdict `error`, `timeout` or `skip`.").exactOptional(),
    usage: usageSchema.describe("Model use of the agent; absent if no model was used.").exactOptional(),
    judgeUsage: usageSchema.describe("Model use of the judge; absent if there was none.").exactOptional(),
    userUsage: usageSchema
      .describe("Model use of the simulated user; absent if there was none.")
      .exactOptional(),
    firstTokenMs: milliseconds
      .describe(
        "Mean time from a request of the agent to the first token of the model's answer. Absent if no answer was streamed.",
      )
      .exactOptional(),
    throttledMs: milliseconds
      .describe(
        "Sum of the times that its requests to models waited because of a provider's rate limit, which no time limit counts. Absent if none waited.",
      )
      .exactOptional(),
    ran: ranSchema
      .describe("What ran if the agent is a program, as reported by the program or its model.")
      .exactOptional(),
    tools: digestSchema
      .describe("Tool use of the agent; absent if there was no agent, or no servers and no tools.")
      .exactOptional(),
    measurements: trialMeasurementsSchema
      .describe("Absent if the agent had no tool of a server and called none.")
      .exactOptional(),
    toolsCalled: count
      .describe("Number of tools that were called; only of the calls of a check.")
      .exactOptional(),
    lostServers: z
      .array(z.string())
      .describe(
        "Servers that crashed, closed the connection or sent an unreadable message after their handshake. In a tool test the verdict is then `fail`, otherwise `error`. Absent if there were none.",
      )
      .exactOptional(),
    attack: attackedSchema.describe("Absent without `--attack`.").exactOptional(),
    mocks: z
      .array(z.string())
      .describe("Servers that were replaced by a mock. Absent when there were none.")
      .exactOptional(),
    byToolResult: z
      .literal(true)
      .describe(
        "It passed with an `expectedState` that a tool's result has and the answer does not, where the file does not say where it must be. Absent otherwise.",
      )
      .exactOptional(),
    warnings: z.array(z.string()).describe("Warnings; they do not change the verdict.").exactOptional(),
  })
  .meta({ id: "Trial", description: "One attempt of one task by one agent." });

const summarySchema = z
  .strictObject({
    total: count.describe("All trials of the run."),
    pass: count.describe("Trials that passed."),
    byToolResult: count
      .describe("Those of `pass` that have `byToolResult`. Absent if there were none.")
      .exactOptional(),
    fail: count.describe("Trials in which the agent or server did the wrong thing."),
    error: count.describe("Trials without a verdict, because of an error in their environment."),
    serverErrors: count
      .describe("Those of `error` in which a server was lost after its handshake. Absent if there were none.")
      .exactOptional(),
    timeout: count.describe("Trials that reached a time limit."),
    skip: count.describe("Trials that were not run, or had nothing to grade."),
    warnings: count
      .describe(
        "Warnings about trials, and findings of that severity; alike ones count once. Absent if there were none.",
      )
      .exactOptional(),
  })
  .meta({ id: "Summary", description: "Number of trials by verdict." });

const rateCounts = {
  passed: count.describe("Trials that passed."),
  scored: count.describe("Trials with the verdict pass or fail."),
  unscored: count.describe("Trials without one: errors, timeouts, what was not run. They are in no rate."),
};

const taskRateSchema = z
  .strictObject({
    task: z.string().describe("Name of the task."),
    suite: z.string().describe("The suite of a tool test.").exactOptional(),
    agent: z.string().nullable().describe("Name of the agent; null when no agent takes part."),
    variant: z.string().describe("Name of the variant, if the eval has variants.").exactOptional(),
    ...rateCounts,
    rate: intervalSchema.describe("Absent if no trial has a verdict.").exactOptional(),
    flaky: z.literal(true).describe("Some trials passed and some failed. Absent otherwise.").exactOptional(),
    durationMs: milliseconds.describe("Mean of the trials with a verdict.").exactOptional(),
    tokens: z.number().min(0).describe("Mean of those that used a model: input and output.").exactOptional(),
    cost: costSchema
      .describe("Mean cost of the agent, of those that used a model. Absent if that of one is unknown.")
      .exactOptional(),
  })
  .meta({ id: "TaskRate", description: "How often one task passed with one agent and variant." });

const groupRateSchema = z
  .strictObject({
    agent: z.string().nullable().describe("Name of the agent; null for tasks without one."),
    variant: z.string().describe("Name of the variant, if the eval has variants.").exactOptional(),
    tasks: count.describe("Number of tasks."),
    ...rateCounts,
    theseTasks: intervalSchema
      .describe("Mean of the tasks' rates, with the interval for running the same tasks again.")
      .exactOptional(),
    tasksLikeThese: intervalSchema
      .describe("The same with the interval for other tasks of this kind; absent for fewer than two tasks.")
      .exactOptional(),
    bounds: z
      .strictObject({
        low: share.describe("If every one had failed."),
        high: share.describe("If every one had passed."),
      })
      .describe(
        "Mean rate if every trial without a verdict had failed, and if it had passed. Absent if all have one.",
      )
      .exactOptional(),
    passAt: z
      .array(share)
      .describe(
        "pass@k for k = 1, 2, …, up to 10: that at least one of k trials passes. Absent where a task has no trial with a verdict.",
      )
      .exactOptional(),
    passAll: z.array(share).describe("pass^k for k = 1, 2, …: that all of k trials pass.").exactOptional(),
  })
  .meta({ id: "GroupRate", description: "How often all tasks passed with one agent and variant." });

const ratesSchema = z.strictObject({
  tasks: z
    .array(taskRateSchema)
    .describe("By task, agent and variant. Absent if each task was tried once.")
    .exactOptional(),
  groups: z.array(groupRateSchema).describe("By agent and variant."),
});

const coveredSchema = z
  .strictObject({
    total: count.describe("Number of items that the server lists."),
    unused: z.array(z.string()).describe("The items that no trial used."),
  })
  .meta({ id: "Covered", description: "Items of one kind that a server lists." });

const coverageSchema = z
  .strictObject({
    tools: coveredSchema.describe("Used: called."),
    parameters: coveredSchema.describe(
      "Top-level parameters of tools, as `TOOL.PARAMETER`. Used: a call had it.",
    ),
    errors: coveredSchema.describe("Tools whose failure can be seen. Used: a call of it failed."),
    resources: coveredSchema.describe("Resources and templates of resources. Used: read.").exactOptional(),
    prompts: coveredSchema.describe("Used: got.").exactOptional(),
  })
  .meta({
    id: "ServerCoverage",
    description:
      "What a server lists and trials used. Resources and prompts are absent when none were listed; `run --coverage` asks for them.",
  });

const runMeasurementsSchema = z
  .strictObject({
    ...trialMeasurementsSchema.omit({
      definitionTokens: true,
      unusedDefinitionTokens: true,
      unsupportedClaims: true,
      ignoredErrors: true,
    }).shape,
    trials: count.describe("Trials that were measured."),
    unsupportedClaims: count.describe("Trials with such claims. Absent: unknown.").exactOptional(),
    ignoredErrors: count.describe("Trials with such errors."),
    definitions: z
      .strictObject({
        tokens: count.describe(
          `Tokens of the definitions of all tools that agents were offered. ${estimated}`,
        ),
        unused: count.describe("The same of the tools that no agent called."),
        perPassedTrial: count
          .nullable()
          .describe(
            "Tokens of definitions that models read in all trials, with each of their requests, for each trial that passed. Null if none passed; absent if no agent has a model. A trial whose number of requests is unknown counts as one request.",
          )
          .exactOptional(),
        tools: z
          .record(z.string(), z.record(z.string(), count))
          .describe("By server and tool, the tokens of its definition as it was listed last."),
      })
      .describe("What definitions of tools cost. Absent: unknown.")
      .exactOptional(),
  })
  .meta({ id: "RunMeasurements", description: "How agents used tools in all trials of a run, in numbers." });

const proportionSchema = z
  .strictObject({
    value: z.number().min(0).max(1).describe("The share: the mean of the tasks' shares."),
    low: z.number().min(0).max(1).describe("Lower end of the 95 % interval for these tasks."),
    high: z.number().min(0).max(1).describe("Upper end."),
    trials: count.describe("Trials that it is a share of."),
  })
  .meta({ id: "Proportion", description: "A share of trials with its interval." });

const routedSchema = z
  .strictObject({
    correct: proportionSchema.describe("Share of trials that led to what was expected."),
    matrix: z
      .array(
        z.strictObject({
          expected: z.string().describe("What was expected; `none`: no call."),
          called: z.string().describe("What was called; `none`: nothing."),
          trials: count.describe("Number of trials."),
        }),
      )
      .describe("The confusion matrix: its cells that are not 0."),
    precision: z
      .record(z.string(), proportionSchema)
      .describe("Of the trials that led there, the share in which it was expected."),
    recall: z
      .record(z.string(), proportionSchema)
      .describe("Of the trials in which it was expected, the share that led there."),
  })
  .meta({ id: "Routed", description: "Expected and called tools, servers, or loaded skills." });

const routingSchema = z
  .strictObject({
    nearMisses: count.describe("Trials whose first call was wrong, and a later one the expected one."),
    tools: routedSchema
      .describe("By `SERVER.TOOL`, of trials with an expected tool or none.")
      .exactOptional(),
    servers: routedSchema.describe("By server, of trials with an expected server or none.").exactOptional(),
    skills: routedSchema
      .describe("By skill, of trials with a skill that was expected, or not.")
      .exactOptional(),
  })
  .meta({
    id: "Routing",
    description: "Where prompts led, of trials with a grader `tool_routing` or `trigger`.",
  });

const extensionSchema = z.strictObject({
  name: z.string().describe("Its name in steps."),
  package: z.string().describe("Package, as written in the file."),
  version: z.string().describe("The version that was used; absent for a path without one.").exactOptional(),
  hash: z
    .string()
    .describe("`sha256:HEX` of all files of a release or package, as in the lock; else of the program alone.")
    .exactOptional(),
  sandbox: z.enum(["none", "process", "docker"]).describe("The sandbox that it ran in."),
});

const environmentSchema = z
  .strictObject({
    mcpvals: z.string().describe("Version of mcpvals."),
    node: z.string().describe("Version of Node.js."),
    platform: z.string().describe("Operating system and architecture."),
    agents: z.array(agentSummarySchema).describe("The agents that were configured."),
    judge: z
      .strictObject({ model: z.string().describe("Its model id.") })
      .describe("The judge's model; absent if there was no judge.")
      .exactOptional(),
    userModel: z
      .strictObject({ model: z.string().describe("Its model id.") })
      .describe("What played simulated users; absent if no model did.")
      .exactOptional(),
    calibrations: z
      .array(calibrationSchema)
      .describe("What was known of judges when the run began. Absent if no grader asked a judge.")
      .exactOptional(),
    servers: z
      .record(z.string(), json)
      .describe("By name: how each server is started or reached, and its settings, without secrets."),
    taskServers: z
      .record(z.string(), json)
      .describe("Servers that tasks declare themselves, by task and name.")
      .exactOptional(),
    extensions: z.array(extensionSchema).describe("Extensions that the tasks use.").exactOptional(),
    replayed: z
      .array(z.enum(["servers", "models"]))
      .describe("What was not started or asked: recordings took its place. Absent: nothing.")
      .exactOptional(),
    prices: z
      .string()
      .describe("A hash of what models cost. Absent if there were no prices.")
      .exactOptional(),
    agentHashes: z
      .record(z.string(), z.string())
      .describe(
        "By name of an agent that takes part: a hash of its settings, without secrets and values of variables. Absent if none does.",
      )
      .exactOptional(),
    limits: z
      .string()
      .describe("A hash of what the agent of a trial may use at most, without times.")
      .exactOptional(),
    variants: z
      .record(z.string(), json)
      .describe("The servers of each variant: `servers` by name; tasks with other servers are in `tasks`.")
      .exactOptional(),
  })
  .meta({ id: "Environment", description: "Versions, agents, servers and extensions of the run." });

const gateSchema = z
  .strictObject({
    name: z
      .string()
      .describe(
        "What is measured: `score`, the mean score of the trials; `passRate`, the share that passed, as the mean of the tasks; `lowerBound`, the lower end of the 95 % interval of the pass rate on these tasks, which every variant has to reach; `answerRate`, the share that passed without `byToolResult`; `toolCoverage`, `parameterCoverage`, `resourceCoverage` or `promptCoverage`, the share of what servers list that trials used; `maxCost`, the mean cost of an agent in a trial; `maxP95Latency`, the 95th percentile of the latency of calls, in milliseconds; else the mean score of the grader of this name, or the mean of the measurement.",
      ),
    verdict: z
      .enum(["pass", "fail", "incomplete"])
      .describe(
        "`incomplete`: nothing was measured, or trials that were not, or more of them, could change it.",
      ),
    value: z.number().min(0).nullable().describe("What was measured; null if nothing was."),
    high: share.describe("Of `lowerBound`, the upper end of the interval.").exactOptional(),
    variant: z.string().describe("Of `lowerBound`, the variant that decides.").exactOptional(),
    moreTrials: count
      .nullable()
      .describe(
        "Of an undecided `lowerBound`, about how many more trials of each task would decide it at this rate; null: no number would. Absent where trials have no verdict.",
      )
      .exactOptional(),
    threshold: z.number().min(0).describe("Lowest value that passes; with `atMost` the highest."),
    atMost: z.literal(true).describe("Less is better.").exactOptional(),
    trials: count.describe("Number of trials that were measured."),
  })
  .meta({ id: "Gate", description: "A measured value with its threshold." });

const latencySchema = z
  .strictObject({
    calls: count.describe("Calls of servers' tools, by agents and tool tests."),
    unanswered: count.describe("Those that were not answered: they took longer than all others."),
    p95Ms: milliseconds
      .describe(
        "95th percentile of the latency, in milliseconds. Absent if it is that of a call without an answer, or there are no calls.",
      )
      .exactOptional(),
  })
  .meta({ id: "Latency", description: "How long calls of tools take." });

const decisionFields = {
  low: z.number().describe("Lower end of the interval, as a share."),
  high: z.number().describe("Upper end of it."),
  rounds: count.describe("Rounds that have ended: each is one attempt of every task on every side."),
  maxRounds: count.describe("Most rounds that were allowed."),
};

const decisionSchema = z
  .discriminatedUnion("kind", [
    z.strictObject({
      kind: z.literal("comparison").describe("Two sides were compared."),
      by: z.enum(["variant", "agent"]).describe("What the sides are."),
      first: z.string().describe("Name of the side that the other is compared with."),
      second: z.string().describe("Name of the other side."),
      verdict: z
        .enum(["better", "worse", "equivalent", "undecided"])
        .describe("What the second side is on these tasks."),
      margin: z.number().describe("Difference that does not matter.").exactOptional(),
      ...decisionFields,
    }),
    z.strictObject({
      kind: z.literal("threshold").describe("The pass rate was compared with a threshold."),
      threshold: z.string().describe("Name of the threshold."),
      value: z.number().describe("Its value."),
      variant: z
        .string()
        .describe("Of `lowerBound`: the variant whose pass rate is meant. Absent if the eval has none.")
        .exactOptional(),
      verdict: z.enum(["met", "missed", "undecided"]).describe("Whether the pass rate reaches it."),
      ...decisionFields,
    }),
  ])
  .meta({
    id: "Decision",
    description:
      "What a run with `--until decided` has decided. Its intervals hold at 95 % for all decisions together, however often one looks.",
  });

/** The result document of a run, such as the JSON reporter writes. */
export const resultSchema = z
  .strictObject({
    schema: z.literal("mcpvals.result/1").describe("Name and version of this format."),
    id: z.string().describe("Id of the run."),
    name: z.string().describe("Name of the eval."),
    verdict: z
      .enum(runVerdicts)
      .describe(
        "`fail`: a trial failed, though not where `gates` have a `passRate` or `lowerBound`; a gate failed; or there are more than `maxWarnings` warnings. `incomplete`: nothing failed, but errors, timeouts or missing evidence could have changed the verdict.",
      ),
    maxWarnings: z
      .int()
      .min(0)
      .describe("Most warnings with which a run passes; absent: any number.")
      .exactOptional(),
    gates: z.array(gateSchema).describe("The run's thresholds. Absent when there are none.").exactOptional(),
    decisions: z
      .array(decisionSchema)
      .describe("What the run was to decide. Absent without `--until decided`.")
      .exactOptional(),
    latency: latencySchema.describe("Absent without the threshold `maxP95Latency`.").exactOptional(),
    budget: z
      .strictObject({
        ...budgetModel.shape,
        usedUp: z
          .string()
          .describe("Why no further trial began. Absent: all began, or the run ended for another reason.")
          .exactOptional(),
        isUnknown: z
          .literal(true)
          .describe("It is unknown what a trial used, so that a larger budget would not help.")
          .exactOptional(),
      })
      .describe("What the run was allowed to use. Absent: it had no budget.")
      .exactOptional(),
    judges: z
      .array(judgeSummarySchema)
      .describe("Judges that graders asked. Absent if none gave a verdict.")
      .exactOptional(),
    startedAt: z.string().describe("When the run began: ISO 8601, UTC."),
    durationMs: milliseconds.describe("How long the run took, in milliseconds."),
    gradedFrom: z
      .strictObject({ id: z.string().describe("Its id."), startedAt: z.string().describe("When it began.") })
      .describe(
        "The run that recorded the trials, whose record was graded again. Absent for a run that recorded them itself.",
      )
      .exactOptional(),
    retryOf: z
      .strictObject({
        id: z.string().describe("Its id."),
        startedAt: z.string().describe("When it began."),
        first: z
          .string()
          .describe("The run that recorded the first trials, if that run was a retry itself: its id.")
          .exactOptional(),
      })
      .describe(
        "The run of which this one, or the one whose record it graded, tried errors or flaky tasks again. Absent for what is no retry.",
      )
      .exactOptional(),
    summary: summarySchema,
    passRate: intervalSchema
      .describe(
        "Mean pass rate of all tasks, with its interval for these tasks. Each task counts the same, with the mean of its agents and variants. Absent if no trial has a verdict, and for a check.",
      )
      .exactOptional(),
    fingerprints: z
      .record(z.string(), z.string())
      .describe(
        "By name of the task, a hash of what it is and how it is graded: tasks with different ones cannot be compared. Absent for a check.",
      )
      .exactOptional(),
    trials: z.array(trialSchema).describe("Every trial of the run."),
    rates: ratesSchema
      .describe("Pass rates by task, agent and variant. Absent where `passRate` is.")
      .exactOptional(),
    attacks: z
      .array(attackRateSchema)
      .describe("What came of attacks, by agent and class, then of all classes. Absent without `--attack`.")
      .exactOptional(),
    coverage: z
      .record(z.string(), coverageSchema)
      .describe("By name of the server: which of its tools, parameters, resources and prompts trials used.")
      .exactOptional(),
    measurements: runMeasurementsSchema
      .describe("How agents used tools. Absent if no trial was measured.")
      .exactOptional(),
    routing: routingSchema
      .describe("Where prompts led. Absent if no grader `tool_routing` or `trigger` gave a verdict.")
      .exactOptional(),
    comparison: comparisonSchema
      .describe("The run compared with the baseline of `--baseline`. Absent without one.")
      .exactOptional(),
    environment: environmentSchema,
  })
  .meta({ title: "mcpvals result", description: "The result of one run of mcpvals." });

export type RunResult = Model<typeof resultSchema>;
export type RunSummary = RunResult["summary"];
export type RunEnvironment = RunResult["environment"];
export type Decision = Model<typeof decisionSchema>;
export type TaskRate = Model<typeof taskRateSchema>;
export type GroupRate = Model<typeof groupRateSchema>;
export type ExtensionSummary = Model<typeof extensionSchema>;
export type Covered = Model<typeof coveredSchema>;
export type Coverage = NonNullable<RunResult["coverage"]>;
/** The kinds that reports count. */
export type CoverageKind = Exclude<keyof Coverage[string], "errors">;
export type AttackRate = Model<typeof attackRateSchema>;
export type TrialResult = Model<typeof trialSchema>;
export type ServerDigest = Model<typeof serverDigestSchema>;
export type ToolDigest = Model<typeof digestSchema>;
export type TrialMeasurements = Model<typeof trialMeasurementsSchema>;
export type Routing = Model<typeof routingSchema>;
export type RunMeasurements = Model<typeof runMeasurementsSchema>;
/** What a program reported about itself and its models; null: nothing. */
export type ProgramRun = Model<typeof ranSchema>;

const runCommandSchema = z.strictObject({
  cwd: z.string().describe("Its working folder."),
  sources: z.array(z.string()).describe("The files and folders that it names."),
  flags: jsonObject.describe("The options, but for those that do not change what runs."),
  env: z.array(z.string()).describe("Names of the variables that were given."),
  names: z
    .array(z.string())
    .describe("The only tasks that were asked for; absent: those that the options select.")
    .exactOptional(),
});

/** What is known of a run before its first trial: the document `run.json`. */
export const runHeadSchema = resultSchema
  .pick({ id: true, startedAt: true, environment: true, gradedFrom: true, retryOf: true })
  .extend({
    source: z
      .string()
      .describe(
        "Absolute path of the file that was run, or of the folder of its tasks; of a check without a file, the commands or URLs. Absent for an eval that no file declares.",
      )
      .exactOptional(),
    process: z
      .strictObject({
        pid: z.int().describe("Its id."),
        host: z.string().describe("Name of the machine."),
      })
      .describe("The process that executes the run.")
      .exactOptional(),
    command: runCommandSchema
      .describe("How it was started, so that it can be resumed; absent where it cannot.")
      .exactOptional(),
  })
  .meta({ title: "mcpvals run", description: "What is known of a run before its first trial." });

export type RunHead = Model<typeof runHeadSchema>;
/** The command line of a run. Values of `--env` are not kept, since they may be secrets. */
export type RunCommand = Model<typeof runCommandSchema>;

/** A run as its folder has it. */
export interface RecordedRun extends Pick<
  RunResult,
  "id" | "startedAt" | "budget" | "environment" | "gradedFrom" | "retryOf"
> {
  readonly plan: Plan;
  readonly events: readonly TraceEvent[];
  /** Milliseconds; absent when it did not come to its end. */
  readonly durationMs?: number;
  /** Whether it was interrupted in order; absent when it was cut off before it ended. */
  readonly interrupted?: boolean;
}
