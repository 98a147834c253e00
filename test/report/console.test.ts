import { stripVTControlCharacters } from "node:util";
import { expect, it } from "vitest";
import { consoleReporter } from "../../src/report/console.ts";
import { ratesOf } from "../../src/report/rates.ts";
import { brokenRun, emptyRun, failingRun, interruptedRun, passingRun, variedRun } from "./runs.ts";
import {
  brokenTrial,
  grade,
  play,
  sampleRun,
  skipGrade,
  toolTest,
  trialOf,
  workflow,
  type SampleRun,
} from "./samples.ts";
import { captureOutput } from "./screen.ts";

async function printed(run: SampleRun): Promise<string> {
  const output = captureOutput();
  await play(run, consoleReporter(output));
  return output.text();
}

it("a run that passes: names, times, and that no model took part", async () => {
  expect(await printed(passingRun())).toBe(String.raw`mcpvals 0.1.0  quickstart
2 tasks · tools called directly, no agent

  everything
  ✓ echo answers what it was told      41 ms
  ✓ adds two numbers                   1.2 s

  2 passed · 2 trials in 1.3 s · no model took part

  PASS
  trace .mcpvals/runs/20261121-101500-4f2a · npx mcpvals show 20261121-101500-4f2a
`);
});

it("failures with checks, diffs, calls, answers and words, none of which drives the terminal", async () => {
  expect(await printed(failingRun())).toBe(String.raw`mcpvals 0.1.0  quickstart
6 tasks · agent scripted (a written plan, not a model)

  everything
  ✓ echo answers what it was told      41 ms
  ✗ adds two numbers                   39 ms
  ✗ gives the weather                 245 ms
  ✗ answers isError                    41 ms
  - checks nothing                     12 ms  skipped

  workflows
  ✗ get the sum                       131 ms  score 0.67

Failed

  ✗ everything › adds two numbers  t2
    verify-steps 0.00  result: the last number in the text is 5, expected 6
      call      get-sum {"a":2,"b":3}  (event 2, 4 ms)
      result    The sum of 2 and 3 is 5.
    passed: tool-call-health

  ✗ everything › gives the weather  t3
    verify-steps 0.00  result: the result does not contain what was expected: /city is missing; latency: 240.1 ms, 100 ms allowed
      diff      │ - expected  + actual
                │   {
                │ -   "conditions": "Sunny",
                │ +   "conditions": "Cloudy",
                │     "temperature": 33,
                │     "wind": {
                │       "speed": 3,
                │ -     "direction": "SE"
                │ +     "direction": "NW"
                │     }
                │   }
      call      get-structured-content {"location":"New York"}  (event 2, 4 ms)
      result    {"temperature":33,"conditions":"Cloudy","humidity":82,"wind":{"speed":3,"direction":"NW"}}
    passed: tool-call-health

  ✗ everything › answers isError  t4
    tool-call-health 0.00  annotated answered isError: bad \x1b[2J thing
      call      annotated {"text":"\u001b[31mred"}  (event 1, 4 ms)
      isError   │ bad \x1b[2J\x07 thing
                │ at line 2

  ✗ get the sum  t6
    end-to-end-success 0.00  turn 1: neither the last assistant message nor the last tool result contains "5"
      said      I have added the two numbers for you, and the answer that I arrived at is 4. Anything else?  (event 4)
      call      get-sum {"a":2,"b":2}  (event 2, 4 ms)
      result    The sum of 2 and 2 is 4.
    passed: tool-invocation-order, tool-call-health

Skipped

  - everything › checks nothing: no tool was called; no step checks anything

Warnings

  - everything › echo answers what it was told: server "everything" wrote a line on stdout that is not MCP, first "hi"

  1 passed · 4 failed · 1 skipped · 6 trials in 3.2 s · no model took part

  FAIL   exit 1
  trace .mcpvals/runs/20261121-101500-4f2a · npx mcpvals show 20261121-101500-4f2a --trial t2
`);
});

