import { expect, test } from "vitest";
import { createAgent } from "../../src/agents/driver.ts";
import { McpvalsError } from "../../src/core/errors/error.ts";
import { recordedContext } from "../support/agent-context.ts";
import { anyTool, stubSession } from "../support/sessions.ts";

const agent = await createAgent(
  { type: "null", name: "nobody" },
  { env: {}, modelMs: 1000, version: "0.0.0" },
);
const session = stubSession({
  name: "s",
  tools: [anyTool("a")],
  call() {
    throw new Error("nobody calls");
  },
});

test("goes through every turn, calls nothing and says nothing", async () => {
  const context = recordedContext({ users: ["one", "two"], sessions: [session] });
  const actions = [{ kind: "tool", tool: "a", args: {} }] as const;
  await agent.prepare();
  await agent.run({ ...context, solution: { actions, scope: new Map(), outputs: new Map() } });
  expect(context.events).toEqual([
    { type: "agent.started", agent: "nobody", kind: "null" },
    { type: "turn.started", turn: 0, user: "one" },
    { type: "turn.finished", turn: 0, reason: "done" },
    { type: "turn.started", turn: 1, user: "two" },
    { type: "turn.finished", turn: 1, reason: "done" },
  ]);
});

test("does nothing at all when the trial is over", async () => {
  const reason = new McpvalsError("trial/timeout", "over");
  const context = recordedContext({ users: ["one"], signal: AbortSignal.abort(reason) });
  await expect(agent.run(context)).rejects.toBe(reason);
  expect(context.events).toEqual([]);
});
