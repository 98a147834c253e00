import { getEventListeners } from "node:events";
import { describe, expect, it, onTestFinished } from "vitest";
import { createAgent } from "../../src/agents/create-agent.ts";
import type { AgentContext, TaskSolution } from "../../src/agents/driver.ts";
import { McpvalsError } from "../../src/core/errors/error.ts";
import type { AgentSpec, JsonObject, ModelAgentSpec, SolutionAction } from "../../src/core/formats/model.ts";
import type { EventBody } from "../../src/core/trace/events.ts";
import type { CallOptions, CallOutcome, ServerSession } from "../../src/servers/client/session.ts";
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
  /** Solution of the task, for the oracle. */
  readonly solution?: TaskSolution;
  /** Stops the model or program that the agent uses. */
  readonly close: () => Promise<void>;
}

/** One way to script an agent of a kind. */
interface Way {
  readonly way: string;
  readonly prepare: (turns: readonly ScriptedTurn[]) => Promise<Prepared>;
}

/** Programs reach servers over the gateway, so test/agents tests them with real servers. */
type ProgramType = "acp" | "command";

/** Every kind of in-process agent that can be scripted; a missing kind is a compile error. */
const kinds: Readonly<Record<Exclude<AgentSpec["type"], "null" | ProgramType>, readonly Way[]>> = {
  model: [
    modelOver("anthropic", (baseURL) => ({ model: "anthropic/claude-sonnet-4-5", baseURL })),
    modelOver("openai-responses", (baseURL) => ({ model: "openai/gpt-5", baseURL })),
    modelOver("openai-chat", (baseURL) => ({ model: "openai/gpt-4o", baseURL, api: "chat" })),
    modelOver("openai-compatible", (url) => ({ model: "qwen3:8b", baseURL: `${url}/v1` })),
    modelOver("google", (baseURL) => ({ model: "google/gemini-2.5-flash", baseURL })),
  ],
  scripted: [{ way: "a plan", prepare: (turns) => Promise.resolve({ spec: planOf(turns), close: noop }) }],
  oracle: [{ way: "a solution", prepare: (turns) => Promise.resolve(solutionOf(turns)) }],
};

const noop = (): Promise<void> => Promise.resolve();

function modelOver(
  way: string,
  access: (url: string) => Pick<ModelAgentSpec, "model" | "baseURL" | "api">,
): Way {
  return {
    way,
    async prepare(turns) {
      const provider = await startFakeProvider(
        turns.flatMap(({ calls = [], say }) => [
          ...calls.map(({ tool, server, args = {} }) => ({
            tool: server === undefined ? tool : `${server}__${tool}`,
            args,
          })),
          { text: say },
        ]),
      );
      onTestFinished(() => provider.close());
      const spec: ModelAgentSpec = {
        type: "model",
        name: "it",
        apiKey: "test-key",
        maxSteps: 10,
        ...access(provider.url),
      };
      return { spec, close: () => provider.close() };
    },
  };
}

function planOf(turns: readonly ScriptedTurn[]): AgentSpec {
  const plan = turns.flatMap(({ calls = [], say }) => [
    ...calls.map(({ tool, server, args = {} }) => ({
      call: tool,
      args,
      ...(server === undefined ? {} : { server }),
    })),
    { say },
  ]);
  return { type: "scripted", name: "it", plan: { task: plan } };
}

function solutionOf(turns: readonly ScriptedTurn[]): Prepared {
  const actions = turns.flatMap(({ calls = [], say }): SolutionAction[] => [
    ...calls.map(({ tool, server, args = {} }) => ({
      kind: "tool" as const,
      tool,
      args,
      ...(server === undefined ? {} : { server }),
    })),
    { kind: "say", text: say },
  ]);
  const solution = { actions, scope: new Map(), outputs: new Map() };
  return { spec: { type: "oracle", name: "it" }, solution, close: noop };
}

type Call = (tool: string, args: JsonObject, options: CallOptions) => CallOutcome | Promise<CallOutcome>;

interface Played {
  /** The emitted events and the calls of each session, in order. */
  readonly log: readonly string[];
  readonly events: readonly EventBody[];
  readonly thrown: unknown;
}