it("errors apart from failures, those alike told once, with stderr and what to do", async () => {
  expect(await printed(brokenRun())).toBe(String.raw`mcpvals 0.1.0  quickstart
6 tasks · agent scripted (a written plan, not a model)

  everything
  ✓ first          41 ms
  ! second          3 ms  server/spawn-failed
  ! third           4 ms  server/spawn-failed
  ! fourth         41 ms  server/exited
  ! fifth          2.0 s  timeout

  workflows
  ! is polite      41 ms  no verdict

Errors  not judged: the environment broke or time ran out

  ! 2 trials
    everything › second, everything › third
    server/spawn-failed  server "everything": could not start "nod": no such program
    Check command, args and cwd; run the same command in a terminal.

  ! everything › fourth  t4
    server/exited  the server "everything" ended with code 1 before it answered initialize
    Run the same command in a terminal: node everything.js
      stderr    │ Error: Cannot find module 'zod'
                │ Require stack:
                │ - /srv/\x1b[1meverything.js

  ! everything › fifth  t5
    trial/timeout  the trial did not finish within 2 s
    If it is only slow, raise limits.trial or --timeout.

  ! is polite  t6
    judge gave no verdict  the judge answered with something that is not a verdict
      judge/no-verdict  not JSON: "I would say fine"
      Try again, or choose another judge model. A trial without a verdict never passes.
    passed: tool-call-health

  1 passed · 4 errors · 1 timeout · 6 trials in 3.2 s · 1,200 tokens in, 34 out, 2 model requests

  INCOMPLETE   exit 3
  Incomplete: 0 failed, 5 not evaluated (4 errors, 1 timeout).
  trace .mcpvals/runs/20261121-101500-4f2a · npx mcpvals show 20261121-101500-4f2a --trial t2
`);
});

it("the command at the end shows a trial that failed, else one that was not judged", async () => {
  const tasks = ["breaks", "fails"].map((name) => toolTest(name));
  const error = { code: "server/exited", kind: "environment", message: "it ended" } as const;
  const trials = [
    brokenTrial(tasks[0]!, error),
    trialOf(tasks[1]!, { grades: [grade("verify-steps", 0, "wrong")] }),
  ];
  expect(await printed(sampleRun({ tasks, agents: [], folder: ".mcpvals/runs/1", trials }))).toContain(
    "npx mcpvals show 20261121-101500-4f2a --trial t2",
  );
});

it("several agents and attempts: alike failures together, and k of n by task", async () => {
  expect(await printed(variedRun())).toBe(String.raw`mcpvals 0.1.0  travel
3 tasks, 18 trials · agent claude (anthropic/claude-sonnet-4-5) · agent scripted (a written plan, not a model)

  ✓ books a flight  6 passed
  ✗ finds the cheapest · claude · attempt 2        8.2 s  score 0.75
  ✗ finds the cheapest · claude · attempt 3        8.2 s  score 0.75
  ✗ finds the cheapest · scripted · attempt 1      12 ms  score 0.75
  ✗ finds the cheapest · scripted · attempt 2      12 ms  score 0.75
  ✗ finds the cheapest · scripted · attempt 3      12 ms  score 0.75
  ✓ finds the cheapest  1 passed
  ! 日本語のタスク 🎉 · claude · attempt 2        31.2 s  model/unreachable
  ✓ 日本語のタスク 🎉  5 passed

Failed

  ✗ finds the cheapest · claude  1/3 passed
    attempts 2, 3  t8, t9
    tool-invocation-order 0.50  not called: compare; expected: search, compare; called: search
      call      search {"q":"cheap"}  (event 1, 4 ms)
    passed: tool-call-health

  ✗ finds the cheapest · scripted  0/3 passed
    attempts 1, 2, 3  t10, t11, t12
    tool-invocation-order 0.50  not called: compare; expected: search, compare; called: search
      call      search {"q":"cheap"}  (event 1, 4 ms)
    passed: tool-call-health

Errors  not judged: the environment broke or time ran out

  ! 日本語のタスク 🎉 · claude · attempt 2  t14
    model/unreachable  anthropic/claude-sonnet-4-5 did not answer: 529 overloaded
    Check the network, the base URL and the provider's status.

By task  pass rates with their 95 % intervals

  books a flight      claude    3/3                100 % (44 to 100)  8.2 s  12,340 tokens
  books a flight      scripted  3/3                100 % (44 to 100)  12 ms
  finds the cheapest  claude    1/3                33 % (6 to 79)     8.2 s  12,340 tokens  flaky
  finds the cheapest  scripted  0/3                0 % (0 to 56)      12 ms
  日本語のタスク 🎉   claude    2/2, 1 not judged  100 % (34 to 100)  8.2 s  12,340 tokens
  日本語のタスク 🎉   scripted  3/3                100 % (44 to 100)  12 ms

  On these tasks it is undecided whether scripted is better or worse than claude: the pass rate of scripted is 11.1 points lower than that of claude (95 % interval −43.1 to +28.8 points). If both were equally good, chance alone would show a difference as large in every comparison.

  12 passed · 5 failed · 1 error · 18 trials in 1 min 34 s · 108,000 tokens in (81,000 cached), 3,060 out, 36 model requests

  FAIL   exit 1
  trace .mcpvals/runs/20261121-101500-4f2a · npx mcpvals show 20261121-101500-4f2a --trial t8
`);
});

