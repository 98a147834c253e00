import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import {
  check,
  hintsIn,
  parse,
  problemsOf,
  taskDocument,
  taskOf,
  wrongIn,
} from "../../../test/support/task-file.ts";

/** Rows of a table in YAML. */
const rows = <T extends unknown[]>(text: string): T[] => parseYaml(text) as T[];

const run = { run: "test -d ." };

/** Tests of specs, each in YAML, followed by a line `! PROBLEM` for everything that is wrong with it. */
function cases(text: string): void {
  for (const [, yaml = "", problems = ""] of text.matchAll(/((?:(?!! ).*\n)+)((?:! .*\n)+)/g))
    it(yaml.trim(), () => {
      expect(wrongIn(parseYaml(yaml) as object)).toEqual(problems.slice(2).trimEnd().split("\n! "));
    });
}

describe("the document", () => {
  const base = taskDocument();

  it.each<[unknown, ...string[]]>([
    [
      "x",
      "config/invalid-value at value : the task must be an object with apiVersion, kind, metadata and spec",
    ],
    [
      { ...base, apiVersion: "mcp-eval/v2" },
      "config/invalid-value at value apiVersion: apiVersion must be one of mcp-eval/v1, mcpchecker/v1alpha1, mcpchecker/v1alpha2, gevals/v1alpha1, gevals/v1alpha2",
    ],
    [{ ...base, kind: "Eval" }, 'config/invalid-value at value kind: kind must be "Task"'],
    [{ ...base, extra: 1 }, 'config/unknown-key at key extra: unknown key "extra"'],
    [
      { apiVersion: "mcp-eval/v1", kind: "Task" },
      'config/missing-key at value : missing key "metadata": an object',
      'config/missing-key at value : missing key "spec": an object',
    ],
    [
      JSON.parse(
        '{"apiVersion":"mcp-eval/v1","kind":"Task","metadata":{"name":"a"},"spec":{"env":{"__proto__":"x"},"verify":[{"mcp":{"server":"main","tool":"t","args":{"a":{"__proto__":1}}}}]}}',
      ),
      "config/invalid-value at key spec.env.__proto__: spec.env.__proto__: nothing can be named __proto__",
      "config/invalid-value at key spec.verify[0].mcp.args.a.__proto__: spec.verify[0].mcp.args.a.__proto__: nothing can be named __proto__",
    ],
    [{ ...base, x: new Date(0) }, "config/invalid-value at value x: x: a Date is not JSON"],
    [
      taskDocument({}, { name: "", difficulty: "easier", labels: { a: 1 }, timeout: "soon", tags: "x" }),
      "config/invalid-value at value metadata.name: metadata.name must not be blank",
      'config/invalid-value at value metadata.difficulty: metadata.difficulty must be "easy", "medium" or "hard"',
      "config/invalid-value at value metadata.tags: metadata.tags must be a list, not a string",
      "config/invalid-value at value metadata.labels.a: metadata.labels.a must be a string, not a number",
      'config/invalid-value at value metadata.timeout: metadata.timeout must be a duration above zero: milliseconds, or a text such as "500ms", "2s", "5m", "1h"',
    ],
    [
      taskDocument({ limits: { timeout: 5 } }, { timeout: 5 }),
      "config/duplicate-name at key spec.limits.timeout: the task's time limit is given twice: metadata.timeout and spec.limits.timeout",
    ],
  ])("%j", (document, ...problems) => {
    expect(problemsOf(document)).toEqual(problems);
  });

  it("asks whether another version was meant", () => {
    const parsed = parse({ ...base, apiVersion: "mcpeval/v1" });
    expect(parsed.ok ? [] : parsed.diagnostics.map(({ hint }) => hint?.split("?")[0])).toEqual([
      'Did you mean "mcp-eval/v1"',
    ]);
  });
});

