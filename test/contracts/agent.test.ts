import { getEventListeners } from "node:events";
import { describe, expect, it, onTestFinished } from "vitest";
import { loadAgent } from "../../src/agents/create-agent.ts";
import type { TaskSolution } from "../../src/agents/driver.ts";
import { McpvalsError } from "../../src/base/error.ts";
import { withoutUndefined, type JsonObject } from "../../src/base/json.ts";
import type { AgentSpec } from "../../src/model/agent.ts";
import type { SolutionAction } from "../../src/model/task.ts";
import type { EventBody } from "../../src/model/event.ts";
import type { CallOptions, CallOutcome } from "../../src/servers/client/session.ts";
import { recordedContext } from "../support/agent-context.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { watchLeftovers } from "../support/leftovers.ts";
import { anyTool, stubSession, textResult } from "../support/sessions.ts";

/** What an agent does in one user turn: call tools one after the other, then say something. */
interface ScriptedTurn {
  readonly calls?: readonly { readonly tool: string; readonly server?: string; readonly args?: JsonObject }[];
  readonly say: string;
}

interface Prepared {
  readonly spec: AgentSpec;
  readonly solution?: TaskSolution;
  readonly close?: () => Promise<void>;
}

/**
 * Every kind of agent that acts in this process, made to play such turns; a missing kind does not compile. Programs reach servers
 * over the gateway and are tested in test/agents, as is the model over each wire format.
 */
const kinds: Readonly<
  Record<
    Exclude<AgentSpec["type"], "null" | "acp" | "command">,
    (turns: readonly ScriptedTurn[]) => Promise<Prepared>
  >
> = {
  async model(turns) {
    const replies = turns.flatMap(({ calls = [], say }) => [
      ...calls.map(({ tool, server, args = {} }) => ({
        tool: server === undefined ? tool : `${server}__${tool}`,
        args,
      })),
      { text: say },
    ]);
    const provider = await startFakeProvider(replies);
    const close = (): Promise<void> => provider.close();
    onTestFinished(close);
    const model = "anthropic/claude-sonnet-4-5";
    return {
      spec: { type: "model", name: "it", apiKey: "test-key", maxSteps: 10, model, baseURL: provider.url },
      close,
    };
  },
  async scripted(turns) {
    const task = turns.flatMap(({ calls = [], say }) => [
      ...calls.map(({ tool, server, args = {} }) => withoutUndefined({ call: tool, args, server })),
      { say },
    ]);
    return { spec: { type: "scripted", name: "it", plan: { task } } };
  },
  async oracle(turns) {
    const actions = turns.flatMap(({ calls = [], say }): SolutionAction[] => [
      ...calls.map(({ tool, server, args = {} }) =>
        withoutUndefined({ kind: "tool" as const, tool, args, server }),
      ),
      { kind: "say", text: say },
    ]);
    return {
      spec: { type: "oracle", name: "it" },
      solution: { actions, scope: new Map(), outputs: new Map() },
    };
  },
};

type Call = (tool: string, args: JsonObject, options: CallOptions) => CallOutcome | Promise<CallOutcome>;

interface Setup {
  /** Tools by server. */
  readonly servers?: Readonly<Record<string, readonly string[]>>;
  readonly call?: Call;
  readonly signal?: AbortSignal;
}

interface Played {
  /** The emitted events and the calls of each server, in order. */
  readonly log: readonly string[];
  readonly events: readonly EventBody[];
  readonly thrown: unknown;
}

