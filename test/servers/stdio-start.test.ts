import { describe, expect, it } from "vitest";
import { McpvalsError } from "../../src/core/errors/error.ts";
import { livingProcesses } from "../process/support.ts";
import { createRecord, failToStart, fixtureSpec, startSession } from "./support.ts";
import { startServer } from "../../src/servers/start-server.ts";

const linux = process.platform === "linux";

function textOf(outcome: unknown): string {
  return (outcome as { result: { content: [{ text: string }] } }).result.content[0].text;
}

async function expectNothingLeft(): Promise<void> {
  if (linux) expect(await livingProcesses()).toEqual([]);
}

describe("a server that starts", () => {
  it("leaves a complete record, in order", async () => {
    const { session, record } = await startSession(fixtureSpec(["--stderr=hello"]));
    await session.callTool(
      "echo",
      { message: "hi" },
      { timeoutMs: 5000, signal: new AbortController().signal },
    );
    await session.stop();
    const [started, ...rest] = record.events;
    expect(started).toEqual({
      type: "server.started",
      server: "s",
      transport: "stdio",
      target: expect.stringContaining("fixture-server.mjs --stderr=hello") as unknown,
      pid: expect.any(Number) as unknown,
    });
    const steps = rest
      .filter((event) => event.type !== "server.stderr")
      .map((event) => (event.type === "mcp.message" ? [event.direction, event.message] : event));
    expect(steps).toEqual([
      [
        "client-to-server",
        {
          jsonrpc: "2.0",
          id: 0,
          method: "initialize",
          params: {
            protocolVersion: "2025-11-25",
            capabilities: {},
            clientInfo: { name: "mcpvals", version: "9.9.9" },
          },
        },
      ],
      [
        "server-to-client",
        {
          jsonrpc: "2.0",
          id: 0,
          result: {
            protocolVersion: "2025-11-25",
            capabilities: { tools: {} },
            serverInfo: { name: "fixture", version: "1.2.3" },
          },
        },
      ],
      ["client-to-server", { jsonrpc: "2.0", method: "notifications/initialized" }],
      ["client-to-server", { jsonrpc: "2.0", id: 1, method: "tools/list" }],
      ["server-to-client", expect.objectContaining({ id: 1 })],
      {
        type: "server.ready",
        server: "s",
        name: "fixture",
        version: "1.2.3",
        protocolVersion: "2025-11-25",
        tools: session.tools.length,
        durationMs: expect.any(Number) as unknown,
      },
      [
        "client-to-server",
        {
          jsonrpc: "2.0",
          id: 2,
          method: "tools/call",
          params: { name: "echo", arguments: { message: "hi" } },
        },
      ],
      ["server-to-client", { jsonrpc: "2.0", id: 2, result: { content: [{ type: "text", text: "hi" }] } }],
      { type: "server.exited", server: "s", exitCode: 0, signal: null, expected: true },
      { type: "server.stopped", server: "s", by: "stdin", durationMs: expect.any(Number) as unknown },
    ]);
    expect(
      record
        .of("server.stderr")
        .map(({ text }) => text)
        .join(""),
    ).toBe("hello\n");
    expect(session.lost.aborted).toBe(false);
    await expectNothingLeft();
  });

  it("gives its tools as it declares them, unknown keys included", async () => {
    const { session } = await startSession(fixtureSpec());
    expect(session.tools.find(({ name }) => name === "bad-output")).toEqual({
      name: "bad-output",
      description: "The tool bad-output.",
      inputSchema: { type: "object" },
      outputSchema: { type: "object", required: ["sum"] },
      extension: { kept: true },
    });
  });

  it("is asked for every page of tools/list", async () => {
    const whole = await startSession(fixtureSpec());
    const paged = await startSession(fixtureSpec(["--pages=4"]));
    expect(paged.session.tools).toEqual(whole.session.tools);
    const cursors = paged.record
      .of("mcp.message")
      .map(({ message }) => message as { method?: string; params?: { cursor?: string } })
      .filter(({ method }) => method === "tools/list")
      .map(({ params }) => params?.cursor);
    expect(cursors).toEqual([undefined, "1", "2", "3"]);
  });

  it("is healthy without the tools capability, and is not asked for tools", async () => {
    const { session, record } = await startSession(fixtureSpec(["--no-tools", "--mute=tools/list"]));
    expect(session.tools).toEqual([]);
    expect(record.of("server.ready")).toMatchObject([{ tools: 0 }]);
  });

  it("may write noise on stdout, which is recorded and skipped", async () => {
    const { record } = await startSession(fixtureSpec(["--junk"]));
    const noise = record.of("server.invalid_output").map(({ text }) => text);
    expect(noise.slice(0, 2)).toEqual(["starting up...", "a line of noise between messages"]);
  });

  it("is started once", async () => {
    const { record } = await startSession(fixtureSpec());
    expect(record.of("server.started")).toHaveLength(1);
    if (linux) expect(await livingProcesses()).toHaveLength(1);
  });

  it("gets exactly its environment and its folder", async () => {
    const { session } = await startSession(fixtureSpec([], { env: { ONLY: "this" }, cwd: "/" }));
    const options = { timeoutMs: 5000, signal: new AbortController().signal };
    const env = await session.callTool("env", {}, options);
    const cwd = await session.callTool("cwd", {}, options);
    expect(JSON.parse(textOf(env))).toEqual({
      SHLVL: "1",
      ONLY: "this",
      MCPVALS_PROCESS: expect.any(String) as unknown,
      MCPVALS_RUN: expect.any(String) as unknown,
    });
    expect(textOf(cwd)).toBe("/");
  });
});