describe("steps", () => {
  cases(`
verify: [{command: {run: test -d .}, id: x}]
! config/invalid-value at value spec.verify[0]: spec.verify[0] must have exactly one key, the type of the step, not command, id
verify: [{}]
! config/invalid-value at value spec.verify[0]: spec.verify[0] must have exactly one key, the type of the step, not none
verify: [ls]
! config/invalid-value at value spec.verify[0]: spec.verify[0] must be a step: an object with one key, its type
setup: [{comand: {run: test -d .}}]
! config/unknown-key at key spec.setup[0].comand: unknown step "comand" in spec.setup[0]
setup: [{mian.add: {}}]
! config/unknown-reference at key spec.setup[0]["mian.add"]: no import and no server is named "mian"
setup: [{main.: {}}]
! config/unknown-reference at key spec.setup[0]["main."]: "main." names no operation or tool
setup: [{command: ls}]
! config/invalid-value at value spec.setup[0].command: spec.setup[0].command must be an object, not a string
setup: [{command: {rum: ls, timeout: 0}}]
! config/missing-key at value spec.setup[0].command: missing key "run" in spec.setup[0].command: a string
! config/invalid-value at value spec.setup[0].command.timeout: spec.setup[0].command.timeout must be a duration above zero: milliseconds, or a text such as "500ms", "2s", "5m", "1h"
! config/unknown-key at key spec.setup[0].command.rum: unknown key "rum" in spec.setup[0].command
verify: [{foreach: {var: x, in: [1], steps: [{anyOf: [{not: [{htp: {}}]}, {command: {run: test -d .}}]}]}}]
! config/unknown-key at key spec.verify[0].foreach.steps[0].anyOf[0].not[0].htp: unknown step "htp" in spec.verify[0].foreach.steps[0].anyOf[0].not[0]
verify: [{not: {command: {run: 5}}}]
! config/invalid-value at value spec.verify[0].not.command.run: spec.verify[0].not.command.run must be a string, not a number
verify: [{allOf: []}]
! config/invalid-value at value spec.verify[0].allOf: spec.verify[0].allOf must have at least 1 item
verify: [{allOf: 5}]
! config/invalid-value at value spec.verify[0].allOf: spec.verify[0].allOf must be an object, not a number
verify: [{group: {setup: {command: {run: test -d .}}, steps: [{command: {run: test -d .}}]}}]
! config/invalid-value at value spec.verify[0].group.setup: spec.verify[0].group.setup must be a list, not an object
verify: [{http: {url: localhost:80/x, expect: {status: ok, body: {}}}}]
! config/invalid-value at value spec.verify[0].http.expect.status: spec.verify[0].http.expect.status must be a status such as 200, or a class such as "2xx"
! config/invalid-value at value spec.verify[0].http.expect.body: spec.verify[0].http.expect.body must have equals, contains, matches or json
verify: [{http: {url: localhost:80/x}}]
! config/invalid-value at value spec.verify[0].http.url: spec.verify[0].http.url must be a URL that starts with http:// or https://
verify: [{http: {url: http://x, body: {}, expect: {body: {contains: ""}}}}]
! config/missing-key at value spec.verify[0].http.body: missing key "json" in spec.verify[0].http.body: any JSON value
! config/invalid-value at value spec.verify[0].http.expect.body.contains: spec.verify[0].http.expect.body.contains must not be empty
verify: [{file: {path: a}}, {file: {path: a, content: "", absent: true}}]
! config/invalid-value at value spec.verify[0].file: spec.verify[0].file must have one of content (create the file), absent (remove it) and expect (check it)
! config/invalid-value at value spec.verify[1].file: spec.verify[1].file has both content and absent: only one of content (create the file), absent (remove it) and expect (check it) may be there
setup: [{file: {path: a, absent: true, mode: "0644"}}]
! config/invalid-value at value spec.setup[0].file: spec.setup[0].file has mode, which needs content
setup: [{file: {path: a, content: "", mode: 420}}]
! config/invalid-value at value spec.setup[0].file.mode: spec.setup[0].file.mode must be permission bits as octal digits, best as a text: "0644"
verify: [{file: {path: a, expect: {exists: false, contains: x}}}]
! config/invalid-value at value spec.verify[0].file.expect: spec.verify[0].file.expect must not have anything else when exists is false
verify: [{llm: {input: "{agent.output}"}}]
! config/invalid-value at value spec.verify[0].llm: spec.verify[0].llm must have contains, exact or rubric
verify: [{script: {}}, {script: {file: a, inline: b, protocol: xml}}]
! config/invalid-value at value spec.verify[0].script: spec.verify[0].script must have either file or inline
! config/invalid-value at value spec.verify[1].script.protocol: spec.verify[1].script.protocol must be "exit-code" or "json"
verify: [{script: {file: a}}]
! config/unknown-reference at value spec.verify[0].script.file: spec.verify[0].script.file: there is no file "a" in the task's folder
verify: [{mcp: {}}, {mcp: {tool: a, prompt: b}}, {mcp: {resource: a, args: {}}}]
! config/invalid-value at value spec.verify[0].mcp: spec.verify[0].mcp must have one of tool, resource and prompt
! config/invalid-value at value spec.verify[1].mcp: spec.verify[1].mcp must have one of tool, resource and prompt
! config/invalid-value at value spec.verify[2].mcp: spec.verify[2].mcp must not have args: a resource takes none
verify: [{mcp: {tool: a, expect: {json: {path: a, exists: false, equals: 1}}}}]
! config/invalid-value at value spec.verify[0].mcp.expect.json: spec.verify[0].mcp.expect.json must not have anything beside path when exists is false
verify: [{mcp: {tool: a, expect: {isError: true, result: 1}}}]
! config/invalid-value at value spec.verify[0].mcp.expect: spec.verify[0].mcp.expect has isError: true, which contradicts result
verify: [{mcp: {tool: a, expect: {json: [{path: a, ignorePaths: [b]}]}}}]
! config/invalid-value at value spec.verify[0].mcp.expect.json[0]: spec.verify[0].mcp.expect.json[0] has ignorePaths, which needs equals or contains
verify: [{main.add: {arg: {}}}]
! config/unknown-key at key spec.verify[0]["main.add"].arg: unknown key "arg" in spec.verify[0]["main.add"]
verify: [{command: {run: test -d ., id: 1st, outputs: {a b: ""}, retry: {}}}]
! config/invalid-value at value spec.verify[0].command.id: spec.verify[0].command.id must begin with a letter or _, and go on with letters, digits, _ and -
! config/invalid-value at key spec.verify[0].command.outputs["a b"]: spec.verify[0].command.outputs["a b"] must be a name of letters, digits, _ and -
! config/missing-key at value spec.verify[0].command.retry: missing key "for" in spec.verify[0].command.retry: a duration above zero: milliseconds, or a text such as "500ms", "2s", "5m", "1h"
verify: [{foreach: {var: x, in: "a, b", steps: [{command: {run: test -d .}}]}}, {foreach: {var: x, in: "{}",
  steps: [{command: {run: test -d .}}]}}, {foreach: {var: x, in: '["a"]',
  steps: [{command: {run: test -d .}}]}}, {foreach: {var: x, in: "[{env.HOME}]",
  steps: [{command: {run: test -d .}}]}}]
! config/invalid-value at value spec.verify[0].foreach.in: spec.verify[0].foreach.in must be a list, or a template that gives a JSON list
setup: [{llm: {contains: x}}]
! config/invalid-value at key spec.setup[0].llm: spec.setup[0]: the step llm can only stand in verify
verify: [{group: {setup: [{llm: {contains: x}}], steps: [{command: {run: test -d .}}]}}]
! config/invalid-value at key spec.verify[0].group.setup[0].llm: spec.verify[0].group.setup[0]: the step llm can only stand in verify
verify: [{foreach: {var: env, in: [1], steps: [{command: {run: test -d .}}]}}]
! config/invalid-value at value spec.verify[0].foreach.var: spec.verify[0].foreach.var must not be one of env, random, task, steps, agent, workspace, servers: these have a meaning already
`);

  it("are known by name, with the one that was meant", () => {
    expect(hintsIn({ setup: [{ comand: run }, { "mian.x": {} }, { ...check, id: "x" }] })).toEqual([
      'Did you mean "command"? Known steps: command, http, file, llm, script, mcp, extension, foreach, anyOf, allOf, not, group.',
      'Did you mean "main"? Known imports and servers: main.',
      "Indent the other keys under command.",
    ]);
  });
});

