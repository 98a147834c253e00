import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import type { TrialResult } from "../../src/core/report/result.ts";
import { evaluate } from "../../src/evaluate.ts";
import type { ServerConfig } from "../e2e/support.ts";
import { acpAgent } from "../support/agent-programs.ts";
import { folderOf, root, runCli } from "../support/cli.ts";
import { startFakeProvider, type FakeReply } from "../support/fake-provider.ts";
import { lyingServer, lyingServerOverHttp } from "../support/lying.ts";

const calc: ServerConfig = {
  transport: "mock",
  mock: {
    tools: {
      add: { responses: [{ match: { a: 2 }, return: "42" }, { error: "no such number" }] },
      sub: { responses: [{ return: "0" }] },
    },
  },
};

const commandAgent = join(root, "test/fixtures/agents/command-agent.ts");

async function trialOf(config: Config, env: Readonly<Record<string, string>> = {}): Promise<TrialResult> {
  const { trials } = await evaluate(config, { output: false, env });
  const [trial] = trials;
  if (trial === undefined || trials.length > 1) throw new Error(`${trials.length} trials`);
  return trial;
}

/** What a trial's grades and errors say, by grader. */
function told({ grades, error }: TrialResult): Readonly<Record<string, string>> {
  const all = grades.map(({ grader, verdict, reason }) => [grader, `${verdict}: ${reason}`] as const);
  return Object.fromEntries(error === undefined ? all : [...all, ["error", error.message]]);
}

// docs/agents.md, "Failures and errors": what an agent does not end itself it has not done.
describe("an agent that did not end its turn itself has failed, whatever it had done by then", () => {
  const workflows = [{ name: "sum", steps: [{ user: "Add.", expectedState: "42" }] }];
  const call: FakeReply = { tool: "add", args: { a: 2 } };

  it.each<[string, readonly FakeReply[], string]>([
    [
      "refused",
      [call, { text: "42, but no.", finish: "refusal" }],
      "the model or its provider refused to answer",
    ],
    [
      "cut at its output limit",
      [call, { text: "It is 42 and", finish: "length" }],
      "cut off at its output limit",
    ],
    ["out of steps", [call, call], "still wanted to call tools after 2 model calls"],
  ])("a model: %s", async (_, replies, reason) => {
    await using provider = await startFakeProvider(replies);
    const agent = { type: "model", model: "anthropic/m", maxSteps: 2 } as const;
    const trial = await trialOf({ server: calc, agent, workflows }, provider.env);
    expect(trial.verdict).toBe("fail");
    expect(told(trial)).toMatchObject({
      "end-to-end-success": expect.stringMatching(/^pass/) as string,
      "turn-ends": expect.stringContaining(reason) as string,
    });
    expect(trial.warnings).toBeUndefined();
  });

  it("a model: not when it has finished", async () => {
    await using provider = await startFakeProvider([call, { text: "It is 42." }]);
    const trial = await trialOf({ server: calc, agent: "anthropic/m", workflows }, provider.env);
    expect([trial.verdict, told(trial)["turn-ends"]]).toEqual(["pass", undefined]);
  });

  it("a program that speaks ACP", async () => {
    const ends = {
      refusal: "the agent refused to go on",
      max_tokens: "the agent's model reached its output limit",
      max_turn_requests: "the agent had no model calls left",
      cancelled: "the turn was cancelled",
    };
    const { trials } = await evaluate(
      {
        server: calc,
        agent: { type: "acp", command: process.execPath, args: [acpAgent] },
        concurrency: 4,
        workflows: Object.keys(ends).map((stop) => ({
          name: stop,
          steps: [{ user: `say It is 4\nsay 2.\nstop ${stop}`, expectedState: "It is 42" }],
        })),
      },
      { output: false },
    );
    expect(trials.map((trial) => [trial.task, trial.verdict, told(trial)["turn-ends"]])).toEqual(
      Object.entries(ends).map(([stop, reason]) => [stop, "fail", `fail: turn 1: ${reason}`]),
    );
  });

  it.each([
    [
      "claude-code",
      { type: "assistant", message: { content: [{ type: "text", text: "42" }], stop_reason: "refusal" } },
    ],
    [
      "claude-code",
      { type: "assistant", message: { content: [{ type: "text", text: "42" }], stop_reason: "max_tokens" } },
    ],
    ["claude-code", { type: "result", subtype: "success", stop_reason: "max_tokens", result: "42" }],
    ["claude-code", { type: "result", subtype: "success", stop_reason: "refusal", result: "42" }],
    ["opencode", { type: "step_finish", part: { reason: "length" } }],
    ["opencode", { type: "step_finish", part: { reason: "content-filter" } }],
  ] as const)("a program that prints what %s does: %j", async (output, line) => {
    const said = { type: "text", part: { text: "42" } };
    const end = { type: "result", subtype: "success" };
    const isEnd = output === "opencode" || line.type === "result";
    const lines = [said, line, ...(isEnd ? [] : [end])].map((each) => ["print", JSON.stringify(each)]);
    const args = [commandAgent, JSON.stringify([["connect", "{mcpConfig}"], ...lines]), "{prompt}"];
    const trial = await trialOf({
      server: calc,
      agent: { type: "command", command: process.execPath, args, output },
      workflows,
    });
    expect([trial.verdict, told(trial)["turn-ends"]]).toEqual([
      "fail",
      expect.stringMatching(/^fail: turn 1: /),
    ]);
  });
});

