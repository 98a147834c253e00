import { describe, expect, it } from "vitest";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import { runIn, runInline } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { closedAddress, configFile, fixtureServer, gradesOf, toolTest, trialOf } from "./support.ts";

/** A scripted agent that calls one tool and then says that it is done. */
function calls(tool: string): Config {
  return {
    server: fixtureServer(),
    agent: { type: "scripted", plan: { work: [{ call: tool }, { say: "It is done." }] } },
    workflows: [{ name: "work", steps: [{ user: "Do it.", expectedState: "done" }], expectTools: [tool] }],
  };
}

describe("a tool that answers isError when nothing is expected", () => {
  it("makes a tool test red", async () => {
    const { code, result } = await runInline(configFile(toolTest("fail")));
    expect([code, result.verdict]).toEqual([1, "fail"]);
    expect(trialOf(result, "suite/fail").grades).toMatchObject([
      {
        grader: "tool-call-health",
        verdict: "fail",
        score: 0,
        reason: "fail answered isError: it went wrong",
      },
      { grader: "verify-steps", verdict: "skip", score: null },
    ]);
  });

  it("makes a workflow red, although everything else is as expected", async () => {
    const { code, result } = await runInline(configFile(calls("fail")));
    expect([code, result.verdict]).toEqual([1, "fail"]);
    expect(gradesOf(trialOf(result, "work"))).toEqual({
      "end-to-end-success": "pass 1",
      "tool-invocation-order": "pass 1",
      "tool-call-health": "fail 0",
    });
  });
});

describe("a result that violates the tool's outputSchema", () => {
  it("makes a tool test and a workflow red", async () => {
    const { toolHealthSuites } = toolTest("bad-output");
    const config = { ...calls("bad-output"), ...(toolHealthSuites && { toolHealthSuites }) };
    const { code, result } = await runInline(configFile(config));
    expect([code, result.verdict]).toEqual([1, "fail"]);
    for (const task of ["work", "suite/bad-output"]) {
      const health = trialOf(result, task).grades.find(({ grader }) => grader === "tool-call-health");
      expect(health).toMatchObject({ verdict: "fail", score: 0 });
      expect(health?.reason).toMatch(/^bad-output violates its outputSchema: .*sum/);
    }
  });
});

describe("a model that cannot be asked", () => {
  const workflows: Config["workflows"] = [
    { name: "expects nothing", steps: [{ user: "Say anything." }] },
    { name: "expects a failure", steps: [{ user: "Divide by zero.", expectedError: "zero" }] },
    { name: "expects a state", steps: [{ user: "Add.", expectedState: "5" }], expectTools: ["add"] },
  ];
  // The judge would take a workflow without expectations: with one it is no mistake of the file.
  const config = { server: fixtureServer(), llmJudge: true, concurrency: 3, workflows };

  it("is an error when it is unreachable, whatever is expected", async () => {
    const address = await closedAddress();
    const { code, result } = await runInline(configFile(config), [], {
      ANTHROPIC_BASE_URL: address,
      ANTHROPIC_API_KEY: "key",
      OPENAI_BASE_URL: address,
      OPENAI_API_KEY: "key",
    });
    expect([code, result.verdict]).toEqual([3, "incomplete"]);
    expect(result.summary).toEqual({ total: 3, pass: 0, fail: 0, error: 3, timeout: 0, skip: 0 });
    for (const trial of result.trials) {
      expect(trial).toMatchObject({ score: null, grades: [], error: { code: "model/unreachable" } });
      expect(trial.error?.message).toContain(address);
    }
  });

  it("is an error when only the judge is unreachable", async () => {
    await using provider = await startFakeProvider((request) =>
      request.newResults.length > 0 ? { text: "5" } : { tool: "add", args: { a: 2, b: 3 } },
    );
    const { code, result } = await runInline(
      configFile({ ...config, workflows: config.workflows?.slice(2) }),
      [],
      { ...provider.env, OPENAI_BASE_URL: await closedAddress() },
    );
    expect([code, result.verdict]).toEqual([3, "incomplete"]);
    expect(gradesOf(trialOf(result, "expects a state"))).toEqual({
      "end-to-end-success": "pass 1",
      "tool-invocation-order": "pass 1",
      "tool-call-health": "pass 1",
      "llm-judge": "error null",
    });
  });

  it("is an error when there is no key, and the tool tests of the config still run", async () => {
    const { llmJudge: _, ...unjudged } = config;
    const { toolHealthSuites } = toolTest("echo", { args: { message: "hi" }, expectedResult: "hi" });
    const { code, result, stderr } = await runInline(
      configFile({
        ...unjudged,
        workflows: config.workflows?.slice(1),
        ...(toolHealthSuites && { toolHealthSuites }),
      }),
    );
    expect([code, result.verdict]).toEqual([3, "incomplete"]);
    expect(result.summary).toMatchObject({ total: 3, pass: 1, error: 2 });
    expect(trialOf(result, "suite/echo").verdict).toBe("pass");
    expect(trialOf(result, "expects a state")).toMatchObject({
      verdict: "error",
      score: null,
      error: { code: "model/no-key" },
    });
    expect(trialOf(result, "expects a state").error?.message).toContain("ANTHROPIC_API_KEY");
    expect(stderr).toBe("");
  });
});

