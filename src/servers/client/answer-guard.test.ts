import type { JSONRPCMessage, Transport, TransportSendOptions } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";
import { AnswerGuard, OriginalError, unusableAnswer } from "./handshake.ts";

interface Bench {
  readonly guard: AnswerGuard;
  readonly received: JSONRPCMessage[];
  readonly unanswered: number[];
  /** Lets the other side say something. */
  readonly say: (message: unknown) => void;
  /** Ends the stream that was to carry the answer to the last message sent. */
  readonly endStream: () => void;
}

function setUp(): Bench {
  let options: TransportSendOptions | undefined;
  const inner: Transport = {
    start: () => Promise.resolve(),
    close: () => Promise.resolve(),
    send(_message, given) {
      options = given;
      return Promise.resolve();
    },
  };
  const received: JSONRPCMessage[] = [];
  const unanswered: number[] = [];
  const guard = new AnswerGuard(inner, { onUnanswered: () => unanswered.push(received.length) });
  Object.assign(guard, { onmessage: (message: JSONRPCMessage) => received.push(message) });
  return {
    guard,
    received,
    unanswered,
    say: (message) => inner.onmessage?.(message as JSONRPCMessage),
    endStream: () => options?.onRequestStreamEnd?.(),
  };
}

const request: JSONRPCMessage = { jsonrpc: "2.0", id: 1, method: "tools/call" };
const refusal = (message: string): object => ({
  jsonrpc: "2.0",
  id: 1,
  error: { code: -32603, message, data: unusableAnswer },
});

describe("AnswerGuard", () => {
  it.each([
    { jsonrpc: "2.0", id: 1, result: {} },
    { jsonrpc: "2.0", id: 1, result: { _meta: { a: 1 }, unknown: true } },
    { jsonrpc: "2.0", id: 1, error: { code: -32000, message: "no", data: 5 } },
    { jsonrpc: "2.0", error: { code: -32700, message: "parse error" } },
    { jsonrpc: "2.0", id: 1, method: "sampling/createMessage", params: {} },
    { jsonrpc: "2.0", method: "notifications/anything", extra: true },
  ])("passes on what is in order: %j", (message) => {
    const { received, say } = setUp();
    say(message);
    expect(received).toEqual([message]);
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
  ])("makes an error of %j", (answer, message) => {
    const { received, say } = setUp();
    say({ jsonrpc: "2.0", id: 1, ...answer });
    expect(received).toEqual([refusal(message)]);
  });

  it("keeps the error that answers a request, since the SDK would make another one of it", async () => {
    const { guard, received, say } = setUp();
    const error = { code: -32002, message: "no", data: { uri: "a:b", more: 1 } };
    await guard.send({ jsonrpc: "2.0", id: 1, method: "resources/read" });
    say({ jsonrpc: "2.0", id: 1, error });
    expect(received).toEqual([
      { jsonrpc: "2.0", id: 1, error: { ...error, data: new OriginalError(error) } },
    ]);
  });

  it.each(["initialize", "server/discover"])(
    "leaves errors of %s to the client, which reads their data",
    async (method) => {
      const { guard, received, say } = setUp();
      const message = {
        jsonrpc: "2.0",
        id: 0,
        error: { code: -32022, message: "no", data: { supported: [] } },
      };
      await guard.send({ jsonrpc: "2.0", id: 0, method });
      say(message);
      expect(received[0]).toBe(message);
    },
  );

  it("settles a request whose stream ends without the answer", async () => {
    const { guard, received, unanswered, endStream } = setUp();
    await guard.send(request);
    endStream();
    endStream();
    expect(received).toEqual([refusal("the server ended the response without an answer")]);
    expect(unanswered).toEqual([0]);
  });

  it("says nothing when the client has ended the stream itself, to cancel the request", async () => {
    const { guard, received, unanswered, endStream } = setUp();
    const cancel = new AbortController();
    await guard.send(request, { requestSignal: cancel.signal });
    cancel.abort();
    endStream();
    expect([received, unanswered]).toEqual([[], []]);
  });

  it("says nothing when the answer had come before", async () => {
    const { guard, received, unanswered, say, endStream } = setUp();
    await guard.send(request);
    say({ jsonrpc: "2.0", id: 1, result: {} });
    endStream();
    expect([received.length, unanswered]).toEqual([1, []]);
  });
});
