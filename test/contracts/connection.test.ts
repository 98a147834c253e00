import { getEventListeners } from "node:events";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { McpvalsError } from "../../src/base/error.ts";
import type { ServerSpec } from "../../src/model/server.ts";
import { startHttpBridge } from "../fixtures/servers/http-bridge.ts";
import { livingProcesses } from "../process/support.ts";
import {
  callOptions,
  fixtureSpec,
  httpSpec,
  type Record,
  rejection,
  startSession,
} from "../servers/support.ts";
import { watchLeftovers } from "../support/leftovers.ts";

interface Reached {
  readonly spec: ServerSpec;
  /** Waits until the server has nothing of us any more. */
  readonly untilLeft: () => Promise<void>;
  /** Ends what stands around the server. */
  readonly close: () => Promise<void>;
}

/** The fixture server, over every transport; one that is missing does not compile. */
const transports: {
  readonly [T in Exclude<ServerSpec["transport"], "mock">]: (flags: string[]) => Promise<Reached>;
} = {
  stdio: (flags) =>
    Promise.resolve({
      spec: fixtureSpec(flags),
      async untilLeft() {
        if (process.platform === "linux") expect(await livingProcesses()).toEqual([]);
      },
      close: () => Promise.resolve(),
    }),
  shttp: (flags) => overHttp("shttp", flags),
  sse: (flags) => overHttp("sse", flags),
};

async function overHttp(transport: "shttp" | "sse", flags: string[]): Promise<Reached> {
  const bridge = await startHttpBridge(flags);
  onTestFinished(() => bridge.close());
  return {
    spec: httpSpec(bridge[transport], { transport }),
    untilLeft: () => vi.waitFor(() => expect(bridge.open()).toBe(0), { timeout: 100_000, interval: 5 }),
    close: () => bridge.close(),
  };
}

const text = (value: string): object => ({ content: [{ type: "text", text: value }] });
const latencyMs = expect.any(Number) as unknown;

/** What is on record of the messages: direction, id, and what they are about. */
function messagesIn(record: Record): string[] {
  return record.of("mcp.message").map(({ direction, message }) => {
    const { id, method, params } = message as { id?: number; method?: string; params?: { name?: string } };
    const about = [id, method, params?.name].filter((part) => part !== undefined).join(" ");
    return `${direction === "client-to-server" ? ">" : "<"} ${about}`;
  });
}

