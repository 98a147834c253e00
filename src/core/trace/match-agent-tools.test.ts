import { describe, expect, it } from "vitest";
import { TrialEvents, workflowTask } from "../../../test/support/trial-events.ts";
import type { Json } from "../formats/model.ts";
import { matchAgentTools } from "./agent-tools.ts";

/** A trial with two servers, and an agent that tells of its uses of tools before it makes its calls. */
class ToldTrial {
  readonly trial = new TrialEvents().begin("workflow", "agent");

  tells(callId: string, server: string, args?: Json, tool = "add"): this {
    const more = args === undefined ? {} : { args };
    const told = { callId, name: callId, source: `mcp:${server}`, tool, turn: 0, ...more } as const;
    this.trial.emit({ type: "agent.tool", status: "completed", ...told });
    return this;
  }

  calls(server: string, args: { readonly [key: string]: Json }, tool = "add"): this {
    this.trial.call(tool, args, { content: [] }, { server });
    return this;
  }

  /** Which use belongs to each call, and which ones belong to none. */
  matched(): readonly [(string | undefined)[], string[]] {
    const { calls, unrecorded } = matchAgentTools(this.trial.trajectory(workflowTask()));
    return [calls.map(({ told }) => told?.callId), unrecorded.map(({ callId }) => callId)];
  }
}

describe("an agent's uses of tools and the calls on record", () => {
  it("belong together by their arguments, whatever their order", () => {
    const run = new ToldTrial().tells("two", "calc", { a: 2, b: 1 }).tells("one", "calc", { a: 1 });
    run.calls("calc", { a: 1 }).calls("calc", { b: 1, a: 2 });
    expect(run.matched()).toEqual([["one", "two"], []]);
  });

  it("belong together in their order where arguments are not told, or otherwise", () => {
    const run = new ToldTrial().tells("untold", "calc").tells("other", "calc", { a: "2" });
    run.tells("exact", "calc", { a: 3 });
    run.calls("calc", { a: 3 }).calls("calc", { a: 1 }).calls("calc", { a: 2 }).calls("calc", { a: 4 });
    expect(run.matched()).toEqual([["exact", "untold", "other", undefined], []]);
  });

  it("never belong together for another server or another tool", () => {
    const run = new ToldTrial().tells("server", "calc", { a: 1 }).tells("tool", "calc", { a: 1 }, "sub");
    run.calls("other", { a: 1 }).calls("calc", { a: 1 }, "mul");
    expect(run.matched()).toEqual([
      [undefined, undefined],
      ["server", "tool"],
    ]);
  });

  it("leave out the calls of steps, which are not the agent's", () => {
    const run = new ToldTrial().tells("mine", "calc", { a: 1 });
    run.trial.step("check", {}, () => void run.calls("calc", { a: 1 }));
    expect(run.matched()).toEqual([[], ["mine"]]);
    run.calls("calc", { a: 1 });
    expect(run.matched()).toEqual([["mine"], []]);
  });
});
