import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { filesOf, hintsIn, parse, taskDocument, wrongIn } from "../../../test/support/task-file.ts";

/** Rows of a table in YAML. */
const rows = <T extends unknown[]>(text: string): T[] => parseYaml(text) as T[];

const shell = (run: string, more: object = {}): object => ({ command: { run, ...more } });
const setup = '[{command: {run: x, id: first, outputs: {out: "{stdout}"}}}]';

/** What is wrong with templates: what the message says after the place and the expression. */
function wrong(spec: object): string[] {
  return wrongIn(spec).map((each) => each.replace("config/unknown-reference at value ", ""));
}

describe("a template in any text", () => {
  const bad = "{env.NOPE}";
  const unset = (path: string): string => `${path}: ${path}: {env.NOPE} is a variable that is not set`;

  it.each(
    rows<[object, string]>(`
- [{env: {A: "{env.NOPE}"}}, spec.env.A]
- [{prompt: [a, "{env.NOPE}"]}, "spec.prompt[1]"]
- [{servers: {s: {url: "http://x/{env.NOPE}"}}}, spec.servers.s.url]
- [{servers: {s: {command: x, args: ["{env.NOPE}"]}}}, "spec.servers.s.args[0]"]
- [{setup: [{command: {run: "{env.NOPE}"}}]}, "spec.setup[0].command.run"]
- [{setup: [{command: {run: x, outputs: {a: "{env.NOPE}"}}}]}, "spec.setup[0].command.outputs.a"]
- [{setup: [{command: {run: x, expect: {stdout: {matches: [a, "{env.NOPE}"]}}}}]},
    "spec.setup[0].command.expect.stdout.matches[1]"]
- [{setup: [{http: {url: http://x, body: {json: [{a: "{env.NOPE}"}]}}}]}, "spec.setup[0].http.body.json[0].a"]
- [{verify: [{main.a: {args: {b: "{env.NOPE}"}}}]}, 'spec.verify[0]["main.a"].args.b']
- [{verify: [{extension: {package: npm:e, action: a, args: {id: "{env.NOPE}"}}}]},
    "spec.verify[0].extension.args.id"]
- [{imports: [{package: npm:e@1, as: e}], verify: [{e.do: {name: "{env.NOPE}"}}]},
    'spec.verify[0]["e.do"].name']
- [{verify: [{foreach: {var: x, in: "{env.NOPE}", steps: [{command: {run: test -d .}}]}}]},
    "spec.verify[0].foreach.in"]
- [{verify: [{foreach: {var: x, in: ["{env.NOPE}"], steps: [{command: {run: test -d .}}]}}]},
    "spec.verify[0].foreach.in[0]"]
- [{verify: [{not: {command: {run: "{env.NOPE}"}}}]}, "spec.verify[0].not.command.run"]
- [{verify: [{group: {steps: [{command: {run: test -d .}}], cleanup: [{command: {run: "{env.NOPE}"}}]}}]},
    "spec.verify[0].group.cleanup[0].command.run"]
- [{cleanup: [{command: {run: "{env.NOPE}"}}]}, "spec.cleanup[0].command.run"]
- [{prompt: p, solution: [{say: "{env.NOPE}"}]}, "spec.solution[0].say"]
- [{prompt: p, solution: [{main.a: {args: {b: "{env.NOPE}"}}}]}, 'spec.solution[0]["main.a"].args.b']
- [{prompt: p, solution: [{foreach: {var: x, in: "{env.NOPE}", steps: [{say: ""}]}}]},
    "spec.solution[0].foreach.in"]
`),
  )("%j", (spec, path) => {
    expect(wrong(spec)).toEqual([unset(path)]);
  });

  it("of a prompt's file is shown where the file is named", () => {
    const files = filesOf({ "p.md": `say ${bad}` });
    expect(wrongIn({ prompt: { file: "p.md" } }, { files })).toEqual([
      `config/unknown-reference at value ${unset("spec.prompt.file")}`,
    ]);
  });

  it("points at the template inside the text", () => {
    const places: unknown[] = [];
    parse(taskDocument({ prompt: "a {env.NOPE}" }), {
      locate: (place) => {
        places.push(place);
        return undefined;
      },
    });
    expect(places).toContainEqual(expect.objectContaining({ path: ["spec", "prompt"], text: "{env.NOPE}" }));
  });
});

