import * as z from "zod";
import { anyJson, anyObject, closedObject, filledText, optional } from "../../model/fields.ts";
import { isJsonObject, type JsonObject, withoutUndefined } from "../../base/json.ts";
import type { Task } from "../../model/task.ts";
import { type Calibration, calibrationSchema, type JudgeSummary } from "../../model/calibration.ts";
import { agreementOf, correctedRate } from "../../statistics/agreement.ts";
import type { EventBody } from "../../model/event.ts";
import { buildTrajectory, type Trajectory } from "../../trace/trajectory.ts";
import type { Grade, JudgeRecord } from "../../model/grade.ts";

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

/** What tells one judge from another. */
function judgeKey({ model, prompt, threshold }: JudgeRecord | Calibration, votes: number): string {
  return JSON.stringify([model, prompt, threshold, votes]);
}

/** The judges that gave grades, each with its calibration; undefined if there are none. */
export function judgesOf(
  trials: readonly { readonly grades: readonly Grade[] }[],
  calibrations: readonly Calibration[] = [],
): readonly JudgeSummary[] | undefined {
  const known = new Map(calibrations.map((each) => [judgeKey(each, each.votes), each]));
  const found = new Map<string, JudgeSummary>();
  const pairs = new Map<string, (readonly [JudgeRecord, JudgeRecord])[]>();
  for (const { grader, judge, second } of trials.flatMap(({ grades }) => grades.flatMap(judgesOfGrade))) {
    const { model, prompt, threshold, votes } = judge;
    const same = judgeKey(judge, votes.length);
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
