import { describe, expect, it } from "vitest";
import type { ReporterName } from "../../src/model/reporter.ts";
import type { ReporterOutput } from "../../src/report/reporter.ts";
import { reporters } from "../../src/report/reporters.ts";
import { brokenTrial, grade, play, sampleRun, toolTest, trialOf, type SampleRun } from "./samples.ts";

const many = 20_000;
const maxPieceSize = 2 ** 18;

interface Counted {
  readonly lines: number;
  readonly characters: number;
  readonly longest: number;
}

/** A run in which every tenth trial fails, every tenth breaks and the others pass. */
function largeRun(size: number): SampleRun {
  const tasks = Array.from({ length: size }, (_, index) => toolTest(`task number ${index}`));
  const broken = { code: "server/exited", kind: "environment", message: "the server ended" } as const;
  return sampleRun({
    tasks,
    trials: tasks.map((task, index) => {
      if (index % 10 === 3) return trialOf(task, { grades: [grade("verify-steps", 0, `wrong: ${index}`)] });
      if (index % 10 === 7) return brokenTrial(task, broken);
      return trialOf(task);
    }),
  });
}

async function counted(name: ReporterName, run: SampleRun, isTerminal: boolean): Promise<Counted> {
  let lines = 0;
  let characters = 0;
  let longest = 0;
  const output: ReporterOutput = {
    write(text) {
      lines += text.split("\n").length - 1;
      characters += text.length;
      longest = Math.max(longest, text.length);
    },
    isTerminal,
    colors: isTerminal,
    columns: () => 80,
    now: () => 0,
    every: () => () => {},
  };
  await play(run, reporters[name](output));
  return { lines, characters, longest };
}

describe("a run of 20,000 trials", () => {
  const run = largeRun(many);
  const small = largeRun(many / 10);

  it.each<[ReporterName, boolean]>([
    ["console", true],
    ["console", false],
    ["json", false],
    ["junit", false],
  ])(
    "is written by %s (terminal: %s) in small pieces, growing with the run and no faster",
    async (name, tty) => {
      const large = await counted(name, run, tty);
      const tenth = await counted(name, small, tty);
      expect(large.longest).toBeLessThan(maxPieceSize);
      // The console has no lines for trials that pass.
      if (name !== "console") expect(large.lines).toBeGreaterThanOrEqual(many);
      expect(large.characters / tenth.characters).toBeGreaterThan(5);
      expect(large.characters / tenth.characters).toBeLessThan(12);
    },
  );

  it("has an end that one can read: the first failures, alike errors once", async () => {
    const { lines } = await counted("console", run, false);
    const passed = run.trials.filter(({ verdict }) => verdict === "pass").length;
    expect(lines - (many - passed)).toBeLessThan(250);
  });
});