describe("what is there", () => {
  it.each(
    rows<[object]>(`
- [{setup: [{command: {run: "{env.HOME} {env.A}"}}], env: {A: "a {env.HOME | sh}"}}]
- [{requires: [{env: TOKEN}], prompt: "{env.TOKEN}"}]
- [{env: {A: "{env.B}", B: "{env.C}", C: "{random.id}", HOME: "{env.HOME}/x"}}]
- [{prompt: "{random.id} {random.id:a} {random.port} {random.port:b} {task.name} {workspace}"}]
- [{prompt: "{servers.main.url}"}]
- [{prompt: "{servers.s.url}", servers: {s: {url: http://x}}}]
- [{prompt: "{servers.other.url}", requires: [{server: other}]}]
- [{prompt: '{"a": 1} \${x} \${env.NOPE} {env} {steps} {{env.NOPE}} {other.x}'}]
- [{setup: ${setup}, prompt: "{steps.first.outputs.out | json $.a[0]} {steps.first.outputs}"}]
- [{setup: ${setup}, verify: [{command: {run: "test {steps.first.outputs.out} {agent.output}"}}]}]
- [{setup: ${setup}, cleanup: [{command: {run: "test {steps.first.outputs.out} {agent.output}"}}]}]
- [{verify: [{allOf: ${setup}}, {command: {run: "test {steps.first.outputs.out}"}}]}]
- [{verify: [{anyOf: ${setup}}, {command: {run: "test {steps.first.outputs.out}"}}]}]
- [{cleanup: [{command: {run: "test {steps.first.outputs.out}"}}, {command: {run: x, id: first,
    outputs: {out: "{stdout}"}}}]}]
- [{verify: [{group: {setup: ${setup}, steps: [{command: {run: "test {steps.first.outputs.out}"}}]}}]}]
- [{verify: [{allOf: {steps: ${setup}, id: all, outputs: {a: "{steps.first.outputs.out}"}}}]}]
- [{setup: [{script: {id: s, inline: x, protocol: json}}], prompt: "{steps.s.outputs.any.deep}"}]
- [{setup: [{extension: {id: e, package: npm:e, action: a}}], prompt: "{steps.e.outputs.any}"}]
- [{setup: [{command: {run: x, outputs: {a: "{stdout} {stderr | sh} {exitCode}"}}}]}]
- [{setup: [{http: {url: "{env.HOME}",
    outputs: {a: "{response.body | json a}{response.status}{response.headers.x-a}{response}"}}}]}]
- [{setup: [{file: {path: a, content: "", outputs: {a: "{content}"}}}]}]
- [{verify: [{llm: {contains: x, outputs: {a: "{score}{reason}"}}}]}]
- [{verify: [{script: {inline: x, protocol: json, outputs: {a: "{outputs.b}{stdout}"}}}]}]
- [{verify: [{main.a: {outputs: {a: "{result.content}{text}"}}}]}]
- [{verify: [{foreach: {var: x, in: [{a: 1}, {a: [2]}], steps: [{command: {run: "{x} {x.a}"}}]}}]}]
- [{verify: [{foreach: {var: x, in: "{env.HOME}", steps: [{command: {run: "{x.any.thing}"}}]}}]}]
- [{verify: [{foreach: {var: x, in: [1], steps: [{foreach: {var: y, in: ["{x}"],
    steps: [{command: {run: "{x}{y}"}}]}}]}}]}]
- [{setup: [{command: {run: "x {y}", name: "{env.NOPE}"}}]}]
- [{verify: [{command: {run: x, expect: {stdout: {matches: "a{2}{b}[{]"}}}}]}]
`),
  )("%j", (spec) => {
    const files = { look: () => "file" as const, read: () => "text", leaves: () => false };
    expect(wrongIn(spec, { files })).toEqual([]);
  });
});

