import { array, assert, constantFrom, property } from "fast-check";
import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { extensionsNamed } from "../../../test/support/task-file.ts";
import { expanderOf } from "../../templates/expand.ts";
import { selectJson } from "../../templates/select-json.ts";
import { resolveIn, type Scope } from "../../templates/template.ts";
import { formatKeyPath } from "../../base/json.ts";
import type { Task } from "../../model/task.ts";
import { taskChecksNothing } from "../task/parse-task.ts";
import { parseTask } from "../tasks.ts";
import type { Locate } from "../../base/problem.ts";
import type { ParsedTask, ParseTaskOptions } from "../task/task-options.ts";
import { parseOlderTask, translateFieldPath, translateTemplate } from "./older-task.ts";

const files: Readonly<Record<string, string>> = {
  "setup.sh": "#!/bin/sh\n",
  "verify.sh": "#!/bin/sh\n",
  "prompt.txt": 'Write {"a": 1} into {steps.kubernetes.create.name}.',
};

const byPath: Locate = ({ path }) => ({ file: "task.yaml", path: formatKeyPath(path) });

function parse(yaml: string, locate: Locate = byPath): ParsedTask {
  return parseOlderTask(parseYaml(yaml), optionsWith(locate));
}

function optionsWith(locate: Locate): ParseTaskOptions {
  return {
    file: "/tasks/pods/task.yaml",
    dir: "/tasks/pods",
    locate,
    files: {
      look: (path) => {
        if (path.startsWith("..")) return "outside";
        return Object.hasOwn(files, path) ? "file" : "nothing";
      },
      read: (path) => files[path],
      leaves: (path) => path.startsWith(".."),
    },
    servers: ["k8s"],
    variables: {},
    completeStdio: () => ({ cwd: "/", env: {} }),
    inheritEnv: [],
    extensions: extensionsNamed("kubernetes"),
  };
}

function taskOf(yaml: string): Task {
  const parsed = parse(yaml);
  if (!parsed.ok) throw new Error(parsed.diagnostics.map((each) => each.message).join("\n"));
  return parsed.task;
}

function notesOf(yaml: string): readonly string[] {
  const parsed = parse(yaml);
  return parsed.ok ? parsed.notes : ["not valid"];
}

function problemsOf(yaml: string): string[] {
  const parsed = parse(yaml);
  return parsed.ok
    ? []
    : parsed.diagnostics.map((each) => `${each.code} at ${each.location?.path}: ${each.message}`);
}

/** A task of the step form with these parts of its spec. */
function steps(spec: string, metadata = "name: t"): string {
  const indented = spec.trimEnd().replaceAll(/^/gm, "  ");
  return `kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {${metadata}}\nspec:\n  prompt: {inline: Do it.}\n${indented}\n`;
}

const soft = { failure: "soft", timeoutMs: 300_000 };

function scriptStep(id: string, source: object, workdir = "task"): object {
  const common = { type: "script", failure: "hard", timeoutMs: 300_000, args: [], env: {} };
  return { ...common, id, source, protocol: "exit-code", workdir };
}

const scriptForm = `
kind: Task
metadata:
  name: create-pod
  difficulty: easy
  labels: {suite: pods}
  parallel: true
  runs: 4
steps:
  setup: {file: setup.sh}
  prompt: {inline: "Create a pod {env.X}."}
  verify: {inline: "kubectl get pod \${NAME} -o '{.status}'"}
  cleanup: {inline: kubectl delete pod web}
`;

