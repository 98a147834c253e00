import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { check, filesOf, portableOf, taskDocument, taskOf, valid } from "../../../test/support/task-file.ts";

const prompt = "do it";

it("fills in everything that a task needs", () => {
  const { notes, servers, task } = valid(taskDocument());
  const step =
    '{type: command, id: "verify[0]", timeoutMs: 60000, run: test -d ., env: {}, expect: {exitCode: 0}}';
  const expected: unknown = parseYaml(`
notes: []
servers: {}
task:
  {name: a task, form: task, servers: [main], turns: [], expectTools: [], verify: [${step}], parallel: false,
  location: {file: task.yaml, path: value metadata.name},
  portable: {format: mcp-eval/v1, file: /task/task.yaml, dir: /task, env: {}, setup: [], cleanup: [], fixtures: [],
  requires: [], tags: [], labels: {}, cleanupTimeoutMs: 60000, stateProbe: [], randomPorts: [], assertions: [],
  inheritEnv: []}}`);
  expect({ notes, servers, task }).toEqual(expected);
});

describe("metadata", () => {
  it("takes over what is said of the task", () => {
    const said = { difficulty: "hard", tags: ["a", "b"], labels: { team: "x" } };
    const own = { name: "other", description: "what it is" };
    const { task } = valid(taskDocument({}, { ...own, ...said, timeout: "90s" }));
    expect(task).toMatchObject({ ...own, portable: { ...said, timeoutMs: 90_000 } });
  });
});

describe("spec", () => {
  it("takes the steps of each phase, and the state that must come back", () => {
    const step = (id: string): object => ({ command: { id, run: "x", outputs: { a: "{stdout}" } } });
    const spec = { setup: [step("s")], verify: [step("v")], cleanup: [step("c1"), step("c2")] };
    const { verify, portable } = valid(taskDocument(spec, { stateProbe: ["s", "s.a"] })).task;
    const ids = [portable?.setup, verify, portable?.cleanup].map((list) => list?.map(({ id }) => id));
    expect([ids, portable?.stateProbe]).toEqual([
      [["s"], ["v"], ["c1", "c2"]],
      ["s", "s.a"],
    ]);
  });

  it("takes the time limits", () => {
    const { timeoutMs, cleanupTimeoutMs } = portableOf({ limits: { timeout: "2m", cleanupTimeout: "3s" } });
    expect({ timeoutMs, cleanupTimeoutMs }).toEqual({ timeoutMs: 120_000, cleanupTimeoutMs: 3000 });
  });

  it("takes what the agent is told: a text, a file, a list of turns", () => {
    const files = filesOf({ "p.md": "from a file\n", "q.md": "more {task.name}" });
    const turnsOf = (given: unknown): unknown => taskOf({ prompt: given }, { files }).turns;
    expect(turnsOf(prompt)).toEqual([{ user: prompt }]);
    expect(turnsOf({ file: "p.md" })).toEqual([{ user: "from a file" }]);
    expect(turnsOf(["first", { file: "q.md" }])).toEqual([{ user: "first" }, { user: "more {task.name}" }]);
  });

  it("takes variables, fixtures and requirements", () => {
    const spec = parseYaml(`
env: {A: "{env.B}", B: "{random.id}", HOME: "{env.HOME}/x"}
fixtures: [data/a.json, folder/]
requires: [{command: git}, {env: TOKEN}, {server: x}, {platform: linux}, {judge: true}]`) as object;
    const portable = portableOf(spec, { files: filesOf({ "data/a.json": "{}", "folder/": null }) });
    expect(portable).toMatchObject({
      ...spec,
      requires: [
        { kind: "command", name: "git" },
        { kind: "env", name: "TOKEN" },
        { kind: "server", name: "x" },
        { kind: "platform", name: "linux" },
        { kind: "judge" },
      ],
    });
  });

  it("notes imports that are not used", () => {
    const imports = [
      { package: "npm:a@1", as: "a" },
      { package: "npm:b@1", as: "b" },
    ];
    expect(valid(taskDocument({ imports, setup: [{ "a.do": {} }] })).notes).toEqual([
      'the import "b" is not used',
    ]);
    const long = [{ extension: { package: "b", action: "do" } }];
    expect(valid(taskDocument({ imports, setup: [{ "a.do": {} }, ...long] })).notes).toEqual([]);
  });

  it("notes that nothing ends cleanup early", () => {
    const steps = [true, false].map((continueOnError) => ({ command: { run: "x", continueOnError } }));
    expect(valid(taskDocument({ setup: steps, cleanup: steps })).notes).toEqual([
      "cleanup[1]: continueOnError: false has no effect; all of cleanup always runs",
    ]);
  });
});