describe("a config that could not fail is refused", () => {
  const server = fixtureServer();
  const hello = { user: "Hello" };

  it.each([
    ["nothing in it", {}, [/:1:1: error there is nothing to run.*config\/nothing-to-run/]],
    ["empty lists", { workflows: [], toolHealthSuites: [] }, [/there is nothing to run/]],
    [
      "an empty suite and a workflow without steps",
      { workflows: [{ name: "w", steps: [] }], toolHealthSuites: [{ name: "s", tests: [] }] },
      [/ error .*steps.*config\/invalid-value/, / error .*tests.*config\/invalid-value/],
    ],
    [
      "workflows that expect nothing",
      {
        workflows: [
          { name: "expects nothing", steps: [hello, { user: "Bye" }] },
          { name: "expects no tools", steps: [{ ...hello, expectTools: [] }], expectTools: [] },
        ],
      },
      [/"expects nothing".*config\/checks-nothing/, /"expects no tools".*config\/checks-nothing/],
    ],
  ])("with %s", async (_, config, messages) => {
    const files = { "mcp-eval.config.json": { server, ...config } };
    const { code, stdout, stderr } = await runIn(files, ["run", "--reporter", "json"]);
    expect([code, stdout]).toEqual([2, ""]);
    const lines = stderr.split("\n").filter((line) => line.startsWith("mcp-eval.config.json:"));
    expect(lines).toEqual(messages.map((message) => expect.stringMatching(message) as string));
  });
});

it("expected failures are green, and so is the healthy call after eight of them", async () => {
  const failing = ["fail", "refuse", "fail", "refuse", "fail", "refuse", "fail", "refuse"];
  const tests = failing.map((name) => ({
    name,
    expectedError: name === "fail" ? "WENT WRONG" : "not today",
  }));
  const add = { name: "add", args: { a: 2, b: 3 }, expectedResult: 5 };
  const toolHealthSuites = [{ name: "suite", tests: [...tests, add] }];
  const { code, result } = await runInline(configFile({ server: fixtureServer(), toolHealthSuites }));
  expect(result.trials.map((trial) => trial.verdict)).toEqual(Array(9).fill("pass"));
  expect(code).toBe(0);
});

it("twenty model runs in a row are all green", async () => {
  await using provider = await startFakeProvider(({ newResults: [result] }) =>
    result === undefined ? { tool: "add", args: { a: 2, b: 3 } } : { text: `The sum is ${result.text}.` },
  );
  const workflows = [{ name: "add", steps: [{ user: "2 + 3?", expectedState: "sum is 5" }] }];
  const config = configFile({ server: fixtureServer(), workflows });
  const { code, result } = await runInline(config, ["--trials", "20"], provider.env);
  expect(result.summary).toEqual({ total: 20, pass: 20, fail: 0, error: 0, timeout: 0, skip: 0 });
  expect([code, provider.requests.length]).toEqual([0, 40]);
});

it("time is not spent after a success: a limit of ten minutes is no wait", async () => {
  const add = toolTest("add", { args: { a: 2, b: 3 }, expectedResult: 5 });
  expect((await runInline(configFile({ timeout: 600_000, ...add }))).code).toBe(0);
});
