import { describe, expect, it } from "vitest";
import { runVerdict } from "./result.ts";
import type { RunEnvironment, RunResult, TrialResult } from "../model/result.ts";
import type { Grade, Verdict } from "../model/grade.ts";
import { type Gate, formatMeasure, gatesOf, gateText } from "./gates.ts";

function trial(
  verdict: Verdict,
  score: number | null = null,
  graded: Grade["verdict"] = "pass",
  { grader = "text", weight }: { readonly grader?: string; readonly weight?: number } = {},
): TrialResult {
  const share = weight === undefined ? {} : { weight };
  const grades: Grade[] =
    score === null ? [] : [{ grader, verdict: graded, score, reason: "", evidence: [], ...share }];
  if (score === null && graded === "error")
    grades.push({ grader: "text", verdict: "error", score, reason: "", evidence: [] });
  return {
    id: "t",
    task: "a",
    form: "workflow",
    agent: "a",
    attempt: 1,
    verdict,
    score,
    durationMs: 1,
    grades,
  };
}

/** A trial of an agent that made ten calls, so many of them invalid. */
function measured(verdict: Verdict, invalidCalls: number, grader = "text"): TrialResult {
  const counts = {
    calls: 10,
    unknownTools: 0,
    invalidCalls,
    redundantCalls: 0,
    errors: 0,
    recoveredErrors: 0,
  };
  const rest = { identicalRetries: 0, definitionTokens: 0, unusedDefinitionTokens: 0 };
  return {
    ...trial(verdict, 1, "pass", { grader }),
    measurements: { ...counts, ...rest, invalidCauses: {}, unsupportedClaims: [], ignoredErrors: [] },
  };
}

/** The verdict of a run with these thresholds. */
function verdictWith(
  thresholds: Readonly<Record<string, number>>,
  trials: readonly TrialResult[],
  covering: Parameters<typeof gatesOf>[2] = {},
): RunResult["verdict"] {
  return runVerdict(trials, { interrupted: false, gates: gatesOf(trials, thresholds, covering) });
}

const two = [measured("pass", 2), measured("fail", 4)];
const four = [trial("pass", 1), trial("pass", 1), trial("pass", 0.8), trial("fail", 0.4, "fail")];
const broken = [...four, trial("error")];
const weighed = [trial("pass", 1, "pass", { weight: 3 }), trial("fail", 0, "fail", { weight: 1 })];
type Told = readonly [Gate["verdict"], Gate["value"], Gate["trials"]];

it.each<readonly [string, readonly TrialResult[], string, number, Told]>([
  ["a value that is reached", four, "passRate", 0.75, ["pass", 0.75, 4]],
  ["a value below", four, "passRate", 0.76, ["fail", 0.75, 4]],
  ["the answers", [...four, { ...trial("pass"), byToolResult: true }], "answerRate", 0.6, ["pass", 0.6, 5]],
  ["the mean score", four, "score", 0.8, ["pass", 0.8, 4]],
  ["the score of a grader", four, "text", 0.81, ["fail", 0.8, 4]],
  [
    "a mean with a rounding error",
    [0.1, 0.2, 0.6].map((score) => trial("pass", score)),
    "score",
    0.3,
    ["pass", 0.3, 3],
  ],
  ["an error that could have changed it", broken, "passRate", 0.75, ["incomplete", 0.75, 4]],
  ["an error that changes nothing where it passes", broken, "passRate", 0.6, ["pass", 0.75, 4]],
  ["an error that changes nothing where it fails", broken, "passRate", 0.81, ["fail", 0.75, 4]],
  [
    "a grader without a verdict",
    [trial("pass", 1), trial("pass", null, "error")],
    "text",
    0.8,
    ["incomplete", 1, 1],
  ],
  ["the score of a grader by its weights", weighed, "text", 0.75, ["pass", 0.75, 2]],
  [
    "an error that weighs no less than any other",
    [...weighed, trial("error")],
    "text",
    0.5,
    ["incomplete", 0.75, 2],
  ],
  ["the mean of a measurement", two, "invalidCallRate", 0.3, ["pass", 0.3, 2]],
  ["a measurement above", two, "invalidCallRate", 0.29, ["fail", 0.3, 2]],
  ["a count above 1", two, "invalidCalls", 3, ["pass", 3, 2]],
  [
    "an error that could have had more",
    [...two, trial("error")],
    "invalidCallRate",
    0.5,
    ["incomplete", 0.3, 2],
  ],
  [
    "an error that could not have had enough",
    [...two, trial("error")],
    "invalidCallRate",
    0.54,
    ["pass", 0.3, 2],
  ],
  [
    "an error that could have had any count",
    [...two, trial("error")],
    "invalidCalls",
    99,
    ["incomplete", 3, 2],
  ],
  ["an error after too many", [...two, trial("error")], "invalidCalls", 1, ["fail", 3, 2]],
  ["a share of nothing", two, "errorRecoveryRate", 0, ["incomplete", null, 0]],
  [
    "a measurement of a trial that was not judged",
    [measured("skip", 2)],
    "invalidCalls",
    9,
    ["incomplete", null, 0],
  ],
  ["a grader with the name of a measurement", [measured("pass", 2, "errors")], "errors", 1, ["pass", 1, 1]],
  ["nothing measured", [trial("skip")], "text", 0, ["incomplete", null, 0]],
])("%s", (_, trials, name, threshold, told) => {
  const [gate] = gatesOf(trials, { [name]: threshold });
  expect([gate?.verdict, gate?.value, gate?.trials]).toEqual(told);
});

