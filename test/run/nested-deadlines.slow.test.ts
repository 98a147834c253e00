import { describe, expect, it } from "vitest";
import type { EventOf } from "../../src/model/event.ts";
import { type PlayedTrial, playTrial, taskFolder } from "../support/portable.ts";
import { taskDocument, valid } from "../support/task-file.ts";

const long = "60s";
const sleep = "exec sleep 60";

/** How every step ended and why, by its name in the trace. */
function endsOf({ events }: PlayedTrial): Readonly<Record<string, string>> {
  const finished = events.filter((event) => event.type === "step.finished");
  return Object.fromEntries(
    finished.map(({ step, outcome, error }) => [
      step,
      error === undefined ? outcome : `${outcome}: ${error.message}`,
    ]),
  );
}

function phase({ events }: PlayedTrial, name: string): EventOf<"phase.finished"> {
  const found = events.find((event) => event.type === "phase.finished" && event.phase === name);
  if (found?.type !== "phase.finished") throw new Error(`there was no phase ${name}`);
  return found;
}

async function play(spec: object, timeout: string): Promise<PlayedTrial> {
  using folder = taskFolder();
  const { task } = valid(taskDocument(spec, { timeout }), { dir: folder.path });
  return await playTrial(task);
}

describe.concurrent("of a step's limit, that of the groups around it and that of its trial", () => {
  const stepSays = "step inner: it took longer than 200 ms";
  const groupSays = "step g: it took longer than 200 ms";
  const outerSays = "step outer: it took longer than 200 ms";
  const trialSays = "the trial took longer than 0.2 s";

  it.each([
    ["step", { step: "200ms", group: long, outer: long, trial: long }, "step/timeout", stepSays],
    ["group", { step: long, group: "200ms", outer: long, trial: long }, "step/timeout", groupSays],
    ["outer group", { step: long, group: long, outer: "200ms", trial: long }, "step/timeout", outerSays],
    ["trial", { step: long, group: long, outer: long, trial: "200ms" }, "trial/timeout", trialSays],
  ])("the one that is up first decides: %s", async (_, limits, code, message) => {
    const step = { command: { id: "inner", run: sleep, timeout: limits.step } };
    const group = (id: string, timeout: string, steps: object[]): object => ({
      group: { id, timeout, steps, cleanup: [{ command: { id: `clean-${id}`, run: "test -d ." } }] },
    });
    const nested = group("outer", limits.outer, [group("g", limits.group, [step])]);
    const last = { command: { id: "last", run: "test -d ." } };
    for (const spec of [{ verify: [nested] }, { setup: [nested], verify: [last] }]) {
      const played = await play(
        { ...spec, cleanup: [{ command: { id: "end", run: "test -d ." } }] },
        limits.trial,
      );
      expect(played.finished).toMatchObject({ outcome: "timeout", error: { code, message } });
      expect(endsOf(played)).toEqual({
        "outer/g/inner": `timeout: ${message}`,
        "outer/g/clean-g": "passed",
        "outer/g": `timeout: ${message}`,
        "outer/clean-outer": "passed",
        outer: `timeout: ${message}`,
        end: "passed",
      });
      expect(played.finished.durationMs).toBeGreaterThanOrEqual(190);
    }
  });

  it("one that is up inside an alternative leaves the others their time", async () => {
    const late = { command: { id: "late", run: sleep, timeout: "200ms", continueOnError: true } };
    const played = await play({ verify: [late, { command: { id: "next", run: "test -d ." } }] }, long);
    expect(endsOf(played)).toEqual({
      late: "timeout: step late: it took longer than 200 ms",
      next: "passed",
    });
    expect(played.finished.outcome).toBe("completed");
  });
});

describe.concurrent("the cleanup of a group", () => {
  const clean = (id: string, line: string): object => ({ command: { id, run: line } });

  it("has a limit of its own: neither the group's nor the trial's takes time from it", async () => {
    const cleanup = [clean("two", "sleep 0.4; echo 2 >> log"), clean("one", "sleep 0.4; echo 1 >> log")];
    for (const limits of [
      { group: "100ms", trial: long },
      { group: long, trial: "100ms" },
    ]) {
      const group = { id: "g", timeout: limits.group, steps: [clean("slow", sleep)], cleanup };
      const read = { command: { id: "read", run: "cat log", outputs: { log: "{stdout}" } } };
      const played = await play({ verify: [{ group }], cleanup: [read] }, limits.trial);
      expect(endsOf(played)).toMatchObject({ "g/two": "passed", "g/one": "passed" });
      const found = played.events.find((event) => event.type === "step.finished" && event.step === "read");
      expect(found).toMatchObject({ outputs: { log: "1\n2" } });
      expect(played.finished.outcome).toBe("timeout");
    }
  });

  it("keeps within the limit of a cleanup that it is in, which leaves the steps after it time", async () => {
    const cleanup = [clean("after", "true"), clean("hangs", sleep)];
    const group = { id: "g", timeout: long, steps: [clean("step", "true")], cleanup };
    const spec = { limits: { cleanupTimeout: "4s" }, cleanup: [clean("next", "true"), { group }] };
    const played = await play(spec, long);
    const { "g/hangs": hangs, ...others } = endsOf(played);
    expect(hangs).toMatch(
      /^timeout: cleanup step (?:g|hangs): it took longer than the \d+ ms that cleanup had left/,
    );
    expect(others).toMatchObject({ "g/step": "passed", next: "passed" });
    const { durationMs } = phase(played, "cleanup");
    expect(durationMs).toBeGreaterThanOrEqual(140);
    expect(played.finished.outcome).toBe("completed");
  });

  it("is still tried, shortly, when the time of the cleanup that it is in was up before", async () => {
    const group = {
      id: "g",
      timeout: long,
      steps: [clean("hangs", sleep)],
      cleanup: [clean("also", sleep), clean("tidy", "true")],
    };
    const spec = { limits: { cleanupTimeout: "6s" }, cleanup: [clean("next", "true"), { group }] };
    const played = await play(spec, long);
    const ends = endsOf(played);
    expect(ends["g/hangs"]).toMatch(/^timeout: cleanup step g: it took longer than the \d+ ms/);
    expect(ends["g/also"]).toMatch(/^timeout: cleanup step also: it took longer than the \d+ ms/);
    expect(ends).toMatchObject({ "g/tidy": "passed", next: "passed" });
  });
});
