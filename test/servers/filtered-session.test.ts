import { expect, it, onTestFinished } from "vitest";
import type { Fault, MockServerSpec, ServerSpec } from "../../src/model/server.ts";
import { createFilters } from "../../src/servers/filters/filters.ts";
import { type CallOutcome, openSession, type ServerSession } from "../../src/servers/client/session.ts";
import { openHost } from "../../src/servers/server-pool.ts";
import { watchLeftovers } from "../support/leftovers.ts";
import { callOptions, createRecord, fixtureSpec, type Record, startSession } from "./support.ts";

type Rules = Pick<ServerSpec, "tools" | "rateLimit" | "faults">;

/** A session of an agent in this process, with filters between it and the server, and the agent's record. */
async function start(spec: ServerSpec): Promise<{ session: ServerSession; record: Record }> {
  const record = createRecord();
  const host = await openHost("s", spec);
  onTestFinished(() => host.stop());
  const { signal } = new AbortController();
  const { of: filters } = createFilters(spec, { seed: "0", limiter: host.limiter });
  const options = { emit: record.emit, signal, version: "9.9.9", agent: { filters } };
  const session = await openSession(host, spec, options);
  onTestFinished(() => session.stop());
  return { session, record };
}

/** The fixture server with filters. */
const filtered = (rules: Rules): ReturnType<typeof start> => start({ ...fixtureSpec(), ...rules });

const echo = (session: ServerSession, message = "hi", timeoutMs = 5000): Promise<CallOutcome> =>
  session.callTool("echo", { message }, callOptions({ timeoutMs }));

const always = (fault: Omit<Fault, "probability">): Rules => ({ faults: [{ ...fault, probability: 1 }] });

it("injects a dropped call and a truncated result, and holds requests", async () => {
  const { session, record } = await filtered({
    rateLimit: { requests: 1, perMs: 50 },
    faults: [
      { kind: "drop", tool: "add", probability: 1 },
      { kind: "truncate", tool: "echo", bytes: 2, probability: 1 },
    ],
  });
  expect(await session.callTool("add", {}, callOptions({ timeoutMs: 30 }))).toMatchObject({
    kind: "timeout",
  });
  const before = record.of("request.held").length;
  const cut = { result: { content: [{ type: "text", text: "ab" }] } };
  expect(await Promise.all([echo(session, "abc"), echo(session, "abd")])).toMatchObject([cut, cut]);
  expect(record.of("request.held").length).toBeGreaterThan(before);
  const last = record.of("mcp.message").at(-1);
  expect(last?.message).toMatchObject(cut);
  expect(last?.raw).toBeUndefined();
});

it("holds requests without filters too, and the wait takes none of the time of the call", async () => {
  const { session, record } = await startSession({
    ...fixtureSpec(),
    rateLimit: { requests: 2, perMs: 500 },
  });
  // Of three calls at once, the last one is held.
  const started = performance.now();
  const [, , { kind, latencyMs }] = await Promise.all([echo(session), echo(session), echo(session)]);
  const tookMs = performance.now() - started;
  const held = record.of("request.held").at(-1);
  expect([kind, held?.server]).toEqual(["result", "s"]);
  expect(tookMs - latencyMs).toBeGreaterThan(0.9 * (held?.heldMs ?? Infinity));
});

it("is not asked for a sign of life where the limit would hold that", async () => {
  const { session, record } = await startSession({
    ...fixtureSpec(),
    rateLimit: { requests: 2, perMs: 60_000 },
  });
  await session.checkAlive();
  expect(JSON.stringify(record.of("mcp.message"))).not.toContain('"ping"');
});

it("disconnects, so that every call fails at once, and the server is not lost", async () => {
  const { session, record } = await filtered(always({ kind: "disconnect", tool: "echo" }));
  const slow = session.callTool("slow", { ms: 60_000 }, callOptions());
  expect(await echo(session)).toMatchObject({ kind: "error" });
  expect(await slow).toMatchObject({ kind: "error" });
  expect(await echo(session)).toMatchObject({ kind: "error" });
  expect(session.lost.aborted).toBe(false);
  expect(record.of("fault.injected")).toMatchObject([{ fault: "disconnect", tool: "echo" }]);
});

it("leaves no timer behind when the agent's session ends", async () => {
  const spec: MockServerSpec = {
    transport: "mock",
    startupTimeoutMs: 5000,
    maxMessageBytes: 1000,
    mock: { tools: { a: { inputSchema: {}, responses: [] } }, resources: [], prompts: [], state: {} },
    ...always({ kind: "delay", ms: 60_000 }),
  };
  const nothingIsLeft = watchLeftovers();
  const { session } = await start(spec);
  const calling = session.callTool("a", {}, callOptions());
  await session.stop();
  await expect(calling).rejects.toThrow("stopped by mcpvals");
  await nothingIsLeft();
});
