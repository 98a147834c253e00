import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json } from "../../src/base/json.ts";
import type { ForeachStep, GroupStep, Step } from "../../src/model/step.ts";
import type { EventBody } from "../../src/model/event.ts";
import { runStep } from "../../src/steps/run-step.ts";
import type { StepContext, StepReport } from "../../src/steps/step-runner.ts";
import { leaf, type LeafEnd, leafServer } from "../support/sessions.ts";
import { scopeOf, stepContext, temporaryTrial } from "../support/step-context.ts";

const base = { timeoutMs: 60_000 };

function holder(type: "anyOf" | "allOf" | "not", steps: readonly Step[], id: string = type): Step {
  return { type, id, steps, ...base };
}

function foreach(items: readonly Json[], steps: readonly Step[]): ForeachStep {
  return { type: "foreach", id: "each", variable: "item", in: items, steps, ...base };
}

function group(parts: Partial<Pick<GroupStep, "setup" | "steps" | "cleanup">>): GroupStep {
  return { type: "group", id: "group", setup: [], steps: [], cleanup: [], ...parts, ...base };
}

interface Played {
  readonly report: StepReport;
  readonly calls: readonly string[];
  readonly events: readonly EventBody[];
}

async function play(step: Step, parts: Partial<StepContext> = {}): Promise<Played> {
  const calls: string[] = [];
  const context = stepContext({
    sessions: [leafServer((id) => calls.push(id))],
    scope: scopeOf({}),
    ...parts,
  });
  const report = await runStep(step, context);
  return { report, calls, events: context.events };
}

function checksOf({ report }: Played): readonly string[] {
  return report.checks.map(({ name, passed, message }) => `${passed ? "+" : "-"} ${name}: ${message}`);
}

describe("anyOf", () => {
  it("passes with the first that passes and does not run the others", async () => {
    const played = await play(holder("anyOf", [leaf("a", "fail"), leaf("b", "pass"), leaf("c", "pass")]));
    expect([played.report.outcome, played.calls]).toEqual(["passed", ["a", "b"]]);
    expect(checksOf(played)).toEqual(["+ anyOf: b holds"]);
  });

  it("shows the reasons of all that failed", async () => {
    const played = await play(holder("anyOf", [leaf("a", "fail"), leaf("b", "fail", { name: "the other" })]));
    expect(played.report.outcome).toBe("failed");
    const [check] = checksOf(played);
    expect(check).toContain("none of 2 alternatives holds");
    expect(check).toContain("a: result");
    expect(check).toContain("the other: result");
  });
});

describe("steps that hold only skipped or ignored ones", () => {
  const skipped = leaf("skipped", "pass", { if: "false" });
  const ignored = leaf("ignored", "fail", { continueOnError: true });

  it.each<[string, Step]>([
    ["allOf", holder("allOf", [skipped, ignored])],
    ["not", holder("not", [skipped])],
    ["group", group({ steps: [skipped] })],
    ["foreach", foreach([1, 2], [skipped])],
  ])("are no alternative that holds: %s", async (_, empty) => {
    const played = await play(holder("anyOf", [empty, leaf("b", "fail")]));
    expect(played.report.outcome).toBe("failed");
    expect(checksOf(played)[0]).toContain("none of 2 alternatives holds");
    expect((await play(holder("anyOf", [empty, leaf("b", "pass")]))).report.outcome).toBe("passed");
  });

  it("prove nothing as the only alternatives, also inside not", async () => {
    const nothing = holder("anyOf", [skipped, holder("allOf", [skipped])]);
    expect((await play(nothing)).report.outcome).toBe("error");
    expect((await play(holder("not", [nothing]))).report.outcome).toBe("error");
  });

  it("are nothing that not could deny", async () => {
    const { report } = await play(holder("not", [holder("allOf", [skipped])]));
    expect(report).toMatchObject({ outcome: "passed", checks: [] });
  });
});

describe("not", () => {
  it("says what holds against expectation", async () => {
    expect(checksOf(await play(holder("not", [leaf("a", "pass")])))[0]).toMatch(
      /^- not: it holds: a: result/,
    );
  });

  it("denies a soft failure, as the older forms have them", async () => {
    const { report } = await play(holder("not", [leaf("a", "fail", { failure: "soft" })]));
    expect(report.outcome).toBe("passed");
  });
});

