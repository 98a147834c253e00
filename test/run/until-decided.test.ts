import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Plan, Trial } from "../../src/model/plan.ts";
import type { Decision, RunResult, TrialResult } from "../../src/model/result.ts";
import { Decisions } from "../../src/report/decisions.ts";
import { folderOf, runHere } from "../support/cli.ts";
import { randomFrom } from "../../src/statistics/random.ts";

const sides = ["old", "new"];

/** A plan of rounds of these tasks on both sides. */
function planOf(tasks: number, until: Plan["until"], thresholds?: Plan["thresholds"]): Plan {
  const trials = Array.from({ length: until?.maxTrials ?? 0 }, (_, attempt) =>
    Array.from({ length: tasks }, (_unused, task) =>
      sides.map((variant): Trial => {
        const id = `t${attempt}-${task}-${variant}`;
        return { id, task: `task ${task}`, agent: null, variant, attempt: attempt + 1 };
      }),
    ),
  ).flat(2);
  return { trials, until, thresholds } as unknown as Plan;
}

type Outcome = Pick<TrialResult, "verdict" | "error" | "grades">;
/** Of a trial that came to its end and found nothing to check. */
const nothing = { grader: "steps", verdict: "skip" } as TrialResult["grades"][number];

/** Gives each trial a verdict until the run is decided. */
function decide(plan: Plan, outcomeOf: (trial: Trial) => Outcome["verdict"] | Outcome): readonly Decision[] {
  const decisions = new Decisions(plan);
  for (const trial of plan.trials) {
    if (decisions.areMade) break;
    const outcome = outcomeOf(trial);
    decisions.add({
      ...trial,
      ...(typeof outcome === "string" ? { verdict: outcome, grades: [] } : outcome),
    });
  }
  return decisions.result();
}

describe("a decision", () => {
  it("is a false alarm in less than 6 % of runs with a look after each trial, also with tasks of different difficulty", () => {
    const random = randomFrom(7);
    const runs = 200;
    let alarms = 0;
    for (let run = 0; run < runs; run += 1) {
      const rates = Array.from({ length: 5 }, () => random());
      const [decision] = decide(planOf(5, { maxTrials: 60 }), ({ task }) =>
        random() < (rates[Number(task.slice(5))] ?? 0) ? "pass" : "fail",
      );
      if (decision?.verdict !== "undecided") alarms += 1;
    }
    expect(alarms / runs).toBeLessThan(0.06);
  });

  it("of a clear difference is made after few rounds", () => {
    const random = randomFrom(8);
    const [decision] = decide(planOf(5, { maxTrials: 100 }), ({ variant }) =>
      random() < (variant === "new" ? 0.9 : 0.2) ? "pass" : "fail",
    );
    expect(decision).toMatchObject({ kind: "comparison", first: "old", second: "new", verdict: "better" });
    expect(decision?.rounds).toBeLessThan(20);
  });

  it("is never made by trials without a verdict", () => {
    const [decision] = decide(planOf(4, { maxTrials: 60 }), ({ variant, task }) =>
      task === "task 0" ? (variant === "new" ? "pass" : "fail") : variant === "new" ? "error" : "pass",
    );
    expect(decision).toMatchObject({ verdict: "undecided", rounds: 60 });
    expect(decision?.low).toBeLessThan(0);
  });

  it.each<[string, Outcome, Decision["verdict"]]>([
    ["checked nothing", { verdict: "skip", grades: [nothing] }, "undecided"],
    [
      "was left out, since its task requires what is not there",
      {
        verdict: "skip",
        grades: [],
        error: { code: "task/missing-requirement", kind: "environment", message: "no such program" },
      },
      "better",
    ],
  ])("of trials of which half %s", (_, outcome, verdict) => {
    const [decision] = decide(planOf(4, { maxTrials: 60 }), ({ variant, task }) =>
      task === "task 0" || task === "task 1" ? outcome : variant === "new" ? "pass" : "fail",
    );
    expect(decision?.verdict).toBe(verdict);
  });

  it("can be that a difference does not matter", () => {
    const random = randomFrom(9);
    const [decision] = decide(planOf(10, { maxTrials: 400, margin: 0.2 }), () =>
      random() < 0.9 ? "pass" : "fail",
    );
    expect(decision).toMatchObject({ verdict: "equivalent", margin: 0.2 });
  });

  it.each([
    [0.95, "met"],
    [0.2, "missed"],
  ])("is whether a pass rate of %d reaches a threshold", (rate, verdict) => {
    const random = randomFrom(10);
    const decisions = decide(planOf(5, { maxTrials: 200 }, { lowerBound: 0.6 }), () =>
      random() < rate ? "pass" : "fail",
    );
    const made = decisions.map((each) => [each.kind, each.kind === "threshold" ? each.variant : ""]);
    expect(made).toEqual([
      ["comparison", ""],
      ["threshold", "old"],
      ["threshold", "new"],
    ]);
    for (const decision of decisions.slice(1))
      expect(decision).toMatchObject({ threshold: "lowerBound", value: 0.6, verdict });
  });

  it("is that a variant misses the lower bound, though the mean of all variants reaches it", () => {
    const random = randomFrom(11);
    const decisions = decide(planOf(5, { maxTrials: 400 }, { lowerBound: 0.7 }), ({ variant }) =>
      random() < (variant === "new" ? 1 : 0.5) ? "pass" : "fail",
    );
    expect(decisions.map(({ verdict }) => verdict)).toEqual(["better", "missed", "met"]);
  });

  it("counts each task the same, however many agents try it", () => {
    const trials = Array.from({ length: 200 }, (_, index) =>
      ["x", "y", "z", null].map((agent): Trial => ({
        id: `${index}-${agent}`,
        task: agent === null ? "easy" : "hard",
        agent,
        attempt: index + 1,
      })),
    ).flat();
    const plan = { trials, until: { maxTrials: 200 }, thresholds: { passRate: 0.4 } } as unknown as Plan;
    const decisions = decide(plan, ({ task }) => (task === "easy" ? "pass" : "fail"));
    expect(decisions.at(-1)).toMatchObject({ threshold: "passRate", verdict: "met" });
  });
});

