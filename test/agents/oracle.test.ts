import { describe, expect, test } from "vitest";
import { createWrittenAgent } from "../../src/agents/scripted.ts";
import type { Json, JsonObject, SolutionAction } from "../../src/core/formats/model.ts";
import { type Scope, withLocals } from "../../src/core/templates/template.ts";
import type { CallOutcome, ServerSession } from "../../src/servers/client/session.ts";
import { eventsOf, recordedContext, type RecordedContext } from "../support/agent-context.ts";
import { anyTool, startEverything, stubSession, textResult } from "../support/sessions.ts";
import { plainTrial, scopeOf } from "../support/step-context.ts";

interface Log {
  readonly calls: string[];
  session(name: string, tools: readonly string[]): ServerSession;
}

/** Sessions whose calls are noted; the tool `fail` fails, `refuse` is refused, others say their number. */
function callLog(): Log {
  const calls: string[] = [];
  const note = (call: string): CallOutcome => textResult(`answer ${calls.push(call)}`);
  return {
    calls,
    session: (name, tools) =>
      stubSession({
        name,
        tools: tools.map(anyTool),
        call(tool, args) {
          const answer = note(`${name}.${tool}${JSON.stringify(args)}`);
          if (tool === "refuse") return { kind: "error", code: -1, message: "no", latencyMs: 1 };
          if (tool !== "fail") return answer;
          return {
            kind: "result",
            result: { isError: true, content: [{ type: "text", text: "no" }] },
            latencyMs: 1,
          };
        },
        read(uri) {
          note(`${name} reads ${uri}`);
          return { kind: "result", result: { contents: [{ uri, text: `page ${uri}` }] }, latencyMs: 1 };
        },
        prompt(prompt, args) {
          note(`${name} gets ${prompt}${JSON.stringify(args)}`);
          const content = { type: "text", text: `hello ${JSON.stringify(args)}` };
          return { kind: "result", result: { messages: [{ role: "user", content }] }, latencyMs: 1 };
        },
      }),
  };
}

interface Played {
  readonly context: RecordedContext;
  readonly outputs: ReadonlyMap<string, JsonObject>;
}

interface PlayOptions {
  readonly users?: readonly string[];
  readonly sessions?: readonly ServerSession[];
  readonly roots?: Readonly<Record<string, Json>>;
}

async function play(actions: readonly SolutionAction[], options: PlayOptions = {}): Promise<Played> {
  const { users = ["go"], sessions = [], roots = {} } = options;
  const outputs = new Map<string, JsonObject>();
  const scope: Scope = withLocals(scopeOf({}, { ...plainTrial("task"), outputs }), roots);
  const context = recordedContext({ users, sessions });
  const oracle = createWrittenAgent({ type: "oracle", name: "seer" });
  await oracle.prepare();
  await oracle.run({ ...context, solution: { actions, scope, outputs } });
  return { context, outputs };
}

const call = (tool: string, args: JsonObject = {}): SolutionAction => ({ kind: "tool", tool, args });
const say = (text: string): SolutionAction => ({ kind: "say", text });

test("each turn plays up to its say, the last one all that is left", async () => {
  const log = callLog();
  const { context } = await play(
    [
      call("a", { n: 1 }),
      say("first"),
      call("a", { n: 2 }),
      say("second"),
      call("a", { n: 3 }),
      say("third"),
    ],
    { users: ["one", "two"], sessions: [log.session("s", ["a"])] },
  );
  expect(context.events).toEqual([
    { type: "agent.started", agent: "seer", kind: "oracle" },
    { type: "turn.started", turn: 0, user: "one" },
    { type: "agent.message", turn: 0, text: "first" },
    { type: "turn.finished", turn: 0, reason: "done" },
    { type: "turn.started", turn: 1, user: "two" },
    { type: "agent.message", turn: 1, text: "second" },
    { type: "agent.message", turn: 1, text: "third" },
    { type: "turn.finished", turn: 1, reason: "done" },
  ]);
  expect(log.calls).toEqual(['s.a{"n":1}', 's.a{"n":2}', 's.a{"n":3}']);
});