describe("servers", () => {
  const own = { command: "node", args: ["{workspace}/s.js", "{random.port:a}"] };

  it("are laid over the eval's by name, and null takes one away", () => {
    const spec = { servers: { mine: own, main: own, other: null } };
    const { task, servers } = valid(taskDocument(spec), { servers: ["main", "other", "third"] });
    expect(task.servers).toEqual(["main", "third", "mine"]);
    expect(Object.keys(servers)).toEqual(["mine", "main"]);
  });

  it("have the transport that a command or a url tells", () => {
    const spec = parseYaml(`
a: {command: node, args: [x], env: {A: "{env.HOME}"}, cwd: sub}
b: {url: "http://127.0.0.1:{random.port}/mcp", headers: {A: "{random.id}"}}
c: {transport: sse, url: "{env.HOME}", startupTimeout: 5s}`) as Record<"a" | "b" | "c", object>;
    const { servers } = valid(taskDocument({ servers: spec }));
    const limits = { startupTimeoutMs: 30_000, maxMessageBytes: 10_485_760 };
    expect(servers).toEqual({
      a: { transport: "stdio", ...spec.a, ...limits },
      b: { transport: "shttp", ...spec.b, ...limits },
      c: { transport: "sse", url: "{env.HOME}", headers: {}, ...limits, startupTimeoutMs: 5000 },
    });
  });
});

it("finds random ports wherever they stand, each name once", () => {
  const spec = {
    env: { A: "{random.port:a}" },
    servers: { s: { url: "http://127.0.0.1:{random.port:s}/" } },
    setup: [{ command: { run: "{random.port} {random.port:a} {random.id:x} {{random.port:no}}" } }],
    prompt: { file: "p.md" },
  };
  const files = filesOf({ "p.md": "on {random.port:p}" });
  expect(portableOf(spec, { files }).randomPorts.toSorted()).toEqual(["", "a", "p", "s"]);
  expect(portableOf({ prompt }).randomPorts).toEqual([]);
});

describe("solution", () => {
  it("takes calls, words and loops", () => {
    const solution = parseYaml(`
- mcp: {server: main, tool: add, args: {a: 1}, id: sum, outputs: {n: "{text}"}}
- mcp: {resource: "a://{steps.sum.outputs.n}"}
- mcp: {prompt: p, args: {a: b}}
- main.mul: {args: {a: 2}, id: product, outputs: {n: "{result.content}"}}
- foreach: {var: x, in: [a], steps: [{main.mul: {args: {a: "{x}"}}}]}
- say: "{steps.product.outputs.n}"`) as unknown;
    const expected: unknown = parseYaml(`
- {kind: tool, server: main, tool: add, args: {a: 1}, id: sum, outputs: {n: "{text}"}}
- {kind: resource, uri: "a://{steps.sum.outputs.n}"}
- {kind: prompt, prompt: p, args: {a: b}}
- {kind: tool, server: main, tool: mul, args: {a: 2}, id: product, outputs: {n: "{result.content}"}}
- {kind: foreach, variable: x, in: [a], actions: [{kind: tool, server: main, tool: mul, args: {a: "{x}"}}]}
- {kind: say, text: "{steps.product.outputs.n}"}`);
    expect(portableOf({ prompt, solution }).solution).toEqual(expected);
  });

  it("may have as many turns as the prompt", () => {
    const solution = [{ say: "a" }, { "main.add": {} }];
    expect(portableOf({ prompt: ["one", "two"], solution }).solution).toHaveLength(2);
  });
});

describe("the form of a task", () => {
  it("is told by its apiVersion", () => {
    const spec = { prompt: { inline: "hi" }, verify: { inline: "true" } };
    const document = { kind: "Task", metadata: { name: "old" }, steps: spec };
    expect(valid(document).task.portable?.format).toBe("script-form");
    expect(valid({ ...document, apiVersion: "mcpchecker/v1alpha1" }).task.portable?.format).toBe(
      "script-form",
    );
    expect(valid(taskDocument({ verify: [check] })).task.portable?.format).toBe("mcp-eval/v1");
  });
});
