import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { formatKeyPath } from "../../../base/json.ts";
import type { Locate } from "../../../base/problem.ts";
import { type EvalFile, type ParsedEvalFile, parseEvalFile, unknownAssertedServers } from "./eval-file.ts";

const locate: Locate = ({ path }) => ({ file: "eval.yaml", path: formatKeyPath(path) });

function parse(yaml: string): ParsedEvalFile {
  return parseEvalFile(parseYaml(yaml), { locate });
}

function evalOf(yaml: string): EvalFile {
  const parsed = parse(yaml);
  if (!parsed.ok) throw new Error(parsed.diagnostics.map((each) => each.message).join("\n"));
  return parsed.eval;
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

/** An eval with this and one task set. */
function config(yaml: string): string {
  return `kind: Eval\nconfig:\n  taskSets: [{path: a.yaml}]\n  ${yaml.trim().replaceAll("\n", "\n  ")}\n`;
}

const whole = `
kind: Eval
apiVersion: mcpchecker/v1alpha2
metadata: {name: pods}
config:
  agent: {type: builtin.llm-agent, model: "anthropic:claude-sonnet-4-5"}
  mcpConfigFile: mcp.yaml
  llmJudge:
    ref: {type: file, path: judge.yaml}
    passThreshold: 0.5
  extensions:
    kubernetes: {package: "github.com/x/kubernetes@v1", env: {KUBECONFIG: "{env.KUBECONFIG}"}, config: {a: 1}}
  sources:
    unused: {repo: https://example.com/x.git, ref: main}
  defaultTaskLimits: {timeout: 10m, cleanupTimeout: 1m30s}
  runs: 3
  parallel: 2
  inheritEnv: [KUBECONFIG]
  agents:
    small: openai/gpt-4o-mini
    plays: {type: scripted, plan: {one: [{say: hi}]}}
  servers:
    docs: {transport: stdio, command: docs, startupTimeout: 2s}
  taskSets:
  - path: ../tasks/one.yaml
  - glob: ../tasks/*/*.yaml
    labelSelector: {suite: pods, easy: true}
    assertions:
      toolsUsed: [{server: k8s, toolPattern: "pods_.*"}, {server: k8s, tool: ""}]
      requireAny: []
      toolsNotUsed: [{server: k8s, tool: delete}]
      minToolCalls: 0
      maxToolCalls: 20
      resourcesRead: [{server: docs, uri: "file:///a"}]
      promptsNotUsed: [{server: docs, promptPattern: x}]
      callOrder: [{type: tool, server: k8s, name: list}]
      noDuplicateCalls: true
`;

describe("an eval file", () => {
  it("is read as a whole", () => {
    expect(parse(whole)).toEqual({
      ok: true,
      notes: [
        "eval.yaml: config.taskSets[1].labelSelector.easy is taken as a text; write it in quotes",
        "eval.yaml: config.taskSets[1].assertions.toolsUsed[1].tool is empty, as if it were not there",
        "eval.yaml: config.taskSets[1].assertions.requireAny is empty, so it asserts nothing",
      ],
      eval: {
        name: "pods",
        agent: { kind: "llm-agent", model: "anthropic/claude-sonnet-4-5" },
        agents: { small: "openai/gpt-4o-mini", plays: { type: "scripted", plan: { one: [{ say: "hi" }] } } },
        mcpConfigFile: "mcp.yaml",
        tables: {
          servers: {
            docs: {
              transport: "stdio",
              command: "docs",
              args: [],
              env: {},
              inheritEnv: [],
              startupTimeout: 2000,
              maxMessageBytes: 10_485_760,
            },
          },
        },
        judge: { kind: "agent", agent: { kind: "file", path: "judge.yaml" }, passThreshold: 0.5 },
        extensions: {
          kubernetes: {
            package: "github.com/x/kubernetes@v1",
            env: { KUBECONFIG: "{env.KUBECONFIG}" },
            config: { a: 1 },
          },
        },
        limits: { timeoutMs: 600_000, cleanupTimeoutMs: 90_000 },
        graders: [],
        taskSets: [
          {
            files: { path: "../tasks/one.yaml" },
            graders: [],
            labels: {},
            location: { file: "eval.yaml", path: "config.taskSets[0]" },
          },
          {
            files: { glob: "../tasks/*/*.yaml" },
            graders: [],
            labels: { suite: "pods", easy: "true" },
            location: { file: "eval.yaml", path: "config.taskSets[1]" },
            assertions: {
              toolsUsed: [
                { server: "k8s", toolPattern: "pods_.*" },
                { server: "k8s", tool: "" },
              ],
              requireAny: [],
              toolsNotUsed: [{ server: "k8s", tool: "delete" }],
              minToolCalls: 0,
              maxToolCalls: 20,
              resourcesRead: [{ server: "docs", uri: "file:///a" }],
              promptsNotUsed: [{ server: "docs", promptPattern: "x" }],
              callOrder: [{ type: "tool", server: "k8s", name: "list" }],
              noDuplicateCalls: true,
            },
          },
        ],
        runs: 3,
        parallel: 2,
        inheritEnv: ["KUBECONFIG"],
      },
    });
  });

  it("may be as small as one task set", () => {
    expect(evalOf("kind: Eval\nconfig: {taskSets: [{glob: '*.yaml', assertions: {toolsUsed: []}}]}")).toEqual(
      {
        agents: {},
        tables: {},
        extensions: {},
        limits: {},
        graders: [],
        taskSets: [
          {
            files: { glob: "*.yaml" },
            graders: [],
            labels: {},
            location: { file: "eval.yaml", path: "config.taskSets[0]" },
          },
        ],
        inheritEnv: [],
      },
    );
  });

  it("may have settings for extensions beside them", () => {
    const { extensions } = evalOf(
      config(`
extensions:
  k8s: { package: https://github.com/o/k@v0.0.2, memory: 1GB, timeout: 2m }
  timeout: 90s
  sandbox: { kind: docker, image: i, network: [host] }
  network: { package: ./named-network }
  allowedSources: [github.com/o/*]`),
    );
    expect(extensions).toEqual({
      k8s: { package: "https://github.com/o/k@v0.0.2", memory: 1024 ** 3, timeout: 120_000 },
      timeout: 90_000,
      sandbox: { kind: "docker", image: "i", network: ["host"] },
      network: { package: "./named-network" },
      allowedSources: ["github.com/o/*"],
    });
  });

  it("reads extensions leniently in the older versions, and strictly in ours", () => {
    const extensions = `extensions: {k8s: {Package: "npm:k", env: {A: 1}, more: 2}, Timeout: {package: "npm:t"}}`;
    const older = config(extensions);
    expect(evalOf(older).extensions).toEqual({
      k8s: { package: "npm:k", env: { A: "1" } },
      Timeout: { package: "npm:t" },
    });
    expect(notesOf(older)).toEqual([
      "eval.yaml: config.extensions.k8s.env.A is taken as a text; write it in quotes",
      'eval.yaml: unknown key "more" in config.extensions.k8s is ignored',
    ]);
    expect(problemsOf(`apiVersion: mcp-eval/v1\n${older}`)).toEqual([
      'config/missing-key at config.extensions.k8s: missing key "package" in config.extensions.k8s: a string',
      "config/invalid-value at config.extensions.k8s.env.A: config.extensions.k8s.env.A must be a string, not a number",
      'config/unknown-key at config.extensions.k8s.Package: unknown key "Package" in config.extensions.k8s',
      'config/unknown-key at config.extensions.k8s.more: unknown key "more" in config.extensions.k8s',
    ]);
  });

  it("refuses what says how something is confined, where nothing says that it is", () => {
    const missing = (path: string, key: string): string =>
      `config/missing-key at ${path}: ${path} has "${key}", but nothing says which sandbox confines it`;
    const of = (extensions: string): readonly string[] => problemsOf(config(`extensions: ${extensions}`));
    const [table, entry] = ["config.extensions", "config.extensions.a"];
    expect(of(`{sandbox: {memory: 1GB}, a: {package: "npm:a"}}`)).toEqual([missing(table, "memory")]);
    expect(of(`{network: [host], a: {package: "npm:a"}}`)).toEqual([missing(table, "network")]);
    expect(of(`{a: {package: "npm:a", read: [x], memory: 1GB}}`)).toEqual([missing(entry, "read")]);
    expect(of(`{a: {package: "npm:a", sandbox: {image: x}}}`)).toEqual([missing(entry, "image")]);
    for (const chosen of [
      `{sandbox: process, a: {package: "npm:a", memory: 1GB, sandbox: {read: [x]}}}`,
      `{sandbox: none, network: [host], a: {package: "npm:a", memory: 1GB}}`,
      `{a: {package: "npm:a", memory: 1GB, sandbox: {kind: process}}}`,
    ])
      expect(of(chosen)).toEqual([]);
  });

  it("refuses a misspelt sandbox in the older versions too", () => {
    expect(problemsOf(config(`extensions: {a: {package: "npm:a", sandobx: process}}`))).toEqual([
      'config/unknown-key at config.extensions.a.sandobx: unknown key "sandobx" in config.extensions.a',
    ]);
    expect(
      problemsOf(config(`extensions: {a: {package: "npm:a", env: {memroy: "1"}, networks: [host]}}`)),
    ).toEqual([
      'config/unknown-key at config.extensions.a.networks: unknown key "networks" in config.extensions.a',
    ]);
  });

  it("knows the older ways to name an agent and a judge", () => {
    const old = config(`
agentFile: agent.yaml
LLMJudge: {reason: none, env: {baseUrlKey: URL, apiKeyKey: KEY, modelNameKey: MODEL}}
`);
    expect(evalOf(old)).toMatchObject({
      agent: { kind: "file", path: "agent.yaml" },
      judge: { kind: "env", baseURL: "URL", apiKey: "KEY", model: "MODEL" },
    });
    expect(notesOf(old)).toEqual([
      'eval.yaml: unknown key "reason" in config.LLMJudge is ignored',
      "eval.yaml: agentFile is obsolete: write agent: {type: file, path: …}",
    ]);
    expect(evalOf(config("agent: {type: builtin.claude-code, model: x}")).agent).toEqual({
      kind: "claude-code",
    });
    expect(evalOf(config("agent: {type: builtin.openai-agent, model: gpt-5}")).agent).toEqual({
      kind: "llm-agent",
      model: "openai/gpt-5",
    });
    expect(evalOf(config("agent: {type: builtin.llm-agent, model: 'gemini:gemini-3-pro'}")).agent).toEqual({
      kind: "llm-agent",
      model: "google/gemini-3-pro",
    });
  });

  it.each([
    ["kind: Task\nconfig: {taskSets: [{path: a}]}", 'config/invalid-value at kind: kind must be "Eval"'],
    ["kind: Eval\nconfig: {}", "config/nothing-to-run at config: the eval has no task sets"],
    [
      "apiVersion: v3\nkind: Eval\nconfig: {taskSets: [{path: a}]}",
      "config/invalid-value at apiVersion: the apiVersion is not known",
    ],
    [
      "kind: Eval\nconfig: {taskSets: [{path: a, glob: b}]}",
      "config/invalid-value at config.taskSets[0]: a task set has either path or glob; this one has both",
    ],
    [
      "kind: Eval\nconfig: {sources: {far: {repo: r, ref: main}}, taskSets: [{glob: b, source: far}]}",
      "config/invalid-value at config.taskSets[0].source: tasks of a source are not fetched by this version",
    ],
    [
      "kind: Eval\nconfig: {taskSets: [{glob: b, source: far}]}",
      'config/unknown-reference at config.taskSets[0].source: no source is named "far"',
    ],
    [
      "kind: Eval\nconfig: {TaskSets: [{glob: b, assertions: {SkillsLoaded: [{skill: a}], maxToolCalls: 1}}]}",
      "config/invalid-value at config.TaskSets[0].assertions.SkillsLoaded: skillsLoaded says nothing: the eval gives agents no skills",
    ],
    [
      config("skills: {sources: [{type: git, path: x}]}"),
      'config/invalid-value at config.skills.sources[0].type: config.skills.sources[0].type must be "path"',
    ],
    [
      config("llmJudge: {}"),
      "config/missing-key at config.llmJudge: llmJudge does not say which model judges",
    ],
    [
      config("agent: {type: file}"),
      'config/missing-key at config.agent: an agent with type "file" needs path',
    ],
    [
      config("defaultTaskLimits: {timeout: 300}"),
      'config/invalid-value at config.defaultTaskLimits.timeout: config.defaultTaskLimits.timeout must be a duration above zero with its unit, such as "300ms", "90s", "1h30m"',
    ],
  ])("is refused: %s", (yaml, problem) => {
    expect(problemsOf(yaml)).toEqual([problem]);
  });

  it("refuses a pattern that is none", () => {
    const yaml =
      "kind: Eval\nconfig: {taskSets: [{glob: b, assertions: {toolsUsed: [{server: a, toolPattern: '('}]}}]}";
    expect(problemsOf(yaml)).toEqual([
      expect.stringMatching(
        /^config\/invalid-value at config\.taskSets\[0\]\.assertions\.toolsUsed\[0\]\.toolPattern: .* is not a valid RE2 pattern: ./,
      ),
    ]);
  });

  it("is strict when it says that it is of this format", () => {
    const yaml =
      "apiVersion: mcp-eval/v1\nkind: Eval\nconfig: {mcpConfigFiel: x, taskSets: [{path: a, labelSelector: {n: 1}}]}";
    expect(problemsOf(yaml)).toEqual([
      "config/invalid-value at config.taskSets[0].labelSelector.n: config.taskSets[0].labelSelector.n must be a string, not a number",
      'config/unknown-key at config.mcpConfigFiel: unknown key "mcpConfigFiel" in config',
    ]);
  });

  it("may assert only of servers that there are", () => {
    const { assertions = {} } = evalOf(whole).taskSets[1] ?? {};
    expect(unknownAssertedServers(assertions, ["x"], ["k8s", "docs"])).toEqual([]);
    expect(unknownAssertedServers(assertions, ["x"], ["k8", "docs"])).toMatchObject([
      { message: 'no server is named "k8s"', hint: 'Did you mean "k8"? Known servers: k8, docs.' },
    ]);
  });
});