describe("the script form", () => {
  it("becomes a task of scripts", () => {
    expect(parse(scriptForm)).toMatchObject({
      ok: true,
      notes: [],
      task: {
        name: "create-pod",
        form: "task",
        servers: ["k8s"],
        turns: [{ user: "Create a pod {{env.X}}." }],
        expectTools: [],
        verify: [scriptStep("verify_0", { inline: "kubectl get pod ${{NAME}} -o '{{.status}}'" })],
        parallel: true,
        location: { file: "task.yaml", path: "metadata.name" },
        portable: {
          format: "script-form",
          file: "/tasks/pods/task.yaml",
          dir: "/tasks/pods",
          setup: [scriptStep("setup_0", { file: "setup.sh" }, "script")],
          cleanup: [scriptStep("cleanup_0", { inline: "kubectl delete pod web" })],
          difficulty: "easy",
          labels: { suite: "pods" },
          cleanupTimeoutMs: 300_000,
          runs: 4,
          inheritEnv: true,
        },
      },
    });
  });

  it("asks the judge for contains and exact, whose templates are replaced", () => {
    const yaml = (verify: string) => `
kind: Task
apiVersion: mcpchecker/v1alpha1
metadata: {name: t}
steps: {prompt: {inline: Hi.}, verify: ${verify}}`;
    expect(taskOf(yaml('{contains: "name ${NAME} port {random.port}"}'))).toMatchObject({
      verify: [
        { type: "llm", failure: "soft", id: "verify_0", contains: "name {env.NAME} port {random.port}" },
      ],
      portable: { randomPorts: [""] },
    });
    expect(taskOf(yaml("{exact: 8}")).verify).toMatchObject([{ type: "llm", exact: "8" }]);
    expect(notesOf(yaml("{file: verify.sh, contains: pods}"))).toEqual([
      "the judge is not asked, since verify has a script: remove contains and exact",
    ]);
    expect(taskOf(yaml("{file: verify.sh, contains: pods}")).verify).toMatchObject([{ type: "script" }]);
    expect(problemsOf(yaml("{contains: a, exact: b}"))).toEqual([
      "config/invalid-value at steps.verify: llmJudge has either contains or exact",
    ]);
  });

  it("may verify nothing; whether that is accepted is up to what reaches the task", () => {
    const task = taskOf("kind: Task\nsteps:\n  setup:\n  verify: {}\n  prompt: {file: prompt.txt}\n");
    expect(task).toMatchObject({ name: "pods", verify: [], portable: { setup: [], cleanup: [] } });
    expect(taskChecksNothing(task)).toBe(true);
    const { portable } = task;
    if (portable === undefined) throw new Error("a task from a file has its parts");
    const asserting = { ...task, portable: { ...portable, assertions: [{ maxToolCalls: 0 }] } };
    expect(taskChecksNothing(asserting)).toBe(false);
    expect(taskChecksNothing(taskOf(scriptForm))).toBe(false);
  });

  it("needs steps and a prompt, and files that are there", () => {
    expect(problemsOf("kind: Task")).toEqual(['config/missing-key at : missing key "steps": an object']);
    expect(problemsOf("kind: Task\nmetadata: {name: t}\nsteps: {prompt: {inline: ''}}")).toEqual([
      "config/missing-key at steps.prompt: the task has no prompt: give prompt.inline or prompt.file",
    ]);
    const yaml = `
kind: Task
metadata: {name: t}
steps:
  prompt: {file: absent.txt}
  setup: {file: ../setup.sh}
  verify: {file: verify.sh, inline: "true"}`;
    expect(problemsOf(yaml)).toEqual([
      'config/unknown-reference at steps.prompt.file: steps.prompt.file: there is no file "absent.txt" in the task\'s folder',
      'task/outside at steps.setup.file: steps.setup.file: "../setup.sh" lies outside the task\'s folder',
      "config/invalid-value at steps.verify: a script has file or inline, not both",
    ]);
  });
});

it.each(["kind: Task\nspec: {}", "kind: Task\napiVersion: ''\nmetadata: {name: t}\nSpec: {verify: []}"])(
  "a task with spec and without a version lacks the version: %j",
  (yaml) => {
    expect(problemsOf(yaml)).toEqual([
      'config/missing-key at apiVersion: missing key "apiVersion": a task with spec says which version it is',
    ]);
  },
);