interface Bench {
  /** A session whose calls are in the log. */
  readonly session: (name: string, tools: readonly string[], call?: Call) => ServerSession;
  readonly play: (
    turns: readonly ScriptedTurn[],
    sessions: readonly ServerSession[],
    signal?: AbortSignal,
  ) => Promise<Played>;
}

function bench({ prepare }: Way): Bench {
  const log: string[] = [];
  const events: EventBody[] = [];
  const emit = (event: EventBody): number => {
    log.push(...lineOf(event));
    return events.push(event);
  };
  return {
    session: (name, tools, call = () => textResult("ok")) =>
      stubSession({
        name,
        tools: tools.map(anyTool),
        call(tool, args, options) {
          log.push(`${name}.${tool} ${JSON.stringify(args)}`);
          return call(tool, args, options);
        },
      }),
    async play(turns, sessions, signal = new AbortController().signal) {
      const { spec, solution, close } = await prepare(turns);
      const agent = await createAgent(spec, { env: {}, modelMs: 10_000, version: "0.0.0" });
      await agent.prepare();
      const context: AgentContext = {
        task: "task",
        turns: turns.map((_, index) => ({ user: `user ${index}` })),
        sessions,
        endpoints: [],
        workspace: "",
        defer: () => undefined,
        emit,
        signal,
        callTimeoutMs: 10_000,
        ...(solution === undefined ? {} : { solution }),
      };
      const thrown = await agent.run(context).then(
        () => undefined,
        (error: unknown) => error ?? new Error("nothing was thrown"),
      );
      await close();
      return { log, events, thrown };
    },
  };
}

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

const ways = Object.entries(kinds).flatMap(([kind, list]) => list.map((way) => ({ kind, ...way })));

it("every kind has at least one way to script it", () => {
  for (const list of Object.values(kinds)) expect(list).not.toEqual([]);
});

