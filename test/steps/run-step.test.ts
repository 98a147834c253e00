import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/core/formats/model.ts";
import type { McpExpectation, McpStep } from "../../src/core/formats/step.ts";
import type { EventBody } from "../../src/core/trace/events.ts";
import type { CallOutcome, ServerSession } from "../../src/servers/client/session.ts";
import { runStep } from "../../src/steps/run-step.ts";
import { anyTool, stubSession } from "../support/sessions.ts";
import { stepContext } from "../support/step-context.ts";
import { errorResult, mcpStep, structuredResult, textResult } from "../support/trial-events.ts";

interface Played {
  readonly events: readonly EventBody[];
  /** Checks of the last attempt: name, whether it holds, message. */
  readonly checks: readonly unknown[];
  readonly outcome: string | undefined;
  readonly thrown: unknown;
}

type Reply = CallOutcome | (() => CallOutcome | Promise<CallOutcome>);

interface PlayOptions {
  readonly step?: Partial<McpStep>;
  readonly sessions?: readonly ServerSession[];
}

/** Runs a step on a server that gives these answers, one after the other. */
async function play(replies: readonly Reply[], options: PlayOptions = {}): Promise<Played> {
  const rest = [...replies];
  const call = (): CallOutcome | Promise<CallOutcome> => {
    const reply = rest.shift();
    if (reply === undefined) throw new Error("called too often");
    return typeof reply === "function" ? reply() : reply;
  };
  const sessions = options.sessions ?? [stubSession({ name: "calc", tools: [anyTool("add")], call })];
  const events: EventBody[] = [];
  let thrown: unknown;
  try {
    const emit = (event: EventBody): number => events.push(event);
    const context = stepContext({ sessions, emit });
    const { error } = await runStep({ ...mcpStep(), ...options.step }, context);
    thrown = error;
  } catch (error) {
    thrown = error;
  }
  const last = events.findLast((event) => event.type === "step.finished");
  const checks = (last?.checks ?? []).map(({ name, passed, message }) => [name, passed, message]);
  return { events, checks, outcome: last?.outcome, thrown };
}

function result(value: JsonObject, latencyMs = 3): CallOutcome {
  return { kind: "result", result: value, latencyMs };
}

function failure(message: string, code?: number): CallOutcome {
  return { kind: "error", message, latencyMs: 3, ...(code === undefined ? {} : { code }) };
}

const timeout: CallOutcome = {
  kind: "timeout",
  message: 'tool "add" did not answer within 1000 ms',
  latencyMs: 1000,
};

async function checksOf(
  expect: McpExpectation,
  reply: CallOutcome,
): Promise<Pick<Played, "outcome" | "checks">> {
  const { outcome, checks } = await play([reply], { step: { expect } });
  return { outcome, checks };
}

describe("a step", () => {
  it("leaves its start and its end, with every check", async () => {
    const { events, thrown } = await play([result(textResult("5"), 3.14)], {
      step: {
        request: { kind: "tool", tool: "add", args: { a: 2, b: 3 } },
        server: "calc",
        expect: { result: 5, maxLatencyMs: 10 },
      },
    });
    expect(thrown).toBeUndefined();
    expect(events).toEqual([
      {
        type: "step.started",
        phase: "verify",
        step: "call",
        stepType: "mcp",
        attempt: 1,
        input: { tool: "add", args: { a: 2, b: 3 }, server: "calc" },
      },
      {
        type: "step.finished",
        phase: "verify",
        step: "call",
        attempt: 1,
        outcome: "passed",
        checks: [
          {
            name: "result",
            passed: true,
            expected: 5,
            actual: 5,
            message: "the number found is 5, expected 5",
          },
          { name: "latency", passed: true, expected: 10, actual: 3.1, message: "3.1 ms, 10 ms allowed" },
        ],
        durationMs: expect.any(Number),
      },
    ]);
  });

  it("that expects nothing passes with any result that is no error", async () => {
    expect(await checksOf({}, result(textResult("5")))).toEqual({ outcome: "passed", checks: [] });
    expect(await checksOf({}, result(errorResult("no")))).toEqual({ outcome: "failed", checks: [] });
    expect(await checksOf({}, failure("Unknown tool", -32602))).toEqual({ outcome: "failed", checks: [] });
  });

  it("never passes with an answer that is no result, whatever the events show of it", async () => {
    const reply = failure("content.0.text: Invalid input");
    const call = ["call", false, "no result: content.0.text: Invalid input"];
    expect(await checksOf({}, reply)).toEqual({ outcome: "failed", checks: [call] });
    expect(await checksOf({ maxLatencyMs: 10 }, reply)).toEqual({
      outcome: "failed",
      checks: [call, ["latency", true, "3 ms, 10 ms allowed"]],
    });
    expect(await checksOf({ result: 5 }, reply)).toEqual({
      outcome: "failed",
      checks: [["result", false, "no result: content.0.text: Invalid input"]],
    });
  });

  it("does not take the right words in an error for the result", async () => {
    expect(await checksOf({ result: "5" }, result(errorResult("5")))).toMatchObject({ outcome: "failed" });
  });

  it("fails when the result is another one, or comes too late", async () => {
    expect(await checksOf({ result: 5, maxLatencyMs: 2 }, result(textResult("6")))).toEqual({
      outcome: "failed",
      checks: [
        ["result", false, "the number found is 6, expected 5"],
        ["latency", false, "3 ms, 2 ms allowed"],
      ],
    });
  });

  it("measures latency as exactly as it tells it", async () => {
    expect(await checksOf({ maxLatencyMs: 100 }, result(textResult(""), 100.04))).toEqual({
      outcome: "passed",
      checks: [["latency", true, "100 ms, 100 ms allowed"]],
    });
    expect(await checksOf({ maxLatencyMs: 100 }, result(textResult(""), 100.06))).toMatchObject({
      outcome: "failed",
    });
  });

  it.each<[McpExpectation]>([[{ maxLatencyMs: 1000 }], [{ result: 5, error: "x", maxLatencyMs: 10 }]])(
    "fails when the answer, which must come within the timeout, does not: %j",
    async (expectation) => {
      const limit = expectation.maxLatencyMs;
      const { events, thrown } = await play([timeout], { step: { expect: expectation } });
      expect(thrown).toBeUndefined();
      expect(events.at(-1)).toMatchObject({
        outcome: "failed",
        checks: [
          {
            name: "latency",
            passed: false,
            expected: limit,
            actual: "no answer within 1000 ms",
            message: `no answer within 1000 ms, ${limit} ms allowed`,
          },
        ],
      });
    },
  );

  it.each<[McpExpectation]>([[{}], [{ maxLatencyMs: 1001 }]])(
    "runs out of time where no answer proves nothing: %j",
    async (expectation) => {
      const { outcome, checks, thrown } = await play([timeout], { step: { expect: expectation } });
      expect([outcome, checks]).toEqual(["timeout", []]);
      expect(thrown).toMatchObject({ code: "server/call-timeout" });
    },
  );

  it("survives a result that is nested without end", async () => {
    let deep: JsonObject = {};
    for (let level = 0; level < 100_000; level += 1) deep = { deep };
    const { outcome, thrown } = await play([result(structuredResult(deep, "5"))], {
      step: { expect: { result: { deep: { deep: {} } } } },
    });
    expect([outcome, thrown]).toEqual(["passed", undefined]);
    const wordless = await play([result({ content: [], structuredContent: deep })], {
      step: { expect: { result: "x" } },
    });
    expect([wordless.outcome, wordless.thrown]).toEqual(["failed", undefined]);
  });
});

