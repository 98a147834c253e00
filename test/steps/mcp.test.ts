import { afterAll, describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../../src/core/formats/model.ts";
import type { McpExpectation, McpRequest, McpStep } from "../../src/core/formats/step.ts";
import type { Check } from "../../src/core/trace/events.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import type { CallOutcome, ServerSession } from "../../src/servers/client/session.ts";
import { runStep } from "../../src/steps/run-step.ts";
import type { StepReport } from "../../src/steps/step-runner.ts";
import { anyTool, startEverything, stubSession } from "../support/sessions.ts";
import { plainTrial, scopeOf, stepContext, type TestContext } from "../support/step-context.ts";
import { errorResult, structuredResult, textResult } from "../support/trial-events.ts";

const validator = new SchemaValidator();
afterAll(() => validator[Symbol.asyncDispose]());

const add: McpRequest = { kind: "tool", tool: "add", args: {} };
const page: McpRequest = { kind: "resource", uri: "a:page" };
const greeting: McpRequest = { kind: "prompt", prompt: "greet", args: {} };

/** What a server was asked, in order. */
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

function result(value: JsonObject): CallOutcome {
  return { kind: "result", result: value, latencyMs: 3 };
}

const refusal: CallOutcome = {
  kind: "error",
  code: -32602,
  message: "no such thing",
  data: { id: 7 },
  latencyMs: 3,
};
const unusable: CallOutcome = {
  kind: "error",
  message: "content is not an array",
  unusable: true,
  latencyMs: 3,
};

/** A context of a task from a file of its own: with templates. */
function taskContext(
  sessions: readonly ServerSession[],
  roots: Readonly<Record<string, Json>> = {},
): TestContext {
  const trial = {
    ...plainTrial("a task"),
    validateSchema: (schema: Json, value: Json) => validator.validate(schema, value),
  };
  return stepContext({ sessions, trial, scope: scopeOf(roots) });
}

function stepOf(request: McpRequest, expectation: McpExpectation, parts: Partial<McpStep> = {}): McpStep {
  return { type: "mcp", id: "it", request, expect: expectation, timeoutMs: 1000, ...parts };
}

/** Name, whether it holds and message of each check. */
function told(checks: readonly Check[]): unknown[] {
  return checks.map(({ name, passed, message }) => [name, passed, message]);
}

async function outcomeOf(
  request: McpRequest,
  reply: CallOutcome,
  expectation: McpExpectation,
): Promise<readonly [string, unknown[]]> {
  const { session } = server("s", reply);
  const { outcome, checks } = await runStep(stepOf(request, expectation), taskContext([session]));
  return [outcome, told(checks)];
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
    const { session, asked } = server("s", result({ content: [], contents: [], messages: [] }));
    const context = taskContext([session]);
    const { outcome } = await runStep(stepOf(request, {}, { server: "s" }), context);
    expect([outcome, asked]).toEqual(["passed", [question]]);
    expect(context.events[0]).toMatchObject({ stepType: "mcp", input: { ...input, server: "s" } });
  });

  it.each<[McpRequest, JsonObject, string]>([
    [add, textResult("one\ntwo"), "one\ntwo"],
    [
      page,
      {
        contents: [
          { uri: "a:1", text: "one" },
          { uri: "a:2", text: "two" },
        ],
      },
      "one\ntwo",
    ],
    [
      greeting,
      {
        messages: [
          { role: "user", content: { type: "text", text: "one" } },
          { role: "assistant", content: { type: "text", text: "two" } },
        ],
      },
      "one\ntwo",
    ],
  ])("gives its raw result and its text to outputs: %j", async (request, value, text) => {
    const { session } = server("s", result({ ...value, extension: { kept: [1] } }));
    const outputs = { text: "{text}", kept: "{result | json $.extension.kept[0]}", all: "{result}" };
    const report = await runStep(stepOf(request, {}, { outputs }), taskContext([session]));
    expect(report.outputs).toEqual({
      text,
      kept: "1",
      all: JSON.stringify({ ...value, extension: { kept: [1] } }),
    });
  });

  it("that is refused as expected gives the error to outputs", async () => {
    const { session } = server("s", refusal);
    const outputs = { text: "{text}", code: "{result.error.code}", id: "{result.error.data.id}" };
    const report = await runStep(stepOf(page, { isError: true }, { outputs }), taskContext([session]));
    expect(report).toMatchObject({
      outcome: "passed",
      outputs: { text: "no such thing", code: "-32602", id: "7" },
    });
  });

  it.each([add, page, greeting])("that is not answered in time is a timeout: %j", async (request) => {
    const reply: CallOutcome = { kind: "timeout", message: "late", latencyMs: 1000 };
    const { session } = server("s", reply);
    const report = await runStep(stepOf(request, {}), taskContext([session]));
    expect(report).toMatchObject({ outcome: "timeout", error: { message: "late" } });
  });
});

