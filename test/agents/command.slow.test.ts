import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { ownMark } from "../../src/process/folders.ts";
import { createCommandAgent } from "../../src/agents/command.ts";
import type { CommandAgentSpec } from "../../src/model/agent.ts";
import type { EventBody } from "../../src/model/event.ts";
import { livingProcesses } from "../process/support.ts";
import {
  eventsOf,
  openTestEndpoint,
  type PlayedProgram,
  type PlayOptions,
  playProgram,
} from "../support/agent-context.ts";
import { commandAgent } from "../support/programs.ts";

type Action = readonly [name: string, ...args: string[]];

interface Setup extends Partial<PlayOptions> {
  readonly actions: readonly Action[];
  /** Arguments after the actions. */
  readonly args?: readonly string[];
  readonly nextActions?: readonly Action[];
  readonly spec?: Partial<CommandAgentSpec>;
}

function specOf({ actions, args = [], nextActions, spec = {} }: Setup): CommandAgentSpec {
  const line = (list: readonly Action[]): string[] => [commandAgent, JSON.stringify(list), ...args];
  return {
    type: "command",
    name: "it",
    command: process.execPath,
    args: line(actions),
    ...(nextActions === undefined ? {} : { nextArgs: line(nextActions) }),
    env: { PATH: process.env["PATH"] ?? "" },
    output: "text",
    stdin: false,
    configFiles: [],
    ...spec,
  };
}

function play(setup: Setup): Promise<PlayedProgram> {
  const agent = createCommandAgent(specOf(setup));
  return playProgram(agent, { users: ["hello"], ...setup });
}

function messages({ events }: PlayedProgram): readonly string[] {
  return eventsOf(events, "agent.message").map(({ text }) => text);
}

const exited: EventBody = { type: "agent.exited", exitCode: 0, signal: null, expected: true };

function folder(): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "command-agent-")));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

describe("an agent that is a program for each turn", () => {
  it("is told the turns, and what it prints is its message", async () => {
    const played = await play({
      users: ["one", "two"],
      actions: [["stdin"], ["stderr", "a note"], ["say", " and a half\n\n"]],
      spec: { stdin: true, model: "m1" },
    });
    expect(played.thrown).toBeUndefined();
    const note: EventBody = { type: "agent.output", stream: "stderr", text: "a note\n" };
    const inOrder = played.events.filter(({ type }) => type !== "agent.output" && type !== "agent.exited");
    expect(inOrder).toEqual([
      { type: "agent.started", agent: "it", kind: "command", model: "m1" },
      { type: "turn.started", turn: 0, user: "one" },
      { type: "agent.message", turn: 0, text: "one and a half" },
      { type: "turn.finished", turn: 0, reason: "done" },
      { type: "turn.started", turn: 1, user: "two" },
      { type: "agent.message", turn: 1, text: "two and a half" },
      { type: "turn.finished", turn: 1, reason: "done" },
    ]);
    expect(eventsOf(played.events, "agent.output")).toEqual([note, note]);
    expect(eventsOf(played.events, "agent.exited")).toEqual([exited, exited]);
  });

  it.each([
    ["copilot", ["instructions"]],
    ["qwen-code", undefined],
  ])("has on record what %s does not show its model: %j", async (preset, hides) => {
    const { events } = await play({ actions: [["say", "hi"]], spec: { preset } });
    expect(eventsOf(events, "agent.started")[0]?.hides).toEqual(hides);
  });

  it("finds stdin closed where the prompt is an argument", async () => {
    expect(messages(await play({ actions: [["stdin"], ["say", "none"]] }))).toEqual(["none"]);
  });

  it("has the names in its command line, arguments and variables replaced", async () => {
    const cwd = folder();
    const endpoint = await openTestEndpoint("files");
    const args = ["{prompt}", "{{prompt}", "{cwd}", "{workspace}", "{model}", "[{session}]"];
    const played = await play({
      users: ["say {model} $&"],
      actions: [["args"], ["env", "GREETING"], ["env", "FILES"], ["cwd"]],
      args,
      endpoints: [endpoint],
      spec: {
        cwd,
        model: "m1",
        command: `${dirname(process.execPath)}/{prompt}/../node`.replace("/{prompt}/..", ""),
        env: { PATH: process.env["PATH"] ?? "", GREETING: "<{prompt}>", FILES: "{servers.files.url}" },
      },
    });
    const filled = ["say {model} $&", "{prompt}", cwd, played.workspace, "m1", "[]"];
    expect(messages(played)).toEqual([`${JSON.stringify(filled)}<say {model} $&>${endpoint.url}${cwd}`]);
  });

  it("gets an argument for each server where the argument has a server's name", async () => {
    const endpoints = [await openTestEndpoint("files"), await openTestEndpoint("db")];
    const args = ["--allow={server}", "--end"];
    const played = await play({ actions: [["args"]], args, endpoints });
    expect(messages(played)).toEqual([JSON.stringify(["--allow=files", "--allow=db", "--end"])]);
  });

  it("gets other arguments from the second turn on, with the session that it told", async () => {
    const thread = JSON.stringify({ type: "thread.started", thread_id: "t-7" });
    const said = (text: string): string =>
      JSON.stringify({ type: "item.completed", item: { id: "item_0", type: "agent_message", text } });
    const end: Action = ["print", JSON.stringify({ type: "turn.completed" })];
    const played = await play({
      users: ["a", "b", "c"],
      actions: [["print", thread], ["print", "not JSON"], ["print", said("first")], end],
      spec: {
        output: "codex",
        nextArgs: [
          commandAgent,
          JSON.stringify([["print", said("@")], end]).replace("@", "next of {session}: {prompt}"),
        ],
      },
    });
    expect(messages(played)).toEqual(["first", "next of t-7: b", "next of t-7: c"]);
    expect(eventsOf(played.events, "agent.output")).toEqual([
      { type: "agent.output", stream: "stdout", text: "not JSON\n" },
    ]);
  });

  it("has its uses of tools on record, each with an id of its own", async () => {
    const item = { id: "item_1", type: "mcp_tool_call", server: "files", tool: "echo", arguments: { a: 1 } };
    const shell = {
      id: "item_2",
      type: "command_execution",
      command: "ls",
      aggregated_output: "x",
      exit_code: 1,
    };
    const lines = [
      { type: "item.started", item: { ...item, status: "in_progress" } },
      { type: "item.completed", item: { ...item, status: "completed", result: { content: [] } } },
      { type: "item.completed", item: { ...shell, status: "failed" } },
      { type: "turn.completed", usage: { input_tokens: 7, output_tokens: 2 } },
    ];
    const actions = lines.map((line): Action => ["print", JSON.stringify(line)]);
    const { events, thrown } = await play({ users: ["a", "b"], actions, spec: { output: "codex" } });
    expect(thrown).toBeUndefined();
    const call = {
      type: "agent.tool",
      name: "files.echo",
      source: "mcp:files",
      tool: "echo",
      args: { a: 1 },
    };
    const own = { type: "agent.tool", name: "command_execution", source: "builtin", args: { command: "ls" } };
    const result = { output: "x", exitCode: 1 };
    const turn = (turn: number, after: string): unknown[] => [
      { ...call, turn, callId: `item_1${after}`, status: "started" },
      { ...call, turn, callId: `item_1${after}`, status: "completed", result: { content: [] } },
      { ...own, turn, callId: `item_2${after}`, status: "failed", result },
    ];
    expect(eventsOf(events, "agent.tool")).toEqual([...turn(0, ""), ...turn(1, " (turn 1)")]);
    expect(eventsOf(events, "agent.usage")[0]).toEqual({
      type: "agent.usage",
      source: "agent",
      usage: { inputTokens: 7, outputTokens: 2, cacheReadTokens: 0 },
    });
  });
});

