import { describe, expect, it } from "vitest";
import type { TrialResult } from "../core/report/result.ts";
import { describeModels, fullTitle, groupName, taskTitle, variantName, varietyOf } from "./names.ts";

const test = { form: "tool-test", suite: "everything", agent: null, attempt: 1 } as const;
const flow = { form: "workflow", task: "books a flight", agent: "claude", attempt: 2 } as const;

describe("titles", () => {
  it.each([
    ["everything/echo answers", "echo answers"],
    ["everything › echo", "echo"],
    ["everything: echo", "echo"],
    ["everything", "everything"],
    ["everything/", "everything/"],
    ["everythingelse", "everythingelse"],
    ["echo", "echo"],
  ])("%j within its suite is %j", (task, title) => {
    expect(taskTitle({ ...test, task })).toBe(title);
  });

  it("name the suite once", () => {
    expect(fullTitle({ ...test, task: "everything/echo" })).toBe("everything › echo");
    expect(fullTitle(flow)).toBe("books a flight");
  });

  it("show no control characters", () => {
    expect(fullTitle({ ...test, suite: "a\u001b", task: "b\n" })).toBe("a\\x1b › b\\n");
  });
});

it("groups tool tests by suite and workflows together", () => {
  expect([groupName(test), groupName(flow), groupName({ form: "tool-test" })]).toEqual([
    "everything",
    "workflows",
    "tool tests",
  ]);
});

describe("variants", () => {
  it("are named only where a run has several", () => {
    const other = { ...flow, agent: "scripted", attempt: 1 };
    expect(variantName(flow, varietyOf([flow, other]))).toBe("claude · attempt 2");
    expect(variantName(flow, varietyOf([flow]))).toBe("attempt 2");
    expect(variantName(other, varietyOf([other]))).toBe("");
  });

  it("do not count tasks without an agent as an agent", () => {
    expect(varietyOf([flow, test])).toEqual({ agents: false, variants: false, attempts: true });
  });
});

it("tells the tokens of the judge apart from those of agents", () => {
  const usage = { inputTokens: 1000, outputTokens: 20, requests: 1 };
  const planned = { id: "t1", task: "t", form: "task", agent: "a", attempt: 1 } as const;
  const trial: TrialResult = { ...planned, verdict: "pass", score: 1, durationMs: 1, grades: [] };
  const environment = { agents: [{ name: "a", type: "acp" }], judge: { model: "openai/m" } };
  const told = { ...trial, usage: { inputTokens: 7, outputTokens: 1 }, judgeUsage: usage };
  expect(describeModels([told, told], environment)).toEqual([
    "14 tokens in, 2 out",
    "judged by openai/m (2,000 tokens in, 40 out, 2 model requests)",
  ]);
  expect(describeModels([trial], environment)).toEqual(["judged by openai/m"]);
});