describe("leniency", () => {
  it("notes what it ignores or puts right", () => {
    const yaml = `
KIND: Task
ApiVersion: gevals/v1alpha2
Metadata: {Name: 7, category: core, lables: {a: b}}
spec:
  PROMPT: {Inline: Hi.}
  verify:
  - script: {Inline: "true", Env: {PORT: 8080}, continueonerror: "yes", timeout: 1h30m}
`;
    const parsed = parse(yaml);
    expect(parsed).toMatchObject({
      ok: true,
      task: {
        name: "7",
        verify: [{ env: { PORT: "8080" }, failure: "soft", timeoutMs: 5_400_000 }],
        portable: { format: "step-form" },
      },
      notes: [
        "gevals/v1alpha2 is read as mcpchecker/v1alpha2",
        "Metadata.Name is taken as a text; write it in quotes",
        'unknown key "category" in Metadata is ignored',
        'unknown key "lables" in Metadata is ignored; did you mean "labels"?',
        "spec.verify[0].script.Env.PORT is taken as a text; write it in quotes",
        "spec.verify[0].script.continueonerror is taken as true or false; write it so",
      ],
    });
  });

  it.each(["", "apiVersion:", "apiVersion: ''"])(
    "an apiVersion that is empty is as if it were absent: %j",
    (version) => {
      const document: unknown = parseYaml(
        `kind: Task\n${version}\nmetadata: {name: t}\nsteps: {prompt: {inline: a}}`,
      );
      expect(parseTask(document, optionsWith(byPath))).toMatchObject({
        ok: true,
        task: { portable: { format: "script-form" } },
      });
    },
  );

  it("says in which line", () => {
    const parsed = parse(steps("", "name: 7"), () => ({ file: "task.yaml", line: 3 }));
    expect(parsed).toMatchObject({
      ok: true,
      notes: ["line 3: metadata.name is taken as a text; write it in quotes"],
    });
  });

  it("places problems at the keys as they are written", () => {
    const yaml = steps("Verify:\n- script: {inline: a, TimeOut: 30}");
    expect(problemsOf(yaml)).toEqual([
      'config/invalid-value at spec.Verify[0].script.TimeOut: spec.verify[0].script.timeout must be a duration above zero with its unit, such as "300ms", "90s", "1h30m"',
    ]);
  });

  it.each([
    ["kind: Tusk\nsteps: {prompt: {inline: a}}", 'invalid-value at kind: kind must be "Task"'],
    [
      "kind: Task\napiVersion: mcpchecker/v2\nsteps: {prompt: {inline: a}}",
      "invalid-value at apiVersion: the apiVersion is not known",
    ],
  ])("refuses %j", (yaml, problem) => {
    expect(problemsOf(yaml)[0]).toBe(`config/${problem}`);
  });

  const refused = `
verify: [script: {}]
  missing-key at spec.verify[0].script: a script needs either file or inline
verify: [{script: {inline: a}, http: {url: b}}]
  invalid-value at spec.verify[0]: a step has one key that says its type, and may have an id; it has script, http
verify: [id: a]
  invalid-value at spec.verify[0]: a step has one key that says its type, and may have an id; it has none
verify: [command: {run: a}]
  unknown-key at spec.verify[0].command: "command" is not a type of step here
verify: [helm.list: ]
  unknown-key at spec.verify[0]["helm.list"]: "helm.list" is not a type of step here
setup: [llmJudge: {contains: a}]
  invalid-value at spec.setup[0].llmJudge: llmJudge is used in setup, before the agent has run
setup: [script: {inline: a, env: {A: '{agent.output}'}}]
  invalid-value at spec.setup[0].script.env.A: {agent.output} is used in setup, before the agent has run
verify: [http: {url: a, expect: {body: {match: '(?=a)'}}}]
  invalid-value at spec.verify[0].http.expect.body.match: spec.verify[0].http.expect.body.match is not a valid RE2 pattern: …
verify: [http: {url: a, body: {raw: a, json: {}}}]
  invalid-value at spec.verify[0].http.body: a body has raw or json, not both
verify: [http: {url: a, expect: {body: {fields: [{path: 'a[*]', exists: true}]}}}]
  invalid-value at spec.verify[0].http.expect.body.fields[0].path: "a[*]" is not a valid path
requires: [{extension: k8s}, {mcpServer: other, as: k8s}, {extension: a, mcpServer: b}]
  duplicate-name at spec.requires[1]: two requirements go by the name "k8s"
requires: [{extension: a, mcpServer: b}]
  invalid-value at spec.requires[0]: a requirement has extension or mcpServer, not both
requires: [{extension: a, as: b.c}]
  invalid-value at spec.requires[0]: the alias "b.c" must have no dots
`;

  it.each(
    refused
      .trim()
      .split(/\n(?! )/)
      .map((text) => text.split("\n  ")),
  )("refuses %s: %s", (spec = "", problem = "") => {
    const [found = ""] = problemsOf(steps(spec));
    const wanted = `config/${problem}`;
    if (wanted.endsWith("…")) expect(found.startsWith(wanted.slice(0, -1))).toBe(true);
    else expect(found).toBe(wanted);
  });

  it("says where steps of the newer format belong", () => {
    const parsed = parse(steps("verify:\n- foreach: {}"));
    expect(parsed.ok ? [] : parsed.diagnostics.map(({ hint }) => hint)).toEqual([
      "It belongs to tasks with apiVersion: mcp-eval/v1. Known types of steps: http, script, llmJudge.",
    ]);
  });
});