describe("what is not there", () => {
  it.each(
    rows<[object, ...string[]]>(`
- [{prompt: "{env.A.b}"}, "{env.A.b} refers to nothing"]
- [{prompt: "{env.HOME:x}"}, '{env.HOME:x} cannot have a name after ":"']
- [{prompt: "{random.id.x}"}, "{random.id.x} refers to nothing"]
- [{prompt: "{random:x}"}, "{random:x} refers to nothing"]
- [{prompt: "{workspace.x}"}, "{workspace.x} refers to nothing"]
- [{prompt: "{servers.mian.url}"}, "{servers.mian.url} names no server"]
- [{prompt: "{servers.main.port}"}, "{servers.main.port} refers to nothing"]
- [{prompt: "{servers.s.url}", servers: {s: {command: x}}},
    "{servers.s.url} has no address: that server is a local program"]
- [{prompt: "{servers.main.url}", servers: {main: null}}, "{servers.main.url} names no server"]
- [{prompt: "{env.HOME | upper}"}, '{env.HOME | upper} has no known filter: "upper"']
- [{prompt: "{agent.output}"}, "{agent.output} exists only in verify and cleanup, after the agent"]
- [{setup: [{command: {run: "{agent.output}"}}]},
    "{agent.output} exists only in verify and cleanup, after the agent"]
- [{setup: ${setup}, env: {A: "{steps.first.outputs.out}"}},
    "{steps.first.outputs.out} cannot be used here: no step has run yet"]
- [{setup: ${setup}, servers: {s: {command: x, args: ["{steps.first.outputs.out}"]}}},
    "{steps.first.outputs.out} cannot be used here: no step has run yet"]
- [{servers: {s: {url: "http://x/{servers.main.url}"}}}, "{servers.main.url} cannot be part of an address"]
- [{setup: ${setup}, verify: [{command: {run: "{steps.frist.outputs.out}"}}]},
    "{steps.frist.outputs.out} names no step"]
- [{setup: ${setup}, verify: [{command: {run: "{steps.first.out}"}}]}, "{steps.first.out} refers to nothing"]
- [{setup: ${setup}, verify: [{command: {run: "{steps.first.outputs.up}"}}]},
    "{steps.first.outputs.up} names no output of the step first"]
- [{setup: ${setup}, verify: [{command: {run: "{steps.first.outputs.out.x}"}}]},
    "{steps.first.outputs.out.x} refers to nothing"]
- [{setup: [{command: {run: "{steps.first.outputs.out}"}}, {command: {run: x, id: first,
    outputs: {out: "{stdout}"}}}]}, "{steps.first.outputs.out} names the step first, which has not run yet"]
- [{setup: [{command: {run: "{steps.me.outputs.a}", id: me, outputs: {a: ""}}}]},
    "{steps.me.outputs.a} names the step me, which has not run yet"]
- [{prompt: "{steps.first.outputs.out}", verify: ${setup}},
    "{steps.first.outputs.out} names the step first, which has not run yet"]
- [{cleanup: [{command: {run: x, id: first, outputs: {out: "{stdout}"}}},
    {command: {run: "{steps.first.outputs.out}"}}]},
    "{steps.first.outputs.out} names the step first, which has not run yet"]
- [{verify: [{anyOf: [{command: {run: x, id: first, outputs: {out: "{stdout}"}}},
    {command: {run: "{steps.first.outputs.out}"}}]}]},
    "{steps.first.outputs.out} names the step first, which has not run yet"]
- [{prompt: p, solution: [{main.a: {id: s, outputs: {a: "{text}"}}}],
    verify: [{command: {run: "{steps.s.outputs.a}"}}]},
    '{steps.s.outputs.a} names an action of the solution, which only the agent "oracle" plays']
- [{setup: [{command: {run: x, outputs: {a: "{stdout.x}"}}}]}, "{stdout.x} refers to nothing"]
- [{setup: [{command: {run: x, outputs: {a: "{outputs.x}"}}}]}, "{outputs.x} refers to nothing"]
- [{setup: [{http: {url: http://x, outputs: {a: "{response.code}"}}}]}, "{response.code} refers to nothing"]
- [{setup: [{http: {url: http://x, outputs: {a: "{response.body.x}"}}}]},
    "{response.body.x} refers to nothing"]
- [{verify: [{foreach: {var: x, in: [{a: 1}, {}], steps: [{command: {run: "{x.a}"}}]}}]},
    "{x.a} refers to nothing"]
`),
  )("%j", (spec, ...ends) => {
    const messages = wrong(spec).map((each) => each.slice(each.indexOf("{")));
    expect(messages).toEqual(ends);
  });

  it("has a hint that says what there is", () => {
    const spec = {
      env: { TOKEN: "x" },
      setup: parseYaml(setup) as unknown,
      prompt: "{env.TOKN} {steps.frist.outputs.a} {steps.first.outputs.otu} {random.prt} {env.HOME | x}",
    };
    expect(hintsIn(spec)).toEqual([
      'Did you mean "TOKEN"? Declare it in spec.env, pass --env TOKN=VALUE, set it, or add {env: TOKN} to spec.requires.',
      'Did you mean "first"? Known step ids: first.',
      'Did you mean "out"? Known outputs: out.',
      'Did you mean "port"? Known names: id, port.',
      "Filters are sh, raw and json, json with a path: {… | json $.items[0].name}.",
    ]);
  });

  it("may be a bad JSON path", () => {
    expect(wrong({ prompt: "{env.HOME | json $[}" })).toEqual([
      expect.stringContaining('{env.HOME | json $[} has no JSON path: "$[" is not a valid JSON path: '),
    ]);
  });
});

