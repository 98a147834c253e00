import { describe, expect, it } from "vitest";
import type { JudgeAnswer, JudgeQuestion } from "../../src/core/grade/judge-prompt.ts";
import { McpvalsError } from "../../src/core/errors/error.ts";
import type { Json } from "../../src/core/formats/model.ts";
import type { LlmStep } from "../../src/core/formats/step.ts";
import { runStep } from "../../src/steps/run-step.ts";
import type { StepJudge, StepReport } from "../../src/steps/step-runner.ts";
import { plainTrial, scopeOf, stepContext, type TestContext } from "../support/step-context.ts";

const good: JudgeAnswer = { passed: true, score: 1, reason: "it is there" };

interface Played {
  readonly report: StepReport;
  readonly questions: readonly JudgeQuestion[];
  readonly context: TestContext;
}

interface PlayOptions {
  readonly answers?: readonly JudgeAnswer[];
  /** What the agent said last. */
  readonly said?: string;
  readonly roots?: Readonly<Record<string, Json>>;
}

/** Runs a step with a judge that gives these answers, one after the other. */
async function play(
  parts: Partial<LlmStep>,
  { answers = [], said, roots = {} }: PlayOptions = {},
): Promise<Played> {
  const rest = [...answers];
  const questions: JudgeQuestion[] = [];
  const judge: StepJudge = (question) => {
    questions.push(question);
    const answer = rest.shift();
    return answer === undefined ? Promise.reject(new Error("asked too often")) : Promise.resolve(answer);
  };
  const agent = said === undefined ? undefined : { output: said, exitCode: 0 };
  const trial = { ...plainTrial("a task"), prompt: "Add 2 and 3.", judge, agent };
  const context = stepContext({ trial, scope: scopeOf(roots) });
  const step: LlmStep = { type: "llm", id: "ask", timeoutMs: 1000, ...parts };
  const report = await runStep(step, context);
  return { report, questions, context };
}

describe.each(["contains", "exact", "rubric"] as const)("%s", (kind) => {
  it("is asked about what the agent said, with what it was told", async () => {
    const { report, questions, context } = await play(
      { [kind]: "five" },
      { answers: [good], said: "It is 5." },
    );
    expect(questions).toEqual([{ kind, reference: "five", prompt: "Add 2 and 3.", input: "It is 5." }]);
    expect(report).toMatchObject({
      outcome: "passed",
      checks: [
        { name: kind, passed: true, expected: "five", actual: "It is 5.", message: "score 1: it is there" },
      ],
    });
    expect(context.events[0]).toMatchObject({ stepType: "llm", input: { [kind]: "five" } });
  });

  it("fails as the judge says, whatever the score", async () => {
    const answer = { passed: false, score: 0.904, reason: "six" };
    const { report } = await play({ [kind]: "five" }, { answers: [answer], said: "6" });
    expect(report).toMatchObject({
      outcome: "failed",
      checks: [{ name: kind, passed: false, message: "score 0.9: six" }],
    });
  });
});

it("asks each question by itself; all have to hold", async () => {
  const { report, questions, context } = await play(
    { contains: "a", exact: "b", rubric: "c", outputs: { score: "{score}", reason: "{reason}" } },
    {
      answers: [
        good,
        { passed: true, score: 0.7, reason: "nearly" },
        { passed: true, score: 0.9, reason: "well" },
      ],
      said: "text",
    },
  );
  expect(questions.map(({ kind, reference }) => [kind, reference])).toEqual([
    ["contains", "a"],
    ["exact", "b"],
    ["rubric", "c"],
  ]);
  expect(report.checks.map(({ name }) => name)).toEqual(["contains", "exact", "rubric"]);
  expect(report).toMatchObject({
    outcome: "passed",
    outputs: { score: "0.7", reason: "it is there\nnearly\nwell" },
  });
  expect(context.events[0]).toMatchObject({ input: { contains: "a", exact: "b", rubric: "c" } });
  const failing = await play(
    { contains: "a", exact: "b" },
    { answers: [good, { passed: false, score: 0, reason: "no" }], said: "text" },
  );
  expect(failing.report.outcome).toBe("failed");
});

it("judges its own input where it has one, templates replaced everywhere", async () => {
  const { questions, report } = await play(
    { contains: "c {env.X}", exact: "e {env.X}", rubric: "r {env.X}", input: "i {env.X}" },
    { answers: [good, good, good], said: "never mind", roots: { env: { X: "5" } } },
  );
  expect(questions.map(({ reference, input }) => [reference, input])).toEqual([
    ["c 5", "i 5"],
    ["e 5", "i 5"],
    ["r 5", "i 5"],
  ]);
  expect(report.outcome).toBe("passed");
});

describe("nothing to judge fails without asking anyone", () => {
  it.each<[string, Partial<LlmStep>, PlayOptions, string]>([
    ["a silent agent", {}, { said: "" }, "the agent said nothing"],
    ["an agent that says blanks", {}, { said: " \n" }, "the agent said nothing"],
    ["no agent", {}, {}, "the agent said nothing"],
    [
      "an empty input",
      { input: "{env.X}" },
      { said: "words", roots: { env: { X: "" } } },
      "there is nothing to judge: the input is empty",
    ],
  ])("%s", async (_, parts, options, message) => {
    const { report, questions } = await play({ contains: "x", ...parts }, { answers: [good], ...options });
    expect(questions).toEqual([]);
    expect(report).toMatchObject({ outcome: "failed", checks: [{ name: "input", passed: false, message }] });
  });
});

it("without a judge is an error", async () => {
  const trial = { ...plainTrial("a task"), agent: { output: "words", exitCode: 0 } };
  const step: LlmStep = { type: "llm", id: "ask", timeoutMs: 1000, contains: "x" };
  const report = await runStep(step, stepContext({ trial }));
  expect(report).toMatchObject({ outcome: "error", checks: [], error: { code: "task/no-judge" } });
});

it("with a judge in trouble is an error, neither pass nor fail", async () => {
  const trouble = new McpvalsError("judge/no-verdict", "junk");
  const trial = {
    ...plainTrial("a task"),
    agent: { output: "words", exitCode: 0 },
    judge: () => Promise.reject(trouble),
  };
  const step: LlmStep = { type: "llm", id: "ask", timeoutMs: 1000, contains: "x" };
  expect(await runStep(step, stepContext({ trial }))).toMatchObject({
    outcome: "error",
    checks: [],
    error: trouble,
  });
});
