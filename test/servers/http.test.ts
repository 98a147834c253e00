import { brotliCompressSync, gzipSync } from "node:zlib";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { McpvalsError } from "../../src/base/error.ts";
import type { HttpServerSpec } from "../../src/model/server.ts";
import type { SharedLimits } from "../../src/process/adaptive-limit.ts";
import {
  answer,
  type Exchange,
  type HttpFixture,
  startEvents,
  startHttpFixture,
} from "../fixtures/servers/http-server.ts";
import { callOptions, failToStart, httpSpec, rejection, type Started, startSession } from "./support.ts";

type Misbehave = (exchange: Exchange) => boolean;

async function fixture(misbehave?: Misbehave): Promise<HttpFixture> {
  const server = await startHttpFixture(misbehave);
  onTestFinished(() => server.close());
  return server;
}

async function startOver(
  misbehave: Misbehave,
  changes: Partial<HttpServerSpec> = {},
): Promise<Started & { server: HttpFixture }> {
  const server = await fixture(misbehave);
  return { server, ...(await startSession(httpSpec(server.url, changes))) };
}

/** Misbehaves on tools/call only. */
function onCall(misbehave: (exchange: Exchange) => void): Misbehave {
  return (exchange) => {
    if (exchange.message.method !== "tools/call") return false;
    misbehave(exchange);
    return true;
  };
}

/** Speaks the older transport: answers come over one stream of events. */
function overSse(misbehave: (exchange: Exchange) => void): Misbehave {
  let events: Exchange["response"] | undefined;
  return (exchange) => {
    const { request, response, message } = exchange;
    if (request.method === "GET") {
      startEvents(response);
      response.write("event: endpoint\ndata: /messages\n\n");
      events = response;
    } else if (message.method === "tools/call") misbehave({ ...exchange, response: events ?? response });
    else {
      response.writeHead(202).end();
      if (message.id !== undefined) {
        const sink = {
          setHeader: () => undefined,
          end: (body: string) => events?.write(`data: ${body}\n\n`),
        };
        answer(sink as unknown as Exchange["response"], message);
      }
    }
    return true;
  };
}

const text = (value: string): object => ({ content: [{ type: "text", text: value }] });

