import { describe, expect, it } from "vitest";
import { loadAgent } from "../../src/agents/create-agent.ts";
import { createWrittenAgent } from "../../src/agents/scripted.ts";
import type { Json, JsonObject } from "../../src/base/json.ts";
import type { ScriptedAction } from "../../src/model/agent.ts";
import type { SolutionAction } from "../../src/model/task.ts";
import { resolveIn, type Scope, withLocals } from "../../src/templates/template.ts";
import type { CallOutcome, ServerSession } from "../../src/servers/client/session.ts";
import { eventsOf, recordedContext, type RecordedContext } from "../support/agent-context.ts";
import { anyTool, stubSession, textResult } from "../support/sessions.ts";
import { plainTrial, scopeOf } from "../support/step-context.ts";

// Turns, rejected calls, failures and ends are in test/contracts/agent.test.ts.

interface Played {
  readonly context: RecordedContext;
  /** The requests that the sessions got. */
  readonly calls: readonly string[];
  readonly outputs: ReadonlyMap<string, JsonObject>;
}

interface Setup {
  readonly users?: readonly string[];
  /** Tools by session; `fail` fails and `refuse` is refused. */
  readonly servers?: Readonly<Record<string, readonly string[]>>;
  readonly sessions?: readonly ServerSession[];
  readonly roots?: Readonly<Record<string, Json>>;
}

function stub(name: string, tools: readonly string[], calls: string[]): ServerSession {
  const result = (value: JsonObject): CallOutcome => ({ kind: "result", result: value, latencyMs: 1 });
  return stubSession({
    name,
    tools: tools.map(anyTool),
    call(tool, args) {
      const number = calls.push(`${name}.${tool}${JSON.stringify(args)}`);
      if (tool === "refuse") return { kind: "error", code: -1, message: "no", latencyMs: 1 };
      return tool === "fail" ? result({ isError: true, content: [] }) : textResult(`answer ${number}`);
    },
    read(uri) {
      calls.push(`${name} reads ${uri}`);
      return result({ contents: [{ uri, text: `page ${uri}` }] });
    },
    prompt(prompt, args) {
      calls.push(`${name} gets ${prompt}${JSON.stringify(args)}`);
      const content = { type: "text", text: `hello ${JSON.stringify(args)}` };
      return result({ messages: [{ role: "user", content }] });
    },
  });
}

/** Plays a solution with the oracle. */
async function play(actions: readonly SolutionAction[], setup: Setup = {}): Promise<Played> {
  const { users = ["go"], servers = { s: ["a"] }, roots = {} } = setup;
  const calls: string[] = [];
  const outputs = new Map<string, JsonObject>();
  const scope: Scope = withLocals(scopeOf({}, { ...plainTrial("task"), outputs }), roots);
  const sessions = setup.sessions ?? Object.entries(servers).map(([name, tools]) => stub(name, tools, calls));
  const context = recordedContext({ users, sessions });
  const oracle = createWrittenAgent({ type: "oracle", name: "seer" });
  await oracle.prepare();
  await oracle.run({ ...context, solution: { actions, scope, outputs } });
  return { context, calls, outputs };
}

/** Plays a plan; with a workspace, `{workspace}` in its texts is replaced. */
async function playPlan(
  plan: readonly ScriptedAction[],
  setup: Setup & { workspace?: string },
): Promise<Played> {
  const calls: string[] = [];
  const { users = ["go"], servers = { s: ["a"] }, workspace } = setup;
  const sessions = Object.entries(servers).map(([name, tools]) => stub(name, tools, calls));
  const context = recordedContext({ users, sessions });
  const scope = workspace === undefined ? {} : { scope: new Map([["workspace", resolveIn(workspace)]]) };
  const agent = createWrittenAgent({ type: "scripted", name: "script", plan: { task: plan } });
  await agent.run({ ...context, ...scope });
  return { context, calls, outputs: new Map() };
}

function messages({ context }: Played): unknown[] {
  return eventsOf(context.events, "agent.message").map(({ turn, text }) => `${turn}: ${text}`);
}

const call = (tool: string, args: JsonObject = {}): SolutionAction => ({ kind: "tool", tool, args });
const say = (text: string): SolutionAction => ({ kind: "say", text });