describe("the step form", () => {
  it("reads limits and requirements", () => {
    const yaml = steps(`
limits: {timeout: 10m, cleanupTimeout: 1.5h}
requires:
- {extension: kubernetes, as: k8s}
- mcpServer: docs
- command: kubectl
- database: postgres
`);
    expect(taskOf(yaml).portable).toMatchObject({
      timeoutMs: 600_000,
      cleanupTimeoutMs: 5_400_000,
      requires: [
        { kind: "server", name: "docs" },
        { kind: "command", name: "kubectl" },
      ],
    });
    expect(notesOf(yaml)).toEqual([
      'unknown key "database" in spec.requires[3] is ignored',
      "unknown requirement; ignored",
    ]);
  });

  it("reads HTTP steps", () => {
    const yaml = steps(`
verify:
- http:
    url: http://127.0.0.1:{random.port}/\${WHO}
    headers: {X: "{agent.output}"}
    body: {json: {a: "{env.X}"}}
    timeout: 3s
    expect:
      status: 200
      body:
        match: "^{"
        fields:
        - {path: "items[0].n", equals: 5}
        - {path: "a.0", type: bool, exists: true, equals: null}
        - {path: b, match: "x{2}"}
- http: {url: "http://x/{steps.http.body}", body: {raw: "{}"}}
`);
    const { verify, portable } = taskOf(yaml);
    expect(portable?.randomPorts).toEqual([""]);
    expect(verify).toEqual([
      {
        id: "verify_0",
        type: "http",
        ...soft,
        timeoutMs: 3000,
        url: "http://127.0.0.1:{random.port}/{env.WHO}",
        method: "GET",
        headers: { X: "{agent.output}" },
        body: { json: { a: "{{env.X}}" } },
        expect: {
          status: [200],
          body: {
            matches: ["^{{"],
            json: [
              { path: "$.items[0].n", equals: 5, loose: true },
              { path: '$.a["0"]', type: "boolean", exists: true },
              { path: "$.b", matches: "x{{2}}" },
            ],
          },
        },
      },
      {
        id: "verify_1",
        type: "http",
        ...soft,
        url: "http://x/{{steps.http.body}}",
        method: "GET",
        headers: {},
        body: { text: "{{}}" },
        expect: { status: [] },
      },
    ]);
    expect(notesOf(yaml)).toEqual([
      "braces that are not an expression are taken as text; mcpchecker refuses such a text",
    ]);
  });

  it("reads operations of extensions and tools of servers", () => {
    const yaml = steps(`
requires: [{extension: kubernetes, as: k8s}, {mcpServer: docs}]
setup:
- k8s.create: {apiVersion: v1, kind: Pod, metadata: {name: "{env.X}"}}
- k8s.helm.list:
verify:
- docs.read.page:
    args: {page: "{1}"}
    expect: {isError: true, content: {match: intro, fields: [{path: "[0].text", match: "^#"}]}}
- docs.index: {expect: {isError: false}}
`);
    const task = taskOf(yaml);
    expect(task.portable?.setup).toEqual([
      {
        id: "setup_0",
        type: "extension",
        ...soft,
        extension: "kubernetes",
        operation: "create",
        args: { apiVersion: "v1", kind: "Pod", metadata: { name: "{{env.X}}" } },
      },
      {
        id: "setup_1",
        type: "extension",
        ...soft,
        extension: "kubernetes",
        operation: "helm.list",
        args: {},
      },
    ]);
    expect(task.verify).toEqual([
      {
        id: "verify_0",
        type: "mcp",
        ...soft,
        server: "docs",
        request: { kind: "tool", tool: "read.page", args: { page: "{{1}}" } },
        expect: {
          isError: true,
          content: { matches: ["intro"], json: [{ path: "$[0].text", matches: "^#" }] },
        },
      },
      {
        id: "verify_1",
        type: "mcp",
        ...soft,
        server: "docs",
        request: { kind: "tool", tool: "index", args: {} },
        expect: {},
      },
    ]);
  });

  it("keeps cleanup so that it runs in the order of the file", () => {
    const yaml = steps("cleanup:\n- script: {inline: first}\n- script: {inline: second}");
    expect(taskOf(yaml).portable?.cleanup).toMatchObject([
      { id: "cleanup_1", source: { inline: "second" } },
      { id: "cleanup_0", source: { inline: "first" } },
    ]);
  });
});