describe("a server over Streamable HTTP", () => {
  it("leaves a complete record and gets its headers", async () => {
    const server = await fixture();
    const spec = httpSpec(`${server.url}?key=abc`, { headers: { authorization: "Bearer abc" } });
    const { session, record } = await startSession(spec);
    expect(server.headers()["authorization"]).toBe("Bearer abc");
    const outcome = await session.callTool("echo", { message: "hi" }, callOptions());
    expect(outcome).toEqual({ kind: "result", result: text("hi"), latencyMs: expect.any(Number) as unknown });
    await session.stop();
    expect(record.events[0]).toEqual({
      type: "server.started",
      server: "s",
      transport: "shttp",
      target: `${server.url}?…`,
    });
    // The status of a call comes before its answer.
    const types = record.events.map(({ type }) => type).join();
    expect(types).toContain("mcp.message,http.response,mcp.message,http.response,server.stopped");
    const last = record.of("http.response").slice(-2);
    expect(last).toEqual([
      { type: "http.response", server: "s", method: "POST", status: 200, requestIds: [2] },
      { type: "http.response", server: "s", method: "DELETE", status: 200, requestIds: [] },
    ]);
    expect(record.events.at(-1)).toMatchObject({ type: "server.stopped", by: "disconnect" });
    expect(session.lost.aborted).toBe(false);
    expect(JSON.stringify(record.events)).not.toContain("abc");
  });

  it("may fail a single call with a status, and the session goes on", async () => {
    let calls = 0;
    const { session, record } = await startOver((exchange) => {
      if (exchange.message.method !== "tools/call" || ++calls > 1) return false;
      exchange.response.writeHead(503).end("try later");
      return true;
    });
    expect(await session.callTool("echo", {}, callOptions())).toMatchObject({
      kind: "error",
      message: "HTTP 503 Service Unavailable: try later",
    });
    expect(record.of("http.response").at(-1)).toMatchObject({ status: 503, requestIds: [2] });
    expect(session.lost.aborted).toBe(false);
    expect(await session.callTool("echo", { message: "again" }, callOptions())).toMatchObject({
      result: text("again"),
    });
  });

  it.each([
    ["gzip", gzipSync],
    ["br", brotliCompressSync],
  ])("that packs its answers unasked with %s is understood", async (encoding, pack) => {
    const { session } = await startOver(
      onCall(({ response, message }) => {
        const body = { jsonrpc: "2.0", id: message.id, result: text("packed") };
        response.writeHead(200, { "content-type": "application/json", "content-encoding": encoding });
        response.end(pack(JSON.stringify(body)));
      }),
    );
    expect(await session.callTool("echo", {}, callOptions())).toMatchObject({ result: text("packed") });
  });

  it("that refuses a call as too many gets it again after the time that it asks for, which is not the call's", async () => {
    const arrived: number[] = [];
    const { session, record } = await startOver(
      onCall(({ response, message }) => {
        arrived.push(performance.now());
        if (arrived.length > 2) answer(response, message);
        else response.writeHead(429, { "retry-after-ms": "1200" }).end("slow down");
      }),
    );
    const outcome = await session.callTool("echo", { message: "hi" }, callOptions({ timeoutMs: 2000 }));
    expect(outcome).toMatchObject({ kind: "result", result: text("hi") });
    expect(outcome.latencyMs).toBeLessThan(2000);
    const statuses = record.of("http.response").filter(({ requestIds }) => requestIds.includes(2));
    expect(statuses.map(({ status }) => status)).toEqual([429, 429, 200]);
    expect(record.of("request.held").map(({ id }) => id)).toEqual([2, 2]);
    const [first = 0, second = 0, third = 0] = arrived;
    expect(Math.min(second - first, third - second)).toBeGreaterThan(1190);
  });

  it.each([
    ["again and again", "1", 5],
    ["for longer than anybody waits", "3600000", 1],
  ])("that refuses a call %s fails it", async (_, wait, attempts) => {
    let calls = 0;
    const { session, record } = await startOver(
      onCall(({ response }) => {
        calls += 1;
        response.writeHead(429, { "retry-after-ms": wait }).end("slow down");
      }),
    );
    const outcome = await session.callTool("echo", {}, callOptions());
    expect(outcome).toMatchObject({ kind: "error", message: "HTTP 429 Too Many Requests: slow down" });
    expect([calls, record.of("http.response").filter(({ status }) => status === 429).length]).toEqual([
      attempts,
      attempts,
    ]);
  });

  it("that refused a request as too many gets no other of the run before the time that it asked for", async () => {
    const arrived: number[] = [];
    const server = await fixture(
      onCall(({ response, message }) => {
        arrived.push(performance.now());
        if (arrived.length > 1) answer(response, message);
        else response.writeHead(429, { "retry-after": "1" }).end();
      }),
    );
    const rateLimits: SharedLimits = { most: 2, limits: new Map() };
    const first = await startSession(httpSpec(server.url), { rateLimits });
    const second = await startSession(httpSpec(server.url), { rateLimits });
    const refused = first.session.callTool("echo", { message: "a" }, callOptions());
    await vi.waitFor(() => expect(first.record.of("http.response").at(-1)).toMatchObject({ status: 429 }));
    const other = await second.session.callTool("echo", { message: "b" }, callOptions());
    expect([await refused, other]).toMatchObject([{ result: text("a") }, { result: text("b") }]);
    expect(Math.min(...arrived.slice(1)) - (arrived[0] ?? 0)).toBeGreaterThan(990);
    expect(first.record.of("server.limit_changed")).toEqual([
      { type: "server.limit_changed", server: "s", from: 2, to: 1, reason: "HTTP 429" },
    ]);
  });

  it("that ends a stream without the answer gives an error at once; one that cuts it is lost", async () => {
    let isCut = false;
    const { session } = await startOver(
      onCall(({ response }) => {
        startEvents(response);
        if (isCut) response.write(": working on it\n\n", () => response.destroy());
        else response.end(": nothing\n\n");
      }),
    );
    expect(await session.callTool("echo", {}, callOptions())).toMatchObject({
      kind: "error",
      message: "the server ended the response without an answer",
      unusable: true,
    });
    expect(session.lost.aborted).toBe(false);
    isCut = true;
    const error = await rejection(session.callTool("echo", {}, callOptions()));
    expect(error.code).toBe("server/unreachable");
    expect(error.message).toContain("the connection was closed by the server");
    expect(session.lost.reason).toBe(error);
  });

  it("is asked three times for the rest of a stream, and again after each new event", async () => {
    const asked: unknown[] = [];
    const { session } = await startOver(({ request, response, message }) => {
      const last = request.headers["last-event-id"];
      if (message.method !== "tools/call" && last === undefined) return false;
      startEvents(response);
      if (last !== undefined) asked.push(last);
      const isNew = last === undefined || asked.length === 2;
      response.end(isNew ? `id: ${asked.length}\nretry: 1\ndata:\n\n` : "");
      return true;
    });
    const outcome = await session.callTool("echo", {}, callOptions());
    expect(outcome).toMatchObject({ message: "the server ended the response without an answer" });
    expect(asked).toEqual(["0", "0", "2", "2", "2"]);
  });

  it("that stops is lost, with all its pending calls and later ones", async () => {
    const { session, server } = await startOver(onCall(() => undefined));
    const call = (): Promise<McpvalsError> => rejection(session.callTool("echo", {}, callOptions()));
    const pending = [call(), call()];
    await server.close();
    for (const error of await Promise.all(pending)) expect(error.code).toBe("server/unreachable");
    expect(session.lost.aborted).toBe(true);
    expect((await call()).message).toMatch(
      /^server "s" at http:.*: (connection refused|the connection was closed)/,
    );
  });

  it.each(["application/json", "text/event-stream"])(
    "that answers too much (%s) is refused",
    async (type) => {
      const { session } = await startOver(
        onCall(({ response }) => {
          response.writeHead(200, { "content-type": type });
          response.write("data: ");
          for (let sent = 0; sent < 2_000_000; sent += 100_000) response.write("x".repeat(100_000));
        }),
        { maxMessageBytes: 1_000_000 },
      );
      const error = await rejection(session.callTool("echo", {}, callOptions()));
      expect([error.code, error.message]).toEqual([
        "server/message-too-large",
        'server "s" sent a message of more than 1000000 bytes',
      ]);
    },
  );

  it("that does not answer DELETE is stopped all the same", async () => {
    const { session, record } = await startOver(({ request }) => request.method === "DELETE");
    await session.stop();
    expect(record.events.at(-1)).toMatchObject({ type: "server.stopped", by: "disconnect" });
  });
});