/** A trial of an agent of which this is what it cost: -1 is not known, undefined: it used no model. */
function paid(amount: number | undefined, verdict: Verdict = "pass"): TrialResult {
  const cost = { amount: amount ?? 0, currency: "USD" };
  if (amount === undefined) return trial(verdict, 1);
  const usage = { inputTokens: 1, outputTokens: 1, ...(amount < 0 ? {} : { cost }) };
  return { ...trial(verdict, 1), usage };
}

it.each<readonly [string, readonly TrialResult[], number, Told]>([
  ["enough", [paid(0.01), paid(0.03)], 0.02, ["pass", 0.02, 2]],
  ["too much", [paid(0.01), paid(0.03)], 0.019, ["fail", 0.02, 2]],
  ["of those that used a model", [paid(0.02), paid(undefined)], 0.02, ["pass", 0.02, 1]],
  ["of failed trials too", [paid(0.01), paid(0.05, "fail")], 0.02, ["fail", 0.03, 2]],
  ["of a model that costs nothing", [paid(0)], 0, ["pass", 0, 1]],
  ["one unknown", [paid(0.01), paid(-1)], 0.02, ["incomplete", 0.01, 1]],
  ["one unknown, and the rest is too much", [paid(0.05), paid(-1)], 0.02, ["fail", 0.05, 1]],
  ["one that was cut was too much", [paid(0.01), paid(5, "timeout")], 0.02, ["fail", 2.505, 1]],
  ["unknown", [paid(-1)], 99, ["incomplete", null, 0]],
  ["a trial that was cut", [paid(0.01), paid(undefined, "timeout")], 0.02, ["incomplete", 0.01, 1]],
  ["no model", [paid(undefined)], 0.02, ["incomplete", null, 0]],
])("maxCost: %s", (_, trials, threshold, told) => {
  const [gate] = gatesOf(trials, { maxCost: threshold });
  expect([gate?.verdict, gate?.value, gate?.trials]).toEqual(told);
});

it("maxCost does not count what judges cost", () => {
  const judgeUsage = { inputTokens: 1, outputTokens: 1, cost: { amount: 9, currency: "USD" } };
  expect(gatesOf([{ ...paid(0.01), judgeUsage }], { maxCost: 0.02 })).toMatchObject([{ verdict: "pass" }]);
});

it.each<readonly [string, readonly TrialResult[], RunResult["latency"], number, Told]>([
  ["fast enough", [trial("pass")], { calls: 9, unanswered: 0, p95Ms: 100 }, 100, ["pass", 100, 1]],
  ["too slow", [trial("pass")], { calls: 9, unanswered: 0, p95Ms: 100.5 }, 100, ["fail", 100.5, 1]],
  ["no answers", [trial("pass")], { calls: 9, unanswered: 3 }, 100, ["incomplete", null, 1]],
  ["no calls", [trial("pass")], { calls: 0, unanswered: 0 }, 100, ["incomplete", null, 1]],
  ["a trial that was cut", broken, { calls: 9, unanswered: 0, p95Ms: 5 }, 100, ["incomplete", 5, 4]],
])("maxP95Latency: %s", (_, trials, latency, threshold, told) => {
  const [gate] = gatesOf(trials, { maxP95Latency: threshold }, latency && { latency });
  expect([gate?.verdict, gate?.value, gate?.trials]).toEqual(told);
});

it("says the unit of a latency, and why a cost was not measured", () => {
  const [latency] = gatesOf(
    [trial("pass")],
    { maxP95Latency: 100 },
    { latency: { calls: 9, unanswered: 0, p95Ms: 100.5 } },
  );
  expect(latency && gateText(latency)).toBe("maxP95Latency 100.5 ms is above 100 ms (1 trial)");
  const [cost] = gatesOf([paid(-1)], { maxCost: 1 });
  expect(cost && gateText(cost)).toBe(
    "maxCost was not measured, since no cost of an agent is known, at most 1 allowed",
  );
});

