import { describe, expect, it } from "vitest";
import type { TrialResult } from "../model/result.ts";
import { describeModels, fullTitle, groupName, taskTitle, variantName, varietyOf } from "./text.ts";

const test = { form: "tool-test", suite: "everything", agent: null, attempt: 1 } as const;
const flow = { form: "workflow", task: "books a flight", agent: "claude", attempt: 2 } as const;

describe("titles", () => {
  it.each([
    ["everything/echo answers", "echo answers"],
    ["everything: echo", "echo"],
    ["everything", "everything"],
    ["everything/", "everything/"],
    ["everythingelse", "everythingelse"],
  ])("%j within its suite is %j", (task, title) => {
    expect(taskTitle({ ...test, task })).toBe(title);
  });

  it("name the suite once, and the tool of a test", () => {
    const named = { ...test, task: "everything/refuses a text", tool: "add" };
    expect(fullTitle(named)).toBe("everything › add › refuses a text");
    expect(fullTitle({ ...named, task: "everything/add 2" })).toBe("everything › add 2");
    expect(fullTitle({ ...named, task: "everything/adds 0" })).toBe("everything › add › adds 0");
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
  const judge = { model: "openai/m", prompt: "sha256:1", threshold: 0.8, votes: [1] };
  const judged = { grader: "llm-judge", verdict: "pass", score: 1, reason: "", evidence: [], judge } as const;
  expect(describeModels([{ ...trial, grades: [judged] }], environment)).toEqual(["judged by openai/m"]);
  // There is a judge, but no grader has asked it.
  expect(describeModels([trial], environment)).toEqual([]);
});
