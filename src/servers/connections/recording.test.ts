import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { expect, it } from "vitest";
import type { McpvalsError } from "../../core/errors/error.ts";
import type { EventBody } from "../../core/trace/events.ts";
import { RecordingTransport } from "./transports.ts";

interface Bench {
  /** Lets the server say something. */
  readonly say: (message: unknown) => void;
  readonly received: JSONRPCMessage[];
  readonly events: EventBody[];
  readonly broken: McpvalsError[];
}

function setUp(): Bench {
  const inner: Transport = {
    start: () => Promise.resolve(),
    close: () => Promise.resolve(),
    send: () => Promise.resolve(),
  };
  const received: JSONRPCMessage[] = [];
  const events: EventBody[] = [];
  const broken: McpvalsError[] = [];
  const recording = new RecordingTransport(inner, {
    server: "s",
    emit: (event) => events.push(event),
    onBroken: (error) => broken.push(error),
  });
  Object.assign(recording, { onmessage: (message: JSONRPCMessage) => received.push(message) });
  return { say: (message) => inner.onmessage?.(message as JSONRPCMessage), received, events, broken };
}

function nested(levels: number): unknown {
  const data: unknown = JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);
  return { jsonrpc: "2.0", method: "notifications/message", params: { data } };
}

it("takes messages of up to 400 levels", () => {
  const { say, received, events, broken } = setUp();
  say(nested(398));
  expect([received.length, events.length, broken]).toEqual([1, 1, []]);
});

it("stops at a message of more levels, which is neither recorded nor passed on", () => {
  const { say, received, events, broken } = setUp();
  say(nested(399));
  say(nested(100_000));
  expect([received, events]).toEqual([[], []]);
  expect(broken.map(({ code, message }) => `${code}: ${message}`)).toEqual([
    'server/protocol-error: server "s" sent a message nested more than 400 levels deep',
    'server/protocol-error: server "s" sent a message nested more than 400 levels deep',
  ]);
});

it("stops after 100,000 messages that are not answers", () => {
  const { say, received, events, broken } = setUp();
  for (let count = 0; count < 100_000; count += 1) say({ jsonrpc: "2.0", method: "notifications/message" });
  for (let id = 0; id < 10; id += 1) say({ jsonrpc: "2.0", id, result: {} });
  expect([received.length, events.length, broken.length]).toEqual([100_010, 100_010, 0]);
  say({ jsonrpc: "2.0", id: 1, method: "sampling/createMessage" });
  expect([received.length, events.length]).toEqual([100_010, 100_010]);
  expect(broken.map((error) => error.message)).toEqual([
    'server "s" sent more than 100000 notifications, or 10000 requests, in one trial',
  ]);
});

it("stops after 10,000 requests", () => {
  const { say, received, broken } = setUp();
  for (let id = 0; id < 10_001; id += 1) say({ jsonrpc: "2.0", id, method: "ping" });
  expect([received.length, broken.length]).toEqual([10_000, 1]);
});
