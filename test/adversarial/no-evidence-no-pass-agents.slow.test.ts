import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createAcpAgent } from "../../src/agents/acp.ts";
import { ConversationOutput, createCommandAgent, type TurnResult } from "../../src/agents/command.ts";
import type { Config } from "../../src/formats/config/config-schema.ts";
import type { RunResult, TrialResult } from "../../src/model/result.ts";
import { evaluate } from "../../src/evaluate.ts";
import type { ServerConfig } from "../e2e/support.ts";
import { eventsOf, type PlayedProgram, playProgram } from "../support/agent-context.ts";
import { folderOf, root, runHere } from "../support/cli.ts";
import { lyingAddress, lyingServer } from "../support/hostile.ts";
import { hasNamespaces, runWithoutLoopback } from "../support/no-loopback.ts";
import { acpAgent, commandAgent } from "../support/programs.ts";
import { type AgentPreset, agentPresets, type CommandOutput } from "../../src/agents/programs/presets.ts";

const calc: ServerConfig = {
  transport: "mock",
  mock: {
    tools: {
      add: { responses: [{ match: { a: 2 }, return: "42" }, { error: "no such number" }] },
      sub: { responses: [{ return: "0" }] },
    },
  },
};
const workflows = [{ name: "sum", steps: [{ user: "Add.", expectedState: "42" }] }];

/** A program that performs actions, each a name and its arguments. */
function agentThat(...actions: readonly (readonly string[])[]) {
  const args = [commandAgent, JSON.stringify(actions)];
  return { type: "command", command: process.execPath, args } as const;
}

async function trialOf(config: Config, env: Readonly<Record<string, string>> = {}): Promise<TrialResult> {
  const { trials } = await evaluate(config, { output: false, env });
  const [trial] = trials;
  if (trial === undefined || trials.length > 1) throw new Error(`${trials.length} trials`);
  return trial;
}

/** The verdict and reason of a trial's grade. */
function gradeOf({ grades }: TrialResult, name: string): string | undefined {
  const grade = grades.find(({ grader }) => grader === name);
  return grade && `${grade.verdict}: ${grade.reason}`;
}

// docs/agents.md, "Failures and errors".
describe("an agent that did not end its turn itself has failed, whatever it had done by then", () => {
  it("a program that speaks ACP", async () => {
    const steps = [{ user: `say It is 4\nsay 2.\nstop max_tokens`, expectedState: "It is 42" }];
    const agent: Config["agent"] = { type: "acp", command: process.execPath, args: [acpAgent] };
    const trial = await trialOf({ server: calc, agent, workflows: [{ name: "sum", steps }] });
    const reason = "fail: turn 1: the agent's model reached its output limit";
    expect([trial.verdict, gradeOf(trial, "turn-ends")]).toEqual(["fail", reason]);
  });

  const claude = (stop: string): object => {
    return { type: "assistant", message: { content: [{ type: "text", text: "42" }], stop_reason: stop } };
  };
  const end = { type: "result", subtype: "success" };
  const said = { type: "text", part: { text: "42" } };
  it.each<[CommandOutput, object[]]>([
    ["claude-code", [claude("refusal"), end]],
    ["claude-code", [{ ...end, stop_reason: "refusal", result: "42" }]],
    ["opencode", [said, { type: "step_finish", part: { reason: "length" } }]],
    ["opencode", [said, { type: "step_finish", part: { reason: "content-filter" } }]],
  ])("a program that prints what %s prints: %j", (output, lines) => {
    const turn = readAll(output, lines.map((line) => JSON.stringify(line)).join("\n"));
    expect(turn).toMatchObject({ understood: true });
    expect(turn.reason).not.toBe("done");
  });
});

function readAll(output: CommandOutput, text: string): TurnResult {
  const turn = new ConversationOutput({ name: "it", output }, [], () => 0).begin(0);
  turn.push(Buffer.from(text));
  return turn.finish();
}

