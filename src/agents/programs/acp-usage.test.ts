import { describe, expect, it } from "vitest";
import { AcpUsage } from "../acp.ts";

const answer = (inputTokens: number, outputTokens: number, cachedReadTokens?: number): object => ({
  stopReason: "end_turn",
  usage: { inputTokens, outputTokens, totalTokens: 0, cachedReadTokens, cachedWriteTokens: null },
});

describe("AcpUsage", () => {
  it("takes each answer for a turn", () => {
    const usage = new AcpUsage("turn");
    expect([answer(10, 2), answer(10, 2, 4)].map((each) => usage.take(each))).toEqual([
      { inputTokens: 10, outputTokens: 2 },
      { inputTokens: 10, outputTokens: 2, cacheReadTokens: 4 },
    ]);
  });

  it("counts those of the cache among the input, however they are told", () => {
    const told = { inputTokens: 90, outputTokens: 20, cachedReadTokens: 10, cachedWriteTokens: 5 };
    const inputOf = (totalTokens: number): unknown =>
      new AcpUsage("turn").take({ usage: { ...told, totalTokens } })?.inputTokens;
    expect([inputOf(125), inputOf(110), inputOf(0)]).toEqual([105, 90, 90]);
  });

  it("takes what the session has used so far apart by turns", () => {
    const usage = new AcpUsage("session");
    expect([answer(10, 2, 0), answer(30, 5, 8)].map((each) => usage.take(each))).toEqual([
      { inputTokens: 10, outputTokens: 2, cacheReadTokens: 0 },
      { inputTokens: 20, outputTokens: 3, cacheReadTokens: 8 },
    ]);
  });

  it.each([
    {},
    { usage: null },
    { usage: { inputTokens: 3 } },
    { usage: { inputTokens: -1, outputTokens: 1 } },
  ])("makes nothing of %j", (told) => {
    expect(new AcpUsage("turn").take(told)).toBeUndefined();
  });
});
