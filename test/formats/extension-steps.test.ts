import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { McpvalsError } from "../../src/base/error.ts";
import { defaultSandbox } from "../../src/model/sandbox.ts";
import type { ExtensionSpec } from "../../src/model/task.ts";
import type { LoadedConfig } from "../../src/formats/assemble-eval.ts";
import { prepare } from "../../src/run/prepare.ts";
import { folderOf } from "../support/cli.ts";
import { load, loadIn, task } from "./support/load.ts";

const old = `kind: Task
apiVersion: mcpchecker/v1alpha2
metadata: { name: old }
spec:
  requires: [{ extension: kubernetes, as: k8s }]
  prompt: { inline: hi }
  verify:
    - script: { inline: "test -d ." }
    - { id: mine, k8s.wait: { token: "secret-in-args" } }
`;

function extensionsOf(loaded: LoadedConfig): Readonly<Record<string, ExtensionSpec>> {
  return loaded.eval.tasks[0]?.portable?.extensions ?? {};
}

/** Without where it is said. */
function plain(spec: ExtensionSpec): Partial<ExtensionSpec> {
  return Object.fromEntries(Object.entries(spec).filter(([key]) => key !== "location"));
}

async function problemsOf(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
  } catch (error) {
    if (error instanceof McpvalsError) return error.details.diagnostics;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("tasks with steps of extensions", () => {
  const spec = `  imports: [{ package: "github.com/a/b@v1", as: k8s }]
  setup:
    - k8s.apply: { file: x }
`;

  it("load by themselves, with all defaults", async () => {
    using folder = folderOf({ "t/a.yaml": task("a", { spec }), "t/b.yaml": task("b") });
    const loaded = await load(folder.path, { source: "t" });
    expect(extensionsOf(loaded)).toEqual({
      k8s: {
        alias: "k8s",
        package: "github.com/a/b@v1",
        dir: join(folder.path, "t"),
        config: {},
        env: {},
        sandbox: defaultSandbox,
        location: expect.objectContaining({ file: join("t", "a.yaml"), line: 9 }),
      },
    });
    expect(loaded.eval.extensionSettings).toBeUndefined();
    expect([...loaded.extensionUses]).toEqual([
      [
        "a",
        [
          {
            step: "setup[0]",
            phase: "setup",
            extension: "k8s",
            operation: "apply",
            args: { file: "x" },
            location: expect.objectContaining({ file: join("t", "a.yaml"), line: 11, column: 7 }),
            frame: expect.stringContaining("> 11 |     - k8s.apply"),
          },
        ],
      ],
    ]);
    expect(prepare(loaded, {}).eval.tasks).toHaveLength(2);
  });

  it("get what their eval says of them", async () => {
    const evaluation = `kind: Eval
apiVersion: mcp-eval/v1
config:
  taskSets: [{ path: tasks/a.yaml }]
  extensions:
    k8s:
      package: ./mine
      config: { kubeconfig: "{env.KUBE}", password: "config-s3cret" }
      env: { API_TOKEN: "\${TOKEN_VALUE}", HOST: "{env.KUBE}" }
      memory: 1GB
      timeout: 9s
    sandbox: { kind: process, read: [data, ~/x], network: [host] }
    cacheDir: ~/cache
    timeout: 20s
    allowedSources: [./*]
`;
    const more = `${spec}    - other.run: {}\n`.replace("}]", '}, { package: "npm:o@1", as: other }]');
    using folder = folderOf({ "eval.yaml": evaluation, "tasks/a.yaml": task("a", { spec: more }) });
    const environment = { TOKEN_VALUE: "t0ken-value-123", KUBE: "/kube", HOME: "/home/me" };
    const loaded = await load(folder.path, { source: "eval.yaml", environment });
    const sandbox = {
      ...defaultSandbox,
      kind: "process",
      network: "host",
      read: [join(folder.path, "data"), "~/x"],
    };
    const { k8s, other } = extensionsOf(loaded);
    expect([k8s, other].flatMap((each) => (each === undefined ? [] : [plain(each)]))).toEqual([
      {
        alias: "k8s",
        package: "./mine",
        dir: folder.path,
        config: { kubeconfig: "{env.KUBE}", password: "config-s3cret" },
        env: { API_TOKEN: "t0ken-value-123", HOST: "{env.KUBE}" },
        sandbox: { ...sandbox, memoryBytes: 1024 ** 3 },
      },
      { alias: "other", package: "npm:o@1", dir: join(folder.path, "tasks"), config: {}, env: {}, sandbox },
    ]);
    const setup = loaded.eval.tasks[0]?.portable?.setup ?? [];
    expect(setup.map(({ timeoutMs }) => timeoutMs)).toEqual([9000, 20_000]);
    expect(loaded.eval.extensionSettings).toEqual({
      cacheDir: join("/home/me", "cache"),
      allowedSources: ["./*"],
    });
    expect(loaded.secrets.map(({ value }) => value)).toEqual(
      expect.arrayContaining(["t0ken-value-123", "config-s3cret"]),
    );
    expect(loaded.notes).toEqual([
      `${join("tasks", "a.yaml")}:9: the import "k8s" is ./mine, as the eval says, not github.com/a/b@v1`,
    ]);
  });

  it("may use what only a config declares, and are told of everything that is wrong there", async () => {
    const server = `server: { transport: shttp, url: "http://127.0.0.1:1/" }\n`;
    const config = (extensions: string): string => `${server}tasks: [t/*.yaml]\nextensions: ${extensions}\n`;
    const files = { "t/a.yaml": task("a", { spec: `  setup:\n    - db.query: { sql: x }\n` }) };
    using folder = folderOf({ ...files, "mcp-eval.config.yaml": config("{ db: { package: mcpvals:sql } }") });
    const loaded = await load(folder.path, { source: "mcp-eval.config.yaml" });
    expect(Object.values(extensionsOf(loaded)).map(plain)).toEqual([
      { alias: "db", package: "mcpvals:sql", dir: folder.path, config: {}, env: {}, sandbox: defaultSandbox },
    ]);
    using unknown = folderOf({ ...files, "mcp-eval.config.yaml": config("{ x: { package: y } }") });
    expect(await problemsOf(load(unknown.path, { source: "mcp-eval.config.yaml" }))).toMatchObject([
      { code: "extension/invalid-package", message: 'extensions.x.package: "y" is not a valid package' },
      { code: "config/unknown-reference" },
    ]);
  });

  it("are refused when what starts their extensions refers to nothing", async () => {
    const evaluation = `kind: Eval
config:
  taskSets: [{ path: a.yaml }, { path: b.yaml }, { path: old.yaml }]
  extensions:
    k8s:
      package: ./mine
      config: { kept: ["{workspace} {random.id} {foo.x} {env.HERE} {steps.made.outputs.any}"], a: "{env.ABSENT}" }
      env: { B: "{agent.output} {steps.mad.outputs.x}" }
    kubernetes: { package: ./mine, config: { c: "{task.nam}", d: "{steps.mine.outputs.x} {env.HERE}" } }
    unused: { package: ./mine, config: { e: "{env.ABSENT}" } }
`;
    const uses = spec.replace("{ file: x }", "{ id: made }");
    const files = {
      "eval.yaml": evaluation,
      "a.yaml": task("a", { spec: `${uses}  env: { ABSENT: "" }\n` }),
      "b.yaml": task("b", { spec: "" }).replace('command: { run: "test -d ." }', "k8s.get: { id: made }"),
      "old.yaml": old,
    };
    const problems = await problemsOf(loadIn(files, { source: "eval.yaml", environment: { HERE: "here" } }));
    const k8s = {
      location: { file: "eval.yaml", line: 5 },
      frame: expect.stringContaining("> 5 |     k8s:"),
    };
    expect(problems).toMatchObject([
      {
        ...k8s,
        message:
          "extensions.k8s.env.B: {agent.output} is not there when an operation of setup starts the extension",
      },
      {
        ...k8s,
        message: "extensions.k8s.env.B: {steps.mad.outputs.x} names no step",
        hint: 'Used by the task "a". Did you mean "made"? Known step ids: made.',
      },
      {
        ...k8s,
        code: "config/unknown-reference",
        message: "extensions.k8s.config.a: {env.ABSENT} is a variable that is not set",
        hint: expect.stringMatching(/^Used by the task "b".* --env ABSENT=VALUE/),
      },
      {
        message: "extensions.kubernetes.config.c: {task.nam} refers to nothing",
        hint: 'Used by the task "old". Did you mean "name"? Known names: name.',
        location: { file: "eval.yaml", line: 9 },
      },
    ]);
    expect(problems).toHaveLength(4);
  });

  it("of the older forms use the extensions of their eval, and lack them without", async () => {
    const evaluation = `kind: Eval
apiVersion: mcpchecker/v1alpha2
config:
  taskSets: [{ path: old.yaml }]
  extensions:
    kubernetes:
      package: https://github.com/kube/ext@v0.0.2
      config: { kubeconfig: ~/.kube/config }
      env: { KUBECONFIG: "{env.KUBECONFIG}" }
`;
    using folder = folderOf({ "old.yaml": old, "eval.yaml": evaluation });
    const loaded = await load(folder.path, { source: "eval.yaml", environment: { KUBECONFIG: "/k" } });
    expect(Object.values(extensionsOf(loaded)).map(plain)).toEqual([
      {
        alias: "kubernetes",
        package: "https://github.com/kube/ext@v0.0.2",
        dir: folder.path,
        config: { kubeconfig: "~/.kube/config" },
        env: { KUBECONFIG: "{env.KUBECONFIG}" },
        inheritEnv: true,
        sandbox: defaultSandbox,
      },
    ]);
    expect(loaded.eval.tasks[0]?.portable?.requires).toEqual([]);
    const [use] = loaded.extensionUses.get("old") ?? [];
    expect(use).toMatchObject({
      step: "mine",
      phase: "verify",
      extension: "kubernetes",
      operation: "wait",
      location: { line: 9, column: 19 },
    });
    expect(use?.frame).not.toContain("secret-in-args");
    const alone = await load(folder.path, { source: "old.yaml" });
    expect(alone.eval.tasks[0]?.portable?.requires).toEqual([{ kind: "extension", name: "kubernetes" }]);
    expect([alone.extensionUses.get("old")?.length, extensionsOf(alone)]).toEqual([1, {}]);
  });

  it("of the older forms may require an extension that they do not use", async () => {
    const unused = old.replace(/ {4}- \{ id: mine.*\n/, "");
    const loaded = await loadIn({ "old.yaml": unused }, { source: "old.yaml" });
    expect(loaded.eval.tasks[0]?.portable?.requires).toEqual([{ kind: "extension", name: "kubernetes" }]);
  });
});