describe("foreach", () => {
  it("runs its steps for every item, in order, also after one that failed", async () => {
    const step = leaf("a", "fail", { request: { kind: "tool", tool: "fail", args: { id: "{item.n}" } } });
    const played = await play(foreach([{ n: "x" }, { n: "y" }], [step]));
    expect([played.report.outcome, played.calls]).toEqual(["failed", ["x", "y"]]);
    expect(checksOf(played)).toEqual([
      expect.stringMatching(/^- item=\{"n":"x"\} a: result/),
      expect.stringMatching(/^- item=\{"n":"y"\} a: result/),
    ]);
  });

  it("in setup ends with the first item that fails", async () => {
    const step = leaf("a", "fail", { request: { kind: "tool", tool: "fail", args: { id: "{item}" } } });
    const { calls } = await play(foreach(["x", "y"], [step]), { phase: "setup" });
    expect(calls).toEqual(["x"]);
  });

  it("goes through a JSON list that a template gives", async () => {
    const body = JSON.stringify({ items: [{ name: "x" }, { name: "y" }] });
    const step = leaf("a", "pass", { request: { kind: "tool", tool: "pass", args: { id: "{item}" } } });
    const scope = scopeOf({ body });
    const { calls } = await play({ ...foreach([], [step]), in: "{body | json $.items[*].name}" }, { scope });
    expect(calls).toEqual(["x", "y"]);
    const plain = await play({ ...foreach([], [step]), in: "{list}" }, { scope: scopeOf({ list: '["z"]' }) });
    expect(plain.calls).toEqual(["z"]);
  });

  it("over nothing fails: it would prove nothing", async () => {
    const played = await play(foreach([], [leaf("a", "pass")]));
    expect([played.report.outcome, played.calls]).toEqual(["failed", []]);
    expect(checksOf(played)).toEqual(["- items: the list is empty"]);
  });

  it("over what is not a list is an error", async () => {
    const { report } = await play(
      { ...foreach([], [leaf("a", "pass")]), in: "{x}" },
      { scope: scopeOf({ x: "no" }) },
    );
    expect(report).toMatchObject({ outcome: "error", error: { code: "task/template" } });
  });

  it("nests: inner items, outer items, and names in the trace that are unique", async () => {
    const step = leaf("a", "pass", {
      request: { kind: "tool", tool: "pass", args: { id: "{outer}{item}" } },
    });
    const outer: ForeachStep = {
      ...foreach([1, 2], [foreach(["x", "y"], [step])]),
      id: "o",
      variable: "outer",
    };
    const { calls, events } = await play(outer);
    expect(calls).toEqual(["1x", "1y", "2x", "2y"]);
    const names = events.flatMap((event) => (event.type === "step.started" ? event.step : []));
    expect(new Set(names).size).toBe(names.length);
    expect(names).toContain("o[1]/each[0]/a");
  });
});

describe("group", () => {
  it("runs setup, steps, then cleanup in reverse", async () => {
    const step = group({
      setup: [leaf("s", "pass")],
      steps: [leaf("x", "fail"), leaf("y", "pass")],
      cleanup: [leaf("c1", "pass"), leaf("c2", "fail")],
    });
    const { report, calls } = await play(step);
    expect([report.outcome, calls]).toEqual(["failed", ["s", "x", "y", "c2", "c1"]]);
  });

  it.each<LeafEnd>(["fail", "error"])(
    "whose setup ends as %s is an error, and still cleans up",
    async (end) => {
      const step = group({
        setup: [leaf("s", end), leaf("s2", "pass")],
        steps: [leaf("x", "pass")],
        cleanup: [leaf("c", "pass")],
      });
      const { report, calls } = await play(step);
      expect([report.outcome, calls]).toEqual(["error", ["s", "c"]]);
    },
  );

  it("whose setup fails says which group it is", async () => {
    const inner: GroupStep = { ...group({ setup: [leaf("s", "fail")] }), id: "db" };
    const { report } = await play(holder("allOf", [inner], "all"));
    expect(report.error?.toString()).toContain("the setup of the group all/db failed: s: result");
  });

  it("says a name once where the check has the step's", async () => {
    const step = leaf("result", "fail");
    expect(checksOf(await play(group({ steps: [step] })))[0]).toMatch(/^- result: the text does not/);
  });

  it("cleans up when its own time is up, and when the trial is interrupted", async () => {
    const step = { ...group({ steps: [leaf("x", "hang")], cleanup: [leaf("c", "pass")] }), timeoutMs: 50 };
    const timedOut = await play(step);
    expect([timedOut.report.outcome, timedOut.calls]).toEqual(["timeout", ["x", "c"]]);
    const controller = new AbortController();
    const calls: string[] = [];
    const session = leafServer((id) => {
      calls.push(id);
      if (id === "x") controller.abort(new Error("stop"));
    });
    const context = stepContext({ sessions: [session], scope: scopeOf({}), signal: controller.signal });
    await expect(runStep({ ...step, timeoutMs: 60_000 }, context)).rejects.toThrow("stop");
    expect(calls).toEqual(["x", "c"]);
  });

  it("in a cleanup ends its own cleanup with that, and begins it even when the time is up", async () => {
    for (const hanging of ["s", "c"]) {
      const step = group({
        steps: [leaf("s", hanging === "s" ? "hang" : "pass")],
        cleanup: [leaf("c", hanging === "c" ? "hang" : "pass")],
      });
      const controller = new AbortController();
      const calls: string[] = [];
      const session = leafServer((id) => {
        calls.push(id);
        if (id === hanging) setImmediate(() => controller.abort(new Error("time is up")));
      });
      const { signal } = controller;
      const context = stepContext({ sessions: [session], scope: scopeOf({}), signal, ignored: true });
      await expect(runStep(step, context)).rejects.toThrow("time is up");
      expect(calls).toEqual(["s", "c"]);
    }
  });
});