describe("outputs of steps in templates", () => {
  const yaml = `
kind: Task
apiVersion: mcpchecker/v1alpha2
metadata: {name: t}
spec:
  requires: [{extension: kubernetes, as: k8s}, {mcpServer: docs}]
  prompt: {file: prompt.txt}
  setup:
  - {id: pod, k8s.create: {kind: Pod}}
  - {k8s.create: {kind: Service}}
  - script: {inline: a, env: {NAME: "{steps.kubernetes.create.name}", POD: "{steps.pod.uid}"}}
  verify:
  - script: {inline: b, env: {NAME: "{steps.kubernetes.create.name}"}}
  - {docs.read: {}}
  - {docs.read: {}}
  - llmJudge: {contains: "{steps.docs.read.content}"}
  cleanup:
  - script: {inline: c, env: {NAME: "{steps.k8s.create.name}"}}
`;

  it("mean the latest step before of that type, in cleanup also those of setup", () => {
    const { turns, verify, portable } = taskOf(yaml);
    expect(turns).toEqual([{ user: 'Write {{"a": 1}} into {steps.setup_1.outputs.name}.' }]);
    expect(portable?.setup[2]).toMatchObject({
      env: { NAME: "{steps.setup_1.outputs.name}", POD: "{steps.pod.outputs.uid}" },
    });
    expect(portable?.cleanup).toMatchObject([{ env: { NAME: "{steps.setup_1.outputs.name}" } }]);
    expect(verify[3]).toMatchObject({ contains: "{steps.verify_2.outputs.content}" });
    expect(verify[2]).toMatchObject({ outputs: { content: "{result | json $.content}" } });
    expect(verify[1]).not.toHaveProperty("outputs");
  });

  it("are text where no step before gives them, as for setup's in verify", () => {
    expect(taskOf(yaml).verify[0]).toMatchObject({ env: { NAME: "{{steps.kubernetes.create.name}}" } });
    expect(notesOf(yaml)).toEqual([
      "braces that are not an expression are taken as text; mcpchecker refuses such a text",
    ]);
    const prompt = 'kind: Task\nmetadata: {name: t}\nsteps: {prompt: {inline: "{steps.a.b} {x}"}}';
    expect(taskOf(prompt).turns).toEqual([{ user: "{{steps.a.b}} {{x}}" }]);
    expect(notesOf(prompt)).toEqual(["{steps.a.b} means no output of a setup step and is taken as text"]);
  });

  it("have ids that are unique whatever the author calls the steps", () => {
    const twice = steps(
      "verify:\n- {id: a, script: {inline: x}}\n- {id: a, script: {inline: x}}\n- {id: verify_3, script: {inline: x}}\n- {id: b c, script: {inline: x}}",
    );
    expect(taskOf(twice).verify.map(({ id }) => id)).toEqual(["a", "verify_1", "verify_3", "verify_3_"]);
  });
});

const roots = ["env", "random", "task", "steps", "agent", "workspace", "servers"];
const scope: Scope = new Map(roots.map((root) => [root, resolveIn({ X: `<${root}>` })]));

it.each([
  ["plain", "plain", false],
  ["{env.X}", "{env.X}", false],
  ["{ env.X }", "{env.X}", false],
  ["a ${X} b", "a {env.X} b", false],
  ['{"a": {env.X}}', '{{"a": {env.X}}}', true],
  ["{other}", "{{other}}", true],
  ["}", "}", true],
  ["$${X}", "$${{X}}", true],
  ["${env.X}", "${{env.X}}", true],
])("%j becomes %j", (text, template, hasText) => {
  const translate = (expression: string) => (expression === "env.X" ? expression : undefined);
  expect(translateTemplate(text, translate)).toEqual({ template, hasText });
});

it("leaves every text as it is when nothing means anything", () => {
  const piece = constantFrom("{", "}", "{{", "}}", "$", "env.X", "task", " ", "{agent.X}", "x");
  assert(
    property(array(piece), (pieces) => {
      const text = pieces.join("");
      expect(expanderOf(scope).text(translateTemplate(text, () => undefined).template)).toBe(text);
    }),
  );
});

it("replaces expressions between any texts", () => {
  const piece = array(constantFrom("{", "}", "x", " ", "\n")).map((pieces) => pieces.join(""));
  const translate = (expression: string) => (expression === "env.X" ? expression : undefined);
  assert(
    property(piece, piece, (before, after) => {
      const { template } = translateTemplate(`${before}{env.X}${after}`, translate);
      expect(expanderOf(scope).text(template)).toBe(`${before}<env>${after}`);
    }),
  );
});

it.each([
  ["", "$"],
  ["a.b[2]", "$.a.b[2]"],
  ["a.0", '$.a["0"]'],
  ["a[1][02]", "$.a[1][2]"],
  [".a", "$.a"],
  ["$ref", '$["$ref"]'],
  ["a.b-c", '$.a["b-c"]'],
  ['a."x"', '$.a["\\"x\\""]'],
])("%j is %s", (path, expected) => {
  expect(translateFieldPath(path)).toBe(expected);
  expect(() => selectJson({}, expected)).not.toThrow();
});

it.each(["a..b", "a[", "a[x]", "a[*]", "a]", "a[0]b", "a."])("%j is not a path", (path) => {
  expect(translateFieldPath(path)).toBeUndefined();
});
