import { describe, expect, it } from "vitest";
import {
  check,
  errorResult,
  gradeContext,
  gradeOf,
  structuredResult,
  textResult,
  toolTestTask,
  TrialEvents,
  workflowTask,
} from "../../test/support/trial-events.ts";
import type { Json } from "../base/json.ts";
import type { Task } from "../model/task.ts";
import type { GradeContext } from "./grader.ts";
import { toolCallHealth } from "./tool-calls.ts";
import type { Grade } from "../model/grade.ts";

type Play = (trial: TrialEvents) => number | void;

async function grade(
  trial: TrialEvents,
  task: Task = workflowTask(),
  context?: GradeContext,
): Promise<Grade> {
  return gradeOf(toolCallHealth, trial.trajectory(task), context);
}

/** A trial with one call of `add` in one turn, and the number of its response. */
function answered(result: Json, outputSchema?: Json): readonly [TrialEvents, number] {
  const tool = { name: "add", ...(outputSchema === undefined ? {} : { outputSchema }) };
  const trial = new TrialEvents().server("calc", [tool]);
  let response = 0;
  trial.turn("Do.", () => (response = trial.call("add", {}, result).response));
  return [trial, response];
}

/** A call with an HTTP status; the number of its request, or of its response where it was refused with a text. */
const withStatus =
  (status: number, refusal?: string): Play =>
  (trial) => {
    const call = trial.request("add", {});
    trial.status(call, status);
    return refusal === undefined ? call.seq : trial.refuse(call, -32603, refusal);
  };

describe("a healthy call", () => {
  it.each<[string, Json, Json?]>([
    ["text", textResult("5")],
    ["isError: false", { content: [], isError: false }],
    ["a value that fits the outputSchema", structuredResult({ sum: 5 }), { type: "object" }],
  ])("may have %s", async (_, result, outputSchema) => {
    const asked: Json[] = [];
    const [trial, response] = answered(result, outputSchema);
    const context = gradeContext((schema, value) => {
      asked.push([schema, value]);
      return { status: "valid" };
    });
    const healthy = { verdict: "pass", score: 1, reason: "1 call healthy", evidence: [response] };
    expect(await grade(trial, workflowTask(), context)).toEqual({ grader: "tool-call-health", ...healthy });
    expect(asked).toEqual(outputSchema === undefined ? [] : [[outputSchema, { sum: 5 }]]);
  });

  it.each([200, 202, 299])("may have HTTP status %d", async (status) => {
    const trial = new TrialEvents();
    const call = trial.request("add", {});
    trial.status(call, status);
    trial.answer(call, textResult("5"));
    expect(await grade(trial)).toMatchObject({ verdict: "pass" });
  });
});