// docs/agents.md, "One start per turn".
describe("the output of a program that is cut off before its last event is not an end of a turn", () => {
  function linesOf(preset: AgentPreset): readonly string[] {
    return readFileSync(join(root, "test/fixtures/agents", "outputs", `${preset}-tools.jsonl`), "utf8")
      .trimEnd()
      .split("\n");
  }

  it.each<[AgentPreset, string]>([
    ["claude-code", "result"],
    ["codex", "turn.completed"],
    ["gemini", "result"],
    ["copilot", "result"],
    ["opencode", "step_finish with the reason stop"],
    ["qwen-code", "result"],
  ])("of %s, wherever it is cut", (preset, missing) => {
    const lines = linesOf(preset);
    expect(readAll(preset, lines.join("\n"))).toMatchObject({ reason: "done", understood: true });
    expect(readAll(preset, lines.join("\n")).missing).toBeUndefined();
    for (let kept = 0; kept < lines.length; kept += 1) {
      const cut = [...lines.slice(0, kept), lines[kept]?.slice(0, -1)].join("\n");
      expect(readAll(preset, cut).missing, `after ${kept} lines`).toBe(missing);
    }
  });

  it.each(agentPresets)("nor is one of %s that goes on after it", (preset) => {
    const lines = linesOf(preset);
    const understood = lines.filter((line) => readAll(preset, line).understood);
    expect(readAll(preset, [...lines, understood[1]].join("\n")).missing).toBeDefined();
  });

  it.each<[CommandOutput, string]>([
    ["claude-code", '{"type":"result","subtype":"success","is_error":true,"is_error":false}'],
    ["copilot", '{"type":"result","exitCode":1,"exit\\u0043ode":0}'],
    ["gemini", '{"type":"result","status":"error","status":"success"}'],
    ["qwen-code", '{"type":"result","is_error":true,"is_error":false}'],
  ])("nor is a message of %s with a key twice", (output, line) => {
    expect(readAll(output, line).failure).toMatch(/^it wrote a message with the key "\w+" twice$/);
  });

  it("and the trial is an error that says so", async () => {
    const text = { type: "item.completed", item: { type: "agent_message", text: "It is 42." } };
    const settings = { name: "it", env: {}, output: "codex", stdin: false, configFiles: [] } as const;
    const agent = { ...agentThat(["print", JSON.stringify(text)]), ...settings };
    const played = await playProgram(createCommandAgent(agent), { users: ["hello"] });
    expect(played.thrown).toMatchObject({
      code: "agent/protocol",
      message: "the output of agent it ends before the turn does: its last event is not turn.completed",
    });
    expect(eventsOf(played.events, "turn.finished")).toEqual([]);
  });
});

/** Has an agent over ACP play one turn. */
function playAcp(user: string, program: readonly string[], preset?: AgentPreset): Promise<PlayedProgram> {
  const env = { PATH: process.env["PATH"] ?? "" };
  const settings = { command: process.execPath, args: [...program], env, permissions: "allow" } as const;
  const spec = { type: "acp", name: "it", ...settings, ...(preset === undefined ? {} : { preset }) } as const;
  return playProgram(createAcpAgent(spec, { version: "0.0.0" }), { users: [user] });
}

