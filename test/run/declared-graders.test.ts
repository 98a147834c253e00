import { expect, it } from "vitest";
import { fixtureServer } from "../e2e/support.ts";
import { runIn, runInline } from "../support/cli.ts";

const call = { call: "echo", args: { message: "hi" } };
const agent = { type: "scripted", plan: { greet: [call, call, { say: "it said hi" }] } };
const workflow = { name: "greet", steps: [{ user: "say hi" }] };
const config = (graders: readonly unknown[], own: readonly unknown[] = []): Record<string, unknown> => ({
  "mcp-eval.config.json": {
    server: fixtureServer(),
    agent,
    graders,
    workflows: [{ ...workflow, graders: own }],
  },
});
const text = (wanted: string, rest = {}): unknown => ({
  type: "text",
  config: { contains: [wanted] },
  ...rest,
});
const noRepeats = { type: "behavior", config: { max_duplicate_calls: 0 } };

it("graders of a config and of a workflow fail a trial, with their weights in its score", async () => {
  const { code, result } = await runInline(config([noRepeats], [text("hi", { weight: 3 })]));
  const [trial] = result.trials;
  expect([code, trial?.verdict]).toEqual([1, "fail"]);
  expect(trial?.grades.filter(({ score }) => score !== null)).toMatchObject([
    { grader: "tool-call-health", score: 1 },
    { grader: "behavior", verdict: "fail", score: 0 },
    { grader: "text", verdict: "pass", score: 1, weight: 3 },
  ]);
  expect(trial?.score).toBeCloseTo(4 / 5);
});

it("a grader that is not required changes the score only", async () => {
  const { code, result } = await runInline(config([{ ...noRepeats, required: false }], [text("hi")]));
  const [trial] = result.trials;
  expect([code, trial?.verdict]).toEqual([0, "pass"]);
  expect(trial?.grades.find(({ grader }) => grader === "behavior")).toMatchObject({
    verdict: "fail",
    required: false,
  });
  expect(trial?.score).toBeCloseTo(2 / 3);
});

it("what is wrong with a setting is reported once, at the setting", async () => {
  const { code, stderr } = await runIn(
    {
      "mcp-eval.config.yaml": [
        `server: ${JSON.stringify(fixtureServer())}`,
        `agent: ${JSON.stringify(agent)}`,
        "workflows: [{name: greet, steps: [{user: hi}]}]",
        "graders:",
        "  - {type: metric, config: {name: errors, max: -1}}",
        "  - {type: action_sequence, config: {expected_actions: []}}",
        "  - {type: text, config: {contain: [hi]}}",
        "  - {type: tool_calls, config: {min_calls: 2, max_calls: 1}}",
        "  - {type: txet, config: {}}",
      ].join("\n"),
    },
    ["run"],
  );
  expect(code).toBe(2);
  expect(stderr.match(/yaml:\d+:\d+: error .*/g)).toEqual([
    expect.stringMatching(/^yaml:5:\d+: error graders\[0\]\.config\.max must be at least 0/),
    expect.stringMatching(
      /^yaml:6:\d+: error graders\[1\]\.config\.expected_actions must have at least 1 item/,
    ),
    expect.stringMatching(/^yaml:7:\d+: error unknown key "contain"/),
    expect.stringMatching(/^yaml:8:\d+: error graders\[3\]\.config has a max_calls below min_calls/),
    expect.stringMatching(/^yaml:9:\d+: error no grader has the type "txet"/),
  ]);
  expect(stderr).toContain('Did you mean "text"?');
});

it.each([
  ["run", "model: foo"],
  ["run", "model: ollama/m, second_model: foo"],
  ["validate", "model: foo"],
])("a wrong model of a judge is refused at its setting: %s, %s", async (command, models) => {
  const { code, stderr } = await runIn(
    {
      "mcp-eval.config.yaml": [
        `server: ${JSON.stringify(fixtureServer())}`,
        `agent: ${JSON.stringify(agent)}`,
        "workflows: [{name: greet, steps: [{user: hi, expectedState: hi}]}]",
        "graders:",
        `  - {type: prompt, config: {rubric: Is it polite?, ${models}}}`,
      ].join("\n"),
    },
    [command],
  );
  const column = "  - {type: prompt, config: {rubric: Is it polite?, ".length + models.indexOf("foo") + 1;
  const place = `mcp-eval.config.yaml:5:${column}: error "foo" names no provider`;
  expect([code, stderr]).toEqual([2, expect.stringContaining(place)]);
});