it("an interrupted run: what was not run is counted, not listed", async () => {
  expect((await printed(interruptedRun())).split("\n").slice(3)).toEqual([
    "  everything",
    "  ✓ a      41 ms",
    "",
    "Skipped",
    "",
    "  - 3 trials: the run was interrupted before this trial started",
    "",
    "  1 passed · 3 skipped · 4 trials in 3.2 s · no model took part",
    "",
    "  INTERRUPTED   exit 130",
    "  The run was interrupted before 3 trials of 4 could finish.",
    "",
  ]);
});

it("a run of nothing, which is not green", async () => {
  expect((await printed(emptyRun())).split("\n").slice(1)).toEqual([
    "0 tasks",
    "",
    "  0 trials in 2 ms",
    "",
    "  INCOMPLETE   exit 3",
    "  Incomplete: no trial ran.",
    "",
  ]);
});

it("writes each trial's line as it ends, one by one", async () => {
  const output = captureOutput();
  const reporter = consoleReporter(output);
  const run = passingRun();
  await reporter.onRunStart?.(run.start);
  await reporter.onTrialEnd?.(run.trials[0]!);
  expect(output.text().split("\n").slice(3)).toEqual([
    "  everything",
    "  ✓ echo answers what it was told      41 ms",
    "",
  ]);
});

