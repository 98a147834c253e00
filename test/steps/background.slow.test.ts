import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { McpvalsError } from "../../src/base/error.ts";
import type { CommandStep, ScriptStep } from "../../src/model/step.ts";
import { procLister } from "../../src/process/process-tree.ts";
import { livingProcesses } from "../process/support.ts";
import { watchLeftovers } from "../support/leftovers.ts";
import { commandStepOf, playStep, scriptStepOf, testTrial } from "../support/step-context.ts";
import { playTrial, portableTask, taskFolder } from "../support/portable.ts";

const linux = process.platform === "linux";

async function isAlive(pid: number): Promise<boolean> {
  return (await procLister.list()).some((info) => info.pid === pid);
}

function pidIn(folder: string, name = "pid"): number {
  return Number(readFileSync(join(folder, name), "utf8"));
}

/** Both types of step that start programs, with a text for the shell. */
const types: readonly (readonly [string, (text: string, timeoutMs?: number) => CommandStep | ScriptStep])[] =
  [
    ["command", (text, timeoutMs = 20_000) => commandStepOf(text, { timeoutMs })],
    ["script", (text, timeoutMs = 20_000) => scriptStepOf({ inline: text }, { timeoutMs })],
  ];

describe.runIf(linux).each(types)("what a %s starts in the background", (_, step) => {
  it.each([
    ["with pipes of its own", "sleep 1000 >/dev/null 2>&1 & echo $! > pid"],
    ["with the step's pipes", "sleep 1000 & echo $! > pid"],
    [
      "in a session of its own, without a parent",
      "(setsid sh -c 'echo $$ > pid; exec sleep 1000' >/dev/null 2>&1 &); while ! test -s pid; do sleep 0.02; done",
    ],
  ])("outlives it and becomes the trial's: %s", async (_kind, text) => {
    const trial = testTrial();
    expect((await playStep(step(text), { trial })).outcome).toBe("passed");
    const pid = pidIn(trial.dir);
    expect([await isAlive(pid), trial.adopted.length]).toEqual([true, 1]);
    await trial.adopted[0]?.stop();
    expect(await isAlive(pid)).toBe(false);
    expect(await livingProcesses()).toEqual([]);
  });

  it("is not hung by what it goes on to write, which is not the step's", async () => {
    const trial = testTrial();
    const text =
      "(while ! test -e go; do sleep 0.02; done; head -c 1000000 /dev/zero; touch done) & echo now";
    const named = { ...step(text), outputs: { out: "{stdout}" } };
    const { outputs } = await playStep(named, { trial });
    await playStep(commandStepOf("touch go"), { trial });
    await vi.waitFor(() => readFileSync(join(trial.dir, "done")), { timeout: 100_000, interval: 10 });
    expect(outputs).toEqual({ out: "now" });
  });

  it("is nothing of the trial's when nothing is left", async () => {
    const trial = testTrial();
    const nothingIsLeft = watchLeftovers();
    await playStep(step("sleep 0.05 & wait; exit 0"), { trial });
    await playStep(step("exit 1"), { trial });
    expect([trial.adopted, await livingProcesses()]).toEqual([[], []]);
    await nothingIsLeft();
  });

  it.each([
    ["in its group", "sleep 1000 & echo $! > pid; exec sleep 1000"],
    ["in a session of its own", "setsid sleep 1000 & echo $! > pid; exec sleep 1000"],
  ])("ends with it when its time is up (%s)", async (_kind, text) => {
    const trial = testTrial();
    const nothingIsLeft = watchLeftovers();
    const { outcome } = await playStep(step(text, 400), { trial });
    expect([outcome, await isAlive(pidIn(trial.dir)), trial.adopted]).toEqual(["timeout", false, []]);
    expect(await livingProcesses()).toEqual([]);
    await nothingIsLeft();
  });

  it("ends with it when the trial does", async () => {
    const trial = testTrial();
    const controller = new AbortController();
    const reason = new McpvalsError("run/interrupted", "stop");
    const played = playStep(step("sleep 1000 & echo $! > pid; exec sleep 1000"), {
      trial,
      signal: controller.signal,
    });
    await vi.waitFor(() => expect(pidIn(trial.dir)).toBeGreaterThan(0), { timeout: 100_000, interval: 10 });
    controller.abort(reason);
    await expect(played).rejects.toBe(reason);
    expect([await isAlive(pidIn(trial.dir)), trial.adopted]).toEqual([false, []]);
  });
});

describe.runIf(linux)("a trial", () => {
  it("ends what its setup left running after its cleanup, which may still use it", async () => {
    using folder = taskFolder();
    const task = portableTask(
      {
        dir: folder.path,
        setup: [commandStepOf("setsid sleep 1000 >/dev/null 2>&1 & echo $! > pid", { id: "serve" })],
        cleanup: [commandStepOf("kill -0 $(cat pid)", { id: "alive" })],
      },
      { verify: [commandStepOf("kill -0 $(cat pid)", { id: "look" })] },
    );
    const { outcomes } = await playTrial(task);
    expect(outcomes).toEqual({ serve: "passed", look: "passed", alive: "passed" });
    expect(await isAlive(pidIn(folder.path))).toBe(false);
  });
});
