import { expect, it } from "vitest";
import { compareRuns, type RunComparison, type Side } from "./compare-runs.ts";
import type { Statement } from "../../model/comparison.ts";
import type { TrialRow } from "./documents.ts";
import type { Verdict } from "../../model/grade.ts";
import { statementsOf } from "./statements.ts";

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
  return { trials: trialsOf(agent, tasks) };
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
  expect(tasksLikeThese?.difference).toMatchObject({
    pairs: 3,
    higher: 1,
    lower: 1,
    value: expect.closeTo(-1 / 6, 12) as number,
  });
  expect(theseTasks?.difference.value).toBeCloseTo(-1 / 6, 12);
});

it("compares the agents of two runs with one agent each, and otherwise agents of one name", () => {
  const [a, b] = [runOf("a", { task: ["fail"] }), runOf("b", { task: ["pass"] })];
  expect(compareRuns(a, b).tasks).toMatchObject([{ task: "task", difference: 1 }]);
  const both = { trials: [...a.trials, ...b.trials] };
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

/** What is said of one comparison. */
function said(comparison: RunComparison, margin?: number): readonly Statement[] {
  const named = { comparison, first: { name: "A" }, second: { name: "B" } };
  return statementsOf([named], margin === undefined ? {} : { margin })[0] ?? [];
}

const passes = (count: number, of: number): readonly Verdict[] =>
  Array.from({ length: of }, (_, index) => (index < count ? "pass" : "fail"));

const always = Object.fromEntries(["b", "c", "d", "e", "f", "g", "h"].map((task) => [task, passes(10, 10)]));

it("says what a comparison shows of these tasks and of tasks like these, in sentences", () => {
  const [first, second] = [
    runOf("x", { a: passes(0, 10), ...always }),
    runOf("x", { a: passes(10, 10), ...always }),
  ];
  const statements = said(compareRuns(first, second));
  expect(statements.map(({ question, metric, verdict }) => [question, metric, verdict])).toEqual([
    ["these tasks", "pass rate", "better"],
    ["tasks like these", "pass rate", "undecided"],
  ]);
  expect(statements[0]?.text).toBe(
    "On these tasks B is better than A: the pass rate of B is 12.5 points higher than that of A (95 % interval +6.7 to +17.3 points). If both were equally good, chance alone would show a difference as large in less than 1 of 1,000 comparisons.",
  );
  expect(statements[0]?.changes).toBe("Of 8 tasks that both measured, 1 got better and 0 got worse.");
  expect(statements[1]?.text).toMatch(
    /^For other tasks like these it is undecided whether B is better or worse than A: /,
  );
});

it("is equivalent only within a margin that is named, and says nothing of tasks like these below six", () => {
  const run = runOf("x", { a: passes(50, 50), b: passes(50, 50) });
  const comparison = compareRuns(run, run);
  const verdicts = (margin?: number): unknown[] => said(comparison, margin).map(({ verdict }) => verdict);
  expect(verdicts()).toEqual(["undecided", "undecided"]);
  expect(verdicts(0.1)).toEqual(["equivalent", "undecided"]);
  expect(said(comparison)[1]?.text).toBe(
    "For other tasks like these nothing can be said: that takes at least 6 tasks, and both measured 2.",
  );
});

it("lists tasks that are not the same on both sides, and does not compare them", () => {
  const run = runOf("x", { same: passes(1, 2), other: passes(1, 2) });
  const sides = ["1", "2"].map((hash) => ({
    ...run,
    fingerprints: { same: "0", other: hash },
  }));
  const { tasks, compared } = compareRuns(sides[0] ?? run, sides[1] ?? run);
  expect(tasks.map(({ task, changed }) => [task, changed])).toEqual([
    ["other", true],
    ["same", undefined],
  ]);
  expect(compared).toEqual({ tasks: 1, of: 2 });
});

const errors = (count: number): readonly Verdict[] => Array.from({ length: count }, () => "error");

it.each<[string, readonly Verdict[], readonly Verdict[], number | undefined, string]>([
  ["all have a verdict", passes(2, 10), passes(10, 10), undefined, "better"],
  [
    "what has none would still be better if it had failed",
    passes(0, 12),
    [...passes(9, 9), ...errors(3)],
    undefined,
    "better",
  ],
  ["what has none could have failed", passes(2, 10), [...passes(7, 7), ...errors(3)], undefined, "undecided"],
  [
    "what has none on the first side could have passed",
    [...passes(0, 5), ...errors(5)],
    passes(6, 10),
    undefined,
    "undecided",
  ],
  [
    "it is worse even if all without a verdict had passed",
    passes(20, 20),
    [...passes(2, 17), ...errors(3)],
    undefined,
    "worse",
  ],
  ["it could be as good", passes(10, 10), [...passes(0, 4), ...errors(6)], undefined, "undecided"],
  [
    "within a margin by those with a verdict only",
    passes(50, 50),
    [...passes(50, 50), ...errors(10)],
    0.1,
    "undecided",
  ],
])("a verdict holds whatever trials without one had been: %s", (_, first, second, margin, verdict) => {
  const [statement] = said(compareRuns(runOf("x", { a: first }), runOf("x", { a: second })), margin);
  expect(statement?.verdict).toBe(verdict);
});

it("says which trials have no verdict where it depends on them, and why", () => {
  const comparison = compareRuns(
    runOf("x", { a: passes(2, 10) }),
    runOf("x", { a: [...passes(7, 7), ...errors(3)], b: errors(2) }),
  );
  expect(comparison.unscored).toEqual({ before: 0, after: 3 });
  const [[statement] = []] = statementsOf([
    { comparison, first: { name: "old" }, second: { name: "new", unfinished: "was interrupted" } },
  ]);
  expect(statement?.text).toContain(
    "By the trials with a verdict new would be better than old, but 3 trials of new, which was interrupted, have none, and their outcomes could change that.",
  );
});

it("a task of which one side has no verdict counts against it, one that was left out does not", () => {
  const of = (more: readonly Verdict[], isLeftOut: boolean): Side => {
    const { trials } = runOf("x", { a: passes(10, 10), b: more });
    return {
      trials: trials.map((trial) =>
        trial.task === "b" && isLeftOut ? { ...trial, isLeftOut: true as const } : trial,
      ),
    };
  };
  const first: Side = runOf("x", { a: passes(0, 10), b: passes(10, 10) });
  const verdictOf = (side: Side): unknown => said(compareRuns(first, side))[0]?.verdict;
  expect(verdictOf(of(errors(10), false))).toBe("undecided");
  const leftOut = of(
    Array.from({ length: 10 }, () => "skip" as const),
    true,
  );
  expect(verdictOf(leftOut)).toBe("better");
  expect(compareRuns(first, leftOut).compared).toEqual({ tasks: 1, of: 2 });
});

it("agents and variants of a task count as one task", () => {
  const side = (count: number): Side => ({
    trials: ["a", "b", "c"].flatMap((task) =>
      ["x", "y"].flatMap((agent) =>
        ["v", "w"].flatMap((variant) =>
          passes(count, 5).map((verdict) => ({ task, agent, variant, verdict })),
        ),
      ),
    ),
  });
  const comparison = compareRuns(side(0), side(5));
  const { tasksLikeThese, compared, rates } = comparison;
  expect(said(comparison)[0]?.changes).toBe("Of 3 tasks that both measured, 3 got better and 0 got worse.");
  expect(tasksLikeThese?.difference).toMatchObject({ pairs: 3, higher: 3, value: 1 });
  expect(compared).toEqual({ tasks: 3, of: 3 });
  expect(rates?.after.theseTasks.value).toBe(1);
});

it("pairs one variant with one variant, or with none; several by their names", () => {
  const side = (verdict: Verdict, ...variants: readonly (string | undefined)[]): Side => ({
    trials: variants.map((variant) => ({
      task: "a",
      verdict,
      ...(variant === undefined ? {} : { variant }),
    })),
  });
  expect(compareRuns(side("fail", "old"), side("pass", "new")).compared).toEqual({ tasks: 1, of: 1 });
  expect(compareRuns(side("fail", undefined), side("pass", "new")).compared).toEqual({ tasks: 1, of: 1 });
  const several = compareRuns(side("fail", "old", "new"), side("pass", "new"));
  expect(several.tasks.map(({ variant, difference }) => [variant, difference])).toEqual([
    ["new", 1],
    ["old", undefined],
  ]);
});

it.each([
  [100, "100 times as long"],
  [1500, "1,500 times as long"],
  [0.5, "0.5 times as long"],
  [1, "about as long"],
])("a ratio of %d is written so that it can be read", (ratio, text) => {
  const side = (durationMs: number): Side => ({
    trials: ["a", "b", "c", "d", "e", "f"].map((task) => ({ task, verdict: "pass" as const, durationMs })),
  });
  const found = said(compareRuns(side(10), side(10 * ratio))).find(({ metric }) => metric === "duration");
  expect(found?.text).toContain(`Trials of B take ${text} as those of A`);
});

it("the pass rate has its own probability, durations and tokens are adjusted among themselves, several sides for their number", () => {
  const side = (count: number, size: number): Side => ({
    trials: ["a", "b", "c", "d", "e", "f"].flatMap((task) =>
      passes(count, 2).map((verdict) => ({ task, verdict, durationMs: size, inputTokens: size })),
    ),
  });
  const [first, second] = [side(1, 10), side(2, 20)];
  const comparison = compareRuns(first, second);
  const alone = said(comparison);
  expect(alone.map(({ metric, decidingP }) => [metric, decidingP])).toEqual([
    ["pass rate", undefined],
    ["pass rate", undefined],
    ["duration", 4 / 64],
    ["tokens", 4 / 64],
  ]);
  expect(alone[2]?.p).toBe(2 / 64);
  expect(alone[2]?.text).toBe(
    "Trials of B take 2 times as long as those of A, which chance alone may explain where so much is compared (Holm's correction).",
  );
  const named = { comparison, first: { name: "A" } };
  const three = statementsOf(["B", "C", "D"].map((name) => ({ ...named, second: { name } })));
  expect(three.map(([, others]) => [others?.verdict, others?.p, others?.decidingP])).toEqual([
    ["undecided", 2 / 64, 6 / 64],
    ["undecided", 2 / 64, 6 / 64],
    ["undecided", 2 / 64, 6 / 64],
  ]);
  expect(three[0]?.[1]?.text).toContain(
    "With 3 comparisons one of them shows as much by chance more often, 94 of 1,000",
  );
});

it("what is within the margin is equivalent, also where it is surely lower", () => {
  const [first, second] = [passes(2000, 2000), passes(1980, 2000)];
  const [statement] = said(compareRuns(runOf("x", { a: first }), runOf("x", { a: second })), 0.05);
  expect(statement?.verdict).toBe("equivalent");
  expect(statement?.text).toContain("It is lower, but B differs from A by less than the margin.");
});

it("does not contradict itself where the interval and the test disagree", () => {
  const tasks = (count: number): Readonly<Record<string, readonly Verdict[]>> =>
    Object.fromEntries(
      ["a", "b", "c", "d", "e", "f"].map((task, index) => [task, passes(index < count ? 1 : 0, 1)]),
    );
  const [statement] = said(compareRuns(runOf("x", tasks(6)), runOf("x", tasks(3))));
  expect(statement?.verdict).toBe("undecided");
  expect(statement?.text).toContain("here they disagree, and the test decides");
  const sized = (factors: readonly number[]): Side => ({
    trials: factors.map((factor, task) => ({ task: String(task), verdict: "pass", durationMs: 10 * factor })),
  });
  const slower = compareRuns(sized([1, 1, 1, 1, 1, 1]), sized([1.1, 1.1, 1.1, 1.1, 1.1, 9]));
  const duration = said(slower).find(({ metric }) => metric === "duration");
  expect(duration?.verdict).toBe("worse");
  expect(duration?.text).toMatch(
    /\(95 % interval 0\.\d+ to \d\.\d+\)\. .* here they disagree, and the test decides\.$/,
  );
});

it("does not say of what is surely different that it is about the same", () => {
  const sized = (factor: number): Side => ({
    trials: Array.from({ length: 8 }, (_, task) => ({
      task: String(task),
      verdict: "pass",
      durationMs: 10_000 * factor,
    })),
  });
  const duration = said(compareRuns(sized(1), sized(1.0004))).find(({ metric }) => metric === "duration");
  expect(duration?.verdict).toBe("worse");
  expect(duration?.text).toContain("take 1.0004 times as long");
});
