import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Reporter, ReporterOutput } from "../../src/report/reporter.ts";
import { consoleReporter } from "../../src/report/console.ts";
import { brokenRun, failingRun, passingRun, variedRun } from "./runs.ts";
import { grade, play, request, sampleRun, scripted, toolTest, trialOf, type SampleRun } from "./samples.ts";
import { captureOutput, Screen, type CaptureOptions, type CapturedOutput } from "./screen.ts";

type StageOptions = CaptureOptions & Pick<ReporterOutput, "notices">;

interface Stage {
  readonly run: SampleRun;
  readonly output: CapturedOutput;
  readonly reporter: Reporter;
  readonly start: (index: number) => Promise<void>;
  readonly end: (index: number) => Promise<void>;
  /** What a person sees now. */
  readonly screen: () => string[];
}

function stage(run: SampleRun, { notices, ...options }: StageOptions = {}): Stage {
  const output = {
    ...captureOutput({ isTerminal: true, ...options }),
    ...(notices === undefined ? {} : { notices }),
  };
  const reporter = consoleReporter(output);
  return {
    run,
    output,
    reporter,
    start: async (index) => reporter.onTrialStart?.(run.start.plan.trials[index]!),
    end: async (index) => reporter.onTrialEnd?.(run.trials[index]!),
    screen: () => new Screen(output.columns).write(output.text()).lines(),
  };
}

describe("live progress", () => {
  it("shows what runs, what it does and for how long, below what has ended", async () => {
    const { run, output, reporter, start, end, screen } = stage(failingRun());
    await reporter.onRunStart?.(run.start);
    await start(0);
    output.pass(100);
    expect(screen().slice(3)).toEqual([
      "  ⠙ echo answers what it was told  0.1 s",
      "  0 of 6 trials · 0.1 s",
    ]);

    await end(0);
    await start(1);
    reporter.onEvent?.({ type: "phase.started", phase: "servers", seq: 1, at: 0, trial: "t2" });
    output.pass(300);
    expect(screen().slice(3)).toEqual([
      "  everything",
      "  ✓ echo answers what it was told      41 ms",
      "",
      "  ⠼ adds two numbers  starting servers  0.3 s",
      "  1 of 6 trials · 1 passed · 0.4 s",
    ]);

    reporter.onEvent?.({ seq: 2, at: 0, trial: "t2", ...request(1, "get-sum", {}) });
    output.pass(700);
    expect(screen().slice(6)).toEqual([
      "  ⠙ adds two numbers  get-sum  1.0 s",
      "  1 of 6 trials · 1 passed · 1.1 s",
    ]);

    const ofModel = { purpose: "agent", model: "anthropic/m", at: 0, trial: "t2" } as const;
    reporter.onEvent?.({ type: "model.waiting", seq: 3, ...ofModel, delayMs: 2000 });
    output.tick();
    expect(screen().at(-2)).toBe("  ⠙ adds two numbers  waiting for the model's rate limit  1.0 s");
    const usage = { inputTokens: 1, outputTokens: 1 };
    reporter.onEvent?.({
      type: "model.called",
      seq: 4,
      ...ofModel,
      durationMs: 9,
      finishReason: "stop",
      usage,
    });
    output.tick();
    expect(screen().at(-2)).toBe("  ⠙ adds two numbers  agent  1.0 s");

    const step = { phase: "verify", step: "page", name: "the page answers", attempt: 1, input: {} } as const;
    reporter.onEvent?.({ type: "step.started", stepType: "http", seq: 3, at: 0, trial: "t2", ...step });
    output.tick();
    expect(screen().at(-2)).toBe("  ⠙ adds two numbers  checking: the page answers  1.0 s");

    await end(1);
    output.pass(100);
    expect(screen().slice(4)).toEqual([
      "  ✓ echo answers what it was told      41 ms",
      "  ✗ adds two numbers                   39 ms",
      "",
      "  2 of 6 trials · 1 passed · 1 failed · 1.2 s",
    ]);
  });

  it("names the first few of many that run at once", async () => {
    const { run, output, reporter, start, screen } = stage(variedRun());
    await reporter.onRunStart?.(run.start);
    for (let index = 0; index < 9; index++) await start(index);
    output.pass(100);
    expect(screen().slice(4)).toEqual([
      "  ⠙ books a flight · claude · attempt 1  0.1 s",
      "  ⠙ books a flight · claude · attempt 2  0.1 s",
      "  ⠙ books a flight · claude · attempt 3  0.1 s",
      "  ⠙ books a flight · scripted · attempt 1  0.1 s",
      "    and 5 more",
      "  0 of 18 trials · 0.1 s",
    ]);
  });

  it("cuts its lines to the width of the terminal, also when that changes", async () => {
    const { run, output, reporter, start, end, screen } = stage(variedRun(), { columns: 200 });
    await reporter.onRunStart?.(run.start);
    for (const index of [12, 13, 14]) await start(index);
    for (let index = 0; index < 12; index++) await end(index);
    output.pass(100);
    output.writes.length = 0;
    output.resize(36);
    output.pass(100);
    // A terminal wraps the old lines when it gets narrower: a blank one and four of two rows each.
    expect(output.text().startsWith("\u001b[9A\r\u001b[J")).toBe(true);
    output.writes.length = 0;
    output.pass(100);
    expect(output.text().startsWith("\u001b[5A\r\u001b[J")).toBe(true);
    output.writes[0] = output.writes[0]!.replace("\u001b[5A", "");
    expect(screen()).toEqual([
      "",
      "  ⠸ 日本語のタスク 🎉 · cla…  0.3 s",
      "  ⠸ 日本語のタスク 🎉 · cla…  0.3 s",
      "  ⠸ 日本語のタスク 🎉 · cla…  0.3 s",
      "  12 of 18 trials · 7 passed · 5 f…",
    ]);
  });

  it("is erased at the end, leaving what a plain log would say, in one piece", async () => {
    for (const run of [passingRun(), failingRun(), brokenRun(), variedRun()]) {
      const { output, reporter, screen } = stage(run, { columns: 400 });
      await playSlowly(run, reporter, output);
      const plain = captureOutput({ columns: 400 });
      await play(run, consoleReporter(plain));
      expect(screen()).toEqual(plain.text().trimEnd().split("\n"));
      expect(output.timers()).toBe(0);
    }
  });

  it("is erased when the run never comes to its end, keeping what was finished", async () => {
    const { run, output, reporter, start, end, screen } = stage(passingRun());
    await reporter.onRunStart?.(run.start);
    await start(0);
    output.pass(100);
    await end(0);
    await start(1);
    await reporter.close?.();
    expect(screen().slice(3)).toEqual(["  everything", "  ✓ echo answers what it was told      41 ms"]);
    expect(output.timers()).toBe(0);
    const written = output.writes.length;
    output.pass(1000);
    await reporter.close?.();
    expect(output.writes).toHaveLength(written);
  });

  it("stands below notices, which are shown at once and stay", async () => {
    let notice: ((text: string) => void) | undefined;
    const { run, output, reporter, start, end, screen } = stage(passingRun(), {
      notices(listener) {
        notice = listener;
        return () => (notice = undefined);
      },
    });
    await reporter.onRunStart?.(run.start);
    await start(0);
    output.pass(100);
    notice?.("\nInterrupted: stopping.\nOnce more ends at once.");
    const told = ["Interrupted: stopping.", "Once more ends at once."];
    expect(screen().slice(3)).toEqual([
      ...told,
      "  ⠙ echo answers what it was told  0.1 s",
      "  0 of 2 trials · 0.1 s",
    ]);
    await end(0);
    await reporter.onRunEnd?.(run.end);
    await reporter.close?.();
    expect(notice).toBeUndefined();
    expect(screen().slice(3, 6)).toEqual([...told, "  everything"]);
  });

  it("is erased before a notice that is written in another way, and drawn again", async () => {
    let notice: ((text?: string) => void) | undefined;
    const { run, output, reporter, start, screen } = stage(passingRun(), {
      notices(listener) {
        notice = listener;
        return () => (notice = undefined);
      },
    });
    await reporter.onRunStart?.(run.start);
    await start(0);
    output.pass(100);
    const drawn = screen();
    notice?.();
    expect(screen().filter((line) => line !== "")).toEqual(drawn.slice(0, 2));
    output.tick();
    expect(screen()).toEqual(drawn);
  });

  it("redraws nothing while nothing changes", async () => {
    const { run, output, reporter } = stage(passingRun());
    await reporter.onRunStart?.(run.start);
    output.pass(100);
    const written = output.writes.length;
    output.tick();
    expect(output.writes).toHaveLength(written);
  });
});