describe("run --until decided", () => {
  const config = "mcp-eval.config.json";
  const tool = (text: string): object => ({
    transport: "mock",
    mock: { tools: { mood: { inputSchema: { type: "object" }, responses: [{ return: text }] } } },
  });
  const test = { name: "mood", args: {}, expectedResult: "good" };
  const moods = {
    servers: { s: tool("bad") },
    variants: { old: {}, new: { servers: { s: tool("good") } } },
    toolHealthSuites: [{ name: "moods", parallel: true, tests: [test] }],
    concurrency: 2,
  };

  it("ends when it is decided, and what did not run is not part of the run", async () => {
    using folder = folderOf({ [config]: moods });
    const at = { cwd: folder.path };
    const run = await runHere(
      ["run", "--until", "decided", "--max-trials", "50", "-q", "-r", "console", "-r", "json=out.json"],
      at,
    );
    expect(run.code, run.stderr).toBe(1);
    expect(run.stdout).toMatch(
      /On these tasks new is better than old: .*\. Decided after \d+ of at most 50\s+rounds/s,
    );
    const result = JSON.parse(readFileSync(join(folder.path, "out.json"), "utf8")) as RunResult;
    const [decision] = result.decisions ?? [];
    expect(decision).toMatchObject({ verdict: "better", maxRounds: 50 });
    expect(result.summary).toMatchObject({ skip: 0, total: result.trials.length });
    expect(result.trials.length).toBeLessThan(60);
    const report = await runHere(["show"], at);
    expect(report.stdout).toContain(`1 task, ${result.trials.length} trials`);
    const compared = await runHere(["compare", "latest"], at);
    expect(compared.stdout).toMatch(
      /^new compared with old: 1 task\n {2}The number of trials of old and new depends on/,
    );
    const shown = await runHere(["show", "-r", "json"], at);
    expect(shown.code).toBe(1);
    expect(JSON.parse(shown.stdout)).toMatchObject({ decisions: result.decisions, summary: result.summary });
    const runs = join(folder.path, ".mcpvals/runs");
    const plan = JSON.parse(
      readFileSync(join(runs, readdirSync(runs)[0] ?? "", "plan.json"), "utf8"),
    ) as Plan;
    expect(plan.trials.map(({ id }) => id)).toEqual(result.trials.map(({ id }) => id));
  });

  it("has a line for what passed, though the run ended before all that was planned", async () => {
    using folder = folderOf({ [config]: moods });
    const { stdout } = await runHere(["run", "--until", "decided"], { cwd: folder.path });
    expect(stdout).toMatch(/\n {2}✓ moods › mood {2}\d+ passed\n/);
  });

  it("is incomplete when it is undecided", async () => {
    using folder = folderOf({ [config]: { ...moods, servers: { s: tool("good") } } });
    const reporters = [
      "-r",
      "console",
      "-r",
      "github=annotations",
      "-r",
      "markdown=report.md",
      "-r",
      "junit=out.xml",
    ];
    const run = await runHere(["run", "--until", "decided", "--max-trials", "3", "-q", ...reporters], {
      cwd: folder.path,
    });
    const reported = (name: string): string => readFileSync(join(folder.path, name), "utf8");
    const said = "After 3 rounds, the most that were allowed, it is undecided whether new is better";
    expect(reported("annotations")).toContain(`::error title=decision::${said}`);
    expect(reported("report.md")).toContain(`- **undecided**: ${said}`);
    expect(reported("report.md")).toContain("interval, as if the number of trials had been fixed");
    expect(reported("out.xml")).toContain(`<error type="decision" message="${said}`);
    expect(run.code).toBe(3);
    expect(run.stdout).toMatch(
      /After 3 rounds, the most that were allowed, it is undecided whether new is better/,
    );
    expect(run.stdout).toContain(
      "Incomplete: what --until decided was to find out is undecided after 3 rounds.",
    );
  });

  it("meets a threshold with one variant", async () => {
    using folder = folderOf({ [config]: moods });
    const args = [
      "run",
      "--variant",
      "new",
      "--until",
      "decided",
      "--threshold",
      "lowerBound=0.7",
      "-r",
      "json",
    ];
    const run = await runHere(args, { cwd: folder.path });
    const { gates = [], decisions = [], trials } = JSON.parse(run.stdout) as RunResult;
    expect(run.code).toBe(0);
    const [decision] = decisions;
    const decided = { value: decision?.low, high: decision?.high };
    expect(gates).toMatchObject([{ name: "lowerBound", variant: "new", verdict: "pass", ...decided }]);
    expect(trials.length).toBeLessThan(100);
  });

  it.each([
    [["--variant", "new", "--until", "decided"], "there is nothing to decide"],
    [["--variant", "new", "--until", "decided", "--threshold", "passRate=1"], "there is nothing to decide"],
    [["--max-trials", "3"], "--max-trials is for --until decided"],
    [["--until", "decided", "--trials", "3"], "cannot be used with option"],
  ])("refuses %j", async (args, message) => {
    using folder = folderOf({ [config]: moods });
    const run = await runHere(["run", ...args], { cwd: folder.path });
    expect([run.code, run.stderr]).toEqual([2, expect.stringContaining(message)]);
  });
});
