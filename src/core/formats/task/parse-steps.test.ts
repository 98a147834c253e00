import { describe, expect, it } from "vitest";
import { extensionsNamed, filesOf, portableOf, stepOf, taskOf } from "../../../../test/support/task-file.ts";

/** As long as a timer can wait. */
const noLimit = 2_147_483_647;

const tool = (name: string): object => ({ kind: "tool", tool: name, args: {} });
const judged = [{ llm: { exact: "x" } }];
const holds = { steps: [{ type: "llm", id: "steps[0]", timeoutMs: 60_000, exact: "x" }] };

describe("defaults", () => {
  it.each<[object, string, number, object]>([
    [{ command: { run: "ls" } }, "command", 60_000, { run: "ls", env: {}, expect: { exitCode: 0 } }],
    [
      { http: { url: "http://x" } },
      "http",
      30_000,
      { url: "http://x", method: "GET", headers: {}, expect: { status: ["2xx"] } },
    ],
    [
      { file: { path: "a", expect: {} } },
      "file",
      30_000,
      { path: "a", action: { kind: "check", exists: true } },
    ],
    [{ llm: { contains: "x" } }, "llm", 60_000, { contains: "x" }],
    [
      { script: { inline: "exit 1" } },
      "script",
      300_000,
      { source: { inline: "exit 1" }, args: [], env: {}, protocol: "exit-code", workdir: "task" },
    ],
    [{ mcp: { tool: "add" } }, "mcp", 30_000, { request: tool("add"), expect: {} }],
    [{ "main.add.two": {} }, "mcp", 30_000, { server: "main", request: tool("add.two"), expect: {} }],
    [
      { "ext.do": { name: "n", manifest: { a: [1] } } },
      "extension",
      300_000,
      { extension: "ext", operation: "do", args: { name: "n", manifest: { a: [1] } } },
    ],
    [
      { extension: { package: "ext", action: "do" } },
      "extension",
      300_000,
      { extension: "ext", operation: "do", args: {} },
    ],
    [
      { foreach: { var: "x", in: [1, "a", { b: null }], steps: judged } },
      "foreach",
      noLimit,
      { variable: "x", in: [1, "a", { b: null }], ...holds },
    ],
    [{ anyOf: judged }, "anyOf", noLimit, holds],
    [{ allOf: judged }, "allOf", noLimit, holds],
    [{ not: judged }, "not", noLimit, holds],
    [{ group: { steps: judged } }, "group", noLimit, { setup: [], ...holds, cleanup: [] }],
  ])("of %j", (step, type, timeoutMs, fields) => {
    const model = { type, id: "verify[0]", timeoutMs, ...fields };
    expect(stepOf(step, {}, { extensions: extensionsNamed("ext") })).toEqual(model);
  });

  it("of a file that is made, and of one that is removed", () => {
    const { setup } = portableOf({
      setup: [{ file: { path: "a", content: "" } }, { file: { path: "a", absent: true } }],
    });
    expect(setup).toEqual([
      {
        type: "file",
        id: "setup[0]",
        timeoutMs: 30_000,
        path: "a",
        action: { kind: "create", content: "", mode: 0o644 },
      },
      { type: "file", id: "setup[1]", timeoutMs: 30_000, path: "a", action: { kind: "remove" } },
    ]);
  });
});

const common = {
  id: "me",
  name: "My step",
  if: "{env.HOME} == /root",
  timeout: "5s",
  continueOnError: true,
  outputs: { out: "{random.id}" },
  retry: { for: "10s" },
  stableFor: 1500,
};
const commonModel = {
  id: "me",
  name: "My step",
  if: "{env.HOME} == /root",
  timeoutMs: 5000,
  continueOnError: true,
  outputs: { out: "{random.id}" },
  retry: { forMs: 10_000, everyMs: 1000 },
  stableForMs: 1500,
};
const inner = [{ command: { run: "x" } }];