describe("a server that does not start", () => {
  it("because it exits at once: code and stderr are told", async () => {
    const { error, record } = await failToStart(fixtureSpec(["--stderr=no database", "--exit=3"]));
    expect(error.code).toBe("server/exited");
    expect(error.message).toBe('server "s" exited with code 3 before it had answered initialize');
    expect(error.details.detail).toBe("no database");
    expect(error.details.hint).toBe(
      "Its stderr usually says why; run the same command in a terminal. It gets only a small safe environment: pass more variables with `env` or `inheritEnv`.",
    );
    expect(record.events.slice(-2)).toEqual([
      { type: "server.exited", server: "s", exitCode: 3, signal: null, expected: false },
      {
        type: "server.stopped",
        server: "s",
        by: "already-exited",
        durationMs: expect.any(Number) as unknown,
      },
    ]);
  });

  it("because it is silent: the time limit holds and nothing is left", async () => {
    const { error } = await failToStart(
      fixtureSpec(["--silent", "--stderr=waiting for a token"], { startupTimeoutMs: 1000 }),
    );
    expect(error.code).toBe("server/handshake-timeout");
    expect(error.message).toBe('server "s" did not answer initialize within 1000 ms');
    expect(error.details.detail).toBe("waiting for a token");
    await expectNothingLeft();
  });

  it("because a tool has no inputSchema", async () => {
    const { error } = await failToStart(fixtureSpec(["--bad-list"]));
    expect(error.code).toBe("server/protocol-error");
    expect(error.message).toContain("tools[1] (bad) has no inputSchema");
    await expectNothingLeft();
  });

  it("because its list of tools is too large", async () => {
    const { error } = await failToStart(fixtureSpec([], { maxMessageBytes: 1000 }));
    expect(error.code).toBe("server/message-too-large");
    expect(error.message).toBe(
      'server "s" sent a message of more than 1000 bytes before it had answered tools/list',
    );
  });

  it("because the start was interrupted: the reason is passed on, and nothing is left", async () => {
    const reason = new McpvalsError("run/interrupted", "Ctrl-C");
    const controller = new AbortController();
    const record = createRecord();
    const emit: typeof record.emit = (event) => {
      if (event.type === "mcp.message") controller.abort(reason);
      return record.emit(event);
    };
    const starting = startServer("s", fixtureSpec(["--silent"]), {
      emit,
      signal: controller.signal,
      version: "9.9.9",
    });
    await expect(starting).rejects.toBe(reason);
    expect(record.events.at(-1)).toMatchObject({ type: "server.stopped", by: "stdin" });
    await expectNothingLeft();
    await expect(
      startServer("s", fixtureSpec(), { emit, signal: controller.signal, version: "9.9.9" }),
    ).rejects.toBe(reason);
  });

  it("and ignores every polite request to end", async () => {
    const { error, record } = await failToStart(
      fixtureSpec(["--silent", "--stubborn", "--daemon", "--grandchild"], { startupTimeoutMs: 500 }),
    );
    expect(error.code).toBe("server/handshake-timeout");
    expect(record.events.at(-1)).toMatchObject({ type: "server.stopped", by: "SIGKILL" });
    await expectNothingLeft();
  });
});
