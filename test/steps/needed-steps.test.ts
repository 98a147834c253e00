import { describe, expect, it } from "vitest";
import type { Step } from "../../src/model/step.ts";
import { runSequence } from "../../src/steps/step-runner.ts";
import { runStep } from "../../src/steps/run-step.ts";
import { leaf, type LeafEnd, leafServer } from "../support/sessions.ts";
import { scopeOf, stepContext, temporaryTrial } from "../support/step-context.ts";

const timeoutMs = 60_000;
const notTried = "needs: not run: it needs outputs of step first, which failed";

/** A step that uses what the step `first` gives. */
function second(parts: Parameters<typeof leaf>[2] = {}): Step {
  return leaf("second", "pass", {
    request: { kind: "tool", tool: "pass", args: { id: "{steps.first.outputs.mine}" } },
    ...parts,
  });
}

function first(end: LeafEnd, parts: Parameters<typeof leaf>[2] = {}): Step {
  return leaf("first", end, { outputs: { mine: "given" }, ...parts });
}

/** How every step ends, with its checks that do not hold, and what was called. */
async function play(
  steps: readonly Step[],
): Promise<{ readonly ended: readonly string[]; readonly calls: readonly string[] }> {
  using trial = temporaryTrial();
  const calls: string[] = [];
  const sessions = [leafServer((id) => calls.push(id))];
  const context = stepContext({ trial, sessions, scope: scopeOf({ word: "text" }, trial) });
  const { ran } = await runSequence(steps, context, runStep);
  const ended = ran.map(({ step, report }) => {
    const failed = report.checks
      .filter((check) => !check.passed)
      .map(({ name, message }) => `${name}: ${message}`);
    return [step.id, report.outcome, ...failed].join(" ");
  });
  return { ended, calls };
}

describe("a step that needs what a failed step would have given", () => {
  it("is a failure, not an error, and the next one still runs", async () => {
    const { ended, calls } = await play([first("fail"), second(), leaf("third", "pass")]);
    expect(ended.slice(1)).toEqual([`second failed ${notTried}`, "third passed"]);
    expect(calls).toEqual(["first", "third"]);
  });

  it("is not tried again and again", async () => {
    const retry = { forMs: 600_000, everyMs: 1 };
    const { ended } = await play([first("fail"), second({ retry })]);
    expect(ended[1]).toBe(`second failed ${notTried}`);
  });

  it("can have it in its condition, in its outputs, in its list", async () => {
    const { ended } = await play([
      first("fail"),
      {
        ...second(),
        id: "a",
        request: { kind: "tool", tool: "pass", args: {} },
        if: "{steps.first.outputs.mine}",
      } as Step,
      { ...leaf("b", "pass"), outputs: { next: "{steps.first.outputs.mine}" } },
      {
        type: "foreach",
        id: "c",
        variable: "item",
        in: "{steps.first.outputs.mine}",
        steps: [leaf("d", "pass")],
        timeoutMs,
      },
    ]);
    expect(ended.slice(1)).toEqual(["a", "b", "c"].map((id) => `${id} failed ${notTried}`));
  });

  it("proves nothing inside a not, however deep", async () => {
    const all: Step = { type: "allOf", id: "all", steps: [second()], timeoutMs };
    const any: Step = { type: "anyOf", id: "any", steps: [leaf("other", "fail"), all], timeoutMs };
    const { ended } = await play([first("fail"), { type: "not", id: "not", steps: [any], timeoutMs }]);
    expect(ended[1]).toMatch(/^not failed any: anyOf: none of 2 alternatives holds/);
  });

  it("is an error where that failure does not count, and where the step was an error itself", async () => {
    const { ended } = await play([first("fail", { continueOnError: true }), second()]);
    expect(ended[1]).toBe("second error");
    expect((await play([first("error"), second()])).ended).toEqual(["first error"]);
  });

  it("is an error for any other name, also after a failure", async () => {
    const other = { ...leaf("other", "pass"), outputs: { next: "{steps.fist.outputs.mine}" } };
    expect((await play([first("fail"), other])).ended[1]).toBe("other error");
  });

  it("gets nothing of an earlier round", async () => {
    const round: Step = {
      type: "foreach",
      id: "each",
      variable: "tool",
      in: ["pass", "fail"],
      steps: [first("pass", { request: { kind: "tool", tool: "{tool}", args: { id: "{tool}" } } }), second()],
      timeoutMs,
    };
    const { ended, calls } = await play([round]);
    expect(ended[0]).toContain(`tool=fail second: ${notTried}`);
    expect(calls).toEqual(["pass", "given", "fail"]);
  });
});

describe("the outputs of a failed step", () => {
  it("that cannot be made are no error besides", async () => {
    const { ended } = await play([first("fail", { outputs: { mine: "{word | json $.id}" } })]);
    expect(ended[0]).toMatch(/^first failed result: /);
  });

  it("that cannot be made of a step that passed are an error", async () => {
    const { ended } = await play([first("pass", { outputs: { mine: "{word | json $.id}" } })]);
    expect(ended).toEqual(["first error"]);
  });
});