// docs/agents.md, "Failures and errors".
describe("an agent over ACP", () => {
  const hostile = (attack: string): Promise<PlayedProgram> =>
    playAcp("hello", [join(root, "test/fixtures/agents", "hostile-agent.mjs"), "acp", attack, "count=2"]);

  it.each([
    ["twice", "agent/protocol", 'agent it wrote a message with the key "stopReason" twice'],
    ["both", "agent/protocol", "agent it wrote an answer with both a result and an error"],
    ["leave", "agent/exited", "agent it ended with code 1 after its last turn"],
    ["end", "agent/exited", "agent it ended with code 1 after its last turn"],
  ])("that misbehaves has broken: %s", async (attack, code, message) => {
    expect((await hostile(attack)).thrown).toMatchObject({ code, message });
  });

  it("has not said what it says in another session, which is recorded", async () => {
    const { events, thrown } = await hostile("stranger");
    expect([thrown, eventsOf(events, "agent.message")]).toEqual([undefined, []]);
    const text = '[left out, as of another session than ours: updates of "other"]\n';
    expect(eventsOf(events, "agent.output")).toEqual([{ type: "agent.output", stream: "stdout", text }]);
  });

  const update = (content: object): string => `update ${JSON.stringify(content)}`;
  const chunk = (text: string, more: object = {}): string =>
    update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text }, ...more });
  const codex = (info: object): string =>
    update({ sessionUpdate: "session_info_update", _meta: { codex: info } });
  const status = (type: string): string => codex({ threadStatus: { type } });
  const retry = (error_status: number): string => {
    const info = { type: "system", subtype: "api_retry", attempt: 1, max_retries: 10, error: "because" };
    return `message ${JSON.stringify({ ...info, error_status })}`;
  };
  const answer = chunk("42", { messageId: "m1" });
  const transient = chunk("Info: Request failed due to a transient API error. Retrying...");
  const refused = { message: "no network", additionalDetails: "refused", willRetry: false };

  it.each<[AgentPreset, readonly string[], string]>([
    ["codex", [status("systemError"), chunk("high demand\n\n")], "could not act: high demand"],
    ["codex", [answer, status("systemError")], "could not act: its model could not be reached"],
    ["codex", [answer, codex({ error: refused })], "could not act: no network: refused"],
    ["copilot", [chunk("42"), transient, chunk("Error: HTTP 401")], "could not act: HTTP 401"],
    [
      "claude-code",
      [retry(401), answer],
      "is not logged in: a request to the model failed (HTTP 401, because) and is retried: attempt 1 of 10",
    ],
  ])("%s whose model could not be reached has broken: %j", async (preset, lines, message) => {
    const { thrown } = await playAcp(lines.join("\n"), [acpAgent], preset);
    expect(thrown).toMatchObject({ message: `agent it ${message}` });
  });

  const hook = chunk("a hook", { _meta: { claudeCode: { kind: "informational", level: "info" } } });
  const reconnecting = codex({ error: { message: "Reconnecting... 1/5", willRetry: true } });
  it.each<[AgentPreset, readonly string[], readonly string[]]>([
    [
      "codex",
      [chunk("Warning: no metadata\n\n"), reconnecting, status("systemError"), status("active"), answer],
      ["Warning: no metadata\n", "Reconnecting... 1/5\n"],
    ],
    [
      "copilot",
      [chunk("Info: Response was interrupted. Retrying..."), chunk("Error: was said"), chunk("42")],
      ["Info: Response was interrupted. Retrying...\n"],
    ],
    [
      "claude-code",
      [retry(500), answer, hook],
      ["a request to the model failed (HTTP 500, because) and is retried: attempt 1 of 10\n", "a hook\n"],
    ],
  ])("of %s: notes are recorded and no part of the answer", async (preset, lines, notes) => {
    const { events, thrown } = await playAcp(lines.join("\n"), [acpAgent], preset);
    expect(thrown).toBeUndefined();
    expect(eventsOf(events, "agent.message").at(-1)?.text.slice(-2)).toBe("42");
    expect(eventsOf(events, "agent.output").map(({ text }) => text)).toEqual(notes);
  });

  it.each<[AgentPreset, string]>([
    ["claude-code", "default"],
    ["gemini", "auto"],
  ])("begins a session of %s in the mode %s", async (preset, mode) => {
    const { events } = await playAcp("mode", [acpAgent], preset);
    expect(eventsOf(events, "agent.message").map(({ text }) => text)).toEqual([mode]);
  });
});

// docs/agents.md, "Failures and errors".
describe("a program that connected to none of its servers proves nothing", () => {
  const answer = ["say", "It is 42."];

  it.each<[string, string[][], object, object]>([
    [
      "whatever it says",
      [answer],
      {},
      {
        verdict: "error",
        error: {
          code: "agent/no-connection",
          message: 'the agent connected to none of its servers: "calc"',
        },
      },
    ],
    ["but it connected", [["connect", "{mcpConfig}"], answer], {}, { verdict: "pass" }],
    [
      "but it was given none",
      [answer],
      { variants: { bare: { servers: { calc: null } } } },
      { verdict: "pass" },
    ],
  ])("%s", async (_, actions, variant, expected) => {
    const agent = { ...agentThat(...actions), stdin: true };
    expect(await trialOf({ servers: { calc }, agent, workflows, ...variant })).toMatchObject(expected);
  });

  it.skipIf(!hasNamespaces)("and it is said when nothing could connect, for want of loopback", () => {
    const agent = { ...agentThat(answer), stdin: true };
    using folder = folderOf({
      "mcp-eval.config.json": { servers: { calc }, agents: { it: agent }, workflows },
    });
    const { stdout } = runWithoutLoopback(folder.path, "run", "--reporter", "json");
    const { trials } = JSON.parse(stdout) as RunResult;
    expect(trials[0]?.error).toMatchObject({
      code: "agent/no-connection",
      message:
        "no program can reach the servers: this machine has no connection to its own address 127.0.0.1 (ENETUNREACH)",
    });
  });
});