describe("values of spec.env in a cycle", () => {
  const cycle = (name: string, shown: string): string =>
    `config/invalid-value at value spec.env.${name}: spec.env.${name} depends on itself: ${shown}`;

  it.each<[object, ...string[]]>([
    [{ env: { A: "{env.B}", B: "{env.A}" } }, cycle("A", "env.A → env.B → env.A")],
    [
      { env: { X: "{env.A}", A: "{env.B}", B: "{env.C}", C: "{env.A}", D: "{env.X}" } },
      cycle("A", "env.A → env.B → env.C → env.A"),
    ],
    [
      { env: { A: "{env.B}", B: "{env.A}", C: "{env.D}", D: "{env.C}" } },
      cycle("A", "env.A → env.B → env.A"),
      cycle("C", "env.C → env.D → env.C"),
    ],
    [
      { env: { A: "{servers.s.url}" }, servers: { s: { url: "http://x/{env.A}" } } },
      cycle("A", "env.A → the servers' addresses → env.A"),
    ],
    [{ env: { HOME: "{env.HOME}", A: "{env.HOME}" } }],
    [{ env: { A: "{servers.main.url}" }, servers: { s: { url: "http://x/{env.HOME}" } } }],
  ])("%j", (spec, ...problems) => {
    expect(wrongIn(spec)).toEqual(problems);
  });
});

describe("a variable that is not set", () => {
  const spec = { prompt: "{env.A} {env.A} {env.B}", verify: [shell("{env.A}"), shell("x {env.A}")] };

  it("is told once, with the number of the other places", () => {
    expect(wrong(spec)).toEqual([
      "spec.prompt: spec.prompt: {env.A} is a variable that is not set",
      "spec.prompt: spec.prompt: {env.B} is a variable that is not set",
    ]);
    const [first, second] = hintsIn(spec);
    expect(first).toMatch(/to spec\.requires\. It is the same in 3 other places\.$/);
    expect(second).not.toContain("the same");
  });

  it("is told at the first line, with the other lines", () => {
    const parsed = parse(taskDocument(spec), {
      locate: ({ path }) => ({ file: "t.yaml", line: path[1] === "prompt" ? 20 : 10 + Number(path[2]) }),
    });
    const told = parsed.ok ? [] : parsed.diagnostics.map(({ location, hint }) => [location?.line, hint]);
    expect(told).toEqual([
      [10, expect.stringMatching(/the same in 3 other places, on lines 11, 20\.$/)],
      [20, expect.not.stringContaining("the same")],
    ]);
  });
});
