import { expect, it } from "vitest";
import { compareRuns } from "./compare-runs.ts";
import type { TrialRow } from "./documents.ts";
import type { Verdict } from "../../model/grade.ts";

function trialsOf(agent: string, tasks: Readonly<Record<string, readonly Verdict[]>>): readonly TrialRow[] {
  return Object.entries(tasks).flatMap(([task, verdicts]) =>
    verdicts.map((verdict, index) => ({
      id: `${task}/${index + 1}`,
      task,
      form: "workflow" as const,
      agent,
      attempt: index + 1,
      state: "ended" as const,
      verdict,
    })),
  );
}

function runOf(
  agent: string,
  tasks: Readonly<Record<string, readonly Verdict[]>>,
): Parameters<typeof compareRuns>[0] {
  return { agents: [{ name: agent, type: "model" }], trials: trialsOf(agent, tasks) };
}

it("pairs tasks, and lists first what got worse, last what is the same", () => {
  const { tasks, test } = compareRuns(
    runOf("a", {
      same: ["pass"],
      better: ["fail", "pass"],
      worse: ["pass"],
      gone: ["pass"],
      broken: ["pass"],
    }),
    runOf("a", {
      same: ["pass"],
      better: ["pass", "pass"],
      worse: ["fail"],
      broken: ["error"],
      new: ["fail"],
    }),
  );
  expect(tasks.map(({ task, difference }) => [task, difference])).toEqual([
    ["worse", -1],
    ["better", 0.5],
    ["gone", undefined],
    ["broken", undefined],
    ["new", undefined],
    ["same", 0],
  ]);
  expect(test).toMatchObject({ pairs: 3, higher: 1, lower: 1, difference: -1 / 6 });
});

it("compares the agents of two runs with one agent each, and otherwise agents of one name", () => {
  const [a, b] = [runOf("a", { task: ["fail"] }), runOf("b", { task: ["pass"] })];
  expect(compareRuns(a, b).tasks).toMatchObject([{ task: "task", difference: 1 }]);
  const both = { agents: [...a.agents, ...b.agents], trials: [...a.trials, ...b.trials] };
  const { tasks } = compareRuns(both, b);
  expect(tasks.map(({ agent, difference }) => [agent, difference])).toEqual([
    ["a", undefined],
    ["b", 0],
  ]);
});

it("compares how long trials take and how many tokens they use, of those that passed or failed", () => {
  const sized = (factor: number): Parameters<typeof compareRuns>[0] => {
    const run = runOf("a", { one: ["pass"], two: ["fail", "timeout"], three: ["error"] });
    const trials = run.trials.map((trial, index) => {
      const durationMs = trial.verdict === "timeout" ? 60_000 : 100 * (index + 1) * factor;
      return {
        ...trial,
        durationMs,
        ...(trial.task === "one" ? { inputTokens: 10, outputTokens: 10 * factor } : {}),
      };
    });
    return { ...run, trials };
  };
  const { durations, tokens } = compareRuns(sized(1), sized(3));
  expect(durations).toMatchObject({ pairs: 2, ratio: expect.closeTo(3, 9) as number });
  expect(tokens).toEqual({ pairs: 1, ratio: expect.closeTo(2, 9) as number });
});