describe("the fields of every step", () => {
  it.each<[string, object]>([
    ["command", { run: "ls" }],
    ["http", { url: "http://x" }],
    ["file", { path: "a", expect: {} }],
    ["llm", { rubric: "x" }],
    ["script", { inline: "x" }],
    ["mcp", { tool: "x" }],
    ["main.tool", {}],
    ["extension", { package: "npm:ext", action: "do" }],
    ["foreach", { var: "x", in: [1], steps: inner }],
    ["anyOf", { steps: inner }],
    ["allOf", { steps: inner }],
    ["not", { steps: inner }],
    ["group", { steps: inner }],
  ])("stand in %s", (kind, body) => {
    const [step] = taskOf({ verify: [{ [kind]: { ...body, ...common } }, ...inner] }).verify;
    expect(step).toMatchObject(commonModel);
  });

  it("stand in ALIAS.OPERATION, but for the name, which is an argument", () => {
    const options = { extensions: extensionsNamed("ext") };
    const { name, ...rest } = commonModel;
    const [step] = taskOf({ verify: [{ "ext.do": common }, ...inner] }, options).verify;
    expect(step).toMatchObject({ ...rest, args: { name } });
    expect(step).not.toHaveProperty("name");
  });

  it("may say how often to try again", () => {
    const step = stepOf({ command: { run: "x", retry: { for: "1m", every: "100ms" } } });
    expect(step.retry).toEqual({ forMs: 60_000, everyMs: 100 });
  });
});

describe("what each step says", () => {
  it("command", () => {
    const body = {
      run: "cat",
      shell: "/bin/bash",
      workdir: "sub",
      env: { A: "{env.HOME}" },
      stdin: "in",
      expect: { exitCode: 3, stdout: "all of it", stderr: { contains: "x", matches: ["a+", "^b"] } },
    };
    expect(stepOf({ command: body })).toMatchObject({
      ...body,
      expect: {
        exitCode: 3,
        stdout: { equals: "all of it" },
        stderr: { contains: ["x"], matches: ["a+", "^b"] },
      },
    });
  });

  it("http", () => {
    const body = {
      url: "http://127.0.0.1:{random.port}/x",
      method: "post",
      headers: { A: "b" },
      body: "text",
      expect: { status: [200, "3xx"], headers: { "content-type": "text/plain", x: { contains: "y" } } },
    };
    expect(stepOf({ http: body })).toMatchObject({
      url: body.url,
      method: "POST",
      headers: { A: "b" },
      body: { text: "text" },
      expect: {
        status: [200, "3xx"],
        headers: { "content-type": { equals: "text/plain" }, x: { contains: ["y"] } },
      },
    });
    const sent = stepOf({
      http: { url: "http://x", body: { json: [null, { a: 1 }] }, expect: { status: 404 } },
    });
    expect(sent).toMatchObject({ body: { json: [null, { a: 1 }] }, expect: { status: [404] } });
  });

  it("the body that comes back: text, or one place in JSON, or several", () => {
    const bodyOf = (body: unknown): unknown => stepOf({ http: { url: "http://x", expect: { body } } });
    expect(bodyOf("all")).toMatchObject({ expect: { body: { equals: "all" } } });
    expect(bodyOf({ json: { path: "$.a", equals: null } })).toMatchObject({
      expect: { body: { json: [{ path: "$.a", equals: null }] } },
    });
    const every = [
      { path: "a" },
      { path: "b", exists: false },
      { path: "c", contains: [1] },
      { path: "d", matches: "x" },
      { path: "e", type: "array", count: 2 },
      { path: "f", equals: {}, ignorePaths: ["$.uid"] },
    ];
    expect(bodyOf({ json: every })).toMatchObject({ expect: { body: { json: every } } });
  });

  it("file", () => {
    expect(stepOf({ file: { path: "a", expect: { exists: false } } })).toMatchObject({
      action: { kind: "check", exists: false },
    });
    const parts = { equals: "e", contains: "c", matches: "m", json: { path: "$" }, mode: "0600" };
    expect(stepOf({ file: { path: "{workspace}/a", expect: parts } })).toMatchObject({
      path: "{workspace}/a",
      action: {
        kind: "check",
        exists: true,
        mode: 0o600,
        content: { equals: "e", contains: ["c"], matches: ["m"], json: [{ path: "$" }] },
      },
    });
    const [made] = portableOf({ setup: [{ file: { path: "a", content: "x", mode: 755 } }] }).setup;
    expect(made).toMatchObject({ action: { kind: "create", content: "x", mode: 0o755 } });
  });

  it("llm", () => {
    const body = { contains: "c", exact: "e", rubric: "r", input: "{agent.output}!" };
    expect(stepOf({ llm: body })).toMatchObject(body);
  });

  it("script", () => {
    const body = { file: "check.py", args: ["{task.name}"], env: { A: "b" }, protocol: "json" };
    const step = stepOf({ script: body }, {}, { files: filesOf({ "check.py": "check()" }) });
    expect(step).toMatchObject({
      source: { file: "check.py" },
      args: ["{task.name}"],
      env: { A: "b" },
      protocol: "json",
    });
  });

  it("mcp", () => {
    const expectation = { isError: true, text: "t", json: { path: "$" }, schema: { type: "object" } };
    expect(
      stepOf({ mcp: { server: "main", tool: "add", args: { a: 1 }, expect: expectation } }),
    ).toMatchObject({
      server: "main",
      request: { kind: "tool", tool: "add", args: { a: 1 } },
      expect: { isError: true, text: { equals: "t" }, json: [{ path: "$" }], schema: { type: "object" } },
    });
    expect(stepOf({ mcp: { resource: "a://b" } })).toMatchObject({
      request: { kind: "resource", uri: "a://b" },
    });
    expect(stepOf({ mcp: { prompt: "p", args: { a: "b" } } })).toMatchObject({
      request: { kind: "prompt", prompt: "p", args: { a: "b" } },
    });
    expect(stepOf({ "main.add": { args: { a: 1 }, expect: { text: { contains: "2" } } } })).toMatchObject({
      request: { kind: "tool", tool: "add", args: { a: 1 } },
      expect: { text: { contains: ["2"] } },
    });
  });

  it("extension", () => {
    const body = { package: "npm:ext@1", action: "do.it", args: { id: "x", deep: [{}] } };
    expect(stepOf({ extension: body })).toMatchObject({
      extension: "npm:ext@1",
      operation: "do.it",
      args: { id: "x", deep: [{}] },
    });
  });

  it("foreach over a template", () => {
    const step = { foreach: { var: "x", in: "{env.HOME | json}", steps: [{ command: { run: "{x.a}" } }] } };
    expect(stepOf(step)).toMatchObject({ in: "{env.HOME | json}", steps: [{ run: "{x.a}" }] });
  });

  it("not, of one step, of a call, of a list, in the long form", () => {
    const one = [{ type: "command", id: "steps[0]" }];
    expect(stepOf({ not: { command: { run: "x" } } })).toMatchObject({ steps: one });
    expect(stepOf({ not: { "main.add": {} } })).toMatchObject({ steps: [{ type: "mcp", id: "steps[0]" }] });
    expect(stepOf({ not: inner })).toMatchObject({ steps: one });
    expect(stepOf({ not: { id: "n", steps: inner } })).toMatchObject({ id: "n", steps: one });
  });

  it("group, with steps that hold steps", () => {
    const group = { id: "g", setup: inner, steps: [{ anyOf: [{ allOf: inner }] }], cleanup: inner };
    expect(stepOf({ group })).toMatchObject({
      id: "g",
      setup: [{ id: "setup[0]" }],
      steps: [
        {
          type: "anyOf",
          id: "steps[0]",
          steps: [{ type: "allOf", id: "steps[0]", steps: [{ type: "command", id: "steps[0]" }] }],
        },
      ],
      cleanup: [{ id: "cleanup[0]" }],
    });
  });
});