describe("templates are replaced", () => {
  const roots = { env: { NAME: "add", SERVER: "two", N: "5" }, item: { deep: [1, 2] } };

  async function run(
    request: McpRequest,
    expectation: McpExpectation,
    reply: JsonObject,
  ): Promise<[StepReport, string[]]> {
    const one = server("one", result(textResult("wrong server")));
    const two = server("two", result(reply));
    const step = stepOf(request, expectation, { server: "{env.SERVER}" });
    const report = await runStep(step, taskContext([one.session, two.session], roots));
    return [report, [...one.asked, ...two.asked]];
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
    [{ error: "n={env.N}" }, errorResult("n=5")],
  ])("in what is expected: %j", async (expectation, reply) => {
    const [passing] = await run(add, expectation, reply);
    expect(passing.outcome).toBe("passed");
    const other = JSON.parse(JSON.stringify(reply).replaceAll("5", "6")) as JsonObject;
    const [failing] = await run(add, expectation, other);
    expect(failing.outcome).toBe("failed");
  });
});

describe("isError", () => {
  const fine = result(textResult("5"));
  const failed = result(errorResult("division by zero"));
  const good = ["call", true, "it succeeded"];

  it.each<[string, McpExpectation, CallOutcome, string, unknown[]]>([
    ["absent, a result", {}, fine, "passed", [good]],
    ["absent, an error", {}, failed, "failed", [["call", false, "no result: division by zero"]]],
    ["absent, a protocol error", {}, refusal, "failed", [["call", false, "no result: no such thing"]]],
    ["absent, no result", {}, unusable, "error", []],
    [
      "absent, a wordless error",
      {},
      result({ content: [], isError: true }),
      "failed",
      [["call", false, "it failed without a word"]],
    ],
    ["false, a result", { isError: false }, fine, "passed", [good]],
    [
      "false, an error",
      { isError: false },
      failed,
      "failed",
      [["call", false, "no result: division by zero"]],
    ],
    [
      "true, a result",
      { isError: true },
      fine,
      "failed",
      [["call", false, "expected an error, it succeeded"]],
    ],
    ["true, an error", { isError: true }, failed, "passed", [["call", true, "failed as expected"]]],
    ["true, a protocol error", { isError: true }, refusal, "passed", [["call", true, "failed as expected"]]],
    ["true, no result", { isError: true }, unusable, "error", []],
  ])("%s", async (_, expectation, reply, outcome, checks) => {
    expect(await outcomeOf(add, reply, expectation)).toEqual([outcome, checks]);
  });

  it("has the server's words as evidence", async () => {
    const { session } = server("s", failed);
    const { checks } = await runStep(stepOf(add, {}), taskContext([session]));
    expect(checks).toMatchObject([{ expected: "a result", actual: "division by zero" }]);
  });

  it("is of tools only: a resource may have a field of that name", async () => {
    const reply = result({ contents: [], isError: true });
    expect(await outcomeOf(page, reply, {})).toEqual(["passed", [good]]);
  });

  it("lets nothing be looked for in a result that ended otherwise", async () => {
    const expectation = { text: { contains: ["zero"] }, json: [{ path: "$" }], schema: {} };
    expect(await outcomeOf(add, failed, expectation)).toEqual([
      "failed",
      [["call", false, "no result: division by zero"]],
    ]);
    expect(await outcomeOf(add, fine, { ...expectation, isError: true })).toEqual([
      "failed",
      [["call", false, "expected an error, it succeeded"]],
    ]);
  });

  it("true lets the words of the failure be looked at", async () => {
    const text = (wanted: string): McpExpectation => ({ isError: true, text: { contains: [wanted] } });
    expect((await outcomeOf(add, failed, text("by zero")))[0]).toBe("passed");
    expect((await outcomeOf(add, failed, text("overflow")))[0]).toBe("failed");
    expect((await outcomeOf(page, refusal, text("no such")))[0]).toBe("passed");
    expect((await outcomeOf(page, refusal, text("overflow")))[0]).toBe("failed");
  });

  it("true lets the JSON of a failure be looked at, where it has some", async () => {
    const expectation = { isError: true, json: [{ path: "$.code", equals: 5 }] };
    expect((await outcomeOf(add, result(errorResult('{"code":5}')), expectation))[0]).toBe("passed");
    expect((await outcomeOf(add, result(errorResult('{"code":6}')), expectation))[0]).toBe("failed");
    expect(await outcomeOf(page, refusal, expectation)).toEqual([
      "failed",
      [
        ["call", true, "failed as expected"],
        ["json", false, "there is no result"],
      ],
    ]);
  });
});