describe("turns", () => {
  const plan: ScriptedAction[] = ["first", "second", "third"].flatMap((text, n) => [
    { call: "a", args: { n } },
    { say: text },
  ]);

  it("end with a say action; the last turn ends with the last action", async () => {
    const played = await playPlan(plan, { users: ["one", "two"] });
    expect(messages(played)).toEqual(["0: first", "1: second", "1: third"]);
    expect(played.calls).toEqual(['s.a{"n":0}', 's.a{"n":1}', 's.a{"n":2}']);
    expect(played.context.events.map(({ type }) => type)).toEqual([
      "agent.started",
      "turn.started",
      "agent.message",
      "turn.finished",
      "turn.started",
      "agent.message",
      "agent.message",
      "turn.finished",
    ]);
  });

  it("are empty after a plan that is shorter than the conversation", async () => {
    const { context } = await playPlan([{ say: "only" }], { users: ["one", "two", "three"] });
    expect(eventsOf(context.events, "agent.message")).toHaveLength(1);
    expect(eventsOf(context.events, "turn.finished")).toHaveLength(3);
  });

  it("are empty with the agent null, which sends no request", async () => {
    const options = { env: {}, modelMs: 1000, version: "0.0.0" };
    const agent = (await loadAgent({ type: "null", name: "nobody" }, options))();
    const calls: string[] = [];
    const context = recordedContext({ users: ["one", "two"], sessions: [stub("s", ["a"], calls)] });
    await agent.prepare();
    await agent.run({ ...context, solution: { actions: [call("a")], scope: new Map(), outputs: new Map() } });
    const turns = ["one", "two"].flatMap((user, turn) => [
      { type: "turn.started", turn, user },
      { type: "turn.finished", turn, reason: "done" },
    ]);
    expect(context.events).toEqual([{ type: "agent.started", agent: "nobody", kind: "null" }, ...turns]);
    expect(calls).toEqual([]);
    const over = new Error("over");
    await expect(agent.run({ ...context, signal: AbortSignal.abort(over) })).rejects.toBe(over);
  });
});

describe("requests", () => {
  it("go to the named server, or to the only possible one; ambiguous requests are rejected", async () => {
    const { context, calls } = await play(
      [
        call("mine"),
        { kind: "tool", server: "y", tool: "both", args: { a: 1 } },
        { kind: "tool", server: "x", tool: "unlisted", args: {} },
        { kind: "resource", server: "y", uri: "a:1" },
        { kind: "prompt", server: "x", prompt: "greet", args: { who: "me" } },
        call("both", { b: 2 }),
        call("none"),
        { kind: "tool", server: "z", tool: "both", args: {} },
        { kind: "resource", uri: "a:2" },
        { kind: "resource", server: "z", uri: "a:2" },
        { kind: "prompt", prompt: "greet", args: { who: "me" } },
        say("done"),
      ],
      { servers: { x: ["both", "mine"], y: ["both"] } },
    );
    const sent = ["x.mine{}", 'y.both{"a":1}', "x.unlisted{}", "y reads a:1", 'x gets greet{"who":"me"}'];
    expect(calls).toEqual(sent);
    const rejected = eventsOf(context.events, "tool.rejected");
    expect(rejected.map(({ tool, args, reason, known }) => [tool, args, reason, known])).toEqual([
      ["both", { b: 2 }, 'x and y both offer "both"; the action must name its server', true],
      ["none", {}, 'no server offers a tool called "none"', undefined],
      ["both", {}, 'no server is called "z"; there are: x, y', undefined],
      ["a:2", {}, 'x and y could be asked for "a:2"; the action must name its server', true],
      ["a:2", {}, 'no server is called "z"; there are: x, y', true],
      ["greet", { who: "me" }, 'x and y could be asked for "greet"; the action must name its server', true],
    ]);
    expect(eventsOf(context.events, "agent.message")).toHaveLength(1);
  });

  it("for a resource go to the only server; without one they are rejected", async () => {
    const page: SolutionAction[] = [{ kind: "resource", uri: "a:1" }];
    expect((await play(page)).calls).toEqual(["s reads a:1"]);
    const { context } = await play(page, { servers: {} });
    const [rejected] = eventsOf(context.events, "tool.rejected");
    expect(rejected?.reason).toBe('there is no server to ask for "a:1"');
  });
});