describe("servers", () => {
  it.each(["http", "bridge"] as const)(
    "are reached over %s by the file of {mcpConfig}, gone after it",
    async (connect) => {
      const endpoint = await openTestEndpoint("files");
      const played = await play({
        actions: [["echo", "{mcpConfig}", "hi"]],
        endpoints: [endpoint],
        spec: { connect },
      });
      expect(played.thrown).toBeUndefined();
      expect(messages(played)).toEqual(['[{"type":"text","text":"hi"}]']);
      expect(endpoint.requests.length > 0).toBe(connect === "http");
      expect(readdirSync(played.workspace)).toEqual([]);
      expect(readdirSync(tmpdir()).filter((name) => name.startsWith(`mcpvals-client-${ownMark()}`))).toEqual(
        [],
      );
    },
  );

  it("are reached by the client's own file in the folder, which is put back", async () => {
    const cwd = folder();
    writeFileSync(join(cwd, ".mcp.json"), '{ "mcpServers"   : {} }');
    const endpoint = await openTestEndpoint("files");
    const played = await play({
      users: ["a", "b"],
      actions: [["echo", ".mcp.json", "{prompt}"]],
      endpoints: [endpoint],
      spec: { cwd, configFiles: ["claude-code", "cursor"] },
    });
    expect(played.thrown).toBeUndefined();
    expect(messages(played)).toEqual(['[{"type":"text","text":"a"}]', '[{"type":"text","text":"b"}]']);
    const written = eventsOf(played.events, "client_config.written");
    expect(written.map(({ client, action }) => [client, action])).toEqual([
      ["claude-code", "replaced"],
      ["cursor", "created"],
    ]);
    expect(readdirSync(cwd)).toEqual([".mcp.json"]);
    expect(readFileSync(join(cwd, ".mcp.json"), "utf8")).toBe('{ "mcpServers"   : {} }');
  });
});

