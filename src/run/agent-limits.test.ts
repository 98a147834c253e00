import { expect, it } from "vitest";
import type { TraceEvent } from "../model/event.ts";
import { AgentLimits } from "./agent-limits.ts";

it("a program that reports its cost without tokens keeps a limit of money, and none of tokens", () => {
  const cost = { amount: 0.25, currency: "USD" };
  const usage = { inputTokens: 0, outputTokens: 0, isPartial: true, cost } as const;
  const reported: TraceEvent = { seq: 1, at: 0, trial: "t1", type: "agent.usage", source: "agent", usage };
  const end = (limits: ConstructorParameters<typeof AgentLimits>[0]) => (): void => {
    const events: TraceEvent[] = [];
    const watch = new AgentLimits(limits, events);
    events.push(reported);
    watch.requireUse();
  };
  expect(end({ maxCost: 1 })).not.toThrow();
  expect(end({ maxCost: 0.2 })).toThrow("it cost $0.25, more than $0.20");
  expect(end({ maxTokens: 10 })).toThrow("it is unknown how many tokens the agent used");
});