describe("calls", () => {
  test("go to the server that is named, or the only one that is meant; others are rejected and it goes on", async () => {
    const log = callLog();
    const sessions = [log.session("x", ["both", "mine"]), log.session("y", ["both"])];
    const { context } = await play(
      [
        call("mine"),
        { kind: "tool", server: "y", tool: "both", args: { a: 1 } },
        { kind: "resource", server: "y", uri: "a:1" },
        { kind: "prompt", server: "x", prompt: "greet", args: { who: "me" } },
        { kind: "tool", tool: "both", args: { b: 2 } },
        call("none"),
        { kind: "tool", server: "z", tool: "both", args: {} },
        { kind: "resource", uri: "a:2" },
        { kind: "resource", server: "z", uri: "a:2" },
        { kind: "prompt", prompt: "greet", args: { who: "me" } },
        say("done"),
      ],
      { sessions },
    );
    expect(log.calls).toEqual(["x.mine{}", 'y.both{"a":1}', "y reads a:1", 'x gets greet{"who":"me"}']);
    expect(
      eventsOf(context.events, "tool.rejected").map(({ tool, args, reason }) => [tool, args, reason]),
    ).toEqual([
      ["both", { b: 2 }, 'x and y both offer "both"; the action must name its server'],
      ["none", {}, 'no server offers a tool called "none"'],
      ["both", {}, 'no server is called "z"; there are: x, y'],
      ["a:2", {}, 'x and y could be asked for "a:2"; the action must name its server'],
      ["a:2", {}, 'no server is called "z"; there are: x, y'],
      ["greet", { who: "me" }, 'x and y could be asked for "greet"; the action must name its server'],
    ]);
    expect(eventsOf(context.events, "agent.message")).toHaveLength(1);
  });

  test("for a resource go to the only server; without one they are rejected", async () => {
    const log = callLog();
    await play([{ kind: "resource", uri: "a:1" }], { sessions: [log.session("x", [])] });
    expect(log.calls).toEqual(["x reads a:1"]);
    const { context } = await play([{ kind: "resource", uri: "a:1" }]);
    expect(eventsOf(context.events, "tool.rejected")).toMatchObject([
      { reason: 'there is no server to ask for "a:1"' },
    ]);
  });
});

describe("templates", () => {
  const roots = { env: { SERVER: "y", TOOL: "a", N: "5" } };

  test("are replaced in every text of an action", async () => {
    const log = callLog();
    const sessions = [log.session("x", ["a"]), log.session("y", ["a"])];
    const server = "{env.SERVER}";
    const { context } = await play(
      [
        { kind: "tool", server, tool: "{env.TOOL}", args: { n: "{env.N | json}", list: ["{env.N}"] } },
        { kind: "resource", server, uri: "a:{env.N}" },
        { kind: "prompt", server, prompt: "p{env.N}", args: { n: "{env.N}" } },
        say("it is {env.N}"),
      ],
      { sessions, roots },
    );
    expect(log.calls).toEqual(['y.a{"n":5,"list":["5"]}', "y reads a:5", 'y gets p5{"n":"5"}']);
    expect(eventsOf(context.events, "agent.message")).toMatchObject([{ text: "it is 5" }]);
  });

  test("use the outputs of actions before them, under the ids of these", async () => {
    const log = callLog();
    const outputs = {
      said: "{text}",
      whole: "{result | json $}",
      first: "{result | json $.content[0].text}",
    };
    const { context, outputs: given } = await play(
      [
        { kind: "tool", id: "t", tool: "a", args: {}, outputs },
        { kind: "resource", id: "r", uri: "a:{steps.t.outputs.said}", outputs: { page: "{text}" } },
        { kind: "prompt", id: "p", prompt: "greet", args: {}, outputs: { greeting: "{text}!" } },
        { kind: "tool", tool: "a", args: {}, outputs: { nobody: "{text}" } },
        say("{steps.r.outputs.page}, {steps.p.outputs.greeting}"),
      ],
      { sessions: [log.session("s", ["a"])] },
    );
    expect(Object.fromEntries(given)).toEqual({
      t: {
        said: "answer 1",
        whole: '{"content":[{"type":"text","text":"answer 1"}]}',
        first: "answer 1",
      },
      r: { page: "page a:answer 1" },
      p: { greeting: "hello {}!" },
    });
    expect(eventsOf(context.events, "agent.message")).toMatchObject([{ text: "page a:answer 1, hello {}!" }]);
  });

  test.each(["fail", "refuse", "none"])("get no outputs from a call that fails: %s", async (tool) => {
    const log = callLog();
    const sessions = [log.session("s", ["fail", "refuse"])];
    const failing: SolutionAction = { kind: "tool", id: "t", tool, args: {}, outputs: { said: "{text}" } };
    const { context, outputs } = await play([failing, say("went on")], { sessions });
    expect(outputs.size).toBe(0);
    expect(eventsOf(context.events, "agent.message")).toMatchObject([{ text: "went on" }]);
    await expect(play([failing, say("{steps.t.outputs.said}")], { sessions })).rejects.toMatchObject({
      code: "task/template",
    });
  });
});

