import { describe, expect, it } from "vitest";
import { McpvalsError } from "../../src/base/error.ts";
import { startServer } from "../../src/servers/server-pool.ts";
import { livingProcesses } from "../process/support.ts";
import { callOptions, createRecord, failToStart, fixtureSpec, rejection, startSession } from "./support.ts";

const linux = process.platform === "linux";
const text = (value: string): object => ({ content: [{ type: "text", text: value }] });
const anyNumber = expect.any(Number) as unknown;
const exited = { type: "server.exited", server: "s", signal: null };
const stopped = { type: "server.stopped", server: "s", durationMs: anyNumber };

async function expectNothingLeft(): Promise<void> {
  if (linux) expect(await livingProcesses()).toEqual([]);
}

describe("a program that starts", () => {
  it("leaves a complete record, in order", async () => {
    const { session, record } = await startSession(fixtureSpec(["--stderr=hello"]));
    await session.callTool("echo", { message: "hi" }, callOptions());
    await session.stop();
    const [started, ...rest] = record.events;
    expect(started).toEqual({
      type: "server.started",
      server: "s",
      transport: "stdio",
      target: expect.stringContaining("fixture-server.mjs --stderr=hello") as unknown,
      pid: anyNumber,
    });
    const steps = rest
      .filter((event) => event.type !== "server.stderr")
      .map((event) => (event.type === "mcp.message" ? [event.direction, event.message] : event));
    const protocolVersion = "2025-11-25";
    const request = (id: number, method: string, params?: object): unknown => [
      "client-to-server",
      { jsonrpc: "2.0", id, method, ...(params === undefined ? {} : { params }) },
    ];
    const answer = (id: number, result: unknown): unknown => [
      "server-to-client",
      { jsonrpc: "2.0", id, result },
    ];
    const serverInfo = { name: "fixture", version: "1.2.3" };
    const clientInfo = { name: "mcpvals", version: "9.9.9" };
    expect(steps).toEqual([
      request(0, "initialize", { protocolVersion, capabilities: {}, clientInfo }),
      answer(0, { protocolVersion, capabilities: { tools: {} }, serverInfo }),
      ["client-to-server", { jsonrpc: "2.0", method: "notifications/initialized" }],
      request(1, "tools/list"),
      answer(1, expect.anything()),
      {
        type: "server.ready",
        server: "s",
        ...serverInfo,
        protocolVersion,
        tools: session.tools.length,
        durationMs: anyNumber,
      },
      request(2, "tools/call", { name: "echo", arguments: { message: "hi" } }),
      answer(2, text("hi")),
      { ...exited, exitCode: 0, expected: true },
      { ...stopped, by: "stdin" },
    ]);
    const stderr = record.of("server.stderr").map((event) => event.text);
    expect(stderr.join("")).toBe("hello\n");
    expect(session.lost.aborted).toBe(false);
    await expectNothingLeft();
  });

  it("is healthy without the tools capability, and is not asked for tools", async () => {
    const { session, record } = await startSession(fixtureSpec(["--no-tools", "--mute=tools/list"]));
    expect(session.tools).toEqual([]);
    expect(record.of("server.ready")).toMatchObject([{ tools: 0 }]);
  });

  it("may write noise on stdout, which is recorded and skipped", async () => {
    const { record } = await startSession(fixtureSpec(["--junk"]));
    const noise = record.of("server.invalid_output").map((event) => event.text);
    expect(noise.slice(0, 2)).toEqual(["starting up...", "a line of noise between messages"]);
  });

  it("gets exactly its environment and its folder", async () => {
    const { session } = await startSession(fixtureSpec([], { env: { ONLY: "this" }, cwd: "/" }));
    const answerOf = async (tool: string): Promise<string> => {
      const outcome = (await session.callTool(tool, {}, callOptions())) as unknown;
      return (outcome as { result: { content: [{ text: string }] } }).result.content[0].text;
    };
    expect(JSON.parse(await answerOf("env"))).toEqual({
      SHLVL: "1",
      ONLY: "this",
      MCPVALS_PROCESS: expect.any(String) as unknown,
      MCPVALS_RUN: expect.any(String) as unknown,
    });
    expect(await answerOf("cwd")).toBe("/");
  });
});

