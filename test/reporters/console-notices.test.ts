import { expect, it } from "vitest";
import { consoleReporter } from "../../src/reporters/console.ts";
import { passingRun } from "./runs.ts";
import { brokenTrial, play, sampleRun, toolTest } from "./samples.ts";
import { captureOutput, Screen } from "./screen.ts";

it("a notice stands above the live progress at once, and where it was afterwards", async () => {
  const run = passingRun();
  const [first, second] = run.start.plan.trials;
  if (first === undefined || second === undefined) throw new Error("two trials are needed");
  let notice: ((text: string) => void) | undefined;
  const output = {
    ...captureOutput({ isTerminal: true }),
    notices(listener: (text: string) => void) {
      notice = listener;
      return () => {
        notice = undefined;
      };
    },
  };
  const reporter = consoleReporter(output);
  const screen = (): string[] => new Screen(output.columns).write(output.text()).lines().slice(3);

  expect(notice).toBeUndefined();
  await reporter.onRunStart?.(run.start);
  await reporter.onTrialStart?.(first);
  output.pass(100);
  notice?.("\nInterrupted: stopping.\nOnce more ends at once.");
  expect(screen()).toEqual([
    "Interrupted: stopping.",
    "Once more ends at once.",
    "  ⠙ echo answers what it was told  0.1 s",
    "  0 of 2 trials · 0.1 s",
  ]);

  for (const trial of run.trials) await reporter.onTrialEnd?.(trial);
  await reporter.onRunEnd?.(run.end);
  await reporter.close?.();
  expect(notice).toBeUndefined();
  expect(screen().slice(0, 5)).toEqual([
    "Interrupted: stopping.",
    "Once more ends at once.",
    "  everything",
    "  ✓ echo answers what it was told      41 ms",
    "  ✓ adds two numbers                   1.2 s",
  ]);
});

it.each([
  [".mcpvals/runs/ID", "npx --no-install mcpvals show 20261121-101500-4f2a"],
  ["/home/me/.mcpvals/runs/ID", "npx --no-install mcpvals show 20261121-101500-4f2a"],
  [String.raw`C:\me\.mcpvals\runs\ID`, "npx --no-install mcpvals show 20261121-101500-4f2a"],
  ["/tmp/elsewhere/ID", "npx --no-install mcpvals show /tmp/elsewhere/ID"],
])("a run kept in %s is shown again with: %s", async (folder, command) => {
  const output = captureOutput();
  const run = passingRun();
  await play({ ...run, start: { ...run.start, folder } }, consoleReporter(output));
  expect(output.text().split(" · ").at(-1)).toBe(`${command}\n`);
});

it("the body of an HTTP error is not taken for stderr", async () => {
  const output = captureOutput();
  const error = {
    code: "server/http-status",
    kind: "environment",
    message: "HTTP 401",
    detail: "token expired",
  } as const;
  const task = toolTest("echo");
  await play(sampleRun({ tasks: [task], trials: [brokenTrial(task, error)] }), consoleReporter(output));
  expect(output.text()).toMatch(/\n {6}answer +token expired\n/);
});
