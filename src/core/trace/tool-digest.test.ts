import { describe, expect, it } from "vitest";
import { toolDigest, type ToolEvent } from "./tool-events.ts";

const use = (server: string, serverTool: string, durationMs?: number): ToolEvent => ({
  sequence: 1,
  callId: "c",
  name: serverTool,
  source: `mcp:${server}`,
  server,
  serverTool,
  isError: durationMs === undefined,
  startedAt: "2026-11-22T00:00:00.000Z",
  ...(durationMs === undefined ? {} : { durationMs }),
});

describe("the numbers of an agent's uses of tools", () => {
  it("have the median and the 95th percentile of the calls that were answered, interpolated", () => {
    const times = [100, 9, 2, 1].map((time, index) => use("calc", index < 3 ? "add" : "sub", time));
    const { servers } = toolDigest([...times, use("calc", "add")], ["calc"]);
    expect(servers).toEqual({
      calc: { calls: 5, errors: 1, distinctTools: 2, p50Ms: 5.5, p95Ms: 86.35 },
    });
  });

  it("have no times where nothing was answered", () => {
    expect(toolDigest([use("calc", "add")], ["calc"]).servers).toEqual({
      calc: { calls: 1, errors: 1, distinctTools: 1 },
    });
  });

  it("name servers in the order of the task, whichever was called first", () => {
    const events = [use("c", "t", 1), use("b", "t", 1), use("elsewhere", "t", 1)];
    expect(toolDigest(events, ["a", "b", "c", "d"])).toMatchObject({
      serversUsed: ["b", "c", "elsewhere"],
      serversUnused: ["a", "d"],
    });
  });
});
