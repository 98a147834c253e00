import { expect, it } from "vitest";
import type { EventBody, TraceEvent } from "../model/event.ts";
import { containerWeight, valueWeight } from "../base/read-json.ts";
import { createRecorder, weightOf } from "./recorder.ts";
import { createRedactor } from "./redact.ts";

function record(...bodies: readonly EventBody[]): { events: TraceEvent[]; numbers: number[] } {
  const events: TraceEvent[] = [];
  let time = 100;
  const emit = createRecorder("t7", {
    redact: createRedactor([{ name: "TOKEN", value: "hunter2" }]),
    now: () => time++,
    onBroken: (error) => expect.unreachable(String(error)),
    events,
    onEvent: (event, json) => expect(JSON.parse(json)).toEqual(event),
  });
  return { numbers: bodies.map(emit), events };
}

function received(message: object, raw?: string): EventBody {
  return {
    type: "mcp.message",
    server: "s",
    direction: "server-to-client",
    message: message as never,
    ...(raw === undefined ? {} : { raw }),
  };
}

it("stamps events with number, time and trial, and gives the number", () => {
  const { events, numbers } = record(
    { type: "agent.message", turn: 0, text: "one" },
    { type: "agent.message", turn: 0, text: "two" },
  );
  expect(numbers).toEqual([1, 2]);
  expect(events).toEqual([
    { seq: 1, at: 100, trial: "t7", type: "agent.message", turn: 0, text: "one" },
    { seq: 2, at: 101, trial: "t7", type: "agent.message", turn: 0, text: "two" },
  ]);
});

it("removes secrets before anybody sees the event", () => {
  const { events } = record({ type: "server.stderr", server: "s", text: "using hunter2" });
  expect(events).toMatchObject([{ text: "using [secret:TOKEN]" }]);
});

it("keeps the text on the wire when there is no secret in the message", () => {
  const { events } = record(received({ id: 1, result: 10 }, '{"id":1,"result":1e1}'));
  expect(events).toMatchObject([{ message: { id: 1, result: 10 }, raw: '{"id":1,"result":1e1}' }]);
});

it("drops the text on the wire when the message holds a secret, which may be written in any way there", () => {
  const { events } = record(
    received({ id: 1, result: "hunter2" }, String.raw`{"id":1,"result":"\u0068unter2"}`),
  );
  expect(events).toEqual([
    {
      seq: 1,
      at: 100,
      trial: "t7",
      type: "mcp.message",
      server: "s",
      direction: "server-to-client",
      message: { id: 1, result: "[secret:TOKEN]" },
    },
  ]);
});

it("removes a secret that only the text on the wire holds, in a member that a later one of that name hides", () => {
  const { events } = record(received({ id: 1, result: 2 }, '{"id":1,"result":"hunter2","result":2}'));
  expect(events).toMatchObject([{ raw: '{"id":1,"result":"[secret:TOKEN]","result":2}' }]);
});

it("weighs a value by its text, its lists and objects, and its other values", () => {
  const value = { list: [1, {}], text: "x", none: null };
  const json = JSON.stringify(value);
  expect(weightOf(value, json)).toBe(json.length + 3 * containerWeight + 3 * valueWeight);
});
