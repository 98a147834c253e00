import { getEventListeners } from "node:events";
import { realpath } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { type AcpAgentOptions, createAcpAgent } from "../../src/agents/acp.ts";
import { McpvalsError } from "../../src/core/errors/error.ts";
import type { AcpAgentSpec, PermissionPolicy } from "../../src/core/formats/model.ts";
import type { EventBody } from "../../src/core/trace/events.ts";
import { eventsOf } from "../support/agent-context.ts";
import {
  acpAgent,
  openGatewayEndpoint,
  openTestEndpoint,
  type PlayedProgram,
  playProgram,
  type PlayOptions,
} from "../support/agent-programs.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
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
  it("has its words and its uses of tools on record, in order, one message between uses", async () => {
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

  it("plays all turns in one session of one process", async () => {
    const { events } = await play({ users: ["pid", "pid"] });
    expect(eventsOf(events, "turn.finished").map(({ turn }) => turn)).toEqual([0, 1]);
    const [first, second] = eventsOf(events, "agent.message");
    expect(first?.text).toBe(second?.text);
    expect(first?.text).toBe(String(eventsOf(events, "agent.started")[0]?.pid));
  });

  it("works in the trial's workspace, or in the folder that it is given", async () => {
    const inWorkspace = await play({ prompt: "cwd" });
    expect(eventsOf(inWorkspace.events, "agent.message")[0]?.text).toBe(
      await realpath(inWorkspace.workspace),
    );
    const elsewhere = await play({ prompt: "cwd", spec: { cwd: process.cwd() } });
    expect(eventsOf(elsewhere.events, "agent.message")[0]?.text).toBe(process.cwd());
  });

  it.each<[string, readonly string[], AcpAgentSpec["connect"], boolean]>([
    ["http, when it can", [], undefined, true],
    ["the bridge, when it cannot", ["--no-http"], undefined, false],
    ["the bridge, when that is wanted", [], "bridge", false],
    ["http, when that is wanted", ["--no-http"], "http", true],
  ])("is told of servers over %s", async (_, flags, connect, overHttp) => {
    const endpoint = await openTestEndpoint("files");
    const { events, thrown } = await play({
      users: ['call echo {"message":"hi"}'],
      endpoints: [endpoint],
      flags,
      spec: connect === undefined ? {} : { connect },
    });
    expect(thrown).toBeUndefined();
    expect(eventsOf(events, "agent.tool").at(-1)).toMatchObject({ status: "completed", result: "hi" });
    expect(endpoint.requests.length > 0).toBe(overHttp);
  });

  it.each([[[]], [["--no-http"]]])(
    "reaches a real server through the gateway, told of it by %j",
    async (flags) => {
      const recorded: EventBody[] = [];
      const { endpoint, close } = await openGatewayEndpoint((event) => recorded.push(event));
      const { events, thrown } = await play({
        users: ['call add {"a":1,"b":2}', 'call add {"a":3,"b":4}'],
        endpoints: [endpoint],
        flags,
      });
      await close();
      expect(thrown).toBeUndefined();
      const calls = eventsOf(recorded, "mcp.message").map(({ client, message }) => [client, message]);
      expect(calls.filter(([, message]) => JSON.stringify(message).includes("tools/call"))).toMatchObject([
        ["1", { method: "tools/call", params: { name: "add", arguments: { a: 1, b: 2 } } }],
        ["1", { method: "tools/call", params: { name: "add", arguments: { a: 3, b: 4 } } }],
      ]);
      const results = eventsOf(events, "agent.tool").filter(({ status }) => status === "completed");
      expect(results.map(({ source, tool, result }) => [source, tool, result])).toEqual([
        ["mcp:files", "add", "3"],
        ["mcp:files", "add", "7"],
      ]);
      expect(eventsOf(recorded, "gateway.connected")).toMatchObject([
        { via: flags.length === 0 ? "http" : "bridge" },
      ]);
    },
  );

  it("is refused the files and terminals of a client", async () => {
    const { events } = await play({ prompt: "fs" });
    expect(eventsOf(events, "agent.message")[0]?.text).toBe("-32601");
  });

  it("that stops before it is done has behaved so: no turn of it is an error", async () => {
    const stops = ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"];
    const { events, thrown } = await play({ users: stops.map((stop) => `stop ${stop}`) });
    expect(thrown).toBeUndefined();
    expect(eventsOf(events, "turn.finished").map(({ reason }) => reason)).toEqual([
      "done",
      "max-tokens",
      "max-steps",
      "refused",
      "cancelled",
    ]);
  });

  it("has the tokens on record that it tells of, turn by turn", async () => {
    const { events } = await play({ users: ["usage 10 5", "say nothing", "usage 3 2"] });
    const usage = { cacheReadTokens: 1 };
    expect(eventsOf(events, "agent.usage")).toEqual([
      { type: "agent.usage", source: "agent", usage: { inputTokens: 10, outputTokens: 5, ...usage } },
      { type: "agent.usage", source: "agent", usage: { inputTokens: 3, outputTokens: 2, ...usage } },
    ]);
  });

  it("has its tokens counted by the proxy, whatever it tells", async () => {
    const usage = { input: 100, output: 7, cacheRead: 20 };
    await using provider = await startFakeProvider([{ text: "hello", usage }]);
    const modelProxy = { target: provider.url, variable: "MODEL_URL" };
    const { events, thrown } = await play({ prompt: "model /v1/messages", spec: { modelProxy } });
    expect(thrown).toBeUndefined();
    expect(eventsOf(events, "agent.message")[0]?.text).toBe("200");
    expect(provider.requests.map(({ path, headers }) => [path, headers["x-api-key"]])).toEqual([
      ["/v1/messages", "k"],
    ]);
    expect(eventsOf(events, "agent.usage")).toEqual([
      {
        type: "agent.usage",
        source: "proxy",
        usage: { inputTokens: 100, outputTokens: 7, cacheReadTokens: 20, cacheWriteTokens: 0, requests: 1 },
      },
    ]);
  });

  it("has what it writes on stderr on record, whole lines up to a limit", async () => {
    const { events } = await play({ prompt: "stderr careful\nflood 300000" });
    const output = eventsOf(events, "agent.output");
    const lines = output.flatMap(({ text }) => text.trimEnd().split("\n"));
    expect(output.every(({ stream, text }) => stream === "stderr" && text.endsWith("\n"))).toBe(true);
    expect([lines[0], lines[1], lines.at(-2)]).toEqual(["careful", "x".repeat(63), "x".repeat(63)]);
    expect([lines.length, lines.at(-1)]).toEqual([4097, "[37952 more bytes were left out]"]);
  });

  it("may write a little on stdout that is no message", async () => {
    const { events, thrown } = await play({ prompt: "noise loading…\nsay hello", flags: ["--banner=3"] });
    expect(thrown).toBeUndefined();
    const text = eventsOf(events, "agent.output").map((event) => event.text);
    expect(text).toEqual(["welcome 0\n", "welcome 1\n", "welcome 2\n", "loading…\n"]);
    expect(eventsOf(events, "agent.message")[0]?.text).toBe("hello");
  });

  describe("that chooses its model in the session", () => {
    it("is told which", async () => {
      const { events } = await play({ prompt: "which", flags: ["--models=a,b"], spec: { model: "b" } });
      expect(eventsOf(events, "agent.message")[0]?.text).toBe("b");
      expect(eventsOf(events, "agent.started")[0]?.model).toBe("b");
    });

    it.each<[string, readonly string[]]>([
      ["it offers a, b", ["--models=a,b"]],
      ["leave model out", []],
    ])("is no agent when it lacks it (%s)", async (hint, flags) => {
      const { thrown } = await play({ prompt: "which", flags, spec: { model: "c" } });
      expect(thrown).toMatchObject({ code: "agent/model-not-offered" });
      expect((thrown as McpvalsError).details.hint?.toLowerCase()).toContain(hint);
    });
  });
});

