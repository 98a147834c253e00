import { describe, expect, it } from "vitest";
import type { ControlStep, Step } from "../../src/model/step.ts";
import { runStep } from "../../src/steps/run-step.ts";
import type { StepReport } from "../../src/steps/step-runner.ts";
import { commandStepOf, stepContext, testTrial, writeTaskFile } from "../support/step-context.ts";

const missing = commandStepOf("no-such-program --check");

function holder(type: Exclude<ControlStep["type"], "foreach" | "group">, steps: readonly Step[]): Step {
  return { type, id: type, steps, timeoutMs: 20_000 };
}

function play(step: Step, trial = testTrial()): Promise<StepReport> {
  return runStep(step, stepContext({ trial, scope: new Map() }));
}

describe("a program that the shell does not find, or cannot run", () => {
  it("is a failed check that says so", async () => {
    const trial = testTrial();
    writeTaskFile(trial, "plain", "#!/bin/sh\n", 0o644);
    const absent = await play(missing, trial);
    expect([absent.outcome, absent.checks[0]?.message]).toEqual([
      "failed",
      expect.stringMatching(/^it exited with 127 \(a program was not found\), expected 0: .*no-such-program/),
    ]);
    const unusable = await play(commandStepOf("./plain"), trial);
    expect([unusable.outcome, unusable.checks[0]?.message]).toEqual([
      "failed",
      expect.stringMatching(/^it exited with 126 \(a program could not be run\), expected 0: /),
    ]);
  });

  it.each<[string, Step]>([
    ["a command", missing],
    ["a command with another code", commandStepOf("exit 126", { expect: { exitCode: 1 } })],
    ["a not", holder("not", [missing])],
    ["an anyOf", holder("anyOf", [commandStepOf("false", { id: "other" }), missing])],
    ["an allOf in an anyOf", holder("anyOf", [holder("allOf", [missing])])],
    [
      "a foreach",
      { type: "foreach", id: "each", variable: "x", in: [1, 2], steps: [missing], timeoutMs: 20_000 },
    ],
    ["a group", { type: "group", id: "g", setup: [], steps: [missing], cleanup: [], timeoutMs: 20_000 }],
  ])("does not let a not pass: %s", async (_, inner) => {
    const { outcome, checks } = await play(holder("not", [inner]));
    expect(outcome).toBe("failed");
    expect(checks.map((check) => check.message).join()).toMatch(/12[67] \(a program/);
  });

  it("is what it says where that code is expected, and any other code still denies", async () => {
    const expected = commandStepOf("no-such-program", { expect: { exitCode: 127 } });
    expect((await play(expected)).outcome).toBe("passed");
    expect((await play(holder("not", [expected]))).outcome).toBe("failed");
    expect((await play(holder("not", [commandStepOf("exit 1")]))).outcome).toBe("passed");
  });
});