describe("names", () => {
  cases(`
setup: [{command: {run: test -d ., id: a}}]
verify: [{allOf: {id: b, steps: [{command: {run: test -d ., id: a}}]}}]
! config/duplicate-name at value spec.verify[0].allOf.steps[0].command.id: two steps have the id "a": spec.setup[0].command.id and spec.verify[0].allOf.steps[0].command.id
prompt: p
setup: [{command: {run: test -d ., id: a}}]
solution: [{foreach: {var: x, in: [1], steps: [{main.add: {id: a}}]}}]
! config/duplicate-name at value spec.solution[0].foreach.steps[0]["main.add"].id: two steps have the id "a": spec.setup[0].command.id and spec.solution[0].foreach.steps[0]["main.add"].id
imports: [{package: npm:a@1, as: main}, {package: npm:b@1, as: b}, {package: npm:c@1, as: b}]
! config/duplicate-name at value spec.imports[2].as: two imports are named "b": spec.imports[1].as and spec.imports[2].as
! config/duplicate-name at value spec.imports[0].as: an import and a server are both named "main"
imports: [{package: npm:a@1, as: a.b}, {package: npm:b@1}]
! config/invalid-value at value spec.imports[0].as: spec.imports[0].as must begin with a letter or _, and go on with letters, digits, _ and -
! config/missing-key at value spec.imports[1]: missing key "as" in spec.imports[1]: a string
servers: {gone: null}
! config/unknown-reference at value spec.servers.gone: no server of the eval is named "gone"
verify: [{mcp: {server: mian, tool: a}}, {mcp: {server: "{env.HOME}", tool: a}}]
! config/unknown-reference at value spec.verify[0].mcp.server: no server is named "mian"
setup: [{extension: {package: ext, action: a}}]
! config/unknown-reference at value spec.setup[0].extension.package: no import is named "ext"
servers: {b: {transport: stdio, command: x, url: http://x}, c: {url: x}}
! config/invalid-value at value spec.servers.b.transport: spec.servers.b: url does not fit its type
! config/invalid-value at value spec.servers.c.url: spec.servers.c.url must be a URL that starts with http:// or https://
servers: {inherit: false, main: {tools: [x]}}
! config/unknown-reference at key spec.servers.main: no server of the eval is named "main"
servers: {a: {}}
! config/unknown-reference at key spec.servers.a: no server of the eval is named "a"
requires: [{}, {command: a, env: b}, {platform: beos}, {judge: false}, {tool: x}]
! config/invalid-value at value spec.requires[0]: spec.requires[0] must have exactly one of command, env, server, platform and judge
! config/invalid-value at value spec.requires[1]: spec.requires[1] must have exactly one of command, env, server, platform and judge
! config/invalid-value at value spec.requires[2].platform: spec.requires[2].platform must be "linux", "macos", "windows", "darwin", "win32", "freebsd", "openbsd", "sunos", "aix" or "android"
! config/invalid-value at value spec.requires[3].judge: spec.requires[3].judge must be true, not false
! config/unknown-key at key spec.requires[4].tool: unknown key "tool" in spec.requires[4]
env: {A-B: x}
! config/invalid-value at key spec.env.A-B: spec.env.A-B must be the name of a variable
`);

  it("of the state to compare lead to outputs", () => {
    const setup = [
      { command: { ...run, id: "a", outputs: { x: "" } } },
      { command: { ...run, id: "b" } },
      { script: { inline: "x", id: "c", protocol: "json" } },
    ];
    const stateProbe = ["a", "a.x", "c.any", "aa", "a.y", "b"];
    expect(problemsOf(taskDocument({ setup }, { stateProbe }))).toEqual([
      'config/unknown-reference at value metadata.stateProbe[3]: metadata.stateProbe[3]: no step has the id "aa"',
      'config/unknown-reference at value metadata.stateProbe[4]: metadata.stateProbe[4]: the step a has no output "y"',
      "config/unknown-reference at value metadata.stateProbe[5]: metadata.stateProbe[5]: the step b has no outputs",
    ]);
  });

  it("tells where the other one is", () => {
    const setup = [{ command: { ...run, id: "a" } }, { command: { ...run, id: "a" } }];
    const parsed = parse(taskDocument({ setup }), {
      locate: ({ path }) => ({ file: "f", line: path[2] === 0 ? 3 : 7, column: 1 }),
    });
    expect(parsed).toMatchObject({
      diagnostics: [{ location: { line: 7 }, hint: "The other is at f:3:1. Rename one of them." }],
    });
  });
});

