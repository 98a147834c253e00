import { expect, it } from "vitest";
import type { TrialResult } from "../../core/report/result.ts";
import { describeModels } from "./names.ts";

it("tells the tokens of the judge apart from those of agents", () => {
  const usage = { inputTokens: 1000, outputTokens: 20, requests: 1 };
  const trial: TrialResult = {
    id: "t1",
    task: "t",
    form: "task",
    agent: "a",
    attempt: 1,
    verdict: "pass",
    score: 1,
    durationMs: 1,
    grades: [],
  };
  const environment = { agents: [{ name: "a", type: "acp" }], judge: { model: "openai/m" } };
  const told = { ...trial, usage: { inputTokens: 7, outputTokens: 1 }, judgeUsage: usage };
  expect(describeModels([told, told], environment)).toEqual([
    "14 tokens in, 2 out",
    "judged by openai/m (2,000 tokens in, 40 out, 2 model requests)",
  ]);
  expect(describeModels([trial], environment)).toEqual(["judged by openai/m"]);
});