it("colours only where colours are wanted, and says the same with and without", async () => {
  const output = captureOutput({ colors: true });
  await play(brokenRun(), consoleReporter(output));
  expect(output.text()).toContain("\u001b[32m✓\u001b[39m");
  // oxlint-disable-next-line no-control-regex
  expect(output.text().replaceAll(/\u001b\[\d+m/gu, "")).toBe(await printed(brokenRun()));
});

it.each([
  [
    [toolTest("one"), workflow("two")],
    ["  ✓ everything › one      41 ms", "  ✓ two                   41 ms"],
  ],
  [
    [toolTest("one"), toolTest("two")],
    ["  everything", "  ✓ one      41 ms", "  ✓ two      41 ms"],
  ],
])(
  "puts the group before each name only where trials of several groups overlap: %#",
  async (tasks, lines) => {
    const run = sampleRun({ tasks, trials: tasks.map((task) => trialOf(task)), concurrency: 2 });
    expect((await printed(run)).split("\n").slice(3, 3 + lines.length)).toEqual(lines);
  },
);

it("cuts long names on a terminal, before the variant, so that times and rates stay in columns", async () => {
  const tasks = [workflow(`finds ${"the date of the review ".repeat(4)}`.trim()), workflow("short")];
  const trials = tasks.flatMap((task) => ["a", "b"].map((agent) => trialOf(task, { agent })));
  const run = sampleRun({ tasks, trials });
  const output = captureOutput({ isTerminal: true, columns: 70 });
  await play(run, consoleReporter(output));
  const lines = stripVTControlCharacters(output.text()).split("\n");
  expect(lines.filter((line) => line.length > 70)).toEqual([]);
  const ended = lines.filter((line) => line.includes("✓"));
  expect(ended[0]).toMatch(/^ {2}✓ finds the date .*… · a +41 ms$/);
  expect(new Set(ended.map((line) => line.indexOf(" ms")))).toEqual(new Set([ended[0]?.indexOf(" ms")]));
  expect(await printed(run)).toContain(`✓ ${tasks[0]?.name} · a`);
  const attempts = tasks.flatMap((task) => [1, 2].map((attempt) => trialOf(task, { attempt })));
  const again = captureOutput({ isTerminal: true, columns: 70 });
  await play(sampleRun({ tasks, trials: attempts }), consoleReporter(again));
  const all = stripVTControlCharacters(again.text()).split("\n");
  expect(all.filter((line) => line.length > 70)).toEqual([]);
  expect(all).toContainEqual(expect.stringMatching(/^ {2}✓ finds the date .*… {2}2 passed$/));
});

it("tells apart failures of one task, and merges those that are alike", async () => {
  const task = workflow("flaky");
  const reasons = ["late", "lost", "late", "cold", "odd"];
  const trials = reasons.map((reason, index) =>
    trialOf(task, { attempt: index + 1, grades: [grade("judge", 0.2, reason)] }),
  );
  const text = await printed(sampleRun({ tasks: [task], trials }));
  expect(between(text, "Failed", "By task")).toBe(`  ✗ flaky  0/5 passed
    attempts 1, 3  t1, t3
    judge 0.20  late
    attempt 2  t2
    judge 0.20  lost
    attempt 4  t4
    judge 0.20  cold
    and 1 more attempt that failed in other ways`);
});

it.each([
  [20, ""],
  [22, "  and 2 more trials, marked ! above"],
])("shows the first of %i different errors, and counts the others", async (count, rest) => {
  const tasks = Array.from({ length: count }, (_, index) => toolTest(`t${index}`));
  const trials = tasks.map((task, index) =>
    brokenTrial(task, { code: "server/exited", kind: "environment", message: `no ${index}` }),
  );
  const errors = between(await printed(sampleRun({ tasks, trials })), "Errors", "  22 errors");
  expect(errors.split("server/exited  no ")).toHaveLength(21);
  expect(errors.match(/ {2}and .* above/)?.[0] ?? "").toBe(rest);
});

it("shows the first 40 failed tasks and the first 20 warnings, and counts the others", async () => {
  const tasks = Array.from({ length: 42 }, (_, index) => toolTest(`t${index}`));
  const trials = tasks.map((task, index) =>
    trialOf(task, { grades: [grade("judge", 0, "no")], warnings: [`warning ${index}`] }),
  );
  const text = await printed(sampleRun({ tasks, trials }));
  expect(between(text, "Failed", "Warnings").split("judge 0.00  no")).toHaveLength(41);
  expect(text).toContain("\n  and 2 more failed tasks, marked ✗ above\n");
  expect(between(text, "Warnings").split(": warning ")).toHaveLength(21);
  expect(text).toContain("\n  and 22 more reasons\n");
});

it.each([
  [30, 30, ""],
  [31, 1, "  and 30 tasks of which every attempt passed"],
])("shows all of %i tasks by their attempts, or only those that did not pass", async (count, shown, rest) => {
  const tasks = Array.from({ length: count }, (_, index) => toolTest(`t${index}`));
  const trials = tasks.flatMap((task, index) => [
    trialOf(task),
    trialOf(task, { attempt: 2, grades: [grade("judge", index === 0 ? 0 : 1)] }),
  ]);
  const text = await printed(sampleRun({ tasks, trials }));
  const byTask = text.slice(text.indexOf("By task")).split("\n");
  expect(byTask.filter((line) => /\d\/2/.test(line))).toHaveLength(shown);
  expect(byTask.find((line) => line.includes("every attempt")) ?? "").toBe(rest);
});

it("says why a run of skips is not green", async () => {
  const task = toolTest("nothing");
  const trials = [trialOf(task, { grades: [skipGrade("verify-steps", "no step checks anything")] })];
  const text = await printed(sampleRun({ tasks: [task], trials }));
  expect(between(text, "INCOMPLETE   exit 3")).toBe("  Incomplete: every trial was skipped.");
});

it("does not claim that no model took part where it cannot know", async () => {
  const task = workflow("any");
  const ran = async (type: string, model?: string): Promise<string> => {
    const agent = { name: "it", type, ...(model === undefined ? {} : { model }) };
    const run = sampleRun({ tasks: [task], agents: [agent], trials: [trialOf(task, { agent: "it" })] });
    return (await printed(run)).split("\n").find((line) => line.includes("1 passed")) ?? "";
  };
  expect(await ran("scripted")).toBe("  1 passed · 1 trial in 3.2 s · no model took part");
  expect(await ran("model", "openai/gpt-5")).toBe("  1 passed · 1 trial in 3.2 s · no model answered");
  expect(await ran("acp")).toBe("  1 passed · 1 trial in 3.2 s");
});

function between(text: string, from: string, to = "\u0000"): string {
  const start = text.indexOf(from) + from.length;
  const end = text.indexOf(to, start);
  return text.slice(start, end === -1 ? undefined : end).replaceAll(/^\n+|\n+$/gu, "");
}

it("has a line for each agent and variant of a task, all tasks together, and says how variants compare", async () => {
  const tasks = [workflow("books a flight"), workflow("finds a hotel")];
  const trials = tasks.flatMap((task) =>
    ["old", "new"].flatMap((variant) =>
      Array.from({ length: 6 }, (_, index) =>
        trialOf(task, {
          variant,
          attempt: index + 1,
          grades: [grade("judge", variant === "new" || index === 0 ? 1 : 0, "")],
        }),
      ),
    ),
  );
  const run = sampleRun({ tasks, trials });
  const text = await printed({
    ...run,
    end: { ...run.end, result: { ...run.end.result, ...ratesOf(run.end.result.trials) } },
  });
  expect(between(text, "By task", "  14 passed")).toBe(
    [
      "  pass rates with their 95 % intervals",
      "",
      "  books a flight  old  1/6    17 % (3 to 56)     41 ms  flaky",
      "  books a flight  new  6/6    100 % (61 to 100)  41 ms",
      "  finds a hotel   old  1/6    17 % (3 to 56)     41 ms  flaky",
      "  finds a hotel   new  6/6    100 % (61 to 100)  41 ms",
      "  all tasks       old  2/12   17 % (4 to 47)",
      "  all tasks       new  12/12  100 % (76 to 100)",
      "",
      "  On these tasks new is better than old: the pass rate of new is 83.3 points higher than that of old (95 % interval +44.7 to +95.6 points). If both were equally good, chance alone would show a difference as large in less than 1 of 1,000 comparisons.",
    ].join("\n"),
  );
});

it("tells all tasks without an agent apart from those of the only agent", async () => {
  const [called, asked] = [workflow("is called"), workflow("is asked")];
  const trials = [1, 2].flatMap((attempt) => [
    trialOf(called, { attempt }),
    trialOf(asked, { attempt, agent: "scripted" }),
  ]);
  const run = sampleRun({ tasks: [called, asked], trials });
  const result = { ...run.end.result, ...ratesOf(run.end.result.trials) };
  const text = await printed({ ...run, end: { ...run.end, result } });
  expect(text).toMatch(/\n {2}all tasks +no agent +2\/2 .*\n {2}all tasks +2\/2 /);
});

it("says that nothing can be said of a variant without a verdict", async () => {
  const task = workflow("books a flight");
  const trials = ["old", "new"].flatMap((variant) =>
    [1, 2].map((attempt) =>
      variant === "old"
        ? trialOf(task, { variant, attempt })
        : brokenTrial(
            task,
            { code: "server/exited", kind: "environment", message: "it ended" },
            { variant, attempt },
          ),
    ),
  );
  expect(await printed(sampleRun({ tasks: [task], trials }))).toContain(
    "  On these tasks nothing can be said of new and old: no task has a verdict with both.",
  );
});

it.each([
  [".mcpvals/runs/ID", "npx mcpvals show 20261121-101500-4f2a"],
  ["/home/me/.mcpvals/runs/ID", "npx mcpvals show 20261121-101500-4f2a"],
  [String.raw`C:\me\.mcpvals\runs\ID`, "npx mcpvals show 20261121-101500-4f2a"],
  ["/tmp/elsewhere/ID", "npx mcpvals show /tmp/elsewhere/ID"],
])("a run kept in %s is shown again with: %s", async (folder, command) => {
  const run = passingRun();
  const text = await printed({ ...run, start: { ...run.start, folder } });
  expect(text.split(" · ").at(-1)).toBe(`${command}\n`);
});

it("the body of an HTTP error is not taken for stderr", async () => {
  const error = {
    code: "server/http-status",
    kind: "environment",
    message: "HTTP 401",
    detail: "expired",
  } as const;
  const task = toolTest("echo");
  const text = await printed(sampleRun({ tasks: [task], trials: [brokenTrial(task, error)] }));
  expect(text).toMatch(/\n {6}answer +expired\n/);
});

it("a run of more than 20 trials has a line for what passes of each suite, and one for each other trial", async () => {
  const tasks = [
    ...Array.from({ length: 15 }, (_, index) => toolTest(`a${index}`, { suite: "first" })),
    ...Array.from({ length: 6 }, (_, index) => toolTest(`b${index}`, { suite: "second" })),
  ];
  const trials = tasks.map((task) =>
    task.name === "second/b3"
      ? trialOf(task, { grades: [grade("tool-call-health", 0, "bad")] })
      : trialOf(task),
  );
  const lines = (await printed(sampleRun({ tasks, trials }))).split("\n");
  expect(lines.slice(2, 7)).toEqual([
    "",
    "  ✓ first  15 passed",
    expect.stringMatching(/^ {2}✗ second › b3 +41 ms/),
    "  ✓ second  5 passed",
    "",
  ]);
});

it("with --quiet shows only what did not pass, and the last lines", async () => {
  const quiet = async (run: SampleRun): Promise<string[]> => {
    const output = captureOutput();
    await play(run, consoleReporter({ ...output, quiet: true }));
    return output.text().split("\n");
  };
  expect(await quiet(passingRun())).toEqual([
    "  2 passed · 2 trials in 1.3 s · no model took part",
    "",
    "  PASS",
    expect.stringContaining("trace"),
    "",
  ]);
  const { end, ...run } = passingRun();
  const trials = end.result.trials.map((trial) => ({ ...trial, warnings: ["it proves little"] }));
  const warned = await quiet({ ...run, end: { ...end, result: { ...end.result, trials } } });
  expect(warned[0]).toBe("  2 passed · 2 trials in 1.3 s · no model took part · 1 warning");
  const failed = await quiet(failingRun());
  expect(failed[0]).toBe("Failed");
  expect(failed.join("\n")).not.toContain("echo answers");
});

it("with --quiet says why nothing was judged, which warnings were too many, and names no line that is not there", async () => {
  const quiet = async (run: SampleRun): Promise<string> => {
    const output = captureOutput();
    await play(run, consoleReporter({ ...output, quiet: true }));
    return output.text();
  };
  const { end, ...run } = passingRun();
  const trials = end.result.trials.map((trial) => ({ ...trial, warnings: ["it proves little"] }));
  const strict = { ...end.result, trials, verdict: "fail" as const, maxWarnings: 0 };
  expect(await quiet({ ...run, end: { ...end, result: strict } })).toContain("it proves little");
  expect(await quiet(interruptedRun())).toMatch(/^Skipped$[^]+ 3 trials: the run was interrupted/m);
  const tasks = Array.from({ length: 42 }, (_, index) => toolTest(`t${index}`));
  const failing = tasks.map((task) => trialOf(task, { grades: [grade("judge", 0.2, task.name)] }));
  expect(await quiet(sampleRun({ tasks, trials: failing }))).toContain("\n  and 2 more failed tasks\n");
});

it("of many tasks in several variants it counts lines, not tasks; all tasks together have their trials without a verdict", async () => {
  const tasks = Array.from({ length: 20 }, (_, index) => workflow(`t${index}`));
  const variants = ["old", "new"] as const;
  const error = { code: "server/exited", kind: "environment", message: "it crashed" } as const;
  const trials = tasks.flatMap((task, index) =>
    variants.map((variant) =>
      variant === "old" && index < 2 ? brokenTrial(task, error, { variant }) : trialOf(task, { variant }),
    ),
  );
  const run = sampleRun({ tasks, trials });
  const text = await printed({
    ...run,
    end: { ...run.end, result: { ...run.end.result, ...ratesOf(run.end.result.trials) } },
  });
  expect(text).toContain("\n  and 38 more of which every attempt passed\n");
  expect(text).toMatch(/\n {2}all tasks +old {2}18\/18, 2 not judged /);
});

it("a run of which it is unknown what it used: a larger budget is no help", async () => {
  const { start, trials, end } = passingRun();
  const usedUp = "it is unknown what the trial t1 cost, so the budget of $5.00 cannot be kept";
  const result = {
    ...end.result,
    verdict: "incomplete",
    budget: { cost: 5, usedUp, isUnknown: true },
  } as const;
  const text = await printed({ start: { ...start, command: "run" }, trials, end: { ...end, result } });
  expect(text).not.toContain("larger budget");
  expect(text).toMatch(/to go on without a budget: npx mcpvals resume \S+ --without-budget/);
  expect(text.replaceAll(/\s+/g, " ")).toContain("a price of the model (--prices FILE)");
});