it("a step that expects nothing that can be looked at still says that the call succeeded", async () => {
  expect(await outcomeOf(add, result(textResult("5")), { json: [], text: {} })).toEqual([
    "passed",
    [["call", true, "it succeeded"]],
  ]);
});

it.each<[McpRequest, JsonObject]>([
  [add, textResult("the sum is 5")],
  [page, { contents: [{ uri: "a:page", text: "the sum is 5" }] }],
  [greeting, { messages: [{ role: "user", content: { type: "text", text: "the sum is 5" } }] }],
])("text is that of %j", async (request, value) => {
  const text = (wanted: string): McpExpectation => ({ text: { contains: [wanted] } });
  expect(await outcomeOf(request, result(value), text("sum is 5"))).toEqual([
    "passed",
    [["text contains", true, 'it contains "sum is 5"']],
  ]);
  expect((await outcomeOf(request, result(value), text("sum is 6")))[0]).toBe("failed");
});

describe("json and schema", () => {
  const five = (path: string): McpExpectation => ({ json: [{ path, equals: 5 }] });
  const schemaFor = (key: string, constant: number): McpExpectation => ({
    schema: { type: "object", required: [key], properties: { [key]: { const: constant } } },
  });

  it.each<[string, McpRequest, JsonObject, string]>([
    ["the structured content", add, structuredResult({ n: 5 }, "other text"), "n"],
    ["the text where there is no structured content", add, textResult('{"n":5}'), "n"],
    [
      "the text where the structured content is null",
      add,
      { ...textResult('{"n":5}'), structuredContent: null },
      "n",
    ],
    ["the whole result of a resource", page, { contents: [], n: 5 }, "n"],
    ["the whole result of a prompt", greeting, { messages: [], n: 5 }, "n"],
  ])("look at %s", async (_, request, value, key) => {
    expect(await outcomeOf(request, result(value), five(`$.${key}`))).toMatchObject([
      "passed",
      [["json $.n equals", true, expect.any(String)]],
    ]);
    expect((await outcomeOf(request, result(value), five("$.m")))[0]).toBe("failed");
    expect(await outcomeOf(request, result(value), schemaFor(key, 5))).toEqual([
      "passed",
      [["schema", true, "it fits the schema"]],
    ]);
    const [outcome, checks] = await outcomeOf(request, result(value), schemaFor(key, 6));
    expect([outcome, checks]).toEqual([
      "failed",
      [["schema", false, expect.stringMatching(/^it does not fit the schema: .*\/n/) as string]],
    ]);
  });

  it("find nothing in a text that is no JSON", async () => {
    const message = "the result has no structured content and its text is not JSON: Unexpected token 'i'";
    expect(await outcomeOf(add, result(textResult("five")), { json: [{ path: "$" }], schema: {} })).toEqual([
      "failed",
      [
        ["json", false, message],
        ["schema", false, message],
      ],
    ]);
  });

  it("fail together with the others, each by itself", async () => {
    const expectation = { ...five("$.m"), ...schemaFor("n", 5), text: { contains: ["6"] } };
    const [outcome, checks] = await outcomeOf(add, result(structuredResult({ n: 5 })), expectation);
    expect([outcome, checks.map((check) => (check as unknown[]).slice(0, 2))]).toEqual([
      "failed",
      [
        ["text contains", false],
        ["json $.m equals", false],
        ["schema", true],
      ],
    ]);
  });

  it("a schema that cannot be used is an error of the step, not of the server", async () => {
    const { session } = server("s", result(structuredResult({ n: 5 })));
    const report = await runStep(stepOf(add, { schema: { type: 5 } }), taskContext([session]));
    expect(report).toMatchObject({
      outcome: "error",
      error: {
        code: "step/cannot-run",
        message: expect.stringMatching(/^step it: its schema cannot be used: /) as string,
      },
    });
  });
});

it("latency counts for every kind of request", async () => {
  expect(await outcomeOf(page, result({ contents: [] }), { maxLatencyMs: 2 })).toEqual([
    "failed",
    [["latency", false, "3 ms, 2 ms allowed"]],
  ]);
  expect(await outcomeOf(page, result({ contents: [] }), { maxLatencyMs: 3 })).toMatchObject(["passed", {}]);
});

