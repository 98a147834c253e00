import { expect, test } from "vitest";
import { createWrittenAgent } from "../../src/agents/scripted.ts";
import { McpvalsError } from "../../src/core/errors/error.ts";
import type { JsonObject, ScriptedAction } from "../../src/core/formats/model.ts";
import type { CallOutcome, ServerSession } from "../../src/servers/client/session.ts";
import { resolveIn } from "../../src/core/templates/template.ts";
import { recordedContext } from "../support/agent-context.ts";
import { anyTool, startEverything, stubSession, textResult } from "../support/sessions.ts";

function agent(plan: readonly ScriptedAction[]): ReturnType<typeof createWrittenAgent> {
  return createWrittenAgent({ type: "scripted", name: "script", plan: { task: plan } });
}

interface Log {
  readonly calls: string[];
  session(name: string, tools: readonly string[]): ServerSession;
}

function callLog(): Log {
  const calls: string[] = [];
  return {
    calls,
    session: (name, tools) =>
      stubSession({
        name,
        tools: tools.map(anyTool),
        call(tool, args: JsonObject) {
          calls.push(`${name}.${tool}${JSON.stringify(args)}`);
          return tool === "fail"
            ? { kind: "result", result: { isError: true, content: [] }, latencyMs: 1 }
            : textResult("ok");
        },
      }),
  };
}

test("each turn plays up to its say, the last one all that is left", async () => {
  const log = callLog();
  const context = recordedContext({ users: ["one", "two"], sessions: [log.session("s", ["a", "fail"])] });
  const scripted = agent([
    { call: "a", args: { n: 1 } },
    { say: "first" },
    { call: "fail", args: {} },
    { say: "second" },
    { call: "a", args: { n: 2 } },
    { say: "third" },
  ]);

  await scripted.prepare();
  await scripted.run(context);

  expect(context.events).toEqual([
    { type: "agent.started", agent: "script", kind: "scripted" },
    { type: "turn.started", turn: 0, user: "one" },
    { type: "agent.message", turn: 0, text: "first" },
    { type: "turn.finished", turn: 0, reason: "done" },
    { type: "turn.started", turn: 1, user: "two" },
    { type: "agent.message", turn: 1, text: "second" },
    { type: "agent.message", turn: 1, text: "third" },
    { type: "turn.finished", turn: 1, reason: "done" },
  ]);
  expect(log.calls).toEqual(['s.a{"n":1}', "s.fail{}", 's.a{"n":2}']);
});

test("a plan shorter than the conversation leaves turns empty", async () => {
  const context = recordedContext({ users: ["one", "two", "three"] });
  await agent([{ say: "only" }]).run(context);
  expect(context.events.map((event) => event.type)).toEqual([
    "agent.started",
    "turn.started",
    "agent.message",
    "turn.finished",
    "turn.started",
    "turn.finished",
    "turn.started",
    "turn.finished",
  ]);
});

test("calls go to the named server or the only one that offers the tool; others are rejected and the plan goes on", async () => {
  const log = callLog();
  const sessions = [log.session("x", ["both", "mine"]), log.session("y", ["both"])];
  const context = recordedContext({ users: ["go"], sessions });
  await agent([
    { call: "mine", args: {} },
    { call: "both", server: "y", args: { a: 1 } },
    { call: "both", args: { b: 2 } },
    { call: "none", args: {} },
    { call: "both", server: "z", args: {} },
    { call: "unlisted", server: "x", args: {} },
    { say: "done" },
  ]).run(context);

  expect(log.calls).toEqual(["x.mine{}", 'y.both{"a":1}', "x.unlisted{}"]);
  expect(context.events.filter((event) => event.type === "tool.rejected")).toEqual([
    {
      type: "tool.rejected",
      tool: "both",
      args: { b: 2 },
      reason: 'x and y both offer "both"; the action must name its server',
    },
    { type: "tool.rejected", tool: "none", args: {}, reason: 'no server offers a tool called "none"' },
    { type: "tool.rejected", tool: "both", args: {}, reason: 'no server is called "z"; there are: x, y' },
  ]);
  expect(context.events.at(-1)).toEqual({ type: "turn.finished", turn: 0, reason: "done" });
});

test("plays against a real server", async () => {
  await using everything = await startEverything();
  const outcomes: CallOutcome[] = [];
  const watched = stubSession({
    name: everything.name,
    tools: everything.tools,
    call: async (tool, args, options) => {
      const outcome = await everything.callTool(tool, args, options);
      outcomes.push(outcome);
      return outcome;
    },
  });
  const context = recordedContext({ users: ["go"], sessions: [watched] });
  await agent([{ call: "get-sum", args: { a: 2, b: 3 } }, { say: "5" }]).run(context);
  expect(outcomes).toMatchObject([
    { kind: "result", result: { content: [{ type: "text", text: "The sum of 2 and 3 is 5." }] } },
  ]);
});

test.each(["other", "toString"])("without a plan for %s it says what it has plans for", async (task) => {
  const context = recordedContext({ users: ["go"], task });
  await expect(agent([]).run(context)).rejects.toMatchObject({
    code: "agent/no-plan",
    message: `agent script has no plan for "${task}"; it has plans for "task"`,
  });
  expect(context.events).toEqual([]);
});

test("what a session throws and the signal's reason end the run", async () => {
  const lost = new McpvalsError("server/exited", "gone");
  const session = stubSession({ name: "s", tools: [anyTool("a")], call: () => Promise.reject(lost) });
  const plan: ScriptedAction[] = [{ call: "a", args: {} }];
  await expect(agent(plan).run(recordedContext({ users: ["go"], sessions: [session] }))).rejects.toBe(lost);
  const reason = new McpvalsError("run/interrupted", "stop");
  const aborted = recordedContext({ users: ["go"], sessions: [session], signal: AbortSignal.abort(reason) });
  await expect(agent(plan).run(aborted)).rejects.toBe(reason);
});

test("templates are replaced where a scope says what they mean", async () => {
  const log = callLog();
  const scope = new Map([["workspace", resolveIn("/w")]]);
  const context = { ...recordedContext({ users: ["one"], sessions: [log.session("s", ["a"])] }), scope };
  await agent([
    { call: "a", args: { path: "{workspace}/x", list: ["{workspace}", "{other}"], "{workspace}": 1 } },
    { say: "{{workspace} {workspace}" },
  ]).run(context);
  expect(log.calls).toEqual(['s.a{"path":"/w/x","list":["/w","{other}"],"{workspace}":1}']);
  expect(context.events).toContainEqual({ type: "agent.message", turn: 0, text: "{workspace} /w" });
  await agent([{ call: "a", args: { path: "{workspace}/{{x" } }]).run(
    recordedContext({ users: ["one"], sessions: context.sessions }),
  );
  expect(log.calls.at(-1)).toBe('s.a{"path":"{workspace}/{{x"}');
});