// docs/guide.md, "Workflows".
describe("an agent's call that failed does not count as use of a tool", () => {
  it("that waza's tasks and older evals require", async () => {
    const fails = { call: "add", args: { a: 1 } };
    const scripted = (...plan: object[]): object => ({ type: "scripted", plan: { sum: plan } });
    const agents = {
      failing: scripted(fails, { say: "42" }),
      fine: scripted(fails, { call: "add", args: { a: 2 } }),
    };
    using folder = folderOf({
      "eval.yaml": { name: "calc", config: { mcp_servers: { calc } }, tasks: ["task.yaml"], agents },
      "task.yaml": {
        id: "sum",
        name: "Sum",
        inputs: { prompt: "Add." },
        expected: { tool_calls: { required_tools: ["add"], min_calls: 1 } },
      },
    });
    const { trials } = await evaluate(join(folder.path, "eval.yaml"), { output: false });
    expect(trials.map(({ agent, verdict }) => `${agent} ${verdict}`)).toEqual(["failing fail", "fine pass"]);
    expect(JSON.stringify(trials[0])).toContain("add was not used with success (it failed: no such number)");
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

  type Workflow = Omit<NonNullable<Config["workflows"]>[number], "name">;
  async function healthOf(s: ServerConfig, agent: Config["agent"], workflow: Workflow): Promise<TrialResult> {
    const trial = await trialOf({ servers: { s }, agent, workflows: [{ name: "sum", ...workflow }] });
    expect(trial.verdict).toBe("fail");
    return trial;
  }

  const needsAdd = { steps: [{ user: "Add." }], expectTools: ["add"] };

  it("nor does a call of a tool that its server answers and does not list", async () => {
    const plan = { sum: [{ call: "add", server: "s", args: {} }, { say: "5" }] };
    const trial = await healthOf(lyingServer("unlisted"), { type: "scripted", plan }, needsAdd);
    expect(gradeOf(trial, "tool-call-health")).toContain("add was answered (the server offers no such tool");
    expect(trial.warnings).toEqual([
      "the agent called tools that their server does not list, and was answered: s.add",
    ]);
  });

  it("and the words of a server about a tool that it does not list are no error of a tool", async () => {
    const steps = [{ user: "Add.", expectedError: "not found" }];
    const trial = await healthOf(lyingServer("none"), caller("ad"), { steps });
    expect(gradeOf(trial, "tool-call-health")).toContain("Tool ad not found");
  });

  it("nor does a malformed answer to a program", async () => {
    const overHttp = await Promise.all(["mcp", "events"].map((path) => lyingAddress("no-text", path)));
    for (const server of [lyingServer("no-text"), ...overHttp]) {
      const trial = await healthOf(server, caller("add"), needsAdd);
      expect(gradeOf(trial, "tool-call-health")).toContain("malformed: its bytes are not UTF-8");
    }
  });
});

// docs/servers.md, "Mocks, faults, limits"; docs/guide.md, "Reports" and "Recorded runs".
it("a report names the mocks, and shown again it has the exit code of its run", async () => {
  const tests = [
    { name: "add", server: "calc", args: { a: 2 }, expectedResult: 42 },
    { name: "add", description: "fails", server: "calc", args: { a: 1 } },
    { name: "add", description: "real", server: "other", expectedResult: 5 },
  ];
  const servers = { calc, other: lyingServer("none") };
  using folder = folderOf({ "mcp-eval.config.json": { servers, toolHealthSuites: [{ name: "s", tests }] } });
  const { path: cwd } = folder;
  const cli = (...args: string[]) => runHere(args, { cwd });
  const run = await cli("run", "-r", "console", "-r", "json=r.json", "-r", "junit=j.xml");
  expect(run.stdout).toContain("mocks, not servers: calc in 2 trials of 3");
  const result = JSON.parse(readFileSync(join(cwd, "r.json"), "utf8")) as { trials: TrialResult[] };
  expect(result.trials.map(({ mocks }) => mocks)).toEqual([["calc"], ["calc"], undefined]);
  const junit = readFileSync(join(cwd, "j.xml"), "utf8");
  expect(junit).toContain('<property name="mcpvals.mocks" value="calc in 2 trials of 3"/>');
  expect(junit.match(/mock: calc/g)).toHaveLength(2);
  // A trial or the tools shown as a record have no verdict to exit with.
  const flags = [
    [],
    ["--json"],
    ["-r", "junit"],
    ["--trial", "t1"],
    ["--trial", "t2", "--json"],
    ["--tools"],
  ];
  const shown = await Promise.all(flags.map((each) => cli("show", ...each)));
  expect([run, ...shown].map(({ code }) => code)).toEqual([1, 1, 1, 1, 0, 0, 0]);
  await cli("run", "--task", "s/add");
  expect((await cli("show")).code).toBe(0);
});