describe("an unhealthy call", () => {
  const answers =
    (result: Json): Play =>
    (trial) =>
      trial.call("add", {}, result).response;
  it.each<[string, Play, string]>([
    ["isError", answers(errorResult("disk full")), "answered isError: disk full"],
    ["no content", answers({ more: 1 }), 'answered without content: {"more":1}'],
    [
      "content that is not a list",
      answers({ content: "5" }),
      "answered with unusable content: content is not a list",
    ],
    ["a long error", answers(errorResult("x".repeat(400))), `answered isError: ${"x".repeat(300)}…`],
    [
      "a JSON-RPC error",
      (trial) => trial.refuse(trial.request("add", {}), -32602, "Unknown tool"),
      "answered with an error: Unknown tool (code -32602)",
    ],
    ["no answer", (trial) => trial.request("add", {}).seq, "gave no result: never answered"],
    ["no server", (trial) => trial.reject("add"), "cannot be called: no server offers it"],
    ["HTTP 199", withStatus(199), "answered HTTP 199"],
    ["HTTP 300", withStatus(300), "answered HTTP 300"],
    ["HTTP 500 and an error", withStatus(500, "boom"), "answered HTTP 500: boom (code -32603)"],
  ])("has %s", async (_, play, reason) => {
    const trial = new TrialEvents();
    const evidence = [play(trial)];
    const failed = { verdict: "fail", score: 0, reason: `add ${reason}`, evidence };
    expect(await grade(trial)).toEqual({ grader: "tool-call-health", ...failed });
  });

  it("is of a tool that its server does not offer", async () => {
    const names = [..."abcdefghijkl"].map((letter) => `tool-${letter.repeat(9)}`);
    const many = names.map((name) => ({ name }));
    const trial = new TrialEvents().server("shop", [{ name: "total" }]).server("many", many);
    trial.call("totall", {}, errorResult("Tool totall not found"));
    trial.refuse(trial.request("total", {}, { server: "many" }), -32602, "Unknown tool");
    trial.reject("totla");
    trial.call("totalx", {}, textResult("5"));
    const offered = names.slice(0, 10).join(", ");
    const reasons = [
      'totall answered isError: Tool totall not found (the server offers no such tool; did you mean "total"?)',
      `total answered with an error: Unknown tool (code -32602) (the server offers no such tool; offered: ${offered} and 2 more)`,
      'totla cannot be called: no server offers it (did you mean "total"?)',
      'totalx was answered (the server offers no such tool; did you mean "total"?)',
    ];
    expect((await grade(trial)).reason).toBe(`4 of 4 calls unhealthy: ${reasons.join("; ")}`);
  });

  const error = { instancePath: "/sum", keyword: "type", params: {}, message: "must be number" };
  it.each<[Json, Parameters<typeof gradeContext>[0], string]>([
    [
      structuredResult({ sum: "5" }),
      () => ({
        status: "invalid",
        errors: [
          { ...error, actual: '"5"' },
          { ...error, instancePath: "" },
        ],
      }),
      'add violates its outputSchema: /sum must be number, is "5", the value must be number',
    ],
    [textResult("5"), undefined, "add declares an outputSchema but gave no structuredContent"],
    [
      structuredResult({}),
      () => ({ status: "unusable", reason: "it refers to itself without end" }),
      "add has an outputSchema that cannot be used: it refers to itself without end",
    ],
  ])("does not fit its outputSchema: %j", async (result, checkSchema, reason) => {
    const [trial, response] = answered(result, { type: "object" });
    const graded = await grade(trial, workflowTask(), gradeContext(checkSchema));
    expect(graded).toMatchObject({ verdict: "fail", score: 0, reason, evidence: [response] });
  });

  it("is measured by the schema of its own server, as declared last", async () => {
    const trial = new TrialEvents()
      .server("one", [{ name: "add", outputSchema: "old" }])
      .server("two", [{ name: "add", outputSchema: "other" }]);
    trial.list([{ name: "add", outputSchema: "new" }], { server: "one" });
    trial.call("add", {}, structuredResult({}), { server: "one" });
    const errorOf = (message: string) => ({ ...error, instancePath: "", message });
    const context = gradeContext((schema) => ({
      status: "invalid",
      errors: [errorOf(JSON.stringify(schema))],
    }));
    const reason = 'add violates its outputSchema: the value "new"';
    expect(await grade(trial, workflowTask(), context)).toMatchObject({ reason });
  });

  it("is of a tool that its server lists twice", async () => {
    const trial = new TrialEvents().server("calc", [{ name: "add" }, { name: "add" }]);
    trial.call("add", {}, textResult("5"));
    const reason = "add is listed 2 times by its server";
    expect(await grade(trial)).toMatchObject({ verdict: "fail", reason });
  });
});

describe("several calls", () => {
  it("are scored by the share that is healthy, and the others are named, up to five", async () => {
    const trial = new TrialEvents();
    const evidence: number[] = [];
    for (let index = 1; index <= 7; index += 1)
      evidence.push(trial.call(`t${index}`, {}, errorResult("no")).response);
    for (let index = 1; index <= 7; index += 1) trial.call("add", {}, textResult("5"));
    const told = [1, 2, 3, 4, 5].map((index) => `t${index} answered isError: no`).join("; ");
    const reason = `7 of 14 calls unhealthy: ${told}; and 2 more`;
    expect(await grade(trial)).toMatchObject({ verdict: "fail", score: 0.5, reason, evidence });
  });

  it("are counted when all are healthy", async () => {
    const trial = new TrialEvents();
    for (const tool of ["a", "b"]) trial.call(tool, {}, textResult("5"));
    expect(await grade(trial)).toMatchObject({ reason: "2 calls healthy" });
  });

  it("count with those of verify steps, but without those that were tried again", async () => {
    const trial = new TrialEvents();
    const attempt = (number: number, passed: boolean, result: Json): number =>
      trial.step("call", { attempt: number, checks: [check("result", passed)] }, () =>
        trial.call("add", {}, result),
      );
    attempt(1, false, errorResult("busy"));
    attempt(2, true, textResult("5"));
    const healthy = { verdict: "pass", score: 1, reason: "1 call healthy" };
    expect(await grade(trial, toolTestTask({ result: 5 }))).toMatchObject(healthy);
  });

  it("are skipped when there are none, or only such that had a fault injected", async () => {
    const trial = new TrialEvents().server("calc", [{ name: "add" }]);
    trial.turn("Do.", () => trial.say("I will not."));
    const skip = { grader: "tool-call-health", verdict: "skip", score: null, evidence: [] };
    expect(await grade(trial)).toEqual({ ...skip, reason: "no tool was called" });
    const { id, server } = trial.request("add", {});
    trial.emit({ type: "fault.injected", server, fault: "error", method: "tools/call", tool: "add", id });
    expect(await grade(trial)).toEqual({ ...skip, reason: "every tool call had a fault injected" });
  });
});