describe("solution", () => {
  cases(`
prompt: p
solution: [x, {command: {run: test -d .}}, {mian.add: {}}, {say: 5}, {mcp: {}}]
! config/invalid-value at value spec.solution[0]: spec.solution[0] must be an action: an object with exactly one key, mcp, SERVER.TOOL, say or foreach
! config/unknown-key at key spec.solution[1].command: a solution cannot have the step "command": it does only what an agent can do
! config/unknown-reference at key spec.solution[2]["mian.add"]: no server is named "mian"
! config/invalid-value at value spec.solution[3].say: spec.solution[3].say must be a string, not a number
! config/invalid-value at value spec.solution[4].mcp: spec.solution[4].mcp must have one of tool, resource and prompt
prompt: p
solution: [{say: x}, {mcp: {tool: add}}]
! config/invalid-value at value spec.solution: spec.solution has 2 turns, the prompt has 1: each \`say\` ends a turn
solution: [{say: x}]
! config/invalid-value at key spec.solution: spec.solution is never played: without spec.prompt no agent takes part
prompt: p
solution: []
! config/invalid-value at value spec.solution: spec.solution must have at least 1 item
promt: p
solution: [{say: x}]
! config/unknown-key at key spec.promt: unknown key "promt" in spec
prompt: p
solution: [{foreach: {var: x, in: [], step: []}}]
! config/invalid-value at value spec.solution[0].foreach.in: spec.solution[0].foreach.in must have at least 1 item
! config/missing-key at value spec.solution[0].foreach: missing key "steps" in spec.solution[0].foreach: a list
! config/unknown-key at key spec.solution[0].foreach.step: unknown key "step" in spec.solution[0].foreach
`);

  it("may speak in a loop", () => {
    const solution = [{ foreach: { var: "x", in: [1, 2], steps: [{ say: "{x}" }] } }];
    expect(taskOf({ prompt: ["a", "b"], solution }).turns).toHaveLength(2);
  });
});

