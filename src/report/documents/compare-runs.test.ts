import { expect, it } from "vitest";
import { compareRuns, type Side, statementsOf } from "./compare-runs.ts";
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

function runOf(agent: string, tasks: Readonly<Record<string, readonly Verdict[]>>): Side<TrialRow> {
  return { agents: [{ name: agent }], trials: trialsOf(agent, tasks) };
}

it("pairs tasks, and lists first what got worse, last what is the same", () => {
  const { tasks, tasksLikeThese, theseTasks } = compareRuns(
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
  expect(tasksLikeThese).toMatchObject({
    pairs: 3,
    higher: 1,
    lower: 1,
    value: expect.closeTo(-1 / 6, 12) as number,
  });
  expect(theseTasks?.value).toBeCloseTo(-1 / 6, 12);
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
  const sized = (factor: number): Side<TrialRow> => {
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
  expect(tokens).toEqual({ pairs: 1, ratio: expect.closeTo(2, 9) as number, p: 1 });
});

const passes = (count: number, of: number): readonly Verdict[] =>
  Array.from({ length: of }, (_, index) => (index < count ? "pass" : "fail"));

const always = Object.fromEntries(["b", "c", "d", "e", "f", "g", "h"].map((task) => [task, passes(10, 10)]));

it("says what a comparison shows of these tasks and of tasks like these, in sentences", () => {
  const [first, second] = [
    runOf("x", { a: passes(0, 10), ...always }),
    runOf("x", { a: passes(10, 10), ...always }),
  ];
  const statements = statementsOf(compareRuns(first, second), { names: ["A", "B"] });
  expect(statements.map(({ metric, verdict }) => [metric, verdict])).toEqual([
    ["pass rate", "better"],
    ["pass rate of tasks like these", "undecided"],
  ]);
  expect(statements[0]?.text).toBe(
    "On these tasks B is better than A: its pass rate is 12.5 points higher (95 % interval +7.2 to +15.9 points); if both were equally good, less than 1 of 1,000 such comparisons would show a difference as large.",
  );
  expect(statements[0]?.changes).toBe("Of 8 tasks that both measured, 1 got better and 0 got worse.");
  expect(statements[1]?.text).toContain("which chance alone may explain");
});

it("is equivalent only within a margin that is named, and says nothing of tasks like these below six", () => {
  const run = runOf("x", { a: passes(50, 50), b: passes(50, 50) });
  const comparison = compareRuns(run, run);
  const verdicts = (margin?: number): unknown[] =>
    statementsOf(
      comparison,
      margin === undefined ? { names: ["A", "B"] } : { names: ["A", "B"], margin },
    ).map(({ verdict }) => verdict);
  expect(verdicts()).toEqual(["undecided", "undecided"]);
  expect(verdicts(0.1)).toEqual(["equivalent", "undecided"]);
  expect(statementsOf(comparison, { names: ["A", "B"] })[1]?.text).toBe(
    "For other tasks like these nothing can be said: that takes at least 6 tasks, and both measured 2.",
  );
});

it("lists tasks that are not the same on both sides, and does not compare them", () => {
  const run = runOf("x", { same: passes(1, 2), other: passes(1, 2) });
  const sides = ["1", "2"].map((hash) => ({
    ...run,
    hashes: new Map([
      ["same", "0"],
      ["other", hash],
    ]),
  }));
  const { tasks, tasksLikeThese } = compareRuns(sides[0] ?? run, sides[1] ?? run);
  expect(tasks.map(({ task, changed }) => [task, changed])).toEqual([
    ["other", true],
    ["same", undefined],
  ]);
  expect(tasksLikeThese?.pairs).toBe(1);
});
