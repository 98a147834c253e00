import * as z from "zod";
import {
  anyJson,
  anyObject,
  closedObject,
  filledText,
  optional,
} from "../../formats/config/config-fields.ts";
import { isJsonObject, type JsonObject, withoutUndefined } from "../../formats/json.ts";
import type { Task } from "../../formats/model.ts";
import { agreementOf, correctedRate } from "../../statistics/intervals.ts";
import type { EventBody, Grade, JudgeRecord } from "../../trace/events.ts";
import { buildTrajectory, type Trajectory } from "../../trace/trajectory.ts";

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
    confusion: z
      .strictObject({
        passPass: count.describe("Both say pass."),
        passFail: count.describe("People say pass, the judge says fail."),
        failPass: count.describe("People say fail, the judge says pass."),
        failFail: count.describe("Both say fail."),
      })
      .describe("Cases by verdict: the first word is what people said, the second what the judge said."),
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

/** The file that calibrations are kept in, beside the config that they are for. */
export const calibrationFile = "mcp-eval.calibration.json";

export const calibrationFileSchema = z.strictObject({
  schema: z.literal("mcpvals.calibration/1"),
  judges: z.array(calibrationSchema),
});

/** One case: what people said and the judge. Without `judge` it gave no verdict. */
export interface JudgedCase {
  readonly label: "pass" | "fail";
  readonly judge?: JudgeRecord | undefined;
}

/** How far a judge agrees with the labels; undefined when it gave no verdict at all. */
export function calibrate(cases: readonly JudgedCase[]): Calibration | undefined {
  const scored = cases.flatMap(({ label, judge }) => (judge === undefined ? [] : [{ label, judge }]));
  const judge = scored[0]?.judge;
  if (judge === undefined) return undefined;
  const of = (label: string, passed: boolean): number =>
    scored.filter((one) => one.label === label && passes(one.judge) === passed).length;
  const confusion = {
    passPass: of("pass", true),
    passFail: of("pass", false),
    failPass: of("fail", true),
    failFail: of("fail", false),
  };
  const flipped = scored.filter(({ judge: one }) => {
    return new Set(one.votes.map((score) => score >= judge.threshold)).size > 1;
  });
  const { model, prompt, threshold, votes } = judge;
  return withoutUndefined({
    model,
    prompt,
    threshold,
    votes: votes.length,
    labels: scored.length,
    unscored: cases.length - scored.length,
    confusion,
    ...agreementOf(confusion),
    flipRate: votes.length > 1 ? flipped.length / scored.length : undefined,
  });
}

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

/** The judges that gave grades, each with its calibration; undefined if there are none. */
export function judgesOf(
  trials: readonly { readonly grades: readonly Grade[] }[],
  calibrations: readonly Calibration[] = [],
): readonly JudgeSummary[] | undefined {
  const keyOf = ({ model, prompt, threshold }: JudgeRecord | Calibration, votes: number): string =>
    JSON.stringify([model, prompt, threshold, votes]);
  const known = new Map(calibrations.map((each) => [keyOf(each, each.votes), each]));
  const found = new Map<string, JudgeSummary>();
  const pairs = new Map<string, (readonly [JudgeRecord, JudgeRecord])[]>();
  for (const { grader, judge, second } of trials.flatMap(({ grades }) => grades.flatMap(judgesOfGrade))) {
    const { model, prompt, threshold, votes } = judge;
    const same = keyOf(judge, votes.length);
    const key = JSON.stringify([grader, same]);
    const { graded = 0, passed = 0 } = found.get(key) ?? {};
    const both = pairs.get(key) ?? [];
    pairs.set(key, both);
    if (second !== undefined) both.push([judge, second]);
    found.set(key, {
      grader,
      model,
      prompt,
      threshold,
      votes: votes.length,
      graded: graded + 1,
      passed: passed + (passes(judge) ? 1 : 0),
      calibration: known.get(same) ?? null,
    });
  }
  if (found.size === 0) return undefined;
  return [...found].map(([key, summary]) => {
    const { passed, graded, calibration } = summary;
    const rate = calibration === null ? undefined : correctedRate(passed, graded, calibration.confusion);
    return withoutUndefined({ ...summary, second: compared(pairs.get(key) ?? []), correctedRate: rate });
  });
}

