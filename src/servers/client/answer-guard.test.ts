import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";
import type { RequestOptions } from "../connections/transports.ts";
import { HttpNoAnswer } from "../connections/host.ts";
import { AnswerGuard, OriginalError, unusableAnswer } from "./answer-guard.ts";

interface Bench {
  readonly guard: AnswerGuard;
  readonly received: JSONRPCMessage[];
  /** Lets the other side say something. */
  readonly say: (message: unknown) => void;
  /** Ends the HTTP response to the last message sent. */
  readonly endResponse: () => void;
}

const ended = new HttpNoAnswer("the response ended", { status: 200, body: "", statusError: undefined });

function setUp(): Bench {
  let options: RequestOptions | undefined;
  const inner: Transport = {
    start: () => Promise.resolve(),
    close: () => Promise.resolve(),
    send(_message, given?: RequestOptions) {
      options = given;
      return Promise.resolve();
    },
  };
  const received: JSONRPCMessage[] = [];
  const guard = new AnswerGuard(inner);
  Object.assign(guard, { onmessage: (message: JSONRPCMessage) => received.push(message) });
  return {
    guard,
    received,
    say: (message) => inner.onmessage?.(message as JSONRPCMessage),
    endResponse: () => options?.onNoAnswer?.(ended),
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

  it("keeps an error of the server, which the SDK would rewrite", async () => {
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

  it("settles a request whose response has no answer, once", async () => {
    const { guard, received, endResponse } = setUp();
    await guard.send(request);
    endResponse();
    endResponse();
    const error = { code: -32603, message: ended.message, data: ended };
    expect(received).toEqual([{ jsonrpc: "2.0", id: 1, error }]);
  });

  it("does nothing at the end of a response whose answer came before", async () => {
    const { guard, received, say, endResponse } = setUp();
    await guard.send(request);
    say({ jsonrpc: "2.0", id: 1, result: {} });
    endResponse();
    expect(received).toHaveLength(1);
  });
});
