import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { McpExpectation, McpRequest, Step } from "../../src/core/formats/step.ts";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import type { TrialResult } from "../../src/core/report/result.ts";
import { nullAgentWarning } from "../../src/core/report/trial-result.ts";
import { evaluate } from "../../src/evaluate.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import type { ServerSession } from "../../src/servers/client/session.ts";
import { runStep } from "../../src/steps/run-step.ts";
import { startSession } from "../servers/support.ts";
import { folderOf } from "../support/cli.ts";
import { lyingServer, lyingServerOverHttp } from "../support/lying.ts";
import { scopeOf, stepContext, temporaryTrial } from "../support/step-context.ts";

type ToolTest = NonNullable<Config["toolHealthSuites"]>[number]["tests"][number];

interface Attack {
  readonly server: NonNullable<Config["server"]>;
  readonly test?: Partial<ToolTest>;
  readonly verdict: TrialResult["verdict"];
  /** What the trial has to say, in its error, its grades or its warnings. */
  readonly says: string;
}

const timeoutMs = 20_000;

/** Tries every attack as a tool test of `add`, with a server of its own, in one run. */
async function play(attacks: Readonly<Record<string, Attack>>): Promise<Map<string, TrialResult>> {
  const all = Object.entries(attacks);
  const tests = all.map(([name, { test }]) => ({ name: "add", description: name, server: name, ...test }));
  const servers = Object.fromEntries(all.map(([name, { server }]) => [name, server]));
  const config: Config = { servers, toolHealthSuites: [{ name: "s", parallel: true, tests }] };
  const { trials } = await evaluate(config, { output: false });
  return new Map(trials.map((trial) => [trial.task.slice("s/".length), trial]));
}

function expectVerdicts(attacks: Readonly<Record<string, Attack>>): void {
  let trials: Map<string, TrialResult>;
  beforeAll(async () => {
    trials = await play(attacks);
  });

  it.each(Object.entries(attacks))("%s", (name, { verdict, says }) => {
    const trial = trials.get(name);
    expect([trial?.verdict, JSON.stringify(trial)]).toEqual([verdict, expect.stringContaining(says)]);
  });
}

// docs/guide.md, "Tool tests": a tool that the server does not list, or lists twice, is none that clients can call.
describe("a tool test passes only for a tool that its server lists, once", () => {
  const expected = { expectedResult: 5 };
  const missing = { name: "ad", expectedError: "not found" };
  expectVerdicts({
    "a call that is answered well": {
      server: lyingServer("none"),
      test: expected,
      verdict: "pass",
      says: "the number found is 5",
    },
    "a tool that is answered and not listed": {
      server: lyingServer("unlisted"),
      test: expected,
      verdict: "fail",
      says: 'does not list the tool \\"add\\"; listed: sub',
    },
    "a server that does not declare that it has tools": {
      server: lyingServer("no-capability"),
      test: expected,
      verdict: "fail",
      says: "it does not declare that it has tools",
    },
    "a misspelt tool whose error is expected": {
      server: lyingServer("none"),
      test: missing,
      verdict: "fail",
      says: 'listed: add; did you mean \\"add\\"?',
    },
    "a listed tool of a server that calls none": {
      server: lyingServer("method-not-found"),
      test: { expectedError: "not found" },
      verdict: "fail",
      says: 'offers no tool \\"add\\": Method not found',
    },
    "a tool that is listed twice": {
      server: lyingServer("twice"),
      test: expected,
      verdict: "fail",
      says: 'lists the tool \\"add\\" 2 times',
    },
    "a tool that is listed on two pages": {
      server: lyingServer("twice-on-pages"),
      test: expected,
      verdict: "fail",
      says: 'lists the tool \\"add\\" more than once',
    },
  });
});