describe("a program that does not start", () => {
  it.each([
    [
      "exits at once",
      fixtureSpec(["--stderr=no database", "--exit=3"]),
      {
        code: "server/exited",
        message: 'server "s" exited with code 3 before it had answered initialize',
        details: {
          detail: "no database",
          hint: "Its stderr usually says why; run the same command in a terminal. It gets only a small safe environment: pass more variables with `env`, `inheritEnv` or --env.",
        },
      },
      "already-exited",
    ],
    [
      "is silent",
      fixtureSpec(["--silent", "--stderr=waiting for a token"], { startupTimeoutMs: 500 }),
      {
        code: "server/handshake-timeout",
        message: 'server "s" did not answer initialize within 500 ms',
        details: { detail: "waiting for a token" },
      },
      "stdin",
    ],
    [
      "ignores every request to end",
      fixtureSpec(["--silent", "--stubborn", "--daemon", "--grandchild"], { startupTimeoutMs: 500 }),
      { code: "server/handshake-timeout" },
      "SIGKILL",
    ],
    [
      "has a tool without inputSchema",
      fixtureSpec(["--bad-list"]),
      {
        code: "server/protocol-error",
        message: expect.stringContaining("tools[1] (bad) has no inputSchema") as string,
      },
      "stdin",
    ],
    [
      "has a list of tools that is too large",
      fixtureSpec([], { maxMessageBytes: 1000 }),
      {
        code: "server/message-too-large",
        message: 'server "s" sent a message of more than 1000 bytes before it had answered tools/list',
      },
      "stdin",
    ],
  ] as const)("because it %s: the reason is given, and nothing is left", async (_, spec, expected, by) => {
    const { error, record } = await failToStart(spec);
    expect(error).toMatchObject(expected);
    expect(record.events.at(-1)).toEqual({ ...stopped, by });
    await expectNothingLeft();
  });

  it("because the start was interrupted: the reason is passed on, and nothing is left", async () => {
    const reason = new McpvalsError("run/interrupted", "Ctrl-C");
    const controller = new AbortController();
    const record = createRecord();
    const emit: typeof record.emit = (event) => {
      if (event.type === "mcp.message") controller.abort(reason);
      return record.emit(event);
    };
    const options = { emit, signal: controller.signal, version: "9.9.9" };
    await expect(startServer("s", fixtureSpec(["--silent"]), options)).rejects.toBe(reason);
    expect(record.events.at(-1)).toMatchObject({ type: "server.stopped", by: "stdin" });
    await expectNothingLeft();
    await expect(startServer("s", fixtureSpec(), options)).rejects.toBe(reason);
  });
});

describe("a call", () => {
  it("gives a result that violates its outputSchema, and records texts that serializing would change", async () => {
    const { session, record } = await startSession(fixtureSpec());
    expect(await session.callTool("bad-output", {}, callOptions())).toMatchObject({
      kind: "result",
      result: { ...text("no sum"), structuredContent: { total: "five" } },
    });
    await session.callTool("spaced", {}, callOptions());
    const [plain, spaced] = record
      .of("mcp.message")
      .filter(({ direction }) => direction === "server-to-client")
      .slice(-2);
    expect(plain).not.toHaveProperty("raw");
    expect(spaced).toMatchObject({
      message: { jsonrpc: "2.0", id: 3, result: { content: [], big: 1 } },
      raw: '{ "jsonrpc": "2.0", "id": 3, "result": { "content": [], "big": 1.0 } }',
    });
  });

  it("takes more than the pipe does while the program is busy", async () => {
    const { session } = await startSession(fixtureSpec());
    const busy = session.callTool("unread", { ms: 300 }, callOptions());
    const message = "ü".repeat(2_000_000);
    const large = await session.callTool("echo", { message }, callOptions());
    expect(await busy).toMatchObject({ result: text("reading again") });
    expect(large.kind === "result" && large.result["content"]).toEqual([{ type: "text", text: message }]);
  });
});

describe("a program that is lost", () => {
  it("ends the pending calls with how it ended, not with a bare connection error", async () => {
    const { session, record } = await startSession(fixtureSpec());
    const pending = rejection(session.callTool("slow", { ms: 60_000 }, callOptions()));
    const error = await rejection(
      session.callTool("crash", { code: 7, stderr: "out of memory" }, callOptions()),
    );
    expect(error).toMatchObject({
      code: "server/exited",
      message: 'server "s" exited with code 7',
      details: { detail: "out of memory" },
    });
    expect(await pending).toBe(error);
    await session.stop();
    expect(record.events.slice(-2)).toEqual([
      { ...exited, exitCode: 7, expected: false },
      { ...stopped, by: "already-exited" },
    ]);
  });

  it("may answer before its end: the answer counts", async () => {
    const { session } = await startSession(fixtureSpec());
    expect(await session.callTool("answer-and-exit", {}, callOptions())).toMatchObject({
      result: text("the last word"),
    });
    const error = await rejection(session.callTool("slow", { ms: 60_000 }, callOptions()));
    expect(error.code).toBe("server/exited");
  });

  it("is lost by a message over the limit", async () => {
    const { session } = await startSession(fixtureSpec([], { maxMessageBytes: 100_000 }));
    expect((await session.callTool("huge", { bytes: 90_000 }, callOptions())).kind).toBe("result");
    const error = await rejection(session.callTool("huge", { bytes: 100_000 }, callOptions()));
    expect([error.code, error.message]).toEqual([
      "server/message-too-large",
      'server "s" sent a message of more than 100000 bytes',
    ]);
    expect(session.lost.reason).toBe(error);
  });
});