describe("permissions", () => {
  const turn = 'ask\ncall echo {"message":"hi"}\nshell rm -rf /';
  const cases: [PermissionPolicy, string, readonly string[], readonly string[]][] = [
    ["allow", turn, ["allowed", "allowed"], ["completed", "completed"]],
    ["allow-mcp", turn, ["allowed", "denied"], ["completed", "failed"]],
    ["deny", turn, ["denied", "denied"], ["failed", "failed"]],
    ["allow", 'ask always\ncall echo {"message":"hi"}', ["allowed"], ["completed"]],
    ["deny", 'ask nothing\ncall echo {"message":"hi"}', ["cancelled"], ["failed"]],
  ];
  it.each(cases)("%s, of %j, means %j", async (permissions, prompt, decisions, ends) => {
    const endpoint = await openTestEndpoint("files");
    const { events, thrown } = await play({
      users: [prompt],
      endpoints: [endpoint],
      spec: { permissions },
    });
    expect(thrown).toBeUndefined();
    const asked = eventsOf(events, "agent.permission");
    expect(asked.map(({ decision }) => decision)).toEqual(decisions);
    expect(asked[0]).toEqual({
      type: "agent.permission",
      turn: 0,
      callId: "call-1",
      title: "files__echo",
      decision: decisions[0],
      policy: permissions,
    });
    const tools = eventsOf(events, "agent.tool").filter(({ status }) => status !== "started");
    expect(tools.map(({ status }) => status)).toEqual(ends);
    expect(endpoint.requests.filter((line) => line === "POST /mcp").length > 2).toBe(ends[0] === "completed");
  });

  it("choose once before always", async () => {
    const { events } = await play({ prompt: "shell ls" });
    expect(eventsOf(events, "agent.message")[0]?.text).toBe('{"outcome":"selected","optionId":"once"} ');
  });
});