describe("fields of every step", () => {
  it("continueOnError: a failure or error is recorded and not counted", async () => {
    const step = holder("allOf", [
      leaf("a", "fail", { continueOnError: true }),
      leaf("b", "error", { continueOnError: true }),
      leaf("c", "pass"),
    ]);
    const { report, events } = await play(step);
    expect(report.outcome).toBe("passed");
    const ignored = events.flatMap((event) =>
      event.type === "step.finished" && event.ignored === true ? [[event.step, event.outcome]] : [],
    );
    expect(ignored).toEqual([
      ["allOf/a", "failed"],
      ["allOf/b", "error"],
    ]);
  });

  it.each([
    ["", "skipped"],
    ["false", "skipped"],
    ["0", "skipped"],
    ["{kind}", "passed"],
    ["{empty}", "skipped"],
    ["{kind} == pod", "passed"],
    ["{kind} == job", "skipped"],
    ["{kind} != job", "passed"],
    ["{tricky} == a == b", "passed"],
  ])("if %j: %s", async (condition, outcome) => {
    const scope = scopeOf({ kind: "pod", empty: "", tricky: "a == b" });
    const { report, calls } = await play(leaf("a", "pass", { if: condition }), { scope });
    expect([report.outcome, calls.length]).toEqual([outcome, outcome === "passed" ? 1 : 0]);
  });

  it("outputs: later steps can use them; those of a failed step they cannot", async () => {
    using trial = temporaryTrial();
    const scope = scopeOf({ who: "me" }, trial);
    const step = (id: string, end: LeafEnd): Step => leaf(id, end, { outputs: { mine: "for {who}" } });
    await play(step("a", "pass"), { trial, scope });
    await play(step("b", "fail"), { trial, scope });
    expect([...trial.outputs]).toEqual([["a", { mine: "for me" }]]);
    const next = leaf("c", "pass", {
      request: { kind: "tool", tool: "pass", args: { id: "{steps.a.outputs.mine}" } },
    });
    expect((await play(next, { trial, scope })).calls).toEqual(["for me"]);
  });
});

type Tree = { readonly step: Step; readonly outcome: "passed" | "failed" | "error" };

const leafTree: fc.Arbitrary<Tree> = fc.constantFrom<LeafEnd>("pass", "pass", "fail", "error").map((end) => ({
  step: leaf("leaf", end),
  outcome: end === "pass" ? "passed" : end === "fail" ? "failed" : "error",
}));

/** A random step and, by the rules of the format alone, how it must end. */
const tree: fc.Arbitrary<Tree> = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { depthSize: "medium", withCrossShrink: true },
    leafTree,
    fc
      .tuple(
        fc.constantFrom("anyOf", "allOf", "not", "foreach", "group"),
        fc.array(tie("tree"), { minLength: 1, maxLength: 3 }),
        // What is deeper in setup ends with its first failure, as setup does.
        fc.array(leafTree, { maxLength: 2 }),
      )
      .map(([type, inner, setup]) => composed(type, inner, setup)),
  ),
})).tree;

function composed(type: string, inner: readonly Tree[], setup: readonly Tree[]): Tree {
  const steps = inner.map((each) => each.step);
  const row = rowOf(inner);
  switch (type) {
    case "anyOf": {
      const all = inner.map((each) => each.outcome);
      const none = all.includes("error") ? "error" : "failed";
      return { step: holder("anyOf", steps), outcome: all.includes("passed") ? "passed" : none };
    }
    case "not": {
      const outcome = row === "error" ? "error" : row === "passed" ? "failed" : "passed";
      return { step: holder("not", steps), outcome };
    }
    case "foreach":
      return { step: foreach([1, 2], steps), outcome: row };
    case "group": {
      const ready = rowOf(setup) === "passed";
      const cleanup = [leaf("cleanup", "fail")];
      return {
        step: group({ setup: setup.map((each) => each.step), steps, cleanup }),
        outcome: ready ? row : "error",
      };
    }
    default:
      return { step: holder("allOf", steps), outcome: row };
  }
}

/** A row ends with an error, and has failed when one of its steps before that... failed and none could not act. */
function rowOf(inner: readonly Tree[]): Tree["outcome"] {
  const outcomes = inner.map((each) => each.outcome);
  if (outcomes.includes("error")) return "error";
  return outcomes.includes("failed") ? "failed" : "passed";
}

describe("nested in any way", () => {
  it("a step ends as the rules say", async () => {
    await fc.assert(
      fc.asyncProperty(tree, async ({ step, outcome }) => {
        const { report, events } = await play(step);
        expect(report.outcome).toBe(outcome);
        const count = (type: EventBody["type"]): number =>
          events.filter((event) => event.type === type).length;
        expect(count("step.started")).toBe(count("step.finished"));
      }),
      { numRuns: 300 },
    );
  });
});
