import { getEventListeners } from "node:events";
import { existsSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { type AcpAgentOptions, createAcpAgent } from "../../src/agents/acp.ts";
import { McpvalsError } from "../../src/base/error.ts";
import type { AcpAgentSpec } from "../../src/model/agent.ts";
import type { EventBody } from "../../src/model/event.ts";
import {
  eventsOf,
  openGatewayEndpoint,
  openTestEndpoint,
  type PlayedProgram,
  type PlayOptions,
  playProgram,
} from "../support/agent-context.ts";
import { root } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { acpAgent } from "../support/programs.ts";
import { watchLeftovers } from "../support/leftovers.ts";
import { livingProcesses, untilLiving } from "../process/support.ts";

interface Setup {
  /** Arguments of the agent. */
  readonly flags?: readonly string[];
  readonly spec?: Partial<AcpAgentSpec>;
  readonly options?: Partial<AcpAgentOptions>;
}

function specOf({ flags = [], spec = {} }: Setup): AcpAgentSpec {
  return {
    type: "acp",
    name: "it",
    command: process.execPath,
    args: [acpAgent, ...flags],
    env: { PATH: process.env["PATH"] ?? "" },
    permissions: "allow",
    ...spec,
  };
}

type Play = Setup & (PlayOptions | { readonly prompt: string });

function play(setup: Play): Promise<PlayedProgram> {
  const agent = createAcpAgent(specOf(setup), { version: "0.0.0", ...setup.options });
  return playProgram(agent, "prompt" in setup ? { users: [setup.prompt] } : setup);
}

/** The first message of the agent when its user says `prompt`. */
async function answerTo(prompt: string, setup: Setup = {}): Promise<string | undefined> {
  const { events, thrown } = await play({ prompt, ...setup });
  expect(thrown).toBeUndefined();
  return eventsOf(events, "agent.message")[0]?.text;
}

function withoutPid(events: readonly EventBody[]): unknown[] {
  return events.map((event) => ("pid" in event ? { ...event, pid: "a number" } : event));
}

const started = {
  type: "agent.started",
  agent: "it",
  kind: "acp",
  program: "fixture-agent 1.2.3",
  pid: "a number",
};
const exited = { type: "agent.exited", exitCode: 0, signal: null, expected: true };

describe("an agent that speaks ACP", () => {
  it("has its messages and its uses of tools on record, in order, one message between uses", async () => {
    const endpoint = await openTestEndpoint("files");
    const prompt = 'say first\nsay , still\ncall echo {"message":"hi"}\nsay last';
    const { events, thrown } = await play({ users: [prompt], endpoints: [endpoint] });
    expect(thrown).toBeUndefined();
    const tool = { turn: 0, callId: "call-1", name: "files__echo", source: "mcp:files", tool: "echo" };
    expect(withoutPid(events)).toEqual([
      started,
      { type: "turn.started", turn: 0, user: prompt },
      { type: "agent.message", turn: 0, text: "first, still" },
      { type: "agent.tool", ...tool, status: "started", args: { message: "hi" } },
      { type: "agent.tool", ...tool, status: "completed", args: { message: "hi" }, result: "hi" },
      { type: "agent.message", turn: 0, text: "last" },
      { type: "turn.finished", turn: 0, reason: "done" },
      exited,
    ]);
  });

  it.each([
    ["copilot", ["instructions"]],
    ["qwen-code", ["instructions"]],
    ["codex", undefined],
  ])("has on record what %s does not show its model: %j", async (preset, hides) => {
    const { events } = await play({ prompt: "say hi", spec: { preset } });
    expect(eventsOf(events, "agent.started")[0]?.hides).toEqual(hides);
  });

  it("leads qwen-code to servers by a file too, since it does not wait for those of the session", async () => {
    const endpoint = await openTestEndpoint("files");
    const spec = { preset: "qwen-code" } as const;
    const { events } = await play({ users: ["file"], endpoints: [endpoint], spec });
    const [path = "", text = ""] = eventsOf(events, "agent.message")[0]?.text.split(/\n(.*)/s) ?? [];
    expect(JSON.parse(text)).toEqual({
      mcpServers: { files: { httpUrl: endpoint.url, discoveryTimeoutMs: 300_000 } },
    });
    expect(existsSync(path)).toBe(false);
  });

  it("plays all turns in one session of one process, and stops early without an error", async () => {
    const stops = ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"];
    const { events, thrown } = await play({ users: stops.map((stop) => `pid\nstop ${stop}`) });
    expect(thrown).toBeUndefined();
    const ends = eventsOf(events, "turn.finished").map(({ turn, reason }) => `${turn}: ${reason}`);
    expect(ends).toEqual(["0: done", "1: max-tokens", "2: max-steps", "3: refused", "4: cancelled"]);
    const pids = eventsOf(events, "agent.message").map(({ text }) => text);
    expect(new Set(pids)).toEqual(new Set([String(eventsOf(events, "agent.started")[0]?.pid)]));
  });

  it("works in the trial's workspace, or in the folder that it is given", async () => {
    const { events, workspace } = await play({ prompt: "cwd" });
    expect(eventsOf(events, "agent.message")[0]?.text).toBe(await realpath(workspace));
    expect(await answerTo("cwd", { spec: { cwd: process.cwd() } })).toBe(process.cwd());
  });

  it.each([
    ["http", [], {}],
    ["bridge", ["--no-http"], {}],
    ["bridge", [], { connect: "bridge" }],
    ["http", ["--no-http"], { connect: "http" }],
  ] as const)("reaches a server through the gateway over %s, with %j and %j", async (via, flags, spec) => {
    const recorded: EventBody[] = [];
    const { endpoint, close } = await openGatewayEndpoint((event) => recorded.push(event));
    const users = ['call add {"a":1,"b":2}', 'call add {"a":3,"b":4}'];
    const { events, thrown } = await play({ users, endpoints: [endpoint], flags, spec });
    await close();
    expect(thrown).toBeUndefined();
    const results = eventsOf(events, "agent.tool").filter(({ status }) => status === "completed");
    const add = { source: "mcp:files", tool: "add" };
    expect(results).toMatchObject(["3", "7"].map((result) => ({ ...add, result })));
    expect(eventsOf(recorded, "gateway.connected")).toMatchObject([{ via }]);
  });

  it("has its reported tokens and cost on record, turn by turn, and is refused the files of a client", async () => {
    const cost = (amount: number): string =>
      `update ${JSON.stringify({ sessionUpdate: "usage_update", used: 1, size: 9, cost: { amount, currency: "USD" } })}`;
    const users = [
      `${cost(0)}\nusage 10 5`,
      "fs",
      `${cost(0.5)}\nusage 3 2`,
      `${cost(0.75)}\nusage 3 2`,
      "usage 1 1",
      cost(1),
    ];
    const { events } = await play({ users });
    expect(eventsOf(events, "agent.message")[0]?.text).toBe("-32601");
    const usage = { cacheReadTokens: 1 };
    const usd = (amount: number): object => ({ amount, currency: "USD" });
    expect(eventsOf(events, "agent.usage")).toEqual([
      { type: "agent.usage", source: "agent", usage: { inputTokens: 10, outputTokens: 5, ...usage } },
      {
        type: "agent.usage",
        source: "agent",
        usage: { inputTokens: 3, outputTokens: 2, ...usage, cost: usd(0.5) },
      },
      {
        type: "agent.usage",
        source: "agent",
        usage: { inputTokens: 3, outputTokens: 2, ...usage, cost: usd(0.25) },
      },
      { type: "agent.usage", source: "agent", usage: { inputTokens: 1, outputTokens: 1, ...usage } },
      // How many tokens that took is unknown.
      {
        type: "agent.usage",
        source: "agent",
        usage: { inputTokens: 0, outputTokens: 0, isPartial: true, cost: usd(0.25) },
      },
    ]);
  });

  it("has its tokens counted by the proxy, whatever it reports", async () => {
    await using provider = await startFakeProvider([
      { text: "hello", usage: { input: 100, output: 7, cacheRead: 20 } },
    ]);
    const modelProxy = { target: provider.url, variable: "MODEL_URL" };
    const { events, thrown } = await play({ prompt: "model /v1/messages", spec: { modelProxy } });
    expect(thrown).toBeUndefined();
    expect(eventsOf(events, "agent.message")[0]?.text).toBe("200");
    expect(provider.requests).toMatchObject([{ path: "/v1/messages", headers: { "x-api-key": "k" } }]);
    const tokens = { inputTokens: 100, outputTokens: 7, cacheReadTokens: 20, cacheWriteTokens: 0 };
    expect(eventsOf(events, "agent.usage")).toMatchObject([
      { source: "proxy", usage: { ...tokens, requests: 1 } },
    ]);
  });

  it("may write a few lines on stdout that are not messages, or answer no request", async () => {
    const answer = '{"jsonrpc":"2.0","id":"none","result":{}}';
    const prompt = `noise loading…\nnoise ${answer}\nsay hello`;
    const { events, thrown } = await play({ prompt, flags: ["--banner=2"] });
    expect(thrown).toBeUndefined();
    const text = eventsOf(events, "agent.output").map((event) => event.text);
    expect(text).toEqual(["welcome 0\n", "welcome 1\n", "loading…\n", `${answer}\n`]);
    expect(eventsOf(events, "agent.message")[0]?.text).toBe("hello");
  });

  it("chooses its model in the session; a model that is not offered is an error", async () => {
    const flags = ["--models=a,b"];
    const { events } = await play({ prompt: "which", flags, spec: { model: "b" } });
    expect(eventsOf(events, "agent.message")[0]?.text).toBe("b");
    expect(eventsOf(events, "agent.started")[0]?.model).toBe("b");
    for (const [offered, hint] of [
      [flags, "It offers a, b."],
      [[], "Leave model out, and choose it by the program's own arguments or variables."],
    ] as const) {
      const { thrown } = await play({ prompt: "which", flags: offered, spec: { model: "c" } });
      expect(thrown).toMatchObject({ code: "agent/model-not-offered", details: { hint } });
    }
  });

  it("has the options of its session set, and its system prompt", async () => {
    const flags = ["--options", "--system-prompt=override"];
    const systemPrompt = { mode: "override", text: "Be brief." } as const;
    const spec = {
      session: { effort: "high", systemPrompt },
      sessionOptions: { fast: true, mode: "default" },
    } as const;
    expect(JSON.parse((await answerTo("settings", { flags, spec })) ?? "")).toEqual({
      effort: "high",
      fast: true,
      systemPrompt: { mode: "override", content: [{ type: "text", text: "Be brief." }] },
    });
    expect(await answerTo("mode", { flags, spec })).toBe("default");
    expect(JSON.parse((await answerTo("settings", { flags })) ?? "")).toEqual({ effort: "low", fast: false });
  });

  it.each<[flags: string, spec: Partial<AcpAgentSpec>, message: string, hint: string]>([
    [
      "",
      { session: { effort: "high" } },
      "have an option of its session for effort",
      "Its session has no options.",
    ],
    ["--options", { session: { effort: "max" } }, "offer max for effort", "It offers low, high."],
    [
      "--options",
      { sessionOptions: { slow: true } },
      "have an option of its session for sessionOptions.slow",
      "The options of its session: effort, fast.",
    ],
    [
      "--options",
      { sessionOptions: { fast: "yes" } },
      "offer yes for sessionOptions.fast",
      "It offers true, false.",
    ],
    [
      "--options",
      { sessionOptions: { mode: "plan" } },
      "offer plan for sessionOptions.mode",
      "It offers default, auto.",
    ],
    [
      "",
      { session: { systemPrompt: { mode: "append", text: "x" } } },
      "take a system prompt in the session",
      "Leave systemPrompt out, or give the text by the program's own arguments or files.",
    ],
    [
      "--system-prompt=append",
      { session: { systemPrompt: { mode: "override", text: "x" } } },
      "take a system prompt in the place of its own in the session",
      "Leave systemPrompt out, or give the text by the program's own arguments or files.",
    ],
  ])("is an error where it does not offer a setting: %s %j", async (flags, spec, message, hint) => {
    const { thrown } = await play({ prompt: "say x", flags: flags.split(" ").filter(Boolean), spec });
    expect(thrown).toMatchObject({
      code: "agent/option-not-offered",
      message: `agent it does not ${message}`,
      details: { hint },
    });
  });

  it("ends a turn as its own notice says where the answer to its prompt is an error", async () => {
    const usage = { input_tokens: 5, cache_read_input_tokens: 2, output_tokens: 3 };
    const result = JSON.stringify({ type: "result", subtype: "error_max_turns", usage });
    const spec = { preset: "claude-code" };
    const { events, thrown } = await play({
      users: [`message ${result}\nerror -32603 no more turns`, "say x"],
      spec,
    });
    expect(thrown).toBeUndefined();
    expect(eventsOf(events, "turn.finished").map(({ reason }) => reason)).toEqual(["max-steps", "done"]);
    expect(eventsOf(events, "agent.usage").map((event) => event.usage)).toEqual([
      { inputTokens: 7, outputTokens: 3, cacheReadTokens: 2 },
    ]);
  });

  it("asks permission for each use, which the policy answers and the record has", async () => {
    const endpoint = await openTestEndpoint("files");
    const { events, thrown } = await play({
      users: ['ask\ncall echo {"message":"hi"}\nshell rm -rf /'],
      endpoints: [endpoint],
      spec: { permissions: "allow-mcp" },
    });
    expect(thrown).toBeUndefined();
    const asked = { turn: 0, policy: "allow-mcp" };
    expect(eventsOf(events, "agent.permission")).toMatchObject([
      { ...asked, callId: "call-1", title: "files__echo", decision: "allowed" },
      { ...asked, callId: "call-2", title: "rm -rf /", decision: "denied" },
    ]);
    const tools = eventsOf(events, "agent.tool").filter(({ status }) => status !== "started");
    expect(tools.map(({ status }) => status)).toEqual(["completed", "failed"]);
  });
});

describe("an agent that cannot act", () => {
  it("is reported before anything starts when its program is missing", async () => {
    const spec = specOf({ spec: { command: "no-such-agent", preset: "gemini" } });
    const hint = "Install it (npm install --global @google/gemini-cli), or give its full path as command.";
    await expect(createAcpAgent(spec, { version: "0.0.0" }).prepare()).rejects.toMatchObject({
      code: "agent/program-not-found",
      message: "agent it: program not found: no-such-agent",
      details: { hint },
    });
    await expect(createAcpAgent(specOf({}), { version: "0.0.0" }).prepare()).resolves.toBeUndefined();
    // Without a folder it is looked for in the workspace, which does not exist yet.
    const command = "./no-such-agent";
    const inWorkspace = createAcpAgent(specOf({ spec: { command } }), { version: "0.0.0" });
    await expect(inWorkspace.prepare()).resolves.toBeUndefined();
    const inFolder = createAcpAgent(specOf({ spec: { command, cwd: root } }), { version: "0.0.0" });
    await expect(inFolder.prepare()).rejects.toMatchObject({ code: "agent/program-not-found" });
    const { thrown } = await play({ prompt: "say hi", spec: { command: "no-such-agent" } });
    expect(thrown).toMatchObject({ code: "agent/spawn-failed", kind: "environment" });
  });

  const crash = "say working\nstderr out of memory\ncrash 9";
  it.each<[flags: string, prompt: string, code: string, message: string, detail?: string]>([
    [
      "--exit=3",
      "",
      "exited",
      "ended with code 3 before it had answered initialize",
      "I cannot start: no licence",
    ],
    ["", crash, "exited", "ended with code 9 in turn 1", "out of memory"],
    ["--silent", "", "startup-timeout", "did not answer initialize within 500 ms"],
    [
      "--silent --banner=1000",
      "",
      "protocol",
      "does not speak the Agent Client Protocol on stdout",
      "stdout: welcome 0",
    ],
    ["--version=7", "", "protocol", "speaks version 7 of the Agent Client Protocol, not 1"],
    ["", "stop boredom", "protocol", 'ended a turn for an unknown reason: "boredom"'],
    [
      "",
      "error -32603 the model is overloaded",
      "failed",
      "answered session/prompt with an error: the model is overloaded",
    ],
    ["--auth", "", "auth", "is not logged in: Authentication required"],
  ])("because of %s %j is the error agent/%s", async (flags, prompt, code, message, detail = "") => {
    // Only a program that never answers waits for the limit.
    const options = { startupMs: flags === "--silent" ? 500 : 20_000 };
    const { thrown } = await play({ prompt, flags: flags.match(/\S+/g) ?? [], options });
    const expected = { code: `agent/${code}`, kind: "environment", message: `agent it ${message}` };
    expect(thrown).toMatchObject(expected);
    expect((thrown as McpvalsError).details.detail ?? "").toContain(detail);
    expect(await livingProcesses()).toEqual([]);
  });

  it("is logged in when it asks and its key is there", async () => {
    const flags = ["--login"];
    const env = { PATH: process.env["PATH"] ?? "", GEMINI_API_KEY: "k" };
    expect(await answerTo("say hi", { flags, spec: { preset: "gemini", env } })).toBe("hi");
    const { thrown } = await play({ prompt: "say hi", flags, spec: { preset: "gemini" } });
    const hint =
      "Log in with the program itself in a terminal, or set GEMINI_API_KEY or GOOGLE_API_KEY. It offers: gemini-api-key.";
    expect(thrown).toMatchObject({ code: "agent/auth", details: { hint } });
  });

  it("is not logged in by a method that it does not offer", async () => {
    const env = { PATH: process.env["PATH"] ?? "", CODEX_API_KEY: "k" };
    const { thrown } = await play({ prompt: "say hi", flags: ["--login"], spec: { preset: "codex", env } });
    expect(thrown).toMatchObject({ code: "agent/auth" });
  });
});

describe("when the trial is over", () => {
  const reason = new McpvalsError("trial/timeout", "over");

  it("before it begins, nothing is started", async () => {
    const { events, thrown } = await play({ users: ["say hi"], signal: AbortSignal.abort(reason) });
    expect([events, thrown]).toEqual([[], reason]);
  });

  /** Calls `then` with the processes, once the agent has used its tool and all of them run. */
  const onceBusy =
    (then: (pids: readonly number[]) => void) =>
    (event: EventBody): void => {
      if (event.type === "agent.tool" && event.status === "completed") void untilLiving(3).then(then);
    };

  it.each([
    ["and it stops", "hang", []],
    ["and it does not stop", "hang hard", ["--stubborn"]],
  ])("in the middle of a turn, everything that it started ends with it, %s", async (_, hang, flags) => {
    const controller = new AbortController();
    const { events, thrown } = await play({
      users: [`fork\nshell ls\n${hang}`],
      flags,
      signal: controller.signal,
      onEvent: onceBusy(() => controller.abort(reason)),
    });
    expect(thrown).toBe(reason);
    expect(eventsOf(events, "turn.finished")).toEqual([]);
    expect(eventsOf(events, "agent.output").map(({ text }) => text)).toEqual(["cancelled\n"]);
    expect(events.at(-1)).toMatchObject({ type: "agent.exited", expected: true });
    expect(await livingProcesses()).toEqual([]);
    expect(getEventListeners(controller.signal, "abort")).toEqual([]);
  });

  it("kill -9 of the agent leaves nobody behind", async () => {
    const { events, thrown } = await play({
      users: ["fork\nshell ls\nhang hard"],
      onEvent: onceBusy(([first = 0]) => process.kill(first, "SIGKILL")),
    });
    expect(thrown).toMatchObject({ code: "agent/exited", message: "agent it ended by SIGKILL in turn 1" });
    const killed = { exitCode: null, signal: "SIGKILL", expected: false };
    expect(eventsOf(events, "agent.exited")).toMatchObject([killed]);
    expect(await livingProcesses()).toEqual([]);
  });

  it("nothing is left behind", async () => {
    await play({ prompt: "say warm up" });
    const nothingIsLeft = watchLeftovers();
    await play({ prompt: "error 1 no" });
    await nothingIsLeft();
  });
});