describe("an agent that cannot act", () => {
  it("is told apart before anything starts when its program is missing", async () => {
    const spec = specOf({ spec: { command: "no-such-agent", preset: "gemini" } });
    await expect(createAcpAgent(spec, { version: "0.0.0" }).prepare()).rejects.toMatchObject({
      code: "agent/program-not-found",
      message: "agent it: program not found: no-such-agent",
      details: {
        hint: "Install it (npm install --global @google/gemini-cli), or give its full path as command.",
      },
    });
    await expect(createAcpAgent(specOf({}), { version: "0.0.0" }).prepare()).resolves.toBeUndefined();
  });

  it("cannot be started", async () => {
    const { thrown } = await play({ prompt: "say hi", spec: { command: "no-such-agent" } });
    expect(thrown).toMatchObject({ code: "agent/spawn-failed", kind: "environment" });
  });

  const limitMs = 5000;
  const cases: [string, readonly string[], string, { code: string; message: string; detail?: string }][] = [
    [
      "ends at the start",
      ["--exit=3"],
      "say hi",
      {
        code: "agent/exited",
        message: "agent it ended with code 3 before it had answered initialize",
        detail: "I cannot start: no licence",
      },
    ],
    [
      "ends in the middle of a turn",
      [],
      "say working\nstderr out of memory\ncrash 9",
      {
        code: "agent/exited",
        message: "agent it ended with code 9 in turn 1",
        detail: "out of memory",
      },
    ],
    [
      "never answers",
      ["--silent"],
      "say hi",
      { code: "agent/startup-timeout", message: "agent it did not answer initialize within 500 ms" },
    ],
    [
      "says something else instead",
      ["--silent", "--banner=2"],
      "say hi",
      {
        code: "agent/protocol",
        message: `agent it did not answer initialize within ${limitMs} ms, but wrote something else`,
        detail: "stdout: welcome 0",
      },
    ],
    [
      "says nothing but nonsense",
      ["--silent", "--banner=1000"],
      "say hi",
      {
        code: "agent/protocol",
        message: "agent it does not speak the Agent Client Protocol on stdout",
        detail: "stdout: welcome 0",
      },
    ],
    [
      "speaks another version",
      ["--version=7"],
      "say hi",
      {
        code: "agent/protocol",
        message: "agent it speaks version 7 of the Agent Client Protocol, not 1",
      },
    ],
    [
      "ends a turn for no known reason",
      [],
      "stop boredom",
      { code: "agent/protocol", message: 'agent it ended a turn for an unknown reason: "boredom"' },
    ],
    [
      "answers with an error",
      [],
      "error -32603 the model is overloaded",
      {
        code: "agent/failed",
        message: "agent it answered session/prompt with an error: the model is overloaded",
      },
    ],
    [
      "is not logged in",
      ["--auth"],
      "say hi",
      { code: "agent/auth", message: "agent it is not logged in: Authentication required" },
    ],
  ];
  it.each(cases)("because it %s", async (_, flags, prompt, { code, message, detail }) => {
    // Only what never answers waits for the limit.
    const startupMs = flags.length === 1 && flags[0] === "--silent" ? 500 : limitMs;
    const { thrown } = await play({ prompt, flags, options: { startupMs } });
    expect(thrown).toBeInstanceOf(McpvalsError);
    const error = thrown as McpvalsError;
    expect([error.code, error.kind, error.message]).toEqual([code, "environment", message]);
    expect(error.details.detail ?? "").toContain(detail ?? "");
    expect(await livingProcesses()).toEqual([]);
  });

  it("has on record what it said and did before it ended", async () => {
    const { events } = await play({ prompt: "say working\ncrash 9" });
    expect(withoutPid(events)).toEqual([
      started,
      { type: "turn.started", turn: 0, user: "say working\ncrash 9" },
      { ...exited, exitCode: 9, expected: false },
      { type: "agent.message", turn: 0, text: "working" },
    ]);
  });

  it("is logged in when it asks and its key is there", async () => {
    const flags = ["--login"];
    const withKey = { PATH: process.env["PATH"] ?? "", GEMINI_API_KEY: "k" };
    const good = await play({ prompt: "say hi", flags, spec: { preset: "gemini", env: withKey } });
    expect(good.thrown).toBeUndefined();
    const bad = await play({ prompt: "say hi", flags, spec: { preset: "gemini" } });
    expect(bad.thrown).toMatchObject({
      code: "agent/auth",
      details: {
        hint: "Log in with the program itself in a terminal, or set GEMINI_API_KEY or GOOGLE_API_KEY. It offers: gemini-api-key.",
      },
    });
  });
});