// docs/guide.md, "Workflows": an expected error is one of a tool that a server lists.
describe("an agent's calls that failed show no use of a tool", () => {
  const written = (name: string, plan: object[]): object => ({ type: "scripted", plan: { [name]: plan } });

  it("that waza's tasks and older evals require", async () => {
    const config = { mcp_servers: { calc } };
    const fails = { call: "add", args: { a: 1 } };
    using folder = folderOf({
      "eval.yaml": {
        name: "calc",
        config,
        tasks: ["task.yaml"],
        agents: {
          failing: written("sum", [fails, { say: "42" }]),
          fine: written("sum", [fails, { call: "add", args: { a: 2 } }]),
        },
      },
      "task.yaml": {
        id: "sum",
        name: "Sum",
        inputs: { prompt: "Add." },
        expected: { tool_calls: { required_tools: ["add"], min_calls: 1 } },
      },
    });
    const { trials } = await evaluate(join(folder.path, "eval.yaml"), { output: false });
    expect(trials.map(({ agent, verdict }) => [agent, verdict])).toEqual([
      ["failing", "fail"],
      ["fine", "pass"],
    ]);
    expect(Object.values(told(trials[0] as TrialResult)).join("\n")).toContain(
      "no successful call of add (it failed: no such number)",
    );
  });

  it("and neither does a call of a tool that its server answers and does not list", async () => {
    const trial = await trialOf({
      servers: { s: lyingServer("unlisted") },
      agent: { type: "scripted", plan: { sum: [{ call: "add", server: "s", args: {} }, { say: "5" }] } },
      workflows: [{ name: "sum", steps: [{ user: "Add." }], expectTools: ["add"] }],
    });
    expect(trial.verdict).toBe("fail");
    expect(told(trial)["tool-call-health"]).toContain("add was answered (the server offers no such tool");
    expect(trial.warnings).toEqual([
      "the agent called tools that their server does not list, and was answered: s.add",
    ]);
  });

  /** A program that calls a tool once, whatever the server lists. */
  function caller(tool: string): Config["agent"] {
    const call = { jsonrpc: "2.0", id: 9, method: "tools/call", params: { name: tool, arguments: {} } };
    const script = `
      const post = (message, session) => fetch(process.env["SERVER"], { method: "POST", headers: {
        "content-type": "application/json", accept: "application/json, text/event-stream",
        ...(session ? { "mcp-session-id": session } : {}) }, body: JSON.stringify(message) });
      const hello = await post({ jsonrpc: "2.0", id: 1, method: "initialize", params: {
        protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "a", version: "1" } } });
      await hello.text();
      const answer = await post(${JSON.stringify(call)}, hello.headers.get("mcp-session-id"));
      console.log(await answer.text());`;
    const args = ["--input-type=module", "-e", script, "{prompt}"];
    return { type: "command", command: process.execPath, args, env: { SERVER: "{servers.s.url}" } };
  }

  it("and the words of a server about a tool that it does not list are no error of a tool", async () => {
    const trial = await trialOf({
      servers: { s: lyingServer("none") },
      agent: caller("ad"),
      workflows: [{ name: "sum", steps: [{ user: "Add.", expectedError: "not found" }] }],
    });
    expect(trial.verdict).toBe("fail");
    expect(told(trial)["tool-call-health"]).toContain("Tool ad not found");
  });

  it("and neither does a malformed answer to a program", async () => {
    await using http = await lyingServerOverHttp("no-text");
    for (const server of [lyingServer("no-text"), http.at("mcp"), http.at("events")]) {
      const trial = await trialOf({
        servers: { s: server },
        agent: caller("add"),
        workflows: [{ name: "sum", steps: [{ user: "Add." }], expectTools: ["add"] }],
      });
      expect(trial.verdict).toBe("fail");
      expect(told(trial)["tool-call-health"]).toContain("malformed: its bytes are not UTF-8");
    }
  });
});

