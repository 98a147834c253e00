import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { extensionsNamed, filesOf, portableOf, stepOf, taskOf } from "../../../test/support/task-file.ts";
import { parseFileMode } from "../../model/step.ts";

/** Pairs of a step as written and its model, in YAML: a line with the step, then one with the model. */
function pairs(text: string): [step: string, model: string][] {
  const lines = text
    .trim()
    .replaceAll(/\n {2,}/g, " ")
    .split("\n");
  return lines.flatMap((line, index) => (index % 2 === 0 ? [[line, lines[index + 1] ?? ""] as const] : []));
}

const options = { extensions: extensionsNamed("ext"), files: filesOf({ "check.py": "check()" }) };
const holds = '[{type: llm, id: "steps[0]", timeoutMs: 60000, exact: x}]';

it.each(
  pairs(`
command: {run: ls}
{type: command, timeoutMs: 60000, run: ls, env: {}, expect: {exitCode: 0}}
http: {url: http://x}
{type: http, timeoutMs: 30000, url: http://x, method: GET, headers: {}, expect: {status: [2xx]}}
file: {path: a, expect: {}}
{type: file, timeoutMs: 30000, path: a, action: {kind: check, exists: true}}
llm: {contains: x}
{type: llm, timeoutMs: 60000, contains: x}
script: {inline: exit 1}
{type: script, timeoutMs: 300000, source: {inline: exit 1}, args: [], env: {}, protocol: exit-code, workdir: task}
mcp: {tool: add}
{type: mcp, timeoutMs: 30000, request: {kind: tool, tool: add, args: {}}, expect: {}}
main.add.two: {}
{type: mcp, timeoutMs: 30000, server: main, request: {kind: tool, tool: add.two, args: {}}, expect: {}}
ext.do: {name: n, manifest: {a: [1]}}
{type: extension, timeoutMs: 300000, extension: ext, operation: do, args: {name: n, manifest: {a: [1]}}}
extension: {package: ext, action: do}
{type: extension, timeoutMs: 300000, extension: ext, operation: do, args: {}}
foreach: {var: x, in: [1, a, {b: null}], steps: [{llm: {exact: x}}]}
{type: foreach, timeoutMs: 2147483647, variable: x, in: [1, a, {b: null}], steps: ${holds}}
anyOf: [{llm: {exact: x}}]
{type: anyOf, timeoutMs: 2147483647, steps: ${holds}}
allOf: [{llm: {exact: x}}]
{type: allOf, timeoutMs: 2147483647, steps: ${holds}}
not: [{llm: {exact: x}}]
{type: not, timeoutMs: 2147483647, steps: ${holds}}
group: {steps: [{llm: {exact: x}}]}
{type: group, timeoutMs: 2147483647, setup: [], steps: ${holds}, cleanup: []}
`),
)("has these defaults: %s", (step, model) => {
  const fields = parseYaml(model) as object;
  expect(stepOf(parseYaml(step) as object, {}, options)).toEqual({ id: "verify[0]", ...fields });
});

it("checks in verify that a file is absent, and removes it in the setup and cleanup of a group", () => {
  const absent = { file: { path: "a", absent: true } };
  const action = { kind: "check", exists: false };
  expect(stepOf(absent)).toMatchObject({ type: "file", path: "a", action });
  expect(stepOf({ not: absent })).toMatchObject({ steps: [{ action }] });
  expect(stepOf({ anyOf: [absent, { command: { run: "test -d ." } }] })).toMatchObject({
    steps: [{ action }, {}],
  });
  expect(stepOf({ group: { setup: [absent], steps: [absent], cleanup: [absent] } })).toMatchObject({
    setup: [{ action: { kind: "remove" } }],
    steps: [{ action }],
    cleanup: [{ action: { kind: "remove" } }],
  });
});

it("has defaults for a file that is made, and for one that is removed", () => {
  const steps = [{ file: { path: "a", content: "" } }, { file: { path: "a", absent: true } }];
  const common = { type: "file", timeoutMs: 30_000, path: "a" };
  expect(portableOf({ setup: steps }).setup).toEqual([
    { ...common, id: "setup[0]", action: { kind: "create", content: "", mode: 0o644 } },
    { ...common, id: "setup[1]", action: { kind: "remove" } },
  ]);
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
const { timeout: _, stableFor: __, ...kept } = common;
const commonModel = { ...kept, timeoutMs: 5000, retry: { forMs: 10_000, everyMs: 1000 }, stableForMs: 1500 };
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
    const { name, ...rest } = commonModel;
    const [step] = taskOf({ verify: [{ "ext.do": common }, ...inner] }, options).verify;
    expect(step).toMatchObject({ ...rest, args: { name } });
    expect(step).not.toHaveProperty("name");
  });
});