describe("a step of a task passes only for what its server lists", () => {
  const call = (tool: string, expectation: McpExpectation = {}): Step =>
    step({ kind: "tool", tool, args: {} }, expectation);
  const step = (request: McpRequest, expectation: McpExpectation = {}): Step => ({
    type: "mcp",
    id: "call",
    request,
    expect: expectation,
    timeoutMs,
  });
  const not = (inner: Step): Step => ({ type: "not", id: "not", steps: [inner], timeoutMs });

  async function outcomes(lie: string, ...steps: readonly Step[]): Promise<string[]> {
    const { session } = await startSession({ ...lyingServer(lie), ...limits });
    return outcomesOn([session], steps);
  }

  async function outcomesOn(sessions: readonly ServerSession[], steps: readonly Step[]): Promise<string[]> {
    await using validator = new SchemaValidator();
    using trial = temporaryTrial({ validateSchema: (schema, value) => validator.validate(schema, value) });
    const context = stepContext({ sessions, scope: scopeOf({}), trial });
    const reports = [];
    for (const each of steps) reports.push((await runStep(each, context)).outcome);
    return reports;
  }

  it.each(["unlisted", "no-capability", "twice"])(
    "and neither do its failure and its negation: %s",
    async (lie) => {
      const steps = [call("add"), call("add", { isError: true }), not(call("add"))];
      expect(await outcomes(lie, ...steps)).toEqual(["failed", "failed", "failed"]);
    },
  );

  it("of one of several servers", async () => {
    const servers = await Promise.all(
      ["none", "unlisted"].map(
        async (lie) => (await startSession({ ...lyingServer(lie), ...limits })).session,
      ),
    );
    expect(await outcomesOn(servers, [call("add"), not(call("addd"))])).toEqual(["passed", "failed"]);
  });

  it("at the time of the call, whatever it listed before", async () => {
    expect(await outcomes("learns-add", call("add"), call("learn"), call("add"))).toEqual([
      "failed",
      "passed",
      "passed",
    ]);
    expect(await outcomes("forgets-add", call("add"), call("learn"), call("add"))).toEqual([
      "passed",
      "passed",
      "failed",
    ]);
  });

  it("so that a prompt with a misspelt name does not fail as expected", async () => {
    const prompt = { kind: "prompt", args: {} } as const;
    const steps = ["greet", "gret"].map((name) => step({ ...prompt, prompt: name }, { error: "not found" }));
    expect(await outcomes("none", ...steps)).toEqual(["passed", "failed"]);
  });

  it.each(["empty-block", "IsError", "is_error", "StructuredContent"])(
    "and for an answer that all readers read in one way: %s",
    async (lie) => {
      const steps = [call("add"), call("add", { isError: true }), not(call("add", { isError: true }))];
      expect(await outcomes(lie, ...steps)).toEqual(["error", "error", "error"]);
    },
  );

  it("and not for the words beside a picture", async () => {
    const five: McpExpectation = { text: { contains: ["5"] } };
    expect(await outcomes("picture-of-five", call("add", five))).toEqual(["failed"]);
  });

  it("and what it gave is what the tool's own schema promised before the call", async () => {
    const steps = [call("add", { text: { equals: "5" } }), not(call("add", { text: { equals: "5" } }))];
    expect(await outcomes("loosens-schema", ...steps)).toEqual(["failed", "failed"]);
  });
});

// docs/servers.md, "Start, recording, stop": a server that dies is an error, also when it had given its answer.
describe("a server that is gone when it has answered proves nothing", () => {
  const test = { expectedResult: 5 };
  const perRun = (lie: string): Attack["server"] => ({ ...lyingServer(lie), lifetime: "per_run" });
  const ended = (how: string): string => `\\" ${how}`;
  expectVerdicts({
    "by a signal": {
      server: lyingServer("answer:kill"),
      test,
      verdict: "error",
      says: ended("was ended by SIGKILL"),
    },
    "with an exit code": {
      server: lyingServer("answer:exit-1"),
      test,
      verdict: "error",
      says: ended("exited with code 1"),
    },
    "with exit code 0": {
      server: lyingServer("answer:exit-0"),
      test,
      verdict: "error",
      says: ended("exited with code 0"),
    },
    "and was to serve other trials": {
      server: perRun("answer:kill"),
      test,
      verdict: "error",
      says: ended("was ended by SIGKILL"),
    },
    "by a signal of its own when it was to end": {
      server: lyingServer("stdin:kill"),
      test,
      verdict: "error",
      says: ended("was ended by SIGKILL"),
    },
    "with an exit code when it was to end, which is noted": {
      server: lyingServer("stdin:exit-1"),
      test,
      verdict: "pass",
      says: "ended with exit code 1 when its stdin was closed",
    },
    "without a word to the last ping, which is noted": {
      server: lyingServer("ping:hangs"),
      test,
      verdict: "pass",
      says: "did not answer the ping at the end of the trial",
    },
    "with an error for the last ping, which is noted": {
      server: lyingServer("ping:fails"),
      test,
      verdict: "pass",
      says: "answered the ping at the end of the trial with an error: it broke",
    },
    "but not one that we ended": { server: lyingServer("none"), test, verdict: "pass", says: "result" },
    "but not one that goes on": { server: perRun("none"), test, verdict: "pass", says: "result" },
  });
});