interface AskedBy {
  readonly grader: string;
  readonly judge: JudgeRecord;
  readonly second?: JudgeRecord | undefined;
}

/** The judges of a grade, each with the name of what asked it. */
function judgesOfGrade({ grader, judge, secondJudge: second, judged = [] }: Grade): readonly AskedBy[] {
  return [
    ...(judge === undefined ? [] : [{ grader, judge, second }]),
    ...judged.map(({ check, judge: by }) => ({ grader: `${grader}: ${check}`, judge: by })),
  ];
}

/** How far two judges agree; undefined without a verdict of both. */
function compared(pairs: readonly (readonly [JudgeRecord, JudgeRecord])[]): JudgeSummary["second"] {
  const [pair] = pairs;
  if (pair === undefined) return undefined;
  const of = (first: boolean, second: boolean): number =>
    pairs.filter(([a, b]) => passes(a) === first && passes(b) === second).length;
  const { agreement, kappa } = agreementOf({
    passPass: of(true, true),
    passFail: of(true, false),
    failPass: of(false, true),
    failFail: of(false, false),
  });
  return withoutUndefined({ model: pair[1].model, graded: pairs.length, agreement, kappa });
}

/** What a judge said itself; a grade may rest on more than that. */
function passes({ votes, threshold }: JudgeRecord): boolean {
  return 2 * votes.filter((score) => score >= threshold).length > votes.length;
}

const verdict = z.enum(["pass", "fail"]).describe("What a person says.");
const reference = optional(
  filledText,
  "What a step `llm` compares the answer with; only for its criteria `contains` and `exact`.",
);

const callSchema = closedObject({
  server: z.string().default("server"),
  tool: filledText,
  args: anyObject.default({}),
  result: optional(anyJson, "A text, or the result as the server gave it."),
  error: optional(filledText, "The text of its failure."),
});

const writtenCase = closedObject({
  task: filledText.describe("What the user asked."),
  answer: z.string().describe("The agent's last message."),
  calls: z.array(callSchema).default([]).describe("The agent's calls of tools, in order."),
  reference,
  verdict,
});

const recordedCase = closedObject({
  run: filledText.describe("A run: id, start of an id, folder, or `latest`."),
  trial: filledText.describe("Id of one of its trials."),
  reference,
  verdict,
});

/** What people said of the work of agents. */
export const labelsSchema = closedObject({
  config: optional(anyObject, "Settings of the grader `prompt`."),
  cases: z.array(z.union([writtenCase, recordedCase])).min(1),
});

export type LabelledCase = z.output<typeof labelsSchema>["cases"][number];

/** The trial that a case tells. */
export function trialOfCase({ task: user, answer, calls }: z.output<typeof writtenCase>): Trajectory {
  const task: Task = {
    name: "label",
    form: "workflow",
    servers: [],
    turns: [{ user }],
    expectTools: [],
    verify: [],
    parallel: false,
  };
  const bodies: readonly EventBody[] = [
    { type: "phase.started", phase: "agent" },
    { type: "turn.started", turn: 0, user },
    ...calls.flatMap(({ server, tool, args, result, error }, id): EventBody[] => {
      const params = { name: tool, arguments: args };
      const ended = error === undefined ? resultOf(result) : { ...textResult(error), isError: true };
      return [
        message(server, "client-to-server", { id, method: "tools/call", params }),
        message(server, "server-to-client", { id, result: ended }),
      ];
    }),
    { type: "agent.message", turn: 0, text: answer },
    { type: "turn.finished", turn: 0, reason: "done" },
    { type: "phase.finished", phase: "agent", durationMs: 0 },
  ];
  const events = bodies.map((body, index) => ({ seq: index + 1, at: index, trial: "label", ...body }));
  return buildTrajectory({ id: "label", task: task.name, agent: "agent", attempt: 1 }, task, events);
}

function message(
  server: string,
  direction: "client-to-server" | "server-to-client",
  body: JsonObject,
): EventBody {
  return { type: "mcp.message", server, direction, message: { jsonrpc: "2.0", ...body } };
}

function resultOf(result: z.output<typeof callSchema>["result"]): JsonObject {
  if (isJsonObject(result) && Array.isArray(result["content"])) return result;
  return textResult(typeof result === "string" ? result : (JSON.stringify(result) ?? ""));
}

function textResult(text: string): JsonObject {
  return { content: [{ type: "text", text }] };
}
