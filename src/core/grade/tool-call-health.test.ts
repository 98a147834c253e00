import { describe, expect, it } from "vitest";
import {
  check,
  errorResult,
  gradeContext,
  structuredResult,
  textResult,
  toolTestTask,
  TrialEvents,
  workflowTask,
} from "../../../test/support/trial-events.ts";
import type { Json, JsonObject, Task } from "../formats/model.ts";
import type { Grade, GradeContext } from "./grader.ts";
import { toolCallHealth } from "./tool-calls.ts";

async function grade(
  trial: TrialEvents,
  task: Task = workflowTask(),
  context?: GradeContext,
): Promise<Grade> {
  return toolCallHealth.grade(trial.trajectory(task), context ?? gradeContext());
}

/** A trial with one call in one turn. */
function answered(result: Json, outputSchema?: Json): { trial: TrialEvents; response: number } {
  const tool = { name: "add", ...(outputSchema === undefined ? {} : { outputSchema }) };
  const trial = new TrialEvents().server("calc", [tool]);
  let response = 0;
  trial.turn("Do.", () => {
    response = trial.call("add", {}, result).response;
  });
  return { trial, response };
}

const expectingNotFound = workflowTask({ turns: [{ user: "Do.", expectedError: "not found" }] });

describe("a healthy call", () => {
  it("has a result that is no error", async () => {
    const { trial, response } = answered(textResult("5"));
    expect(await grade(trial)).toEqual({
      grader: "tool-call-health",
      verdict: "pass",
      score: 1,
      reason: "1 call healthy",
      evidence: [response],
    });
  });

  it.each<[string, JsonObject]>([
    ["empty content", { content: [] }],
    ["isError: false", { content: [], isError: false }],
    ["structured content alone", { structuredContent: {} }],
    ["members that nobody knows", { content: [], more: 1, _meta: {} }],
  ])("may have %s", async (_, result) => {
    expect(await grade(answered(result).trial)).toMatchObject({ verdict: "pass" });
  });

  it("has structured content that its tool's outputSchema allows", async () => {
    const asked: Json[] = [];
    const { trial } = answered(structuredResult({ sum: 5 }), { type: "object" });
    const context = gradeContext((schema, value) => {
      asked.push([schema, value]);
      return { status: "valid" };
    });
    expect(await grade(trial, workflowTask(), context)).toMatchObject({ verdict: "pass" });
    expect(asked).toEqual([[{ type: "object" }, { sum: 5 }]]);
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
  it.each<[string, Json, string]>([
    ["isError", errorResult("disk full"), "add answered isError: disk full"],
    ["isError without text", { content: [], isError: true }, "add answered isError"],
    ["no content", { more: 1 }, 'add answered without content: {"more":1}'],
    [
      "content that is no list",
      { content: "5" },
      "add answered with unusable content: content is not a list",
    ],
    ["no result object", 5, "add gave no result: the response has neither a result object nor an error"],
    ["a long error", errorResult("x".repeat(400)), `add answered isError: ${"x".repeat(300)}…`],
  ])("answers with %s", async (_, result, reason) => {
    const { trial, response } = answered(result);
    expect(await grade(trial)).toEqual({
      grader: "tool-call-health",
      verdict: "fail",
      score: 0,
      reason,
      evidence: [response],
    });
  });

  it("gets a JSON-RPC error", async () => {
    const trial = new TrialEvents();
    const response = trial.refuse(trial.request("add", {}), -32602, "Unknown tool");
    expect(await grade(trial)).toMatchObject({
      verdict: "fail",
      reason: "add answered with an error: Unknown tool (code -32602)",
      evidence: [response],
    });
  });

  it("is never answered", async () => {
    const trial = new TrialEvents();
    const { seq } = trial.request("add", {});
    expect(await grade(trial)).toMatchObject({
      verdict: "fail",
      reason: "add gave no result: never answered",
      evidence: [seq],
    });
  });

  it("asks for a tool that nobody offers", async () => {
    const trial = new TrialEvents();
    const seq = trial.reject("ad", "no server offers it");
    expect(await grade(trial)).toMatchObject({
      verdict: "fail",
      reason: "ad cannot be called: no server offers it",
      evidence: [seq],
    });
  });

  it("is of a tool that its server does not offer", async () => {
    const trial = new TrialEvents().server("shop", [{ name: "total" }]).server(
      "many",
      [..."abcdefghijkl"].map((letter) => ({ name: `tool-${letter.repeat(9)}` })),
    );
    trial.call("totall", {}, errorResult("Tool totall not found"));
    trial.refuse(trial.request("total", {}, { server: "many" }), -32602, "Unknown tool");
    trial.reject("totla");
    const offered = [..."abcdefghij"].map((letter) => `tool-${letter.repeat(9)}`).join(", ");
    const reasons = [
      'totall answered isError: Tool totall not found (the server offers no such tool; did you mean "total"?)',
      `total answered with an error: Unknown tool (code -32602) (the server offers no such tool; offered: ${offered} and 2 more)`,
      'totla cannot be called: no server offers it (did you mean "total"?)',
    ];
    expect((await grade(trial)).reason).toBe(`3 of 3 calls unhealthy: ${reasons.join("; ")}`);
  });

  it.each([199, 300, 404, 500])("gets HTTP status %d", async (status) => {
    const trial = new TrialEvents();
    const call = trial.request("add", {});
    trial.status(call, status);
    expect(await grade(trial)).toMatchObject({
      verdict: "fail",
      reason: `add answered HTTP ${status}`,
      evidence: [call.seq],
    });
  });

  it("gets an HTTP status that says otherwise than its answer", async () => {
    const trial = new TrialEvents();
    const call = trial.request("add", {});
    trial.status(call, 500);
    const response = trial.refuse(call, -32603, "boom");
    expect(await grade(trial)).toMatchObject({
      reason: "add answered HTTP 500: boom (code -32603)",
      evidence: [response],
    });
  });

  it("violates its tool's outputSchema", async () => {
    const { trial, response } = answered(structuredResult({ sum: "5" }), { type: "object" });
    const error = {
      instancePath: "/sum",
      keyword: "type",
      params: { type: "number" },
      message: "must be number",
    };
    const context = gradeContext(() => ({
      status: "invalid",
      errors: [
        { ...error, actual: '"5"' },
        { ...error, instancePath: "" },
      ],
    }));
    expect(await grade(trial, workflowTask(), context)).toMatchObject({
      verdict: "fail",
      score: 0,
      reason: 'add violates its outputSchema: /sum must be number, is "5", the value must be number',
      evidence: [response],
    });
  });

  it("gives no structured content where an outputSchema is declared", async () => {
    expect(await grade(answered(textResult("5"), { type: "object" }).trial)).toMatchObject({
      verdict: "fail",
      reason: "add declares an outputSchema but gave no structuredContent",
    });
  });

  it("has an outputSchema that cannot be used", async () => {
    const context = gradeContext(() => ({ status: "unusable", reason: "it refers to itself without end" }));
    expect(
      await grade(answered(structuredResult({}), { $ref: "#" }).trial, workflowTask(), context),
    ).toMatchObject({
      verdict: "fail",
      reason: "add has an outputSchema that cannot be used: it refers to itself without end",
    });
  });

  it("is measured by the schema of its own server, as declared last", async () => {
    const trial = new TrialEvents()
      .server("one", [{ name: "add", outputSchema: "old" }])
      .server("two", [{ name: "add", outputSchema: "other" }]);
    trial.list([{ name: "add", outputSchema: "new" }], { server: "one" });
    trial.call("add", {}, structuredResult({}), { server: "one" });
    const context = gradeContext((schema) => ({
      status: "invalid",
      errors: [{ instancePath: "", keyword: "", params: {}, message: JSON.stringify(schema) }],
    }));
    expect(await grade(trial, workflowTask(), context)).toMatchObject({
      reason: 'add violates its outputSchema: the value "new"',
    });
  });
});

describe("several calls", () => {
  it("are scored by the share that is healthy, and the others are told", async () => {
    const trial = new TrialEvents();
    const sick: number[] = [];
    trial.call("add", {}, textResult("5"));
    sick.push(trial.call("div", {}, errorResult("by zero")).response);
    trial.call("add", {}, textResult("5"));
    sick.push(trial.call("mod", {}, errorResult("by zero")).response);
    expect(await grade(trial)).toEqual({
      grader: "tool-call-health",
      verdict: "fail",
      score: 0.5,
      reason: "2 of 4 calls unhealthy: div answered isError: by zero; mod answered isError: by zero",
      evidence: sick,
    });
  });

  it("are told up to five", async () => {
    const trial = new TrialEvents();
    for (let index = 1; index <= 7; index += 1) trial.call(`t${index}`, {}, errorResult("no"));
    const { reason, evidence } = await grade(trial);
    const told = [1, 2, 3, 4, 5].map((index) => `t${index} answered isError: no`).join("; ");
    expect(reason).toBe(`7 of 7 calls unhealthy: ${told}; and 2 more`);
    expect(evidence).toHaveLength(7);
  });

  it("count with those of verify steps, but without those that were tried again", async () => {
    const trial = new TrialEvents();
    trial.step("call", { attempt: 1, checks: [check("result", false)] }, () =>
      trial.call("add", {}, errorResult("busy")),
    );
    trial.step("call", { attempt: 2, checks: [check("result", true)] }, () =>
      trial.call("add", {}, textResult("5")),
    );
    expect(await grade(trial, toolTestTask({ result: 5 }))).toMatchObject({
      verdict: "pass",
      score: 1,
      reason: "1 call healthy",
    });
  });

  it("that were had a fault injected have nothing to be judged by", async () => {
    const trial = new TrialEvents();
    const { id, server } = trial.request("add", {});
    trial.emit({ type: "fault.injected", server, fault: "error", method: "tools/call", tool: "add", id });
    expect(await grade(trial)).toMatchObject({
      verdict: "skip",
      reason: "every tool call had a fault injected",
    });
  });

  it("that are none have nothing to be judged by", async () => {
    const trial = new TrialEvents().server("calc", [{ name: "add" }]);
    trial.turn("Do.", () => trial.say("I will not."));
    expect(await grade(trial)).toEqual({
      grader: "tool-call-health",
      verdict: "skip",
      score: null,
      reason: "no tool was called",
      evidence: [],
    });
  });
});

describe("a turn that expects an error", () => {
  it.each<[string, (trial: TrialEvents) => void]>([
    ["isError", (trial) => trial.call("get", {}, errorResult("Page NOT FOUND."))],
    ["a JSON-RPC error", (trial) => trial.refuse(trial.request("get", {}), 404, "Not found")],
  ])("is healthy with %s of that text", async (_, play) => {
    const trial = new TrialEvents().server("calc", [{ name: "get" }]);
    trial.turn("Do.", () => play(trial));
    expect(await grade(trial, expectingNotFound)).toMatchObject({
      verdict: "pass",
      score: 1,
      reason: "1 call healthy, 1 of them failed as expected",
    });
  });

  it("knows HTTP errors by their status", async () => {
    const trial = new TrialEvents().server("calc", [{ name: "get" }]);
    trial.turn("Do.", () => trial.status(trial.request("get", {}), 404));
    const task = workflowTask({ turns: [{ user: "Do.", expectedError: "http 404" }] });
    expect(await grade(trial, task)).toMatchObject({ verdict: "pass" });
    expect(await grade(trial, expectingNotFound)).toMatchObject({ verdict: "fail", score: 0 });
  });

  it("is unhealthy with another error, and without the expected one", async () => {
    const trial = new TrialEvents().server("calc", [{ name: "get" }]);
    let response = 0;
    trial.turn("Do.", () => {
      response = trial.call("get", {}, errorResult("disk full")).response;
    });
    expect(await grade(trial, expectingNotFound)).toEqual({
      grader: "tool-call-health",
      verdict: "fail",
      score: 0,
      reason:
        '2 of 2 calls unhealthy: get answered isError: disk full; turn 1 expected a tool error containing "not found", there was none',
      evidence: [response],
    });
  });

  it.each<[string, string, (trial: TrialEvents) => void]>([
    ["unusable content", "no type", (trial) => void trial.call("get", {}, { content: [{ text: "x" }] })],
    ["no content", "{}", (trial) => void trial.call("get", {}, {})],
    ["no answer", "never answered", (trial) => void trial.request("get", {})],
    ["a rejected call", "no server", (trial) => void trial.reject("get", "no server offers it")],
  ])("is not found in what we say of %s", async (_, expectedError, act) => {
    const trial = new TrialEvents().server("calc", [{ name: "get" }]);
    trial.turn("Do.", () => act(trial));
    const task = workflowTask({ turns: [{ user: "Do.", expectedError }] });
    expect(await grade(trial, task)).toMatchObject({ verdict: "fail", score: 0 });
  });

  it("is unhealthy when all calls succeed", async () => {
    const { trial, response } = answered(textResult("not found is what I would say"));
    expect(await grade(trial, expectingNotFound)).toEqual({
      grader: "tool-call-health",
      verdict: "fail",
      score: 0.5,
      reason: '1 of 2 calls unhealthy: turn 1 expected a tool error containing "not found", there was none',
      evidence: [response],
    });
  });

  it("is unhealthy when no tool is called at all", async () => {
    const trial = new TrialEvents().server("calc", [{ name: "get" }]);
    trial.turn("Do.");
    expect(await grade(trial, expectingNotFound)).toEqual({
      grader: "tool-call-health",
      verdict: "fail",
      score: 0,
      reason: 'turn 1 expected a tool error containing "not found", there was none',
      evidence: [],
    });
  });

  it("does not lend its expectation to other turns", async () => {
    const trial = new TrialEvents().server("calc", [{ name: "get" }]);
    trial.turn("One.", () => trial.call("get", {}, errorResult("not found")));
    trial.turn("Two.", () => trial.call("get", {}, errorResult("not found")));
    const turns = [{ user: "One.", expectedError: "not found" }, { user: "Two." }];
    expect(await grade(trial, workflowTask({ turns }))).toMatchObject({
      verdict: "fail",
      score: 0.5,
      reason: "1 of 2 calls unhealthy: get answered isError: not found",
    });
  });

  it("says nothing about calls outside of all turns", async () => {
    const trial = new TrialEvents().server("calc", [{ name: "get" }]);
    trial.call("get", {}, errorResult("not found"));
    expect(await grade(trial, expectingNotFound)).toMatchObject({ verdict: "fail", score: 0 });
  });
});

describe("a step that expects an error", () => {
  const task = toolTestTask({ error: "not found" });

  it("is healthy when its check has found it, also where the events do not have the text", async () => {
    const trial = new TrialEvents();
    trial.step("call", { checks: [check("error", true)] }, () => trial.status(trial.request("add", {}), 404));
    expect(await grade(trial, task)).toMatchObject({
      verdict: "pass",
      reason: "1 call healthy, 1 of them failed as expected",
    });
  });

  it("is unhealthy when the error was another one", async () => {
    const trial = new TrialEvents();
    trial.step("call", { checks: [check("error", false)] }, () =>
      trial.call("add", {}, errorResult("disk full")),
    );
    expect(await grade(trial, task)).toMatchObject({
      verdict: "fail",
      score: 0,
      reason: "add answered isError: disk full",
    });
  });

  it("leaves it to verify-steps to say that there was none", async () => {
    const trial = new TrialEvents();
    trial.step("call", { checks: [check("error", false)] }, () => trial.call("add", {}, textResult("5")));
    expect(await grade(trial, task)).toMatchObject({ verdict: "pass" });
  });
});
