import * as z from "zod";
import { anyJson, anyObject, closedObject, filledText, optional } from "../../model/fields.ts";
import { isJsonObject, type JsonObject, withoutUndefined } from "../../base/json.ts";
import type { Task } from "../../model/task.ts";
import { type Calibration, calibrationSchema, type JudgeSummary } from "../../model/calibration.ts";
import {
  agreementOf,
  type Confusion,
  correctedRate,
  joined,
  labelledFail,
  labelledPass,
  worthOf,
} from "../../statistics/agreement.ts";
import { sumOf, type TaskCount } from "../../statistics/rates.ts";
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
  /** Equal for cases of one task, which are alike. Absent: it has a task of its own. */
  readonly task?: string;
  readonly label: "pass" | "fail";
  readonly judge?: JudgeRecord | undefined;
}

/** How far a judge agrees with the labels; undefined when it gave no verdict at all. */
export function calibrate(cases: readonly JudgedCase[]): Calibration | undefined {
  const scored = cases.flatMap(({ task, label, judge }) =>
    judge === undefined ? [] : [{ task, label, judge }],
  );
  const judge = scored[0]?.judge;
  if (judge === undefined) return undefined;
  const tasks = confusionsOf(
    scored.map((one) => ({ task: one.task, first: one.label === "pass", second: passes(one.judge) })),
  );
  const confusion = joined(tasks);
  const worth = { pass: worthOf(tasks.map(labelledPass)), fail: worthOf(tasks.map(labelledFail)) };
  const isAlike = tasks.length < scored.length;
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
    tasks: tasks.length,
    confusion,
    worth: isAlike ? worth : undefined,
    ...agreementOf(tasks),
    flipRate: votes.length > 1 ? flipped.length / scored.length : undefined,
  });
}

/** Verdicts of two about one case, and its task. */
interface TwoVerdicts {
  readonly task?: string | undefined;
  readonly first: boolean;
  readonly second: boolean;
}

/** How often two said pass and fail, for each task. */
function confusionsOf(cases: readonly TwoVerdicts[]): readonly Confusion[] {
  return [...Map.groupBy(cases, (one) => one.task ?? one).values()].map((group) => {
    const of = (first: boolean, second: boolean): number =>
      group.filter((one) => one.first === first && one.second === second).length;
    return {
      passPass: of(true, true),
      passFail: of(true, false),
      failPass: of(false, true),
      failFail: of(false, false),
    };
  });
}

/** What tells one judge from another. */
function judgeKey({ model, prompt, threshold }: JudgeRecord | Calibration, votes: number): string {
  return JSON.stringify([model, prompt, threshold, votes]);
}

/** The judges that gave grades, each with its calibration; undefined if there are none. */
export function judgesOf(
  trials: readonly { readonly task?: string; readonly grades: readonly Grade[] }[],
  calibrations: readonly Calibration[] = [],
): readonly JudgeSummary[] | undefined {
  const known = new Map(calibrations.map((each) => [judgeKey(each, each.votes), each]));
  const found = new Map<string, JudgeSummary>();
  const asked = new Map<string, Asked[]>();
  const all = trials.flatMap(({ task, grades }) =>
    grades.flatMap(judgesOfGrade).map((each) => ({ task, ...each })),
  );
  for (const { task, grader, judge, second } of all) {
    const { model, prompt, threshold, votes } = judge;
    const same = judgeKey(judge, votes.length);
    const key = JSON.stringify([grader, same]);
    const { graded = 0, passed = 0 } = found.get(key) ?? {};
    const list = asked.get(key) ?? [];
    asked.set(key, list);
    list.push({ task, judge, second });
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
    const { calibration } = summary;
    const list = asked.get(key) ?? [];
    const rate =
      calibration === null
        ? undefined
        : correctedRate(passesByTask(list), calibration.confusion, calibration.worth);
    return withoutUndefined({ ...summary, second: compared(list), correctedRate: rate });
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

/** A verdict of a judge about a trial of a task, and that of a second one. */
interface Asked {
  readonly task?: string | undefined;
  readonly judge: JudgeRecord;
  readonly second?: JudgeRecord | undefined;
}

/** How many verdicts of a judge were a pass, for each task. */
function passesByTask(asked: readonly Asked[]): readonly TaskCount[] {
  return [...Map.groupBy(asked, (one) => one.task ?? one).values()].map((group) => ({
    passed: sumOf(group.map(({ judge }) => Number(passes(judge)))),
    scored: group.length,
  }));
}

/** How far two judges agree; undefined without a verdict of both. */
function compared(asked: readonly Asked[]): JudgeSummary["second"] {
  const both = asked.flatMap(({ task, judge, second }) =>
    second === undefined ? [] : [{ task, first: passes(judge), second: passes(second) }],
  );
  const model = asked.find(({ second }) => second !== undefined)?.second?.model;
  if (model === undefined) return undefined;
  const { agreement, kappa } = agreementOf(confusionsOf(both));
  return withoutUndefined({ model, graded: both.length, agreement, kappa });
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
