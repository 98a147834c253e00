import { createHash } from "node:crypto";
import { chmodSync, readdirSync, readFileSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { exportFile } from "../../src/cli/commands/task.ts";
import type { TaskExport } from "../../src/formats/task/task-export.ts";
import { folderOf, root, runHere, runIn } from "../support/cli.ts";

const schema = JSON.parse(readFileSync(join(root, "schemas/task-export.schema.json"), "utf8")) as object;
const validate: ValidateFunction = new Ajv2020({
  strict: true,
  strictTypes: false,
  allowUnionTypes: true,
}).compile(schema);

const everything = `kind: Task
apiVersion: mcp-eval/v1
metadata:
  name: everything
  tags: [all]
  labels: { team: red }
  timeout: 2m
  stateProbe: [listing.files]
spec:
  servers:
    files: { command: mcp-server-filesystem, args: ["{workspace}"], env: { KEY: value } }
    confined: { command: node, lifetime: per_trial, required: true, sandbox: process, write: ["{workspace}"], read: [checks] }
    remote: { url: "http://127.0.0.1:{random.port}/mcp", headers: { authorization: "Bearer {env.TOKEN}" } }
  requires: [{ command: node }, { env: TOKEN }, { judge: true }]
  env: { GREETING: "hello {random.id}" }
  fixtures: [data]
  prompt: [Say hi., { file: second.txt }]
  graders: [{ type: text, name: greets, config: { contains: [hi] } }]
  setup:
    - command: { id: listing, run: ls, outputs: { files: "{stdout}" } }
    - file: { path: "{workspace}/a.txt", content: x, mode: "0600" }
  verify:
    - script: { file: checks/verify.sh, args: [-v], protocol: json }
    - script: { inline: "test -d .", env: { A: "1" }, continueOnError: true }
    - http: { url: "{servers.remote.url}", body: { json: { a: [1] } }, retry: { for: 3s }, stableFor: 1s, expect: { status: [200, 4xx], headers: { x: { matches: a } }, body: { json: { path: .a, equals: 1 } } } }
    - file: { path: "{workspace}/a.txt", expect: { exists: true, mode: "0600", contains: xyz } }
    - file: { path: "{workspace}/b.txt", absent: true }
    - llm: { rubric: polite, input: "{agent.output}" }
    - files.list_allowed_directories: { expect: { text: { contains: "{workspace}" }, schema: { type: object } } }
    - mcp: { server: files, resource: "file:///a" }
    - mcp: { server: files, prompt: greet, args: { a: 1 } }
    - foreach: { var: name, in: [a, { b: 1 }], steps: [{ command: { run: "test -n {name}", if: "{env.GREETING}" } }] }
    - anyOf: [{ command: { run: "test -d ." } }, { allOf: [{ command: { run: "test -d ." } }] }]
    - not: { command: { run: "false" } }
    - group: { setup: [{ command: { run: "test -d ." } }], steps: [{ command: { run: "test -d .", stdin: x, workdir: data } }], cleanup: [] }
  cleanup:
    - file: { path: "{workspace}/a.txt", absent: true }
  solution:
    - files.list_allowed_directories: {}
    - mcp: { server: files, resource: "file:///a", id: read, outputs: { all: "{text}" } }
    - say: Hi.
`;

const files = {
  "task.yaml": everything,
  "second.txt": "And now?\n",
  "checks/verify.sh": "#!/bin/sh\ntest -f a.txt && echo '{}'\n",
  "data/a.txt": "a\n",
  "data/deep/b.bin": "\u0000binary",
};

async function exported(
  cwd: string,
  args: readonly string[],
): Promise<{ readonly document: TaskExport; readonly stderr: string }> {
  const { code, stdout, stderr } = await runHere(["task", "export", ...args], { cwd });
  expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
  return { document: JSON.parse(stdout) as TaskExport, stderr };
}

describe("mcpvals task export", () => {
  it("gives everything that a task is and needs, as its schema says", async () => {
    using folder = folderOf(files);
    chmodSync(join(folder.path, "checks/verify.sh"), 0o755);
    const { document } = await exported(folder.path, ["task.yaml", "--format", "json"]);
    expect(validate(document) || validate.errors).toBe(true);
    expect(document).toMatchObject({
      schema: "mcpvals.task/2",
      task: {
        name: "everything",
        turns: [{ user: "Say hi." }, { user: "And now?" }],
        graders: [{ type: "text", name: "greets", config: { contains: ["hi"] }, dir: "." }],
        portable: {
          tags: ["all"],
          labels: { team: "red" },
          format: "mcp-eval/v1",
          file: "task.yaml",
          dir: ".",
          env: { GREETING: "hello {random.id}" },
          requires: [{ kind: "command", name: "node" }, { kind: "env", name: "TOKEN" }, { kind: "judge" }],
          timeoutMs: 120_000,
          cleanupTimeoutMs: 60_000,
          stateProbe: ["listing.files"],
          fixtures: ["data"],
        },
      },
      servers: {
        files: { transport: "stdio", args: ["{workspace}"], env: { KEY: "value" }, cwd: "." },
        remote: {
          url: "http://127.0.0.1:{random.port}/mcp",
          headers: { authorization: "Bearer {env.TOKEN}" },
        },
      },
    });
    expect(document.task.portable?.setup[0]).toEqual({
      type: "command",
      id: "listing",
      timeoutMs: 60_000,
      outputs: { files: "{stdout}" },
      run: "ls",
      env: {},
      expect: { exitCode: 0 },
    });
    expect(document.task.verify.map((step) => step.type)).toEqual(
      "script script http file file llm mcp mcp mcp foreach anyOf not group".split(" "),
    );
  });

  it("has the files that the task names, with their hashes", async () => {
    using folder = folderOf(files);
    chmodSync(join(folder.path, "checks/verify.sh"), 0o755);
    const { document } = await exported(folder.path, ["task.yaml"]);
    const known = document.artifacts.map(({ path, role, text }) => ({ path, role, text }));
    expect(known).toEqual([
      { path: "second.txt", role: "prompt", text: "And now?\n" },
      { path: "checks/verify.sh", role: "script", text: "#!/bin/sh\ntest -f a.txt && echo '{}'\n" },
      { path: "data/a.txt", role: "fixture", text: "a\n" },
      { path: "data/deep/b.bin", role: "fixture", text: undefined },
    ]);
    for (const { path, sha256, bytes, text, base64 } of document.artifacts) {
      const content = readFileSync(join(folder.path, path));
      expect(text === undefined ? Buffer.from(base64 ?? "", "base64") : Buffer.from(text)).toEqual(content);
      expect(bytes).toBe(content.length);
      expect(sha256).toBe(createHash("sha256").update(content).digest("hex"));
    }
    expect(document.artifacts.find(({ role }) => role === "script")?.mode).toBe("0755");
  });

  it("says where extensions come from, and has those in the task's folder", async () => {
    const task = `apiVersion: mcp-eval/v1
kind: Task
metadata: { name: x }
spec:
  imports: [{ package: "github.com/o/k@v1", as: k8s }, { package: ./ext, as: own }]
  setup:
    - k8s.create: { kind: Pod }
    - own.make: {}
  verify:
    - group: { steps: [{ extension: { package: "npm:@o/db@^1", action: query, args: { sql: x } } }] }
`;
    using folder = folderOf({ "task.yaml": task, "ext/extension.yaml": "name: own\n", "ext/own": "run" });
    const { document } = await exported(folder.path, ["task.yaml"]);
    expect(validate(document) || validate.errors).toBe(true);
    expect(document.task.portable?.setup).toMatchObject([
      { extension: "k8s", operation: "create", args: { kind: "Pod" } },
      { extension: "own", operation: "make", args: {}, timeoutMs: 300_000 },
    ]);
    expect(document.task.verify).toMatchObject([
      { steps: [{ extension: "npm:@o/db@^1", operation: "query" }] },
    ]);
    expect(document.task.portable?.extensions).toMatchObject({
      k8s: { package: "github.com/o/k@v1", dir: "." },
      own: { package: "./ext", dir: "." },
      "npm:@o/db@^1": { package: "npm:@o/db@^1" },
    });
    expect(document.artifacts.map(({ path, role }) => [path, role])).toEqual([
      ["ext/extension.yaml", "extension"],
      ["ext/own", "extension"],
    ]);
    const old = `kind: Task
apiVersion: mcpchecker/v1alpha2
metadata: { name: old }
spec:
  requires: [{ extension: kubernetes, as: k8s }]
  prompt: { inline: hi }
  verify: [{ k8s.wait: {} }]
`;
    using older = folderOf({ "old.yaml": old });
    const { document: exportedOld } = await exported(older.path, ["old.yaml"]);
    expect(validate(exportedOld) || validate.errors).toBe(true);
    expect(exportedOld.task.portable?.requires).toEqual([{ kind: "extension", name: "kubernetes" }]);
    expect(exportedOld.task.portable?.extensions ?? {}).not.toHaveProperty("kubernetes");
  });

  it("holds nothing of the machine that it was made on", async () => {
    using folder = folderOf(files);
    const { stdout } = await runHere(["task", "export", "task.yaml"], {
      cwd: folder.path,
      env: { TOKEN: "token-of-this-machine" },
    });
    expect(stdout).not.toContain("token-of-this-machine");
    expect(stdout).not.toContain(folder.path);
  });

  it("exports the older forms, and every example", async () => {
    const old = `kind: Task
metadata: { name: old }
steps:
  setup: { file: setup.sh }
  prompt: { file: prompt.txt }
  verify: { contains: "{agent.output} and {env.X}" }
`;
    using folder = folderOf({ "old.yaml": old, "setup.sh": "true", "prompt.txt": "hi" });
    const { document } = await exported(folder.path, ["old.yaml"]);
    expect(validate(document) || validate.errors).toBe(true);
    expect(document.task).toMatchObject({
      turns: [{ user: "hi" }],
      portable: { format: "script-form", inheritEnv: true },
    });
    expect(document.artifacts.map(({ path }) => path)).toEqual(["prompt.txt", "setup.sh"]);
    const examples = join(root, "examples/tasks");
    for (const name of readdirSync(examples).filter((each) => each.endsWith(".yaml"))) {
      if (!readFileSync(join(examples, name), "utf8").includes("kind: Task")) continue;
      const example = await exportFile(name, { cwd: examples, allowOutside: false });
      expect(validate(example.document) || validate.errors).toBe(true);
    }
  });

  it("writes into a file", async () => {
    using folder = folderOf(files);
    const { stdout } = await runHere(["task", "export", "task.yaml"], { cwd: folder.path });
    const outcome = await runHere(["task", "export", "task.yaml", "--out", "new/task.json"], {
      cwd: folder.path,
    });
    expect(outcome).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(readFileSync(join(folder.path, "new/task.json"), "utf8")).toBe(stdout);
  });

  it("refuses files that are more than 64 MiB together", async () => {
    const spec = { prompt: "p", fixtures: ["a", "b"], verify: [{ command: { run: "false" } }] };
    const task = { kind: "Task", apiVersion: "mcp-eval/v1", metadata: { name: "big" }, spec };
    using folder = folderOf({ "t.json": task, a: "", b: "" });
    for (const name of spec.fixtures) truncateSync(join(folder.path, name), 33 * 1024 * 1024);
    await expect(exportFile("t.json", { cwd: folder.path, allowOutside: false })).rejects.toMatchObject({
      message: "the files of big are more than 64 MiB together, too much for one document",
    });
  });

  it.each([
    ["a task that is wrong", everything.replace("run: ls", "rum: ls"), "unknown key"],
    [
      "a file outside of the task's folder",
      everything.replace("[data]", "[../data]"),
      "outside the task's folder",
    ],
    ["an Eval", "kind: Eval\nmetadata: { name: e }\n", "is not a task"],
  ])("refuses %s", async (_, text, message) => {
    const outcome = await runIn({ ...files, "task.yaml": text }, ["task", "export", "task.yaml"]);
    expect(outcome).toMatchObject({ code: 2, stdout: "" });
    expect(outcome.stderr).toContain(message);
  });
});