describe("when the trial is over", () => {
  const reason = new McpvalsError("trial/timeout", "over");

  it("before it begins, nothing is started", async () => {
    const { events, thrown } = await play({ users: ["say hi"], signal: AbortSignal.abort(reason) });
    expect([events, thrown]).toEqual([[], reason]);
  });

  it.each([
    ["and it heeds that", "hang", []],
    ["and it does not", "hang hard", ["--stubborn"]],
  ])("in the middle of a turn, everything that it started ends with it, %s", async (_, hang, flags) => {
    const controller = new AbortController();
    const { events, thrown } = await play({
      users: [`fork\nshell ls\n${hang}`],
      flags,
      signal: controller.signal,
      onEvent: (event) => {
        if (event.type === "agent.tool" && event.status === "completed") {
          void untilLiving(3).then(() => controller.abort(reason));
        }
      },
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
      onEvent: (event) => {
        if (event.type !== "agent.tool" || event.status !== "completed") return;
        void untilLiving(3).then(([first = 0]) => process.kill(first, "SIGKILL"));
      },
    });
    expect(thrown).toMatchObject({
      code: "agent/exited",
      message: "agent it ended by SIGKILL in turn 1",
    });
    expect(eventsOf(events, "agent.exited")).toEqual([
      { type: "agent.exited", exitCode: null, signal: "SIGKILL", expected: false },
    ]);
    expect(await livingProcesses()).toEqual([]);
  });

  it("nothing is left behind, however it ends", async () => {
    await play({ prompt: "say warm up" });
    for (const prompt of ["say hi", "crash 1", "error 1 no"]) {
      const nothingIsLeft = watchLeftovers();
      await play({ prompt });
      await nothingIsLeft();
      expect(await livingProcesses(), prompt).toEqual([]);
    }
  });
});