describe("foreach", () => {
  test("plays its actions for every item, with a say ending the turn as anywhere", async () => {
    const log = callLog();
    const { context } = await play(
      [
        {
          kind: "foreach",
          variable: "item",
          in: [{ n: 1 }, { n: "{env.N | json}" }],
          actions: [call("a", { n: "{item | json $.n}" }), say("did {item.n}")],
        },
        say("all"),
      ],
      { users: ["one", "two", "three"], sessions: [log.session("s", ["a"])], roots: { env: { N: "2" } } },
    );
    expect(log.calls).toEqual(['s.a{"n":1}', 's.a{"n":2}']);
    expect(eventsOf(context.events, "agent.message").map(({ turn, text }) => [turn, text])).toEqual([
      [0, "did 1"],
      [1, "did 2"],
      [2, "all"],
    ]);
  });

  test("reads its items when it is reached, and they nest", async () => {
    const log = callLog();
    const { context } = await play(
      [
        { kind: "tool", id: "list", tool: "a", args: {}, outputs: { all: '["{text}", "b"]' } },
        {
          kind: "foreach",
          variable: "outer",
          in: "{steps.list.outputs.all}",
          actions: [{ kind: "foreach", variable: "inner", in: [1, 2], actions: [say("{outer} {inner}")] }],
        },
      ],
      { sessions: [log.session("s", ["a"])] },
    );
    expect(eventsOf(context.events, "agent.message").map(({ text }) => text)).toEqual([
      "answer 1 1",
      "answer 1 2",
      "b 1",
      "b 2",
    ]);
  });

  test("over what is no list is an error", async () => {
    const actions: SolutionAction[] = [
      { kind: "foreach", variable: "x", in: "{env.N}", actions: [say("x")] },
    ];
    await expect(play(actions, { roots: { env: { N: "5" } } })).rejects.toMatchObject({
      code: "task/template",
      message: 'foreach needs a JSON list, but "{env.N}" gives "5"',
    });
  });
});

test("a task without a solution cannot be played, and nothing happens", async () => {
  const context = recordedContext({ users: ["go"] });
  await expect(createWrittenAgent({ type: "oracle", name: "seer" }).run(context)).rejects.toMatchObject({
    code: "task/no-solution",
    message: 'agent seer plays solutions, and "task" has none',
  });
  expect(context.events).toEqual([]);
});

test("plays against a real server", async () => {
  await using session = await startEverything();
  const { context } = await play(
    [
      { kind: "tool", id: "sum", tool: "get-sum", args: { a: 2, b: 3 }, outputs: { text: "{text}" } },
      {
        kind: "prompt",
        id: "ask",
        prompt: "args-prompt",
        args: { city: "Rome" },
        outputs: { text: "{text}" },
      },
      {
        kind: "resource",
        id: "page",
        uri: "demo://resource/static/document/features.md",
        outputs: { type: "{result | json $.contents[0].mimeType}" },
      },
      say("{steps.sum.outputs.text} {steps.ask.outputs.text} {steps.page.outputs.type}"),
    ],
    { sessions: [session] },
  );
  expect(eventsOf(context.events, "agent.message")).toMatchObject([
    { text: "The sum of 2 and 3 is 5. What's weather in Rome? text/markdown" },
  ]);
});