describe.each(Object.entries(kinds))("an agent of kind %s", (kind, prepare) => {
  async function play(turns: readonly ScriptedTurn[], setup: Setup = {}): Promise<Played> {
    const { servers = { x: ["a"] }, call = () => textResult("ok"), signal } = setup;
    const log: string[] = [];
    const sessions = Object.entries(servers).map(([name, tools]) =>
      stubSession({
        name,
        tools: tools.map(anyTool),
        call(tool, args, options) {
          log.push(`${name}.${tool} ${JSON.stringify(args)}`);
          return call(tool, args, options);
        },
      }),
    );
    const { spec, solution, close } = await prepare(turns);
    const agent = (await loadAgent(spec, { env: {}, modelMs: 10_000, version: "0.0.0" }))();
    await agent.prepare();
    const users = turns.map((_, index) => `user ${index}`);
    const context = recordedContext({ users, sessions, ...withoutUndefined({ signal }) });
    const emit = (event: EventBody): number => {
      log.push(...lineOf(event));
      return context.emit(event);
    };
    const thrown = await agent.run({ ...context, emit, ...withoutUndefined({ solution }) }).then(
      () => undefined,
      (error: unknown) => error,
    );
    await close?.();
    return { log, events: context.events, thrown };
  }

  it("plays every turn in order, with its number and message", async () => {
    const a = (n: number): object => ({ tool: "a", args: { n } });
    const turns = [
      { calls: [a(1)], say: "first" },
      { say: "second" },
      { calls: [a(2), a(3)], say: "third" },
    ] as ScriptedTurn[];
    const { log, events, thrown } = await play(turns);
    expect(thrown).toBeUndefined();
    const logged = [
      ["started it", "turn 0: user 0", 'x.a {"n":1}', "says 0: first", "end 0: done"],
      ["turn 1: user 1", "says 1: second", "end 1: done"],
      ["turn 2: user 2", 'x.a {"n":2}', 'x.a {"n":3}', "says 2: third", "end 2: done"],
    ];
    expect(log).toEqual(logged.flat());
    expect(events[0]).toMatchObject({ type: "agent.started", agent: "it", kind });
  });

  it("sends each call to the named server, with the server's own name of the tool; rejects unknown tools", async () => {
    const calls = [
      { tool: "both", server: "y", args: { deep: { list: [1, null, "ü"] } } },
      { tool: "none", args: { n: 1 } },
      { tool: "mine" },
      { tool: "both", server: "x" },
    ];
    const servers = { x: ["both"], y: ["both", "mine"] };
    const { log, events, thrown } = await play([{ calls, say: "done" }, { say: "more" }], { servers });
    expect(thrown).toBeUndefined();
    const called = [
      'y.both {"deep":{"list":[1,null,"ü"]}}',
      'rejected none {"n":1}',
      "y.mine {}",
      "x.both {}",
    ];
    const ended = ["says 0: done", "end 0: done", "turn 1: user 1", "says 1: more", "end 1: done"];
    expect(log.slice(2)).toEqual([...called, ...ended]);
    expect(events.find((event) => event.type === "tool.rejected")?.reason).toContain('"none"');
  });

  it.each<[string, CallOutcome]>([
    ["isError", { kind: "result", result: { isError: true, content: [] }, latencyMs: 1 }],
    ["a JSON-RPC error", { kind: "error", message: "no", code: -32603, latencyMs: 1 }],
    ["a timeout", { kind: "timeout", message: "late", latencyMs: 1 }],
  ])("treats %s as behaviour of the server, and continues", async (_, outcome) => {
    const { log, thrown } = await play([{ calls: [{ tool: "a" }], say: "failed" }], { call: () => outcome });
    expect(thrown).toBeUndefined();
    expect(log.slice(2)).toEqual(["x.a {}", "says 0: failed", "end 0: done"]);
  });

  it("does nothing when the trial is over before it begins", async () => {
    const reason = new McpvalsError("trial/timeout", "over");
    expect(await play([{ say: "never" }], { signal: AbortSignal.abort(reason) })).toEqual({
      log: [],
      events: [],
      thrown: reason,
    });
  });

  const over = new McpvalsError("trial/timeout", "over");
  const oneCall = { calls: [{ tool: "a" }], say: "never" };
  it.each<[string, ScriptedTurn[], (end: AbortController) => Call]>([
    ["loses its server", [oneCall, { say: "never" }], () => () => Promise.reject(over)],
    [
      "is aborted during a call",
      [oneCall],
      (end) =>
        (_tool, _args, { signal }) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
            end.abort(over);
          }),
    ],
    [
      "is aborted as a call in the middle of a turn is answered",
      [{ calls: [{ tool: "a" }, { tool: "a" }], say: "never" }],
      (end) => () => (end.abort(over), textResult("too late")),
    ],
    [
      "is aborted as the last call of a turn is answered",
      [oneCall, { say: "never" }],
      (end) => () => (end.abort(over), textResult("too late")),
    ],
  ])(
    "ends with the reason and emits nothing more when it %s; leaves nothing behind",
    async (_, turns, ending) => {
      await play([{ say: "warm up" }]);
      const nothingIsLeft = watchLeftovers();
      const end = new AbortController();
      const { log, thrown } = await play(turns, { call: ending(end), signal: end.signal });
      expect([thrown, log.slice(2)]).toEqual([over, ["x.a {}"]]);
      expect(getEventListeners(end.signal, "abort")).toEqual([]);
      await nothingIsLeft();
    },
  );
});

/** The events that every kind of agent emits; model events are left out. */
function lineOf(event: EventBody): string[] {
  switch (event.type) {
    case "agent.started":
      return [`started ${event.agent}`];
    case "turn.started":
      return [`turn ${event.turn}: ${event.user}`];
    case "agent.message":
      return [`says ${event.turn}: ${event.text}`];
    case "turn.finished":
      return [`end ${event.turn}: ${event.reason}`];
    case "tool.rejected":
      return [`rejected ${event.tool} ${JSON.stringify(event.args)}`];
    case "model.called":
      return [];
    default:
      return [`unexpected ${event.type}`];
  }
}