it("expected results that always hold, or have an unknown operator, are refused", () => {
  const verify = [{}, { $contains: {} }, { $equal: 1 }].map((result) => ({
    mcp: { tool: "a", expect: { result } },
  }));
  expect(wrongIn({ verify })).toEqual([
    expect.stringContaining("config/checks-nothing at value spec.verify[0].mcp.expect.result: "),
    expect.stringContaining("config/checks-nothing at value spec.verify[1].mcp.expect.result.$contains: "),
    'config/unknown-key at key spec.verify[2].mcp.expect.result.$equal: unknown operator "$equal" in spec.verify[2].mcp.expect.result',
  ]);
});

describe("patterns and JSON paths", () => {
  const bad = { matches: ["a+", "(", "{env.HOME}("], json: { path: "$[", matches: "(?=x)" } };
  const inText = (where: string): string[] => [
    `task/pattern at value ${where}.matches[1]: ${where}.matches[1]: "(" is not a valid RE2 pattern: error parsing regexp: missing closing ): \`(\``,
    expect.stringContaining(
      `task/json-path at value ${where}.json.path: ${where}.json.path: "$[" is not a valid JSON path: `,
    ),
    `task/pattern at value ${where}.json.matches: ${where}.json.matches: "(?=x)" is not a valid RE2 pattern: error parsing regexp: invalid or unsupported Perl syntax: \`(?=\``,
  ];

  it.each<[object, string]>([
    [{ command: { ...run, expect: { stdout: bad } } }, "command.expect.stdout"],
    [{ http: { url: "http://x", expect: { body: bad } } }, "http.expect.body"],
    [{ file: { path: "a", expect: bad } }, "file.expect"],
    [{ mcp: { tool: "a", expect: { text: bad } } }, "mcp.expect.text"],
  ])("%j", (step, where) => {
    expect(wrongIn({ verify: [step] })).toEqual(inText(`spec.verify[0].${where}`));
  });

  it("are checked in lists, and where they are left out of comparisons", () => {
    const json = [{ path: "a.b" }, { path: "[?", equals: 1, ignorePaths: ["ok", "$$"] }];
    expect(wrongIn({ verify: [{ mcp: { tool: "a", expect: { json } } }] })).toEqual([
      expect.stringContaining("task/json-path at value spec.verify[0].mcp.expect.json[1].path: "),
      expect.stringContaining("task/json-path at value spec.verify[0].mcp.expect.json[1].ignorePaths[1]: "),
    ]);
  });
});

describe("hints", () => {
  it.each(
    rows<[object, string]>(`
- [{verify: [{command: {run: {workspace: null}}}]}, 'Write it in quotes: "{workspace}"']
- [{verify: [{script: {inline: x, args: [{env.A | sh: null}]}}]}, 'Write it in quotes: "{env.A | sh}"']
- [{verify: [{command: {run: x, expect: {stdout: {steps.a.outputs.b: null}}}}]},
    'Write it in quotes: "{steps.a.outputs.b}"']
- [{verify: [{foreach: {var: x, in: {steps.a.outputs.b: null}, steps: [{command: {run: test -d .}}]}}]},
    'Write it in quotes: "{steps.a.outputs.b}"']
- [{verify: [{file: {path: a, expect: x}}]}, "Its keys are exists, equals, contains, matches, json, mode."]
- [{verify: [{command: ls}]},
    "Its keys are run, shell, workdir, env, stdin, expect, timeout, id, name, if, continueOnError, outputs, retry, stableFor."]
- [{verify: [{command: {run: test -d .}, http: {url: http://x}}]},
    'command and http are two steps: begin a new item with "-" before http.']
- [{imports: [{package: mcpvals:csv, as: csv}], verify: [{csv.count: a.csv}]},
    "Its keys are the arguments of the operation, and timeout, id, if, continueOnError, outputs, retry, stableFor. Without any it is written {}."]
- [{verify: [{command: {run: test -d .}, retry: 1s}]}, Indent the other keys under command.]
`),
  )("%j", (spec, hint) => {
    expect(hintsIn(spec)).toEqual([hint]);
  });
});