it.each(
  pairs(`
command: {run: x, retry: {for: 1m, every: 100ms}}
{retry: {forMs: 60000, everyMs: 100}}
command: {run: cat, shell: /bin/bash, workdir: sub, env: {A: "{env.HOME}"}, stdin: in}
{run: cat, shell: /bin/bash, workdir: sub, env: {A: "{env.HOME}"}, stdin: in}
command: {run: x, expect: {exitCode: 3, stdout: all of it, stderr: {contains: x, matches: [a+, ^b]}}}
{expect: {exitCode: 3, stdout: {equals: all of it}, stderr: {contains: [x], matches: [a+, ^b]}}}
http: {url: "http://127.0.0.1:{random.port}/x", method: post, headers: {A: b}, body: text}
{url: "http://127.0.0.1:{random.port}/x", method: POST, headers: {A: b}, body: {text: text}}
http: {url: http://x, expect: {status: [200, 3xx], headers: {content-type: text/plain, x: {contains: y}}}}
{expect: {status: [200, 3xx], headers: {content-type: {equals: text/plain}, x: {contains: [y]}}}}
http: {url: http://x, body: {json: [null, {a: 1}]}, expect: {status: 404}}
{body: {json: [null, {a: 1}]}, expect: {status: [404]}}
http: {url: http://x, expect: {body: all}}
{expect: {body: {equals: all}}}
http: {url: http://x, expect: {body: {json: {path: $.a, equals: null}}}}
{expect: {body: {json: [{path: $.a, equals: null}]}}}
http: {url: http://x, expect: {body: {json: [{path: a}, {path: b, exists: false}, {path: c, contains: [1]}]}}}
{expect: {body: {json: [{path: a}, {path: b, exists: false}, {path: c, contains: [1]}]}}}
http: {url: http://x, expect: {body: {json: [{path: d, matches: x}, {path: e, type: array, count: 2}]}}}
{expect: {body: {json: [{path: d, matches: x}, {path: e, type: array, count: 2}]}}}
http: {url: http://x, expect: {body: {json: {path: f, equals: {}, ignorePaths: [$.uid]}}}}
{expect: {body: {json: [{path: f, equals: {}, ignorePaths: [$.uid]}]}}}
file: {path: a, expect: {exists: false}}
{action: {kind: check, exists: false}}
file: {path: "{workspace}/a", expect: {equals: e, contains: c, matches: m, json: {path: $}, mode: "0600"}}
{path: "{workspace}/a", action: {kind: check, exists: true, mode: 0o600,
  content: {equals: e, contains: [c], matches: [m], json: [{path: $}]}}}
file: {path: a, content: x, mode: 755}
{action: {kind: create, content: x, mode: 0o755}}
llm: {contains: c, exact: e, rubric: r, input: "{agent.output}!"}
{contains: c, exact: e, rubric: r, input: "{agent.output}!"}
script: {file: check.py, args: ["{task.name}"], env: {A: b}, protocol: json}
{source: {file: check.py}, args: ["{task.name}"], env: {A: b}, protocol: json}
mcp: {server: main, tool: add, args: {a: 1}, expect: {isError: true, text: t, json: {path: $}, schema: {type: object}}}
{server: main, request: {kind: tool, tool: add, args: {a: 1}},
  expect: {isError: true, text: {equals: t}, json: [{path: $}], schema: {type: object}}}
mcp: {tool: add, expect: {result: {$contains: 5}, maxLatency: 2s}}
{expect: {result: {$contains: 5}, maxLatencyMs: 2000}}
main.add: {expect: {error: "no"}}
{expect: {error: "no"}}
mcp: {resource: a://b}
{request: {kind: resource, uri: a://b}}
mcp: {prompt: p, args: {a: b}}
{request: {kind: prompt, prompt: p, args: {a: b}}}
main.add: {args: {a: 1}, expect: {text: {contains: "2"}}}
{request: {kind: tool, tool: add, args: {a: 1}}, expect: {text: {contains: ["2"]}}}
extension: {package: npm:ext@1, action: do.it, args: {id: x, deep: [{}]}}
{extension: npm:ext@1, operation: do.it, args: {id: x, deep: [{}]}}
foreach: {var: x, in: "{env.HOME | json}", steps: [{command: {run: "{x.a}"}}]}
{in: "{env.HOME | json}", steps: [{run: "{x.a}"}]}
not: {command: {run: x}}
{steps: [{type: command, id: "steps[0]"}]}
not: {main.add: {}}
{steps: [{type: mcp, id: "steps[0]"}]}
not: [{command: {run: x}}]
{steps: [{type: command, id: "steps[0]"}]}
not: {id: n, steps: [{command: {run: x}}]}
{id: n, steps: [{type: command, id: "steps[0]"}]}
group: {id: g, setup: [{main.a: {}}], steps: [{anyOf: [{allOf: [{main.a: {}}]}]}], cleanup: [{main.a: {}}]}
{id: g, setup: [{id: "setup[0]"}], cleanup: [{id: "cleanup[0]"}], steps: [{type: anyOf, id: "steps[0]",
  steps: [{type: allOf, id: "steps[0]", steps: [{type: mcp, id: "steps[0]"}]}]}]}
`),
)("is read: %s", (step, model) => {
  const [first] = taskOf({ verify: [parseYaml(step), ...inner] }, options).verify;
  expect(first).toMatchObject(parseYaml(model) as object);
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

it.each<[unknown, number]>([
  ["0644", 0o644],
  ["0o755", 0o755],
  ["0000", 0],
  // What YAML makes of 0644, and of 600.
  [644, 0o644],
  [777, 0o777],
])("%j is a mode", (value, mode) => {
  expect(parseFileMode(value)).toBe(mode);
});

// Bits rather than digits: written as 0o644 for instance.
const bits = [0o644, 0o600, 0o755, 0o777, 0o700, 0o640, 0o664, 0o444];
it.each([...bits, "", "rw", "0888", "07777", "64", 64, 6440, -644, 644.5, null, true, ["0644"]])(
  "%j is not a mode",
  (value) => expect(parseFileMode(value)).toBeUndefined(),
);
