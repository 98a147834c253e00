import { expect, it } from "vitest";
import type { TrialResult } from "../model/result.ts";
import { createMultiplexer, type Reporter } from "./reporter.ts";

const result: TrialResult = {
  id: "t1",
  task: "task",
  form: "tool-test",
  agent: null,
  attempt: 1,
  verdict: "pass",
  score: 1,
  durationMs: 1,
  grades: [],
};
const event = { type: "phase.started", phase: "agent", seq: 1, at: 0, trial: "t1" } as const;

function listener(heard: string[]): Reporter {
  return {
    onEvent: () => void heard.push("event"),
    onTrialEnd: () => void heard.push("trial"),
    close: () => void heard.push("close"),
  };
}

it("tells every reporter, and needs no method of any", async () => {
  const first: string[] = [];
  const second: string[] = [];
  const both = createMultiplexer([
    { name: "first", reporter: listener(first) },
    { name: "second", reporter: listener(second) },
    { name: "deaf", reporter: {} },
  ]);
  both.onEvent(event);
  await both.onTrialEnd(result);
  await both.close();
  expect(first).toEqual(["event", "trial", "close"]);
  expect(second).toEqual(first);
  expect(both.errors).toEqual([]);
});

it.each([
  ["throws", (error: Error) => ({ onTrialEnd: () => raise(error) })],
  ["rejects", (error: Error) => ({ onTrialEnd: async () => raise(error) })],
  ["throws on an event", (error: Error) => ({ onEvent: () => raise(error) })],
] satisfies [string, (error: Error) => Reporter][])(
  "drops a reporter that %s, closes it, and goes on with the others",
  async (_, broken) => {
    const error = new Error("disk full");
    const heardByBroken: string[] = [];
    const heard: string[] = [];
    const both = createMultiplexer([
      { name: "broken", reporter: { ...listener(heardByBroken), ...broken(error) } },
      { name: "whole", reporter: listener(heard) },
    ]);
    both.onEvent(event);
    await both.onTrialEnd(result);
    heardByBroken.length = 0;
    both.onEvent(event);
    await both.onTrialEnd(result);
    await both.close();
    expect(heardByBroken).toEqual(["close"]);
    expect(heard).toEqual(["event", "trial", "event", "trial", "close"]);
    expect(both.errors).toEqual([{ reporter: "broken", error }]);
  },
);

it("keeps the rejection of a listener to events that is async by mistake", async () => {
  const error = new Error("late");
  const onEvent = (): void => Promise.reject(error) as unknown as void;
  const both = createMultiplexer([{ name: "late", reporter: { onEvent } }]);
  both.onEvent(event);
  await both.onTrialEnd(result);
  expect(both.errors).toEqual([{ reporter: "late", error }]);
});

it("keeps errors of closing and never throws them", async () => {
  const error = new Error("no");
  const both = createMultiplexer([{ name: "x", reporter: { close: () => Promise.reject(error) } }]);
  await both.close();
  expect(both.errors).toEqual([{ reporter: "x", error }]);
});

function raise(error: Error): never {
  throw error;
}