describe("dotted steps", () => {
  it("go to the import with the longest name, else to such a server", () => {
    const options = { servers: ["a", "a.b"], extensions: extensionsNamed("x") };
    expect(stepOf({ "a.b.c": {} }, {}, options)).toMatchObject({ server: "a.b", request: { tool: "c" } });
    expect(stepOf({ "a.c": {} }, {}, options)).toMatchObject({ server: "a", request: { tool: "c" } });
    expect(stepOf({ "x.c": {} }, {}, options)).toMatchObject({ extension: "x", operation: "c" });
    const spec = { imports: [{ package: "npm:y@1", as: "y" }] };
    expect(stepOf({ "y.do": {} }, spec)).toMatchObject({ extension: "y", operation: "do" });
    expect(stepOf({ "y..a.b": {} }, spec)).toMatchObject({ extension: "y", operation: ".a.b" });
    const dotted = { extensions: extensionsNamed("x", "x.y") };
    expect(stepOf({ "x.y.do": {} }, {}, dotted)).toMatchObject({ extension: "x.y", operation: "do" });
    expect(stepOf({ "x.do": {} }, {}, dotted)).toMatchObject({ extension: "x", operation: "do" });
  });

  it("may name a server that the task requires", () => {
    const spec = { requires: [{ server: "other" }] };
    expect(stepOf({ "other.tool": {} }, spec)).toMatchObject({ server: "other" });
  });
});