// docs/servers.md, "Mocks, faults, limits"; docs/guide.md, "Reports" and "Recorded runs" for `show`.
describe("a report says what the run is worth", () => {
  const config: Config = {
    servers: { calc, other: lyingServer("none") },
    toolHealthSuites: [
      {
        name: "s",
        tests: [
          { name: "add", server: "calc", args: { a: 2 }, expectedResult: 42 },
          { name: "add", description: "fails", server: "calc", args: { a: 1 } },
          { name: "add", description: "real", server: "other", expectedResult: 5 },
        ],
      },
    ],
  };

  it("names the mocks that stood in the place of servers, in every form", async () => {
    using folder = folderOf({ "mcp-eval.config.json": config });
    const { path: cwd } = folder;
    const run = await runCli(["run", "-r", "console", "-r", "json=r.json", "-r", "junit=j.xml"], { cwd });
    expect(run.stdout).toContain("mocks, not servers: calc in 2 trials of 3");
    const result = JSON.parse(readFileSync(join(cwd, "r.json"), "utf8")) as { trials: TrialResult[] };
    expect(result.trials.map(({ mocks }) => mocks)).toEqual([["calc"], ["calc"], undefined]);
    const junit = readFileSync(join(cwd, "j.xml"), "utf8");
    expect(junit).toContain('<property name="mcpvals.mocks" value="calc in 2 trials of 3"/>');
    expect(junit.match(/mock: calc/g)).toHaveLength(2);
  });

  it("ends with the exit code that it tells, also when it is shown again", async () => {
    using folder = folderOf({ "mcp-eval.config.json": config });
    const { path: cwd } = folder;
    const run = await runCli(["run"], { cwd });
    const shown = await Promise.all(
      [[], ["--json"], ["-r", "junit"], ["--trial", "t1"], ["--trial", "t2", "--json"], ["--tools"]].map(
        async (flags) => (await runCli(["show", ...flags], { cwd })).code,
      ),
    );
    // What only looks into the record tells of no exit.
    expect([run.code, ...shown]).toEqual([1, 1, 1, 1, 0, 0, 0]);
    await runCli(["run", "--task", "s/add"], { cwd });
    expect((await runCli(["show"], { cwd })).code).toBe(0);
  });
});