const items = (total: number, unused: readonly string[]) => ({ total, unused });
const calc = { tools: items(4, ["d"]), parameters: items(2, ["a.x"]), errors: items(4, []) };
const withServers = (...names: readonly string[]) =>
  ({
    servers: Object.fromEntries(names.map((name) => [name, { transport: "stdio" }])),
  }) as unknown as RunEnvironment;

it.each<readonly [string, readonly TrialResult[], string, number, readonly string[], Told]>([
  ["tools enough", four, "toolCoverage", 0.75, ["calc"], ["pass", 0.75, 4]],
  ["too few tools", four, "toolCoverage", 0.8, ["calc"], ["fail", 0.75, 4]],
  [
    "too few tools, and a trial that did not end",
    broken,
    "toolCoverage",
    0.8,
    ["calc"],
    ["incomplete", 0.75, 4],
  ],
  [
    "tools enough of one server, and another unused",
    four,
    "toolCoverage",
    0.75,
    ["calc", "other"],
    ["incomplete", 0.75, 4],
  ],
  [
    "too few tools, and another server unused",
    four,
    "toolCoverage",
    0.8,
    ["calc", "other"],
    ["fail", 0.75, 4],
  ],
  ["parameters", four, "parameterCoverage", 0.5, ["calc"], ["pass", 0.5, 4]],
  ["prompts that nobody lists", four, "promptCoverage", 0.5, ["calc"], ["incomplete", null, 4]],
])("coverage: %s", (_, trials, name, threshold, servers, told) => {
  const covering = { coverage: { calc }, environment: withServers(...servers) };
  const [gate] = gatesOf(trials, { [name]: threshold }, covering);
  expect([gate?.verdict, gate?.value, gate?.trials]).toEqual(told);
  expect(verdictWith({ [name]: threshold, passRate: 0.5 }, trials, covering)).toBe(told[0]);
});

const triggers = [
  trial("pass", 1, "pass", { grader: "trigger_accuracy" }),
  trial("fail", 0, "fail", { grader: "trigger_accuracy" }),
] as const;
const bothFailed = {
  ...triggers[1],
  grades: [...triggers[1].grades, ...trial("fail", 0, "fail").grades],
};

const withoutAttack: TrialResult = {
  ...trial("fail", null),
  grades: [{ grader: "attack-resistance", verdict: "fail", score: null, reason: "", evidence: [] }],
  attack: { id: "no-attack", class: "none", outcome: "none", task: "pass", tools: [] },
};
const resisted = trial("pass", 1, "pass", { grader: "attack-resistance" });
const fallenFor = trial("fail", 0, "fail", { grader: "attack-resistance" });

it.each<readonly [string, readonly TrialResult[], Readonly<Record<string, number>>, string]>([
  ["a resistance decides about attacks", [resisted, fallenFor], { "attack-resistance": 0.5 }, "pass"],
  [
    "it decides about no trial without an attack",
    [resisted, withoutAttack],
    { "attack-resistance": 0.5 },
    "fail",
  ],
  ["a pass rate decides about failed trials", four, { passRate: 0.75 }, "pass"],
  ["a pass rate that is too low", four, { passRate: 0.8 }, "fail"],
  ["a trigger accuracy decides about trigger tests", triggers, { trigger_accuracy: 0.5 }, "pass"],
  ["a trigger accuracy that is too low", triggers, { trigger_accuracy: 0.6 }, "fail"],
  ["it decides about nothing else", [...triggers, ...four], { trigger_accuracy: 0.5 }, "fail"],
  [
    "it decides about no trial that failed otherwise too",
    [triggers[0], bothFailed],
    { trigger_accuracy: 0.5 },
    "fail",
  ],
  ["without a threshold, one trigger test fails the run", triggers, {}, "fail"],
  ["a score does not", four, { score: 0.5 }, "fail"],
  ["a score alone decides where any pass rate will do", four, { passRate: 0, score: 0.9 }, "fail"],
  ["a score that is too low where every trial passes", [trial("pass", 0.8)], { score: 0.9 }, "fail"],
  ["a grader of which nothing was measured", [trial("pass", 1)], { other: 0 }, "incomplete"],
  ["an error leaves it open", broken, { passRate: 0.5 }, "incomplete"],
])("%s", (_, trials, thresholds, verdict) => {
  expect(verdictWith(thresholds, trials)).toBe(verdict);
});

const attempts = (passed: number, of: number): TrialResult[] =>
  Array.from({ length: of }, (_, index) => trial(index < passed ? "pass" : "fail"));