describe.each(ways)("an agent of kind $kind, over $way", ({ kind, ...way }) => {
  it("plays every turn in order, with its number and message", async () => {
    const { play, session } = bench(way);
    const { log, events, thrown } = await play(
      [
        { calls: [{ tool: "a", args: { n: 1 } }], say: "first" },
        { say: "second" },
        {
          calls: [
            { tool: "a", args: { n: 2 } },
            { tool: "a", args: { n: 3 } },
          ],
          say: "third",
        },
      ],
      [session("x", ["a"])],
    );
    expect(thrown).toBeUndefined();
    expect(log).toEqual([
      "started it",
      "turn 0: user 0",
      'x.a {"n":1}',
      "says 0: first",
      "end 0: done",
      "turn 1: user 1",
      "says 1: second",
      "end 1: done",
      "turn 2: user 2",
      'x.a {"n":2}',
      'x.a {"n":3}',
      "says 2: third",
      "end 2: done",
    ]);
    expect(events[0]).toMatchObject({ type: "agent.started", agent: "it", kind });
  });

  it("sends each call to the right server, with the server's own name of the tool", async () => {
    const { play, session } = bench(way);
    const { log } = await play(
      [
        {
          calls: [
            { tool: "both", server: "y", args: { deep: { list: [1, null, "ü"] } } },
            { tool: "mine" },
            { tool: "both", server: "x" },
          ],
          say: "done",
        },
      ],
      [session("x", ["both"]), session("y", ["both", "mine"])],
    );
    expect(log.slice(2)).toEqual([
      'y.both {"deep":{"list":[1,null,"ü"]}}',
      "y.mine {}",
      "x.both {}",
      "says 0: done",
      "end 0: done",
    ]);
  });

  it("records a call of a tool that does not exist as rejected, with a reason, and goes on", async () => {
    const { play, session } = bench(way);
    const { log, events, thrown } = await play(
      [{ calls: [{ tool: "none", args: { n: 1 } }, { tool: "a" }], say: "done" }, { say: "more" }],
      [session("x", ["a"])],
    );
    expect(thrown).toBeUndefined();
    expect(log.slice(2)).toEqual([
      'rejected none {"n":1}',
      "x.a {}",
      "says 0: done",
      "end 0: done",
      "turn 1: user 1",
      "says 1: more",
      "end 1: done",
    ]);
    const rejected = events.find((event) => event.type === "tool.rejected");
    expect(rejected?.reason).toContain('"none"');
  });

  it.each<[string, CallOutcome]>([
    ["isError", { kind: "result", result: { isError: true, content: [] }, latencyMs: 1 }],
    ["a JSON-RPC error", { kind: "error", message: "no", code: -32603, latencyMs: 1 }],
    ["an unusable answer", { kind: "error", message: "odd", unusable: true, latencyMs: 1 }],
    ["a timeout", { kind: "timeout", message: "late", latencyMs: 1 }],
  ])("treats %s as behaviour of the server, and continues", async (_, outcome) => {
    const { play, session } = bench(way);
    const { log, thrown } = await play(
      [{ calls: [{ tool: "a" }], say: "it failed" }],
      [session("x", ["a"], () => outcome)],
    );
    expect(thrown).toBeUndefined();
    expect(log.slice(2)).toEqual(["x.a {}", "says 0: it failed", "end 0: done"]);
  });

  it("rethrows the error of a lost server, and emits nothing more", async () => {
    const lost = new McpvalsError("server/exited", "gone");
    const { play, session } = bench(way);
    const { log, thrown } = await play(
      [{ calls: [{ tool: "a" }], say: "never" }, { say: "never" }],
      [session("x", ["a"], () => Promise.reject(lost))],
    );
    expect(thrown).toBe(lost);
    expect(log.slice(2)).toEqual(["x.a {}"]);
  });

  describe("when the trial is over", () => {
    const reason = new McpvalsError("trial/timeout", "over");

    it("before it begins: does nothing", async () => {
      const { play, session } = bench(way);
      const { log, thrown } = await play(
        [{ calls: [{ tool: "a" }], say: "never" }],
        [session("x", ["a"])],
        AbortSignal.abort(reason),
      );
      expect([thrown, log]).toEqual([reason, []]);
    });

    it("during a call: ends at once with the signal's reason", async () => {
      const controller = new AbortController();
      const { play, session } = bench(way);
      const untilAborted: Call = (_tool, _args, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
          controller.abort(reason);
        });
      const { log, thrown } = await play(
        [{ calls: [{ tool: "a" }], say: "never" }],
        [session("x", ["a"], untilAborted)],
        controller.signal,
      );
      expect(thrown).toBe(reason);
      expect(log.slice(2)).toEqual(["x.a {}"]);
    });

    it.each([
      ["in the middle of a turn", [{ calls: [{ tool: "a" }, { tool: "a" }], say: "never" }]],
      ["at the end of a turn", [{ calls: [{ tool: "a" }], say: "never" }, { say: "never" }]],
    ])("when a call is answered %s: ignores the answer", async (_, turns) => {
      const controller = new AbortController();
      const { play, session } = bench(way);
      const answerLate: Call = () => {
        controller.abort(reason);
        return textResult("too late");
      };
      const { log, thrown } = await play(turns, [session("x", ["a"], answerLate)], controller.signal);
      expect(thrown).toBe(reason);
      expect(log.slice(2)).toEqual(["x.a {}"]);
    });
  });

  it("leaves no listeners, timers or promises behind, however it ends", async () => {
    const turns = [{ calls: [{ tool: "a" }], say: "done" }];
    await bench(way).play([{ say: "warm up" }], []);
    for (const end of ["well", "aborted", "lost"]) {
      const nothingIsLeft = watchLeftovers();
      const controller = new AbortController();
      const { play, session } = bench(way);
      const call: Call = () => {
        if (end === "lost") throw new McpvalsError("server/exited", "gone");
        if (end === "aborted") controller.abort(new McpvalsError("trial/timeout", "over"));
        return textResult("ok");
      };
      const { thrown } = await play(turns, [session("x", ["a"], call)], controller.signal);
      expect(thrown === undefined, end).toBe(end === "well");
      expect(getEventListeners(controller.signal, "abort"), end).toEqual([]);
      await nothingIsLeft();
    }
  });
});