describe("templates", () => {
  it("are replaced in every text of an action", async () => {
    const server = "{env.SERVER}";
    const played = await play(
      [
        { kind: "tool", server, tool: "{env.TOOL}", args: { n: "{env.N | json}", list: ["{env.N}"] } },
        { kind: "resource", server, uri: "a:{env.N}" },
        { kind: "prompt", server, prompt: "p{env.N}", args: { n: "{env.N}" } },
        say("it is {env.N}"),
      ],
      { servers: { x: ["a"], y: ["a"] }, roots: { env: { SERVER: "y", TOOL: "a", N: "5" } } },
    );
    expect(played.calls).toEqual(['y.a{"n":5,"list":["5"]}', "y reads a:5", 'y gets p5{"n":"5"}']);
    expect(messages(played)).toEqual(["0: it is 5"]);
  });

  it("are replaced in a plan if the scope has their root", async () => {
    const args = { path: "{workspace}/x", list: ["{workspace}", "{other}"], "{workspace}": 1 };
    const plan: ScriptedAction[] = [{ call: "a", args }, { say: "{{workspace} {workspace}" }];
    const played = await playPlan(plan, { workspace: "/w" });
    expect(played.calls).toEqual(['s.a{"path":"/w/x","list":["/w","{other}"],"{workspace}":1}']);
    expect(messages(played)).toEqual(["0: {workspace} /w"]);
    const plain = await playPlan([{ call: "a", args: { path: "{workspace}/{{x" } }], {});
    expect(plain.calls).toEqual(['s.a{"path":"{workspace}/{{x"}']);
  });

  it("use the outputs of earlier actions by their ids", async () => {
    const outputs = {
      text: "{text}",
      whole: "{result | json $}",
      first: "{result | json $.content[0].text}",
    };
    const played = await play([
      { kind: "tool", id: "t", tool: "a", args: {}, outputs },
      { kind: "resource", id: "r", uri: "a:{steps.t.outputs.text}", outputs: { page: "{text}" } },
      { kind: "prompt", id: "p", prompt: "greet", args: {}, outputs: { greeting: "{text}!" } },
      { kind: "tool", tool: "a", args: {}, outputs: { nobody: "{text}" } },
      say("{steps.r.outputs.page}, {steps.p.outputs.greeting}"),
    ]);
    const whole = '{"content":[{"type":"text","text":"answer 1"}]}';
    expect(Object.fromEntries(played.outputs)).toEqual({
      t: { text: "answer 1", whole, first: "answer 1" },
      r: { page: "page a:answer 1" },
      p: { greeting: "hello {}!" },
    });
    expect(messages(played)).toEqual(["0: page a:answer 1, hello {}!"]);
  });

  it.each(["fail", "refuse", "none"])("get no outputs from a failed call: %s", async (tool) => {
    const servers = { s: ["fail", "refuse"] };
    const failing: SolutionAction = { kind: "tool", id: "t", tool, args: {}, outputs: { text: "{text}" } };
    const played = await play([failing, say("went on")], { servers });
    expect([played.outputs.size, messages(played)]).toEqual([0, ["0: went on"]]);
    const using = play([failing, say("{steps.t.outputs.text}")], { servers });
    await expect(using).rejects.toMatchObject({ code: "task/template" });
  });
});

describe("foreach", () => {
  const foreach = (variable: string, items: string | Json[], actions: SolutionAction[]): SolutionAction => ({
    kind: "foreach",
    variable,
    in: items,
    actions,
  });

  it("plays its actions for each item, and a say action ends the turn", async () => {
    const inner = [call("a", { n: "{item | json $.n}" }), say("did {item.n}")];
    const played = await play([foreach("item", [{ n: 1 }, { n: "{env.N | json}" }], inner), say("all")], {
      users: ["one", "two", "three"],
      roots: { env: { N: "2" } },
    });
    expect(played.calls).toEqual(['s.a{"n":1}', 's.a{"n":2}']);
    expect(messages(played)).toEqual(["0: did 1", "1: did 2", "2: all"]);
  });

  it("reads its items when it is reached, and nests", async () => {
    const played = await play([
      { kind: "tool", id: "list", tool: "a", args: {}, outputs: { all: '["{text}", "b"]' } },
      foreach("outer", "{steps.list.outputs.all}", [foreach("inner", [1, 2], [say("{outer} {inner}")])]),
    ]);
    expect(messages(played)).toEqual(["0: answer 1 1", "0: answer 1 2", "0: b 1", "0: b 2"]);
  });

  it("over a value that is not a list is an error", async () => {
    const playing = play([foreach("x", "{env.N}", [say("x")])], { roots: { env: { N: "5" } } });
    const message = 'foreach needs a JSON list, but "{env.N}" gives "5"';
    await expect(playing).rejects.toMatchObject({ code: "task/template", message });
  });
});

describe("without a plan or solution", () => {
  it.each([
    ["scripted", "other", "agent/no-plan", 'agent it has no plan for "other"; it has plans for "task"'],
    ["scripted", "toString", "agent/no-plan", 'agent it has no plan for "toString"; it has plans for "task"'],
    ["oracle", "task", "task/no-solution", 'agent it plays solutions, and "task" has none'],
  ] as const)("the agent %s cannot act on %s, and nothing happens", async (type, task, code, message) => {
    const spec =
      type === "oracle" ? ({ type, name: "it" } as const) : { type, name: "it", plan: { task: [] } };
    const context = recordedContext({ users: ["go"], task });
    await expect(createWrittenAgent(spec).run(context)).rejects.toMatchObject({ code, message });
    expect(context.events).toEqual([]);
  });
});
