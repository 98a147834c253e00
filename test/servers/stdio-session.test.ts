import { describe, expect, it } from "vitest";
import { callOptions, fixtureSpec, rejection, startSession } from "./support.ts";

const text = (value: string): object => ({ content: [{ type: "text", text: value }] });
const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
const latencyMs = expect.any(Number) as unknown;

describe("callTool", () => {
  it("gives results as they came, failed ones and those that break their outputSchema too", async () => {
    const { session } = await startSession(fixtureSpec());
    const call = (tool: string, args = {}): Promise<unknown> => session.callTool(tool, args, callOptions());
    expect(await call("add", { a: 2, b: 3 })).toEqual({ kind: "result", result: text("5"), latencyMs });
    expect(await call("fail")).toEqual({
      kind: "result",
      result: { ...text("it went wrong"), isError: true },
      latencyMs,
    });
    expect(await call("bad-output")).toEqual({
      kind: "result",
      result: { ...text("no sum"), structuredContent: { total: "five" } },
      latencyMs,
    });
  });

  it.each([
    ["no-object", 'the result is not an object: "just text"'],
    ["no-content", "content is not an array"],
    ["both-keys", "other keys than jsonrpc, id and result: error"],
  ])("gives an error at once for an answer that is no CallToolResult (%s)", async (tool, message) => {
    const { session } = await startSession(fixtureSpec());
    const outcome = await session.callTool(tool, {}, callOptions());
    expect(outcome).toEqual({
      kind: "error",
      message: expect.stringContaining(message) as unknown,
      unusable: true,
      latencyMs,
    });
  });

  it("keeps the text on the wire when it is not what we would write", async () => {
    const { session, record } = await startSession(fixtureSpec());
    await session.callTool("echo", { message: "plain" }, callOptions());
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

  it("takes more than the pipe does while the server is busy", async () => {
    const { session } = await startSession(fixtureSpec());
    const busy = session.callTool("unread", { ms: 300 }, callOptions());
    const message = "ü".repeat(2_000_000);
    const large = await session.callTool("echo", { message }, callOptions());
    expect(await busy).toMatchObject({ result: text("reading again") });
    expect(large.kind === "result" && large.result["content"]).toEqual([{ type: "text", text: message }]);
  });
});

describe("a server that is lost", () => {
  it("ends the pending calls with how it ended, not with a bare connection error", async () => {
    const { session, record } = await startSession(fixtureSpec());
    const pending = session.callTool("slow", { ms: 60_000 }, callOptions());
    const crash = session.callTool("crash", { code: 7, stderr: "out of memory" }, callOptions());
    const errors = await Promise.all([rejection(pending), rejection(crash)]);
    for (const error of errors) {
      expect([error.code, error.message]).toEqual(["server/exited", 'server "s" exited with code 7']);
      expect(error.details.detail).toBe("out of memory");
    }
    expect(session.lost.reason).toBe(errors[0]);
    expect(await rejection(session.callTool("echo", {}, callOptions()))).toBe(errors[0]);
    await session.stop();
    expect(record.events.slice(-2)).toEqual([
      { type: "server.exited", server: "s", exitCode: 7, signal: null, expected: false },
      {
        type: "server.stopped",
        server: "s",
        by: "already-exited",
        durationMs: expect.any(Number) as unknown,
      },
    ]);
  });

  it("is told from its last words: an answer before the end counts", async () => {
    const { session } = await startSession(fixtureSpec());
    expect(await session.callTool("answer-and-exit", {}, callOptions())).toMatchObject({
      result: text("the last word"),
    });
    expect(await rejection(session.callTool("slow", { ms: 60_000 }, callOptions()))).toMatchObject({
      code: "server/exited",
    });
  });

  it("by a message over the limit", async () => {
    const { session } = await startSession(fixtureSpec([], { maxMessageBytes: 100_000 }));
    const fits = await session.callTool("huge", { bytes: 90_000 }, callOptions());
    expect(fits.kind).toBe("result");
    const error = await rejection(session.callTool("huge", { bytes: 100_000 }, callOptions()));
    expect([error.code, error.message]).toEqual([
      "server/message-too-large",
      'server "s" sent a message of more than 100000 bytes',
    ]);
    expect(session.lost.reason).toBe(error);
  });
});

describe("stop", () => {
  it("ends pending calls, records nothing afterwards, and may be called again", async () => {
    const { session, record } = await startSession(fixtureSpec(["--stderr=one", "--grandchild"]));
    const pending = rejection(session.callTool("slow", { ms: 60_000 }, callOptions()));
    await session.stop();
    expect((await pending).message).toContain('server "s" was stopped by us');
    const count = record.events.length;
    expect(record.events.at(-1)?.type).toBe("server.stopped");
    await session.stop();
    await session[Symbol.asyncDispose]();
    expect(record.events).toHaveLength(count);
    expect(session.lost.aborted).toBe(false);
    expect((await rejection(session.callTool("echo", {}, callOptions()))).message).toContain("stopped by us");
  });

  it("leaves no timer behind", async () => {
    const before = timers();
    const { session } = await startSession(fixtureSpec());
    await session.callTool("echo", { message: "hi" }, callOptions({ timeoutMs: 60_000 }));
    await session.stop();
    expect(timers()).toBeLessThanOrEqual(before);
  });
});