describe("an agent that breaks", () => {
  it("with another code than 0 is an error, after what it said is recorded", async () => {
    const actions: Action[] = [
      ["say", "I try"],
      ["stderr", "no key"],
      ["exit", "3"],
    ];
    const { events, thrown } = await play({ actions });
    expect(thrown).toMatchObject({
      code: "agent/exited",
      message: "agent it ended with code 3 in turn 1",
      details: { detail: "no key" },
    });
    expect(messages({ events, thrown, workspace: "" })).toEqual(["I try"]);
    expect(eventsOf(events, "agent.exited")).toEqual([{ ...exited, exitCode: 3, expected: false }]);
    expect(eventsOf(events, "turn.finished")).toEqual([]);
  });

  it("in words of its own is an error with them", async () => {
    const sample = new URL("../fixtures/agents/outputs/claude-code-refused.jsonl", import.meta.url);
    const lines = readFileSync(sample, "utf8").trimEnd().split("\n");
    const actions = [...lines.map((line): Action => ["print", line]), ["exit", "1"] as const];
    const { thrown } = await play({ actions, spec: { output: "claude-code" } });
    expect(thrown).toMatchObject({
      code: "agent/failed",
      message: expect.stringMatching(/^agent it could not act: .*(bad key|API key)/) as string,
    });
  });

  it("by an end for want of steps has behaved, whatever its code", async () => {
    const line = JSON.stringify({ type: "result", subtype: "error_max_turns", is_error: true });
    const { events, thrown } = await play({
      actions: [
        ["print", line],
        ["exit", "1"],
      ],
      spec: { output: "claude-code" },
    });
    expect(thrown).toBeUndefined();
    expect(eventsOf(events, "turn.finished")).toEqual([
      { type: "turn.finished", turn: 0, reason: "max-steps" },
    ]);
  });

  it("by having its key refused is an error at once", async () => {
    const line = { type: "system", subtype: "api_retry", attempt: 1, max_retries: 10, error_status: 401 };
    const { events, thrown } = await play({
      actions: [["hang", JSON.stringify(line)]],
      spec: { output: "claude-code", preset: "claude-code" },
    });
    const text = "a request to the model failed (HTTP 401) and is retried: attempt 1 of 10";
    expect(thrown).toMatchObject({
      code: "agent/auth",
      message: `agent it is not logged in: ${text}`,
      details: { hint: expect.stringContaining("ANTHROPIC_API_KEY") as string },
    });
    expect(eventsOf(events, "agent.output")).toEqual([
      { type: "agent.output", stream: "stdout", text: `${text}\n` },
    ]);
  });

  it("by printing another format than its own is an error", async () => {
    const { events, thrown } = await play({ actions: [["print", "All done!"]], spec: { output: "gemini" } });
    expect(thrown).toMatchObject({
      code: "agent/protocol",
      message: "the output of agent it is not in the gemini format",
    });
    expect(eventsOf(events, "agent.output")).toEqual([
      { type: "agent.output", stream: "stdout", text: "All done!\n" },
    ]);
  });

  it("by not being there is told before anything starts, with what to install", async () => {
    const agent = createCommandAgent(
      specOf({ actions: [], spec: { command: "no-such-agent", preset: "codex" } }),
    );
    await expect(agent.prepare()).rejects.toMatchObject({
      code: "agent/program-not-found",
      details: { hint: expect.stringContaining("@openai/codex") as string },
    });
    await createCommandAgent(specOf({ actions: [] })).prepare();
  });
});

describe.runIf(process.platform === "linux")("with a turn", () => {
  it("ends what the program left behind, even if that holds its output", async () => {
    const played = await play({ actions: [["leave"], ["say", "done"]] });
    expect(played.thrown).toBeUndefined();
    expect(messages(played)).toEqual(["done"]);
    expect(await livingProcesses()).toEqual([]);
  });

  it("that is cut off ends all of it, and what was said is recorded", async () => {
    const cut = new AbortController();
    const cwd = folder();
    const endpoint = await openTestEndpoint("files");
    const said = { type: "item.completed", item: { type: "agent_message", text: "so far" } };
    const playing = play({
      actions: [["leave"], ["hang", JSON.stringify(said)]],
      signal: cut.signal,
      onEvent: ({ type }) => type === "agent.message" && cut.abort(new Error("the time is over")),
      endpoints: [endpoint],
      spec: { cwd, configFiles: ["opencode"], output: "codex" },
    });
    const { events, thrown } = await playing;
    expect(thrown).toMatchObject({ message: "the time is over" });
    expect(eventsOf(events, "agent.exited")).toEqual([{ ...exited, exitCode: null, signal: "SIGKILL" }]);
    expect(eventsOf(events, "agent.message")).toEqual([{ type: "agent.message", turn: 0, text: "so far" }]);
    expect(eventsOf(events, "turn.finished")).toEqual([]);
    expect(await livingProcesses()).toEqual([]);
    expect(readdirSync(cwd)).toEqual([]);
  });

  it("does not begin when the time is over already", async () => {
    const { events, thrown } = await play({ actions: [], signal: AbortSignal.abort(new Error("over")) });
    expect([events, thrown]).toEqual([[], expect.objectContaining({ message: "over" })]);
  });
});
