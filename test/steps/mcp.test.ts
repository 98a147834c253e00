import { afterAll, describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../../src/base/json.ts";
import type { McpExpectation, McpRequest, McpStep, Step } from "../../src/model/step.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import type { CallOutcome, ServerSession } from "../../src/servers/client/session.ts";
import { runStep } from "../../src/steps/run-step.ts";
import type { StepReport } from "../../src/steps/step-runner.ts";
import { anyTool, stubSession } from "../support/sessions.ts";
import { plainTrial, scopeOf, stepContext, type TestContext } from "../support/step-context.ts";
import { errorResult, mcpStep, structuredResult, textResult } from "../support/trial-events.ts";

const validator = new SchemaValidator();
afterAll(() => validator[Symbol.asyncDispose]());

const add: McpRequest = { kind: "tool", tool: "add", args: {} };
const page: McpRequest = { kind: "resource", uri: "a:page" };
const greeting: McpRequest = { kind: "prompt", prompt: "greet", args: {} };

/** A server, and what it was asked, in order. */
interface Server {
  readonly session: ServerSession;
  readonly asked: string[];
}

/** A server that gives one reply to everything. */
function server(name: string, reply: CallOutcome, tools: readonly string[] = ["add"]): Server {
  const asked: string[] = [];
  const answer = (question: string): CallOutcome => {
    asked.push(question);
    return reply;
  };
  const session = stubSession({
    name,
    tools: tools.map(anyTool),
    call: (tool, args, { timeoutMs }) => answer(`tool ${tool} ${JSON.stringify(args)} ${timeoutMs}`),
    read: (uri, { timeoutMs }) => answer(`resource ${uri} ${timeoutMs}`),
    prompt: (prompt, args, { timeoutMs }) => answer(`prompt ${prompt} ${JSON.stringify(args)} ${timeoutMs}`),
  });
  return { session, asked };
}

function result(value: JsonObject, latencyMs = 3): CallOutcome {
  return { kind: "result", result: value, latencyMs };
}

function failure(message: string, code?: number): CallOutcome {
  return { kind: "error", message, latencyMs: 3, ...(code === undefined ? {} : { code }) };
}

const refusal: CallOutcome = { ...failure("no such thing", -32602), data: { id: 7 } } as CallOutcome;
const unusable: CallOutcome = { ...failure("content is not an array"), unusable: true } as CallOutcome;
const late: CallOutcome = { kind: "timeout", message: "late", latencyMs: 1000 };
const fine = result({ content: [], contents: [], messages: [] });

/** A context of a task from a file of its own: with templates. */
function taskContext(
  sessions: readonly ServerSession[],
  roots: Readonly<Record<string, Json>> = {},
): TestContext {
  const validateSchema = (schema: Json, value: Json): ReturnType<typeof validator.validate> =>
    validator.validate(schema, value);
  const trial = { ...plainTrial("a task"), validateSchema };
  return stepContext({ sessions, trial, scope: scopeOf(roots) });
}

function stepOf(request: McpRequest, expectation: McpExpectation, parts: Partial<McpStep> = {}): McpStep {
  return { type: "mcp", id: "it", request, expect: expectation, timeoutMs: 1000, ...parts };
}

/** Outcome, and name, whether it holds and message of each check. */
function summary({ outcome, checks }: StepReport): readonly [string, unknown[]] {
  return [outcome, checks.map(({ name, passed, message }) => [name, passed, message])];
}

/** How a step of a task ends. */
async function outcomeOf(
  request: McpRequest,
  reply: CallOutcome,
  expectation: McpExpectation,
): Promise<readonly [string, unknown[]]> {
  const { session } = server("s", reply);
  return summary(await runStep(stepOf(request, expectation), taskContext([session])));
}

/** How a tool test ends, which is a step without templates. */
async function testOutcome(
  expectation: McpExpectation,
  reply: CallOutcome,
): Promise<readonly [string, unknown[]]> {
  const sessions = [server("calc", reply).session];
  return summary(await runStep({ ...mcpStep(), expect: expectation }, stepContext({ sessions })));
}

describe("a request", () => {
  it.each<[McpRequest, string, JsonObject]>([
    [{ kind: "tool", tool: "add", args: { a: 1 } }, 'tool add {"a":1} 1000', { tool: "add", args: { a: 1 } }],
    [{ kind: "resource", uri: "a:b" }, "resource a:b 1000", { resource: "a:b" }],
    [
      { kind: "prompt", prompt: "greet", args: { who: "me" } },
      'prompt greet {"who":"me"} 1000',
      { prompt: "greet", args: { who: "me" } },
    ],
  ])("reaches the server with its time limit, and is shown: %j", async (request, question, input) => {
    const { session, asked } = server("s", fine);
    const context = taskContext([session]);
    const { outcome } = await runStep(stepOf(request, {}, { server: "s" }), context);
    expect([outcome, asked]).toEqual(["passed", [question]]);
    expect(context.events[0]).toMatchObject({ stepType: "mcp", input: { ...input, server: "s" } });
  });

  const message = (role: string, text: string): JsonObject => ({ role, content: { type: "text", text } });
  it.each<[McpRequest, JsonObject]>([
    [add, textResult("one\ntwo")],
    [page, { contents: ["one", "two"].map((text) => ({ uri: `a:${text}`, text })) }],
    [greeting, { messages: [message("user", "one"), message("assistant", "two")] }],
  ])("gives its raw result and its text to outputs: %j", async (request, value) => {
    const whole = { ...value, extension: { kept: [1] } };
    const { session } = server("s", result(whole));
    const outputs = { text: "{text}", kept: "{result | json $.extension.kept[0]}", all: "{result}" };
    const report = await runStep(stepOf(request, {}, { outputs }), taskContext([session]));
    expect(report.outputs).toEqual({ text: "one\ntwo", kept: "1", all: JSON.stringify(whole) });
  });

  it("that is refused as expected gives the error to outputs", async () => {
    const outputs = { text: "{text}", code: "{result.error.code}", id: "{result.error.data.id}" };
    const step = stepOf(page, { isError: true }, { outputs });
    const report = await runStep(step, taskContext([server("s", refusal).session]));
    const given = { text: "no such thing", code: "-32602", id: "7" };
    expect(report).toMatchObject({ outcome: "passed", outputs: given });
  });

  it.each([add, page, greeting])("that is not answered in time is a timeout: %j", async (request) => {
    const report = await runStep(stepOf(request, {}), taskContext([server("s", late).session]));
    expect(report).toMatchObject({ outcome: "timeout", error: { message: "late" } });
  });
});

describe("templates are replaced", () => {
  const roots = { env: { NAME: "add", SERVER: "two", N: "5" }, item: { deep: [1, 2] } };

  async function run(
    request: McpRequest,
    expectation: McpExpectation,
    reply: JsonObject,
  ): Promise<[string, string[]]> {
    const one = server("one", result(textResult("wrong server")));
    const two = server("two", result(reply));
    const step = stepOf(request, expectation, { server: "{env.SERVER}" });
    const { outcome } = await runStep(step, taskContext([one.session, two.session], roots));
    return [outcome, [...one.asked, ...two.asked]];
  }

  it.each<[McpRequest, string]>([
    [
      { kind: "tool", tool: "{env.NAME}", args: { n: "{env.N}", list: ["{item | json $.deep}"] } },
      'tool add {"n":"5","list":[[1,2]]} 1000',
    ],
    [{ kind: "resource", uri: "a:{env.N}" }, "resource a:5 1000"],
    [{ kind: "prompt", prompt: "{env.NAME}", args: { n: "{env.N}" } }, 'prompt add {"n":"5"} 1000'],
  ])("in server and request: %j", async (request, question) => {
    const [, asked] = await run(request, {}, textResult(""));
    expect(asked).toEqual([question]);
  });

  it.each<[McpExpectation, JsonObject]>([
    [{ text: { equals: "n={env.N}" } }, textResult("n=5")],
    [{ json: [{ path: "$.n", equals: "{env.N | json}" }] }, structuredResult({ n: 5 })],
    [{ schema: { properties: { n: { const: "{env.N | json}" } } } }, structuredResult({ n: 5 })],
    [{ result: { n: "{env.N | json}" } }, structuredResult({ n: 5 })],
    [{ result: { $equals: "n={env.N}" } }, textResult("n=5")],
    [{ error: "n={env.N}" }, errorResult("n=5")],
  ])("in what is expected: %j", async (expectation, reply) => {
    const other = JSON.parse(JSON.stringify(reply).replaceAll("5", "6")) as JsonObject;
    const outcomes = [await run(add, expectation, reply), await run(add, expectation, other)];
    expect(outcomes.map(([outcome]) => outcome)).toEqual(["passed", "failed"]);
  });
});

describe("isError", () => {
  const five = result(textResult("5"));
  const failed = result(errorResult("division by zero"));
  const silent = result({ content: [], isError: true });
  const good = ["call", true, "it succeeded"];
  const asExpected = ["call", true, "failed as expected"];
  const bad = (message: string): unknown[] => ["call", false, message];

  it.each<[string, McpExpectation, CallOutcome, string, unknown[]]>([
    ["absent, a result", {}, five, "passed", [good]],
    ["absent, an error", {}, failed, "failed", [bad("no result: division by zero")]],
    ["absent, a protocol error", {}, refusal, "failed", [bad("no result: no such thing")]],
    ["absent, no result", {}, unusable, "error", []],
    ["absent, no text", {}, silent, "failed", [bad("it failed without a message")]],
    ["false, a result", { isError: false }, five, "passed", [good]],
    ["false, an error", { isError: false }, failed, "failed", [bad("no result: division by zero")]],
    ["true, a result", { isError: true }, five, "failed", [bad("expected an error, it succeeded")]],
    ["true, an error", { isError: true }, failed, "passed", [asExpected]],
    ["true, a protocol error", { isError: true }, refusal, "passed", [asExpected]],
    ["true, no result", { isError: true }, unusable, "error", []],
    ["absent, nothing that can be checked", { json: [], text: {} }, five, "passed", [good]],
  ])("%s", async (_, expectation, reply, outcome, checks) => {
    expect(await outcomeOf(add, reply, expectation)).toEqual([outcome, checks]);
  });

  it("has the server's message as evidence, and is of tools only", async () => {
    const { checks } = await runStep(stepOf(add, {}), taskContext([server("s", failed).session]));
    expect(checks).toMatchObject([{ expected: "a result", actual: "division by zero" }]);
    const reply = result({ contents: [], isError: true });
    expect(await outcomeOf(page, reply, {})).toEqual(["passed", [good]]);
  });

  it("lets nothing be checked in a result that ended otherwise", async () => {
    const expectation = { text: { contains: ["zero"] }, json: [{ path: "$" }], schema: {} };
    const noResult = ["failed", [bad("no result: division by zero")]];
    const noError = ["failed", [bad("expected an error, it succeeded")]];
    expect(await outcomeOf(add, failed, expectation)).toEqual(noResult);
    expect(await outcomeOf(add, five, { ...expectation, isError: true })).toEqual(noError);
  });

  it.each<[McpRequest, CallOutcome, McpExpectation, string]>([
    [add, failed, { text: { contains: ["by zero"] } }, "passed"],
    [page, refusal, { text: { contains: ["no such"] } }, "passed"],
    [add, result(errorResult('{"code":5}')), { json: [{ path: "$.code", equals: 5 }] }, "passed"],
    [add, result(errorResult('{"code":6}')), { json: [{ path: "$.code", equals: 5 }] }, "failed"],
    [page, refusal, { json: [{ path: "$.code", equals: 5 }] }, "failed"],
    [page, refusal, { error: "no such" }, "passed"],
    [page, refusal, { error: "other" }, "failed"],
  ])("true lets the text and JSON of a failure be checked: %j, %j, %j is %s", async (...row) => {
    const [request, reply, expectation, outcome] = row;
    expect((await outcomeOf(request, reply, { isError: true, ...expectation }))[0]).toBe(outcome);
  });
});

describe("result and error", () => {
  const five = result(textResult("5"));
  const failed = result(errorResult("code 5"));

  it.each<[McpRequest, McpExpectation, CallOutcome, string, unknown[]]>([
    [add, { result: 5 }, five, "passed", [["result", true, "the number found is 5, expected 5"]]],
    [add, { result: 6 }, five, "failed", [["result", false, "the number found is 5, expected 6"]]],
    [add, { result: 5 }, failed, "failed", [["result", false, "the call failed: code 5"]]],
    [add, { result: 5 }, refusal, "failed", [["result", false, "no result: no such thing"]]],
    [
      add,
      { result: { isError: true } },
      failed,
      "passed",
      [["result", true, "the result contains what was expected"]],
    ],
    // The result is as expected, but the call failed, which was not.
    ...[{}, { isError: false }].map((more): [McpRequest, McpExpectation, CallOutcome, string, unknown[]] => [
      add,
      { ...more, result: { content: [{ text: "code 5" }] } },
      failed,
      "failed",
      [
        ["call", false, "no result: code 5"],
        ["result", true, "the result contains what was expected"],
      ],
    ]),
    [add, { error: "CODE" }, failed, "passed", [["error", true, "failed as expected"]]],
    [
      add,
      { error: "code" },
      five,
      "failed",
      [["error", false, 'expected an error containing "code", the call succeeded']],
    ],
    [
      page,
      { result: "the page" },
      result({ contents: [{ uri: "a:page", text: "The page." }] }),
      "passed",
      [["result", true, 'the text contains "the page"']],
    ],
  ])("of %j, expecting %j of %j: %s", async (request, expectation, reply, outcome, checks) => {
    expect(await outcomeOf(request, reply, expectation)).toEqual([outcome, checks]);
    expect((await testOutcome({ result: { isError: true } }, failed))[0]).toBe("passed");
  });

  it("that became empty is refused, except where it is compared as a whole", async () => {
    const outcomes = [
      { error: "{env.NONE}" },
      { result: { a: "{env.NONE}" } },
      { result: { $equals: "{env.NONE}" } },
    ].map(async (expectation) => {
      const { session } = server("s", result(textResult("")));
      const report = await runStep(stepOf(add, expectation), taskContext([session], { env: { NONE: "" } }));
      return [report.outcome, report.checks.map(({ name }) => name)];
    });
    expect(await Promise.all(outcomes)).toEqual([
      ["failed", ["value"]],
      ["failed", ["value"]],
      ["passed", ["result"]],
    ]);
  });

  it("of a failed call, and of what is not JSON, prove nothing to a not", async () => {
    const not = (
      reply: CallOutcome,
      expected: Json,
      expectation: McpExpectation = {},
    ): Promise<StepReport> => {
      const steps = [stepOf(add, { ...expectation, result: expected })];
      return runStep(
        { type: "not", id: "not", steps, timeoutMs: 1000 },
        taskContext([server("s", reply).session]),
      );
    };
    expect((await not(five, 6)).outcome).toBe("passed");
    expect((await not(failed, 6)).outcome).toBe("failed");
    const whole = await not(failed, { content: [{ text: "code 5" }] }, { isError: false });
    expect(whole.outcome).toBe("failed");
    expect((await not(result(textResult("none")), { a: 1 })).outcome).toBe("failed");
  });
});

describe("text, json and schema", () => {
  const five = (path: string): McpExpectation => ({ json: [{ path, equals: 5 }] });
  const schemaFor = (constant: number): McpExpectation => ({
    schema: { type: "object", required: ["n"], properties: { n: { const: constant } } },
  });

  it.each<[McpRequest, JsonObject]>([
    [add, textResult("the sum is 5")],
    [page, { contents: [{ uri: "a:page", text: "the sum is 5" }] }],
    [greeting, { messages: [{ role: "user", content: { type: "text", text: "the sum is 5" } }] }],
  ])("text is that of %j", async (request, value) => {
    const text = (wanted: string): McpExpectation => ({ text: { contains: [wanted] } });
    const check = ["text contains", true, 'it contains "sum is 5"'];
    expect(await outcomeOf(request, result(value), text("sum is 5"))).toEqual(["passed", [check]]);
    expect((await outcomeOf(request, result(value), text("sum is 6")))[0]).toBe("failed");
  });

  it.each<[string, McpRequest, JsonObject]>([
    ["the structured content", add, structuredResult({ n: 5 }, "other text")],
    ["the text without structured content", add, textResult('{"n":5}')],
    ["the text with null", add, { ...textResult('{"n":5}'), structuredContent: null }],
    ["the whole result of a resource", page, { contents: [], n: 5 }],
    ["the whole result of a prompt", greeting, { messages: [], n: 5 }],
  ])("check %s", async (_, request, value) => {
    const end = (expectation: McpExpectation): ReturnType<typeof outcomeOf> =>
      outcomeOf(request, result(value), expectation);
    expect(await end(five("$.n"))).toMatchObject(["passed", [["json $.n equals", true, expect.any(String)]]]);
    expect((await end(five("$.m")))[0]).toBe("failed");
    expect(await end(schemaFor(5))).toEqual(["passed", [["schema", true, "it fits the schema"]]]);
    const misfit = expect.stringMatching(/^it does not fit the schema: .*\/n/) as string;
    expect(await end(schemaFor(6))).toEqual(["failed", [["schema", false, misfit]]]);
  });

  it("find nothing in a text that is not JSON", async () => {
    const message = "the result has no structured content and its text is not JSON: Unexpected token 'i'";
    const ended = await outcomeOf(add, result(textResult("five")), { json: [{ path: "$" }], schema: {} });
    expect(ended).toEqual(["failed", ["json", "schema"].map((name) => [name, false, message])]);
  });

  it("fail each by itself", async () => {
    const expectation = { ...five("$.m"), ...schemaFor(5), text: { contains: ["6"] } };
    const [outcome, checks] = await outcomeOf(add, result(structuredResult({ n: 5 })), expectation);
    const names = checks.map((check) => (check as unknown[]).slice(0, 2).join(": "));
    expect(outcome).toBe("failed");
    expect(names).toEqual(["text contains: false", "json $.m equals: false", "schema: true"]);
  });

  it.each([
    ["setup", "failed"],
    ["verify", "failed"],
    ["cleanup", "passed"],
  ] as const)("in %s, a result that the tool's outputSchema refuses has %s", async (phase, outcome) => {
    const outputSchema = { type: "object", properties: { n: { const: 6 } } };
    const session = stubSession({
      name: "a",
      tools: [{ ...anyTool("add"), outputSchema }],
      call: () => result(structuredResult({ n: 5 })),
    });
    const report = await runStep(stepOf(add, {}), { ...taskContext([session]), phase });
    expect(report.outcome).toBe(outcome);
  });

  it("a schema that cannot be used is an error of the step, not of the server", async () => {
    const { session } = server("s", result(structuredResult({ n: 5 })));
    const report = await runStep(stepOf(add, { schema: { type: 5 } }), taskContext([session]));
    const message = expect.stringMatching(/^step it: its schema cannot be used: /) as string;
    expect(report).toMatchObject({ outcome: "error", error: { code: "step/cannot-run", message } });
  });
});

describe("latency", () => {
  it.each<[number, number, string, string]>([
    [3, 2, "failed", "3 ms, 2 ms allowed"],
    [3, 3, "passed", "3 ms, 3 ms allowed"],
    [100.06, 100, "failed", "100.1 ms, 100 ms allowed"],
  ])("of %d ms with a limit of %d ms has %s", async (latencyMs, maxLatencyMs, outcome, message) => {
    const reply = result({ contents: [] }, latencyMs);
    const expected = [outcome, [["latency", outcome === "passed", message]]];
    expect(await outcomeOf(page, reply, { maxLatencyMs })).toEqual(expected);
  });

  it.each<[McpExpectation, number?]>([
    [{ maxLatencyMs: 1000 }, 1000],
    [{ result: 5, error: "x", maxLatencyMs: 10 }, 10],
    [{}],
    [{ maxLatencyMs: 1001 }],
  ])("a missing answer with %j fails a tool test", async (expectation, limit) => {
    const message = `no answer within ${limit} ms, the maximum latency`;
    const checks = limit === undefined ? [] : [["latency", false, message]];
    expect(await testOutcome(expectation, late)).toEqual(["failed", checks]);
  });

  it("a missing answer in a task is a timeout, or misses the limit of its latency", async () => {
    expect(await outcomeOf(page, late, {})).toEqual(["timeout", []]);
    const missed = ["latency", false, "no answer within 10 ms, the maximum latency"];
    expect(await outcomeOf(page, late, { maxLatencyMs: 10 })).toEqual(["failed", [missed]]);
  });
});

describe("the server", () => {
  const run = (
    request: McpRequest,
    servers: readonly Server[],
    { absent = [], ...parts }: Partial<McpStep> & { readonly absent?: readonly string[] } = {},
  ): Promise<StepReport> =>
    runStep(stepOf(request, {}, parts), { ...taskContext(servers.map(({ session }) => session)), absent });
  const one = (): Server => server("one", fine);
  const two = (): Server => server("two", fine);

  it("is the one that is named, the only one that offers the tool, or the only one", async () => {
    const servers = [server("one", fine, ["sub"]), two()];
    await run(add, servers);
    await run(add, servers, { server: "two" });
    await run(add, servers.slice(1));
    await run(page, servers.slice(1));
    await run(greeting, servers.slice(1));
    await run(add, servers.slice(1), { absent: ["three"] });
    expect(servers.map(({ asked }) => asked.length)).toEqual([0, 6]);
  });

  const unknown = "config/unknown-reference";
  const unlisted = server("one", fine, []);
  it.each<[McpRequest, readonly Server[], object, string, string]>([
    [add, [one(), two()], {}, unknown, 'several servers offer the tool "add": one, two'],
    [page, [one(), two()], {}, unknown, 'several servers could be asked for the resource "a:page": one, two'],
    [add, [one()], { server: "x" }, unknown, 'the task has no server "x" for the tool "add"; it has one'],
    [page, [], {}, unknown, 'the task has no server to ask for the resource "a:page"'],
    [add, [unlisted], { server: "x", absent: ["x"] }, "server/missing", 'the tool "add" needs server "x"'],
    [add, [unlisted], { absent: ["x"] }, "server/missing", 'the tool "add" needs server "x"'],
    [
      page,
      [one()],
      { absent: ["x", "y"] },
      "server/missing",
      'the resource "a:page" needs one of the servers "x", "y"',
    ],
  ])("has to be clear and running: %j of %j with %j", async (request, servers, parts, code, message) => {
    const report = await run(request, servers, parts);
    const whole = code === unknown ? message : `${message}, which did not start`;
    expect(report).toMatchObject({ outcome: "error", error: { code, message: whole } });
    expect(servers.flatMap(({ asked }) => asked)).toEqual([]);
  });

  it.each<[string, readonly Server[], string, string]>([
    [
      "call",
      [server("two", fine, ["adds"])],
      "",
      'does not list the tool "add"; listed: adds; did you mean "adds"?',
    ],
    ["call", [one(), server("two", fine, [])], "two", 'does not list the tool "add"; it lists none'],
    [
      "call",
      [server("two", fine, ["add", "add"])],
      "",
      'lists the tool "add" 2 times, so it is not clear which of them is called',
    ],
    [
      "tool",
      [server("one", fine, ["sub"]), unlisted],
      "",
      'no server lists the tool "add" (servers: one, one)',
    ],
  ])("is at fault for a tool that is not listed once: %s %j", async (name, servers, named, problem) => {
    const step = named === "" ? {} : { server: named };
    const message = name === "tool" ? problem : `the server "two" ${problem}`;
    expect(summary(await run(add, servers, step))).toEqual(["failed", [[name, false, message]]]);
    // Whatever the server answers: neither a not nor an expected error passes.
    const not: Step = { type: "not", id: "not", steps: [stepOf(add, {}, step)], timeoutMs: 1000 };
    const context = taskContext(servers.map(({ session }) => session));
    expect((await runStep(not, context)).outcome).toBe("failed");
    expect((await runStep(stepOf(add, { isError: true }, step), context)).outcome).toBe("failed");
  });

  it("may offer the tool and fail, which a not denies", async () => {
    const steps = [stepOf(add, {})];
    const { session } = server("s", result(errorResult("no")));
    const report = await runStep({ type: "not", id: "not", steps, timeoutMs: 1000 }, taskContext([session]));
    expect(report.outcome).toBe("passed");
  });

  it("has to be named in a tool test where two offer the tool", async () => {
    const sessions = [one().session, two().session];
    const { error } = await runStep(mcpStep(), stepContext({ sessions }));
    expect(error).toMatchObject({
      code: "config/unknown-reference",
      details: { hint: "Name the server with `server:` in the tool test." },
    });
  });
});

describe("a tool test", () => {
  it("leaves its start and its end, with every check", async () => {
    const context = stepContext({ sessions: [server("calc", result(textResult("5"), 3.14)).session] });
    const request = { kind: "tool", tool: "add", args: { a: 2, b: 3 } } as const;
    const expectation = { result: 5, maxLatencyMs: 10 };
    await runStep({ ...mcpStep(), request, server: "calc", expect: expectation }, context);
    const place = { phase: "verify", step: "call", attempt: 1 };
    const input = { tool: "add", args: { a: 2, b: 3 }, server: "calc" };
    const passed = true;
    const checks = [
      { name: "result", passed, expected: 5, actual: 5, message: "the number found is 5, expected 5" },
      { name: "latency", passed, expected: 10, actual: 3.1, message: "3.1 ms, 10 ms allowed" },
    ];
    expect(context.events).toEqual([
      { type: "step.started", ...place, stepType: "mcp", input },
      { type: "step.finished", ...place, outcome: "passed", checks, durationMs: expect.any(Number) },
    ]);
  });

  const invalid = "content.0.text: Invalid input";
  const none = `no result: ${invalid}`;
  const byZero = { error: "By Zero" };
  const wanted = 'expected an error containing "By Zero"';
  const unusableAnswer = { ...failure("Division by zero"), unusable: true } as CallOutcome;
  it.each<[McpExpectation, CallOutcome, string, ...(readonly [string, boolean, string][])]>([
    [{}, result(textResult("5")), "passed"],
    [{}, result(errorResult("no")), "failed"],
    [{}, failure("Unknown tool", -32602), "failed"],
    // An answer that is not a result never passes, whatever the events show of it.
    [{}, failure(invalid), "failed", ["call", false, none]],
    [{ result: 5 }, failure(invalid), "failed", ["result", false, none]],
    [
      { result: 5, maxLatencyMs: 2 },
      result(textResult("6")),
      "failed",
      ["result", false, "the number found is 6, expected 5"],
      ["latency", false, "3 ms, 2 ms allowed"],
    ],
    [{ result: "5" }, result(errorResult("5")), "failed", ["result", false, "the call failed: 5"]],
    [byZero, result(errorResult("division by zero")), "passed", ["error", true, "failed as expected"]],
    [byZero, failure("Division by zero", -32603), "passed", ["error", true, "failed as expected"]],
    [byZero, result(errorResult("overflow")), "failed", ["error", false, `${wanted}, it says "overflow"`]],
    [byZero, result(textResult("by zero")), "failed", ["error", false, `${wanted}, the call succeeded`]],
    [
      byZero,
      unusableAnswer,
      "failed",
      ["error", false, `${wanted}, the answer is unusable: Division by zero`],
    ],
  ])("that expects %j of %j has %s", async (expectation, reply, outcome, ...checks) => {
    expect(await testOutcome(expectation, reply)).toEqual([outcome, checks]);
  });

  it("retries after an error, after isError, and after a wrong result", async () => {
    const replies = [failure("busy", -1), result(errorResult("busy")), result(textResult("6"))];
    const call = (): CallOutcome => replies.shift() ?? result(textResult("5"));
    const context = stepContext({ sessions: [stubSession({ name: "calc", tools: [anyTool("add")], call })] });
    const { outcome } = await runStep({ ...mcpStep(), retries: 5, expect: { result: 5 } }, context);
    expect([context.events.length, outcome]).toEqual([8, "passed"]);
  });
});