describe("the server", () => {
  const fine = result({ content: [], contents: [], messages: [] });

  it("is the only one that offers the tool", async () => {
    const [one, two] = [server("one", fine, ["sub"]), server("two", fine, ["add"])];
    await runStep(stepOf(add, {}), taskContext([one.session, two.session]));
    expect([one.asked.length, two.asked.length]).toEqual([0, 1]);
  });

  it("that offers the tool is none: a failed check", async () => {
    const [one, two] = [server("one", fine, ["sub"]), server("two", fine, [])];
    const report = await runStep(stepOf(add, {}), taskContext([one.session, two.session]));
    expect([report.outcome, told(report.checks)]).toEqual([
      "failed",
      [["tool", false, 'no server lists the tool "add" (servers: one, two)']],
    ]);
  });

  it.each([add, page, greeting])("is the only one there is: %j", async (request) => {
    const { session, asked } = server("one", fine);
    await runStep(stepOf(request, {}), taskContext([session]));
    expect(asked).toHaveLength(1);
  });

  it.each<[McpRequest, string]>([
    [add, 'several servers offer the tool "add": one, two'],
    [page, 'several servers could be asked for the resource "a:page": one, two'],
    [greeting, 'several servers could be asked for the prompt "greet": one, two'],
  ])("has to be named where several could be meant: %j", async (request, message) => {
    const sessions = [server("one", fine), server("two", fine)].map(({ session }) => session);
    const report = await runStep(stepOf(request, {}), taskContext(sessions));
    expect(report).toMatchObject({
      outcome: "error",
      error: {
        code: "config/unknown-reference",
        message,
        details: { hint: "Name the server with `server:` in the step." },
      },
    });
  });

  it.each<[McpRequest, string]>([
    [add, 'the server "three" of tool "add" is not among those of the task: one'],
    [page, 'the server "three" of resource "a:page" is not among those of the task: one'],
  ])("that is named has to be there: %j", async (request, message) => {
    const { session } = server("one", fine);
    const report = await runStep(stepOf(request, {}, { server: "three" }), taskContext([session]));
    expect(report).toMatchObject({ outcome: "error", error: { code: "config/unknown-reference", message } });
  });

  it.each<[McpRequest, { server?: string }, string[], string]>([
    [add, { server: "two" }, ["two"], 'the tool "add" needs server "two", which did not start'],
    [add, {}, ["two"], 'the tool "add" needs server "two", which did not start'],
    [
      page,
      {},
      ["two", "three"],
      'the resource "a:page" needs one of the servers "two", "three", which did not start',
    ],
  ])("that may be meant has to have started: %j of %j", async (request, named, absent, message) => {
    const { session, asked } = server("one", fine, []);
    const report = await runStep(stepOf(request, {}, named), { ...taskContext([session]), absent });
    expect(report).toMatchObject({ outcome: "error", error: { code: "server/missing", message } });
    expect(asked).toEqual([]);
  });

  it("is found though another one did not start", async () => {
    const { session, asked } = server("one", fine);
    await runStep(stepOf(add, {}), { ...taskContext([session]), absent: ["two"] });
    expect(asked).toHaveLength(1);
  });

  it("is missing altogether", async () => {
    const report = await runStep(stepOf(page, {}), taskContext([]));
    expect(report).toMatchObject({
      outcome: "error",
      error: { message: 'the task has no server to ask for the resource "a:page"' },
    });
  });
});

it("works on a real server", async () => {
  await using session = await startEverything();
  const context = taskContext([session]);
  const uri = "demo://resource/static/document/features.md";
  const steps = [
    stepOf(
      { kind: "tool", tool: "get-structured-content", args: { location: "New York" } },
      {
        json: [{ path: "$.temperature", type: "number" }],
        schema: { type: "object", required: ["temperature", "conditions", "humidity"] },
      },
    ),
    stepOf(
      { kind: "resource", uri },
      { json: [{ path: "$.contents[0].uri", equals: uri }], text: { contains: ["#"] } },
    ),
    stepOf(
      { kind: "prompt", prompt: "args-prompt", args: { city: "Rome" } },
      { text: { equals: "What's weather in Rome?" }, json: [{ path: "$.messages", count: 1 }] },
    ),
    stepOf({ kind: "resource", uri: "demo://nothing" }, { isError: true }),
    stepOf({ kind: "prompt", prompt: "args-prompt", args: {} }, { isError: true }),
  ].map((step) => ({ ...step, timeoutMs: 20_000 }));
  for (const step of steps) expect(await runStep(step, context)).toMatchObject({ outcome: "passed" });
});