describe("a server over HTTP that does not start", () => {
  it.each([
    ["localhost", /^server "s": not a URL: "localhost"$/],
    ["http://no-such-host.invalid/mcp", /no such host|could not be looked up/],
  ])("is unreachable at %s", async (url, message) => {
    const { error } = await failToStart(httpSpec(url));
    expect(error.code).toBe("server/unreachable");
    expect(error.message).toMatch(message);
  });

  it("may only refuse tools/list", async () => {
    const server = await fixture(({ response, message }) => {
      if (message.method !== "tools/list") return false;
      response.writeHead(500).end();
      return true;
    });
    expect((await failToStart(httpSpec(server.url))).error.code).toBe("server/http-status");
  });
});

describe("a server over HTTP+SSE", () => {
  it("is lost when its stream of events ends", async () => {
    const { session, record } = await startOver(
      overSse(({ response }) => response.end()),
      { transport: "sse" },
    );
    const error = await rejection(session.callTool("echo", {}, callOptions()));
    expect(error.code).toBe("server/unreachable");
    expect(error.message).toContain("ended the event stream");
    expect(record.of("server.ready")).toHaveLength(1);
  });

  it.each([401, 404])("does not start when the stream is refused with %i", async (status) => {
    const server = await fixture(({ response }) => {
      response.writeHead(status).end();
      return true;
    });
    const { error } = await failToStart(httpSpec(server.url, { transport: "sse" }));
    expect(error.code).toBe("server/http-status");
    expect(error.message).toContain(`answered GET ${server.url} with HTTP ${status}`);
  });

  it("does not start when nothing listens", async () => {
    const server = await fixture();
    await server.close();
    const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    const before = timers();
    const { error } = await failToStart(httpSpec(server.url, { transport: "sse" }));
    expect(error.code).toBe("server/unreachable");
    // The SDK would try again for ever, and keep this process alive with it.
    // Timers of earlier tests in this process may end meanwhile.
    expect(timers()).toBeLessThanOrEqual(before);
  });
});