describe.each(Object.entries(transports))("a server over %s", (transport, reach) => {
  const start = async (...flags: string[]): Promise<Awaited<ReturnType<typeof startSession>> & Reached> => {
    const reached = await reach(flags);
    return { ...reached, ...(await startSession(reached.spec)) };
  };

  it("is ready after the handshake and all pages of its tools, which are kept as they came", async () => {
    const { session, record } = await start("--pages=4");
    const names = session.tools.map(({ name }) => name);
    expect([names[0], names.at(-1), new Set(names).size]).toEqual(["echo", "unread", names.length]);
    const [started, ready] = [record.events[0], record.events.at(-1)];
    expect(started).toMatchObject({ type: "server.started", server: "s", transport });
    expect(ready).toEqual({
      type: "server.ready",
      server: "s",
      name: "fixture",
      version: "1.2.3",
      protocolVersion: expect.any(String) as unknown,
      tools: names.length,
      durationMs: expect.any(Number) as unknown,
    });
    const kept = session.tools.map((tool) => (tool as { extension?: { kept: boolean } }).extension?.kept);
    expect(new Set(kept)).toEqual(new Set([true]));
  });

  it("gives results and failures as they came", async () => {
    const { session } = await start();
    const call = (tool: string, args = {}): Promise<unknown> => session.callTool(tool, args, callOptions());
    expect(await call("add", { a: 2, b: 3 })).toEqual({ kind: "result", result: text("5"), latencyMs });
    const failed = { ...text("it went wrong"), isError: true };
    expect(await call("fail")).toEqual({ kind: "result", result: failed, latencyMs });
    const refusal = { message: "not today", code: -32042, data: { retry: "tomorrow" } };
    expect(await call("refuse")).toEqual({ kind: "error", ...refusal, latencyMs });
    expect(await call("nothing")).toMatchObject({ kind: "error", code: -32602 });
  });

  it("gives resources and prompts as they came, whatever no schema knows included", async () => {
    const { session } = await start();
    const read = (uri: string): Promise<unknown> => session.readResource(uri, callOptions());
    expect(await read("fixture:odd")).toEqual({
      kind: "result",
      result: { contents: [{ uri: "fixture:odd", text: "odd", extension: { kept: true } }, 5] },
      latencyMs,
    });
    const data = { uri: "fixture:none", known: 4 };
    const none = { message: "no resource fixture:none", code: -32002, data };
    expect(await read("fixture:none")).toEqual({ kind: "error", ...none, latencyMs });
    const content = { city: "Rome", n: "5", list: "[1]" };
    const messages = [{ role: "narrator", content, extension: [1] }];
    expect(await session.getPrompt("odd", { city: "Rome", n: 5, list: [1] }, callOptions())).toEqual({
      kind: "result",
      result: { messages, more: 1 },
      latencyMs,
    });
    expect(await session.getPrompt("none", {}, callOptions())).toMatchObject({
      kind: "error",
      message: "no prompt none",
      code: -32602,
    });
  });

  it("never takes an answer of the wrong shape for a result", async () => {
    const { session } = await start();
    const options = callOptions({ timeoutMs: 1000 });
    for (const [outcome, message] of [
      [await session.callTool("no-object", {}, options), "is not an object"],
      [await session.readResource("fixture:no-contents", options), "contents is not an array"],
      [await session.getPrompt("no-messages", {}, options), "messages is not an array"],
    ] as const)
      expect(outcome).toMatchObject({
        kind: "error",
        message: expect.stringContaining(message) as unknown,
        unusable: true,
      });
  });

  it("has limited time for resources and prompts too", async () => {
    const { session } = await start();
    const options = callOptions({ timeoutMs: 50 });
    for (const [outcome, what] of [
      [await session.readResource("fixture:slow", options), 'resource "fixture:slow"'],
      [await session.getPrompt("slow", {}, options), 'prompt "slow"'],
    ] as const)
      expect(outcome).toEqual({ kind: "timeout", message: `${what} did not answer within 50 ms`, latencyMs });
  });

  it("has every message on record as it was, in both directions, in order", async () => {
    const { session, record } = await start("--pages=2");
    const args = { message: "ü \u0000 \ud800 😀", extra: { deep: [1, null, { a: true }] } };
    await session.callTool("echo", args, callOptions());
    await session.callTool("no-content", {}, callOptions());
    await session.stop();
    expect(messagesIn(record)).toEqual([
      "> 0 initialize",
      "< 0",
      "> notifications/initialized",
      "> 1 tools/list",
      "< 1",
      "> 2 tools/list",
      "< 2",
      "> 3 tools/call echo",
      "< 3",
      "> 4 tools/call no-content",
      "< 4",
    ]);
    const calls = record.of("mcp.message").slice(-4);
    expect(calls.map(({ message }) => message)).toMatchObject([
      { params: { arguments: args } },
      { jsonrpc: "2.0", id: 3, result: text(args.message) },
      { params: { arguments: {} } },
      { jsonrpc: "2.0", id: 4, result: {} },
    ]);
  });

  it("gets the cancellation of a call that takes too long, and goes on", async () => {
    const { session } = await start();
    const outcome = await session.callTool("slow", { ms: 60_000 }, callOptions({ timeoutMs: 100 }));
    expect(outcome).toEqual({
      kind: "timeout",
      message: 'tool "slow" did not answer within 100 ms',
      latencyMs,
    });
    await vi.waitFor(async () => {
      const cancelled = await session.callTool("cancelled", {}, callOptions());
      expect(cancelled).toMatchObject({ result: text(expect.stringContaining('"requestId":2') as string) });
    });
    expect(session.lost.aborted).toBe(false);
  });

  it("is told to cancel a call whose signal aborts; that rejects with the reason and leaves no listener", async () => {
    const { session, record } = await start();
    const controller = new AbortController();
    const reason = new McpvalsError("trial/timeout", "too long");
    const calling = session.callTool("slow", { ms: 60_000 }, callOptions({ signal: controller.signal }));
    controller.abort(reason);
    await expect(calling).rejects.toBe(reason);
    expect(record.of("mcp.message").at(-1)?.message).toMatchObject({
      method: "notifications/cancelled",
      params: { requestId: 2 },
    });
    const again = session.callTool("echo", {}, callOptions({ signal: controller.signal }));
    await expect(again).rejects.toBe(reason);
    expect(getEventListeners(controller.signal, "abort")).toEqual([]);
    expect(await session.callTool("echo", { message: "on" }, callOptions())).toMatchObject({
      result: text("on"),
    });
  });

  it("that is lost in a call ends all of them with the same error, and every later one", async () => {
    const { session, record, untilLeft } = await start();
    const pending = rejection(session.callTool("slow", { ms: 60_000 }, callOptions()));
    const crash = rejection(session.callTool("crash", { code: 7 }, callOptions()));
    const [first, second] = await Promise.all([pending, crash]);
    expect(first.kind).toBe("environment");
    expect(session.lost.reason).toBe(first);
    expect(second).toBe(first);
    expect(await rejection(session.callTool("echo", {}, callOptions()))).toBe(first);
    await session.stop();
    expect(record.events.at(-1)).toMatchObject({ type: "server.stopped", server: "s" });
    await untilLeft();
  });

  it("leaves nothing when it is stopped, not even on record", async () => {
    const warm = await start();
    await warm.session.stop();
    await warm.close();
    const nothingIsLeft = watchLeftovers();
    const { session, record, untilLeft, close } = await start();
    await session.callTool("echo", { message: "hi" }, callOptions({ timeoutMs: 60_000 }));
    const pending = rejection(session.callTool("slow", { ms: 60_000 }, callOptions()));
    await session.stop();
    expect((await pending).message).toContain('server "s" was stopped by mcpvals');
    expect(record.events.at(-1)).toMatchObject({ type: "server.stopped", server: "s" });
    const count = record.events.length;
    await session.stop();
    await session[Symbol.asyncDispose]();
    expect((await rejection(session.callTool("echo", {}, callOptions()))).message).toContain(
      "stopped by mcpvals",
    );
    await untilLeft();
    await close();
    await nothingIsLeft();
    expect(record.events).toHaveLength(count);
    expect(session.lost.aborted).toBe(false);
  });
});
