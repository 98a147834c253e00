import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";
import type { EventBody } from "../../model/event.ts";
import {
  type ChannelListener,
  HttpNoAnswer,
  OriginalError,
  ServerConnection,
  unusableAnswer,
} from "./host.ts";

const asMessage = (value: unknown): JSONRPCMessage => value as JSONRPCMessage;
const request = (id: number, method = "tools/call"): JSONRPCMessage => ({ jsonrpc: "2.0", id, method });
const noAnswer = (status: number, body = ""): HttpNoAnswer =>
  new HttpNoAnswer("the response ended", { status, body, statusError: undefined });

/** A started connection, what its client received, and what was recorded. */
async function connect() {
  const received: JSONRPCMessage[] = [];
  const sent: string[] = [];
  const events: EventBody[] = [];
  let closed = 0;
  let listener: ChannelListener | undefined;
  const connection = new ServerConnection({
    name: "s",
    emit: (event) => events.push(event),
    hostLost: new AbortController().signal,
    open(given) {
      listener = given;
      return {
        send: ({ text }) => Promise.resolve(void sent.push(text)),
        async close() {
          closed += 1;
          await Promise.resolve();
          listener?.onResponse?.({ method: "DELETE", status: 200, requestIds: [] });
        },
      };
    },
  });
  Object.assign(connection, { onmessage: (message: JSONRPCMessage) => received.push(message) });
  await connection.start();
  return {
    connection,
    received,
    sent,
    events,
    closed: () => closed,
    /** Lets the server say something. */
    say: (value: unknown, text = JSON.stringify(value)) =>
      listener?.onMessage({ message: asMessage(value), text }),
    /** Ends the HTTP response to a request. */
    end: (message: JSONRPCMessage, reason: HttpNoAnswer) =>
      listener?.onNoAnswer?.({ message, text: "" }, reason),
  };
}

describe("answers", () => {
  it.each([
    { jsonrpc: "2.0", id: 1, result: {} },
    { jsonrpc: "2.0", id: 1, result: { _meta: { a: 1 }, unknown: true } },
    { jsonrpc: "2.0", id: 1, error: { code: -32000, message: "no", data: 5 } },
    { jsonrpc: "2.0", error: { code: -32700, message: "parse error" } },
    { jsonrpc: "2.0", id: 1, method: "sampling/createMessage", params: {} },
    { jsonrpc: "2.0", method: "notifications/anything", extra: true },
  ])("that are valid are passed on unchanged: %j", async (message) => {
    const { received, say } = await connect();
    say(message);
    expect(received[0]).toBe(message);
  });

  it.each([
    [{ result: "text" }, 'the result is not an object: "text"'],
    [{ result: null }, "the result is not an object: null"],
    [{ result: [1] }, "the result is not an object: [1]"],
    [{ result: {}, error: null }, "the answer has other keys than jsonrpc, id and result: error"],
    [{ result: { _meta: "x" } }, '_meta is not an object: "x"'],
    [{ error: "boom" }, 'the error is not an object: "boom"'],
    [
      { error: { code: "E1", message: "no" } },
      'the error has no code and message: {"code":"E1","message":"no"}',
    ],
    [
      { error: { code: 1, message: "no" }, result: {} },
      "the answer has other keys than jsonrpc, id and error: result",
    ],
  ])("that are not become errors, and are recorded as they came: %j", async (answer, message) => {
    const { received, events, say } = await connect();
    say({ jsonrpc: "2.0", id: 1, ...answer });
    const error = { code: -32603, message, data: unusableAnswer };
    expect(received).toEqual([{ jsonrpc: "2.0", id: 1, error }]);
    expect(events).toMatchObject([{ type: "mcp.message", message: answer }]);
  });

  it("keep an error of the server, which the SDK would rewrite, except in the handshake", async () => {
    const { connection, received, say } = await connect();
    const error = { code: -32002, message: "no", data: { uri: "a:b", more: 1 } };
    const answer = (id: number): object => ({ jsonrpc: "2.0", id, error });
    for (const [id, method] of ["resources/read", "initialize", "server/discover"].entries()) {
      await connection.send(request(id, method));
      say(answer(id));
    }
    const kept = { jsonrpc: "2.0", id: 0, error: { ...error, data: new OriginalError(error) } };
    expect(received).toEqual([kept, answer(1), answer(2)]);
  });

  it("settle a request once, also where the response has none", async () => {
    const { connection, received, say, end } = await connect();
    await connection.send(request(1));
    end(request(1), noAnswer(202));
    const reason = noAnswer(200);
    end(request(1), reason);
    end(request(1), reason);
    const error = { code: -32603, message: reason.message, data: reason };
    expect(received).toEqual([{ jsonrpc: "2.0", id: 1, error }]);
    await connection.send(request(2));
    say({ jsonrpc: "2.0", id: 2, result: {} });
    end(request(2), reason);
    expect(received).toHaveLength(2);
  });
});

it.each([
  ["an answer", (bench: Awaited<ReturnType<typeof connect>>, body: object) => bench.say(body)],
  [
    "an HTTP error",
    (bench: Awaited<ReturnType<typeof connect>>, body: object) =>
      bench.end(request(0, "initialize"), noAnswer(400, JSON.stringify(body))),
  ],
])("stays open for a second client when %s says that only newer versions are spoken", async (_, refuse) => {
  const refusal = (data: object): object => ({
    jsonrpc: "2.0",
    id: 0,
    error: { code: -32022, message: "no", data },
  });
  for (const [data, isOpen] of [
    [{ supported: ["2026-07-28"] }, true],
    [{}, true],
    [{ supported: ["2030-01-01"] }, false],
  ] as const) {
    const bench = await connect();
    await bench.connection.send(request(0, "initialize"));
    refuse(bench, refusal(data));
    await bench.connection.close();
    expect([bench.closed(), bench.connection.takeOver()]).toEqual([isOpen ? 0 : 1, isOpen]);
    await bench.connection.stop();
    expect(bench.closed()).toBeGreaterThan(0);
  }
});

it("records until the channel is closed, and nothing afterwards", async () => {
  const { connection, events, closed, end } = await connect();
  await connection.stop();
  expect(closed()).toBe(1);
  expect(events).toEqual([
    { type: "http.response", server: "s", method: "DELETE", status: 200, requestIds: [] },
  ]);
  end(request(1), noAnswer(200));
  await connection.stop();
  expect(events).toHaveLength(1);
  expect(connection.lost.aborted).toBe(false);
});

describe("limits", () => {
  it.each([
    ["100,000 notifications", 100_000, { jsonrpc: "2.0", method: "notifications/message" }],
    ["10,000 requests", 10_000, request(1, "ping")],
  ])("end the connection after %s; answers do not count", async (_, most, message) => {
    const { connection, say, received } = await connect();
    for (let count = 0; count < most; count += 1) say(message, "");
    for (let id = 0; id < 10; id += 1) say({ jsonrpc: "2.0", id, result: {} });
    expect([received.length, connection.lost.aborted]).toEqual([most + 10, false]);
    say(message, "");
    expect(received).toHaveLength(most + 10);
    expect((connection.lost.reason as Error).message).toBe(
      'server "s" sent more than 100000 notifications, or 10000 requests, in one trial',
    );
  });
});
