import { describe, expect, it } from "vitest";
import type { ExtensionStep, Step } from "../../src/model/step.ts";
import type { OperationResult } from "../../src/extensions/protocol.ts";
import { McpvalsError } from "../../src/base/error.ts";
import type { OperationCall } from "../../src/extensions/host/trial-extensions.ts";
import { runStep } from "../../src/steps/run-step.ts";
import { scopeOf, stepContext, temporaryTrial } from "../support/step-context.ts";

const step = (parts: Partial<ExtensionStep> = {}): ExtensionStep => ({
  type: "extension",
  id: "s",
  timeoutMs: 5000,
  extension: "k8s",
  operation: "wait",
  args: {},
  ...parts,
});

/** Runs a step on extensions that answer so, one after the other, the last one for ever. */
async function run(written: Step, answers: readonly (OperationResult | Error)[]) {
  const calls: OperationCall[] = [];
  const released: string[] = [];
  using trial = temporaryTrial({
    extensions: {
      execute(call) {
        calls.push(call);
        const answer = answers[Math.min(calls.length, answers.length) - 1];
        return answer instanceof Error
          ? Promise.reject(answer)
          : Promise.resolve(answer ?? { success: true });
      },
    },
    releasePorts: (texts) => Promise.resolve(void released.push(...texts)),
  });
  const context = stepContext({ trial, scope: scopeOf({ random: { id: "abc", port: "4711" } }) });
  const report = await runStep(written, context);
  return { report, calls, released, events: context.events };
}

describe("a step of an extension", () => {
  it("gives what the operation gives, with its templates replaced and its ports released", async () => {
    const args = { name: "n-{random.id}", port: "{random.port}" };
    const outputs = { uid: "u1", list: [1] };
    const { report, calls, released, events } = await run(step({ args, outputs: { own: "is {uid}" } }), [
      { success: true, message: "it is there", outputs },
    ]);
    expect(calls).toEqual([
      {
        step: "s",
        extension: "k8s",
        operation: "wait",
        args: { name: "n-abc", port: "4711" },
        phase: "verify",
        timeoutMs: 5000,
      },
    ]);
    expect(released).toEqual(['{"name":"n-abc","port":"4711"}']);
    expect(report).toMatchObject({ outcome: "passed", outputs: { ...outputs, own: "is u1" } });
    expect(report.checks).toEqual([
      { name: "k8s.wait", passed: true, expected: true, actual: true, message: "it is there" },
    ]);
    expect(events[0]).toMatchObject({
      input: { extension: "k8s", operation: "wait", args: { name: "n-abc", port: "4711" } },
    });
  });

  it.each([
    [{ message: "no pod" }, "no pod"],
    [{ error: "refused" }, "refused"],
    [{ message: "no pod", error: "refused" }, "no pod: refused"],
    [{ message: "same", error: "same" }, "same"],
    [{}, "it did not succeed, without a message"],
  ])("fails with what %j says", async (said, message) => {
    const { report } = await run(step(), [{ success: false, ...said }]);
    expect(report).toMatchObject({ outcome: "failed", checks: [{ passed: false, message }] });
  });

  it("is an error, or a timeout, when the operation could not be run", async () => {
    const crashed = new McpvalsError("extension/crashed", "it crashed");
    expect((await run(step(), [crashed])).report).toMatchObject({ outcome: "error", error: crashed });
    const late = new McpvalsError("extension/timeout", "it took too long");
    expect((await run(step(), [late])).report).toMatchObject({ outcome: "timeout", error: late });
    const holder: Step = { type: "not", id: "n", timeoutMs: 5000, steps: [step()] };
    expect((await run(holder, [crashed])).report).toMatchObject({ outcome: "error" });
  });
});