// Wilson: 20 of 20 is 83.9 to 100 %, 2 of 20 is 2.8 to 30.1 %, 15 of 20 is 53.1 to 88.8 %.
it.each<readonly [string, readonly TrialResult[], number, Gate["verdict"], number | null]>([
  ["shown to be reached", attempts(20, 20), 0.8, "pass", 0.838875],
  ["shown to be missed", attempts(2, 20), 0.8, "fail", 0.02787],
  ["undecided", attempts(15, 20), 0.8, "incomplete", 0.531299],
  [
    "reached, but for a trial without a verdict",
    [...attempts(20, 20), trial("error")],
    0.8,
    "incomplete",
    0.838875,
  ],
  ["not measured", [trial("error")], 0.8, "incomplete", null],
])("the lower bound of the pass rate: %s", (_, trials, threshold, verdict, value) => {
  const [gate] = gatesOf(trials, { lowerBound: threshold });
  expect(gate).toMatchObject({ name: "lowerBound", verdict });
  if (value === null) expect(gate?.value).toBeNull();
  else expect(gate?.value).toBeCloseTo(value, 5);
});

it.each<readonly [string, number, number, number | null]>([
  // By Wilson, 90 % of 62 is 0.8 at the lower end, 70 % of 62 is below 0.8 at the upper end (computed independently).
  ["a rate above needs more for its lower end", 18, 0.8, 42],
  ["a rate below needs more for its upper end", 14, 0.8, 42],
  ["at the threshold none would do", 16, 0.8, null],
])("an undecided lower bound says how many more trials would decide it: %s", (_, passed, threshold, more) => {
  const [gate] = gatesOf(attempts(passed, 20), { lowerBound: threshold });
  expect(gate).toMatchObject({ verdict: "incomplete", high: expect.any(Number) as number });
  if (more === null) expect(gate?.moreTrials).toBeNull();
  else expect(gate?.moreTrials).toBe(more);
});

it("of an undecided lower bound it is not said that trials without a verdict alone could change it", () => {
  const [gate] = gatesOf([...attempts(16, 20), trial("error")], { lowerBound: 0.8 });
  expect(gate && gateText(gate)).toContain("trials that were not measured, or more trials, could change it");
  const [rate] = gatesOf([...attempts(16, 20), trial("error")], { passRate: 0.8 });
  expect(rate && gateText(rate)).toContain("needed: trials that were not measured could change it");
});

it("every variant has to reach the lower bound", () => {
  const of = (variant: string, passed: number): TrialResult[] =>
    attempts(passed, 20).map((each) => ({ ...each, variant }));
  const gateOf = (...trials: readonly TrialResult[][]): Gate | undefined =>
    gatesOf(trials.flat(), { lowerBound: 0.8 })[0];
  expect(gateOf(of("old", 20), of("new", 20))).toMatchObject({ verdict: "pass", trials: 40 });
  expect(gateOf(of("old", 20), of("new", 15))).toMatchObject({ verdict: "incomplete", variant: "new" });
  expect(gateOf(of("old", 2), of("new", 15))).toMatchObject({ verdict: "fail", variant: "old" });
});

it("each task counts the same in a pass rate, however often it was tried", () => {
  const of = (task: string, passed: number, scored: number): TrialResult[] =>
    attempts(passed, scored).map((each) => ({ ...each, task }));
  const trials = [...of("a", 9, 9), ...of("b", 0, 1)];
  expect(gatesOf(trials, { passRate: 0.6 })).toMatchObject([{ verdict: "fail", value: 0.5, trials: 10 }]);
  const [first = trials[0]] = trials;
  const byResult = first === undefined ? [] : [{ ...first, byToolResult: true as const }, ...trials.slice(1)];
  expect(gatesOf(byResult, { answerRate: 0.4 })[0]?.value).toBeCloseTo(4 / 9, 9);
});

it("the lower bound decides about failed trials", () => {
  const trials = [...attempts(59, 60)];
  expect(verdictWith({ lowerBound: 0.9 }, trials)).toBe("pass");
  expect(verdictWith({ lowerBound: 0.95 }, trials)).toBe("incomplete");
  expect(verdictWith({ score: 0 }, trials)).toBe("fail");
});

describe("a measured value", () => {
  it.each([
    ["0.496", 0.495561887, { threshold: 0.9 }],
    ["0.333", 1 / 3, { threshold: 0, atMost: true as const }],
    ["0.50", 0.5, { threshold: 0.8 }],
    ["0.799", 0.79999, { threshold: 0.8 }],
    ["0.201", 0.20001, { threshold: 0.2, atMost: true as const }],
    ["0.80", 0.80001, { threshold: 0.8 }],
    ["0.334", 0.33334, { threshold: 0.3333 }],
    ["-", null, { threshold: 0.8 }],
  ])("is shown as %s: %s with %j", (shown, value, wanted) => {
    expect(formatMeasure({ name: "score", verdict: "fail", trials: 3, value, ...wanted })).toBe(shown);
  });
});