it.each(["run", "validate"])(
  "%s refuses the models of an agent and of the judge where the file names them",
  async (command) => {
    const { code, stderr } = await runIn(
      {
        "mcp-eval.config.yaml": [
          `server: ${JSON.stringify(fixtureServer())}`,
          "agent: b",
          "agents:",
          "  a: {model: foo}",
          "  b:",
          "    model: bar",
          "judge: {model: baz}",
          "llmJudge: true",
          "workflows: [{name: greet, steps: [{user: hi, expectedState: hi}]}]",
        ].join("\n"),
      },
      [command],
    );
    expect(code).toBe(2);
    expect(stderr).toContain('mcp-eval.config.yaml:6:12: error "bar" names no provider');
    expect(stderr).toContain('mcp-eval.config.yaml:7:16: error "baz" names no provider');
    expect(stderr).not.toContain("foo");
  },
);

it.each(["tool-call-health", "llm-judge"])(
  "a grader may not be named %s, as a built-in one is",
  async (name) => {
    const { code, stderr } = await runIn(config([text("hi", { name })]), ["run"]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(
        RegExp(
          `mcp-eval\\.config\\.json:\\d+:\\d+[^]*the grader "${name}" has the name of a built-in grader`,
        ),
      ),
    ]);
  },
);

it("a server that a grader names and nobody has is reported once, at the grader", async () => {
  const { code, stderr } = await runIn(
    {
      "mcp-eval.config.yaml": [
        `servers: ${JSON.stringify({ main: fixtureServer() })}`,
        `agent: ${JSON.stringify(agent)}`,
        "workflows: [{name: greet, steps: [{user: hi}]}, {name: again, steps: [{user: hi}]}]",
        "graders:",
        "  - {type: behavior, config: {required_mcp_servers: [mian]}}",
      ].join("\n"),
    },
    ["run"],
  );
  expect([code, stderr]).toEqual([2, expect.stringMatching(/yaml:5:53[^]*no server is named "mian"/)]);
  expect(stderr.match(/no server is named/g)).toHaveLength(1);
  expect(stderr).toContain('Did you mean "main"?');
});

it("a workflow that only graders look at may not be one that none can fail", async () => {
  const { code, stderr } = await runIn(config([text("hi", { required: false })]), ["run"]);
  expect([code, stderr]).toEqual([2, expect.stringContaining("expects nothing, so it could not fail")]);
  expect(stderr).toContain("Its graders are not required, so that they decide nothing.");
});

it("graders of calls look at what the agent called, and at the schemas on record", async () => {
  const graders = [
    { type: "mcp_compliance", config: { expect_tools_used: ["echo"] } },
    { type: "action_sequence", config: { matching_mode: "exact_match", expected_actions: ["echo"] } },
    {
      type: "tool_constraint",
      config: { expect_tools: [{ tool: "/ec.o/", args: { message: "hi" }, max: 2 }] },
    },
    { type: "assertions", config: { toolsUsed: [{ server: "main", tool: "echo" }], noDuplicateCalls: true } },
  ];
  const { result } = await runInline({
    "mcp-eval.config.json": {
      servers: { main: fixtureServer() },
      agent,
      workflows: [{ ...workflow, graders }],
    },
  });
  expect(
    result.trials[0]?.grades.filter(({ grader }) => graders.some(({ type }) => type === grader)),
  ).toMatchObject([
    {
      verdict: "pass",
      score: 1,
      reason: "selection 1: precision 1, recall 1; parameters 1: all 2 calls are valid",
    },
    {
      verdict: "fail",
      score: 1 / 2,
      reason: "not expected in this order: main.echo; used: main.echo, main.echo",
    },
    { verdict: "pass", reason: '2 calls of /ec.o/ (message = "hi")' },
    { verdict: "fail", score: 1 / 2 },
  ]);
});