describe("an expected error", () => {
  const expecting = { error: "By Zero" };

  it.each<[string, CallOutcome]>([
    ["isError", result(errorResult("division by zero"))],
    ["a JSON-RPC error", failure("Division by zero", -32603)],
    ["an HTTP error", failure("HTTP 400 Bad Request: division by zero")],
  ])("is found in %s, ignoring case", async (_, reply) => {
    expect(await checksOf(expecting, reply)).toEqual({
      outcome: "passed",
      checks: [["error", true, "failed as expected"]],
    });
  });

  it("that is another one fails", async () => {
    expect(await checksOf(expecting, result(errorResult("overflow")))).toEqual({
      outcome: "failed",
      checks: [["error", false, 'expected an error containing "By Zero", it says "overflow"']],
    });
  });

  it("is not found in what we say of an answer that is none", async () => {
    const message = "Invalid result for tools/call: content is not an array";
    const reply: CallOutcome = { kind: "error", message, unusable: true, latencyMs: 3 };
    expect(await checksOf({ error: "invalid" }, reply)).toEqual({
      outcome: "failed",
      checks: [
        ["error", false, `expected an error containing "invalid", the answer is unusable: ${message}`],
      ],
    });
  });

  it("that does not come fails", async () => {
    expect(await checksOf(expecting, result(textResult("division by zero")))).toEqual({
      outcome: "failed",
      checks: [["error", false, 'expected an error containing "By Zero", the call succeeded']],
    });
  });
});

it("tries again after an error, after isError, and after a wrong result", async () => {
  const { events, outcome } = await play(
    [failure("busy", -1), result(errorResult("busy")), result(textResult("6")), result(textResult("5"))],
    { step: { retries: 5, expect: { result: 5 } } },
  );
  expect([events.length, outcome]).toEqual([8, "passed"]);
});

describe("among several servers", () => {
  const server = (name: string, ...tools: string[]): ServerSession =>
    stubSession({ name, tools: tools.map(anyTool), call: () => result(textResult(name)) });

  async function calls(step: Partial<McpStep>, ...sessions: ServerSession[]): Promise<Played> {
    return play([], { step: { expect: { result: "two" }, ...step }, sessions });
  }

  it("the one that offers the tool is called, or the one that is named", async () => {
    expect(await calls({}, server("one", "sub"), server("two", "add"))).toMatchObject({ outcome: "passed" });
    expect(await calls({ server: "two" }, server("one", "add"), server("two", "add"))).toMatchObject({
      outcome: "passed",
    });
  });

  it("the one that is named has to list the tool", async () => {
    expect(await calls({ server: "two" }, server("one", "add"), server("two"))).toMatchObject({
      outcome: "failed",
      checks: [["call", false, 'the server "two" does not list the tool "add"; it lists none']],
    });
  });

  it("of which none offers the tool the servers are at fault", async () => {
    expect(await calls({}, server("one", "sub"), server("two"))).toMatchObject({
      outcome: "failed",
      checks: [["tool", false, 'no server lists the tool "add" (servers: one, two)']],
      thrown: undefined,
    });
  });

  it("of which two offer the tool the file is at fault", async () => {
    const { outcome, thrown } = await calls({}, server("one", "add"), server("two", "add"), server("three"));
    expect(outcome).toBe("error");
    expect(thrown).toMatchObject({
      code: "config/unknown-reference",
      message: 'several servers offer the tool "add": one, two',
      details: { hint: "Name the server with `server:` in the tool test." },
    });
  });

  it("a single one has to list the tool too", async () => {
    expect(await calls({}, server("two", "adds"))).toMatchObject({
      outcome: "failed",
      checks: [
        ["call", false, 'the server "two" does not list the tool "add"; listed: adds; did you mean "adds"?'],
      ],
    });
  });
});