// docs/tasks.md, "Steps": what holds for a tool test holds for a task, until its cleanup begins.
describe("a server of a task that is gone when it has answered proves nothing", () => {
  /** What came of a task whose verify step is answered, and whose cleanup kills its server or does not. */
  async function trialOf(lie: string, cleanup: readonly object[]): Promise<TrialResult | undefined> {
    const { command, args } = lyingServer(lie);
    const killable = {
      command: "sh",
      args: ["-c", 'echo $$ > "$1/pid"; shift; exec "$@"', "sh", "{workspace}"],
    };
    const server = { ...killable, args: [...killable.args, command, ...args] };
    const verify = [{ mcp: { server: "s", tool: "add", expect: { text: { equals: "5" } } } }];
    const task = {
      kind: "Task",
      apiVersion: "mcp-eval/v1",
      metadata: { name: "sum" },
      spec: { servers: { s: server }, prompt: "Add.", verify, cleanup },
    };
    using folder = folderOf({ "task.json": task });
    const { trials } = await evaluate(join(folder.path, "task.json"), { output: false, agents: ["null"] });
    return trials[0];
  }
  const idle = { command: { run: "true" } };
  const kills = { command: { run: "kill -9 $(cat {workspace}/pid)" } };

  it.each([
    ["without a cleanup", []],
    ["with a cleanup", [idle]],
    ["also when its cleanup would have ended it", [kills]],
  ])("%s", async (_, cleanup) => {
    const trial = await trialOf("answer:kill", cleanup);
    expect([trial?.verdict, trial?.error?.message]).toEqual(["error", 'server "s" was ended by SIGKILL']);
  });

  it("but not one that the task's own cleanup ends, which is noted", async () => {
    const trial = await trialOf("none", [kills]);
    const noted = ['server "s" ended by itself: SIGKILL', nullAgentWarning];
    expect([trial?.verdict, trial?.warnings]).toEqual(["pass", noted]);
  });
});

// docs/guide.md, "Tool tests": an answer that readers can read in different ways is none.
describe("an answer that is no proper message fails a tool test", () => {
  const test = { expectedResult: 5 };
  const malformed = "the answer is malformed: its bytes are not UTF-8";
  expectVerdicts({
    "in bytes that are no UTF-8": { server: lyingServer("no-text"), test, verdict: "fail", says: malformed },
    "with a key twice": {
      server: lyingServer("error-twice"),
      test,
      verdict: "fail",
      says: 'it has the key \\"isError\\" twice',
    },
    "with an isError that is a text": {
      server: lyingServer("is-error-text"),
      test,
      verdict: "fail",
      says: "isError is neither true nor false",
    },
    "with a block that is empty": {
      server: lyingServer("empty-block"),
      verdict: "fail",
      says: "content[0] has no type",
    },
    "with the number only beside a picture": {
      server: lyingServer("picture-of-five"),
      test,
      verdict: "fail",
      says: "found no number",
    },
    "with IsError": {
      server: lyingServer("IsError"),
      test,
      verdict: "fail",
      says: 'it has the key \\"IsError\\", which only some readers take for isError',
    },
    "with is_error": { server: lyingServer("is_error"), test, verdict: "fail", says: "take for isError" },
    "with StructuredContent": {
      server: lyingServer("StructuredContent"),
      test,
      verdict: "fail",
      says: "take for structuredContent",
    },
    "of which only the error has the number": {
      server: lyingServer("code-5"),
      test,
      verdict: "fail",
      says: "the call failed: MCP error -32602, attempt 5",
    },
    "of which only the colours have the number": {
      server: lyingServer("colours"),
      test,
      verdict: "fail",
      says: "found no number",
    },
    "of which only the colours have the text": {
      server: lyingServer("colours"),
      test: { expectedResult: "5" },
      verdict: "fail",
      says: "does not contain",
    },
    "but not when only the list has such bytes, which is noted": {
      server: lyingServer("bytes-in-list"),
      test,
      verdict: "pass",
      says: "sent a malformed message: its bytes are not UTF-8",
    },
    "and one with nothing in it is noted": {
      server: lyingServer("nothing"),
      verdict: "pass",
      says: "add answered with nothing in its result",
    },
  });

  it("but a server that knows no ping is fine", async () => {
    const attack = { server: lyingServer("ping:unknown"), test, verdict: "pass", says: "" } as const;
    const [trial] = (await play({ a: attack })).values();
    expect([trial?.verdict, trial?.warnings]).toEqual(["pass", undefined]);
  });

  it.each(["mcp", "events"])("over HTTP, at /%s", async (path) => {
    await using server = await lyingServerOverHttp("no-text");
    const [bytes] = (
      await play({ a: { server: server.at(path), test, verdict: "fail", says: "" } })
    ).values();
    expect([bytes?.verdict, JSON.stringify(bytes)]).toEqual(["fail", expect.stringContaining(malformed)]);
    await using twins = await lyingServerOverHttp("error-twice");
    const [twice] = (await play({ a: { server: twins.at(path), test, verdict: "fail", says: "" } })).values();
    expect([twice?.verdict, JSON.stringify(twice)]).toEqual(["fail", expect.stringContaining("twice")]);
  });

  it.each([
    ["accepted", "timeout", "HTTP 202, as if there were nothing to answer"],
    ["elsewhere", "fail", "HTTP 307"],
  ] as const)("over HTTP, and so is a response that is none: %s", async (lie, verdict, says) => {
    await using server = await lyingServerOverHttp(lie);
    const attack = { server: server.at("mcp"), test: { ...test, timeout: 500 }, verdict, says };
    const [trial] = (await play({ a: attack })).values();
    expect([trial?.verdict, JSON.stringify(trial)]).toEqual([verdict, expect.stringContaining(says)]);
  });
});

const limits = {
  env: {},
  cwd: process.cwd(),
  startupTimeoutMs: timeoutMs,
  maxMessageBytes: 10_000_000,
};