describe("a turn that expects an error", () => {
  const missing = 'turn 1 expected a tool error containing "not found", there was none';
  const get =
    (result: Json): Play =>
    (trial) =>
      void trial.call("get", {}, result);
  it.each<[string, Play, string, Partial<Grade>]>([
    [
      "isError of that text",
      get(errorResult("Page NOT FOUND.")),
      "not found",
      { verdict: "pass", score: 1, reason: "1 call healthy, 1 of them failed as expected" },
    ],
    [
      "a JSON-RPC error of that text",
      (trial) => trial.refuse(trial.request("get", {}), 404, "Not found"),
      "not found",
      { verdict: "pass" },
    ],
    [
      "that HTTP status",
      (trial) => trial.status(trial.request("get", {}), 404),
      "http 404",
      { verdict: "pass" },
    ],
    [
      "another error",
      get(errorResult("disk full")),
      "not found",
      { score: 0, reason: `2 of 2 calls unhealthy: get answered isError: disk full; ${missing}` },
    ],
    ["our text on unusable content", get({ content: [{ text: "x" }] }), "no type", { score: 0 }],
    ["our text on no content", get({}), "{}", { score: 0 }],
    [
      "only calls that succeed",
      get(textResult("not found is what I would say")),
      "not found",
      { verdict: "fail", score: 0.5, reason: `1 of 2 calls unhealthy: ${missing}` },
    ],
    ["no call at all", () => undefined, "not found", { score: 0, reason: missing, evidence: [] }],
  ])("and gets %s", async (_, play, expectedError, expected) => {
    const trial = new TrialEvents().server("calc", [{ name: "get" }]);
    trial.turn("Do.", () => void play(trial));
    const task = workflowTask({ turns: [{ user: "Do.", expectedError }] });
    expect(await grade(trial, task)).toMatchObject(expected);
  });

  it("counts only the errors of its own calls, of tools that their server lists", async () => {
    const task = workflowTask({ turns: [{ user: "One.", expectedError: "not found" }, { user: "Two." }] });
    const other = new TrialEvents().server("calc", [{ name: "get" }]).turn("One.");
    other.turn("Two.", () => other.call("get", {}, errorResult("not found")));
    const unlisted = new TrialEvents();
    unlisted.turn("One.", () => unlisted.call("get", {}, errorResult("not found")));
    const reason = `2 of 2 calls unhealthy: get answered isError: not found; ${missing}`;
    for (const trial of [other, unlisted])
      expect(await grade(trial, task)).toMatchObject({ score: 0, reason });
  });

  it("does not lend its expectation to other turns, nor to calls outside of all turns", async () => {
    const turns = [{ user: "One.", expectedError: "not found" }, { user: "Two." }];
    const trial = new TrialEvents().server("calc", [{ name: "get" }]);
    trial.turn("One.", () => trial.call("get", {}, errorResult("not found")));
    trial.turn("Two.", () => trial.call("get", {}, errorResult("not found")));
    const reason = "1 of 2 calls unhealthy: get answered isError: not found";
    expect(await grade(trial, workflowTask({ turns }))).toMatchObject({
      verdict: "fail",
      score: 0.5,
      reason,
    });
    const outside = new TrialEvents().server("calc", [{ name: "get" }]);
    outside.call("get", {}, errorResult("not found"));
    expect(await grade(outside, workflowTask({ turns }))).toMatchObject({ verdict: "fail", score: 0 });
  });
});

// Whether the error came is said by verify-steps.
it.each<[string, boolean, Play]>([
  ["the error", true, withStatus(404)],
  ["another error", false, (trial) => trial.call("add", {}, errorResult("disk full")).request],
  ["no error", false, (trial) => trial.call("add", {}, textResult("5")).request],
])(
  "leaves the call of a step that expects an error to the step, where it found %s",
  async (_, found, play) => {
    const reason = "the step that expects an error judges its call";
    for (const judged of [
      check("error", found),
      { ...check("result", found), expected: { isError: true, content: [{ text: "not found" }] } },
    ]) {
      const trial = new TrialEvents();
      trial.step("call", { checks: [judged] }, () => void play(trial));
      expect(await grade(trial, toolTestTask({ error: "not found" }))).toMatchObject({
        verdict: "skip",
        reason,
      });
    }
  },
);