it("wraps the report to the width of the terminal", async () => {
  for (const columns of [60, 80, 100]) {
    for (const run of [failingRun(), brokenRun()]) {
      const { output, reporter } = stage(run, { columns });
      await reporter.onRunStart?.(run.start);
      output.writes.length = 0;
      await reporter.onRunEnd?.(run.end);
      const prose = new Screen(() => 1000).write(output.text()).lines();
      const wide = prose.filter(
        (line) => line.length > columns && !/^ {2}([✗!]|trace|npx mcpvals show) /u.test(line),
      );
      expect(wide).toEqual([]);
    }
  }
});

it("cannot be driven by the text of servers, models and files", async () => {
  const hostile = fc.oneof(
    fc.string({ unit: "binary", maxLength: 40 }),
    fc.constantFrom("\u001b[2J\u001b[H", "\u009b1A", "a\rb\nc", "\u001b]0;title\u0007", "\u202egnp.exe"),
  );
  await fc.assert(
    fc.asyncProperty(hostile, hostile, hostile, async (name, text, reason) => {
      const task = { ...toolTest(name, { suite: text }), verify: [] };
      const events = [request(1, text, { [name]: text }), { type: "agent.message", turn: 0, text } as const];
      const trial = trialOf(task, { events, grades: [grade(name, 0.5, reason, [1, 2])], warnings: [text] });
      const run = sampleRun({ name, tasks: [task], trials: [trial], agents: [scripted], folder: text });
      const { output, reporter } = stage(run, { columns: 60 });
      await playSlowly(run, reporter, output);
      new Screen(() => 10_000).write(output.text());
    }),
    { numRuns: 200 },
  );
});

async function playSlowly(run: SampleRun, reporter: Reporter, output: CapturedOutput): Promise<void> {
  await reporter.onRunStart?.(run.start);
  for (const [index, trial] of run.trials.entries()) {
    await reporter.onTrialStart?.(run.start.plan.trials[index]!);
    output.pass(70);
    await reporter.onTrialEnd?.(trial);
    output.pass(70);
  }
  await reporter.onRunEnd?.(run.end);
  await reporter.close?.();
}
